"""`tables dump` and `tables load` with DynamoDB's exports: in a folder, and in S3."""

from __future__ import annotations

import json
import time
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.client.transports.credentials import new_session

TABLE = {
    "TableName": "orders",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
ITEMS = 25


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["tables", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def exported(tmp_path: Path, buckets: str, bucket: str, format: str = "DYNAMODB_JSON", **more: Any) -> dict[str, Any]:
    """A table `orders` in shop.db, exported by the engine."""
    with connect(tmp_path / "shop.db", buckets=buckets) as db:
        arn = db.execute("CreateTable", TABLE)["TableDescription"]["TableArn"]
        on = {"PointInTimeRecoveryEnabled": True}
        db.execute("UpdateContinuousBackups", {"TableName": "orders", "PointInTimeRecoverySpecification": on})
        for n in range(ITEMS):
            item = {"id": {"S": f"o{n}"}, "total": {"N": f"{n}.5"}, "tags": {"SS": ["a", "ü"]}}
            db.execute("PutItem", {"TableName": "orders", "Item": item})
        request = {"TableArn": arn, "S3Bucket": bucket, "S3Prefix": "nightly", "ExportFormat": format} | more
        begun = db.execute("ExportTableToPointInTime", request)["ExportDescription"]
        while True:
            told: dict[str, Any] = db.execute("DescribeExport", {"ExportArn": begun["ExportArn"]})["ExportDescription"]
            if told["ExportStatus"] != "IN_PROGRESS":
                assert told["ExportStatus"] == "COMPLETED"
                return told
            time.sleep(0.02)


def same(tmp_path: Path, copy: str) -> None:
    shop, other = str(tmp_path / "shop.db"), str(tmp_path / copy)
    assert "The same." in run("diff-data", "orders", "orders", "--db", shop, "--other-db", other)


def empty(tmp_path: Path, copy: str) -> str:
    with connect(tmp_path / copy) as db:
        db.execute("CreateTable", TABLE)
    return str(tmp_path / copy)


@pytest.mark.parametrize("format", ["DYNAMODB_JSON", "ION"])
def test_an_export_of_the_engine_is_loaded_from_its_folder(tmp_path: Path, format: str):
    (tmp_path / "buckets/lake").mkdir(parents=True)
    exported(tmp_path, str(tmp_path / "buckets"), "lake", format)
    place = str(tmp_path / "buckets/lake/nightly")
    run("load", place, "--table", "orders", "--db", empty(tmp_path, "copy.db"))
    same(tmp_path, "copy.db")


def test_without_a_name_an_export_is_loaded_into_the_table_that_it_is_of(tmp_path: Path):
    (tmp_path / "buckets/lake").mkdir(parents=True)
    told = exported(tmp_path, str(tmp_path / "buckets"), "lake")
    place = str(tmp_path / "buckets/lake/nightly")
    copy = empty(tmp_path, "copy.db")
    loaded = run("load", place, "--db", copy)
    assert loaded.startswith("Into orders: the table of the export; --table NAME loads into another.\n")
    assert f"orders: {ITEMS} items loaded" in loaded
    same(tmp_path, "copy.db")
    assert "orders has items already" in run("load", place, "--db", copy, code=1)
    summary = Path(place) / "AWSDynamoDB" / told["ExportArn"].rpartition("/")[2] / "manifest-summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_bytes()), "tableArn": "arn:aws:dynamodb"}))
    assert "Which table? Give --table NAME." in run("load", place, "--db", copy, code=2)


def test_a_dump_is_loaded_into_the_table_that_it_is_of(tmp_path: Path):
    shop = str(tmp_path / "shop.db")
    with connect(shop) as db:
        db.execute("CreateTable", TABLE)
        db.execute("PutItem", {"TableName": "orders", "Item": {"id": {"S": "o1"}}})
    run("dump", "orders", "--out", str(tmp_path / "dumped"), "--db", shop)
    done = run("load", str(tmp_path / "dumped"), "--create", "--json", "--db", str(tmp_path / "copy.db"))
    assert json.loads(done)["table"] == "orders"
    same(tmp_path, "copy.db")


def test_of_several_exports_one_must_be_named(tmp_path: Path):
    (tmp_path / "buckets/lake").mkdir(parents=True)
    told = exported(tmp_path, str(tmp_path / "buckets"), "lake")
    (tmp_path / "buckets/lake/nightly/AWSDynamoDB/other").mkdir()
    (tmp_path / "buckets/lake/nightly/AWSDynamoDB/other/manifest-summary.json").write_text("{}")
    copy = empty(tmp_path, "copy.db")
    assert "2 whole exports" in run(
        "load", str(tmp_path / "buckets/lake/nightly"), "--table", "orders", "--db", copy, code=1
    )
    own = (tmp_path / "buckets/lake" / told["ExportManifest"]).parent
    run("load", str(own), "--table", "orders", "--db", copy)
    same(tmp_path, "copy.db")


def test_an_incremental_export_is_no_table(tmp_path: Path):
    (tmp_path / "x/data").mkdir(parents=True)
    (tmp_path / "x/manifest-summary.json").write_text(json.dumps({"exportFromTime": "…", "itemCount": 0}))
    said = run("load", str(tmp_path / "x"), "--table", "orders", "--db", empty(tmp_path, "copy.db"), code=1)
    assert "incremental export" in said


@pytest.fixture
def bucket(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "AWS_ENDPOINT_URL_S3": moto_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{token_hex(6)}"
    new_session(None).create_client("s3").create_bucket(Bucket=name)
    return name


def test_an_export_in_s3_is_loaded_and_a_dump_is_an_export(tmp_path: Path, bucket: str, moto_url: str):
    exported(tmp_path, moto_url, bucket)
    run("load", f"s3://{bucket}/nightly", "--table", "orders", "--db", empty(tmp_path, "copy.db"))
    same(tmp_path, "copy.db")
    shop, place = str(tmp_path / "shop.db"), f"s3://{bucket}/dumped/orders"
    said = run("dump", "orders", "--out", place, "--format", "dynamodb-export", "--db", shop)
    assert f"orders: {ITEMS} items" in said
    assert "there is an export already" in run(
        "dump", "orders", "--out", place, "--format", "dynamodb-export", "--db", shop, code=1
    )
    run("load", place, "--table", "orders", "--create", "--db", str(tmp_path / "again.db"))
    same(tmp_path, "again.db")


def test_a_dump_is_imported_by_import_table(tmp_path: Path):
    (tmp_path / "buckets/lake").mkdir(parents=True)
    exported(tmp_path, str(tmp_path / "buckets"), "lake")
    place = str(tmp_path / "buckets/lake/dump")
    run("dump", "orders", "--out", place, "--format", "dynamodb-export", "--db", str(tmp_path / "shop.db"))
    with connect(tmp_path / "copy.db", buckets=tmp_path / "buckets") as db:
        request = {
            "S3BucketSource": {"S3Bucket": "lake", "S3KeyPrefix": "dump/data/"},
            "InputFormat": "DYNAMODB_JSON",
            "InputCompressionType": "GZIP",
            "TableCreationParameters": TABLE,
        }
        begun = db.execute("ImportTable", request)["ImportTableDescription"]["ImportArn"]
        while True:
            told = db.execute("DescribeImport", {"ImportArn": begun})["ImportTableDescription"]
            if told["ImportStatus"] != "IN_PROGRESS":
                break
            time.sleep(0.02)
        assert (told["ImportStatus"], told["ImportedItemCount"]) == ("COMPLETED", ITEMS)
    same(tmp_path, "copy.db")
