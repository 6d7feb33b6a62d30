"""A job in the user's own transaction: both or neither (store/transactions.py), on every database."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from job_worlds import Counting
from worker_worlds import work

import penstock
from penstock import F
from penstock.client.database import Database
from penstock.client.items.failures import TransactionFailed
from penstock.client.tables.table import Table
from penstock.client.tables.transactions import TransactionTooLarge
from penstock.client.transports.base import Transport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.errors import TimedOut, TransactionCanceledException
from penstock.files import open_files


class Shop:
    """An app and a table of its user's in one database."""

    def __init__(self, db: Database, files: Any) -> None:
        name = secrets.token_hex(4)
        self.db = db
        self.app = penstock.App(db, table=f"jobs-{name}", files=files, shards=1)
        self.shipped: list[str] = []

        @self.app.task()
        def ship(order: str, note: str = "") -> str:
            self.shipped.append(order)
            return order

        self.ship = ship
        request: dict[str, Any] = {
            "TableName": f"orders-{name}",
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        }
        db.execute("CreateTable", request)
        self.orders: Table = db.table(f"orders-{name}", key="id:S")
        self.app.store  # noqa: B018 - it is opened here

    def through(self, transport: Callable[[Transport], Transport]) -> Database:
        """The same database behind a wrapper, for the user and for the app."""
        wrapped = Database(transport(self.db.transport))
        self.app.use(wrapped)
        return wrapped

    def jobs(self) -> list[penstock.Job]:
        return list(self.app.store.find(limit=200).jobs)


@pytest.fixture
def shop(db: Database, tmp_path: Any) -> Iterator[Shop]:
    shop = Shop(db, open_files(str(tmp_path / "files")))
    yield shop
    for table in (shop.orders.name, shop.app.store.layout.table):
        db.execute("DeleteTable", {"TableName": table})


