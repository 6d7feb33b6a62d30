"""Jobs of the security assistant: their items, names, states, and the three ways to list them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from security_world import CLIENT, KINDS, START, TABLES, all_pages, clock_at, docx, drawing, ids, made, storage_of

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.files import open_files
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import BadTransition, State
from penstock.leases import LeaseLost
from penstock.optimistic import Conflict
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs import transitions
from penstock.systems.security_assistant.jobs.job import BadItem, BadName, DrawingJob, job_name, job_of, part_of
from penstock.systems.security_assistant.jobs.processor import Processor
from penstock.systems.security_assistant.jobs.storage import Storage, moment_of
from penstock.systems.security_assistant.jobs.store import BadToken, copy_jobs
from penstock.systems.security_assistant.jobs.table_store import SHARDS, TableJobStore

DAY = 86_400.0
SEED_ITEM: dict[str, Any] = json.loads(
    """{
  "company#client#job": "7central#st_marys#job_1734567890",
  "company_id": "7central",
  "client_name": "St. Mary's Hospital",
  "project_name": "Emergency Wing Expansion",
  "job_id": "job_1734567890",
  "status": "completed",
  "created_at": "2024-01-15T10:00:00Z",
  "updated_at": "2024-01-15T10:15:32Z",
  "input_files": {
    "drawing": "7central/st_marys/emergency_wing/job_1734567890/drawing.pdf",
    "context": "7central/st_marys/emergency_wing/job_1734567890/context.docx"
  },
  "checkpoints": {
    "context_extracted": {
      "timestamp": "2024-01-15T10:02:15Z",
      "data_key": "7central/st_marys/emergency_wing/job_1734567890/checkpoint_context_v1.json",
      "version": 1
    },
    "components_extracted": {
      "timestamp": "2024-01-15T10:08:45Z",
      "data_key": "7central/st_marys/emergency_wing/job_1734567890/checkpoint_components_v1.json",
      "version": 1,
      "summary": {"total_components": 45, "by_type": {"door": 45, "reader": 42, "exit_button": 38}}
    }
  },
  "output_files": {
    "excel": "7central/st_marys/emergency_wing/job_1734567890/schedule_v1.xlsx",
    "evaluation": "7central/st_marys/emergency_wing/job_1734567890/evaluation.json"
  },
  "metadata": {
    "file_name": "Building_A_Level_2_Security.pdf",
    "file_size_mb": 24.5,
    "total_pages": 15,
    "pdf_type": "scanned",
    "processing_time_seconds": 932,
    "token_usage": {
      "total": 53500,
      "by_agent": {"context": 2500, "schedule": 45000, "codegen": 3000, "judge": 3000}
    }
  },
  "error": null,
  "ttl": 1739751890
}"""
)


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    with storage_of(request.param, tmp_path, clock) as storage:
        yield storage


@pytest.fixture(params=TABLES)
def tabled(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    with storage_of(request.param, tmp_path, clock) as storage:
        yield storage


def raw(storage: Storage, job: DrawingJob) -> dict[str, Any]:
    """The item as it lies in the table."""
    assert isinstance(storage.store, TableJobStore)
    item = storage.store.db.table(tables.JOBS).get({tables.JOB_KEY: job.key})
    assert item is not None
    return item


def test_S2_1_a_job_is_one_item_with_every_attribute_of_the_schema(tabled: Storage) -> None:
    job = made(tabled)
    Processor(tabled).process(job)
    item = raw(tabled, job)
    assert item[tables.JOB_KEY] == f"7central#st_marys_hospital#{job.id}"
    assert set(SEED_ITEM) | {"date_bucket"} <= set(item)
    assert set(SEED_ITEM["metadata"]) <= set(item["metadata"])
    assert item["checkpoints"]["components_extracted"]["summary"]["by_type"]["door"] == 4
    assert set(SEED_ITEM["checkpoints"]["components_extracted"]) <= set(item["checkpoints"]["components_extracted"])
    assert item["output_files"].keys() == SEED_ITEM["output_files"].keys()


def test_S2_1_the_table_has_no_sort_key(tabled: Storage) -> None:
    assert isinstance(tabled.store, TableJobStore)
    described = tabled.store.db.execute("DescribeTable", {"TableName": tables.JOBS})["Table"]
    assert described["KeySchema"] == [{"AttributeName": "company#client#job", "KeyType": "HASH"}]


def test_S2_2_date_bucket_is_always_set(storage: Storage) -> None:
    job = made(storage)
    assert job.item()["date_bucket"] == "2030-01"
    assert ids(storage.query_by_month("2030-01").jobs) == [job.id]


@pytest.mark.parametrize("name", ["a#b", "a/b", "..", "a..b", "a\\b", "", "...", "#", "'"])
def test_S2_2_names_that_would_lead_out_of_a_key_or_a_folder_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        part_of(name, "client_name")


def test_S2_2_names_are_normalised_by_one_rule() -> None:
    name = job_name("7Central", "St. Mary's  Hospital", "Emergency Wing", "job_1")
    assert name.key == "7central#st_marys_hospital#job_1"
    assert name.path("drawing.pdf") == "7central/st_marys_hospital/emergency_wing/job_1/drawing.pdf"
    assert part_of(part_of("Hôpital Ste-Anne", "x"), "x") == part_of("Hôpital Ste-Anne", "x")
    for bad in ("../x", "a/b", ".", "", "..", "x..y"):
        with pytest.raises(BadName):
            name.path(bad)
    for bad in ("job#1", "job/1", "", "..", "x" * 101):
        with pytest.raises(BadName):
            job_name("a", "b", "c", bad)


def test_S2_2_a_job_is_found_by_its_id_alone(storage: Storage) -> None:
    job = made(storage)
    assert storage.job(job.id).key == job.key
    with pytest.raises(JobNotFound):
        storage.job("job_none")


def test_S2_2_a_job_that_another_program_made_is_processed(storage: Storage) -> None:
    item = {name: value for name, value in SEED_ITEM.items() if name != "ttl"} | {"status": "queued", "checkpoints": {}}
    storage.save(item["input_files"]["drawing"], drawing())
    if isinstance(storage.store, TableJobStore):
        store = storage.store
        indexed = {
            "status#shard": "queued#00",
            "date_bucket#shard": "2024-01#00",
            "company#client": "7central#st_marys",
        }
        store.db.table(tables.JOBS).put(item | (indexed if store.layout == "safe" else {}))
    else:
        storage.store.insert(job_of(item))
    storage.save(item["input_files"]["context"], docx("Standard: EN 60839"))
    done = Processor(storage).process_next()
    assert done is not None and done.state is State.COMPLETED, done.error
    assert done.name.folder == "7central/st_marys/emergency_wing_expansion/job_1734567890"
    assert storage.job("job_1734567890").item()["date_bucket"] == "2024-01"


@pytest.mark.parametrize("job_id", ["", "a#b", "../x", "a b", "x" * 300, "\x00", "jöb"])
def test_S2_2_an_id_that_no_job_can_have_is_not_found(storage: Storage, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        storage.job(job_id)


def test_S2_2_a_job_that_the_index_does_not_know_yet_is_found(tabled: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """DynamoDB's indexes are a little late; and compat has none for ids."""
    job = made(tabled)
    assert isinstance(tabled.store, TableJobStore)
    table = tabled.store._jobs
    monkeypatch.setattr(table, "query", lambda **question: iter(()))
    monkeypatch.setattr(table, "scan", lambda **question: iter(()))
    assert tabled.for_company("7central").job(job.id) == job
    with pytest.raises(JobNotFound):
        tabled.for_company("acme").job(job.id)


