"""Making jobs: keys, uniqueness, arguments of every size, and everything that is refused."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_worlds import DAY, FAILURE, START, claimed, expiries, items, made, new_store, running, same_table

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.jobs.model.job import MOST_DEPENDENCIES, BadJob, JobFile, JobNotFound, NewJob
from penstock.jobs.model.json_text import NotJson, from_json, same_json, to_json
from penstock.jobs.model.state import State
from penstock.jobs.store.payloads import INLINE_BYTES, RECORD_BYTES
from penstock.jobs.store.store import JobStore

# ── idempotency ──────────────────────────────────────────────────────────────────────────────────


def test_a_second_job_with_the_same_key_is_the_first_one(store: JobStore) -> None:
    first, is_new = store.create(NewJob("report", {"project": "p", "year": 2030}, idempotency_key="monthly"))
    again, is_again = store.create(NewJob("report", {"year": 2030, "project": "p"}, idempotency_key="monthly"))
    assert (is_new, is_again) == (True, False)
    assert again.id == first.id
    assert len(store.find().jobs) == 1


@pytest.mark.parametrize("size", [10, INLINE_BYTES + 1])
def test_the_same_key_with_other_arguments_is_refused(store: JobStore, size: int) -> None:
    """Also where the arguments are too long for the main record."""
    made(store, args={"text": "x" * size}, idempotency_key="monthly")
    assert made(store, args={"text": "x" * size}, idempotency_key="monthly").version == 1
    with pytest.raises(BadJob, match=r"same idempotency key.*other arguments"):
        made(store, args={"text": "y" * size}, idempotency_key="monthly")
    assert len(store.find().jobs) == 1


def test_the_same_key_and_the_same_arguments_in_a_file(store: JobStore, tmp_path: Path, clock: ManualClock) -> None:
    filed = same_table(store, files=open_files(tmp_path / "files"))
    args = {"text": "x" * (RECORD_BYTES + 1)}
    first = made(filed, args=args, idempotency_key="monthly")
    clock.advance(5)
    assert made(filed, args=args, idempotency_key="monthly").id == first.id
    with pytest.raises(BadJob, match="other arguments"):
        made(filed, args={"text": "y" * (RECORD_BYTES + 1)}, idempotency_key="monthly")


def test_keys_are_the_tenants_and_the_tasks_own(store: JobStore) -> None:
    ids = {made(store, task, tenant=tenant, idempotency_key="k").id for task in ("a", "b") for tenant in ("", "x", "y")}
    assert len(ids) == 6


def test_a_key_may_be_used_again_when_its_job_has_expired(store: JobStore, clock: ManualClock) -> None:
    """Nothing that the first one left is the second one's, though it is not deleted yet."""
    job = running(store, args={"n": 1}, idempotency_key="monthly")
    job = store.report(job, progress=50, checkpoint="rows", value=[1])
    store.complete(job)
    clock.advance(31 * DAY)
    again, is_new = store.create(NewJob("report", {"n": 2}, idempotency_key="monthly"))
    assert is_new
    assert again.id == job.id
    assert store.checkpoint(again.id, "rows") is None
    history = store.history(again.id)
    assert (history.entries, history.checkpoints) == ((), ())
    assert [event.type for event in history.events] == ["created"]
    assert len(expiries(store, again.id)) == 1


def test_what_an_expired_job_left_is_not_seen_when_only_its_main_record_is_deleted(
    store: JobStore, clock: ManualClock
) -> None:
    """DynamoDB deletes expired items one by one, in any order."""
    job = running(store, idempotency_key="monthly")
    store.complete(store.report(job, checkpoint="rows", value=[1]))
    clock.advance(31 * DAY)
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(job.id)})
    again = made(store, idempotency_key="monthly")
    assert store.checkpoint(again.id, "rows") is None
    assert [event.type for event in store.history(again.id).events] == ["created"]


# ── unique jobs ──────────────────────────────────────────────────────────────────────────────────


def test_a_unique_job_is_alone_until_it_ends(store: JobStore, clock: ManualClock) -> None:
    first = made(store, unique_key="sync")
    assert store.create(NewJob("report", {"other": 1}, unique_key="sync")) == (first, False)
    job = claimed(store, first)
    assert made(store, unique_key="sync").id == first.id
    store.fail(job, FAILURE, retry_at=clock.now())
    assert made(store, unique_key="sync").id == first.id, "also between two attempts"
    job = claimed(store, first)
    store.cancel(first.id)
    assert made(store, unique_key="sync").id == first.id, "also while it is told that it is cancelled"
    store.end_cancelled(job)
    assert made(store, unique_key="sync").id != first.id


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "park"])
def test_every_end_frees_the_unique_key(store: JobStore, clock: ManualClock, end: str) -> None:
    job = running(store, unique_key="sync")
    if end == "complete":
        store.complete(job)
    elif end == "fail":
        store.fail(job, FAILURE)
    elif end == "cancel":
        store.requeue(job, "stop")
        store.cancel(job.id)
    else:
        while store.get(job.id).state is State.PROCESSING:
            clock.advance(60)
            store.claim(store.get(job.id), "w2", 30.0)
    assert store.get(job.id).is_terminal
    assert made(store, unique_key="sync").id != job.id


