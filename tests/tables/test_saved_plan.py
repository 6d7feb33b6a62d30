"""`plan --out FILE`, `apply FILE`: exactly the plan that was read, where it was made for, if nothing has moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from table_strategies import tables

import penstock
from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import Naming, Table, VectorIndex
from penstock.tables.plan import saved_plan
from penstock.tables.plan.plan import plan_table
from penstock.tables.plan.survey import Live, Survey, TableSurvey, survey_table

MODULE = """
from penstock.tables.definitions.definition import Index, Table, Throughput

before = [Table("jobs", "id:S", stream="NEW_IMAGE"), Table("logs", ("id:S", "at:N"), tags={"type": "log", "is": "ä"})]
after = [before[0].replace(indexes=(Index("by-state", "state:S"),)), before[1], Table("new", "id:S", ttl="ends")]
streamless = [before[0].replace(stream=None), before[1]]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PENSTOCK_DB", "PENSTOCK_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "saved", raising=False)
    (tmp_path / "saved.py").write_text(MODULE)


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["tables", *words])
    assert result.exit_code == code, result.output
    return result


ON = ("--db", "tables.db", "--prefix", "app")


@pytest.fixture
def planned() -> None:
    run("apply", "saved:before", *ON, "--yes")
    run("plan", "saved:after", *ON, "--out", "a.plan")


def change(operation: str, **request: Any) -> None:
    with connect("tables.db") as db:
        db.execute(operation, request)


def test_apply_carries_out_the_plan_that_was_saved(planned: None) -> None:
    Path("saved.py").unlink()  # the file is enough
    result = run("apply", "a.plan", "--yes")
    assert "  done  app-jobs   + index by-state (state)\n" in result.stdout
    assert "Applied: 1 created, 1 changed, 1 skipped, 0 failed." in result.stdout
    assert "of saved:after." in result.stderr
    Path("saved.py").write_text(MODULE)
    run("verify", "saved:after", *ON)
    # Made already is no move; there is nothing left to do.
    assert "0 failed" in run("apply", "a.plan", "--yes").stdout


def test_the_file_is_read_by_people_and_programs(planned: None) -> None:
    form = json.loads(Path("a.plan").read_text())
    assert form["format"] == "penstock tables plan"
    assert form["plan"]["counts"] == {"create": 1, "change": 1, "delete": 0, "refused": 0, "keep": 1}
    assert form["definitions"]["source"] == "saved:after"
    assert form["place"]["url"] == str(Path("tables.db").resolve())


def test_a_table_that_moved_is_told_with_what_and_by_whom(planned: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ACTOR", "ada@laptop")
    run("apply", "saved:streamless", *ON, "--yes", "--allow-destroy")
    refused = run("apply", "a.plan", "--yes", code=1).output
    assert "app-jobs has changed since this was planned: - stream NEW_IMAGE." in refused
    assert "ada@laptop  apply: - stream NEW_IMAGE" in refused
    assert "Make a new one: penstock tables plan" in refused
    with connect("tables.db") as db:
        assert "app-new" not in db.tables()
    unlocked = run("apply", "a.plan", "--yes", "--no-lock", code=1).output
    assert "- stream NEW_IMAGE" in unlocked and "ada" not in unlocked


def test_a_table_that_the_plan_leaves_alone_may_not_move_either(planned: None) -> None:
    update = {"Enabled": True, "AttributeName": "ends"}
    change("UpdateTimeToLive", TableName="app-logs", TimeToLiveSpecification=update)
    assert "app-logs has changed since this was planned: + ttl ends." in run("apply", "a.plan", "--yes", code=1).output


def test_capacity_may_be_scaled_meanwhile_and_the_billing_mode_may_not_change(planned: None) -> None:
    capacity = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 7}
    change("UpdateTable", TableName="app-logs", BillingMode="PROVISIONED", ProvisionedThroughput=capacity)
    assert "app-logs has changed since this was planned: ~ " in run("apply", "a.plan", "--yes", code=1).output
    run("plan", "saved:after", *ON, "--out", "a.plan", "--table", "jobs", "--table", "new")
    change("UpdateTable", TableName="app-jobs", BillingMode="PROVISIONED", ProvisionedThroughput=capacity)
    assert "app-jobs has changed" in run("apply", "a.plan", "--yes", code=1).output


def test_a_table_that_is_gone_has_moved(planned: None) -> None:
    change("DeleteTable", TableName="app-jobs")
    assert "app-jobs has changed since this was planned: - table" in run("apply", "a.plan", "--yes", code=1).output


def test_another_database_is_refused(planned: None) -> None:
    run("apply", "saved:before", "--db", "other.db", "--prefix", "app", "--yes")
    refused = run("apply", "a.plan", "--db", "other.db", "--yes", code=1).output
    assert f"it is for {Path('tables.db').resolve()}, and --db is {Path('other.db').resolve()}" in refused
    Path("tables.db").unlink()
    assert "the database tables.db is gone" in run("apply", "a.plan", "--yes", code=1).output
    assert not Path("tables.db").exists()


