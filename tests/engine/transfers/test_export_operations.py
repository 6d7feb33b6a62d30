"""Exports: what they hold, what they refuse, and how they are described."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from transfer_work import ARN, BUCKET, delete, ended_export, export, ion_lines_of, lines_of, make_table, put, summary_of

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import (
    AccessDeniedException,
    ContinuousBackupsUnavailableException,
    DynamoDBError,
    ExportConflictException,
    ExportNotFoundException,
    InvalidExportTimeException,
    PointInTimeRecoveryUnavailableException,
    TableNotFoundException,
    ValidationException,
)
from penstock.wire import ion

DAY = 86_400.0
FROM = 1_795_000_000


def ids(lines: list[Any]) -> list[str]:
    return sorted(line["Item"]["id"]["S"] for line in lines)


# ── what an export holds ─────────────────────────────────────────────────────────────────────────


def test_a_full_export_has_the_items_of_its_moment_and_the_layout_of_dynamodb(db: Database, bucket: Path):
    arn = make_table(db, "orders", 3)
    begun = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET, "S3Prefix": "nightly"})
    put(db, "orders", "later")
    delete(db, "orders", "k0001")
    put(db, "orders", "k0002", n={"N": "99"})
    done = ended_export(db, begun["ExportDescription"]["ExportArn"])
    assert (done["ExportStatus"], done["ItemCount"]) == ("COMPLETED", 3)
    lines = lines_of(bucket, done)
    assert {line["Item"]["id"]["S"]: line["Item"]["n"]["N"] for line in lines} == {
        "k0000": "0",
        "k0001": "1",
        "k0002": "2",
    }
    name = done["ExportArn"].rpartition("/")[2]
    assert done["ExportManifest"] == f"nightly/AWSDynamoDB/{name}/manifest-summary.json"
    home = bucket / "nightly/AWSDynamoDB" / name
    assert (home / "_started").read_bytes() == b""
    assert len(list((home / "data").iterdir())) == 4
    for manifest in ("manifest-files", "manifest-summary"):
        digest = hashlib.md5((home / f"{manifest}.json").read_bytes()).digest()
        assert base64.b64decode((home / f"{manifest}.md5").read_text()) == digest
    for told in map(json.loads, (home / "manifest-files.json").read_text().splitlines()):
        data = (bucket / told["dataFileS3Key"]).read_bytes()
        assert base64.b64decode(told["md5Checksum"]) == hashlib.md5(data).digest()


def test_the_summary_tells_of_the_export_what_dynamodb_tells(db: Database, bucket: Path):
    done = export(db, make_table(db, "orders", 1), S3Prefix="p")
    told = summary_of(bucket, done)
    assert told == {
        "version": "2020-06-30",
        "exportArn": done["ExportArn"],
        "startTime": "2026-11-18T11:06:40.000Z",
        "endTime": "2026-11-18T11:06:40.000Z",
        "tableArn": ARN + "orders",
        "tableId": done["TableId"],
        "exportTime": "2026-11-18T11:06:40.000Z",
        "s3Bucket": BUCKET,
        "s3Prefix": "p",
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": done["ExportManifest"].replace("summary", "files"),
        "billedSizeBytes": done["BilledSizeBytes"],
        "itemCount": 1,
        "outputFormat": "DYNAMODB_JSON",
    }


def test_an_export_shows_more_of_itself_when_it_is_over(db: Database):
    arn = make_table(db, "orders", 1)
    begun = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET})["ExportDescription"]
    assert begun["ExportStatus"] == "IN_PROGRESS"
    assert sorted(begun) == [
        "ClientToken", "ExportArn", "ExportFormat", "ExportStatus", "ExportTime", "S3Bucket", "S3SseAlgorithm",
        "StartTime", "TableArn", "TableId",
    ]  # fmt: skip
    done = ended_export(db, begun["ExportArn"])
    assert sorted(set(done) - set(begun)) == ["BilledSizeBytes", "EndTime", "ExportManifest", "ItemCount"]


def test_an_earlier_moment_is_exported_as_it_was(db: Database, bucket: Path, clock: ManualClock):
    arn = make_table(db, "orders", 2)
    clock.advance(60)
    put(db, "orders", "k0000", n={"N": "100"})
    put(db, "orders", "new")
    delete(db, "orders", "k0001")
    clock.advance(60)
    before = lines_of(bucket, export(db, arn, ExportTime=FROM + 59))
    assert {one["Item"]["id"]["S"]: one["Item"]["n"]["N"] for one in before} == {"k0000": "0", "k0001": "1"}
    assert ids(lines_of(bucket, export(db, arn, ExportTime=FROM + 60))) == ["k0000", "new"]


def test_many_files_and_many_changes_make_one_whole_export(
    db: Database, bucket: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    from penstock.engine.transfers import export_files, item_images

    monkeypatch.setattr(export_files, "FILE_BYTES", 1_000)
    monkeypatch.setattr(item_images, "ROWS", 7)
    monkeypatch.setattr(item_images, "_JOURNAL_ROWS", 5)
    arn = make_table(db, "orders", 120)
    clock.advance(1)
    for number in range(0, 120, 2):
        delete(db, "orders", f"k{number:04d}")
    for number in range(1, 120, 4):
        put(db, "orders", f"k{number:04d}", n={"N": "7"})
    for number in range(30):
        put(db, "orders", f"z{number}")
    lines = lines_of(bucket, export(db, arn, ExportTime=FROM))
    assert {one["Item"]["id"]["S"]: one["Item"]["n"]["N"] for one in lines} == {f"k{n:04d}": str(n) for n in range(120)}
    assert len(lines) == 120


def test_an_incremental_export_has_one_line_for_each_changed_item(db: Database, bucket: Path, clock: ManualClock):
    arn = make_table(db, "orders", 3)
    clock.advance(60)
    put(db, "orders", "k0000", n={"N": "50"})
    put(db, "orders", "fleeting")
    delete(db, "orders", "fleeting")
    delete(db, "orders", "k0001")
    put(db, "orders", "new", n={"N": "1"})
    clock.advance(30)
    put(db, "orders", "k0000", n={"N": "51"})
    clock.advance(1_000)
    put(db, "orders", "k0000", n={"N": "52"})
    put(db, "orders", "too-late")
    window = {"ExportFromTime": FROM + 60, "ExportToTime": FROM + 60 + 900}
    done = export(db, arn, ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=window)
    found = {line["Keys"]["id"]["S"]: line for line in lines_of(bucket, done)}
    assert sorted(found) == ["k0000", "k0001", "new"]
    first = found["k0000"]
    assert (first["OldImage"]["n"]["N"], first["NewImage"]["n"]["N"]) == ("0", "51")
    assert first["Metadata"] == {"WriteTimestampMicros": str((FROM + 90) * 1_000_000)}
    assert "NewImage" not in found["k0001"]
    assert "OldImage" not in found["new"]
    assert (done["ExportType"], done["BilledSizeBytes"]) == ("INCREMENTAL_EXPORT", 10_000_000)
    assert "ExportTime" not in done
    told = summary_of(bucket, done)
    assert (told["version"], told["outputView"], told["exportType"]) == (
        "2023-08-01", "NEW_AND_OLD_IMAGES", "INCREMENTAL_EXPORT",
    )  # fmt: skip
    assert told["exportFromTime"] == "2026-11-18T11:07:40.000Z"
    assert (bucket / "AWSDynamoDB/data").is_dir()


def test_new_images_alone_are_exported_where_that_is_asked_for(db: Database, bucket: Path, clock: ManualClock):
    arn = make_table(db, "orders", 1)
    clock.advance(60)
    put(db, "orders", "k0000", n={"N": "5"})
    clock.advance(1_000)
    window = {"ExportFromTime": FROM + 30, "ExportToTime": FROM + 1_000, "ExportViewType": "NEW_IMAGE"}
    kind = {"ExportType": "INCREMENTAL_EXPORT", "IncrementalExportSpecification": window}
    (line,) = lines_of(bucket, export(db, arn, **kind))
    assert sorted(line) == ["Keys", "Metadata", "NewImage"]
    (record,) = ion_lines_of(bucket, export(db, arn, ExportFormat="ION", **kind))
    assert record["Record"]["Keys"] == {"id": "k0000"}
    assert record["Record"]["Metadata"]["WriteTimestampMicros"] == str((FROM + 60) * 1_000_000)


def test_ion_has_the_same_items(db: Database, bucket: Path):
    arn = make_table(db, "orders")
    everything = {
        "n": {"N": "-1.50E+40"}, "b": {"B": "AAEC"}, "t": {"BOOL": True}, "x": {"NULL": True},
        "ss": {"SS": ["a", "b'\"\\"]},
        "ns": {"NS": ["1", "2.5"]}, "bs": {"BS": ["AA=="]}, "l": {"L": [{"S": "ünï\n"}, {"M": {"-": {"S": ""}}}]},
        "we ird'": {"S": "\u0000\u001f"}, "true": {"S": "x"}, "$3": {"S": "y"},
    }  # fmt: skip
    put(db, "orders", "all", **everything)
    stored = db.execute("GetItem", {"TableName": "orders", "Key": {"id": {"S": "all"}}})["Item"]
    (value,) = ion_lines_of(bucket, export(db, arn, ExportFormat="ION"))
    read = ion.item_of(value["Item"])
    assert read.pop("n") == {"N": stored.pop("n")["N"]}
    assert read == stored


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ({"FilterExpression": "n > :two", "ExpressionAttributeValues": {":two": {"N": "2"}}}, ["k0003", "k0004"]),
        ({"KeyConditionExpression": "id = :k", "ExpressionAttributeValues": {":k": {"S": "k0001"}}}, ["k0001"]),
        ({"ProjectionExpression": "id"}, ["k0000", "k0001", "k0002", "k0003", "k0004"]),
    ],
)
def test_a_filter_chooses_items_and_attributes(
    db: Database, bucket: Path, specification: dict[str, Any], expected: list[str]
):
    done = export(db, make_table(db, "orders", 5), FilterSpecification=specification)
    lines = lines_of(bucket, done)
    assert ids(lines) == expected
    if "ProjectionExpression" in specification:
        assert all(set(line["Item"]) == {"id"} for line in lines)
    assert done["FilterSpecification"] == specification


def test_deletes_are_judged_by_the_old_image(db: Database, bucket: Path, clock: ManualClock):
    arn = make_table(db, "orders", 3)
    clock.advance(60)
    for key in ("k0001", "k0002"):
        delete(db, "orders", key)
    clock.advance(1_000)
    done = export(
        db,
        arn,
        ExportType="INCREMENTAL_EXPORT",
        IncrementalExportSpecification={"ExportFromTime": FROM + 1},
        FilterSpecification={"FilterExpression": "n = :n", "ExpressionAttributeValues": {":n": {"N": "2"}}},
    )
    assert [line["Keys"]["id"]["S"] for line in lines_of(bucket, done)] == ["k0002"]


def test_an_export_goes_on_when_its_table_is_deleted_and_stays_described(db: Database, bucket: Path):
    arn = make_table(db, "orders", 20)
    begun = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET})["ExportDescription"]
    db.execute("DeleteTable", {"TableName": "orders"})
    done = ended_export(db, begun["ExportArn"])
    assert (done["ExportStatus"], done["ItemCount"]) == ("COMPLETED", 20)
    assert len(lines_of(bucket, done)) == 20
    assert db.execute("ListExports", {"TableArn": arn}) == {"ExportSummaries": []}
    make_table(db, "orders")
    assert db.execute("ListExports", {"TableArn": arn}) == {"ExportSummaries": []}
    assert len(db.execute("ListExports", {})["ExportSummaries"]) == 1


# ── what is refused ──────────────────────────────────────────────────────────────────────────────

INCREMENTAL = {"ExportType": "INCREMENTAL_EXPORT"}


@pytest.mark.parametrize(
    ("more", "kind", "text"),
    [
        (
            {"TableArn": "orders"},
            ValidationException,
            "One or more parameter values were invalid: tableArn is not a valid ARN",
        ),
        ({"TableArn": ARN + "orders/index/x"}, ValidationException, "Invalid Request: Table ARN is invalid."),
        ({"TableArn": ARN + "nope"}, TableNotFoundException, f"Table not found: {ARN}nope"),
        (
            {"TableArn": ARN.replace("us-east-1", "eu-west-2") + "orders"},
            TableNotFoundException,
            f"Table not found: {ARN.replace('us-east-1', 'eu-west-2')}orders",
        ),
        (
            {"TableArn": ARN.replace("000000000000", "123456789012") + "orders"},
            AccessDeniedException,
            "Access is denied",
        ),
        ({"ExportTime": FROM + 3_600}, InvalidExportTimeException, "Export Time is invalid"),
        ({"ExportTime": FROM - 3_600}, InvalidExportTimeException, "Export Time is invalid"),
        (
            {"ExportTime": FROM + 0.3},
            InvalidExportTimeException,
            "Point in Time Recovery is not available for specified export time",
        ),
        (
            {"IncrementalExportSpecification": {}},
            ValidationException,
            "Invalid Request: Export Type expected to be "
            "Incremental Export when incremental export specification is provided",
        ),
        (
            {"ExportType": "FULL_EXPORT", "IncrementalExportSpecification": {}},
            ValidationException,
            "Invalid Request: When "
            "Export Type is Full Export , Incremental Export Specification should not be provided",
        ),
        (
            INCREMENTAL,
            ValidationException,
            "Invalid Request: Incremental Export Specification expected when export type is set as Incremental Export",
        ),
        (
            INCREMENTAL | {"IncrementalExportSpecification": {"ExportViewType": "NEW_IMAGE"}},
            ValidationException,
            "Invalid Request: ExportFromTime must be provided in IncrementalExportSpecification",
        ),
        (
            INCREMENTAL | {"IncrementalExportSpecification": {"ExportFromTime": FROM - 7_200}},
            InvalidExportTimeException,
            "Incremental export period from time cannot be less than the table creation time : 2026-11-18T09:06:40Z",
        ),
        (
            INCREMENTAL | {"IncrementalExportSpecification": {"ExportFromTime": FROM, "ExportToTime": FROM + 3_600}},
            InvalidExportTimeException,
            "Incremental export period to time cannot be greater than the current time : 2026-11-18T12:06:40Z",
        ),
        (
            INCREMENTAL | {"IncrementalExportSpecification": {"ExportFromTime": FROM}},
            InvalidExportTimeException,
            "Difference between export period from time and export period to time is less than 15 minutes",
        ),
        (
            {"S3SseKmsKeyId": "x"},
            ValidationException,
            "Invalid Request: KMS Key Id is not supported for this encryption type",
        ),
        (
            {"FilterSpecification": {}},
            ValidationException,
            "Invalid Request: Invalid FilterSpecification: The specification can not be empty",
        ),
    ],
)
def test_a_wrong_export_is_refused_in_the_words_of_dynamodb(
    db: Database, clock: ManualClock, more: dict[str, Any], kind: type[DynamoDBError], text: str
):
    make_table(db, "orders")
    clock.advance(0.5)
    with pytest.raises(kind) as caught:
        db.execute("ExportTableToPointInTime", {"TableArn": ARN + "orders", "S3Bucket": BUCKET} | more)
    assert caught.value.message == text


def test_a_window_of_more_than_a_day_is_refused(db: Database, clock: ManualClock):
    arn = make_table(db, "orders")
    clock.advance(2 * DAY)
    window = {"IncrementalExportSpecification": {"ExportFromTime": FROM + 1}}
    with pytest.raises(InvalidExportTimeException, match="more than 24 hours"):
        db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET} | INCREMENTAL | window)


def test_recovery_is_looked_at_before_the_bucket(db: Database):
    make_table(db, "orders")
    off = {"PointInTimeRecoveryEnabled": False}
    db.execute("UpdateContinuousBackups", {"TableName": "orders", "PointInTimeRecoverySpecification": off})
    with pytest.raises(PointInTimeRecoveryUnavailableException) as caught:
        db.execute("ExportTableToPointInTime", {"TableArn": ARN + "orders", "S3Bucket": "nowhere"})
    assert caught.value.message == "Point in time recovery is not enabled for table 'orders'"


def test_a_missing_bucket_fails_later_and_its_token_stays_with_it(db: Database):
    arn = make_table(db, "orders")
    done = export(db, arn, S3Bucket="nowhere", ClientToken="t")
    assert (done["ExportStatus"], done["FailureCode"]) == ("FAILED", "S3NoSuchBucket")
    assert done["FailureMessage"].startswith("The specified bucket does not exist")
    assert "ItemCount" not in done and "EndTime" in done
    again = db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": "nowhere", "ClientToken": "t"})
    assert again["ExportDescription"]["ExportArn"] == done["ExportArn"]
    with pytest.raises(ExportConflictException) as caught:
        db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET, "ClientToken": "t"})
    assert caught.value.message == "Export conflict: Duplicate request detected with conflicting parameters"


def test_a_token_is_new_again_after_eight_hours(db: Database, clock: ManualClock):
    arn = make_table(db, "orders")
    first = export(db, arn, ClientToken="t")
    clock.advance(8 * 3600 + 1)
    assert export(db, arn, ClientToken="t")["ExportArn"] != first["ExportArn"]


def test_the_bucket_of_another_account_is_denied(db: Database):
    done = export(db, make_table(db, "orders"), S3BucketOwner="123456789012")
    assert (done["ExportStatus"], done["FailureCode"]) == ("FAILED", "S3AccessDenied")


@pytest.mark.parametrize("prefix", ["../out", "a/../../b", "/etc", "a//b", "_temp", "x\x00y"])
def test_no_prefix_leads_out_of_the_bucket(db: Database, buckets: Path, prefix: str):
    done = export(db, make_table(db, "orders", 1), S3Prefix=prefix)
    assert (done["ExportStatus"], done["FailureCode"]) == ("FAILED", "S3InvalidKey")
    assert [one.name for one in buckets.iterdir()] == [BUCKET]


def test_no_link_leads_out_of_the_bucket(db: Database, buckets: Path, tmp_path: Path):
    (tmp_path / "outside").mkdir()
    (buckets / "linked").symlink_to(tmp_path / "outside")
    (buckets / BUCKET / "inner").symlink_to(tmp_path / "outside")
    arn = make_table(db, "orders", 1)
    assert export(db, arn, S3Bucket="linked")["FailureCode"] == "S3NoSuchBucket"
    assert export(db, arn, S3Prefix="inner")["ExportStatus"] == "FAILED"
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_database_without_buckets_says_how_to_give_some():
    with connect() as db:
        arn = make_table(db, "orders")
        with pytest.raises(ValidationException, match="--buckets DIR"):
            db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET})
        assert db.execute("ListExports", {}) == {"ExportSummaries": []}


def test_recovery_cannot_be_switched_off_under_an_export(tmp_path: Path, buckets: Path):
    with connect(tmp_path / "a.db", buckets=buckets) as db:
        arn = make_table(db, "orders", 1)
        db.engine.maintenance.stop()  # nobody begins the export
        db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET})
        off = {"PointInTimeRecoveryEnabled": False}
        with pytest.raises(ContinuousBackupsUnavailableException, match="being exported"):
            db.execute("UpdateContinuousBackups", {"TableName": "orders", "PointInTimeRecoverySpecification": off})


# ── describing and listing ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arn", "kind", "text"),
    [
        (
            f"{ARN}orders/export/01",
            ExportNotFoundException,
            f"Export not found: Export not found: {ARN}orders/export/01",
        ),
        (f"{ARN}orders", ValidationException, "Invalid Export ARN"),
        (f"{ARN}orders/import/01", ValidationException, "Invalid Export ARN"),
        ("x" * 40, ValidationException, "Invalid Export ARN"),
        (
            ARN.replace("us-east-1", "us-west-2") + "orders/export/01",
            ExportNotFoundException,
            "Export not found: Invalid export arn",
        ),
        (ARN.replace("000000000000", "123456789012") + "orders/export/01", AccessDeniedException, "Access is denied"),
    ],
)
def test_an_export_that_is_not_there_is_refused(db: Database, arn: str, kind: type[DynamoDBError], text: str):
    with pytest.raises(kind) as caught:
        db.execute("DescribeExport", {"ExportArn": arn})
    assert caught.value.message == text


def test_lists_have_ten_a_page_and_begin_with_the_newest(db: Database, clock: ManualClock):
    arn = make_table(db, "orders")
    made = [
        db.execute("ExportTableToPointInTime", {"TableArn": arn, "S3Bucket": BUCKET})["ExportDescription"]["ExportArn"]
        for _ in range(12)
    ]
    first = db.execute("ListExports", {})
    assert [one["ExportArn"] for one in first["ExportSummaries"]] == made[:1:-1]
    assert set(first["ExportSummaries"][0]) == {"ExportArn", "ExportStatus", "ExportType"}
    second = db.execute("ListExports", {"NextToken": first["NextToken"], "TableArn": arn})
    assert [one["ExportArn"] for one in second["ExportSummaries"]] == made[1::-1]
    assert "NextToken" not in second
    for one in made:
        ended_export(db, one)
    for operation, token in (("ListImports", first["NextToken"]), ("ListExports", "x")):
        with pytest.raises(ValidationException) as caught:
            db.execute(operation, {"NextToken": token})
        assert caught.value.message == f"Invalid Request: Provided nextToken is invalid: {token}"
    clock.advance(91 * DAY)
    assert db.execute("ListExports", {}) == {"ExportSummaries": []}
