"""`penstock tables migrate` as people use it, and a run that is killed beside a writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from trust.migrate import trial

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with connect("shop.db") as db:
        make(db, Table("users", key="id:S"), "users")
        db.table("users").put({"id": "1", "name": "Ada\x1b[2J"})
    migrate("new", "full_name", "--table", "users", db=False)
    return migrate


def migrate(*words: str, db: bool = True) -> Result:
    return CliRunner().invoke(cli, ["tables", "migrate", *words, *(("--db", "shop.db") if db else ())])


def test_new_plan_up_status_verify_down(run: Any) -> None:
    planned = run("plan")
    assert planned.exit_code == 0
    assert "0001_full_name on users: about 1 of 1 items would change" in planned.output
    assert '    - name       "Ada\\u001b[2J"' in planned.output
    assert "a second time changes nothing" in planned.output
    refused = run("up")
    assert refused.exit_code == 2
    assert "--yes" in refused.output
    assert run("up", "--dry-run", "--json").exit_code == 0
    done = run("up", "--yes", "--no-backup", "--json")
    assert json.loads(done.stdout)[0]["counts"]["changed"] == 1
    assert run("up", "--yes").output == "Nothing to do.\n"
    assert "applied 20" in run("status").output
    assert run("verify").exit_code == 0
    with connect("shop.db") as db:
        db.table("users").put({"id": "2", "name": "Grace"})
    late = run("verify")
    assert late.exit_code == 7
    assert "1 of the old shape" in late.output
    assert run("up", "--again", "--no-backup").exit_code == 0
    assert run("verify").exit_code == 0
    assert "undone" in run("down", "--yes", "--no-backup").output
    with connect("shop.db") as db:
        assert {item["name"] for item in db.table("users").scan()} == {"Ada\x1b[2J", "Grace"}


def test_failed_items_end_with_three_and_are_listed(run: Any) -> None:
    path = Path("migrations/0001_full_name.py")
    path.write_text('table = "users"\ndef up(item):\n    raise ValueError("no\\x1b[2Jway")\n')
    assert run("plan").exit_code == 3
    failed = run("up", "--yes", "--no-backup")
    assert failed.exit_code == 3
    assert "id=1: ValueError: no\\u001b[2Jway" in failed.output
    assert json.loads(run("status", "--json").stdout)[0]["failed"][0]["key"] == {"id": {"S": "1"}}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("up", "--again", "--retry-failed"), "one of --retry-failed and --again"),
        (("up", "--only", "1"), "--only goes with --again"),
        (("status", "--table", "orders"), "no migration is for orders"),
        (("plan", "--to", "9"), "no migration 9"),
        (("status", "--folder", "elsewhere"), "no folder elsewhere"),
        (("verify", "--only", "1"), "is not applied"),
    ],
)
def test_what_is_called_wrongly_is_told(run: Any, words: tuple[str, ...], told: str) -> None:
    result = run(*words)
    assert result.exit_code in (1, 2)
    assert told in result.output


@pytest.mark.crash
def test_killed_beside_a_writer_nothing_is_lost(tmp_path: Path) -> None:
    wrong, summary = trial(tmp_path / "people.db", items=3_000, kills=2, seed=11)
    assert wrong == [], summary
    assert "all, all" not in summary, f"no run was killed in the middle of its work: {summary}"
