"""The work of every system is in one list: `penstock jobs list`, `show`, `watch`, `retry`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.files import open_files
from penstock.jobs.model.state import State
from penstock.jobs.sources import AllJobs, JobQuery
from penstock.registry import job_source_types
from penstock.systems.delphi.queue.poller import JobQueue
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.security_assistant.drawing.sample import Building
from penstock.systems.security_assistant.jobs.stages import NewDrawing, submit_drawing
from penstock.systems.security_assistant.jobs.storage import Settings, open_storage


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*words])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `penstock demo` leaves, and a job of Delphi's queue."""
    folder = tmp_path_factory.mktemp("systems") / "demo"
    only = ["account-records", "construction-expenses", "excel-reports", "security-assistant"]
    run("demo", "--keep", str(folder), *(word for name in only for word in ("--only", name)))
    queue = JobQueue(folder / "demo.db")
    queue.enqueue(folder / "comments.csv", conversation_id="our-town")
    queue.close()
    return folder / "demo.db"


def listed(database: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("jobs", "list", "--db", str(database), "--json", *words).stdout)[
        "jobs"
    ]
    return found


def test_the_jobs_of_all_five_systems_are_listed_without_naming_a_table(database: Path) -> None:
    jobs = listed(database)
    assert Counter(job["system"] for job in jobs) == {
        "account-records": 2,
        "construction-expenses": 18,
        "delphi": 1,
        "excel-reports": 2,
        "security-assistant": 3,
    }
    assert {job["task"] for job in jobs if job["system"] in ("excel-reports", "security-assistant", "delphi")} == {
        "excel_report",
        "drawing",
        "FULL_PIPELINE",
    }
    assert [job["created_at"] for job in jobs] == sorted((job["created_at"] for job in jobs), reverse=True)


def test_a_list_goes_by_state_and_tenant_over_all_systems(database: Path) -> None:
    (failed,) = listed(database, "--state", "failed")
    assert failed["system"] == "construction-expenses" and failed["error"]["kind"] == "BadWebhook"
    assert {job["tenant"] for job in listed(database, "--tenant", "7central")} == {"7central"}
    assert [job["system"] for job in listed(database, "--state", "queued")] == ["delphi"]


def test_pages_of_the_list_have_every_job_once(database: Path) -> None:
    seen: list[str] = []
    token: list[str] = []
    while True:
        page = json.loads(run("jobs", "list", "--db", str(database), "--json", "--limit", "4", *token).stdout)
        seen += [job["id"] for job in page["jobs"]]
        if page["token"] is None:
            break
        token = ["--token", page["token"]]
    assert seen == [job["id"] for job in listed(database)]


@pytest.mark.parametrize("system", ["account-records", "construction-expenses", "excel-reports", "security-assistant"])
def test_a_job_of_a_system_is_shown_and_watched(database: Path, system: str) -> None:
    job = next(one for one in listed(database, "--state", "completed") if one["system"] == system)
    shown = json.loads(run("jobs", "show", job["id"], "--db", str(database), "--json").stdout)
    assert shown["state"] == "completed"
    assert shown["log"] or system == "account-records"
    assert job["id"] in run("jobs", "why", job["id"], "--db", str(database)).stdout
    run("jobs", "watch", job["id"], "--db", str(database))


def test_a_job_is_changed_by_its_systems_commands(database: Path) -> None:
    (failed,) = listed(database, "--state", "failed")
    refused = run("jobs", "retry", failed["id"], "--db", str(database), code=3)
    assert "change it with `penstock construction`" in refused.output


def test_a_job_of_delphis_queue_is_cancelled_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "delphi.db"
    queue = JobQueue(file)
    job = queue.enqueue(tmp_path / "comments.csv", conversation_id="our-town")
    queue.close()
    assert run("jobs", "cancel", job.id, "--db", str(file)).stdout.split() == [job.id, "cancelled"]
    assert [one["state"] for one in listed(file)] == ["cancelled"]


def test_the_original_layouts_are_recognised_too(tmp_path: Path) -> None:
    file = tmp_path / "compat.db"
    with connect(file) as db:
        reports = ReportJobs(db, layout="compat", table="my-reports")
        reports.create_table()
        report = reports.create_job("a-project")
    settings = Settings("aws", url=str(file), files=str(tmp_path / "files"), table="my-drawings", layout="compat")
    with open_storage(settings) as storage:
        building = Building()
        drawing = submit_drawing(
            storage, NewDrawing("7central", building.client, building.project, "d.pdf", building.pdf())
        )
    with connect(file) as db:
        page = AllJobs.in_database(db, job_source_types()).find(JobQuery(state=State.QUEUED))
    assert {job_id: source.system for job_id, source in page.sources.items()} == {
        report.job_id: "excel-reports",
        drawing.id: "security-assistant",
    }


def test_the_work_on_a_report_is_changed_by_penstock_excel(tmp_path: Path) -> None:
    file = tmp_path / "reports.db"
    with connect(file) as db:
        service = ExcelReports(db, open_files(tmp_path / "files"))
        service.prepare()
        job = service.generate("a-project", {"products": 1})
    (found,) = listed(file)
    assert (found["id"], found["system"], found["state"]) == (job.job_id, "excel-reports", "queued")
    assert "`penstock excel`" in run("jobs", "cancel", job.job_id, "--db", str(file), code=3).output