def test_unique_keys_are_the_tenants_and_the_tasks_own(store: JobStore) -> None:
    """Nobody is given another tenant's job."""
    ids = {made(store, task, tenant=tenant, unique_key="u").id for task in ("a", "b") for tenant in ("", "x", "y")}
    assert len(ids) == 6


def test_the_guard_of_a_job_that_was_deleted_keeps_nobody_out(store: JobStore) -> None:
    job = made(store, unique_key="sync")
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(job.id)})
    again, is_new = store.create(NewJob("report", {}, unique_key="sync"))
    assert is_new
    assert made(store, unique_key="sync").id == again.id


def test_a_failed_job_is_not_retried_while_another_has_its_unique_key(store: JobStore) -> None:
    first = running(store, unique_key="sync")
    store.fail(first, FAILURE)
    second = made(store, unique_key="sync")
    with pytest.raises(BadJob, match="another job holds its unique key 'sync'"):
        store.retry(first.id)
    assert store.get(first.id).state is State.FAILED
    store.cancel(second.id)
    assert store.retry(first.id).state is State.QUEUED
    assert made(store, unique_key="sync").id == first.id


def test_a_job_whose_guard_was_lost_ends_without_taking_another_ones(store: JobStore) -> None:
    job = running(store, unique_key="sync")
    (guard,) = (item for item in items(store) if item["job_id"]["S"].startswith("unique#"))
    key = {name: guard[name] for name in ("job_id", "record")}
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": key})
    other = made(store, unique_key="sync")
    assert other.id != job.id
    assert store.complete(job).state is State.COMPLETED
    assert made(store, unique_key="sync").id == other.id


# ── payloads ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "place"), [(10, "inline"), (INLINE_BYTES + 1, "record"), (RECORD_BYTES + 1, "file"), (10_000_000, "file")]
)
def test_a_payload_is_kept_where_it_fits_and_read_alike(store: JobStore, tmp_path: Path, size: int, place: str) -> None:
    store = same_table(store, files=open_files(tmp_path / "files"))
    value = {"text": "ä" * (size // 2)}
    job = running(store, args=value)
    assert ("inline" if job.args.text else "record" if job.args.record else "file") == place
    assert store.load(job, job.args) == value
    job = store.report(job, checkpoint="rows", value=value)
    job = store.complete(job, value)
    found = store.history(job.id)
    assert store.load(found.job, found.job.result) == value
    assert store.load(found.job, found.checkpoints[0].data) == value
    assert store.load(job, None) is None
    longest = max(len(str(item)) for item in items(store))
    assert longest < 400 * 1024


def test_without_a_place_for_files_a_long_payload_is_refused_before_anything_is_written(store: JobStore) -> None:
    before = len(items(store))
    with pytest.raises(PenstockError, match=r"above 300 KB needs a place for files.*App\(url, files="):
        made(store, args={"text": "x" * RECORD_BYTES})
    assert len(items(store)) == before
    job = running(store)
    with pytest.raises(PenstockError, match="place for files"):
        store.complete(job, "x" * 10_000_000)
    assert store.complete(job, "short").state is State.COMPLETED


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
        (2**64, 2**64),
        (-(10**50), -(10**50)),
        (0.1, 0.1),
        (1e300, 1e300),
        ("", ""),
        ("\x00 ☃ 𝄞", "\x00 ☃ 𝄞"),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        ({"": {"a.b": []}}, {"": {"a.b": []}}),
        ([10**40, 1.0, True], [10**40, 1.0, True]),
    ],
)
def test_values_come_back_as_they_were(value: Any, back: Any) -> None:
    found = from_json(to_json({"value": value}, "args"))["value"]
    assert found == back
    assert type(found) is type(back)


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(10**60), 10**60),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@given(json_values)
def test_all_of_json_comes_back_as_it_was(value: Any) -> None:
    text = to_json(value, "args")
    assert from_json(text) == value
    assert same_json(text, to_json(from_json(text), "args"))


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


