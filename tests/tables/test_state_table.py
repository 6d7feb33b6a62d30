"""The table `penstock-state`: leases, records and the history of tables."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import AccessDeniedException
from penstock.leases import LeaseLost
from penstock.optimistic import Conflict
from penstock.tables.definitions.own_tables import own_tables, state_table_name
from penstock.tables.state.state_table import (
    Entry,
    LeaseHeld,
    StateTable,
    StateTableRefused,
)

THING = ("table", "orders")


def quick(seconds: float) -> None:
    """No test waits."""


def test_it_is_made_by_the_first_write_and_by_no_read() -> None:
    with connect(":memory:") as db:
        state = StateTable(db)
        assert (list(state.history()), list(state.records(THING)), state.holder(THING)) == ([], [], None)
        assert state.record(THING, "x").version == 0
        assert db.tables() == []
        state.append(Entry("apply", "orders", "+ index by-email"))
        assert db.tables() == ["penstock-state"]
        described = db.execute("DescribeTable", {"TableName": "penstock-state"})["Table"]
        assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_lease_is_one_holders_and_says_whose_since_when_and_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ACTOR", "alice")
    with connect(":memory:") as db:
        state, other = StateTable(db), StateTable(db)
        with state.lease(THING, purpose="apply shop:tables") as lease:
            with pytest.raises(LeaseHeld, match=r"table orders is held by alice \(process .*since 20.*apply shop:tab"):
                other.acquire(THING)
            lease.check()
        assert state.holder(THING) is None
        with other.lease(THING) as later:
            assert later.token > lease.token


def test_what_is_held_is_waited_for_and_told() -> None:
    with connect(":memory:") as db:
        state, told = StateTable(db), []
        first = state.acquire(THING)

        def waiting(refused: LeaseHeld) -> None:
            told.append(refused)
            state.release(first)

        with StateTable(db, sleep=quick).lease(THING, wait_seconds=60, on_wait=waiting):
            assert len(told) == 1


def test_an_expired_lease_is_taken_and_its_holder_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(":memory:") as db:
        clock = ManualClock()
        frozen, other = StateTable(db, clock=clock), StateTable(db, clock=clock)
        old = frozen.acquire(THING)
        record = frozen.put(frozen.record(THING, "run"), {"at": 1}, lease=old)
        clock.advance(29)
        with pytest.raises(LeaseHeld):
            other.acquire(THING)
        clock.advance(4)
        new = other.acquire(THING)
        taken = other.put(other.record(THING, "run"), {"at": 2}, lease=new)
        with pytest.raises(LeaseLost):
            frozen.put(record, {"at": 3}, lease=old)
        assert other.record(THING, "run") == taken
        with pytest.raises(LeaseLost, match=r"holds it now|lost"):
            old.renew()
        frozen.release(old)
        assert other.holder(THING) is not None, "the release of a lost lease leaves the new holder's alone"
        other.release(new)


def test_the_first_write_of_a_new_holder_shuts_the_old_one_out_of_a_record_that_is_as_it_read_it() -> None:
    with connect(":memory:") as db:
        state = StateTable(db)
        old = state.acquire(THING)
        state.release(old)
        new = state.acquire(THING)
        current = state.put(state.record(THING, "run"), "new", lease=new)
        with pytest.raises(LeaseLost):
            state.put(current, "old", lease=old)
        with pytest.raises(LeaseLost):
            state.delete(current, lease=old)
        state.delete(current, lease=new)
        assert state.record(THING, "run").version == 0
        state.release(new)


def test_the_lease_of_a_process_that_has_ended_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(":memory:") as db:
        state = StateTable(db)
        state.acquire(THING)
        assert state.holder(THING) is not None
        monkeypatch.setattr("penstock.tables.state.state_table.has_ended", lambda process: True)
        assert state.holder(THING) is None, "nobody is told to be at work"
        with StateTable(db).lease(THING) as lease:
            assert lease.token == 2


def test_several_leases_are_all_taken_or_none() -> None:
    things = [("table", "b"), ("table", "a")]
    with connect(":memory:") as db:
        state, other = StateTable(db), StateTable(db)
        with other.lease(("table", "b")):
            with pytest.raises(LeaseHeld), state.leases(things):
                pass
            assert state.holder(("table", "a")) is None
        with state.leases(things) as held:
            assert [lease.thing for lease in held] == sorted(things)


def test_a_record_is_written_as_it_was_read_or_not_at_all() -> None:
    with connect(":memory:") as db:
        state = StateTable(db)
        empty = state.record(THING, "0003")
        first = state.put(empty, {"done": 1})
        with pytest.raises(Conflict) as refused:
            state.put(empty, {"done": 9})
        assert refused.value.current == first
        second = state.put(first, {"done": 2})
        with pytest.raises(Conflict):
            state.delete(first)
        assert list(state.records(THING)) == [second]
        state.delete(second)
        state.delete(second)
        assert list(state.records(THING)) == []


def test_of_many_that_write_at_once_one_wins_each_version() -> None:
    with connect(":memory:") as db:
        wins: list[int] = []

        def write(number: int) -> None:
            state = StateTable(db)
            for _ in range(20):
                record = state.record(THING, "n")
                with contextlib.suppress(Conflict):
                    wins.append(state.put(record, (record.value or 0) + 1).version)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len(wins) == len(set(wins)) == StateTable(db).record(THING, "n").value


def test_the_history_of_a_table_is_in_the_order_of_its_writing_though_a_clock_goes_behind() -> None:
    with connect(":memory:") as db:
        ahead, behind = ManualClock(2_000_000_000.0), ManualClock(1_900_000_000.0)
        StateTable(db, clock=ahead).append(Entry("apply", "orders", "first"))
        StateTable(db, clock=behind).append(Entry("rekey", "orders", "second", {"into": "orders2", "n": 1}))
        StateTable(db, clock=behind).append(Entry("apply", "users", "Zoë’s"))
        state = StateTable(db)
        assert [one.text for one in state.history(table="orders")] == ["second", "first"]
        assert [one.text for one in state.history()] == ["second", "first", "Zoë’s"]
        (rekey,) = state.history(table="orders", kind="rekey")
        assert rekey.form["details"] == {"into": "orders2", "n": 1}
        assert rekey.who


def test_an_entry_whose_answer_was_lost_is_there_once() -> None:
    with connect(":memory:") as db:
        state = StateTable(db)
        stored = state.append(Entry("apply", "orders", "x"))
        pages = list(state.history(table="orders"))
        assert pages == [stored]


def test_another_name_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_STATE_TABLE", "dev-state")
    with connect(":memory:") as db:
        StateTable(db).append(Entry("apply", "orders", "x"))
        assert db.tables() == ["dev-state"]
    assert "dev-state" in own_tables()
    assert state_table_name({}) == "penstock-state"


@pytest.mark.parametrize("refused", ["GetItem", "PutItem", "CreateTable"])
def test_what_iam_refuses_is_told_with_what_to_do(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Database.execute

    def execute(self: Database, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        if operation == refused:
            raise AccessDeniedException(f"not authorized to perform: dynamodb:{operation}")
        return real(self, operation, request)

    monkeypatch.setattr(Database, "execute", execute)
    with connect(":memory:") as db, pytest.raises(StateTableRefused, match=rf"penstock-state.*{refused}.*--no-lock"):
        StateTable(db).acquire(THING)


def test_on_any_database(db: Database) -> None:
    state = StateTable(db)
    with state.lease(THING, purpose="a test") as lease:
        record = state.put(state.record(THING, "run"), {"a": [1, None]}, lease=lease)
        assert state.record(THING, "run") == record
        state.append(Entry("apply", "orders", "x"))
    assert len(list(state.history(table="orders"))) == 1


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("table", "The table orders is held"),
        ("migration", "The migration of table orders is held"),
        ("rekey", "The rekey of table orders is held"),
    ],
)
def test_what_is_held_is_told_in_words(kind: str, told: str) -> None:
    assert str(LeaseHeld((kind, "orders"), None)).startswith(f"{told} by another process.")
