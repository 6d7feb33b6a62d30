"""How jobs become items (layout.py), and who may share a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_worlds import START, claimed, items, made, new_store, running

from penstock.client.database import Database, connect
from penstock.clock import ManualClock, utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.files.content import SavedFile
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import Checkpoint, Entry, Event, Job, JobError, JobFile, Payload
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.leases import Lease

LAYOUT = CollectionLayout()

moments = st.integers(0, 4_000_000_000_000).map(lambda milliseconds: milliseconds / 1000)
words = st.text(max_size=20).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text))
saved = st.builds(SavedFile, words, st.integers(0, 10**12), words, words, words)
payloads = st.one_of(
    st.builds(Payload, words),
    st.just(Payload(record="payload#args")),
    saved.map(lambda file: Payload(file=file)),
)
counts = st.integers(0, 10**6)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    token = draw(counts)
    lease = (
        Lease(draw(words), token, draw(moments), draw(st.floats(0.5, 40_000)))
        if token and draw(st.booleans())
        else None
    )
    limit_key = draw(st.none() | words)
    return Job(
        id="job_1",
        task=draw(words),
        state=draw(st.sampled_from(State)),
        created_at=draw(moments),
        updated_at=draw(moments),
        run_at=draw(moments),
        expires_at=draw(counts),
        queue=draw(words),
        tenant=draw(words),
        args=draw(payloads),
        priority=draw(st.integers(0, 9)),
        retries=draw(counts),
        version=draw(counts),
        attempt=draw(counts) if token else 0,
        failures=draw(counts),
        crashes=draw(counts),
        token=token,
        lease=lease,
        progress=draw(st.floats(0, 100).map(lambda number: round(number, 6))),
        step=draw(words),
        entries=draw(counts),
        result=draw(st.none() | payloads),
        error=draw(st.none() | st.builds(JobError, words, words, words)),
        cancel_reason=draw(st.none() | words),
        waiting_for=draw(st.frozensets(words.filter(bool), max_size=3)),
        depends_on=tuple(draw(st.lists(words, max_size=3))),
        depends_on_policy=draw(st.sampled_from(["all_completed", "all_ended", "any_completed"])),
        dependency_count=draw(st.integers(0, 10_000)),
        waiting_parts=draw(st.integers(0, 79)),
        cancelled_by=draw(st.none() | words),
        children_told=draw(st.booleans()),
        reviving=draw(st.booleans()),
        unregistered=draw(st.booleans()),
        has_children=draw(st.booleans()),
        unique_key=draw(st.none() | words),
        concurrency_key=limit_key,
        max_concurrent=draw(counts) if limit_key is not None else 0,
        started_at=draw(st.none() | moments),
        ended_at=draw(st.none() | moments),
        events=tuple(draw(st.lists(st.builds(Event, counts, words, moments, counts, words, words), max_size=3))),
        others=draw(st.dictionaries(st.sampled_from(["colour", "zzz"]), words.map(lambda text: {"S": text}))),
    )


@given(jobs())
@settings(max_examples=30)
def test_a_job_comes_back_from_its_item_as_it_was(job: Job) -> None:
    item = LAYOUT.main(job)
    assert LAYOUT.job(item) == job
    assert LAYOUT.main(LAYOUT.job(item)) == item


@settings(max_examples=30)
@given(jobs(), words, moments, st.none() | st.floats(0, 100).map(lambda number: round(number, 6)))
def test_records_come_back_as_they_were(job: Job, text: str, at: float, progress: float | None) -> None:
    entry = Entry(7, at, progress, text, text, text or None, 3)
    assert LAYOUT.entry_of(LAYOUT.entry(job, entry).item) == entry
    event = Event(8, "started", at, 3, text, text)
    assert LAYOUT.event_of(LAYOUT.event(job, event).item) == event
    point = Checkpoint("rows", 2, at, job.args, text, 3)
    assert LAYOUT.checkpoint_of(LAYOUT.checkpoint(job, point).item) == point
    file = JobFile("a#b/c", SavedFile("k", 1, "2", "3", text))
    assert LAYOUT.file_of(LAYOUT.file(job, file).item) == file


@given(st.floats(0, 32_503_680_000))
def test_times_are_kept_to_the_millisecond_and_sort_as_text(seconds: float) -> None:
    text = utc_text(seconds)
    assert len(text) == len("2025-06-16T21:19:33.789Z")
    assert abs(utc_seconds(text) - seconds) <= 0.00051
    assert utc_text(utc_seconds(text)) == text
    assert utc_text(seconds + 0.002) > text


def test_times_look_as_they_should() -> None:
    assert utc_text(1750108773.789) == "2025-06-16T21:19:33.789Z"
    assert utc_seconds("2025-06-16T21:19:33.789Z") == 1750108773.789


def test_entries_and_events_sort_past_a_thousand() -> None:
    job = Job("job_1", "t", State.QUEUED, START, START, START, 1)
    entries = [LAYOUT.entry(job, Entry(number, START)).item["record"]["S"] for number in (1, 999, 1_000, 99_999_999)]
    events = [LAYOUT.event(job, Event(number, "e", START)).item["record"]["S"] for number in (1, 999, 1_000, 9_999_999)]
    assert entries == sorted(entries)
    assert events == sorted(events)


def test_what_others_wrote_into_the_main_record_is_kept(store: JobStore) -> None:
    job = made(store)
    store.db.execute(
        "UpdateItem",
        {
            "TableName": store.layout.table,
            "Key": store.layout.main_key(job.id),
            "UpdateExpression": "SET #colour = :red",
            "ExpressionAttributeNames": {"#colour": "colour"},
            "ExpressionAttributeValues": {":red": {"S": "red"}},
        },
    )
    running_now = claimed(store, job)
    store.complete(store.report(running_now, progress=50))
    (main,) = (item for item in items(store) if item["record"]["S"] == "main" and item["job_id"]["S"] == job.id)
    assert main["colour"] == {"S": "red"}
    assert dict(store.get(job.id).others) == {"colour": {"S": "red"}}


def test_only_main_records_are_in_the_indexes(store: JobStore) -> None:
    job = store.report(running(store, tenant="x", unique_key="u", concurrency_key="k"), checkpoint="rows", value=1)
    for index in store.layout.definitions[0].indexes:
        answer = store.db.execute("Scan", {"TableName": store.layout.table, "IndexName": index.name})
        assert [(item["job_id"]["S"], item["record"]["S"]) for item in answer["Items"]] == [(job.id, "main")]
    store.complete(job)
    answer = store.db.execute("Scan", {"TableName": store.layout.table, "IndexName": store.layout.claim_index.name})
    assert answer["Items"] == [], "a job that has ended is nobody's to claim"


# ── who shares a table ───────────────────────────────────────────────────────────────────────────


def test_two_apps_with_different_shards_on_one_table_are_told(db: Database, clock: ManualClock) -> None:
    """Each would miss jobs of the other: that is said at once, instead of jobs waiting for ever."""
    first = new_store(db, clock, "jobs-shared", shards=4)
    made(first)
    try:
        other = JobStore(db, CollectionLayout("jobs-shared", shards=8), clock=clock)
        for open_it in (other.create_tables, other.ensure_tables):
            with pytest.raises(PenstockError, match=r"has 4 shards.*wants 8.*CollectionLayout\(shards=4\)"):
                open_it()
        new_store(db, clock, "jobs-shared", shards=4)
    finally:
        db.execute("DeleteTable", {"TableName": "jobs-shared"})


def test_making_the_tables_again_changes_nothing(store: JobStore) -> None:
    job = made(store)
    store.create_tables()
    store.ensure_tables()
    assert store.get(job.id) == job


@pytest.mark.parametrize("shards", [0, 257, -1])
def test_a_layout_has_some_shards(shards: int) -> None:
    with pytest.raises(ValueError, match="shards is 1 to 256"):
        CollectionLayout(shards=shards)


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_jobs_are_found_in_any_number_of_shards(shards: int) -> None:
    with connect() as db:
        store = new_store(db, ManualClock(START), shards=shards)
        jobs = {made(store).id for _ in range(40)}
        assert {job.id for job in store.claimable("default", 100).jobs} == jobs
        assert {job.id for job in store.find().jobs} == jobs
        pools = {item["claim_pool"]["S"] for item in items(store) if "claim_pool" in item}
        assert shards / 2 < len(pools) <= shards


def test_the_token_stays_when_a_lease_is_over() -> None:
    job = Job("job_1", "t", State.QUEUED, START, START, START, 1, token=7, attempt=7)
    assert LAYOUT.job(LAYOUT.main(job)) == job
    assert LAYOUT.job(LAYOUT.main(replace(job, token=0, attempt=0))).token == 0