loop: list[Any] = []
loop.append(loop)


@pytest.mark.parametrize(
    ("args", "path", "reason"),
    [
        ({"a": [1, float("nan")]}, "args.a[1]", "is nan"),
        ({"a": {"b": float("inf")}}, "args.a.b", "is inf"),
        ({"data": b"123"}, "args.data", "save it with ctx.files"),
        ({"at": datetime(2030, 1, 1)}, "args.at", "annotate the parameter"),
        ({"rate": Decimal("0.17")}, "args.rate", "annotate the parameter"),
        ({"some": {1, 2}}, "args.some", "is a set"),
        ({"some": [{}, {1: 2}]}, "args.some[1]", "has the key 1, a int"),
        ({"some": object()}, "args.some", "is a object"),
        ({"f": print}, "args.f", "is a builtin_function_or_method"),
        ({"text": ["ok", "\ud800"]}, "args.text[1]", "half a surrogate pair"),
        ({"a": {"\udfff": 1}}, "args.a", "half a surrogate pair"),
        ({"n": 10**5000}, "args", "cannot be written"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(args: dict[str, Any], path: str, reason: str) -> None:
    with connect() as db:
        store = new_store(db, ManualClock(START))
        before = items(store)
        with pytest.raises(NotJson, match=reason) as refused:
            made(store, args=args)
        assert refused.value.path == path
        assert items(store) == before


@pytest.mark.parametrize("value", [deep(101), loop])
def test_what_is_nested_too_deep_is_refused(value: list[Any]) -> None:
    to_json(deep(99), "args")
    with pytest.raises(NotJson, match="nested more than 100 deep"):
        to_json(value, "args")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}', True),
        ("[1]", "[1.0]", False),
        ("[1]", "[true]", False),
        ("[1,2]", "[2,1]", False),
    ],
)
def test_arguments_are_the_same_in_any_order_of_keys(one: str, other: str, same: bool) -> None:
    assert same_json(one, other) is same


# ── what is refused ──────────────────────────────────────────────────────────────────────────────

BAD_NAMES = ["", ".", "..", "a/b", "a\\b", "a#b", "a\nb", "\x00", "x" * 201, "ä" * 101, "\ud800", 7, None]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_could_be_taken_for_something_else_are_refused(name: Any) -> None:
    with connect() as db:
        store = new_store(db, ManualClock(START))
        job = running(store)
        before = items(store)
        for new in (NewJob(name, {}), NewJob("t", {}, queue=name), NewJob("t", {}, tenant=name or "#")):
            with pytest.raises(BadJob, match="name of a"):
                store.create(new)
        if name is not None:
            with pytest.raises(BadJob, match="name of a job"):
                made(store, id=name)
            with pytest.raises(BadJob, match="name of a checkpoint"):
                store.report(job, checkpoint=name, value=1)
        assert items(store) == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"priority": 10}, "priority is a whole number from 0 to 9"),
        ({"priority": -1}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": 2.5}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"retries": -1}, "retries"),
        ({"retries": None}, "retries"),
        ({"concurrency_key": "k", "max_concurrent": 0}, "max_concurrent is a whole number from 1"),
        ({"concurrency_key": ""}, "concurrency_key is text of 1 to 1,000 bytes"),
        ({"unique_key": "x" * 1_001}, "unique_key is text"),
        ({"idempotency_key": 7}, "idempotency_key is text"),
        ({"idempotency_key": "\ud800"}, "idempotency_key is text"),
        ({"run_at": float("nan")}, "run_at is a time"),
        ({"run_at": float("inf")}, "run_at"),
        ({"run_at": -1.0}, "run_at"),
        ({"run_at": 1_900_000_000_000.0}, "up to the year 3000"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"depends_on": "job_1"}, "depends_on is a tuple"),
        (
            {"depends_on_policy": "all_success"},
            "is one of 'all_completed', 'all_ended', 'any_completed', not 'all_succ",
        ),
        ({"depends_on": tuple(f"{n:0200d}" for n in range(8_000))}, "more than 1,500,000 bytes together: fan in by"),
        ({"depends_on": tuple(f"job_{n}" for n in range(MOST_DEPENDENCIES + 1))}, "at most 10,000 others"),
        ({"id": "tenants"}, "may not be called 'tenants'"),
        ({"args": [1, 2]}, "args is a dict"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], reason: str) -> None:
    with connect() as db:
        store = new_store(db, ManualClock(START))
        before = items(store)
        with pytest.raises(BadJob, match=reason):
            made(store, **options)
        assert items(store) == before


