"""Orphans: tables with our tags that no definition names; told by plan and by `orphans`, and never touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.errors import AccessDeniedException, UnknownOperationException
from penstock.tables.apply.apply import ensure_tables
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.plan.orphans import find_orphans

MODULE = """
from penstock.tables.definitions.definition import Table

three = [Table("jobs", "id:S"), Table("logs", "id:S"), Table("old", "id:S")]
two = three[:2]
"""


@pytest.fixture(autouse=True)
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_DB", "PENSTOCK_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "orphaned", raising=False)
    (tmp_path / "orphaned.py").write_text(MODULE)


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["tables", *words, "--db", "tables.db"])
    assert result.exit_code == code, result.output
    return result


def test_plan_tells_orphans_and_apply_leaves_them() -> None:
    run("apply", "orphaned:three", "--prefix", "app", "--yes")
    line = "Orphans, which have our tags and no definition, and are left alone: app-old.\n"
    assert run("plan", "orphaned:two", "--prefix", "app").stdout.endswith(line)
    told = json.loads(run("plan", "orphaned:two", "--prefix", "app", "--json").stdout)
    assert [one["table"] for one in told["orphans"]] == ["app-old"]
    assert told["orphans_unknown"] is None
    assert "app-old" in run("plan", "orphaned:two", "--prefix", "app", "--markdown").stdout
    run("apply", "orphaned:two", "--prefix", "app", "--yes", "--allow-destroy")
    with connect("tables.db") as db:
        assert "app-old" in db.tables()


def test_the_command_lists_them() -> None:
    run("apply", "orphaned:three", "--prefix", "app", "--yes")
    told = run("orphans", "orphaned:two", "--prefix", "app", "--exit-code", code=7).stdout
    assert told.startswith("app-old   made 20") and told.endswith("Orphans: 1 table.\n")
    told = json.loads(run("orphans", "orphaned:two", "--prefix", "app", "--json").stdout)
    assert told["orphans"][0]["created_at"].startswith("20")
    assert run("orphans", "orphaned:three", "--prefix", "app", "--exit-code").stdout == "Orphans: 0 tables.\n"


def test_a_table_that_an_option_leaves_out_is_no_orphan() -> None:
    run("apply", "orphaned:three", "--yes")
    assert "Orphans" not in run("plan", "orphaned:three", "--table", "jobs").stdout


def test_others_are_none_of_our_business() -> None:
    """Those of another environment or prefix, of nobody, of Penstock itself and of its systems."""
    run("apply", "orphaned:three", "--env", "dev", "--yes")
    run("apply", "orphaned:three", "--prefix", "app", "--yes")
    run("apply", "orphaned:two", "--yes")
    run("apply", "jobs", "--yes")
    with connect("tables.db") as db:
        key = {"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}
        schema = {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
        db.execute("CreateTable", {"TableName": "somebody", **key, **schema})
        assert {"penstock-state", "penstock-jobs", "dev-old", "app-old"} <= set(db.tables())
    assert run("orphans", "orphaned:two").stdout == "Orphans: 0 tables.\n"


@pytest.mark.parametrize("error", [AccessDeniedException("not authorized"), UnknownOperationException("no such")])
def test_a_plan_is_worth_having_without_them(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    run("apply", "orphaned:three", "--yes")
    execute = EmbeddedTransport.execute

    def refuse(self: EmbeddedTransport, operation: str, request: dict[str, object]) -> object:
        if operation == "ListTables":
            raise error
        return execute(self, operation, request)

    monkeypatch.setattr(EmbeddedTransport, "execute", refuse)
    told = run("plan", "orphaned:two").stdout
    assert "Nothing to do" in told and "Orphans: not known: " in told
    assert "tables policy orphaned:two --for orphans" in run("orphans", "orphaned:two", code=1).output


def test_a_plan_looks_at_a_bounded_number_of_tables() -> None:
    with connect() as db:
        ensure_tables(db, [Table(f"tab{number}", "id:S") for number in range(5)])
        found = find_orphans(db, Naming(), {"tab0"}, most=2)
        assert [one.name for one in found.tables] == ["tab1", "tab2"] and found.left == 2
        assert "2 more tables were not looked at: `penstock tables orphans` does." in found.text
