"""The gate: what destroys something needs --allow-destroy, or the name typed; --yes alone is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect

MODULE = """
from penstock.tables.definitions.definition import Index, Table

by_state = Index("by-state", "state:S")
by_owner = Index("by-state", "owner:S")
full = [Table("jobs", "id:S", indexes=[by_state], stream="NEW_IMAGE", pitr=35), Table("logs", "id:S", ttl="ends")]
no_stream = [full[0].replace(stream=None), full[1]]
no_pitr = [full[0].replace(pitr=0), full[1]]
less_pitr = [full[0].replace(pitr=7), full[1]]
no_index = [full[0].replace(indexes=()), full[1]]
other_index = [full[0].replace(indexes=(by_owner,)), full[1]]
no_ttl = [full[0], full[1].replace(ttl=None)]
ttl = [full[0].replace(ttl="ends"), full[1]]
harmless = [full[0].replace(ttl="ends", tags={"team": "a"}, deletion_protection=False), full[1].replace(ttl=None)]
two = [full[0].replace(stream=None), Table("logs", "id:S", ttl="ends", stream="NEW_IMAGE")]
none = [full[0].replace(stream=None), full[1]]
"""
ON = ("--db", "tables.db")


@pytest.fixture(autouse=True)
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_DB", "PENSTOCK_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "gated", raising=False)
    (tmp_path / "gated.py").write_text(MODULE)
    run("apply", "gated:full", "--yes")


class Terminal:
    argv = ("penstock", "tables", "apply", "a name:all")

    class stdin:
        @staticmethod
        def isatty() -> bool:
            return True


class Pipe:
    argv = Terminal.argv

    class stdin:
        @staticmethod
        def isatty() -> bool:
            return False


def invoke(*words: str, input: str = "") -> Result:
    return CliRunner().invoke(cli, ["tables", *words, *ON], input=input)


def run(*words: str, code: int = 0, input: str = "") -> Result:
    result = invoke(*words, input=input)
    assert result.exit_code == code, result.output
    return result


def put_item(table: str = "jobs") -> None:
    with connect("tables.db") as db:
        db.execute("PutItem", {"TableName": table, "Item": {"id": {"S": "1"}, "ends": {"N": "1"}}})


def described(table: str = "jobs") -> dict[str, Any]:
    with connect("tables.db") as db:
        table_form: dict[str, Any] = db.execute("DescribeTable", {"TableName": table})["Table"]
        return table_form


@pytest.mark.parametrize(
    ("definitions", "loss", "more"),
    [
        ("no_stream", "- stream NEW_IMAGE", ()),
        ("no_pitr", "- point-in-time recovery", ()),
        ("less_pitr", "~ point-in-time recovery, 7 days", ()),
        ("no_index", "- index by-state", ("--drop-index", "jobs.by-state")),
        ("other_index", "- index by-state", ()),
    ],
)
def test_yes_alone_refuses_what_destroys_something(definitions: str, loss: str, more: tuple[str, ...]) -> None:
    refused = run("apply", f"gated:{definitions}", "--yes", *more, code=2)
    assert "Nothing was changed: this destroys something. --yes alone does not allow that." in refused.stderr
    assert f"  jobs: {loss}\n" in refused.stderr
    run("verify", "gated:full")
    run("apply", f"gated:{definitions}", "--yes", "--allow-destroy", *more)
    run("verify", f"gated:{definitions}")


def test_the_refusal_gives_the_complete_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.kit.options.sys", Pipe)
    with_yes = run("apply", "gated:no_stream", "--yes", code=2).stderr
    assert "\n  penstock tables apply 'a name:all' --allow-destroy\n" in with_yes
    without = run("apply", "gated:no_stream", code=2).stderr
    assert "There is no terminal to ask on." in without
    command = without.splitlines()[-1].strip()
    assert shlex.split(command) == ["penstock", "tables", "apply", "a name:all", "--yes", "--allow-destroy"]
    told = json.loads(run("apply", "gated:no_stream", "--yes", "--json", code=2).stderr)["error"]
    assert told["next"].endswith(" --allow-destroy") and told["exit_code"] == 2


def test_what_loses_nothing_needs_yes_only() -> None:
    run("apply", "gated:harmless", "--yes")
    run("verify", "gated:harmless")


def test_ttl_destroys_something_where_there_are_items() -> None:
    put_item()
    assert "  jobs: + ttl ends\n" in run("apply", "gated:ttl", "--yes", code=2).stderr
    run("apply", "gated:ttl", "--yes", "--allow-destroy")


def test_allow_destroy_does_not_answer_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    run("apply", "gated:no_stream", "--allow-destroy", code=2)
    monkeypatch.setattr("penstock.cli.kit.options.sys", Terminal)
    assert "Apply this to tables.db? [y/N]" in run("apply", "gated:no_stream", "--allow-destroy", input="y\n").output


@pytest.mark.parametrize(
    ("typed", "code"), [("jobs\n", 0), (" jobs \n", 0), ("y\n", 2), ("\n", 2), ("Jobs\n", 2), ("", 130)]
)
def test_on_a_terminal_the_name_is_typed(typed: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.kit.options.sys", Terminal)
    asked = run("apply", "gated:no_stream", code=code, input=typed)
    assert "Apply this to tables.db?" in asked.stderr
    assert "Type the table's name, jobs, to do it:" in asked.stderr
    assert ("LatestStreamArn" in described() and "StreamSpecification" in described()) is (code != 0)
    # On a terminal too, --yes alone is no answer.
    monkeypatch.undo()


def test_yes_alone_is_refused_on_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.kit.options.sys", Terminal)
    assert "--allow-destroy" in run("apply", "gated:no_stream", "--yes", code=2, input="jobs\n").stderr


def test_destroy_wants_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("destroy", "gated:full", "--yes", code=2).stderr
    assert "  jobs: - table (id)\n  logs: - table (id)\n" in refused
    monkeypatch.setattr("penstock.cli.kit.options.sys", Terminal)
    run("destroy", "gated:full", code=2, input="jobs\nno\n")
    assert described("jobs") and described("logs")
    assert "Applied: 2 deleted" in run("destroy", "gated:full", input="jobs\nlogs\n").stdout


def test_a_protected_table_is_no_loss_and_is_not_asked_for() -> None:
    with connect("tables.db") as db:
        db.execute("UpdateTable", {"TableName": "jobs", "DeletionProtectionEnabled": True})
    assert "jobs: - table" not in run("destroy", "gated:full", "--yes", code=2).stderr
    run("destroy", "gated:full", "--yes", "--allow-destroy", code=1)
    assert described("jobs")


def test_change_index_is_refused_before_it_makes_the_new_one() -> None:
    words = ("change-index", "gated:full", "--table", "jobs", "--index", "by-state", "--sort-key", "at")
    refused = run(*words, "--yes", code=2).stderr
    assert "  jobs: - index by-state\n" in refused and "--keep-old" in refused
    assert [one["IndexName"] for one in described()["GlobalSecondaryIndexes"]] == ["by-state"]
    run(*words, "--yes", "--keep-old")
    run(*words, "--yes", "--allow-destroy")
    assert [one["IndexName"] for one in described()["GlobalSecondaryIndexes"]] == ["by-state-v2"]


def test_a_backup_is_deleted_by_its_name_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    arn = json.loads(run("backup", "jobs", "--name", "before", "--json").stdout)["arn"]
    assert "  before: - backup\n" in run("delete-backup", arn, "--yes", code=2).stderr
    monkeypatch.setattr("penstock.cli.kit.options.sys", Terminal)
    run("delete-backup", arn, code=2, input="jobs\n")
    run("delete-backup", arn, input="before\n")


def test_a_program_is_told_which_changes_destroy_something() -> None:
    (jobs, _) = json.loads(run("plan", "gated:no_stream", "--json").stdout)["tables"]
    assert [change["destructive"] for change in jobs["changes"]] == [True]
    (jobs, _) = json.loads(run("plan", "gated:ttl", "--json").stdout)["tables"]
    assert all("destructive" not in change for change in jobs["changes"])