def test_another_region_or_account_is_refused() -> None:
    with Engine() as engine, running_server(engine) as server:
        run("apply", "saved:before", "--db", server.url, "--yes")
        run("plan", "saved:after", "--db", server.url, "--out", "a.plan")
        refused = run("apply", "a.plan", "--db", f"{server.url}?region=eu-west-2", "--yes", code=1).output
        assert f"it is for {server.url} in us-east-1, and --db is {server.url} in eu-west-2" in refused
        form = json.loads(Path("a.plan").read_text())
        for one in form["tables"][:2]:
            one["live"]["facts"]["arn"] = one["live"]["facts"]["arn"].replace(":000000000000:", ":123456789012:")
        form["checksum"] = saved_plan._checksum(form)
        Path("a.plan").write_text(json.dumps(form))
        refused = run("apply", "a.plan", "--yes", code=1).output
        assert "it was arn:aws:dynamodb:us-east-1:123456789012:table/jobs" in refused


def test_a_plan_for_a_file_that_is_not_there_makes_it() -> None:
    run("plan", "saved:before", *ON, "--out", "a.plan")
    assert not Path("tables.db").exists()
    run("apply", "a.plan", "--yes")
    run("verify", "saved:before", *ON)


def test_a_saved_plan_passes_the_same_gate() -> None:
    run("apply", "saved:before", *ON, "--yes")
    run("plan", "saved:streamless", *ON, "--out", "a.plan")
    assert "Give --yes" not in run("apply", "a.plan", code=2).output
    assert "  app-jobs: - stream NEW_IMAGE\n" in run("apply", "a.plan", "--yes", code=2).output
    run("apply", "a.plan", "--dry-run")
    run("apply", "a.plan", "--yes", "--allow-destroy")


def test_definitions_that_changed_since_are_refused(planned: None) -> None:
    refused = run("apply", "a.plan", "--yes", "--definitions", "saved:before", "--prefix", "app", code=1).output
    assert "the definitions have changed since: app-jobs: - index by-state; app-new is gone" in refused
    run("apply", "a.plan", "--yes", "--definitions", "saved:after", "--prefix", "app")
    wrong = run("apply", "saved:after", *ON, "--definitions", "saved:after", code=2).output
    assert "goes with a saved plan" in wrong


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--env", "dev"), "leave --env out"),
        (("--table", "jobs", "--prefix", "x"), "leave --prefix and --table out"),
        (("--drop-index", "jobs.x"), "give --drop-index to `penstock tables plan`"),
    ],
)
def test_a_saved_plan_takes_no_other_tables(planned: None, words: tuple[str, ...], told: str) -> None:
    assert told in run("apply", "a.plan", "--yes", *words, code=2).output


def test_a_plan_that_was_edited_or_is_of_another_version_is_refused(
    planned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path("a.plan").read_text()
    Path("a.plan").write_text(text.replace('"by-state"', '"by-status"'))
    assert "its checksum is another" in run("apply", "a.plan", "--yes", code=1).output
    Path("a.plan").write_text(text[: len(text) // 2])
    assert "it is broken" in run("apply", "a.plan", "--yes", code=1).output
    for member, value, told in (
        ("version", 2, "it is of version 2"),
        ("naming", {"is": "Path"}, "plans otherwise"),
        ("tables", [{"is": "Naming", "prefix": ""}], "Naming has other members here"),
    ):
        form = json.loads(text) | {member: value}
        Path("a.plan").write_text(json.dumps(form | {"checksum": saved_plan._checksum(form)}))
        assert told in run("apply", "a.plan", "--yes", code=1).output
    Path("a.plan").write_text(text)
    made_by = penstock.__version__
    monkeypatch.setattr(penstock, "__version__", "0.9.0")
    assert f"Penstock {made_by} made it, and this is 0.9.0" in run("apply", "a.plan", "--yes", code=1).output


def test_out_writes_over_plans_only(planned: None) -> None:
    assert "is no saved plan" in run("plan", "saved:after", *ON, "--out", "saved.py", code=1).output
    assert Path("saved.py").read_text() == MODULE
    run("plan", "saved:before", *ON, "--out", "a.plan", "--exit-code")
    assert "Nothing to do" in run("apply", "a.plan").output


def test_a_saved_plan_is_no_definition(planned: None) -> None:
    assert "only `penstock tables apply` reads" in run("verify", "a.plan", *ON, code=1).output
    assert "Which database?" in run("apply", "saved:after", code=2).output


@given(tables(), tables())
def test_every_plan_is_read_as_it_was_written(live: Table, wanted: Table) -> None:
    plan = plan_table("things", live, wanted, 3)
    survey = Survey((TableSurvey("things", wanted, None, plan, "a note"),), Naming("a", "dev"))
    saved = saved_plan.SavedPlan(survey, saved_plan.Place("t", "u", "r"), "m:t", "f", "now", "ada", "0.1.0")
    assert saved_plan._read(json.loads(saved_plan.saved_text(saved))) == saved


def test_a_plan_with_a_vector_index_is_read_as_it_was_written() -> None:
    near = VectorIndex("near", "embedding", dimensions=4, partition="tenant:S", filters=["kind:S"])
    wanted = Table("notes", "id:S").replace(vector_indexes=[near])
    live = Live(Table("notes", "id:S"), Facts("notes", "ACTIVE", 0, 0, "arn:…"))
    survey = Survey((survey_table("new", wanted, None), survey_table("notes", wanted, live)), Naming())
    saved = saved_plan.SavedPlan(survey, saved_plan.Place("t", "u", "r"), "m:t", "f", "now", "ada", "0.1.0")
    assert saved_plan._read(json.loads(saved_plan.saved_text(saved))) == saved