def test_S2_2_the_item_of_the_schema_itself_is_read_and_completed(storage: Storage) -> None:
    """It has no date_bucket, no attributes of ours, and times without milliseconds."""
    item = SEED_ITEM | {"ttl": int(START) + 60}
    storage.store.insert(job_of(item))
    found = storage.job("job_1734567890")
    assert found == job_of(item) and found.name.client == "st_marys"
    assert ids(storage.query_by_month("2024-01").jobs) == ["job_1734567890"]
    assert ids(storage.query_by_client("St. Mary's Hospital", company="7central").jobs) == ["job_1734567890"]
    for name in ("company_id", "client_name", "input_files", "output_files", "metadata", "error", "ttl", "status"):
        assert found.item()[name] == item[name], name
    assert found.item()["created_at"] == "2024-01-15T10:00:00.000Z"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"company#client#job": "a#b"}, "no key of a job"),
        ({"company#client#job": "A#b#c"}, "not normalised"),
        ({"job_id": "job_2"}, "not those of its key"),
        ({"status": "done"}, "its status is 'done'"),
        ({"created_at": "yesterday"}, "is no job"),
    ],
)
def test_S2_2_an_item_that_is_no_job_is_told_so(change: dict[str, str], reason: str) -> None:
    with pytest.raises(BadItem, match=reason):
        job_of(SEED_ITEM | change)
    with pytest.raises(BadItem, match="has no attribute 'client_name'"):
        job_of({name: value for name, value in SEED_ITEM.items() if name != "client_name"})


