"""The application's own document (seed 001), command by command: each script's line, run with its variables.

`scripts/export-dynamodb-schemas.sh` is `penstock tables export construction-expenses`, `create-dynamodb-tables.sh` is
`penstock tables apply infrastructure/schemas --yes`, `gsi/add-gsi-template.sh` is `penstock tables add-index --yes`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.server.server import Options, running_server
from penstock.systems.construction_expenses.books import naming_of
from penstock.systems.construction_expenses.table_commands import table_command_defaults
from penstock.tables.definitions.definition import Naming

SCHEMAS = "infrastructure/schemas"
VARIABLES = ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION", "TABLE_NAME", "INDEX_NAME", "SORT_KEY", "MAX_WAIT")


@pytest.fixture(autouse=True)
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A DynamoDB, a folder, and no variables of the machine's."""
    monkeypatch.chdir(tmp_path)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with Engine() as engine, running_server(engine, options=Options(per_account=True)) as running:
        monkeypatch.setenv("PENSTOCK_DB", running.url)
        yield running.url


def run(*words: str, code: int = 0, **variables: str) -> Result:
    result = CliRunner(env=variables).invoke(cli, ["construction", "tables", *words])
    assert result.exit_code == code, result.output
    return result


def export(**variables: str) -> Result:
    """./scripts/export-dynamodb-schemas.sh"""
    return run("export", "construction-expenses", **variables)


def create(code: int = 0, **variables: str) -> Result:
    """./scripts/create-dynamodb-tables.sh"""
    return run("apply", SCHEMAS, "--yes", code=code, **variables)


def add_index(code: int = 0, **variables: str) -> Result:
    """./scripts/gsi/add-gsi-template.sh"""
    return run("add-index", "--yes", code=code, **variables)


@pytest.fixture
def production() -> None:
    """The tables that the document begins with, and their export."""
    run("apply", "construction-expenses", "--yes")
    export()


def names(url: str, region: str = "us-east-1") -> list[str]:
    before = os.environ.get("AWS_REGION")
    os.environ["AWS_REGION"] = region
    try:
        with connect(url) as db:
            return db.tables()
    finally:
        if before is None:
            del os.environ["AWS_REGION"]
        else:
            os.environ["AWS_REGION"] = before


def described(url: str, table: str) -> dict[str, Any]:
    with connect(url) as db:
        found: dict[str, Any] = db.execute("DescribeTable", {"TableName": table})["Table"]
        return found


# ── the scripts are idempotent, know environments, and have no values of their own ───────────────


def test_S1_2_every_script_is_safe_to_run_again(server: str, production: None) -> None:
    first = {file.name: file.read_bytes() for file in Path(SCHEMAS).iterdir()}
    assert create().output == "Nothing to do: 13 tables as defined.\n"
    export()
    assert {file.name: file.read_bytes() for file in Path(SCHEMAS).iterdir()} == first
    index = {"TABLE_NAME": "construction-expenses-companies", "INDEX_NAME": "by-email", "PARTITION_KEY": "email"}
    add_index(**index)
    assert "is there already" in add_index(**index).output


def test_S1_3_production_staging_and_dev_are_beside_each_other(server: str, production: None) -> None:
    for environment in ("staging", "dev"):
        assert "13 created" in create(ENVIRONMENT=environment).output
    found = names(server)
    assert len(found) == 40  # with penstock-state
    for name in ("companies", "staging-companies", "dev-companies"):
        assert f"construction-expenses-{name}" in found


def test_S1_4_everything_is_configured_by_variables(server: str, production: None) -> None:
    """ENVIRONMENT=dev TABLE_PREFIX=my-app, and AWS_REGION=us-west-2."""
    create(ENVIRONMENT="dev", TABLE_PREFIX="my-app")
    assert sum(name.startswith("my-app-dev-") for name in names(server)) == 13
    create(AWS_REGION="us-west-2")
    ours = [name for name in names(server) if name.startswith("construction-expenses-")]
    assert names(server, "us-west-2") == [*ours, "penstock-state"]
    run("apply", "construction-expenses", "--yes", TABLE_PREFIX="my-app")
    assert "0 files written, 13 unchanged" in export(TABLE_PREFIX="my-app").output, "the prefix is in no schema"


