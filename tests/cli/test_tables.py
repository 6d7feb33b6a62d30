"""`penstock tables`: the commands, their exit codes, and what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.cli.tables import COMMANDS, schema
from penstock.client.database import connect
from penstock.errors import AccessDeniedException
from penstock.tables.apply.apply import apply as apply_for_real
from penstock.tables.state.locked_apply import apply_locked

MINE = (
    "add-index",
    "apply",
    "change-index",
    "cloudformation",
    "destroy",
    "doctor",
    "export",
    "plan",
    "policy",
    "terraform",
    "verify",
)

MODULE = """
from penstock.tables.definitions.definition import Index, Table

before = [Table("jobs", "id:S"), Table("logs", ("id:S", "at:N"), ttl="expires")]
after = [Table("jobs", "id:S", indexes=[Index("by-state", "state:S")]), before[1]]
other_key = [Table("jobs", "number:N"), before[1]]
protected = [Table("jobs", "id:S", deletion_protection=True), before[1]]
due = [Table("jobs", "id:S", indexes=[Index("by-due", "due:N")]), before[1]]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with definitions, no environment of the machine's, and a module of its own for each test."""
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION", "PENSTOCK_DB", "TABLE_NAME", "INDEX_NAME", "MAX_WAIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PENSTOCK_ENVIRONMENT", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["tables", *arguments])
    assert result.exit_code == code, result.output
    return result


def on(definitions: str, *arguments: str) -> list[str]:
    return [definitions, "--db", "tables.db", "--prefix", "app", "--env", "dev", *arguments]


def put(*items: dict[str, Any]) -> None:
    with connect("tables.db") as db:
        for item in items:
            db.execute("PutItem", {"TableName": "app-dev-jobs", "Item": item})


@pytest.fixture
def applied() -> None:
    run("apply", *on("mine:before", "--yes"))


# ── help ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", MINE)
def test_every_command_has_help_with_an_example(name: str) -> None:
    text = run(name, "--help").output
    assert re.search(rf"Examples:\n(.*\n)*?\s+(\w+=.*\n.*)?penstock tables {name} ", text)
    assert "--env" in text and "--prefix" in text and "--json" in text and "--db" in text
    if name not in ("cloudformation", "terraform", "policy"):
        assert "Exit codes:" in text


def test_the_group_lists_every_command() -> None:
    text = run("--help").output
    assert all(f"\n  {name} " in text for name in COMMANDS)


# ── plan, apply, verify ──────────────────────────────────────────────────────────────────────────


def test_plan_says_what_would_be_done_and_does_nothing() -> None:
    result = run("plan", *on("mine:before"))
    assert result.stdout.splitlines() == [
        "  + app-dev-jobs   key id (S)",
        "                   on demand",
        "  + app-dev-logs   key id (S), sort key at (N)",
        "                   on demand",
        "                   ttl expires",
        "Plan: 2 to create.",
    ]
    run("plan", *on("mine:before", "--exit-code"), code=7)


def test_plan_of_what_is_as_defined(applied: None) -> None:
    result = run("plan", *on("mine:before", "--exit-code"))
    assert result.output == "Nothing to do: 2 tables as defined.\n"


def test_plan_as_json_has_fates_changes_and_costs(applied: None) -> None:
    told = json.loads(run("plan", *on("mine:after", "--json")).output)
    assert told["counts"]["change"] == 1
    assert told["under_way"] == []
    (change,) = told["tables"][0]["changes"]
    assert (change["change"], change["index"], change["cost"]["kind"]) == ("AddIndex", "by-state", "fills")


def test_apply_makes_changes_and_skips(applied: None) -> None:
    result = run("apply", *on("mine:after", "--yes"))
    assert "  done  app-dev-jobs   + index by-state (state)\n" in result.output
    assert result.output.endswith("Applied: 0 created, 1 changed, 1 skipped, 0 failed.\n")
    assert run("apply", *on("mine:after", "--yes")).output == "Nothing to do: 2 tables as defined.\n"