def test_S2_3_states_change_by_the_one_table(storage: Storage) -> None:
    job = made(storage)
    assert job.state is State.QUEUED
    with pytest.raises(BadTransition):
        transitions.completed(job, {}, START)
    claimed = Processor(storage).claim(job)
    assert claimed is not None and claimed.state is State.PROCESSING
    done = Processor(storage).run(claimed)
    assert done.state is State.COMPLETED and storage.job(job.id) == done
    with pytest.raises(BadTransition):
        transitions.retried(done, START)


def test_S2_3_a_change_of_an_old_version_is_refused(storage: Storage) -> None:
    job = made(storage)
    first = Processor(storage, owner="one").claim(job)
    assert first is not None and first.lease is not None and first.lease.owner == "one"
    assert Processor(storage, owner="two").claim(job) is None
    with pytest.raises(Conflict) as conflict:
        storage.store.replace(transitions.started(job, "two", 30, START))
    assert conflict.value.current == first
    with pytest.raises(Conflict):
        storage.store.insert(job)


def fill(storage: Storage, clock: ManualClock, count: int = 7) -> list[str]:
    """Jobs over three months, the oldest first; two of them in the same millisecond."""
    found = []
    for number in range(count):
        found.append(made(storage, job_id=f"job_{number}").id)
        if number != 2:
            clock.advance(12 * DAY)
    return found