class Stumbling(Counting):
    """A transport whose transactions are met by `before`, once each."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.before: list[Callable[[], None]] = []

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "TransactWriteItems" and self.before:
            self.before.pop(0)()
        return super().execute(operation, request)

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return [request for operation, request, _ in self.calls if operation == "TransactWriteItems"]


# ── both or neither ──────────────────────────────────────────────────────────────────────────────


def test_the_item_and_the_job_are_one_transaction(shop: Shop) -> None:
    counting = Counting(shop.db.transport)
    shop.app.use(Database(counting))
    with Database(counting).transaction() as t:
        t.put(shop.orders, {"id": "o1"}, if_=F("id").missing())
        job = t.enqueue(shop.ship, order="o1")
        assert counting.calls == []
    assert counting.operations == ["TransactWriteItems"]
    assert shop.orders.get({"id": "o1"}) == {"id": "o1"}
    assert job.is_new and shop.app.get(job.id).args == job.args
    assert work(shop.app).completed == 1
    assert shop.shipped == ["o1"] and shop.app.result(job.id) == "o1"


def test_a_refused_write_of_the_user_makes_no_job_and_is_the_users_error(shop: Shop) -> None:
    shop.orders.put({"id": "o1", "state": "paid"})
    shop.ship.options(unique_key="o1").enqueue(order="o1")
    with pytest.raises(TransactionFailed) as failed, shop.db.transaction() as t:
        t.enqueue(shop.ship.options(unique_key="o1"), order="o1")
        t.check(shop.orders, {"id": "o2"}, if_=F("id").missing())
        t.put(shop.orders, {"id": "o1"}, if_=F("id").missing())
    (reason,) = failed.value.reasons
    assert (reason.index, reason.action) == (1, f"Put {shop.orders.name}")
    assert reason.item == {"id": "o1", "state": "paid"}
    assert len(shop.jobs()) == 1


def test_a_block_that_raises_sends_nothing(shop: Shop) -> None:
    counting = Counting(shop.db.transport)
    shop.app.use(Database(counting))
    with pytest.raises(KeyError), Database(counting).transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        t.enqueue(shop.ship.options(tenant="acme"), order="o1")
        raise KeyError
    assert counting.calls == []


def test_update_delete_and_a_job_without_other_actions(shop: Shop) -> None:
    shop.orders.put({"id": "o1", "n": 1})
    shop.orders.put({"id": "o2"})
    with shop.db.transaction() as t:
        t.update(shop.orders, {"id": "o1"}, set={"n": F("n") + 1}, if_=F("n") == 1)
        t.delete(shop.orders, {"id": "o2"}, if_=F("id").exists())
        first, second = t.enqueue(shop.ship, "o1"), t.enqueue(shop.ship.options(priority=9), order="o2")
    assert shop.orders.get({"id": "o1"}) == {"id": "o1", "n": 2} and shop.orders.get({"id": "o2"}) is None
    assert second.priority == 9 and {job.id for job in shop.jobs()} == {first.id, second.id}
    with shop.db.transaction() as t:
        third = t.enqueue(shop.ship, order="o3")
    assert len(shop.jobs()) == 3 and third.is_new


def test_workers_of_the_process_are_woken_after_the_commit(shop: Shop) -> None:
    woken: list[bool] = []
    shop.app.when_enqueued(lambda: woken.append(bool(shop.jobs())))
    with shop.db.transaction() as t:
        t.enqueue(shop.ship, order="o1")
        assert woken == []
    assert woken == [True]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_existing_idempotency_key_does_not_cancel_the_users_writes(shop: Shop) -> None:
    keyed = shop.ship.options(idempotency_key="o1")
    first = keyed.enqueue(order="o1")
    with shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o1"}, if_=F("id").missing())
        again = t.enqueue(keyed, order="o1")
    assert again.id == first.id and not again.is_new
    assert shop.orders.get({"id": "o1"}) == {"id": "o1"} and len(shop.jobs()) == 1


def test_an_idempotency_key_with_other_arguments_is_refused(shop: Shop) -> None:
    keyed = shop.ship.options(idempotency_key="o1")
    keyed.enqueue(order="o1")
    with pytest.raises(penstock.BadJob, match="other arguments"), shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        t.enqueue(keyed, order="o2")
    assert shop.orders.get({"id": "o1"}) is None
    with pytest.raises(penstock.BadJob, match="two jobs of the transaction"), shop.db.transaction() as t:
        t.enqueue(shop.ship.options(idempotency_key="o3"), order="o3")
        t.enqueue(shop.ship.options(idempotency_key="o3"), order="o4")


def test_an_existing_unique_key_does_not_cancel_the_users_writes(shop: Shop) -> None:
    unique = shop.ship.options(unique_key="o1")
    first = unique.enqueue(order="o1")
    with shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        again = t.enqueue(unique, order="o1")
    assert again.id == first.id and not again.is_new
    assert shop.orders.get({"id": "o1"}) == {"id": "o1"}
    work(shop.app)
    with shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o2"})
        second = t.enqueue(unique, order="o1")
    assert second.is_new and second.id != first.id


def test_a_holder_that_ends_before_the_commit_is_replaced(shop: Shop) -> None:
    """(2) The user's write never goes with a job that has ended."""
    unique = shop.ship.options(unique_key="o1")
    first = unique.enqueue(order="o1")
    stumbling = Stumbling(shop.db.transport)
    stumbling.before = [lambda: None, lambda: shop.app.cancel(first.id) and None]
    with Database(stumbling).transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        job = t.enqueue(unique, order="o1")
    assert job.is_new and job.id != first.id and shop.app.get(job.id).state == "queued"
    assert shop.orders.get({"id": "o1"}) == {"id": "o1"}


def test_an_expired_job_with_the_key_is_replaced(shop: Shop) -> None:
    clock = ManualClock(1_900_000_000.0)
    shop.app.use(shop.db, clock=clock)
    keyed = shop.ship.options(idempotency_key="o1")
    first = keyed.enqueue(order="o1")
    clock.advance(100 * 24 * 3600)
    with shop.db.transaction() as t:
        job = t.enqueue(keyed, order="o1")
    assert job.is_new and job.id == first.id and shop.app.get(job.id).created_at == clock.now()


def test_two_jobs_of_a_transaction_with_one_key_are_one(shop: Shop) -> None:
    with shop.db.transaction() as t:
        one, two = (t.enqueue(shop.ship.options(unique_key="o1"), order="o1") for _ in range(2))
        three, four = (t.enqueue(shop.ship.options(idempotency_key="o2"), order="o2") for _ in range(2))
    assert one is two and three is four and len(shop.jobs()) == 2


