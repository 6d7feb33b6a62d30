"""`penstock demo`: what it says of systems that are done, that fail, and that cannot be run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import demo
from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.registry import Progress, System, systems


def quick_demo(db: Database, folder: Path, progress: Progress) -> dict[str, object]:
    progress(0.5, "half of it")
    (folder / "made.txt").write_text(folder.name)
    return {"rows": 1234, "file": folder / "made.txt"}


def broken_demo(db: Database, folder: Path, progress: Progress) -> dict[str, object]:
    raise ValueError("no such drawing")


FINE = System("fine", "Fine one", demo=f"{__name__}:quick_demo")
BROKEN = System("broken", "Broken one", demo=f"{__name__}:broken_demo")
ABSENT = System(
    "absent", "Absent one", demo=f"{__name__}:quick_demo", libraries=("there_is_no_such_library",), extra="delphi"
)


def use_systems(monkeypatch: pytest.MonkeyPatch, *some: System) -> None:
    monkeypatch.setattr(demo, "systems", lambda: {one.name: one for one in some})


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    use_systems(monkeypatch, FINE, BROKEN, ABSENT)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *words])


@pytest.mark.usefixtures("three")
def test_what_fails_stops_no_other_and_is_told_by_the_exit_code() -> None:
    result = run()
    assert result.exit_code == 1
    assert "rows                                       1,234" in result.stdout
    assert "ValueError: no such drawing" in result.stdout
    assert "pip install 'penstock[delphi]'" in result.stdout
    assert "penstock demo --keep" in result.stdout
    assert "made.txt" not in result.stdout, "the file is gone"


def test_what_a_system_did_is_shown_before_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(demo.click, "echo", lambda text="", **_: shown.append(text))

    def look(db: Database, folder: Path, progress: Progress) -> dict[str, object]:
        return {"shown before": "yes" if any("1,234" in line for line in shown) else "no"}

    monkeypatch.setattr(sys.modules[__name__], "quick_look", look, raising=False)
    use_systems(monkeypatch, FINE, System("next", "Next one", demo=f"{__name__}:quick_look"))
    assert run().exit_code == 0
    assert [line.split() for line in shown if "shown before" in line] == [["shown", "before", "yes"]]


def test_a_missing_library_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    use_systems(monkeypatch, FINE, ABSENT)
    assert run().exit_code == 0


@pytest.mark.usefixtures("three")
def test_machines_are_told_the_same_as_json() -> None:
    told: list[dict[str, Any]] = json.loads(run("--json").stdout)
    assert [(one["system"], one["outcome"]) for one in told] == [
        ("fine", "done"),
        ("broken", "failed"),
        ("absent", "not run"),
    ]
    assert told[0]["facts"]["rows"] == 1234


@pytest.mark.usefixtures("three")
def test_it_is_kept_in_a_new_folder_and_in_no_other(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    told = run("--keep", str(kept)).stdout
    assert f"penstock up --db {kept / 'demo.db'}" in told
    assert str(kept / "fine" / "made.txt") in told
    assert (kept / "fine" / "made.txt").read_text() == "fine"
    assert (kept / "demo.db").exists()
    again = run("--keep", str(kept))
    assert again.exit_code == 1
    assert "is not empty" in again.output


def test_a_system_of_ours_is_shown_whole(tmp_path: Path) -> None:
    result = run("--only", "construction-expenses", "--keep", str(tmp_path / "demo"))
    assert result.exit_code == 0, result.output
    with connect(tmp_path / "demo" / "demo.db") as db:
        assert len(db.execute("ListTables")["TableNames"]) == 14, "with that of the jobs that handle webhooks"


def test_it_shows_how_a_report_is_printed_and_that_an_expired_one_goes_with_its_files() -> None:
    (ran,) = json.loads(run("--only", "excel-reports", "--json").stdout)
    facts = ran["facts"]
    assert "header repeated on" in facts["pages of the report"]
    assert re.search(r"[1-9]\d* records of its job and [1-9]\d* files? removed, 0 left", facts["an expired report"])


def test_there_are_five_each_with_what_it_shows() -> None:
    assert len(systems()) == 5
    assert all(one.demo for one in systems().values())
