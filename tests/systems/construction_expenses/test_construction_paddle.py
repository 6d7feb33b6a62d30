"""What Paddle's events mean, in whatever order they come: subscriptions, payments, and what the application wrote."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from construction_world import event, new_books
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.clock import ManualClock
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.money import BadAmount, major_units, minor_units
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.subscriptions import (
    MOST_KEPT,
    Subscription,
    current_of,
    merged,
    subscriptions_form,
    subscriptions_in,
)
from penstock.systems.construction_expenses.webhooks.webhook import webhook_of


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Books, ManualClock]]:
    """One for all tests: each has a company, and ids, of its own."""
    with new_books() as made:
        yield made


_numbers = itertools.count(1)


def receive(world: tuple[Books, ManualClock], event_type: str, second: int, **data: Any) -> str:
    books, clock = world
    form = event(second, event_type, **data) | {"event_id": f"evt_p{next(_numbers)}"}
    return Intake(books, handle, wait=clock.advance).receive(webhook_of(form)).outcome


def subscription(second: int, subscription_id: str, status: str, company: str) -> dict[str, Any]:
    return {"second": second, "id": subscription_id, "status": status, "custom_data": {"companyId": company}}


# ── subscriptions ────────────────────────────────────────────────────────────────────────────────


def test_a_cancel_of_an_old_subscription_does_not_replace_the_active_one(world: tuple[Books, ManualClock]) -> None:
    for number, order in enumerate(itertools.permutations(range(3))):
        company = f"two-{number}"
        told = [
            subscription(1, f"old-{company}", "active", company),
            subscription(5, f"new-{company}", "active", company),
            subscription(9, f"old-{company}", "canceled", company),
        ]
        for one in order:
            receive(world, "subscription.updated", **told[one])
        found = world[0].subscriptions.required(company)
        assert (found["subscriptionId"], found["status"]) == (f"new-{company}", "active"), order
        assert [one["companyId"] for one in world[0].subscriptions.by_subscription(f"new-{company}")] == [company]


def test_when_the_newer_subscription_ends_one_that_still_runs_is_current_again(
    world: tuple[Books, ManualClock],
) -> None:
    for told in (
        subscription(1, "sub-a", "past_due", "again"),
        subscription(2, "sub-b", "active", "again"),
        subscription(3, "sub-b", "canceled", "again"),
    ):
        receive(world, "subscription.updated", **told)
    found = world[0].subscriptions.required("again")
    assert (found["subscriptionId"], found["status"], found["occurredAt"]) == (
        "sub-a",
        "past_due",
        "2025-06-16T21:19:01.000Z",
    )


def test_an_older_event_changes_nothing_and_what_the_application_wrote_stays(world: tuple[Books, ManualClock]) -> None:
    books, _ = world
    books.subscriptions.add({"companyId": "own", "seats": 7, "note": "by the application"})
    receive(world, "subscription.updated", **subscription(5, "sub-own", "active", "own"))
    first = books.subscriptions.required("own")
    assert (first["seats"], first["note"], first["status"]) == (7, "by the application", "active")
    receive(world, "subscription.updated", **subscription(4, "sub-own", "paused", "own"))
    after = books.subscriptions.required("own")
    assert {**after, "subscriptions": 0} == {**first, "subscriptions": 0}, "not even updatedAt, unless it began earlier"


def test_an_item_of_before_this_map_is_a_subscription_like_any_other(world: tuple[Books, ManualClock]) -> None:
    books, _ = world
    old = {
        "subscriptionId": "sub-1",
        "paddleCustomerId": "ctm",
        "status": "active",
        "occurredAt": "2025-06-16T21:19:01Z",
    }
    books.subscriptions.add({"companyId": "before", **old})
    receive(world, "subscription.canceled", **subscription(7, "sub-0", "canceled", "before"))
    assert books.subscriptions.required("before")["subscriptionId"] == "sub-1"
    receive(world, "subscription.canceled", **subscription(8, "sub-1", "canceled", "before"))
    assert books.subscriptions.required("before")["status"] == "canceled"


_told = st.builds(
    Subscription,
    status=st.sampled_from(["active", "trialing", "past_due", "paused", "canceled", "deleted", "new kind"]),
    customer_id=st.sampled_from(["ctm-1", "ctm-2"]),
    occurred_at=st.sampled_from(["t1", "t2", "t3", "t4"]),
    started_at=st.sampled_from(["t0", "t1", "t2"]),
)
_events = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), _told), min_size=1, max_size=6)


@given(_events, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_subscriptions_do_not_depend_on_the_order_or_number_of_deliveries(
    events: list[tuple[str, Subscription]], chance: Any
) -> None:
    def after(order: list[tuple[str, Subscription]]) -> dict[str, Subscription]:
        known: dict[str, Subscription] = {}
        for name, one in order:
            known = merged(known, name, one)
        return known

    shuffled = [*events, *events]
    chance.shuffle(shuffled)
    whole = after(events)
    assert (after(shuffled), current_of(after(shuffled))) == (whole, current_of(whole))
    assert subscriptions_in({"subscriptions": subscriptions_form(whole)}) == whole
    if any(one.rank == 4 for one in whole.values()):
        assert whole[current_of(whole)].rank == 4


def test_only_so_many_subscriptions_of_a_company_are_kept_and_the_live_one_is_among_them() -> None:
    known = {"live": Subscription("active", "c", "t", "t0")}
    for number in range(2 * MOST_KEPT):
        known = merged(known, f"sub-{number}", Subscription("canceled", "c", "t", f"t{number:03d}"))
    assert len(known) == MOST_KEPT
    assert current_of(known) == "live"


# ── payments ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("facts", "amount", "currency", "decimals"),
    [
        ({"details": {"totals": {"total": "1999"}}, "currency_code": "USD"}, 1999, "USD", 2),
        ({"details": {"totals": {"total": "4900"}}, "currency_code": "JPY"}, 4900, "JPY", 0),
        ({"sale_gross": "19.99", "currency": "USD"}, 1999, "USD", 2),
        ({"sale_gross": "304.9", "currency": "EUR"}, 30490, "EUR", 2),
        ({"sale_gross": "4900", "currency": "JPY"}, 4900, "JPY", 0),
        ({"sale_gross": "4900.00", "currency": "KRW"}, 4900, "KRW", 0),
        ({"sale_gross": "1.234", "currency": "KWD"}, 1234, "KWD", 3),
        ({"sale_gross": "-5.5", "currency": "gbp"}, -550, "GBP", 2),
    ],
)
def test_amounts_are_in_the_smallest_unit_of_billing_and_of_classic_alike(
    world: tuple[Books, ManualClock], facts: dict[str, Any], amount: int, currency: str, decimals: int
) -> None:
    payment = f"pay-{next(_numbers)}"
    receive(world, "transaction.completed", 3, id=payment, custom_data={"companyId": "paid"}, **facts)
    found = world[0].payments.required(payment)
    assert (found["amount"], found["currency"], found["currencyDecimals"]) == (amount, currency, decimals)


def test_an_amount_with_more_decimals_than_its_currency_is_refused() -> None:
    for text, currency in (("1.5", "JPY"), ("1.999", "USD"), ("1e40", "USD"), ("ten", "USD")):
        with pytest.raises(BadAmount):
            minor_units(text, currency)
    assert str(major_units(minor_units("1234.50", "EUR"), "EUR")) == "1234.50"


def test_a_payment_has_the_time_of_its_first_event_and_what_was_added_to_it(world: tuple[Books, ManualClock]) -> None:
    books, _ = world
    paid: dict[str, Any] = {
        "id": "txn-9",
        "custom_data": {"companyId": "c-9"},
        "currency_code": "EUR",
        "details": {"totals": {"total": "100"}},
    }
    receive(world, "transaction.completed", 20, **paid)
    books.payments.change("txn-9", set={"bookedBy": "ada"})
    receive(world, "transaction.paid", 10, **paid)
    found = books.payments.required("txn-9")
    assert (found["bookedBy"], found["createdAt"][-6:], found["occurredAt"][-6:]) == ("ada", "0.000Z", "0.000Z")
    assert (found["createdAt"][17:19], found["occurredAt"][17:19]) == ("10", "20")


def test_a_payment_that_names_no_company_is_that_of_its_subscription(world: tuple[Books, ManualClock]) -> None:
    """Only the checkout carried the company: the customer was told without it, and so are later payments."""
    books, _ = world
    receive(world, "subscription.created", **subscription(1, "sub-roof", "active", "roofs"), customer_id="ctm-roof")
    receive(world, "customer.created", 2, id="ctm-roof", email="roof@example.org", custom_data=None)
    paid = {"customer_id": "ctm-roof", "sale_gross": "1", "currency": "EUR"}
    assert receive(world, "transaction.completed", 3, id="txn-roof-1", **paid) == "handled"
    assert receive(world, "transaction.completed", 4, id="txn-roof-2", subscription_id="sub-roof", **paid) == "handled"
    assert [one["paymentId"] for one in books.payments.of_company("roofs")] == ["txn-roof-1", "txn-roof-2"]


def test_a_customer_of_two_companies_pays_for_the_one_whose_subscription_it_is(
    world: tuple[Books, ManualClock],
) -> None:
    books, _ = world
    for company in ("east", "west"):
        told = subscription(1, f"sub-{company}", "active", company)
        receive(world, "subscription.created", **told, customer_id="ctm-both")
    paid = {"customer_id": "ctm-both", "sale_gross": "1", "currency": "EUR"}
    assert receive(world, "transaction.completed", 3, id="txn-west", subscription_id="sub-west", **paid) == "handled"
    assert books.payments.required("txn-west")["companyId"] == "west"
    assert receive(world, "transaction.completed", 4, id="txn-one-off", **paid) == "dead-lettered"


# ── what the application gave Paddle to carry ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "own",
    [
        {"passthrough": '{"companyId": "carried"}'},
        {"passthrough": '"{\\"companyId\\": \\"carried\\"}"'},
        {"passthrough": '{"company_id": "carried"}'},
        {"passthrough": "carried"},
        {"passthrough": '"carried"'},
        {"custom_data": {"companyId": "carried"}},
        {"custom_data": '{"companyId": "carried"}', "passthrough": "something else"},
        {"custom_data": None, "passthrough": None},
        {"passthrough": ""},
        {"passthrough": "{broken"},
        {"passthrough": "[1, 2]"},
        {"passthrough": "nobody's"},
        {},
    ],
)
def test_passthrough_is_understood_in_every_form_that_paddle_allows(
    world: tuple[Books, ManualClock], own: dict[str, Any]
) -> None:
    """What names no company is the company of the customer, who is known."""
    books, _ = world
    books.companies.put({"companyId": "carried"})
    books.customers.put({"paddleCustomerId": "ctm-carried", "email": "a@example.org", "companyId": "carried"})
    name = f"pay-{next(_numbers)}"
    facts = {"id": name, "customer_id": "ctm-carried", "sale_gross": "1", "currency": "EUR", **own}
    assert receive(world, "payment_succeeded", 3, **facts) == "handled"
    assert books.payments.required(name)["companyId"] == "carried"