@pytest.mark.parametrize("progress", [140, -1, 100.001, float("nan"), float("inf"), True, "40", None, 10**400, 40 + 0j])
def test_progress_is_a_number_from_0_to_100(progress: Any) -> None:
    with connect() as db:
        store = new_store(db, ManualClock(START))
        job = running(store)
        if progress is None:
            assert store.report(job).progress == 0
            return
        with pytest.raises(BadJob, match="progress is a number from 0 to 100"):
            store.report(job, progress=progress)
        assert store.get(job.id).entries == 0


@pytest.mark.parametrize("progress", [0, 100, 33.333333333, 5e-324, 1e-7, 99.9999999])
def test_every_such_number_can_be_stored(store: JobStore, progress: float) -> None:
    job = store.report(running(store), progress=progress)
    assert store.get(job.id).progress == pytest.approx(progress, abs=1e-6)
    assert store.history(job.id).entries[0].progress == pytest.approx(progress, abs=1e-6)


def test_long_words_are_cut_and_odd_ones_spelt_out(store: JobStore) -> None:
    job = running(store)
    job = store.report(job, message="m" * 1_000_000, step="s" * 10_000, checkpoint="c", summary="z" * 10_000)
    job = store.report(job, message="bytes \udcff", step="\ud800")
    store.log(job.id, "\udcff" * 20_000)
    store.cancel(job.id, "r" * 100_000)
    store.end_cancelled(job)
    history = store.history(job.id)
    assert [len(entry.message) <= 60_000 for entry in history.entries] == [True] * 3
    assert history.entries[1].message == "bytes \\udcff"
    assert history.entries[1].step == "\\ud800"
    store.log(job.id, "long", data="x" * RECORD_BYTES)
    assert "shortened: it had 307,202 characters" in (store.entries(job.id)[-1].data or "")


def test_the_name_of_an_attached_file_fits_into_a_key(store: JobStore, tmp_path: Path) -> None:
    files = open_files(tmp_path / "files")
    job = running(store)
    saved = files.save("a/b.txt", b"1")
    job = store.attach(job, JobFile("pages/1 #2.png", saved))
    assert store.history(job.id).files == (JobFile("pages/1 #2.png", saved),)
    for name in ("", "x" * 1_001):
        with pytest.raises(BadJob, match="name of a file has 1 to 1,000 bytes"):
            store.attach(job, JobFile(name, saved))


@pytest.mark.parametrize("job_id", ["", "nope", "queue#default", "tenants", "settings", "x" * 3_000, "\ud800", None])
def test_what_is_no_job_is_not_found(store: JobStore, job_id: Any) -> None:
    """Not even an item beside the jobs that has such a key."""
    made(store, tenant="x")
    store.pause("default")
    for call in (store.get, store.history, store.cancel, store.retry, lambda one: store.log(one, "hello")):
        with pytest.raises(JobNotFound):
            call(job_id)


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


def test_many_jobs_are_made_at_once_each_as_if_alone(store: JobStore) -> None:
    old = made(store, "report", args={"n": 1}, idempotency_key="old")
    parent = made(store, "parent")
    long = {"text": "x" * (INLINE_BYTES + 1)}
    news = [
        NewJob("report", {"n": 0}),
        NewJob("report", {"n": 1}, idempotency_key="old"),
        NewJob("report", long),
        NewJob("report", {"n": 3}, depends_on=(parent.id,)),
        NewJob("report", {"n": 4}, unique_key="u"),
        NewJob("report", {"n": 5}, unique_key="u"),
        NewJob("report", {"n": 6}, idempotency_key="new", tenant="x"),
        NewJob("report", {"n": 6}, idempotency_key="new", tenant="x"),
    ]
    several = store.create_all(news)
    assert [is_new for _, is_new in several] == [True, False, True, True, True, False, True, False]
    jobs = [job for job, _ in several]
    assert jobs[1].id == old.id
    assert store.load(jobs[2], store.get(jobs[2].id).args) == long
    assert store.get(jobs[3].id).waiting_for == {parent.id}
    assert jobs[4].id == jobs[5].id
    assert jobs[6].id == jobs[7].id
    assert {job.id for job in jobs} | {parent.id} == {job.id for job in store.find().jobs}
    assert [event.type for event in store.history(jobs[0].id).events] == ["created"]


def test_of_many_jobs_none_is_made_if_one_is_refused(store: JobStore) -> None:
    with pytest.raises(PenstockError, match="args"):
        store.create_all([*(NewJob("report", {"n": n}) for n in range(150)), NewJob("report", {"n": object()})])
    assert store.find().jobs == ()
    assert store.create_all([]) == []
