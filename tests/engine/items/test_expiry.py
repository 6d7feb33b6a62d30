"""TTL: which items end, when they are deleted, and what goes with them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_tables import create_table, delete, disable_ttl, enable_ttl, items, open_engine, put, run_all_due

from penstock.clock import ManualClock
from penstock.engine import ttl_sweeper
from penstock.engine.catalog import row_keys
from penstock.engine.engine import Engine
from penstock.engine.items import index_backfill

NOW = 1_700_000_000
YEAR = 365 * 24 * 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(float(NOW))


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        create_table(engine)
        yield engine


def seconds(at: float) -> dict[str, str]:
    return {"N": str(at)}


def expiries(engine: Engine) -> list[tuple[int, bytes]]:
    """What the file notes beside the items."""
    with engine.reading() as call:
        table = call.table("jobs")
        rows: list[tuple[int, bytes]] = call.db.execute(f"SELECT at, key FROM {table.storage}_ttl").fetchall()
        return rows


def test_an_item_stays_until_its_time_and_goes_then(engine: Engine, clock: ManualClock) -> None:
    enable_ttl(engine)
    put(engine, "a", ends=seconds(NOW + 10))
    clock.advance(9)
    run_all_due(engine)
    assert list(items(engine)) == ["a"]
    clock.advance(1)
    run_all_due(engine)
    assert items(engine) == {}
    assert expiries(engine) == []


@pytest.mark.parametrize(
    "value",
    [
        {"S": str(NOW - 10)},
        {"NS": [str(NOW - 10)]},
        {"M": {"ends": seconds(NOW - 10)}},
        {"BOOL": True},
        seconds(NOW - 5 * YEAR - 1),
        seconds(0),
        {"N": "-5"},
        {"N": "1E+120"},
        {"N": "9" * 38},
    ],
)
def test_a_value_that_is_no_recent_time_never_ends_an_item(
    engine: Engine, clock: ManualClock, value: dict[str, Any]
) -> None:
    put(engine, "older", ends=value)
    enable_ttl(engine)
    put(engine, "newer", ends=value)
    clock.advance(100)
    run_all_due(engine)
    assert set(items(engine)) == {"older", "newer"}


@pytest.mark.parametrize("value", ["1699999999", "1699999999.5", "1.699999999E+9", "1542320001"])
def test_a_time_of_the_last_five_years_ends_an_item(engine: Engine, value: str) -> None:
    enable_ttl(engine)
    put(engine, "a", ends={"N": value})
    run_all_due(engine)
    assert items(engine) == {}


def test_only_the_top_level_attribute_of_that_name_counts(engine: Engine) -> None:
    enable_ttl(engine)
    put(engine, "a", other=seconds(NOW - 10), nested={"M": {"ends": seconds(NOW - 10)}})
    run_all_due(engine)
    assert list(items(engine)) == ["a"]


def test_items_older_than_the_ttl_end_too(engine: Engine) -> None:
    put(engine, "a", ends=seconds(NOW - 1))
    enable_ttl(engine)
    run_all_due(engine)
    assert items(engine) == {}


def test_a_large_table_is_looked_at_in_steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.items.expiry_rows.FILL_AT_ONCE", 5)
    monkeypatch.setattr("penstock.engine.ttl_sweeper.FILL_STEP", 4)
    for n in range(20):
        put(engine, f"{n}", ends=seconds(NOW - 1 if n % 2 else NOW + 100))
    enable_ttl(engine)
    run_all_due(engine)
    assert set(items(engine)) == {f"{n}" for n in range(0, 20, 2)}
    with engine.reading() as call:
        assert "cursor" not in call.table("jobs").record["ttl"]


def test_many_ended_items_are_deleted_in_steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttl_sweeper, "SWEEP_STEP", 3)
    enable_ttl(engine)
    for n in range(10):
        put(engine, f"{n}", ends=seconds(NOW - 1))
    left = []
    while engine.maintenance.run_due() == 0.0:
        left.append(len(items(engine)))
    assert left == [7, 4, 1]
    assert items(engine) == {}


def test_the_lag_is_waited_for(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock, ttl_lag_seconds=60, ttl_sweep_seconds=1000) as engine:
        create_table(engine)
        enable_ttl(engine)
        put(engine, "a", ends=seconds(NOW + 10))
        assert engine.maintenance.run_due() == 70
        clock.advance(69)
        run_all_due(engine)
        assert list(items(engine)) == ["a"]
        clock.advance(1)
        run_all_due(engine)
        assert items(engine) == {}


def test_a_new_time_counts_and_the_old_one_does_not(engine: Engine, clock: ManualClock) -> None:
    enable_ttl(engine)
    put(engine, "longer", ends=seconds(NOW + 10))
    put(engine, "endless", ends=seconds(NOW + 10))
    put(engine, "longer", ends=seconds(NOW + 100))
    put(engine, "endless")
    clock.advance(50)
    run_all_due(engine)
    assert set(items(engine)) == {"longer", "endless"}
    clock.advance(50)
    run_all_due(engine)
    assert set(items(engine)) == {"endless"}


def test_the_item_itself_is_looked_at_before_it_is_deleted(engine: Engine) -> None:
    enable_ttl(engine)
    put(engine, "a", ends=seconds(NOW + 1000))
    with engine.writing() as call:
        table = call.table("jobs")
        key = row_keys.row_key(table, {"id": {"S": "a"}})
        call.db.execute(f"INSERT INTO {table.storage}_ttl (at, key) VALUES (?, ?)", (NOW - 1, key))
        call.db.execute(f"INSERT INTO {table.storage}_ttl (at, key) VALUES (?, ?)", (NOW - 1, b"nobody"))
    run_all_due(engine)
    assert list(items(engine)) == ["a"]
    assert expiries(engine) == [(NOW + 1000, key)]


def test_indexes_follow(engine: Engine) -> None:
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "kind")]
    index = {
        "IndexName": "by_kind",
        "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    create_table(engine, "indexed", AttributeDefinitions=definitions, GlobalSecondaryIndexes=[index])
    enable_ttl(engine, "indexed")
    put(engine, "a", "indexed", kind={"S": "x"}, ends=seconds(NOW - 1))
    run_all_due(engine)
    assert items(engine, "indexed", IndexName="by_kind") == {}


def test_nothing_ends_after_ttl_was_switched_off(engine: Engine, clock: ManualClock) -> None:
    enable_ttl(engine)
    put(engine, "a", ends=seconds(NOW + 10))
    disable_ttl(engine)
    put(engine, "b", ends=seconds(NOW + 10))
    clock.advance(100)
    run_all_due(engine)
    assert set(items(engine)) == {"a", "b"}


def test_another_attribute_counts_after_ttl_was_switched_over(engine: Engine) -> None:
    enable_ttl(engine)
    disable_ttl(engine)
    put(engine, "a", ends=seconds(NOW - 1))
    put(engine, "b", gone=seconds(NOW - 1))
    enable_ttl(engine, attribute="gone")
    run_all_due(engine)
    assert list(items(engine)) == ["a"]


def test_the_sweeper_says_when_it_has_work_next(engine: Engine) -> None:
    enable_ttl(engine)
    put(engine, "a", ends=seconds(NOW + 0.25))
    assert ttl_sweeper.sweep(engine) == 0.0 or items(engine) == {}
    put(engine, "b", ends=seconds(NOW + 1_000))
    assert ttl_sweeper.sweep(engine) == engine.settings.ttl_sweep_seconds


def test_tables_without_ttl_give_the_sweeper_nothing_to_wait_for(engine: Engine) -> None:
    put(engine, "a", ends=seconds(NOW - 1))
    assert ttl_sweeper.sweep(engine) is None


def test_a_file_opened_later_is_swept(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock) as engine:
        create_table(engine)
        enable_ttl(engine)
        put(engine, "a", ends=seconds(NOW + 10))
    clock.advance(20)
    with open_engine(path, clock) as engine:
        run_all_due(engine)
        assert items(engine) == {}


def test_a_put_does_not_wake_the_thread(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    enable_ttl(engine)
    monkeypatch.setattr(engine.maintenance, "wake", lambda: pytest.fail("woken"))
    put(engine, "a", ends=seconds(NOW + 10))


def test_the_step_sizes_are_bounded() -> None:
    assert ttl_sweeper.SWEEP_STEP <= index_backfill.FILL_STEP


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "pass", "switch"]), st.sampled_from("abc"), st.integers(-20, 40)),
    max_size=30,
)


@settings(max_examples=60)
@given(STEPS)
def test_expiries_are_those_of_the_items_after_any_steps(steps: list[tuple[str, str, int]]) -> None:
    clock = ManualClock(float(NOW))
    with open_engine(clock=clock) as engine:
        create_table(engine)
        enable_ttl(engine)
        enabled = True
        for kind, key, n in steps:
            if kind == "put":
                put(engine, key, **({"ends": seconds(int(clock.now()) + n)} if n % 3 else {}))
            elif kind == "delete":
                delete(engine, key)
            elif kind == "pass":
                clock.advance(abs(n))
                run_all_due(engine)
                _check_sweep(engine, clock, enabled)
            else:
                (disable_ttl if enabled else enable_ttl)(engine)
                enabled = not enabled
        if not enabled:
            enable_ttl(engine)
        ends = sorted(int(item["ends"]["N"]) for item in items(engine).values() if "ends" in item)
        assert sorted(at for at, _ in expiries(engine)) == ends


def _check_sweep(engine: Engine, clock: ManualClock, enabled: bool) -> None:
    if enabled:
        assert all(int(item["ends"]["N"]) > clock.now() for item in items(engine).values() if "ends" in item)


def test_the_thread_goes_on_after_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.maintenance._LONGEST_WAIT_SECONDS", 0.01)
    failed, went_on = threading.Event(), threading.Event()

    def failing(engine: Engine) -> float | None:
        if not failed.is_set():
            failed.set()
            raise sqlite3.OperationalError("database is locked")
        went_on.set()
        return None

    monkeypatch.setattr("penstock.engine.maintenance.CHORES", [failing])
    with Engine(path) as engine:
        engine.maintenance.wake()
        assert went_on.wait(10)