def test_apply_without_yes_and_without_a_terminal_changes_nothing() -> None:
    result = run("apply", *on("mine:before"), code=2)
    assert "Give --yes" in result.output
    run("plan", *on("mine:before", "--exit-code"), code=7)


def test_apply_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.kit.options.sys", _Terminal)
    for answer, code in (("n\n", 2), ("y\n", 0)):
        result = CliRunner().invoke(cli, ["tables", "apply", *on("mine:before")], input=answer)
        assert result.exit_code == code
        assert "Apply this to tables.db?" in result.output
    run("verify", *on("mine:before"))


class _Terminal:
    argv = ("penstock",)

    class stdin:
        @staticmethod
        def isatty() -> bool:
            return True


def test_a_dry_run_changes_nothing() -> None:
    assert "2 to create" in run("apply", *on("mine:before", "--dry-run")).output
    told = json.loads(run("apply", *on("mine:before", "--dry-run", "--json")).stdout)
    assert told["dry_run"] and told["counts"]["create"] == 2
    run("plan", *on("mine:before", "--exit-code"), code=7)


def test_apply_as_json_is_one_document() -> None:
    told = json.loads(run("apply", *on("mine:before", "--yes", "--json")).output)
    assert told["counts"]["created"] == 2
    assert told["tables"][1] == {
        "table": "app-dev-logs",
        "fate": "created",
        "done": ["+ table (id, at), indexes: 0"],
    }


def test_apply_refuses_another_key_does_the_rest_and_fails(applied: None) -> None:
    result = run("apply", *on("mine:other_key", "--yes"), code=1)
    assert "penstock tables rekey" in result.output
    assert "1 failed" in result.output


def test_verify_tells_drift_by_its_exit_code(applied: None) -> None:
    assert run("verify", *on("mine:before")).output == "Verified: 2 tables as defined.\n"
    result = run("verify", *on("mine:after"), code=7)
    assert "+ index by-state (state)" in result.output
    assert json.loads(run("verify", *on("mine:after", "--json"), code=7).output)["equal"] is False


def test_one_table_can_be_chosen_by_suffix_or_full_name(applied: None) -> None:
    run("verify", *on("mine:after", "--table", "logs"))
    run("verify", *on("mine:after", "--table", "app-dev-logs", "--table", "jobs"), code=7)
    assert "it has jobs, logs" in run("verify", *on("mine:after", "--table", "log"), code=2).output


def test_a_table_has_its_own_name_unless_a_prefix_or_an_environment_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DB", "tables.db")
    assert "  + jobs " in run("plan", "mine:before").output
    assert "  + jobs " in run("plan", "mine:before", "--prefix", "").output
    assert "  + acme-staging-jobs " in run("plan", "mine:before", "--prefix", "acme", "--env", "staging").output
    monkeypatch.setenv("PENSTOCK_ENVIRONMENT", "staging")
    assert "  + staging-jobs " in run("plan", "mine:before").output
    assert "  + jobs " in run("plan", "mine:before", "--env", "production").output


def test_a_system_has_the_prefix_of_its_definition() -> None:
    plan = ["plan", "construction-expenses", "--db", "tables.db"]
    assert "  + construction-expenses-companies " in run(*plan).output
    assert "  + companies " in run(*plan, "--prefix", "").output


def test_variables_of_the_seed_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "TABLE_NAME", "INDEX_NAME", "PARTITION_KEY", "MAX_WAIT"):
        monkeypatch.setenv(name, "x")
    run("apply", "mine:before", "--db", "tables.db", "--yes")
    with connect("tables.db") as db:
        assert db.tables() == ["jobs", "logs", "penstock-state"]
    assert "Missing option '--table'" in run("add-index", "mine:before", "--db", "tables.db", code=2).output