# ── 1. export ────────────────────────────────────────────────────────────────────────────────────


def test_S1_5_an_export_has_keys_indexes_and_ttl_and_changes_nothing(server: str, production: None) -> None:
    files = sorted(file.stem for file in Path(SCHEMAS).glob("*.json"))
    assert len(files) == 13
    letters = json.loads((Path(SCHEMAS) / "paddle-webhook-dlq.json").read_text())
    assert letters["Table"]["KeySchema"] == [{"AttributeName": "dlqEntryId", "KeyType": "HASH"}]
    assert [one["IndexName"] for one in letters["Table"]["GlobalSecondaryIndexes"]] == ["statusIndex"]
    text = json.dumps(letters)
    assert '"AttributeName": "ttl"' in text
    for private in ("Arn", "TableId", "CreationDateTime", "000000000000"):
        assert private not in text
    run("verify", "construction-expenses")


def test_S1_6_the_summary_has_every_table(server: str, production: None) -> None:
    lines = (Path(SCHEMAS) / "table-summary.txt").read_text()
    for file in Path(SCHEMAS).glob("*.json"):
        assert file.name in lines
    run("destroy", "construction-expenses", "--table", "invitations", "--yes", "--allow-destroy")
    missing = run("export", "construction-expenses", code=1)
    assert "construction-expenses-invitations" in missing.output
    assert (Path(SCHEMAS) / "invitations.json").exists(), "a failed read never overwrites a good file"


# ── 2. create ────────────────────────────────────────────────────────────────────────────────────


