"""`table.changes()` on the embedded engine and over HTTP: what a program sees of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from penstock import F, Table, connect
from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.retry import RetryPolicy
from penstock.server.server import running_server
from penstock.streams import status
from penstock.streams.change import BadFilter, Change, change_of_form
from penstock.streams.errors import BadGroup, ChangeFailed, NoGroup, NoStream, NoTable, StreamGap
from penstock.tables.apply.apply import make


@pytest.fixture
def db(path: str) -> Iterator[Database]:
    with connect(path) as opened:
        make(opened, Table("orders", key="id:S", stream="NEW_AND_OLD_IMAGES"), "orders")
        yield opened


def test_changes_are_told_with_their_kinds_and_images(db: Database) -> None:
    orders = db.table("orders")
    orders.put({"id": "1", "status": "new"})
    orders.update({"id": "1"}, set={"status": "paid"})
    orders.delete({"id": "1"})
    found = list(orders.changes("mailer", start="oldest", follow=False))
    assert [one.kind for one in found] == ["insert", "modify", "remove"]
    assert found[1].keys == {"id": "1"}
    assert (found[1].old, found[1].new) == ({"id": "1", "status": "new"}, {"id": "1", "status": "paid"})
    assert found[2].new is None and found[2].item == {"id": "1", "status": "paid"}
    assert found[0].at.tzinfo is UTC
    assert change_of_form(found[1].form) == found[1]
    with pytest.raises(AttributeError):
        found[0].kind = "remove"  # type: ignore[misc]


def test_a_group_goes_on_where_it_was_and_groups_do_not_disturb_each_other(db: Database) -> None:
    orders = db.table("orders")
    for n in range(5):
        orders.put({"id": str(n)})
    for change in orders.changes("mailer", start="oldest", follow=False):
        change.done()
        if change.keys["id"] == "2":
            break
    assert [one.keys["id"] for one in orders.changes("mailer", follow=False)] == ["3", "4"]
    assert list(orders.changes("mailer", follow=False)) == []
    assert len(list(orders.changes("analysis", start="oldest", follow=False))) == 5


def test_a_change_that_was_not_done_comes_again(db: Database) -> None:
    orders = db.table("orders")
    for n in range(3):
        orders.put({"id": str(n)})
    with pytest.raises(RuntimeError):
        for change in orders.changes("mailer", start="oldest", follow=False):
            if change.keys["id"] == "1":
                raise RuntimeError
    assert [one.keys["id"] for one in orders.changes("mailer", follow=False)] == ["1", "2"]


def test_batches_are_written_down_when_the_next_is_asked_for(db: Database) -> None:
    orders = db.table("orders")
    for n in range(7):
        orders.put({"id": str(n)})
    sizes = []
    for batch in orders.changes("mailer", start="oldest", follow=False).batches(3):
        sizes.append(len(batch))
        if len(sizes) == 2:
            break
    assert sizes == [3, 3]
    left = [len(one) for one in orders.changes("mailer", follow=False).batches(3)]
    assert left == [3, 1], "the batch that was broken off comes again"


def test_filters_choose_changes_and_the_others_are_done(db: Database) -> None:
    orders = db.table("orders")
    orders.put({"id": "1", "status": "new"})
    orders.put({"id": "2", "status": "paid"})
    orders.update({"id": "1"}, set={"status": "paid"})
    orders.delete({"id": "2"})
    paid = F("status") == "paid"
    chosen = list(orders.changes("mailer", start="oldest", follow=False, kinds=["insert", "modify"], where=paid))
    assert [(one.kind, one.keys["id"]) for one in chosen] == [("insert", "2"), ("modify", "1")]
    assert list(orders.changes("mailer", follow=False)) == []
    with pytest.raises(BadFilter, match="insert, modify, remove"):
        orders.changes("mailer", kinds=["update"])
    with pytest.raises(BadFilter, match="condition"):
        orders.changes("mailer", where="status = :paid")  # type: ignore[arg-type]


def test_a_start_in_time_leaves_out_what_is_older(path: str) -> None:
    clock = ManualClock()
    with connect(path, clock=clock) as db:
        make(db, Table("orders", key="id:S", stream="NEW_IMAGE"), "orders")
        orders = db.table("orders")
        orders.put({"id": "old"})
        clock.advance(100)
        start = datetime.fromtimestamp(clock.now(), UTC)
        orders.put({"id": "new"})
        assert [one.keys["id"] for one in orders.changes("a", start=start, follow=False)] == ["new"]
        assert len(list(orders.changes("b", start=start - timedelta(hours=1), follow=False))) == 2
        with pytest.raises(BadGroup, match="time zone"):
            orders.changes("c", start=datetime(2026, 1, 1))


def test_what_is_wrong_is_said_with_the_next_step(db: Database) -> None:
    make(db, Table("plain", key="id:S"), "plain")
    with pytest.raises(NoStream, match="penstock streams enable plain"):
        list(db.table("plain").changes("mailer"))
    with pytest.raises(NoTable, match="penstock tables list"):
        list(db.table("nothing").changes("mailer"))
    for group in ("", "a b", "a#b", "x" * 101, 5):
        with pytest.raises(BadGroup, match="letters, digits"):
            db.table("orders").changes(group)  # type: ignore[arg-type]
    for options in ({"start": "now"}, {"on_gap": "skip"}, {"poll_seconds": 0}):
        with pytest.raises(BadGroup):
            db.table("orders").changes("mailer", **options)
    with pytest.raises(NoGroup, match="has no group mailer"):
        status.group_status(db, "orders", "mailer")


def test_an_idle_consumer_is_woken_by_a_write_and_stopped_from_another_thread(db: Database) -> None:
    orders = db.table("orders")
    found: list[Change] = []
    consumer = orders.changes("mailer", poll_seconds=30.0)

    def read() -> None:
        found.extend(consumer)

    thread = threading.Thread(target=read)
    thread.start()
    while not consumer.shards:
        time.sleep(0.01)
    with connect(db.name) as other:
        other.table("orders").put({"id": "1"})
    ends_at = time.monotonic() + 20
    while not consumer.stats.changes and time.monotonic() < ends_at:
        time.sleep(0.01)
    consumer.stop()
    thread.join()
    assert [one.keys["id"] for one in found] == ["1"]
    assert consumer.stats.pages < 60
    assert not status.group_status(db, "orders", "mailer").form["holders"], "its leases are given back"


def test_a_reader_without_a_group_leaves_nothing_behind(db: Database) -> None:
    db.table("orders").put({"id": "1"})
    with db.table("orders").changes(start="oldest", follow=False) as changes:
        assert len(list(changes)) == 1
    assert db.tables() == ["orders"]


def test_a_handler_is_tried_again_and_then_stops_at_the_change(db: Database) -> None:
    orders = db.table("orders")
    for n in range(3):
        orders.put({"id": str(n)})
    calls: list[str] = []

    def handle(change: Change) -> None:
        calls.append(change.keys["id"])
        if change.keys["id"] == "1":
            raise ValueError("no address")

    retries = RetryPolicy(2, base_seconds=0.0)
    with pytest.raises(ChangeFailed, match="failed 3 times: ValueError: no address"):
        orders.changes("mailer", start="oldest", follow=False).process(handle, retries=retries)
    assert calls == ["0", "1", "1", "1"]
    assert [one.keys["id"] for one in orders.changes("mailer", follow=False)] == ["1", "2"]


def test_a_failed_change_is_kept_aside_and_redriven(db: Database) -> None:
    orders = db.table("orders")
    for n in range(3):
        orders.put({"id": str(n)})
    broken, handled = {"1"}, []

    def handle(change: Change) -> None:
        if change.keys["id"] in broken:
            raise ValueError("no address")
        handled.append(change.keys["id"])

    def run() -> None:
        orders.changes("mailer", start="oldest", follow=False).process(handle, retries=0, on_failure="keep")

    run()
    groups = status.failed_changes(db, "orders", "mailer")
    (kept,) = groups.failed()
    assert handled == ["0", "2"]
    assert (kept.change.new, kept.error, kept.failures) == ({"id": "1"}, "ValueError: no address", 1)
    run()
    assert handled == ["0", "2"], "it is not handled again unless somebody asks"
    assert groups.redrive([kept.id]) == 1
    run()
    assert [one.redrive for one in groups.failed()] == [False], "it has failed again"
    broken.clear()
    assert groups.redrive([kept.id, "5"]) == 1
    run()
    assert handled == ["0", "2", "1"]
    assert not list(groups.failed())


def test_a_reset_takes_effect_in_consumers_that_run(db: Database) -> None:
    orders = db.table("orders")
    for n in range(3):
        orders.put({"id": str(n)})
    found: list[str] = []
    consumer = orders.changes("mailer", start="oldest")

    def read() -> None:
        found.extend(one.keys["id"] for one in consumer)

    thread = threading.Thread(target=read)
    thread.start()
    _until(lambda: len(found) == 3 or consumer.stats.changes == 3)
    status.reset_group(db, "orders", "mailer", "oldest")
    _until(lambda: consumer.stats.changes == 6)
    consumer.stop()
    thread.join()
    assert found == ["0", "1", "2"] * 2


def test_the_lag_is_the_age_of_the_oldest_change_that_is_not_done(path: str) -> None:
    clock = ManualClock()
    with connect(path, clock=clock) as db:
        make(db, Table("orders", key="id:S", stream="NEW_IMAGE"), "orders")
        orders = db.table("orders")
        assert list(orders.changes("mailer", follow=False)) == []
        assert status.group_status(db, "orders", "mailer", clock=clock).lag_seconds == 0
        orders.put({"id": "1"})
        clock.advance(120)
        assert status.group_status(db, "orders", "mailer", clock=clock).lag_seconds == 120


def test_a_quiet_group_has_no_gap_after_a_day_and_a_late_one_is_told_of_it(path: str) -> None:
    clock = ManualClock()
    with connect(path, clock=clock) as db:
        make(db, Table("orders", key="id:S", stream="NEW_IMAGE"), "orders")
        orders = db.table("orders")
        orders.put({"id": "1"})
        assert len(list(orders.changes("quiet", start="oldest", follow=False))) == 1
        late = orders.changes("late", start="oldest", follow=False)
        for change in late:
            change.done()
            break
        orders.put({"id": "2"})
        assert len(list(orders.changes("quiet", follow=False))) == 1
        clock.advance(25 * 3600)
        orders.put({"id": "3"})
        db.engine.maintenance.run_due()
        assert [one.keys["id"] for one in orders.changes("quiet", follow=False)] == ["3"]
        with pytest.raises(StreamGap):
            list(orders.changes("late", follow=False))
        found = list(orders.changes("late", follow=False, on_gap="continue"))
        assert [one.keys["id"] for one in found] == ["3"]


def test_changes_are_iterated_over_on_an_event_loop(db: Database) -> None:
    orders = db.table("orders")
    for n in range(3):
        orders.put({"id": str(n)})

    async def read() -> list[str]:
        return [one.keys["id"] async for one in orders.changes("mailer", start="oldest", follow=False)]

    async def read_until_cancelled() -> None:
        async for _ in orders.changes("mailer"):
            raise AssertionError("there is nothing more")

    async def cancel() -> None:
        task = asyncio.create_task(read_until_cancelled())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert asyncio.run(read()) == ["0", "1", "2"]
    asyncio.run(cancel())
    assert not status.group_status(db, "orders", "mailer").form["holders"]


def test_two_iterations_of_one_consumer_are_refused(db: Database) -> None:
    db.table("orders").put({"id": "1"})
    consumer = db.table("orders").changes("mailer", start="oldest", follow=False)
    first = iter(consumer)
    next(first)
    with pytest.raises(BadGroup, match="already"):
        next(iter(consumer))
    first.close()


def test_a_stream_that_was_switched_off_and_on_is_read_to_its_end_first(db: Database) -> None:
    orders = db.table("orders")
    assert list(orders.changes("mailer", follow=False)) == []
    orders.put({"id": "1", "n": 1})
    db.execute("UpdateTable", {"TableName": "orders", "StreamSpecification": {"StreamEnabled": False}})
    with pytest.raises(NoStream, match="switched off"):
        list(orders.changes("other", follow=False))
    status.enable_stream(db, "orders", "NEW_IMAGE")
    orders.put({"id": "1", "n": 2})
    assert [one.new["n"] for one in orders.changes("mailer", follow=False)] == [1, 2]


def _until(is_so, seconds: float = 30.0) -> None:
    ends_at = time.monotonic() + seconds
    while not is_so() and time.monotonic() < ends_at:
        time.sleep(0.01)
    assert is_so()


def test_a_stream_that_was_read_to_its_end_before_it_was_switched_on_again_is_followed_at_once(db: Database) -> None:
    orders = db.table("orders")
    assert list(orders.changes("mailer", follow=False)) == []
    orders.put({"id": "o1"})
    db.execute("UpdateTable", {"TableName": "orders", "StreamSpecification": {"StreamEnabled": False}})
    assert [one.keys for one in orders.changes("mailer", follow=False)] == [{"id": "o1"}]
    on = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    db.execute("UpdateTable", {"TableName": "orders", "StreamSpecification": on})
    orders.put({"id": "o2"})
    assert [one.keys for one in orders.changes("mailer", follow=False)] == [{"id": "o2"}]


def test_over_http_a_consumer_is_woken_by_the_server_and_goes_on_after_a_restart(path: str) -> None:
    with connect(path) as db, running_server(db.engine) as server, connect(server.url) as remote:
        make(remote, Table("orders", key="id:S", stream="NEW_IMAGE"), "orders")
        consumer = remote.table("orders").changes("mailer", poll_seconds=30.0)
        found: list[str] = []

        def read() -> None:
            for change in consumer:
                found.append(change.keys["id"])

        thread = threading.Thread(target=read)
        thread.start()
        _until(lambda: bool(consumer.shards))
        remote.table("orders").put({"id": "1"})
        _until(lambda: found == ["1"], seconds=20)
        consumer.stop()
        thread.join()
        remote.table("orders").put({"id": "2"})
        left = remote.table("orders").changes("mailer", follow=False)
        assert [one.keys["id"] for one in left] == ["2"]


def test_on_moto_a_group_reads_and_goes_on(empty_moto_url: str) -> None:
    with connect(empty_moto_url) as db:
        make(db, Table("orders", key="id:S", stream="NEW_AND_OLD_IMAGES"), "orders")
        orders = db.table("orders")
        for n in range(5):
            orders.put({"id": str(n)})
        first = orders.changes("mailer", start="oldest")
        for change in first:
            change.done()
            if change.keys["id"] == "3":
                break
        for change in orders.changes("mailer"):
            assert change.keys["id"] == "4"
            break


def test_the_policy_allows_what_consumers_call_and_nothing_more(db: Database) -> None:
    noted: set[str] = set()
    execute = db.transport.execute

    class Noting:
        name, capabilities = "noted", db.capabilities

        def execute(self, operation: str, request: dict) -> dict:
            noted.add(operation)
            return execute(operation, request)

    noting = Database(Noting())  # type: ignore[arg-type]
    db.table("orders").put({"id": "1"})
    noting.table("orders").changes("mailer", start="oldest", follow=False).process(
        lambda change: 1 / 0, retries=0, on_failure="keep"
    )
    status.failed_changes(noting, "orders", "mailer").redrive(["100000000000000000001"])
    noting.table("orders").changes("mailer", follow=False).process(lambda change: None, on_failure="keep")
    list(status.list_streams(noting))
    policy = status.consumer_policy("orders")
    allowed = {action.removeprefix("dynamodb:") for one in policy["Statement"] for action in one["Action"]}
    lost_answers = {"GetItem"}  # a lease or checkpoint whose answer was lost is looked at
    tags_and_waits = {"TagResource"}
    assert (
        noted - {"UpdateTimeToLive", "DescribeTimeToLive", "DescribeContinuousBackups", "ListTagsOfResource"} <= allowed
    )
    assert allowed - noted <= lost_answers | tags_and_waits
