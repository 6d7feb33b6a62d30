"""`penstock demo`: what it says of systems that are done, that fail, and that cannot be run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import demo
from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.systems import showings
from penstock.systems.showings import Progress, Showing


class Pretended(Showing):
    """A system that is quick."""

    def run(self, db: Database, folder: Path, progress: Progress) -> dict[str, object]:
        if self.name == "broken":
            raise ValueError("no such drawing")
        progress(0.5, "half of it")
        (folder / "made.txt").write_text(self.name)
        return {"rows": 1234, "file": folder / "made.txt"}


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    some = (
        Pretended("fine", "Fine one"),
        Pretended("broken", "Broken one"),
        Pretended("absent", "Absent one", ("there_is_no_such_library",), "delphi"),
    )
    monkeypatch.setattr(demo, "ALL", some)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *words])


@pytest.mark.usefixtures("three")
def test_what_fails_stops_no_other_and_is_told_by_the_exit_code() -> None:
    result = run()
    assert result.exit_code == 1
    assert "rows                                 1,234" in result.stdout
    assert "ValueError: no such drawing" in result.stdout
    assert "pip install 'penstock[delphi]'" in result.stdout
    assert "penstock demo --keep" in result.stdout
    assert "made.txt" not in result.stdout, "the file is gone"


@pytest.mark.usefixtures("three")
def test_a_missing_library_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ALL", tuple(one for one in demo.ALL if one.name != "broken"))
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
        assert len(db.execute("ListTables")["TableNames"]) == 13


def test_there_are_five_each_with_what_it_shows() -> None:
    assert len(showings.ALL) == 5
    for one in showings.ALL:
        assert (Path(showings.__file__).parent / one.name / "demo.py").exists(), one.name