def test_S1_7_tables_are_created_with_all_that_they_need_and_counted(server: str, production: None) -> None:
    output = create(ENVIRONMENT="staging").output
    assert output.endswith("Applied: 13 created, 0 changed, 0 skipped, 0 failed.\n")
    run("destroy", "construction-expenses", "--table", "companies", "--yes", "--allow-destroy", ENVIRONMENT="staging")
    again = create(ENVIRONMENT="staging").output
    assert again.endswith("Applied: 1 created, 0 changed, 12 skipped, 0 failed.\n")
    with connect(server) as db:
        name = "construction-expenses-staging-paddle-webhook-dlq"
        table = db.execute("DescribeTable", {"TableName": name})["Table"]
        ttl = db.execute("DescribeTimeToLive", {"TableName": name})["TimeToLiveDescription"]
        recovery = db.execute("DescribeContinuousBackups", {"TableName": name})["ContinuousBackupsDescription"]
        tags = db.execute("ListTagsOfResource", {"ResourceArn": table["TableArn"]})["Tags"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSEDescription"]["Status"] == "ENABLED"
    assert ttl["AttributeName"] == "ttl"
    assert recovery["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    found = {tag["Key"]: tag["Value"] for tag in tags}
    assert found.keys() == {"Application", "CreatedAt", "Environment", "ManagedBy"}
    assert (found["Application"], found["Environment"]) == ("construction-expenses", "staging")


def test_S1_7_drift_is_reported_and_reconciled(server: str, production: None) -> None:
    with connect(server) as db:
        name = "construction-expenses-companies"
        index = {"Delete": {"IndexName": "appleSubscriptionId-index"}}
        db.execute("UpdateTable", {"TableName": name, "GlobalSecondaryIndexUpdates": [index]})
    assert "appleSubscriptionId-index" in run("verify", SCHEMAS, code=7).output
    assert "1 changed, 12 skipped" in create().output
    run("verify", SCHEMAS)


# ── 3. add an index ──────────────────────────────────────────────────────────────────────────────

SIMPLE = {
    "TABLE_NAME": "construction-expenses-companies",
    "INDEX_NAME": "by-email",
    "PARTITION_KEY": "email",
    "PARTITION_KEY_TYPE": "S",
}
COMPOSITE = {
    "TABLE_NAME": "construction-expenses-company-expenses",
    "INDEX_NAME": "by-company-and-date",
    "PARTITION_KEY": "companyId",
    "PARTITION_KEY_TYPE": "S",
    "SORT_KEY": "createdAt",
    "SORT_KEY_TYPE": "N",
}


def test_S1_9_both_examples_of_the_document_add_their_index(server: str, production: None) -> None:
    add_index(**SIMPLE)
    add_index(**COMPOSITE)
    companies = described(server, SIMPLE["TABLE_NAME"])["GlobalSecondaryIndexes"]
    expenses = described(server, COMPOSITE["TABLE_NAME"])["GlobalSecondaryIndexes"]
    assert {"by-email", "appleSubscriptionId-index"} == {one["IndexName"] for one in companies}
    (made,) = [one for one in expenses if one["IndexName"] == "by-company-and-date"]
    assert [one["AttributeName"] for one in made["KeySchema"]] == ["companyId", "createdAt"]
    assert made["IndexStatus"] == "ACTIVE", "it was waited for"


def test_S1_10_the_documents_second_example_is_refused_where_it_would_do_harm(server: str, production: None) -> None:
    """createdAt is a text in the application; as a Number, every later write of an expense would fail."""
    with connect(server) as db:
        table = db.table(COMPOSITE["TABLE_NAME"])
        table.put({"companyId": "c1", "expenseId": "e1", "createdAt": "2025-06-16T21:19:33.789Z"})
    assert "createdAt should be N, and is S in 1" in add_index(code=1, **COMPOSITE).output
    assert "by-company-and-date" not in json.dumps(described(server, COMPOSITE["TABLE_NAME"]))
    add_index(**(COMPOSITE | {"SORT_KEY_TYPE": "S"}))


def test_S1_11_a_projection_and_its_attributes_are_variables_too(server: str, production: None) -> None:
    add_index(**SIMPLE, PROJECTION_TYPE="INCLUDE", PROJECTION_ATTRIBUTES="attr1,attr2")
    found = described(server, SIMPLE["TABLE_NAME"])["GlobalSecondaryIndexes"]
    (made,) = [one for one in found if one["IndexName"] == "by-email"]
    assert made["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["attr1", "attr2"]}


def test_S1_12_a_wait_has_a_deadline_and_the_next_run_joins_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    settings = Settings(index_delay_seconds=60)
    with Engine(clock=clock, settings=settings) as engine, running_server(engine) as slow:
        monkeypatch.setenv("PENSTOCK_DB", slow.url)
        run("apply", "construction-expenses", "--table", "companies", "--yes")
        for _ in range(2):
            ended = add_index(code=1, **SIMPLE, MAX_WAIT="0").output
            assert "Run the same command again: it continues where this stopped." in ended
        clock.advance(61)
        add_index(**SIMPLE)
        found = described(slow.url, SIMPLE["TABLE_NAME"])["GlobalSecondaryIndexes"]
        assert {one["IndexName"]: one["IndexStatus"] for one in found}["by-email"] == "ACTIVE"


# ── common workflows, names, prerequisites, troubles ─────────────────────────────────────────────


@pytest.mark.clients
def test_S1_13_a_new_environment_is_verified_with_the_aws_cli(server: str, production: None) -> None:
    """aws dynamodb list-tables --output table | grep staging"""
    aws = shutil.which("aws") or str(Path(sys.executable).with_name("aws"))
    if not Path(aws).exists():
        pytest.skip("the AWS CLI is not installed: pip install awscli")
    create(ENVIRONMENT="staging")
    words = [aws, "dynamodb", "list-tables", "--output", "table", "--endpoint-url", server, "--region", "us-east-1"]
    listed = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout
    assert len([line for line in listed.splitlines() if "staging" in line]) == 13


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "construction-expenses-companies"),
        ({"ENVIRONMENT": "production"}, "construction-expenses-companies"),
        ({"ENVIRONMENT": "staging"}, "construction-expenses-staging-companies"),
        ({"ENVIRONMENT": "dev"}, "construction-expenses-dev-companies"),
        ({"ENVIRONMENT": "dev", "TABLE_PREFIX": "my-app"}, "my-app-dev-companies"),
        ({"TABLE_PREFIX": "my-app"}, "my-app-companies"),
        ({"ENVIRONMENT": "", "TABLE_PREFIX": ""}, "construction-expenses-companies"),
    ],
)
def test_S1_8_names_by_prefix_and_environment(variables: dict[str, str], name: str) -> None:
    naming = naming_of(variables)
    assert naming.full_name("companies") == name
    assert naming.suffix(name) == "companies"


