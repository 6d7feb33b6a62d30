"""S1.18: every command that moves data says what it would do, and does nothing, with --dry-run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from moving_samples import filled

from penstock.cli.main import cli
from penstock.client.database import connect


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filled("shop.db", count=20):
        pass


def run(*words: str, code: int = 0, url: str = "shop.db") -> str:
    told = CliRunner().invoke(cli, ["tables", *words, "--db", url])
    assert told.exit_code == code, told.output
    return told.output


def names() -> list[str]:
    with connect("shop.db") as db:
        return db.tables()


def test_dump() -> None:
    assert run("dump", "orders", "--out", "d", "--dry-run") == "orders: 20 items would be written to d\n"
    assert not Path("d").exists()
    run("dump", "orders", "--out", "d")
    assert "there is a whole dump in it already" in run("dump", "orders", "--out", "d", "--dry-run", code=1)


def test_load() -> None:
    run("dump", "orders", "--out", "d")
    told = run("load", "d", "--table", "copy", "--create", "--dry-run")
    assert told == "copy (made as it was dumped): 20 items would be loaded\n"
    assert "--merge" in run("load", "d", "--table", "orders", "--dry-run", code=1)
    assert json.loads(run("load", "d", "--table", "copy", "--create", "--dry-run", "--json"))["dry_run"]
    assert names() == ["orders"]
    run("load", "d", "--table", "copy", "--create", "--dry-run", url="new.db")
    assert not Path("new.db").exists()


def test_backup_and_restore() -> None:
    assert run("backup", "orders", "--name", "n1", "--dry-run") == "orders: 20 items would be backed up as n1\n"
    arn = json.loads(run("backup", "orders", "--json"))["arn"]
    run("dump", "orders", "--out", "d")
    for words, settings in (
        (["--from", "orders"], "the table orders"),
        (["--backup", arn], "the table orders"),
        (["--dump", "d"], "d"),
    ):
        told = run("restore", "again", *words, "--dry-run")
        assert told == f"again: would be restored with 20 items and the settings of {settings}\n"
    assert "There is a table orders already" in run("restore", "orders", "--dump", "d", "--dry-run", code=1)
    assert names() == ["orders"]


def test_rekey_confirm_and_rollback() -> None:
    run("rekey", "orders", "--key", "day:S,number:N", "--into", "days")
    assert "Would delete days" in run("rekey", "rollback", "orders", "--dry-run")
    assert "put the settings on days; the rekey of orders is ready" in run("rekey", "confirm", "orders", "--dry-run")
    assert "Would continue" in run("rekey", "orders", "--dry-run")
    assert json.loads(run("rekey", "status", "orders", "--json"))["phase"] == "ready"
    assert "There is no rekey of nothing" in run("rekey", "confirm", "nothing", "--dry-run", code=4)
