"""A database file that version 0.1.0 has written opens in this one, with all that is in it.

fixtures/make_database_0_1.py has made it. The file stays as it is, for ever: a version that changes how things are
stored reads it, or brings it up to date.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.main import cli

KEPT = Path(__file__).parent / "fixtures" / "database_0_1.db.gz"
REMOVED = {"0001"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "old.db"
    place.write_bytes(gzip.decompress(KEPT.read_bytes()))
    return place


@pytest.fixture
def db(file: Path) -> Iterator[penstock.Database]:
    with penstock.connect(file) as opened:
        yield opened


def described(db: penstock.Database, table: str) -> dict[str, Any]:
    return db.execute("DescribeTable", {"TableName": table})["Table"]


def query(db: penstock.Database, expression: str, values: dict[str, Any], **options: Any) -> list[str]:
    request = {"TableName": "orders", "KeyConditionExpression": expression, "ExpressionAttributeValues": values}
    return [item["order"]["S"] for item in db.execute("Query", {**request, **options})["Items"]]


def test_its_tables_items_and_indexes_are_there(db: penstock.Database):
    assert db.execute("ListTables", {})["TableNames"] == ["keys", "orders", "penstock-jobs"]
    orders = described(db, "orders")
    assert [one["IndexStatus"] for one in orders["GlobalSecondaryIndexes"]] == ["ACTIVE"]
    assert db.execute("ListTagsOfResource", {"ResourceArn": orders["TableArn"]})["Tags"] == [
        {"Key": "Environment", "Value": "test"}
    ]
    assert described(db, "keys")["ProvisionedThroughput"]["WriteCapacityUnits"] == 6
    assert db.execute("Scan", {"TableName": "orders", "Select": "COUNT"})["Count"] == 29
    key = {"customer": {"S": "c0"}, "order": {"S": "0000"}}
    item = db.execute("GetItem", {"TableName": "orders", "Key": key})["Item"]
    assert item["note"] == {"S": "changed"} and item["photo"] == {"B": "AAEC"}
    assert item["lines"] == {"L": [{"M": {"what": {"S": "desk"}, "paid": {"BOOL": True}, "note": {"NULL": True}}}]}
    numbers = {one["number"]["N"] for one in db.execute("Scan", {"TableName": "keys"})["Items"]}
    assert {float(one) for one in numbers} == {-1e100, -0.5, 0, 9.99e125}
    berlin = query(db, "city = :c", {":c": {"S": "Berlin"}}, IndexName="by-city")
    assert berlin == [f"{number:04}" for number in range(0, 30, 2)]
    third = query(db, "customer = :c AND #at > :t", {":c": {"S": "c2"}, ":t": {"S": "2026-11-20"}}, IndexName="by-time",
                  ExpressionAttributeNames={"#at": "at"})  # fmt: skip
    assert third == ["0020", "0023", "0026"]


def test_it_is_written_to_and_its_indexes_follow(db: penstock.Database):
    key = {"customer": {"S": "c0"}, "order": {"S": "0000"}}
    change = {"UpdateExpression": "SET city = :c", "ExpressionAttributeValues": {":c": {"S": "Oslo"}}}
    db.execute("UpdateItem", {"TableName": "orders", "Key": key, **change})
    assert query(db, "city = :c", {":c": {"S": "Oslo"}}, IndexName="by-city") == ["0000"]
    index = {"IndexName": "by-mark", "KeySchema": [{"AttributeName": "at", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}  # fmt: skip
    attributes = [{"AttributeName": "at", "AttributeType": "S"}]
    update = {"TableName": "orders", "AttributeDefinitions": attributes}
    db.execute("UpdateTable", {**update, "GlobalSecondaryIndexUpdates": [{"Create": index}]})
    wait_for(lambda: described(db, "orders")["GlobalSecondaryIndexes"][-1]["IndexStatus"] == "ACTIVE")
    names = {"#at": "at"}
    assert query(db, "#at = :t", {":t": {"S": "2026-11-03"}}, IndexName="by-mark", ExpressionAttributeNames=names) == [
        "0002"
    ]


def test_its_stream_and_its_time_to_live_go_on(db: penstock.Database):
    stream = described(db, "orders")["LatestStreamArn"]
    shards = db.execute("DescribeStream", {"StreamArn": stream})["StreamDescription"]["Shards"]
    assert shards
    ttl = db.execute("DescribeTimeToLive", {"TableName": "orders"})["TimeToLiveDescription"]
    assert ttl == {"AttributeName": "expires", "TimeToLiveStatus": "ENABLED"}
    past = {"customer": {"S": "late"}, "order": {"S": "1"}, "expires": {"N": str(int(time.time()) - 60)}}
    db.execute("PutItem", {"TableName": "orders", "Item": past})
    wait_for(lambda: query(db, "customer = :c", {":c": {"S": "late"}}) == [])


def test_its_backup_and_its_point_in_time_recovery_restore(db: penstock.Database):
    [backup] = db.execute("ListBackups", {})["BackupSummaries"]
    db.execute("RestoreTableFromBackup", {"TargetTableName": "before", "BackupArn": backup["BackupArn"]})
    latest = {"SourceTableName": "keys", "TargetTableName": "latest", "UseLatestRestorableTime": True}
    db.execute("RestoreTableToPointInTime", latest)
    wait_for(lambda: all(described(db, name)["TableStatus"] == "ACTIVE" for name in ("before", "latest")))
    count = {name: db.execute("Scan", {"TableName": name})["Count"] for name in ("before", "latest")}
    assert count == {"before": 5, "latest": 4}


def test_its_jobs_are_listed_and_those_that_wait_are_run(file: Path):
    app = penstock.App(file)

    @app.task(retries=1)
    def double(ctx: penstock.JobContext, number: int) -> int:
        return 2 * number

    before = {job.state.value: job for job in app.jobs.find()}
    assert sorted(before) == ["completed", "failed", "queued"]
    assert app.result(before["completed"].id) == 42
    penstock.Worker(app, burst=True).run()
    assert app.result(before["queued"].id) == 8
    app.close()


def test_the_command_line_lists_checks_and_copies_it(file: Path, tmp_path: Path):
    def run(*words: str) -> str:
        done = CliRunner().invoke(cli, [*words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "orders" in run("tables", "list", "--db", str(file))
    assert run("jobs", "list", "--db", str(file)).count("job_") == 3
    run("repair", str(file))
    copy = tmp_path / "copy.db"
    run("backup", str(file), str(copy))
    with penstock.connect(copy) as db:
        assert db.execute("Scan", {"TableName": "orders", "Select": "COUNT"})["Count"] == 29


def wait_for(condition: Any) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it has not happened")
