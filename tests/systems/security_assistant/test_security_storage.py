"""The storage: one interface for a folder and for AWS, companies kept apart, events, files and their tree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from click.testing import CliRunner
from security_world import CLIENT, KINDS, clock_at, drawing, ids, made, new_drawing, storage_of

from penstock.cli.main import cli
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.files import BadKey, FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.optimistic import Conflict
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs.job import EVENT_TYPES, BadItem, BadName
from penstock.systems.security_assistant.jobs.json_store import CorruptJobs, JsonJobStore
from penstock.systems.security_assistant.jobs.processor import Processor
from penstock.systems.security_assistant.jobs.stages import submit_drawing
from penstock.systems.security_assistant.jobs.storage import BadSettings, Settings, Storage, open_storage
from penstock.systems.security_assistant.jobs.table_store import TableJobStore

HERE = Path(__file__).parent
DAY = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return clock_at()


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    with storage_of(request.param, tmp_path, clock) as storage:
        yield storage


@pytest.fixture
def aws(moto_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a program on AWS, which moto is here: a bucket, and no table yet."""
    for name, value in {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "AWS_ENDPOINT_URL_S3": moto_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    import boto3

    bucket = f"bucket-{token_hex(6)}"
    boto3.client("s3", endpoint_url=moto_url).create_bucket(Bucket=bucket)
    table = f"jobs-{token_hex(6)}"
    return {"STORAGE_MODE": "aws", "S3_BUCKET": bucket, "DYNAMODB_TABLE": table, "PENSTOCK_DB": moto_url}


# ── events ───────────────────────────────────────────────────────────────────────────────────────


def test_S2_9_events_are_kept_for_7_days_in_a_table_of_their_own(tmp_path: Path, clock: ManualClock) -> None:
    with storage_of("safe", tmp_path, clock) as storage:
        job = made(storage)
        Processor(storage).process(job)
        assert isinstance(storage.store, TableJobStore)
        items = list(storage.store.db.table(tables.EVENTS).query(key={"job_id": job.id}))
        for item in items:
            moment, _, event_id = item["timestamp#event_id"].partition("#")
            assert moment == "2030-01-15T10:00:00.000Z" and event_id.startswith("evt_")
            assert item["ttl"] == int(clock.now()) + 7 * 86_400
            assert item["event_type"] in EVENT_TYPES and item["details"]["message"]


def test_S2_9_events_tell_what_happened_in_order(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    clock.advance(1)
    Processor(storage, watch=lambda stage, job: clock.advance(1)).process(job)
    told = [(event.type, event.agent) for event in storage.events(job.id)]
    agents = ("pdf_agent", "schedule_agent", "codegen_agent", "judge_agent")
    assert told[0] == ("job_created", "")
    assert sorted(told[1:]) == sorted(
        (kind, agent) for agent in agents for kind in ("agent_started", "agent_completed")
    )
    done = [event for event in storage.events(job.id) if event.agent == "schedule_agent"]
    found = next(event for event in done if event.type == "agent_completed")
    assert found.details["message"].startswith("Successfully extracted ") and found.duration_ms == 0
    assert found.details["pages_processed"] == 3
    clock.advance(7 * DAY)
    assert storage.events(job.id) == []


def test_S2_9_a_failure_is_an_event(storage: Storage) -> None:
    job = made(storage)
    storage.delete(job.input_files["drawing"])
    failed = Processor(storage).process(job)
    assert failed is not None and failed.state is State.FAILED and failed.error is not None
    told = [event for event in storage.events(job.id) if event.type == "error_occurred"]
    assert [event.details["message"] for event in told] == [failed.error["message"]]
    assert "there is no such file" in failed.error["message"]


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_S2_10_the_tree_of_files_is_company_client_project_job(storage: Storage) -> None:
    job = made(storage, context_name="brief.txt", context=b"Standard: EN 60839")
    Processor(storage).process(job)
    folder = f"7central/st_marys_hospital/emergency_wing/{job.id}"
    assert [file.key for file in storage.files.list(f"{folder}/")] == [
        f"{folder}/{name}"
        for name in (
            "checkpoint_components_v1.json",
            "checkpoint_context_v1.json",
            "checkpoint_evaluation_v1.json",
            "checkpoint_excel_v1.json",
            "checkpoint_pdf_v1.json",
            "context.txt",
            "drawing.pdf",
            "evaluation.json",
            "schedule_v1.xlsx",
        )
    ]


def test_S2_11_files_are_staged_in_temp_and_only_whole_ones_are_seen(tmp_path: Path) -> None:
    with storage_of("local", tmp_path) as storage:

        def cut_off() -> Iterator[bytes]:
            yield b"half"
            assert list((tmp_path / "local_output" / "_temp").iterdir()) != []
            raise OSError("the line is cut")

        with pytest.raises(OSError, match="the line is cut"):
            storage.save("7central/a/b/job_1/drawing.pdf", cut_off())
        assert list(storage.files.list("7central/")) == []
        with pytest.raises(BadKey):
            storage.save("_temp/x", b"")


def test_S2_12_the_bucket_is_tiered_expiring_encrypted_and_not_versioned(aws: dict[str, str]) -> None:
    told = CliRunner().invoke(cli, ["files", "lifecycle", f"s3://{aws['S3_BUCKET']}", "--dry-run"])
    assert told.exit_code == 0, told.output
    for words in ("Intelligent-Tiering at once", "delete after 90 days", "_temp/", "SSE-S3"):
        assert words in told.output
    assert CliRunner().invoke(cli, ["files", "lifecycle", f"s3://{aws['S3_BUCKET']}", "--yes"]).exit_code == 0


def test_S2_12_orphans_are_swept_and_jobs_that_have_expired_go_with_their_files(
    storage: Storage, clock: ManualClock
) -> None:
    old = made(storage)
    Processor(storage).process(old)
    clock.advance(31 * DAY)
    kept = made(storage)
    storage.save("7central/st_marys_hospital/emergency_wing/job_lost/drawing.pdf", b"of no job")
    storage.save("others/report.pdf", b"not ours")
    assert storage.clean_up(dry_run=True).jobs == 1
    clock.advance(2 * DAY)
    cleaned = storage.clean_up()
    assert cleaned.jobs == 1 and cleaned.files.orphans >= 8
    left = [file.key for file in storage.files.list("7central/")]
    assert left == [kept.input_files["drawing"]] and storage.exists("others/report.pdf")
    assert storage.job(kept.id) == kept
    assert storage.clean_up().jobs == 0
    with pytest.raises(PenstockError, match="whole storage"):
        storage.for_company("7central").clean_up()


# ── the local twin ───────────────────────────────────────────────────────────────────────────────


def test_S2_13_jobs_json_is_keyed_by_the_composite_key_with_the_tables_schema(tmp_path: Path) -> None:
    with storage_of("local", tmp_path) as storage:
        job = made(storage)
        items = json.loads((tmp_path / "local_output" / "jobs.json").read_text())
        assert items == {f"7central#st_marys_hospital#{job.id}": job.item()}
        assert (tmp_path / "local_output" / job.input_files["drawing"]).read_bytes() == drawing()


def test_S2_13_two_processes_lose_nothing_of_each_others(tmp_path: Path) -> None:
    count = 8
    command = [sys.executable, str(HERE / "security_writer.py"), str(tmp_path)]
    writers = [subprocess.Popen([*command, prefix, str(count)]) for prefix in ("one", "two")]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    with storage_of("local", tmp_path) as storage:
        assert len(list(storage.store.everything())) == 2 * count


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a#b#c": 1}', "\x00\x01", '{"a": {}', "null"])
def test_S2_13_a_corrupt_file_is_an_error_and_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    store = JsonJobStore(tmp_path)
    for ask in (store.prepare, lambda: store.get("a#b#c"), lambda: list(store.everything())):
        with pytest.raises(CorruptJobs, match="is corrupt"):
            ask()
    with storage_of("local", tmp_path / "other") as storage:
        job = made(storage)
    with pytest.raises(CorruptJobs):
        store.insert(job)
    assert path.read_text() == text


def test_S2_13_an_item_that_is_no_job_does_not_hide_the_others(tmp_path: Path) -> None:
    with storage_of("local", tmp_path) as storage:
        job = made(storage)
        path = tmp_path / "local_output" / "jobs.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"a#b#job_x": {"status": "queued"}}))
        assert ids(storage.query_by_status("queued").jobs) == [job.id]
        with pytest.raises(BadItem, match="has no attribute"):
            storage.job("job_x")


# ── the interface ────────────────────────────────────────────────────────────────────────────────


def test_S2_14_the_environment_says_which_storage_is_meant() -> None:
    assert Settings.from_environment({}) == Settings("local", "local_output")
    assert Settings.from_environment({"LOCAL_OUTPUT_DIR": "out"}).folder == "out"
    aws = {"STORAGE_MODE": "aws", "S3_BUCKET": "files", "DYNAMODB_TABLE": "my-jobs", "AWS_REGION": "eu-west-2"}
    found = Settings.from_environment(aws)
    assert (found.mode, found.url, found.files, found.table) == ("aws", "aws://eu-west-2", "s3://files", "my-jobs")
    with pytest.raises(BadSettings, match="S3_BUCKET is not set"):
        Settings.from_environment({"STORAGE_MODE": "aws"})
    with pytest.raises(BadSettings, match="STORAGE_MODE is 'cloud'"):
        Settings.from_environment({"STORAGE_MODE": "cloud"})
    with pytest.raises(ValueError, match="There is no layout"):
        Settings.from_environment({}, layout="fast")


def check_interface(storage: Storage) -> None:
    """What every storage can do."""
    job = made(storage)
    key = job.name.path("notes.txt")
    saved = storage.save(key, b"some text")
    assert storage.exists(key) and storage.get(key, expect=saved) == b"some text"
    with storage.open(key) as stream:
        assert stream.read() == b"some text"
    assert storage.presigned_url(key, seconds=60).startswith(("file://", "http"))
    storage.delete(key)
    assert not storage.exists(key)
    with pytest.raises(FileMissing):
        storage.get(key)
    assert storage.job(job.id) == job and storage.job_of_key(job.key) == job
    assert ids(storage.query_by_status("queued").jobs) == [job.id]
    assert ids(storage.query_by_client(CLIENT, company="7central").jobs) == [job.id]
    assert ids(storage.query_by_month(job.month).jobs) == [job.id]
    assert ids(storage.waiting()) == [job.id] and ids(storage.interrupted_jobs()) == []
    with pytest.raises(Conflict):
        submit_drawing(storage, new_drawing(job_id=job.id))
    done = Processor(storage).process(job)
    assert done is not None and done.state is State.COMPLETED, done and done.error
    assert ids(storage.query_by_status("completed").jobs) == [job.id]
    assert ids(storage.waiting()) == []
    assert storage.get(done.output_files["excel"]).startswith(b"PK")
    assert [event.type for event in storage.events(job.id)].count("agent_completed") == 4


def test_S2_15_one_interface_for_a_folder_and_for_tables(storage: Storage) -> None:
    check_interface(storage)


@pytest.mark.parametrize("layout", ["safe", "compat"])
def test_S2_15_the_same_interface_on_s3_and_dynamodb(layout: str, aws: dict[str, str]) -> None:
    """By the environment's variables alone; moto stands for AWS."""
    with open_storage(Settings.from_environment(aws, layout=layout)) as storage:
        check_interface(storage)


def test_S2_15_interrupted_jobs_are_those_whose_worker_is_gone(storage: Storage, clock: ManualClock) -> None:
    job = made(storage)
    assert Processor(storage, lease_seconds=30).claim(job) is not None
    assert ids(storage.interrupted_jobs()) == []
    clock.advance(60)
    assert ids(storage.interrupted_jobs()) == [job.id]
    done = Processor(storage).process_next()
    assert done is not None and done.id == job.id and done.state is State.COMPLETED
    assert Processor(storage).process_next() is None


# ── companies ────────────────────────────────────────────────────────────────────────────────────


def test_S2_6_a_company_never_sees_anothers_jobs_by_any_query_id_or_path(storage: Storage) -> None:
    own = made(storage, "7central", job_id="job_own")
    other = made(storage, "acme", job_id="job_other")
    Processor(storage).process(other)
    view = storage.for_company("7central")
    with pytest.raises(JobNotFound):
        view.job("job_other")
    with pytest.raises(JobNotFound):
        view.job_of_key(other.key)
    with pytest.raises(JobNotFound):
        view.events("job_other")
    for status in ("queued", "processing", "completed", "failed"):
        assert set(ids(view.query_by_status(status).jobs)) <= {own.id}
    assert ids(view.query_by_client(CLIENT).jobs) == [own.id]
    assert view.query_by_client(CLIENT, company="acme").jobs == ()
    assert ids(view.query_by_month(own.month).jobs) == [own.id]
    assert ids(view.query_by_dates(own.created_at - 1, own.created_at + 100).jobs) == [own.id]
    assert ids(view.waiting()) == [own.id] and ids(view.interrupted_jobs()) == []
    foreign = storage.job("job_other").output_files["excel"]
    for key in (foreign, f"7central/../{foreign}", other.input_files["drawing"], "7central_2/x", "jobs.json"):
        for ask in (view.get, view.exists, view.open, view.presigned_url, view.delete):
            with pytest.raises((FileMissing, BadKey)):
                ask(key)
        with pytest.raises((FileMissing, BadKey)):
            view.save(key, b"x")
    assert storage.exists(foreign)
    with pytest.raises(PenstockError, match="another company's cannot be had"):
        view.for_company("acme")
    with pytest.raises((BadName, FileMissing)):
        made(view, "acme")


def test_S2_6_a_token_of_another_companys_page_shows_nothing_of_it(storage: Storage) -> None:
    for number in range(3):
        made(storage, "acme", job_id=f"job_a{number}")
        made(storage, "7central", job_id=f"job_c{number}")
    token = storage.for_company("acme").query_by_status("queued", limit=1).token
    seen = storage.for_company("7central").query_by_status("queued", token=token)
    assert all(job.company == "7central" for job in seen.jobs)


def test_S2_6_two_companies_may_have_a_job_of_the_same_id(storage: Storage) -> None:
    one, two = made(storage, "7central", job_id="job_1"), made(storage, "acme", job_id="job_1")
    assert storage.for_company("7central").job("job_1") == one
    assert storage.for_company("acme").job("job_1") == two
    with pytest.raises(PenstockError, match="Say whose you mean"):
        storage.job("job_1")
    events: Any = storage.for_company("acme").events("job_1")
    assert [event.company for event in events] == ["acme"]


def test_S2_6_companies_whose_names_begin_alike_are_two(storage: Storage) -> None:
    made(storage, "acme", job_id="job_1")
    made(storage, "acme 2", job_id="job_2")
    view = storage.for_company("acme")
    assert ids(view.query_by_status("queued").jobs) == ["job_1"]
    with pytest.raises(JobNotFound):
        view.job("job_2")
