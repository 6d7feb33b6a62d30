"""`penstock excel`, as one types it: S0.7, S0.10, S0.12."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect

PROJECT = "mlab_bodwassho_usa_3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("JOBS_TABLE", "JOB_TTL_HOURS", "PENSTOCK_FILES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_DB", "reports.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["excel", *words])
    assert done.exit_code == code, done.output
    return done


def told(*words: str, code: int = 0) -> Any:
    return json.loads(run(*words, "--json", code=code).stdout)


@pytest.mark.parametrize("layout", ["safe", "compat"])
def test_a_report_is_made_watched_and_found_again(layout: str, folder: Path) -> None:
    at = ("--layout", layout)
    done = run("generate", PROJECT, "--products", "5", "--images", "2", *at)
    assert "80 %  downloading-images  downloaded=2" in done.output
    (job,) = told("list", *at)
    assert (job["status"], job["options"]["products"]) == ("completed", 5)
    assert Path(job["result"]["downloadUrl"].removeprefix("file://")).is_relative_to(folder / "reports.db.files")
    assert "completed" in run("status", job["jobId"], *at).stdout
    numbers = [one["sequenceNumber"] for one in told("logs", job["jobId"], *at)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert run("list", "--status", "failed", *at).stdout == ""


def test_a_wish_waits_for_a_worker() -> None:
    job_id = run("generate", PROJECT, "--products", "2", "--no-wait").stdout.strip()
    assert told("status", job_id)["status"] == "pending"
    assert told("worker", "--burst") == {"completed": 1, "failed": 0, "retried": 0}
    assert told("status", job_id)["status"] == "completed"
    run("retry", job_id, code=1)


def test_S0_10_the_environment_names_table_and_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBS_TABLE", "my-jobs")
    monkeypatch.setenv("JOB_TTL_HOURS", "48")
    job_id = run("generate", PROJECT, "--no-wait").stdout.strip()
    with connect("reports.db") as db:
        assert set(db.tables()) == {"my-jobs", "my-jobs-work"}
        (item,) = db.table("my-jobs").scan()
    assert item["jobId"] == job_id
    assert round(float(item["ttl"]) - 48 * 3600) in range(1_700_000_000, 3_000_000_000)
    monkeypatch.setenv("JOB_TTL_HOURS", "0")
    assert "more than 0" in run("list", code=2).output


def test_what_goes_wrong_has_its_exit_code() -> None:
    assert "no such database" in run("list", code=1).output
    run("generate", PROJECT, "--products", "1", "--images", "0")
    assert "There is no job job_1" in run("status", "job_1", code=4).output
    assert "There is no job job_1" in run("logs", "job_1", code=4).output
    wrong = run("generate", PROJECT, "--products", "-1", "--images", "501", code=2).output
    assert "products is from 0 to 100000" in wrong
    assert "images is from 0 to 500" in wrong
    assert "has no table other" in run("list", "--table", "other", code=1).output


def test_a_failed_report_is_exit_code_3(folder: Path) -> None:
    (folder / "out").write_text("a file where the folder should be")
    done = run("generate", PROJECT, "--files", "out", code=3)
    assert "failed" in done.output


def test_every_command_has_help_with_an_example() -> None:
    for command in ("cleanup", "generate", "list", "logs", "retry", "serve", "status", "worker"):
        assert f"penstock excel {command}" in run(command, "--help").output
    assert "penstock excel generate" in run("--help").output


def tables(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["tables", *words])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("layout", ["safe", "compat"])
def test_S0_7_the_table_is_made_given_its_ttl_and_deleted_by_commands(layout: str) -> None:
    words = ("excel-reports", "--layout", layout)
    tables("apply", *words, "--yes")
    with connect("reports.db") as db:
        told = db.execute("DescribeTable", {"TableName": "excel-report-jobs"})["Table"]
        expiry = db.execute("DescribeTimeToLive", {"TableName": "excel-report-jobs"})["TimeToLiveDescription"]
    assert (told["TableStatus"], expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ACTIVE", "ENABLED", "ttl")
    assert "excel-report-jobs" in tables("destroy", *words, "--dry-run").output
    tables("destroy", *words, code=2)
    tables("destroy", *words, "--yes", "--allow-destroy")
    with connect("reports.db") as db:
        assert db.tables() == ["penstock-state"]


def test_S0_1_a_compat_table_becomes_a_safe_one_with_its_jobs() -> None:
    run("generate", PROJECT, "--products", "2", "--layout", "compat")
    (job,) = told("list", "--layout", "compat")
    logs = told("logs", job["jobId"], "--layout", "compat")
    new = ("--key", "jobId:S,recordId:S", "--into", "excel-report-jobs-safe")
    tables("rekey", "excel-report-jobs", *new, "--yes")
    tables("rekey", "confirm", "excel-report-jobs", "--yes")
    at = ("--table", "excel-report-jobs-safe")
    assert told("list", *at) == [job]
    assert told("logs", job["jobId"], *at) == logs
