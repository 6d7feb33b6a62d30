"""`penstock tables add-index`, change-index, rekey and destroy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from test_tables import applied, here, on, put, run  # noqa: F401 - fixtures

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.tables.apply.apply import ensure_tables, make
from penstock.tables.definitions.definition import Table, VectorIndex

pytestmark = pytest.mark.usefixtures("here", "applied")


def indexes() -> list[str]:
    with connect("tables.db") as db:
        described = db.execute("DescribeTable", {"TableName": "app-dev-jobs"})["Table"]
        return sorted(one["IndexName"] for one in described.get("GlobalSecondaryIndexes", ()))


def test_an_index_is_added_by_options() -> None:
    put({"id": {"S": "1"}, "due": {"N": "7"}})
    options = ["--table", "jobs", "--index", "by-due", "--partition-key", "due", "--partition-key-type", "N"]
    result = run("add-index", *on("mine:before", *options, "--projection-type", "KEYS_ONLY", "--yes"))
    assert "Looked at 1 item: the index would have 1 of them.\n" in result.output
    assert indexes() == ["by-due"]
    again = run("add-index", *on("mine:before", *options, "--projection-type", "KEYS_ONLY"))
    assert "is there already" in again.output


def test_S1_9_an_index_is_added_by_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TABLE_NAME": "app-dev-jobs",
        "INDEX_NAME": "by-state-due",
        "PARTITION_KEY": "state",
        "PARTITION_KEY_TYPE": "S",
        "SORT_KEY": "due",
        "SORT_KEY_TYPE": "N",
        "PROJECTION_TYPE": "INCLUDE",
        "PROJECTION_ATTRIBUTES": "owner, size",
        "MAX_WAIT": "60",
    }.items():
        monkeypatch.setenv(name, value)
    words = ["construction", "tables", "add-index", "--db", "tables.db", "--yes", "--json"]
    told = json.loads(CliRunner().invoke(cli, words).output)
    assert (told["index"], told["counts"]["changed"]) == ("by-state-due", 1)
    with connect("tables.db") as db:
        (index,) = db.execute("DescribeTable", {"TableName": "app-dev-jobs"})["Table"]["GlobalSecondaryIndexes"]
    assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["owner", "size"]}
    assert [one["AttributeName"] for one in index["KeySchema"]] == ["state", "due"]


def test_a_defined_index_needs_no_key() -> None:
    run("add-index", *on("mine:after", "--table", "jobs", "--index", "by-state", "--yes"))
    run("verify", *on("mine:after"))


def test_an_index_of_the_wrong_type_is_refused_unless_forced() -> None:
    put({"id": {"S": "1"}, "due": {"N": "7"}})
    options = ["--table", "jobs", "--index", "by-due", "--partition-key", "due", "--yes"]
    result = run("add-index", *on("mine:before", *options), code=1)
    assert "due should be S, and is N in 1" in result.output
    assert indexes() == []
    assert "can no longer be written" in run("add-index", *on("mine:before", *options, "--force")).output
    assert indexes() == ["by-due"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--index", "x-index"], "give --partition-key"),
        (["--index", "x-index", "--partition-key", "x", "--projection-type", "INCLUDE"], "--projection-attributes"),
        (
            ["--index", "x-index", "--partition-key", "x", "--projection-type", "ALL", "--projection-attributes", "y"],
            "goes with INCLUDE",
        ),
        (["--index", "by-state", "--sort-key", "x"], "defined already"),
    ],
)
def test_a_wrong_call_is_told(options: list[str], told: str) -> None:
    assert told in run("add-index", *on("mine:after", "--table", "jobs", *options, "--yes"), code=2).output


def test_add_index_dry_run_and_without_yes() -> None:
    options = ["--table", "jobs", "--index", "by-due", "--partition-key", "due"]
    told = json.loads(run("add-index", *on("mine:before", *options, "--dry-run", "--json")).output)
    assert told["dry_run"] and told["index"] == "by-due"
    run("add-index", *on("mine:before", *options), code=2)
    assert indexes() == []


def test_a_missing_table_is_told() -> None:
    options = ["--table", "nothing", "--index", "by-due", "--partition-key", "due"]
    assert "there is no such table" in run("add-index", *on("mine:before", *options), code=1).output


def test_an_index_is_changed_by_a_successor() -> None:
    run("apply", *on("mine:after", "--yes"))
    options = ["--table", "jobs", "--index", "by-state", "--sort-key", "due", "--sort-key-type", "N", "--yes"]
    options.append("--allow-destroy")
    result = run("change-index", *on("mine:after", *options, "--keep-old"))
    assert "Move the queries from by-state to by-state-v2" in result.output
    assert indexes() == ["by-state", "by-state-v2"]
    told = json.loads(run("change-index", *on("mine:after", *options, "--json")).stdout)
    assert (told["index"], told["replaces"], told["counts"]["changed"]) == ("by-state-v2", "by-state", 1)
    assert indexes() == ["by-state-v2"]
    assert "is there already" in run("change-index", *on("mine:after", *options)).output


def test_a_changed_index_can_be_as_the_definition_has_it() -> None:
    run("apply", *on("mine:after", "--yes"))
    run(
        "change-index",
        *on("mine:due", "--table", "jobs", "--index", "by-state", "--to", "by-due", "--yes", "--allow-destroy"),
    )
    run("verify", *on("mine:due"))


def test_a_change_that_is_none_is_refused() -> None:
    run("apply", *on("mine:after", "--yes"))
    result = run(
        "change-index", *on("mine:after", "--table", "jobs", "--index", "by-state", "--yes", "--allow-destroy"), code=1
    )
    assert "Say what changes" in result.output
    result = run(
        "change-index", *on("mine:after", "--table", "jobs", "--index", "nothing", "--yes", "--allow-destroy"), code=1
    )
    assert "there is no such index" in result.output


def test_a_vector_index_is_not_changed_but_made_under_another_name() -> None:
    with connect("tables.db") as db:
        index = VectorIndex("near", "e", dimensions=3, distance="cosine")
        ensure_tables(db, [Table("app-dev-papers", "id:S", vector_indexes=[index])])
    result = run("change-index", *on("mine:before", "--table", "app-dev-papers", "--index", "near"), code=1)
    assert "papers, index near: it is a vector index" in result.output
    assert "apply --drop-index app-dev-papers.near" in result.output


def test_change_index_dry_run_and_without_yes() -> None:
    run("apply", *on("mine:after", "--yes"))
    options = ["--table", "jobs", "--index", "by-state", "--projection-type", "KEYS_ONLY"]
    told = json.loads(run("change-index", *on("mine:after", *options, "--dry-run", "--json")).output)
    assert (told["add"]["counts"]["change"], told["drop"]["counts"]["change"]) == (1, 1)
    run("change-index", *on("mine:after", *options), code=2)
    assert indexes() == ["by-state"]


def test_destroy_wants_yes_and_shows_what_goes() -> None:
    put({"id": {"S": "1"}})
    result = run("destroy", *on("mine:before"), code=2)
    assert "destroys the table and its 1 item" in result.output
    assert "Plan: 2 to delete." in run("destroy", *on("mine:before", "--dry-run")).output
    result = run("destroy", *on("mine:before", "--yes", "--allow-destroy"))
    assert result.output.endswith("Applied: 2 deleted, 0 skipped, 0 failed.\n")
    again = run("destroy", *on("mine:before", "--yes", "--allow-destroy"))
    assert again.output == "Nothing to delete: none of 2 tables is there.\n"


def test_destroy_leaves_what_is_protected() -> None:
    run("apply", *on("mine:protected", "--yes"))
    result = run("destroy", *on("mine:before", "--yes", "--allow-destroy"), code=1)
    assert "protected from deletion" in result.output
    with connect("tables.db") as db:
        assert db.tables() == ["app-dev-jobs", "penstock-state"]


def test_every_form_of_rekey_prints_json() -> None:
    with connect("rekey.db") as db:
        make(db, Table("old", "id:S"), "old")
        db.table("old").put({"id": "1", "job_id": "j"})

    def form(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, ["tables", "rekey", *words, "--db", "rekey.db", "--json"])
        assert done.exit_code == 0, done.output
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    begin = ("old", "--key", "job_id:S", "--into", "new")
    assert form(*begin, "--dry-run") | {"into": "new", "dry_run": True} == form(*begin, "--dry-run")
    assert form(*begin)["phase"] == "ready"
    assert form("old", "--dry-run")["dry_run"] and form("confirm", "old", "--dry-run")["dry_run"]
    assert form("status", "old")["phase"] == "ready"
    assert form("rollback", "old", "--yes") == {"source": "old", "into": "new", "phase": "rolled back", "deleted": True}
