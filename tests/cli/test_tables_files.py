"""`penstock tables export`, policy, cloudformation, terraform and doctor: what they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_tables import applied, here, on, put, run  # noqa: F401 - fixtures

pytestmark = pytest.mark.usefixtures("here")


def test_export_writes_to_infrastructure_schemas(applied: None) -> None:  # noqa: F811
    result = run("export", *on("mine:before"))
    assert result.output.endswith("Exported to infrastructure/schemas: 2 files written, 0 unchanged.\n")
    folder = Path("infrastructure/schemas")
    assert sorted(file.name for file in folder.iterdir()) == ["jobs.json", "logs.json", "table-summary.txt"]
    run("verify", *on("infrastructure/schemas"))
    assert "0 files written, 2 unchanged" in run("export", *on("infrastructure/schemas")).output


def test_export_reports_a_missing_table_and_goes_on(applied: None) -> None:  # noqa: F811
    run("destroy", *on("mine:before", "--table", "jobs", "--yes", "--allow-destroy"))
    result = run("export", *on("mine:before", "--out", "out"), code=1)
    assert "missing app-dev-jobs" in result.output
    assert Path("out/logs.json").exists() and not Path("out/jobs.json").exists()
    told = json.loads(run("export", *on("mine:before", "--out", "out", "--json"), code=1).output)
    assert (told["missing"], told["unchanged"]) == (["app-dev-jobs"], ["out/logs.json"])


def test_export_dry_run_writes_nothing(applied: None) -> None:  # noqa: F811
    assert "2 files would be written" in run("export", *on("mine:before", "--dry-run")).output
    assert not Path("infrastructure").exists()


def test_policy_is_of_the_commands_and_tables() -> None:
    told = json.loads(run("policy", *on("mine:before", "--for", "destroy", "--account", "123456789012")).output)
    statement, state = told["Statement"]
    assert state["Resource"] == ["arn:aws:dynamodb:*:123456789012:table/penstock-state"]
    assert statement["Action"] == ["dynamodb:DeleteTable", "dynamodb:DescribeTable"]
    assert statement["Resource"][0] == "arn:aws:dynamodb:*:123456789012:table/app-dev-jobs"
    located = run("policy", *on("mine:before", "--region", "eu-west-2")).output
    assert "arn:aws:dynamodb:eu-west-2:*:table/app-dev-jobs" in located


def test_templates_are_printed_or_written() -> None:
    assert "AWS::DynamoDB::Table" in run("cloudformation", *on("mine:before")).output
    run("terraform", *on("mine:before", "--out", "tables.tf"))
    assert 'resource "aws_dynamodb_table" "jobs"' in Path("tables.tf").read_text()
    assert json.loads(run("terraform", *on("mine:before", "--json")).output)["text"] == Path("tables.tf").read_text()
    assert not Path("tables.db").exists()


def test_doctor_reads_definitions_alone() -> None:
    result = run("doctor", "mine:after", "--prefix", "")
    assert "hot-index-key" in result.output and result.output.endswith(" notes.\n")
    run("doctor", "mine:after", "--exit-code", code=7)
    assert json.loads(run("doctor", "mine:after", "--json").output)["warnings"] > 0


def test_doctor_looks_at_stored_items() -> None:
    run("apply", *on("mine:before", "--yes"))
    put({"id": {"S": "1"}, "state": {"N": "1"}}, {"id": {"S": "2"}, "state": {"S": "new"}})
    run("apply", *on("mine:after", "--yes", "--force"))
    logs = {"TableName": "app-dev-logs"}
    from penstock.client.database import connect

    with connect("tables.db") as db:
        for at, expires in enumerate(({"S": "2030-01-01"}, {"N": "1900000000000"}, {"N": "1900000000"})):
            db.execute("PutItem", {**logs, "Item": {"id": {"S": "1"}, "at": {"N": str(at)}, "expires": expires}})
    text = run("doctor", *on("mine:after")).output
    assert "state should be S, and is N in 1 of 2 sampled items" in text
    assert "'expires' is no Number in 1 of 3 sampled items" in text
    assert "'expires' counts milliseconds in 1 of 3 sampled items" in text


def test_doctor_says_what_is_missing() -> None:
    run("apply", *on("mine:before", "--table", "logs", "--yes"))
    assert "the table is not there" in run("doctor", *on("mine:before")).output
