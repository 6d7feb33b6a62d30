"""What tests of exports and imports share: tables, waiting, and reading what an export wrote."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

from penstock.client.database import Database
from penstock.wire import ion

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"
BUCKET = "lake"
_WAIT_SECONDS = 300.0  # on a busy machine; most take a moment


def definition(name: str, **more: Any) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    } | more


def with_index(name: str) -> dict[str, Any]:
    index = {
        "IndexName": "by-owner",
        "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    attributes = [{"AttributeName": one, "AttributeType": "S"} for one in ("id", "owner")]
    return definition(name, AttributeDefinitions=attributes, GlobalSecondaryIndexes=[index])


def make_table(db: Database, name: str, items: int = 0, **more: Any) -> str:
    """A table with recovery on; its ARN."""
    db.execute("CreateTable", definition(name, **more))
    recovery = {"PointInTimeRecoveryEnabled": True}
    db.execute("UpdateContinuousBackups", {"TableName": name, "PointInTimeRecoverySpecification": recovery})
    for number in range(items):
        put(db, name, f"k{number:04d}", n={"N": str(number)})
    return ARN + name


def put(db: Database, table: str, key: str, **more: Any) -> None:
    db.execute("PutItem", {"TableName": table, "Item": {"id": {"S": key}} | more})


def delete(db: Database, table: str, key: str) -> None:
    db.execute("DeleteItem", {"TableName": table, "Key": {"id": {"S": key}}})


def export(db: Database, arn: str, **more: Any) -> dict[str, Any]:
    """The description of an export when it is over."""
    request = {"TableArn": arn, "S3Bucket": BUCKET} | more
    return ended_export(db, db.execute("ExportTableToPointInTime", request)["ExportDescription"]["ExportArn"])


def ended_export(db: Database, arn: str) -> dict[str, Any]:
    return _ended(db, "DescribeExport", {"ExportArn": arn}, "ExportDescription", "ExportStatus")


def begin_import(db: Database, table: str | dict[str, Any], prefix: str, **more: Any) -> str:
    request = {
        "S3BucketSource": {"S3Bucket": BUCKET, "S3KeyPrefix": prefix},
        "InputFormat": "DYNAMODB_JSON",
        "TableCreationParameters": definition(table) if isinstance(table, str) else table,
    } | more
    arn: str = db.execute("ImportTable", request)["ImportTableDescription"]["ImportArn"]
    return arn


def import_table(db: Database, table: str | dict[str, Any], prefix: str, **more: Any) -> dict[str, Any]:
    return ended_import(db, begin_import(db, table, prefix, **more))


def ended_import(db: Database, arn: str) -> dict[str, Any]:
    return _ended(db, "DescribeImport", {"ImportArn": arn}, "ImportTableDescription", "ImportStatus")


def counts(description: dict[str, Any]) -> tuple[int, int, int]:
    """Processed, imported, errors."""
    names = ("ProcessedItemCount", "ImportedItemCount", "ErrorCount")
    processed, imported, errors = (description[name] for name in names)
    return processed, imported, errors


def _ended(db: Database, operation: str, request: dict[str, Any], member: str, status: str) -> dict[str, Any]:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        found: dict[str, Any] = db.execute(operation, request)[member]
        if found[status] != "IN_PROGRESS":
            return found
        time.sleep(0.01)
    raise AssertionError(f"{request} is still in progress")


def scanned(db: Database, table: str) -> dict[str, Any]:
    """The items of a table, by id."""
    items: dict[str, Any] = {}
    request: dict[str, Any] = {"TableName": table}
    while True:
        page = db.execute("Scan", request)
        items |= {item["id"]["S"]: item for item in page["Items"]}
        if "LastEvaluatedKey" not in page:
            return items
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def summary_of(bucket: Path, description: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((bucket / description["ExportManifest"]).read_text())
    return told


def lines_of(bucket: Path, description: dict[str, Any]) -> list[Any]:
    """The lines of all data files that the manifests name."""
    files = (bucket / summary_of(bucket, description)["manifestFilesS3Key"]).read_text().splitlines()
    found: list[Any] = []
    for file in map(json.loads, files):
        text = gzip.decompress((bucket / file["dataFileS3Key"]).read_bytes()).decode()
        read = [json.loads(line) for line in text.splitlines()]
        assert len(read) == file["itemCount"]
        found += read
    return found


def ion_lines_of(bucket: Path, description: dict[str, Any]) -> list[Any]:
    files = (bucket / summary_of(bucket, description)["manifestFilesS3Key"]).read_text().splitlines()
    found: list[Any] = []
    for file in map(json.loads, files):
        found += ion.read_values(gzip.decompress((bucket / file["dataFileS3Key"]).read_bytes()).decode())
    return found
