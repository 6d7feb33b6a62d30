"""Excel report jobs in their table: S0.1 to S0.6, S0.8 to S0.11."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from report_worlds import LAYOUTS, SEED_LOG, SEED_MAIN, START, items_of, new_jobs

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.files.errors import FileMissing, NotAllowed
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import BadTransition
from penstock.leases import LeaseLost
from penstock.systems.excel_reports.records import (
    BadReport,
    JobExists,
    RecordId,
    Settings,
    log_record_id,
    main_record_id,
    new_job_id,
    parse_record_id,
)
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.excel_reports.transitions import category_of, duration_text

_HERE = Path(__file__).parent


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as found:
        yield found


@pytest.fixture(params=LAYOUTS)
def jobs(request: pytest.FixtureRequest, db: Database, clock: ManualClock) -> ReportJobs:
    return new_jobs(db, request.param, clock)


def started(jobs: ReportJobs) -> str:
    job_id = jobs.create_job("mlab_bodwassho_usa_3").job_id
    jobs.update_job_status(job_id, "processing")
    return job_id


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_S0_1_the_key_is_recordId_alone_in_compat_and_jobId_before_it_in_safe(db: Database) -> None:
    keys = {}
    for layout in LAYOUTS:
        jobs = new_jobs(db, layout, table=f"jobs-{layout}")
        told = db.execute("DescribeTable", {"TableName": jobs.table})["Table"]
        keys[layout] = [(one["AttributeName"], one["KeyType"]) for one in told["KeySchema"]]
        assert told["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
        assert "GlobalSecondaryIndexes" not in told
    assert keys == {"safe": [("jobId", "HASH"), ("recordId", "RANGE")], "compat": [("recordId", "HASH")]}


def test_S0_2_every_record_has_its_jobs_id_its_type_and_its_number(jobs: ReportJobs) -> None:
    first, second = started(jobs), started(jobs)
    jobs.update_job_progress(first, 10, "starting")
    jobs.complete_job(first, file_name="r.xlsx", file_key="k", download_url="u")
    jobs.fail_job(second, "no data")
    told = {(item["jobId"], item["recordType"], item["sequenceNumber"]) for item in items_of(jobs)}
    assert told == {
        (first, "main_job", 0),
        (first, "progress_log", 1),
        (first, "completion_log", 2),
        (second, "main_job", 0),
        (second, "failure_log", 1),
    }


def test_S0_3_a_new_job_is_the_record_of_the_description(jobs: ReportJobs) -> None:
    job = jobs.create_job("mlab_bodwassho_usa_3", {"byCategory": True})
    (item,) = items_of(jobs)
    assert set(item) == {*SEED_MAIN, "lastSequence"}
    assert re.fullmatch(r"job_[0-9a-z]{8}_[0-9a-z]{6}", item["jobId"])
    assert re.fullmatch(rf"job_{item['jobId']}_2000000000789_[0-9a-z]{{6}}", item["recordId"])
    assert (item["recordType"], item["sequenceNumber"], item["status"], item["progress"]) == (
        "main_job",
        0,
        "pending",
        0,
    )
    assert item["createdAt"] == item["updatedAt"] == "2033-05-18T03:33:20.789Z"
    assert (item["options"], item["metadata"]["stepName"]) == ({"byCategory": True}, "initializing")
    assert jobs.get_job(job.job_id) == job


@pytest.mark.parametrize(
    ("record_id", "told"),
    [
        (SEED_MAIN["recordId"], RecordId("job_mbzlks74_rfi5i0", 0)),
        ("job_mbzlks74_rfi5i0_seq000_2025-06-16_21_19_33_ab1x", RecordId("job_mbzlks74_rfi5i0", 0)),
        (SEED_LOG["recordId"], RecordId("job_mbzlks74_rfi5i0", 1)),
        ("job_mbzlks74_rfi5i0_seq1000_2025-06-16_21_20_15_abc", RecordId("job_mbzlks74_rfi5i0", 1000)),
        ("something else", None),
    ],
)
def test_S0_3_one_reader_knows_every_spelling(record_id: str, told: RecordId | None) -> None:
    assert parse_record_id(record_id) == told


def test_S0_3_and_S0_4_what_the_builder_makes_the_reader_reads() -> None:
    job_id = new_job_id(START)
    main = main_record_id(job_id)
    assert main is not None
    assert parse_record_id(main) == RecordId(job_id, 0)
    assert parse_record_id(log_record_id(job_id, 1_234_567, START)) == RecordId(job_id, 1_234_567)
    assert main_record_id("another's id") is None


def test_S0_4_ids_sort_by_number_past_999() -> None:
    ids = [log_record_id("job_mbzlks74_rfi5i0", number, START) for number in (1, 9, 10, 999, 1000, 1001, 99_999_999)]
    assert ids == sorted(ids)
    assert ids[0].startswith("job_mbzlks74_rfi5i0_seq000000001_2033-05-18_03_33_20_")


def test_S0_4_progress_is_a_numbered_record_with_its_fields(jobs: ReportJobs) -> None:
    job_id = started(jobs)
    jobs.update_job_progress(job_id, 15, "starting", rows=3)
    item = jobs.get_all_records(job_id)[1]
    assert {name: item[name] for name in ("recordType", "sequenceNumber", "progress", "stepName", "rows")} == {
        "recordType": "progress_log",
        "sequenceNumber": 1,
        "progress": 15,
        "stepName": "starting",
        "rows": 3,
    }
    assert item["timestamp"] == "2033-05-18T03:33:20.789Z"
    assert item["ttl"] == jobs.get_job(job_id).expires_at


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_3_records_that_others_made_are_read_and_written(db: Database, clock: ManualClock, layout: Any) -> None:
    jobs = new_jobs(db, layout, clock)
    db.table(jobs.table).batch_write([SEED_MAIN, SEED_LOG])
    found = jobs.get_job_with_logs("job_mbzlks74_rfi5i0")
    assert (found.job.status, found.job.total_steps, [log.number for log in found.logs]) == ("pending", 5, [1])
    jobs.update_job_progress("job_mbzlks74_rfi5i0", 20, "fetching")
    jobs.append_progress_log("job_mbzlks74_rfi5i0", 30, "more")
    found = jobs.get_job_with_logs("job_mbzlks74_rfi5i0")
    assert [(log.number, log.step_name) for log in found.logs] == [(1, "starting"), (2, "fetching"), (3, "more")]
    assert (found.job.record_id, found.job.status, found.job.progress) == (SEED_MAIN["recordId"], "processing", 20)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_3_the_other_spelling_of_a_main_record_is_found_too(db: Database, clock: ManualClock, layout: Any) -> None:
    jobs = new_jobs(db, layout, clock)
    spelt = {**SEED_MAIN, "recordId": "job_mbzlks74_rfi5i0_seq000_2025-06-16_21_19_33_ab1x"}
    db.table(jobs.table).put(spelt)
    assert jobs.get_job("job_mbzlks74_rfi5i0").record_id == spelt["recordId"]
    jobs.update_job_status("job_mbzlks74_rfi5i0", "processing")
    assert [item["status"] for item in items_of(jobs)] == ["processing"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_3_a_record_that_says_little_is_read_and_a_wrong_one_is_named(db: Database, layout: Any) -> None:
    jobs = new_jobs(db, layout)
    little = {"recordId": "job_x_1_a", "jobId": "x", "recordType": "main_job"}
    log = {"recordId": "x_seq001_now_a", "jobId": "x", "recordType": "progress_log"}
    db.table(jobs.table).batch_write([little, log])
    found = jobs.get_job_with_logs("x")
    assert (found.job.status, found.job.progress, len(found.logs)) == ("pending", 0, 1)
    db.table(jobs.table).put({**little, "createdAt": "yesterday"})
    with pytest.raises(BadReport, match=r"job_x_1_a: createdAt is a time such as .*, not 'yesterday'"):
        jobs.get_job("x")


# ── status and progress ──────────────────────────────────────────────────────────────────────────


def test_S0_5_from_pending_to_completed(jobs: ReportJobs, clock: ManualClock) -> None:
    job_id = started(jobs)
    clock.advance(125)
    facts = {"file_name": "r.xlsx", "file_key": "k/r.xlsx", "download_url": "file:///r.xlsx"}
    job = jobs.complete_job(job_id, **facts, statistics={"totalProducts": 2})
    assert (job.status, job.progress, job.completed_at) == ("completed", 100, job.updated_at)
    assert job.result is not None
    assert job.result["processingTime"] == "2m 5s"
    assert jobs.get_job(job_id) == job


@pytest.mark.parametrize("status", ["pending", "processing", "completed", "failed"])
def test_S0_5_what_has_ended_never_changes_again_but_for_a_retry(jobs: ReportJobs, status: str) -> None:
    job_id = started(jobs)
    jobs.update_job_status(job_id, "completed")
    with pytest.raises(BadTransition):
        jobs.update_job_status(job_id, status)
    assert jobs.update_job_progress(job_id, 50, "again") is None
    assert (jobs.get_job(job_id).progress, jobs.get_progress_logs(job_id)) == (100, ())


def test_S0_5_a_failed_job_may_be_pending_again(jobs: ReportJobs) -> None:
    job_id = started(jobs)
    jobs.fail_job(job_id, TimeoutError("too slow"))
    job = jobs.update_job_status(job_id, "pending")
    assert (job.status, job.completed_at, job.error) == ("pending", None, None)
    assert jobs.get_job(job_id) == job


def test_S0_5_a_pending_job_cannot_be_completed_and_there_is_no_other_status(jobs: ReportJobs) -> None:
    job_id = jobs.create_job("p").job_id
    with pytest.raises(BadTransition, match="is queued"):
        jobs.update_job_status(job_id, "completed")
    jobs.update_job_status(job_id, "processing")
    with pytest.raises(BadTransition, match="is processing"):
        jobs.update_job_status(job_id, "pending")
    with pytest.raises(BadReport, match="status is one of pending, processing, completed, failed, not 'done'"):
        jobs.update_job_status(job_id, "done")


def test_S0_5_progress_never_goes_back(jobs: ReportJobs) -> None:
    job_id = started(jobs)
    for value in (50, 20, 60.5, 10):
        jobs.update_job_progress(job_id, value, f"at {value}")
    assert (jobs.get_job(job_id).progress, jobs.get_job(job_id).step_name) == (60.5, "at 10")
    assert [log.progress for log in jobs.get_progress_logs(job_id)] == [50, 20, 60.5, 10]


def test_S0_5_a_job_with_progress_has_begun_and_a_log_alone_begins_nothing(jobs: ReportJobs) -> None:
    job_id = jobs.create_job("p").job_id
    jobs.append_progress_log(job_id, 5, "seen")
    assert (jobs.get_job(job_id).status, jobs.get_job(job_id).progress) == ("pending", 0)
    jobs.update_job_progress(job_id, 10, "starting")
    assert jobs.get_job(job_id).status == "processing"


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────


def test_S0_6_all_records_of_a_job_expire_together_JOB_TTL_HOURS_after_it_was_made(
    jobs: ReportJobs, clock: ManualClock
) -> None:
    job_id = started(jobs)
    clock.advance(3600)
    jobs.update_job_progress(job_id, 10, "starting")
    assert {item["ttl"] for item in items_of(jobs)} == {int(START) + 24 * 3600}


def test_S0_6_a_job_that_goes_on_is_kept_with_all_of_its_records(jobs: ReportJobs, clock: ManualClock) -> None:
    job_id = started(jobs)
    for hour in range(5):
        clock.advance(10 * 3600)
        assert jobs.update_job_progress(job_id, hour, "slow") is not None
    assert len({item["ttl"] for item in items_of(jobs)}) == 1
    assert len(jobs.get_progress_logs(job_id)) == 5


def test_S0_6_what_has_expired_is_not_shown_although_it_is_not_deleted_yet(
    jobs: ReportJobs, clock: ManualClock
) -> None:
    job_id = started(jobs)
    clock.advance(24 * 3600 + 1)
    for read in (jobs.get_job, jobs.get_job_with_logs, jobs.get_progress_logs):
        with pytest.raises(JobNotFound):
            read(job_id)
    assert (jobs.get_all_records(job_id), jobs.list_jobs()) == ([], [])
    assert len(items_of(jobs)) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_6_enabling_ttl_is_optional(db: Database, layout: Any) -> None:
    jobs = ReportJobs(db, layout=layout)

    def status() -> str:
        told = db.execute("DescribeTimeToLive", {"TableName": jobs.table})
        return str(told["TimeToLiveDescription"]["TimeToLiveStatus"])

    jobs.create_table(ttl=False)
    assert status() == "DISABLED"
    assert "ttl" in jobs.db.table(jobs.table).get(jobs._key(*_ids(jobs.create_job("p"))))
    jobs.create_table()
    assert status() == "ENABLED"


def _ids(job: Any) -> tuple[str, str]:
    return job.job_id, job.record_id


# ── promises ─────────────────────────────────────────────────────────────────────────────────────


def test_S0_8_threads_that_write_at_once_lose_and_overwrite_nothing(jobs: ReportJobs) -> None:
    job_id = started(jobs)

    def write(writer: int) -> None:
        for turn in range(20):
            assert jobs.append_progress_log(job_id, 20, "step", writer=writer, turn=turn) is not None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    logs = jobs.get_progress_logs(job_id)
    assert [log.number for log in logs] == list(range(1, 161)), "a number each, without a gap"
    assert len({(log.fields["writer"], log.fields["turn"]) for log in logs}) == 160
    assert jobs.lost_reports == 0
    ids = [log.record_id for log in logs]
    assert ids == sorted(ids)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_8_processes_that_write_at_once_lose_and_overwrite_nothing(tmp_path: Path, layout: Any) -> None:
    path = str(tmp_path / "jobs.db")
    with connect(path) as db:
        jobs = ReportJobs(db, layout=layout)
        jobs.create_table()
        job_id = started(jobs)
        command = [sys.executable, str(_HERE / "report_writer.py"), path, layout, job_id]
        writers = [subprocess.Popen([*command, str(writer), "20"]) for writer in range(3)]
        try:
            assert [writer.wait(120) for writer in writers] == [0, 0, 0]
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        logs = jobs.get_progress_logs(job_id)
        assert [log.number for log in logs] == list(range(1, 61))
        assert len({(log.fields["writer"], log.fields["turn"]) for log in logs}) == 60


def test_S0_8_a_job_of_more_than_a_page_is_read_whole_and_in_order(db: Database) -> None:
    for layout in LAYOUTS:
        jobs = new_jobs(db, layout, table=f"jobs-{layout}")
        job_id, other = started(jobs), started(jobs)
        for number in range(6):
            jobs.append_progress_log(job_id, 10, "step", text="x" * 300_000)
            jobs.append_progress_log(other, 10, f"other {number}")
        found = jobs.get_job_with_logs(job_id)
        assert [log.number for log in found.logs] == [1, 2, 3, 4, 5, 6], "a page of DynamoDB has 1 MB"
        assert {log.step_name for log in found.logs} == {"step"}


def test_S0_8_reading_a_job_is_one_query_in_safe_whatever_else_is_there(clock: ManualClock) -> None:
    with connect(":memory:") as db:
        jobs = new_jobs(db, "safe", clock)
        job_id = started(jobs)
        jobs.append_progress_log(job_id, 10, "step")
        for _ in range(50):
            jobs.create_job("other")
        calls: list[str] = []
        execute = db.execute

        def counted(operation: str, request: dict[str, Any]) -> dict[str, Any]:
            calls.append(operation)
            return execute(operation, request)

        db.execute = counted  # type: ignore[method-assign]
        jobs.get_job_with_logs(job_id)
        assert calls == ["Query"]


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


def test_S0_9_every_read_of_the_description(jobs: ReportJobs) -> None:
    job_id = started(jobs)
    jobs.update_job_progress(job_id, 10, "starting")
    jobs.update_job_progress(job_id, 15, "initializing")
    assert jobs.get_completion(job_id) is None
    jobs.complete_job(job_id, file_name="r.xlsx", file_key="k", download_url="u")
    assert jobs.get_job(job_id).status == "completed"
    assert [log.number for log in jobs.get_progress_logs(job_id)] == [1, 2]
    kinds = [item["recordType"] for item in jobs.get_all_records(job_id)]
    assert kinds == ["main_job", "progress_log", "progress_log", "completion_log"]
    completion = jobs.get_completion(job_id)
    assert completion is not None
    assert (completion.number, completion.fields["fileName"]) == (3, "r.xlsx")
    assert jobs.get_job_with_logs(job_id).completion == completion


def test_S0_9_jobs_are_listed_newest_first(jobs: ReportJobs, clock: ManualClock) -> None:
    made = []
    for _ in range(4):
        clock.advance(1)
        made.append(jobs.create_job("p").job_id)
    jobs.update_job_status(made[1], "processing")
    assert [job.job_id for job in jobs.list_jobs(limit=3)] == made[:0:-1]
    assert [job.job_id for job in jobs.list_jobs(status="processing")] == [made[1]]


@pytest.mark.parametrize("job_id", ["", "job_1", "job_mbzlks74_rfi5i0", "x" * 3_000, "#", "ü"])
def test_S0_9_what_is_not_there_is_not_found(jobs: ReportJobs, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        jobs.get_job(job_id)
    with pytest.raises(JobNotFound):
        jobs.get_job_with_logs(job_id)
    assert jobs.append_progress_log(job_id, 1, "x") is None
    with pytest.raises(JobNotFound):
        jobs.update_job_status(job_id, "processing")
    assert items_of(jobs) == [], "no ghost is made"


def test_S0_10_the_environment_names_the_table_and_the_hours() -> None:
    assert Settings.of_environment({}) == Settings("excel-report-jobs", 24)
    assert Settings.of_environment({"JOBS_TABLE": "mine", "JOB_TTL_HOURS": "48"}) == Settings("mine", 48)
    for wrong in ("0", "-1", "nan", "a day", "1e9"):
        with pytest.raises(BadReport, match="JOB_TTL_HOURS is hours"):
            Settings.of_environment({"JOB_TTL_HOURS": wrong})


# ── the service's manners ────────────────────────────────────────────────────────────────────────


def test_S0_11_making_a_job_raises(jobs: ReportJobs) -> None:
    job = jobs.create_job("p")
    with pytest.raises(JobExists, match="there is such a job already"):
        jobs.create_job("p", job_id=job.job_id)
    for wrong in ("", "x" * 201, None):
        with pytest.raises(BadReport, match="idProject is text of 1 to 200 characters"):
            jobs.create_job(wrong)  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="NaN"):
        jobs.create_job("p", {"rate": float("nan")})


@pytest.mark.parametrize("progress", [-1, 101, float("nan"), True, "50"])
def test_S0_11_progress_that_cannot_be_stored_stops_nobody(
    jobs: ReportJobs, progress: Any, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = started(jobs)
    with caplog.at_level(logging.WARNING, "penstock.excel_reports"):
        assert jobs.append_progress_log(job_id, progress, "step") is None
        assert jobs.update_job_progress(job_id, 10, "step", ttl=1) is None
    assert jobs.lost_reports == 2
    assert "progress was not stored (2 lost so far)" in caplog.text
    assert jobs.get_progress_logs(job_id) == ()


def test_S0_11_a_database_that_is_away_is_counted_for_progress_and_raised_for_status(clock: ManualClock) -> None:
    with connect(":memory:") as db:
        jobs = new_jobs(db, "safe", clock)
        job_id = started(jobs)
        db.execute("DeleteTable", {"TableName": jobs.table})
        assert jobs.update_job_progress(job_id, 10, "step") is None
        assert jobs.lost_reports == 1
        with pytest.raises(PenstockError):
            jobs.update_job_status(job_id, "failed")
        with pytest.raises(PenstockError):
            jobs.create_job("p")


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (FileNotFoundError("x"), "file_not_found"),
        (FileMissing("f", "it is gone", "Save it"), "file_not_found"),
        (PermissionError("x"), "access_denied"),
        (NotAllowed("f", "no", "Ask"), "access_denied"),
        (BadReport(["wrong"]), "validation"),
        (TimeoutError("x"), "timeout"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "data_format"),
        (RuntimeError("access denied: timeout of the file not found"), "unknown"),
    ],
)
def test_S0_11_a_failure_has_a_category_by_its_class(jobs: ReportJobs, error: Exception, category: str) -> None:
    assert category_of(error) == category
    job_id = started(jobs)
    job = jobs.fail_job(job_id, error)
    assert job.error is not None
    assert (job.status, job.error["category"], job.completed_at) == ("failed", category, job.updated_at)
    failure = jobs.get_job_with_logs(job_id).failure
    assert failure is not None
    assert (failure.record_type, failure.fields) == ("failure_log", dict(job.error))


def test_S0_11_a_cause_tells_the_category_and_a_pending_job_may_fail(jobs: ReportJobs) -> None:
    error = RuntimeError("could not read")
    error.__cause__ = PermissionError("x")
    assert category_of(error) == "access_denied"
    job = jobs.fail_job(jobs.create_job("p").job_id, "bad data", category="data_format")
    assert (job.status, job.error) == ("failed", {"category": "data_format", "message": "bad data"})


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (125, "2m 5s"), (3605, "1h 0m 5s"), (-1, "0s")]
)
def test_S0_11_times_as_people_read_them(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_S0_11_a_worker_that_was_taken_over_writes_nothing_more(jobs: ReportJobs) -> None:
    job_id = jobs.create_job("p").job_id
    jobs.update_job_status(job_id, "processing", token=1)
    jobs.update_job_status(job_id, "processing", token=2)
    assert jobs.update_job_progress(job_id, 90, "late", token=1) is None
    for late in (
        lambda: jobs.fail_job(job_id, "late", token=1),
        lambda: jobs.update_job_status(job_id, "failed", token=1),
        lambda: jobs.complete_job(job_id, file_name="f", file_key="k", download_url="u", token=1),
    ):
        with pytest.raises(LeaseLost):
            late()
    assert jobs.get_job(job_id).progress == 0
    assert jobs.update_job_progress(job_id, 20, "mine", token=2) is not None


def test_S0_11_of_two_that_end_a_job_at_once_one_does(jobs: ReportJobs) -> None:
    job_id = started(jobs)

    def end(number: int) -> str:
        try:
            if number % 2:
                jobs.fail_job(job_id, f"failure {number}")
            else:
                jobs.complete_job(job_id, file_name=f"{number}", file_key="k", download_url="u")
        except BadTransition:
            return "refused"
        return "ended"

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(end, range(8)))
    assert sorted(told) == ["ended"] + ["refused"] * 7
    assert len(jobs.get_all_records(job_id)) == 2
