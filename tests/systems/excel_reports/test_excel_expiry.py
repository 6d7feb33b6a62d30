"""Expired jobs take their files along; a table's layout is detected; a refused command leaves nothing queued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from report_worlds import LAYOUTS, START

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.files import Files, open_files
from penstock.systems.excel_reports.records import BadReport
from penstock.systems.excel_reports.service import ExcelReports

ROWS = "a,b\n1,2\n3,4\n"


def service_of(db: Database, folder: Path, clock: ManualClock, layout: Any = None) -> ExcelReports:
    (folder / "rows.csv").write_text(ROWS)
    found = ExcelReports(
        db, open_files(folder / "files"), layout=layout, clock=clock, sources=[str(folder / "rows.csv")]
    )
    found.prepare()
    return found


def keys(files: Files) -> list[str]:
    return [file.key for file in files.list()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_files_of_an_expired_job_go_and_those_of_others_stay(layout: Any, tmp_path: Path) -> None:
    clock = ManualClock(START)
    with connect(":memory:") as db:
        service = service_of(db, tmp_path, clock, layout)
        service.files.save("job_0000001_abcdef/other.txt", b"of a job of another app")
        first = service.generate("p")
        service.worker(until_empty=True, concurrency=1).run()
        clock.advance(20 * 3600)
        second = service.generate("p")
        service.worker(until_empty=True, concurrency=1).run()
        assert service.expired_files.remove().jobs == 0
        clock.advance(5 * 3600)
        before = keys(service.files)
        planned = service.expired_files.remove(dry_run=True)
        assert keys(service.files) == before
        removed = service.expired_files.remove()
        assert removed == planned
        assert (removed.jobs, removed.files > 1) == (1, True)
        assert not [key for key in keys(service.files) if first.job_id in key]
        kept = service.read(second.job_id).job.result
        assert kept is not None and service.files.exists(kept["fileKey"])
        assert service.files.exists("job_0000001_abcdef/other.txt")


def test_a_worker_removes_them_by_itself(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with connect(":memory:") as db:
        service = service_of(db, tmp_path, clock)
        first = service.generate("p")
        service.worker(until_empty=True, concurrency=1).run()
        clock.advance(25 * 3600)
        service.worker(until_empty=True, concurrency=1)
        assert not [key for key in keys(service.files) if first.job_id in key]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_table_is_detected_and_another_one_refused(layout: Any, tmp_path: Path) -> None:
    other = "compat" if layout == "safe" else "safe"
    with connect(":memory:") as db:
        service_of(db, tmp_path, ManualClock(START), layout)
        assert ExcelReports(db, open_files(tmp_path / "files")).jobs.layout == layout
        with pytest.raises(BadReport, match=f"has the layout {layout}"):
            ExcelReports(db, open_files(tmp_path / "files"), layout=other)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("JOBS_TABLE", "JOB_TTL_HOURS", "PENSTOCK_FILES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_DB", "reports.db")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(ROWS)

    def call(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(cli, ["excel", *words])
        assert done.exit_code == code, done.output
        return done

    return call


def test_a_refused_command_leaves_nothing_queued_and_makes_no_file(run: Any, tmp_path: Path) -> None:
    for words in (
        ("--products", "-1"),
        ("--source", "nowhere"),
        ("--source", "rows.csv", "--products", "3"),
        ("--template", "rows.csv"),
        ("--source", "rows.csv", "--template", "rows.csv"),
    ):
        run("generate", "p", *words, code=2)
    assert not (tmp_path / "reports.db").exists()
    run("generate", "p", "--products", "1", "--images", "0", "--layout", "compat", "--no-wait")
    run("generate", "p", "--layout", "safe", code=2)
    assert len(json.loads(run("list", "--json").stdout)) == 1
    with connect("reports.db") as db:
        db.execute(
            "CreateTable",
            {
                "TableName": "others",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
    assert "no table of report jobs" in run("generate", "p", "--table", "others", code=2).output
    with connect("reports.db") as db:
        assert list(db.table("others").scan()) == []


def test_a_report_of_ones_own_file_from_the_command_line(run: Any) -> None:
    done = run("generate", "mine", "--source", "rows.csv")
    assert "fetching-rows" in done.output
    (job,) = json.loads(run("list", "--json").stdout)
    assert job["result"]["statistics"]["totalRows"] == 2
    assert "totalRows 2" in run("status", job["jobId"]).stdout
    assert "0 files of 0 expired jobs" in run("cleanup", "--dry-run").stdout
