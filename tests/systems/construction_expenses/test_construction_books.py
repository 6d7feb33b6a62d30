"""S1.1: the data of companies, written conditionally and read through every index, page after page."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from construction_world import new_books

from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue
from penstock.clock import ManualClock
from penstock.systems.construction_expenses.books import DAY_SECONDS, AlreadyThere, Books, NotThere, NoWayToFind
from penstock.tables.definitions.definition import Naming

World = tuple[Books, ManualClock]


@pytest.fixture(params=["embedded", "http"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with new_books(request.param) as made:
        yield made


@pytest.fixture
def books(world: World) -> Books:
    return world[0]


KEYS: dict[str, dict[str, str]] = {
    "companies": {"companyId": "c1", "appleSubscriptionId": "a1"},
    "company-users": {"companyId": "c1", "userId": "u1", "email": "ada@example.org"},
    "company-expenses": {"companyId": "c1", "expenseId": "e1", "invoiceNum": "7", "contractorId": "k1"},
    "company-projects": {"companyId": "c1", "projectId": "p1"},
    "company-contractors": {"companyId": "c1", "contractorId": "k1"},
    "company-works": {"companyId": "c1", "workId": "w1"},
    "invitations": {"companyId": "c1", "invitationId": "i1", "email": "ada@example.org"},
    "paddle-subscriptions": {"companyId": "c1", "subscriptionId": "s1", "paddleCustomerId": "m1"},
    "paddle-customers": {"paddleCustomerId": "m1", "email": "ada@example.org", "companyId": "c1"},
    "paddle-payments": {"paymentId": "p1", "companyId": "c1", "createdAt": "2025-06-16T21:19:33.789Z"},
    "paddle-webhooks": {"webhookId": "w1", "alertName": "paid", "processedAt": "2025-06-16T21:19:33.789Z"},
    "paddle-webhook-dlq": {"dlqEntryId": "d1", "status": "pending", "lastFailedAt": "2025-06-16T21:19:33.789Z"},
    "pending-payments": {"userId": "u1"},
}
"""An item of each table that is in all its indexes."""


def test_S1_1_every_table_is_written_and_read_by_its_key_and_by_every_index(books: Books) -> None:
    assert list(books.collections) == list(KEYS)
    asked = 0
    for suffix, item in KEYS.items():
        collection = books.collections[suffix]
        written = collection.add({**item, "rate": Decimal("0.17")})
        assert collection.get(*collection.key_of(item).values()) == written
        for index in collection.definition.indexes:
            wanted = {name: item[name] for name in index.key.names}
            (found,) = collection.find(index.name, wanted)
            (by_partition,) = collection.find(index.name, dict([next(iter(wanted.items()))]))
            assert found == by_partition
            assert found == written if index.projection == "ALL" else found.keys() < written.keys()
            asked += 1
    assert asked == 13


def test_S1_1_each_index_has_a_read_by_name(books: Books) -> None:
    for suffix, item in KEYS.items():
        books.collections[suffix].add(item)
    reads: list[Iterator[Any]] = [
        books.companies.by_apple_subscription("a1"),
        books.users.by_user("u1"),
        books.users.by_email("ada@example.org"),
        books.expenses.invoice_keys("c1", "7"),
        books.expenses.by_invoice("c1", "7"),
        books.expenses.of_contractor("k1", invoices_from="7"),
        books.invitations.by_email("ada@example.org"),
        books.subscriptions.by_subscription("s1"),
        books.subscriptions.by_customer("m1"),
        books.customers.by_email("ada@example.org"),
        books.customers.of_company("c1"),
        books.payments.of_company("c1", since="2025-06", until="2025-07"),
        books.webhooks.of_alert("paid", since="2025-06-16"),
        books.dead_letters.by_status("pending", until="2025-07"),
    ]
    assert [len(list(read)) for read in reads] == [1] * len(reads)
    assert books.summary("c1") == {
        "users": 1,
        "expenses": 1,
        "projects": 1,
        "contractors": 1,
        "works": 1,
        "invitations": 1,
        "customers": 1,
        "payments": 1,
    }


def test_S1_1_reads_go_on_page_after_page(books: Books) -> None:
    rows = [
        {"companyId": "c1", "expenseId": f"e{n:03d}", "invoiceNum": f"{n:03d}", "contractorId": "k1"}
        for n in range(120)
    ]
    assert books.expenses.put_many(rows) == 120
    assert len(list(books.expenses.of_company("c1", page_size=7))) == 120
    assert len(list(books.expenses.by_invoice("c1"))) == 120
    first = books.expenses.of_contractor("k1", limit=50)
    seen = [one["invoiceNum"] for one in first]
    seen += [one["invoiceNum"] for one in books.expenses.of_contractor("k1", token=first.token)]
    assert seen == [row["invoiceNum"] for row in rows]


def test_S1_1_an_invoice_gives_the_whole_expense_though_its_index_has_keys_only(books: Books) -> None:
    written = books.expenses.add(KEYS["company-expenses"] | {"amount": Decimal("12.50")})
    assert list(books.expenses.by_invoice("c1", "7")) == [written]
    assert "amount" not in next(books.expenses.invoice_keys("c1", "7"))


def test_adding_what_is_there_changes_nothing(books: Books) -> None:
    books.companies.add({"companyId": "c1", "name": "Ada's Roofs"})
    with pytest.raises(AlreadyThere, match="has companyId 'c1' already"):
        books.companies.add({"companyId": "c1", "name": "Bela's Drains"})
    assert books.companies.required("c1")["name"] == "Ada's Roofs"


def test_changing_what_is_not_there_makes_no_ghost(books: Books) -> None:
    with pytest.raises(NotThere, match="has no companyId 'c1' and projectId 'p1'"):
        books.projects.change("c1", "p1", set={"name": "Mill Lane"})
    assert books.projects.get("c1", "p1") is None
    assert books.projects.delete("c1", "p1") is None


def test_a_change_is_conditional_and_tells_its_time(world: World) -> None:
    books, clock = world
    books.works.add({"companyId": "c1", "workId": "w1", "state": "open", "note": "x"})
    clock.advance(60)
    changed = books.works.change("c1", "w1", set={"state": "done"}, remove=["note"], if_=F("state") == "open")
    assert (changed["state"], "note" in changed) == ("done", False)
    assert changed["updatedAt"] > changed["createdAt"]
    with pytest.raises(ConditionFailed):
        books.works.change("c1", "w1", set={"state": "gone"}, if_=F("state") == "open")
    assert books.works.required("c1", "w1") == changed


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"companyId": "c1", "userId": ""}, "userId: a key must not be empty"),
        ({"companyId": "c1", "userId": "u1", "email": ""}, "email: a key must not be empty"),
        ({"companyId": "c1", "userId": "u1", "email": 7}, "email: a key must be a str, and this is int"),
        ({"companyId": "c1", "userId": "u1", "email": None}, "email: a key must be a str, and this is NoneType"),
        ({"companyId": "c1"}, "userId: "),
        ({"companyId": "c1", "userId": "u1", "rates": [{"at": float("nan")}]}, r"rates\[0\].at: NaN"),
        ({"companyId": "c1", "userId": "u1", "text": "x" * 410_000}, "text: the item has"),
    ],
)
def test_what_no_index_or_item_can_hold_is_refused_with_its_path(item: dict[str, Any], told: str) -> None:
    with new_books() as (books, _):
        with pytest.raises(InvalidValue, match=f"^{told}"):
            books.users.add(item)
        assert list(books.users.all()) == []


def test_S1_1_what_expires_lives_as_long_as_its_table_says(world: World) -> None:
    books, clock = world
    days = {"pending-payments": 1, "paddle-webhooks": 90, "paddle-webhook-dlq": 180}
    for suffix, lifetime in days.items():
        written = books.collections[suffix].add(KEYS[suffix])
        ttl = books.collections[suffix].definition.ttl
        assert ttl is not None
        assert written[ttl] == int(clock.now()) + lifetime * DAY_SECONDS


def test_what_has_expired_is_not_shown_and_may_be_added_again() -> None:
    with new_books() as (books, clock):
        pending = books.pending_payments
        pending.add({"userId": "u1", "plan": "monthly"})
        clock.advance(DAY_SECONDS - 1)
        assert pending.get("u1") is not None
        # Still in the table: DynamoDB deletes late.
        books.db.execute("UpdateTimeToLive", ttl_off(pending.name))
        clock.advance(1)
        assert pending.table.get({"userId": "u1"}) is not None
        assert pending.get("u1") is None
        assert list(pending.find(None, {"userId": "u1"})) == []
        assert list(pending.all()) == []
        with pytest.raises(NotThere):
            pending.change("u1", set={"plan": "yearly"})
        pending.add({"userId": "u1", "plan": "yearly"})


def ttl_off(table: str) -> dict[str, Any]:
    return {"TableName": table, "TimeToLiveSpecification": {"Enabled": False, "AttributeName": "expiresAt"}}


@pytest.mark.parametrize(
    ("expiry", "told"),
    [
        (1, "in the past"),
        (1_700_000_000_000, "is it in milliseconds"),
        (1.5, "not float"),
        ("2030", "not str"),
        (True, "not bool"),
    ],
)
def test_an_expiry_is_epoch_seconds_in_the_future(expiry: object, told: str) -> None:
    with new_books() as (books, _), pytest.raises(InvalidValue, match=told):
        books.pending_payments.add({"userId": "u1", "expiresAt": expiry})


def test_a_table_is_asked_by_whichever_key_begins_with_the_attributes(books: Books) -> None:
    expenses = books.expenses
    assert expenses.way(["companyId"]) is None
    assert expenses.way(["expenseId", "companyId"]) is None
    assert expenses.way(["companyId", "invoiceNum"]) == "invoiceNum-index"
    assert expenses.way(["contractorId"]) == "contractor-invoiceNum-index"
    with pytest.raises(
        NoWayToFind, match=r"cannot be asked by amount\. It can by companyId and expenseId; contractorId"
    ):
        expenses.find_by({"amount": "5"})
    with pytest.raises(ValueError, match="is companyId and expenseId: 1 values were given"):
        expenses.get("c1")


def test_S1_8_the_names_of_the_tables_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_books() as (books, _):
        for name, value in {"ENVIRONMENT": "staging", "TABLE_PREFIX": "my-app", "AWS_REGION": "us-west-2"}.items():
            monkeypatch.setenv(name, value)
        staging = Books(books.db)
        assert staging.companies.name == "my-app-staging-companies"
        assert staging.naming == Naming("my-app", "staging", "us-west-2")
        assert staging.make_tables() == 13
        assert staging.make_tables() == 0
        for name in ("ENVIRONMENT", "TABLE_PREFIX"):
            monkeypatch.delenv(name)
        assert Books(books.db).companies.name == "construction-expenses-companies"