@pytest.mark.parametrize(
    "system", ["account-records", "construction-expenses", "delphi", "excel-reports", "security-assistant"]
)
@pytest.mark.parametrize("layout", ["safe", "compat"])
def test_every_system_is_applied_and_verified(system: str, layout: str) -> None:
    arguments = [system, "--db", "tables.db", "--layout", layout]
    run("apply", *arguments, "--yes")
    run("verify", *arguments)


def test_nothing_is_coloured_where_there_is_no_terminal() -> None:
    for command in ("plan", "apply"):
        assert "\x1b" not in run(command, *on("mine:before", *(["--yes"] if command == "apply" else []))).output


def test_ctrl_c_exits_with_130_and_says_how_to_go_on(applied: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, report: Any, **options: Any) -> Any:
        def stop(_: object) -> None:
            raise KeyboardInterrupt

        return apply_locked(*arguments, report=stop, **options)

    monkeypatch.setattr(schema, "apply_survey", interrupted)
    result = run("apply", *on("mine:after", "--yes"), code=130)
    assert "app-dev-jobs: done: nothing; was at: + index by-state (state)" in result.output
    assert "run it again" in result.output
    monkeypatch.undo()


def test_ctrl_c_before_anything_is_changed_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.cli.tables.schema.survey", interrupted)
    assert run("plan", *on("mine:before"), code=130).output.endswith("Interrupted.\n")


# ── bad input ────────────────────────────────────────────────────────────────────────────────────


def test_definitions_that_lead_nowhere_are_told() -> None:
    result = run("plan", "nothing", "--db", "tables.db", code=1)
    assert "it is no system, no folder that exists, and no module:attribute" in result.output
    assert not Path("tables.db").exists()


def test_broken_json_is_told_with_file_and_line() -> None:
    Path("schemas").mkdir()
    Path("schemas/jobs.json").write_text('{\n  "Table": {,}\n}\n')
    assert "schemas/jobs.json:2:" in run("plan", "schemas", "--db", "tables.db", code=1).output


def test_a_missing_url_is_a_wrong_call() -> None:
    assert "--db" in run("plan", "mine:before", code=2).output


def test_an_endpoint_that_is_not_there_is_told() -> None:
    result = run("plan", "mine:before", "--db", "no://such", code=1)
    assert "no://such" in result.output


@pytest.mark.parametrize("option", ["--prefix", "--env"])
@pytest.mark.parametrize("value", ["a b", "a/b", "é"])
@pytest.mark.parametrize("command", ["plan", "apply", "verify", "destroy", "policy", "export"])
def test_a_part_of_names_that_dynamodb_refuses_is_a_usage_error(command: str, option: str, value: str) -> None:
    words = {"policy": ["mine:before", "--for", "plan"], "export": ["mine:before", "--db", "z.db"]}
    result = run(command, *words.get(command, ["mine:before", "--db", "z.db"]), option, value, code=2)
    assert f"Invalid value for '{option}': {value!r} is to be a part of tables' names." in result.output
    assert not Path("z.db").exists()


def test_a_variable_that_names_cannot_have_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVIRONMENT", "bad env")
    for words in (["tables", "apply", "--yes"], ["load-sample", "--companies", "1"], ["resume"]):
        result = CliRunner().invoke(cli, ["construction", *words, "--db", "z.db"])
        assert result.exit_code == 2, result.output
        assert "Invalid value for '--env': 'bad env'" in result.output
    assert not Path("z.db").exists()