@pytest.mark.usefixtures("transactions_are_isolated")
def test_of_two_transactions_with_one_unique_key_one_makes_the_job(shop: Shop) -> None:
    ready, jobs = threading.Barrier(4), []

    def order(number: int) -> None:
        ready.wait()
        with shop.db.transaction() as t:
            t.put(shop.orders, {"id": f"o{number}"})
            job = t.enqueue(shop.ship.options(unique_key="all"), order="all")
        jobs.append(job)

    threads = [threading.Thread(target=order, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job.id for job in jobs}) == 1 and sum(job.is_new for job in jobs) == 1
    assert len(list(shop.orders.scan())) == 4 and len(shop.jobs()) == 1


# ── limits and refusals ──────────────────────────────────────────────────────────────────────────


def test_too_many_actions_are_told_before_anything_is_sent(shop: Shop) -> None:
    counting = Counting(shop.db.transport)
    shop.app.use(Database(counting))
    with pytest.raises(TransactionTooLarge) as told, Database(counting).transaction() as t:
        for number in range(98):
            t.put(shop.orders, {"id": f"o{number}"})
        t.enqueue(shop.ship.options(unique_key="a", tenant="acme"), order="a")
        t.enqueue(shop.ship, order="b" * 9_000)
    assert "at most 100 actions, and this one has 102: 98 of your own" in str(told.value)
    assert "2 for the job of ship, 2 for the job of ship" in str(told.value)
    assert isinstance(told.value, penstock.PenstockError)
    assert counting.calls == []


def test_a_hundred_actions_are_taken(shop: Shop) -> None:
    with shop.db.transaction() as t:
        for number in range(97):
            t.put(shop.orders, {"id": f"o{number}"})
        t.enqueue(shop.ship.options(unique_key="a"), order="a")
        t.enqueue(shop.ship, order="b")
    assert len(shop.jobs()) == 2


def test_too_many_bytes_are_told_before_anything_is_sent(shop: Shop) -> None:
    counting = Counting(shop.db.transport)
    shop.app.use(Database(counting))
    told = pytest.raises(TransactionTooLarge, match=r"4,194,304 bytes, and this one has .* of your own, 2")
    with told, Database(counting).transaction() as t:
        t.put(shop.orders, {"id": "o1", "text": "x" * 200_000})
        for number in range(15):
            t.enqueue(shop.ship, order=str(number), note="x" * 290_000)
    assert counting.calls == []


