"""Buckets for exports and imports: a folder's and S3's do the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.database import Database, connect
from penstock.engine.transfers.buckets import Bucket, BucketFailure, Encryption
from penstock.files import BadStoreUrl
from penstock.files import buckets as module
from penstock.files.buckets import open_buckets

ACCOUNT = "000000000000"


@pytest.fixture(params=["folder", "s3"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    if request.param == "folder":
        (tmp_path / "lake").mkdir()
        return open_buckets(tmp_path).bucket("lake", None, ACCOUNT)
    client, name = request.getfixturevalue("s3"), request.getfixturevalue("bucket")
    return open_buckets("s3://", client=client).bucket(name, None, ACCOUNT)


def test_objects_are_put_listed_and_read(found: Bucket):
    for key in ("data/2", "data/1", "data2/x", "data.bak", "b"):
        assert len(found.put(key, key.encode(), Encryption())) == 32
    assert [one.key for one in found.list("data")] == ["data.bak", "data/1", "data/2", "data2/x"]
    assert [tuple(one) for one in found.list("data/1")] == [("data/1", 6)]
    assert list(found.list("nothing/")) == []
    body = found.open("data/1")
    assert (body.read(4), body.read(100), body.read(100)) == (b"data", b"/1", b"")
    body.close()
    found.put("data/1", b"again", Encryption("KMS"))
    with pytest.raises(BucketFailure) as caught:
        found.open("none")
    assert caught.value.code == "S3NoSuchKey"


def test_a_bucket_that_is_not_there_is_named(tmp_path: Path, s3: Any):
    for buckets in (open_buckets(tmp_path), open_buckets("s3://", client=s3)):
        with pytest.raises(BucketFailure) as caught:
            buckets.bucket("no-such-bucket", None, ACCOUNT)
        assert caught.value.code == "S3NoSuchBucket"


def test_a_file_whose_name_is_no_text_is_named(tmp_path: Path):
    (tmp_path / "lake").mkdir()
    try:
        (tmp_path / "lake" / os.fsdecode(b"a\xff")).touch()
    except OSError:
        pytest.skip("this file system takes text only")
    with pytest.raises(BucketFailure, match=r"'a\\udcff' is not UTF-8") as caught:
        list(open_buckets(tmp_path).bucket("lake", None, ACCOUNT).list("a"))
    assert caught.value.code == "S3InvalidKey"


@pytest.mark.parametrize("where", ["/no/such/folder", "s3://bucket", "s3://?colour=red"])
def test_a_place_without_buckets_is_refused(where: str):
    with pytest.raises(BadStoreUrl):
        open_buckets(where)


@pytest.fixture
def db(moto_url: str, s3_environment: None) -> Iterator[Database]:
    with connect(buckets=moto_url) as found:
        yield found


def _ended(db: Database, operation: str, request: dict[str, str], member: str, status: str) -> dict[str, Any]:
    while True:
        told: dict[str, Any] = db.execute(operation, request)[member]
        if told[status] != "IN_PROGRESS":
            return told
        time.sleep(0.02)


def test_a_table_goes_to_s3_and_comes_back(db: Database, bucket: str):
    table = {
        "TableName": "orders",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    arn = db.execute("CreateTable", table)["TableDescription"]["TableArn"]
    on = {"PointInTimeRecoveryEnabled": True}
    db.execute("UpdateContinuousBackups", {"TableName": "orders", "PointInTimeRecoverySpecification": on})
    for n in range(30):
        db.execute("PutItem", {"TableName": "orders", "Item": {"id": {"S": str(n)}}})
    begun = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": bucket, "S3Prefix": "p/"})
    done = _ended(
        db,
        "DescribeExport",
        {"ExportArn": begun["ExportDescription"]["ExportArn"]},
        "ExportDescription",
        "ExportStatus",
    )
    assert (done["ExportStatus"], done["ItemCount"]) == ("COMPLETED", 30)
    assert done["ExportManifest"].startswith("p/AWSDynamoDB/")
    source = {"S3Bucket": bucket, "S3KeyPrefix": done["ExportManifest"].replace("manifest-summary.json", "data/")}
    request = {
        "S3BucketSource": source,
        "InputFormat": "DYNAMODB_JSON",
        "InputCompressionType": "GZIP",
        "TableCreationParameters": table | {"TableName": "copy"},
    }
    begun = db.execute("ImportTable", request)["ImportTableDescription"]
    told = _ended(db, "DescribeImport", {"ImportArn": begun["ImportArn"]}, "ImportTableDescription", "ImportStatus")
    assert (told["ImportStatus"], told["ImportedItemCount"]) == ("COMPLETED", 30)
    begun = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": "no-such-bucket"})
    done = _ended(
        db,
        "DescribeExport",
        {"ExportArn": begun["ExportDescription"]["ExportArn"]},
        "ExportDescription",
        "ExportStatus",
    )
    assert done["FailureCode"] == "S3NoSuchBucket"


@pytest.mark.parametrize("part", ["..\\..\\out", "C:", "a\\b", "a\nb"])
def test_on_windows_no_part_of_a_key_is_a_path_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str):
    monkeypatch.setattr(module, "_NO_NAME", module._NO_WINDOWS_NAME)
    (tmp_path / "lake" / part).mkdir(parents=True)
    (tmp_path / "lake" / part / "x").write_bytes(b"secret")
    lake = open_buckets(tmp_path).bucket("lake", None, ACCOUNT)
    for call in (lambda: lake.put(f"{part}/y", b"", Encryption()), lambda: lake.open(f"{part}/x")):
        with pytest.raises(BucketFailure, match="is no path in a folder"):
            call()
    assert list(lake.list(f"{part}/")) == []