def test_what_another_run_has_made_meanwhile_is_not_told_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def slower_than_another(db: Any, survey: Any, state: Any, **options: Any) -> Any:
        apply_for_real(db, survey)
        return apply_locked(db, survey, state, **options)

    monkeypatch.setattr(schema, "apply_survey", slower_than_another)
    changes = [("apply", "mine:before", "+ table"), ("apply", "mine:after", "+ index"), ("destroy", "mine:after", "")]
    for command, tables, change in changes:
        told = run(command, *on(tables, "--yes", *["--allow-destroy"][: command == "destroy"])).output
        assert "  done  " not in told
        assert re.search(rf"  skipped  app-dev-jobs   {re.escape(change)}.*   somebody else has made this change", told)
        assert "Applied: 0 created, 0 changed, 2 skipped, 0 failed." in told
    report = json.loads(run("apply", *on("mine:before", "--yes", "--json")).output)
    assert [(one["fate"], one["done"]) for one in report["tables"]] == [("skipped", [])] * 2


def test_an_index_that_somebody_added_is_dropped_only_by_its_name(applied: None) -> None:
    run("apply", *on("mine:after", "--yes"))
    kept = run("apply", *on("mine:before", "--yes"))
    assert "index by-state stays, though no definition has it; --drop-index jobs.by-state drops it" in kept.output
    assert "by-state" in run("verify", *on("mine:before"), code=7).output
    run("apply", *on("mine:before", "--yes", "--allow-destroy", "--drop-index", "jobs.by-state"))
    run("verify", *on("mine:before"))


# ── a new index beside the items that are there ──────────────────────────────────────────────────


def test_plan_and_apply_tell_of_items_that_a_new_index_cannot_hold(
    applied: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put({"id": {"S": "1"}, "due": {"S": "monday"}}, {"id": {"S": "2"}, "due": {"N": "7"}}, {"id": {"S": "3"}})
    planned = run("plan", *on("mine:due"))
    assert "app-dev-jobs   index by-due: looked at 3 items, it would have 1 of them\n" in planned.stdout
    assert "warning: due should be N, and is S in 1: such items can no longer be written." in planned.stderr
    (told,) = json.loads(run("plan", *on("mine:due", "--json")).stdout)["index_checks"]
    assert (told["index"], told["sampled"], told["holds"]) == ("by-due", 3, 1)

    refused = run("apply", *on("mine:due", "--yes"), code=1)
    assert "of 3 sampled items due should be N, and is S in 1" in refused.output and "--force" in refused.output
    run("plan", *on("mine:due", "--exit-code"), code=7)
    run("apply", *on("mine:due", "--yes", "--dry-run"))

    monkeypatch.setattr("penstock.cli.kit.options.sys", _Terminal)
    asked = CliRunner().invoke(cli, ["tables", "apply", *on("mine:due")], input="n\n")
    assert asked.exit_code == 2
    assert asked.output.index("such items can no longer be written") < asked.output.index("Apply this to tables.db?")
    run("apply", *on("mine:due", "--yes", "--force"))
    run("verify", *on("mine:due"))


def test_an_index_that_no_item_would_be_in_is_told(applied: None) -> None:
    put({"id": {"S": "1"}, "Due": {"N": "7"}})
    assert "none of 1 sampled items has due: the index will be empty" in run("plan", *on("mine:due")).stderr
    run("apply", *on("mine:due", "--yes"))


def test_a_missing_right_to_scan_breaks_no_plan(applied: None, monkeypatch: pytest.MonkeyPatch) -> None:
    put({"id": {"S": "1"}, "due": {"S": "monday"}})

    def refuse(*_: object) -> None:
        raise AccessDeniedException("User: nobody is not authorized to perform: dynamodb:Scan")

    monkeypatch.setattr("penstock.tables.indexes.sample", refuse)
    planned = run("plan", *on("mine:due"))
    assert "+ index by-due (due)" in planned.stdout
    assert (
        "index by-due: its items could not be looked at: AccessDeniedException: User: nobody is not authorized"
        in planned.stderr
    )
    assert "penstock tables policy mine:due --for plan" in planned.stderr
    (told,) = json.loads(run("plan", *on("mine:due", "--json")).stdout)["index_checks"]
    assert "not authorized to perform: dynamodb:Scan" in told["unread"] and told["misfits"] == []
    run("apply", *on("mine:due", "--yes"))
