"""The workflows of S1.13, and tables that others made: embedded, over HTTP, on moto's server and DynamoDB Local."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from fleets import PLAIN, STAGING, construction_expenses

from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.server.run import running_server
from penstock.tables.apply import apply
from penstock.tables.changes import AddIndex
from penstock.tables.definitions import Index, Table
from penstock.tables.exporting import export
from penstock.tables.indexes import existing, plan_addition, refuse_misfits
from penstock.tables.loading import read_folder
from penstock.tables.naming import Naming
from penstock.tables.survey import survey, survey_to_delete

PRODUCTION = Naming()


@pytest.fixture(params=["embedded", "http", "moto", "elsewhere"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    if request.param == "embedded":
        yield str(tmp_path / "tables.db")
    elif request.param == "http":
        with Engine() as engine, running_server(engine) as server:
            yield server.url
    elif request.param == "moto":
        yield from moto_server()
    else:
        yield emptied_server()


def emptied_server() -> str:
    """DynamoDB Local, or another server of this machine, at PENSTOCK_TABLES_URL; all its tables are deleted."""
    url = os.environ.get("PENSTOCK_TABLES_URL", "")
    if not url.startswith(("http://127.0.0.1:", "http://localhost:")):
        pytest.skip("PENSTOCK_TABLES_URL names no server of this machine, such as DynamoDB Local")
    with connect(url) as db:
        apply(db, survey_to_delete(db, db.tables(), PLAIN))
    return url


def moto_server() -> Iterator[str]:
    """The one that runs at PENSTOCK_MOTO_URL, emptied; else one of our own, where moto is installed."""
    running_at = os.environ.get("PENSTOCK_MOTO_URL")
    if running_at:
        urlopen(Request(f"{running_at}/moto-api/reset", method="POST"), timeout=10).close()
        yield running_at
        return
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        running.stop()


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    with connect(url) as db:
        yield db


def test_S1_13_a_new_environment(db: Database, tmp_path: Path) -> None:
    """Production's tables exported, and made again as staging beside them."""
    assert apply(db, survey(db, construction_expenses(), PRODUCTION)).counts["created"] == 13
    export(db, construction_expenses(), PRODUCTION, tmp_path)
    schemas = read_folder(tmp_path)
    assert apply(db, survey(db, schemas, STAGING)).counts["created"] == 13
    assert survey(db, construction_expenses(), STAGING).plan.is_empty
    assert survey(db, schemas, PRODUCTION).plan.is_empty
    assert apply(db, survey(db, schemas, STAGING)).counts["skipped"] == 13
    assert len(db.tables()) == 26


def test_S1_13_an_index_is_added_and_exported_again(db: Database, tmp_path: Path) -> None:
    users = next(table for table in construction_expenses() if table.name == "company-users")
    apply(db, survey(db, [users], PRODUCTION))
    export(db, [users], PRODUCTION, tmp_path)
    item = {"companyId": {"S": "c1"}, "userId": {"S": "u1"}, "phone": {"S": "+44"}}
    db.execute("PutItem", {"TableName": PRODUCTION.full_name(users.name), "Item": item})

    live = existing(db, PRODUCTION.full_name(users.name))
    plan = plan_addition(db, live, Index("phone-index", "phone:S"), PRODUCTION)
    refuse_misfits(plan)
    assert apply(db, plan.survey).counts["changed"] == 1
    assert not survey(db, read_folder(tmp_path), PRODUCTION).plan.is_empty, "drift, until it is exported"

    report = export(db, [users], PRODUCTION, tmp_path)
    assert [file.name for file in report.written] == ["company-users.json"]
    (exported,) = read_folder(tmp_path)
    assert exported.index("phone-index") == Index("phone-index", "phone:S")
    assert survey(db, [exported], PRODUCTION).plan.is_empty
    (change,) = survey_changes(db, exported, STAGING, users)
    assert isinstance(change, AddIndex)


def survey_changes(db: Database, wanted: Table, naming: Naming, before: Table) -> tuple[Any, ...]:
    """What an environment that has `before` still needs."""
    apply(db, survey(db, [before], naming))
    return survey(db, [wanted], naming).tables[0].plan.changes


def test_S1_13_definitions_survive_a_disaster(db: Database, tmp_path: Path) -> None:
    """All tables lost, and made again from the export."""
    tables = construction_expenses()
    apply(db, survey(db, tables, PRODUCTION))
    export(db, tables, PRODUCTION, tmp_path)
    names = [PRODUCTION.full_name(table.name) for table in tables]
    assert apply(db, survey_to_delete(db, names, PRODUCTION)).counts["deleted"] == 13
    assert db.tables() == []
    assert apply(db, survey(db, read_folder(tmp_path), PRODUCTION)).counts["created"] == 13
    assert survey(db, tables, PRODUCTION).plan.is_empty


def made_by_boto3(url: str) -> None:
    client = boto3.client(
        "dynamodb", endpoint_url=url, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    client.create_table(**THEIRS)
    client.update_time_to_live(TableName="orders", TimeToLiveSpecification=TTL)


def made_by_the_aws_cli(url: str) -> None:
    for command, request in (
        ("create-table", THEIRS),
        ("update-time-to-live", {"TableName": "orders", "TimeToLiveSpecification": TTL}),
    ):
        words = [AWS, "dynamodb", command, "--endpoint-url", url, "--cli-input-json", json.dumps(request)]
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
        done = subprocess.run(words, env=os.environ | keys, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "make", [made_by_boto3, pytest.param(made_by_the_aws_cli, marks=pytest.mark.clients)], ids=["boto3", "aws"]
)
def test_a_table_that_others_made_is_exported_and_made_again_equal(tmp_path: Path, make: Callable[[str], None]) -> None:
    name = Table("orders", ("customer:S", "at:N"))
    with Engine() as engine, running_server(engine) as server:
        make(server.url)
        with connect(server.url) as theirs, connect(":memory:") as ours:
            export(theirs, [name], PLAIN, tmp_path)
            (exported,) = read_folder(tmp_path)
            apply(ours, survey(ours, [exported], PLAIN))
            assert survey(ours, [exported], PLAIN).plan.is_empty
            assert survey(theirs, [exported], PLAIN).plan.is_empty
            export(ours, [name], PLAIN, tmp_path / "ours")
    assert (tmp_path / "ours/orders.json").read_bytes() == (tmp_path / "orders.json").read_bytes()


AWS = Path(sys.executable).with_name("aws")
TTL = {"Enabled": True, "AttributeName": "ttl"}
THEIRS: dict[str, Any] = {
    "TableName": "orders",
    "AttributeDefinitions": [
        {"AttributeName": "customer", "AttributeType": "S"},
        {"AttributeName": "at", "AttributeType": "N"},
        {"AttributeName": "state", "AttributeType": "S"},
        {"AttributeName": "total", "AttributeType": "N"},
    ],
    "KeySchema": [
        {"AttributeName": "customer", "KeyType": "HASH"},
        {"AttributeName": "at", "KeyType": "RANGE"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-state",
            "KeySchema": [
                {"AttributeName": "state", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["total", "note"]},
            "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
        }
    ],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "by-total",
            "KeySchema": [
                {"AttributeName": "customer", "KeyType": "HASH"},
                {"AttributeName": "total", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
    "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    "SSESpecification": {"Enabled": True, "SSEType": "KMS"},
    "TableClass": "STANDARD_INFREQUENT_ACCESS",
    "DeletionProtectionEnabled": True,
    "Tags": [{"Key": "Team", "Value": "blue"}],
}
