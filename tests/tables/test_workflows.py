"""The workflows of S1.13, and tables that others made: embedded, over HTTP, on moto's server and DynamoDB Local."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from fleets import PLAIN, STAGING, construction_expenses
from moving_samples import Wire, everything, order

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.server.server import running_server
from penstock.tables.apply.apply import apply
from penstock.tables.data import backups
from penstock.tables.data import dump as dumping
from penstock.tables.data.backups import Backup, DumpFolder, PointInTime
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Index, Naming, Table
from penstock.tables.definitions.sources import read_folder
from penstock.tables.formats.export import export
from penstock.tables.indexes import existing, plan_addition, refuse_misfits
from penstock.tables.plan.changes import AddIndex
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import require_table, survey, survey_to_delete
from penstock.wire.values import equal

PRODUCTION = Naming("construction-expenses")

Contents = dict[tuple[str, ...], Wire]


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


# ── the third workflow, with the data ────────────────────────────────────────────────────────────

ITEMS = 30
FLEET = tuple(
    # Server-side encryption is what moto forgets in a restore; it has no data.
    table.replace(sse=None)
    for table in construction_expenses()
    if table.name in ("companies", "company-expenses", "paddle-webhooks")
)


def filled_fleet(db: Database) -> dict[str, Contents]:
    """The tables made, with items; what each has."""
    apply(db, survey(db, FLEET, PRODUCTION))
    for table in FLEET:
        name = PRODUCTION.full_name(table.name)
        ItemTable.of(db, name).write(expense(table, number) for number in range(ITEMS))
    return {name: everything(db, name) for name in map(PRODUCTION.full_name, (table.name for table in FLEET))}


def expense(table: Table, number: int) -> Wire:
    """An item with the table's key, and with values that a careless copy would bend."""
    keys = {one.name: {"S": f"{one.name}-{number}"} for one in table.key.attributes}
    return keys | {name: value for name, value in order(number).items() if name not in keys}


def lost(db: Database) -> None:
    names = [PRODUCTION.full_name(table.name) for table in FLEET]
    assert apply(db, survey_to_delete(db, names, PRODUCTION)).counts["deleted"] == len(FLEET)
    assert not set(names) & set(db.tables())


def check_restored(db: Database, before: dict[str, Contents]) -> None:
    assert survey(db, FLEET, PRODUCTION).plan.is_empty
    for name, items in before.items():
        found = everything(db, name)
        assert found.keys() == items.keys()
        assert all(equal({"M": found[key]}, {"M": item}) for key, item in items.items()), "sets have no order"


def test_S1_13_data_survives_a_disaster_in_a_dump(db: Database, tmp_path: Path) -> None:
    """Dumped, all lost, restored: the same definitions and the same items."""
    before = filled_fleet(db)
    for name in before:
        dumping.dump(db, name, tmp_path / name)
    lost(db)
    for name in before:
        assert backups.restore(db, DumpFolder(tmp_path / name), name, tell=str).items == ITEMS
    check_restored(db, before)


def test_S1_13_data_survives_a_disaster_in_a_backup(db: Database, tmp_path: Path) -> None:
    """Backed up, all lost, restored with the exported definitions: a backup has no tags and no recovery."""
    before = filled_fleet(db)
    export(db, FLEET, PRODUCTION, tmp_path)
    made = {}
    for table in FLEET:
        name = PRODUCTION.full_name(table.name)
        try:
            made[table.name] = backups.back_up(db, name, f"{name}-backup", tell=str)["BackupDetails"]["BackupArn"]
        except PenstockError as error:
            assert "has no CreateBackup. `penstock tables dump` writes" in str(error)
            pytest.skip("this endpoint has no backups")
    lost(db)
    for suffix, arn in made.items():
        definition = tmp_path / f"{suffix}.json"
        backups.restore(db, Backup(arn), PRODUCTION.full_name(suffix), definition=definition, tell=str)
    check_restored(db, before)


def test_S1_13_a_moment_before_the_mistake_is_restored() -> None:
    """Items deleted by mistake: the table as it was is restored beside it, with the settings of the live one."""
    clock = ManualClock()
    with connect(":memory:", clock=clock) as db:
        before = filled_fleet(db)
        name = PRODUCTION.full_name("companies")
        clock.advance(10.0)
        moment = clock.now()
        clock.advance(10.0)
        ItemTable.of(db, name).write([], [{"companyId": {"S": f"companyId-{number}"}} for number in range(10)])
        assert len(everything(db, name)) == ITEMS - 10
        backups.restore(db, PointInTime(name, moment), f"{name}-again", tell=str)
        assert everything(db, f"{name}-again") == before[name]
        found, live = require_table(db, f"{name}-again").table, require_table(db, name).table
        assert diff(found, live.replace(name=f"{name}-again")) == ()


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