@pytest.mark.parametrize("size", [9_000, 290_000, 500_000])
def test_long_arguments_go_with_the_job(shop: Shop, size: int) -> None:
    with shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        job = t.enqueue(shop.ship, order="o1", note="é" * (size // 2))
    assert shop.app.store.load(job, job.args) == {"order": "o1", "note": "é" * (size // 2)}
    assert work(shop.app).completed == 1


def test_depends_on_is_refused(shop: Shop) -> None:
    parent = shop.ship.enqueue(order="o1")
    with pytest.raises(penstock.BadJob, match="Enqueue this one after the block"), shop.db.transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        t.enqueue(shop.ship.options(depends_on=[parent.id]), order="o2")
    assert shop.orders.get({"id": "o1"}) is None


def test_arguments_are_checked_where_the_job_is_enqueued(shop: Shop) -> None:
    with pytest.raises(penstock.BadJob, match="missing a required argument"), shop.db.transaction() as t:
        t.enqueue(shop.ship)
    with pytest.raises(penstock.NotJson), shop.db.transaction() as t:
        t.enqueue(shop.ship, order=object())


def test_another_database_is_refused(shop: Shop) -> None:
    with (
        penstock.connect() as other,
        pytest.raises(penstock.PenstockError, match="one transaction cannot write to both"),
        other.transaction() as t,
    ):
        t.enqueue(shop.ship, order="o1")


def test_a_token_of_the_users_is_refused(shop: Shop) -> None:
    with pytest.raises(ValueError, match="idempotency_key"), shop.db.transaction(token="once") as t:
        t.enqueue(shop.ship, order="o1")


def test_two_connections_to_one_file_are_one_database(tmp_path: Any) -> None:
    path = tmp_path / "shop.db"
    with penstock.App(path) as app, penstock.connect(path) as db:

        @app.task()
        def ship(order: str) -> None: ...

        with db.transaction() as t:
            job = t.enqueue(ship, order="o1")
        assert app.get(job.id).is_terminal is False


# ── tenants ──────────────────────────────────────────────────────────────────────────────────────


def test_tenants_have_their_turns(shop: Shop) -> None:
    shop.ship.options(tenant="acme").enqueue(order="a")
    with shop.db.transaction() as t:
        job = t.enqueue(shop.ship.options(tenant="new"), order="b")
    assert job.turn is not None and shop.app.get(job.id).turn == job.turn
    assert "new" in shop.app.store.side_items.tenants()


# ── faults ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"unique_key": "u"}, {"idempotency_key": "i"}])
def test_lost_answers_make_one_job_and_one_write(shop: Shop, options: dict[str, str]) -> None:
    """Every second call is lost after its effect, and repeated."""

    def wrap(inner: Transport) -> Transport:
        return Retrying(
            Faults(inner, Rates(timeout_after=0.5), seed=5), RequestRetries(attempts=50), unlimited=True, sleep=bool
        )

    db = shop.through(wrap)
    orders = db.table(shop.orders.name)
    for number in range(10):
        keys = {name: f"{value}{number}" for name, value in options.items()}
        with db.transaction() as t:
            t.update(orders, {"id": "o1"}, add={"n": 1})
            job = t.enqueue(shop.ship.options(**keys), order=str(number))
        assert job.is_new
    assert shop.orders.get({"id": "o1"}) == {"id": "o1", "n": 10}
    assert len(shop.jobs()) == 10


class Forgetful(Counting):
    """A server that knows no tokens, whose first transaction's answer is lost."""

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation != "TransactWriteItems":
            return super().execute(operation, request)
        request = {name: value for name, value in request.items() if name != "ClientRequestToken"}
        is_first = not self.calls
        answer = super().execute(operation, request)
        if is_first:
            self.then()
            raise TimedOut(self.name, "lost", sent=True)
        return answer

    def then(self) -> None: ...


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_repeat_that_finds_its_own_job_has_happened(shop: Shop, is_claimed: bool) -> None:
    """(3) Even if a worker has claimed the job, and the user's condition is false by its own effect."""
    forgetful = Forgetful(shop.db.transport)
    store = shop.app.store
    if is_claimed:
        forgetful.then = lambda: store.claim(shop.jobs()[0], "w1", 30) and None  # type: ignore[method-assign]
    db = Database(Retrying(forgetful, RequestRetries(attempts=5), sleep=bool))
    with db.transaction() as t:
        t.put(shop.orders, {"id": "o1"}, if_=F("id").missing())
        job = t.enqueue(shop.ship, order="o1")
    assert job.is_new and len(shop.jobs()) == 1
    assert len(forgetful.calls) == 1


def test_a_lost_answer_without_retries_is_told(shop: Shop) -> None:
    db = Database(Forgetful(shop.db.transport))
    with pytest.raises(TimedOut), db.transaction() as t:
        t.enqueue(shop.ship, order="o1")


def test_conflicts_are_tried_again(shop: Shop) -> None:
    def conflict() -> None:
        reasons = [{"Code": "None"}, {"Code": "TransactionConflict", "Message": "busy"}]
        raise TransactionCanceledException("cancelled", CancellationReasons=reasons)

    stumbling = Stumbling(shop.db.transport)
    stumbling.before = [conflict] * 5
    with Database(stumbling).transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        t.enqueue(shop.ship, order="o1")
    assert len(shop.jobs()) == 1
    stumbling.before = [conflict] * 50
    with pytest.raises(penstock.PenstockError) as contended, Database(stumbling).transaction() as t:
        t.put(shop.orders, {"id": "o1"})
        t.enqueue(shop.ship, order="o1")
    assert contended.value.retryable


def test_every_fault_leaves_both_or_neither(shop: Shop) -> None:
    db = Database(Faults(shop.db.transport, Rates.every_kind(0.5), seed=11))
    orders = db.table(shop.orders.name)
    for number in range(60):
        try:
            with db.transaction() as t:
                t.put(orders, {"id": str(number)})
                t.enqueue(shop.ship, order=str(number))
        except penstock.PenstockError:
            continue
    ordered = {item["id"] for item in shop.orders.scan()}
    enqueued = {shop.app.store.load(job, job.args)["order"] for job in shop.jobs()}
    assert ordered == enqueued and 10 < len(ordered) < 60
