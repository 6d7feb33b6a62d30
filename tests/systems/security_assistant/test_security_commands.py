"""`penstock security …`: what it prints, its exit codes, and that looking makes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from security_world import BUILDING, PROJECT, clock_at, drawing, made, storage_of

from penstock.cli.main import cli
from penstock.systems.security_assistant.commands import command
from penstock.systems.security_assistant.drawing.sample import PdfPage, pdf
from penstock.systems.security_assistant.jobs.processor import Processor

WHOSE = ("--company", "7central", "--client", "St. Mary's Hospital", "--project", PROJECT)


def security(*words: str) -> Result:
    return CliRunner().invoke(cli, ["security", *words])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run; `drawing.pdf` is there."""
    monkeypatch.chdir(tmp_path)
    for name in ("STORAGE_MODE", "LOCAL_OUTPUT_DIR", "PENSTOCK_DB", "PENSTOCK_FILES", "DYNAMODB_TABLE", "S3_BUCKET"):
        monkeypatch.delenv(name, raising=False)
    Path("drawing.pdf").write_bytes(drawing())
    return tmp_path


@pytest.fixture(params=[(), ("--db", "jobs.db"), ("--db", "jobs.db", "--layout", "compat")])
def place(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


def processed(*place: str) -> dict[str, Any]:
    told = security("process", "drawing.pdf", *WHOSE, *place, "--json")
    assert told.exit_code == 0, told.output
    form: dict[str, Any] = json.loads(told.stdout)
    return form


def test_every_command_has_help_with_an_example() -> None:
    assert "penstock security process" in security("--help").output
    for name in command.commands:
        told = security(name, "--help")
        assert told.exit_code == 0 and f"penstock security {name}" in told.output, name
        assert "--json" in told.output, name


def test_S2_17_process_status_events_list_and_download(place: tuple[str, ...]) -> None:
    form = processed(*place)
    job = form["job_id"]
    assert form["checkpoints"]["components_extracted"]["summary"]["by_type"] == BUILDING.counts()
    told = security("status", job, *place)
    assert told.exit_code == 0 and f"{job} is completed" in told.stdout and "schedule_v1.xlsx" in told.stdout
    assert "Successfully extracted" in security("events", job, *place).stdout
    assert len(json.loads(security("events", job, *place, "--json").stdout)) == 9
    for words in (["--status", "completed"], ["--client", "St. Mary's Hospital", "--company", "7central"],
                  ["--month", form["date_bucket"]], ["--since", form["created_at"][:10]]):  # fmt: skip
        assert job in security("list", *words, *place).stdout, words
    assert job in security("list", *place).stdout
    assert job in security("list", "--client", "St. Mary's Hospital", *place).stdout
    assert security("list", "--interrupted", *place).stdout == "No jobs.\n"
    told = security("download", job, "excel", *place)
    assert told.exit_code == 0 and Path("schedule_v1.xlsx").read_bytes().startswith(b"PK")
    assert security("download", job, "excel", *place).exit_code == 2
    assert (
        json.loads(security("download", job, "evaluation", "--out", "e.json", *place, "--json").stdout)["file"]
        == "e.json"
    )
    assert security("download", job, "drawing", "--url-only", *place).stdout.startswith("file://")


def test_S2_6_another_companys_job_is_not_there(place: tuple[str, ...]) -> None:
    job = processed(*place)["job_id"]
    for words in (["status", job], ["events", job], ["download", job, "excel"], ["resume", job]):
        told = security(*words, "--company", "acme", *place)
        assert told.exit_code == 4 and "There is no job" in told.output, words
    assert security("list", "--status", "completed", "--company", "acme", *place).stdout == "No jobs.\n"


def test_a_drawing_that_cannot_be_read_leaves_no_folder_and_no_database() -> None:
    Path("empty.pdf").write_bytes(b"")
    for place in ((), ("--db", "jobs.db")):
        told = security("process", "empty.pdf", *WHOSE, *place)
        assert (told.exit_code, "The file is empty" in told.output) == (1, True)
    assert not Path("local_output").exists()
    assert not Path("jobs.db").exists()


def test_S2_17_what_is_called_wrongly_is_told() -> None:
    Path("text.pdf").write_text("no pdf")
    Path("blank.pdf").write_bytes(pdf([PdfPage()]))
    for words, code, reason in (
        (["process", "text.pdf", *WHOSE], 1, "This is no PDF file"),
        (["process", "blank.pdf", *WHOSE], 3, "are blank"),
        (["process", "drawing.pdf", "--company", "a#b", "--client", "c", "--project", "d"], 1, "has '#'"),
        (["process", "drawing.pdf", "--company", "a"], 2, "--client"),
        (["process", "drawing.pdf", *WHOSE, "--agents", "nothing"], 1, "MODULE:FUNCTION"),
        (["list", "--status", "queued", "--month", "2024-01"], 2, "Give one of --status"),
        (["list", "--month", "January"], 1, "is no month"),
        (["list", "--since", "soon"], 1, "is no date"),
        (["list", "--status", "queued", "--folder", "a", "--db", "b"], 2, "--folder or --db"),
        (["status", "job_none"], 4, "There is no job"),
        (["status", "../x"], 4, "There is no job"),
        (["download", "job_none", "excel"], 4, "There is no job"),
        (["import", "."], 2, "has no jobs.json"),
        (["sample", "drawing.pdf"], 2, "is there already"),
    ):
        told = security(*words)
        assert told.exit_code == code and reason in told.output, (words, told.output)


def test_looking_makes_nothing(folder: Path) -> None:
    for words in (["status", "job_1"], ["list", "--status", "queued"], ["events", "job_1"], ["cleanup", "--dry-run"]):
        for place in ((), ("--db", "none.db"), ("--folder", "none")):
            assert security(*words, *place).exit_code == 4, words
    assert sorted(path.name for path in folder.iterdir()) == ["drawing.pdf"]


def test_S2_16_a_queued_job_is_done_by_a_worker(place: tuple[str, ...]) -> None:
    told = security("process", "drawing.pdf", *WHOSE, *place, "--queue")
    job = told.stdout.split()[0]
    assert told.exit_code == 0 and "is queued" in told.stdout
    waiting = security("download", job, "excel", *place)
    assert waiting.exit_code == 5 and "has no excel file yet" in waiting.output
    assert f"{job} is completed" in security("worker", "--once", *place).stdout
    assert security("worker", "--once", "--json", *place).stdout == ""


def test_S2_4_resume_goes_on_with_what_was_interrupted(folder: Path) -> None:
    clock = clock_at(1_000_000_000.0)
    with storage_of("safe", folder, clock) as storage:
        job = made(storage)
        assert Processor(storage).claim(job) is not None  # and its worker is gone, long ago
    place = ("--db", "jobs.db", "--files", "files")
    assert job.id in security("list", "--interrupted", *place).stdout
    told = security("resume", *place)
    assert told.exit_code == 0 and f"{job.id} is completed" in told.stdout
    assert security("resume", *place).stdout == "No job was interrupted.\n"


def test_S2_4_resume_gives_a_failed_job_another_attempt(folder: Path) -> None:
    with storage_of("local", folder) as storage:
        job = made(storage)
        data = storage.get(job.input_files["drawing"])
        storage.delete(job.input_files["drawing"])
        Processor(storage).process(job)
        assert security("status", job.id).exit_code == 3
        storage.save(job.input_files["drawing"], data)
    told = security("resume", job.id, "--json")
    assert told.exit_code == 0 and json.loads(told.stdout)[0]["status"] == "completed"


def test_S2_16_a_command_ends_at_a_checkpoint_before_its_time_limit_and_a_worker_goes_on() -> None:
    told = security("process", "drawing.pdf", *WHOSE, "--time-limit", "0", "--json")
    form = json.loads(told.stdout)
    assert (told.exit_code, form["status"], list(form["checkpoints"])) == (5, "queued", ["pdf_processed"])
    assert f"{form['job_id']} was handed over after pdf" in told.stderr
    resumed = security("resume", form["job_id"], "--time-limit", "0")
    assert resumed.exit_code == 5 and "handed over after pdf, components" in resumed.stderr
    assert security("worker", "--once", "--time-limit", "0").stdout == f"{form['job_id']} is queued\n", "it ends too"
    assert security("worker", "--once").exit_code == 0
    (done,) = json.loads(security("list", "--json").stdout)["jobs"]
    assert (done["status"], done["attempt"], set(done["stage_versions"].values())) == ("completed", 4, {1})


def test_S2_13_export_and_import() -> None:
    form = processed("--db", "jobs.db")
    assert security("export", "twin", "--db", "jobs.db", "--dry-run").stdout.startswith("Would copy 1 job and")
    assert security("export", "twin", "--db", "jobs.db").stdout.startswith("Copied 1 job and 9 events")
    item = json.loads(Path("twin/jobs.json").read_text())[form["company#client#job"]]
    assert item == form
    told = security("import", "twin", "--db", "compat.db", "--layout", "compat", "--json")
    assert json.loads(told.stdout)["copied"] == 1
    assert security("status", form["job_id"], "--db", "compat.db", "--layout", "compat").exit_code == 0
    assert json.loads(security("import", "twin", "--db", "jobs.db", "--json").stdout)["same"] == 1


def test_S2_14_the_environment_chooses_the_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_OUTPUT_DIR", "elsewhere")
    processed()
    assert Path("elsewhere/jobs.json").is_file()
    for name, value in {
        "STORAGE_MODE": "aws",
        "PENSTOCK_DB": "x.db",
        "PENSTOCK_FILES": "f",
        "DYNAMODB_TABLE": "mine",
    }.items():
        monkeypatch.setenv(name, value)
    processed()
    assert Path("x.db").is_file() and Path("f/7central").is_dir()
    described = CliRunner().invoke(cli, ["tables", "--help"])
    assert described.exit_code == 0
    monkeypatch.delenv("PENSTOCK_FILES")
    assert "S3_BUCKET is not set" in security("list", "--status", "queued").output


def test_S2_12_cleanup_wants_a_yes(folder: Path) -> None:
    with storage_of("local", folder, clock_at(1_000_000_000.0)) as storage:
        job = made(storage)
        Processor(storage).process(job)
    told = security("cleanup", "--dry-run")
    assert "Plan: 1 expired job," in told.stdout
    assert security("cleanup").exit_code == 2
    assert json.loads(security("cleanup", "--yes", "--json").stdout)["jobs"] == 1
    assert json.loads(Path("local_output/jobs.json").read_text()) == {}


def test_a_sample_is_a_drawing_that_can_be_processed() -> None:
    told = security("sample", "s.pdf", "--levels", "1", "--doors", "3", "--json")
    counts = json.loads(told.stdout)["counts"]
    done = json.loads(security("process", "s.pdf", *WHOSE, "--out", "s.xlsx", "--json").stdout)
    assert done["checkpoints"]["components_extracted"]["summary"]["by_type"] == counts
    assert Path("s.xlsx").read_bytes().startswith(b"PK")