def test_S1_14_defaults_are_the_documents() -> None:
    assert naming_of({}) == Naming("construction-expenses", "production", "us-east-1")
    assert naming_of({"AWS_REGION": "us-west-2"}).region == "us-west-2"


def test_an_option_comes_before_a_variable() -> None:
    naming = naming_of({"ENVIRONMENT": "dev", "TABLE_PREFIX": "x"}, prefix="", environment="staging")
    assert naming.full_name("Users") == "staging-Users"


def test_S1_14_without_a_database_the_tables_are_in_the_region_of_AWS() -> None:
    apply_defaults = table_command_defaults({})["apply"]
    assert apply_defaults["target"] == "aws://us-east-1" and apply_defaults["definitions"] == "construction-expenses"
    assert table_command_defaults({"AWS_REGION": "eu-west-2"})["apply"]["target"] == "aws://eu-west-2"
    given = {"AWS_REGION": "eu-west-2", "PENSTOCK_DB": "a.db", "TABLE_NAME": "jobs"}
    assert table_command_defaults(given)["apply"]["target"] == "a.db"
    assert "table" not in table_command_defaults(given)["dump"]


def test_S1_15_prerequisites_are_checked_before_anything_is_changed(server: str, production: None) -> None:
    """A schema that cannot be, among good ones: nothing is made."""
    (Path(SCHEMAS) / "zebra.json").write_text('{"Table": {"TableName": "zebra"')
    assert "zebra.json" in create(code=1, ENVIRONMENT="dev").output
    assert not [name for name in names(server) if "-dev-" in name]


def test_S1_16_the_least_policy_is_written(server: str) -> None:
    policy = json.loads(run("policy", "construction-expenses", ENVIRONMENT="staging").output)
    statements = policy["Statement"]
    everywhere = [one for one in statements if one["Resource"] in ("*", ["*"])]
    assert all("dynamodb:ListTables" in one["Action"] for one in everywhere)
    resources = json.dumps([one["Resource"] for one in statements])
    assert "table/construction-expenses-staging-companies" in resources
    assert "construction-expenses-*" not in resources


def test_S1_17_every_trouble_of_the_document_is_answered_by_name(server: str, production: None) -> None:
    """Table already exists; an index takes long (S1.12); schema file not found; permission denied (policy)."""
    assert "Nothing to do: 13 tables as defined." in create().output
    missing = run("apply", "nowhere/schemas", "--yes", code=1).output
    assert "nowhere/schemas" in missing
    Path("empty").mkdir()
    assert "Run `penstock tables export` first" in run("apply", "empty", "--yes", code=1).output
    no_table = add_index(code=1, **(SIMPLE | {"TABLE_NAME": "construction-expenses-nothing"})).output
    assert "there is no such table" in no_table


def test_S1_18_every_script_has_a_dry_run(server: str, production: None) -> None:
    before = names(server)
    plan = run("apply", SCHEMAS, "--dry-run", ENVIRONMENT="dev").output
    assert "Plan: 13 to create." in plan
    run("add-index", "--dry-run", **SIMPLE)
    run("destroy", "construction-expenses", "--dry-run")
    run("export", "construction-expenses", "--dry-run", "--out", "elsewhere")
    assert names(server) == before
    assert "by-email" not in json.dumps(described(server, SIMPLE["TABLE_NAME"]))
    assert not Path("elsewhere").exists()
    assert "Give --yes" in run("apply", SCHEMAS, code=2, ENVIRONMENT="dev").output, "and asks before it changes"


def test_S1_19_the_next_phases_are_written_from_the_same_definitions(server: str, production: None) -> None:
    template = json.loads(run("cloudformation", SCHEMAS, ENVIRONMENT="staging").output)
    assert len(template["Resources"]) == 13
    terraform = run("terraform", SCHEMAS, ENVIRONMENT="staging").output
    assert terraform.count('resource "aws_dynamodb_table"') == 13
    assert "construction-expenses-staging-paddle-webhook-dlq" in terraform