def test_S2_5_jobs_of_a_status_are_listed_newest_first_in_pages(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    for limit in (1, 2, 3, 7, 50):
        assert all_pages(lambda **page: storage.query_by_status("queued", **page), limit) == made_ids[::-1]
    assert storage.query_by_status("completed").jobs == ()
    Processor(storage).process(storage.job("job_3"))
    assert ids(storage.query_by_status("completed").jobs) == ["job_3"]
    assert "job_3" not in ids(storage.query_by_status("queued").jobs)
    with pytest.raises(BadName, match="no status"):
        storage.query_by_status("done")


def test_S2_6_jobs_of_a_client_are_listed_newest_first_in_pages(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    made(storage, client="Tech Campus")
    own = storage.for_company("7central")
    for limit in (2, 50):
        assert all_pages(lambda **page: own.query_by_client(CLIENT, **page), limit) == made_ids[::-1]


def test_S2_6_jobs_of_a_client_alone_are_those_of_all_companies(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    other = made(storage, company="acme")
    made(storage, client="Tech Campus")
    Processor(storage).process(storage.job(made_ids[0]))
    for limit in (2, 50):
        found = all_pages(lambda **page: storage.query_by_client(CLIENT, **page), limit)
        assert found == [other.id, *made_ids[::-1]]
    assert ids(storage.for_company("acme").query_by_client(CLIENT).jobs) == [other.id]


def test_all_jobs_are_listed_newest_first_in_pages_whatever_their_state(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    Processor(storage).process(storage.job(made_ids[1]))
    other = made(storage, company="acme", client="Tech Campus")
    for limit in (1, 3, 50):
        assert all_pages(storage.query_all, limit) == [other.id, *made_ids[::-1]]
    assert ids(storage.for_company("7central").query_all().jobs) == made_ids[::-1]


def test_S2_7_jobs_of_dates_over_months_are_in_order(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    since, until = moment_of("2030-01-20"), moment_of("2030-02-28", end=True)
    wanted = [one for one in made_ids[::-1] if since <= storage.job(one).created_at <= until]
    assert len(wanted) == 4 and len({storage.job(one).month for one in wanted}) == 2
    for limit in (1, 3, 50):
        assert all_pages(lambda **page: storage.query_by_dates(since, until, **page), limit) == wanted
    everything = storage.query_by_dates(moment_of("2029-11-01"), moment_of("2030-12-31"))
    assert ids(everything.jobs) == made_ids[::-1]
    with pytest.raises(BadName, match="ends before it begins"):
        storage.query_by_dates(until, since)
    with pytest.raises(BadName, match="is no month"):
        storage.query_by_month("2030-13")


def test_S2_7_a_page_goes_on_where_it_was_though_jobs_come(storage: Storage, clock: ManualClock) -> None:
    made_ids = fill(storage, clock)
    page = storage.query_by_status("queued", limit=3)
    made(storage, job_id="job_late")
    rest = storage.query_by_status("queued", limit=50, token=page.token)
    assert ids(page.jobs) + ids(rest.jobs) == made_ids[::-1]
    for bad in ("x", "", "e30=", "ÄÖ"):
        with pytest.raises(BadToken):
            storage.query_by_status("queued", token=bad)


def test_S2_5_in_safe_a_status_and_a_month_are_on_many_partitions(tmp_path: Path, clock: ManualClock) -> None:
    with storage_of("safe", tmp_path, clock) as storage:
        jobs = [made(storage, job_id=f"job_{number}") for number in range(20)]
        items = [raw(storage, job) for job in jobs]
        statuses = {item["status#shard"] for item in items}
        assert len(statuses) > SHARDS / 2 and all(one.startswith("queued#") for one in statuses)
        assert len({item["date_bucket#shard"] for item in items}) == len(statuses)
        assert {item["company#client"] for item in items} == {"7central#st_marys_hospital"}
        assert len(storage.query_by_status("queued").jobs) == 20


def test_S2_5_in_compat_the_indexes_are_those_of_the_schema(tmp_path: Path, clock: ManualClock) -> None:
    with storage_of("compat", tmp_path, clock) as storage:
        made(storage)
        assert isinstance(storage.store, TableJobStore)
        table = storage.store.db.table(tables.JOBS)
        assert len(list(table.query(index="StatusDateIndex", key={"status": "queued"}))) == 1
        assert len(list(table.query(index="ClientProjectIndex", key={"client_name": CLIENT}))) == 1
        assert len(list(table.query(index="DateRangeIndex", key={"date_bucket": "2030-01"}))) == 1


def test_S2_7_two_layouts_are_not_mixed_in_one_table(tmp_path: Path) -> None:
    with storage_of("safe", tmp_path):
        pass
    with pytest.raises(Exception, match="has the layout safe, not compat"), storage_of("compat", tmp_path):
        pass


def test_S2_8_a_job_lives_30_days_after_it_has_ended(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    clock.advance(100 * DAY)
    assert "ttl" not in storage.job(job.id).item(), "a job that has not ended does not expire"
    done = Processor(storage).process(storage.job(job.id))
    assert done is not None and done.expires_at == int(clock.now()) + 30 * 86_400
    assert done.item()["ttl"] == done.expires_at
    clock.advance(30 * DAY - 1)
    assert storage.job(job.id).id == job.id
    clock.advance(1)
    with pytest.raises(JobNotFound):
        storage.job(job.id)
    assert storage.query_by_status("completed").jobs == ()
    assert storage.query_by_month(done.month).jobs == ()


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_S2_13_jobs_move_between_the_file_and_tables(source: str, target: str, tmp_path: Path) -> None:
    clock = clock_at()
    with storage_of(source, tmp_path / "one", clock) as one, storage_of(target, tmp_path / "two", clock) as two:
        for number in range(3):
            made(one, company="acme" if number else "7central", job_id=f"job_{number}")
        Processor(one).process(one.job("job_1"))
        seen = copy_jobs(one.store, two.store, now=START, dry_run=True)
        assert (seen.copied, list(two.store.everything())) == (3, [])
        moved = copy_jobs(one.store, two.store, now=START)
        assert (moved.copied, moved.same, moved.kept) == (3, 0, ()) and moved.events >= 3
        for number in range(3):
            assert two.job(f"job_{number}") == one.job(f"job_{number}")
            assert two.events(f"job_{number}") == one.events(f"job_{number}")
        assert ids(two.query_by_status("completed").jobs) == ["job_1"]
        again = copy_jobs(one.store, two.store, now=START)
        assert (again.copied, again.same, again.events) == (0, 3, 0)
        Processor(one).claim(one.job("job_2"))
        kept = copy_jobs(one.store, two.store, now=START)
        assert kept.kept == (one.job("job_2").key,) and two.job("job_2").state is State.QUEUED
        assert copy_jobs(one.store, two.store, now=START, replace_existing=True).replaced == 1
        assert two.job("job_2").state is State.PROCESSING


def test_S2_13_what_has_expired_is_not_moved(tmp_path: Path, clock: ManualClock) -> None:
    with storage_of("local", tmp_path / "one", clock) as one, storage_of("safe", tmp_path / "two", clock) as two:
        Processor(one).process(made(one))
        later = clock.now() + 30 * DAY
        assert copy_jobs(one.store, two.store, now=later).copied == 0
        assert copy_jobs(one.store, two.store, now=later - 1).copied == 1


@pytest.mark.parametrize("layout", TABLES)
@settings(max_examples=15)
@given(
    moments=st.lists(st.integers(0, 12).map(lambda number: START + number * 7 * DAY), min_size=1, max_size=12),
    limit=st.integers(1, 5),
)
def test_S2_7_pages_of_any_jobs_put_together_are_all_of_them_in_order(
    layout: Any, moments: list[float], limit: int
) -> None:
    """Whatever the moments, equal ones included; and whichever index is asked."""
    base = job_of({name: value for name, value in SEED_ITEM.items() if name != "ttl"})
    jobs = [
        replace(
            base,
            name=replace(base.name, job_id=f"job_{number}"),
            lifecycle=replace(base.lifecycle, created_at=moment, updated_at=moment, run_at=moment),
        )
        for number, moment in enumerate(moments)
    ]
    with connect(":memory:") as db:
        store = TableJobStore(db, layout)
        store.prepare()
        for job in jobs:
            store.insert(job)
        storage = Storage(store, open_files("unused"), clock=clock_at())
        wanted = ids(sorted(jobs, key=lambda job: (job.created_at, job.key), reverse=True))
        assert all_pages(lambda **page: storage.query_by_status("completed", **page), limit) == wanted
        assert all_pages(lambda **page: storage.query_by_dates(START, START + 90 * DAY, **page), limit) == wanted
        own = storage.for_company("7central")
        assert all_pages(lambda **page: own.query_by_client(CLIENT, **page), limit) == wanted


def test_a_renewal_that_meets_the_end_of_its_own_job_is_no_lost_lease(storage: Storage) -> None:
    """`process --time-limit` said "the lease is lost" of a job that it had just handed over itself."""
    worker = Processor(storage, owner="one")
    claimed = worker.claim(made(storage))
    assert claimed is not None
    other = Processor(storage, owner="two")
    done = worker.run(claimed)
    assert done.state is State.COMPLETED
    worker._renew(claimed)  # the renewer's thread had begun before
    with pytest.raises(LeaseLost):
        other._renew(claimed)
