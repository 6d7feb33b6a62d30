"""Exports and imports whose process is killed at any event: whoever opens the file next ends them, whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from transfer_work import (
    BUCKET,
    begin_import,
    counts,
    delete,
    ended_export,
    ended_import,
    export,
    import_table,
    lines_of,
    make_table,
    put,
    scanned,
    with_index,
)

from penstock.client.database import Database, connect

SCRIPT = Path(__file__).with_name("crash_transfers.py")
ITEMS = 130
STRIDE = int(os.environ.get("PENSTOCK_CRASH_STRIDE", "7"))
"""Every so manieth event is one to die at: each death takes half a second. 1 is all of them."""


def begun(home: Path, work: str) -> str:
    """A file and its buckets with a transfer that nobody has begun; its ARN."""
    (home / "buckets" / BUCKET).mkdir(parents=True)
    with connect(home / "shop.db", buckets=home / "buckets") as db:
        db.engine.maintenance.stop()
        if work == "import":
            for part in range(3):
                rows = [
                    {"Item": {"id": {"S": f"k{n}"}, "owner": {"S": f"o{n % 5}"}}} for n in range(part, ITEMS, 3)
                ] + [{"Item": {"no": {"S": "key"}}}]
                text = "\n".join(map(json.dumps, rows))
                (home / "buckets" / BUCKET / f"d{part}").write_text(text)
            return begin_import(db, with_index("copy"), "d")
        arn = make_table(db, "orders", ITEMS)
        request = {"TableArn": arn, "S3Bucket": BUCKET, "ExportFormat": "ION" if work == "ion" else "DYNAMODB_JSON"}
        found: str = db.execute("ExportTableToPointInTime", request)["ExportDescription"]["ExportArn"]
        for number in range(0, ITEMS, 3):
            delete(db, "orders", f"k{number:04d}")
        put(db, "orders", "later")
        if work == "deleted":
            db.execute("DeleteTable", {"TableName": "orders"})
        return found


def killed(home: Path, events: int) -> bool:
    """Whether the process died before it was done."""
    command = [sys.executable, str(SCRIPT), str(home / "shop.db"), str(home / "buckets"), str(events)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9


def check(db: Database, home: Path, work: str, arn: str) -> None:
    if work == "import":
        told = ended_import(db, arn)
        assert (told["FailureCode"], counts(told)) == ("ItemValidationError", (ITEMS + 3, ITEMS, 3))
        assert len(scanned(db, "copy")) == ITEMS
        by_owner = db.execute("Scan", {"TableName": "copy", "IndexName": "by-owner", "Select": "COUNT"})
        assert by_owner["Count"] == ITEMS
        (errors,) = (home / "buckets" / BUCKET).glob("AWSDynamoDB/imports/*/errors.jsonl")
        assert len(errors.read_text().splitlines()) == 3
        return
    done = ended_export(db, arn)
    assert (done["ExportStatus"], done["ItemCount"]) == ("COMPLETED", ITEMS)
    bucket = home / "buckets" / BUCKET
    found = {line["Item"]["id"]["S"] for line in lines_of(bucket, done)}
    assert found == {f"k{number:04d}" for number in range(ITEMS)}
    named = {one["dataFileS3Key"] for one in map(json.loads, _files(bucket, done))}
    data = bucket / done["ExportManifest"].replace("manifest-summary.json", "data")
    assert {str(one.relative_to(bucket)) for one in data.iterdir()} == named  # nothing beside what the manifest names


def _files(bucket: Path, done: dict[str, str]) -> list[str]:
    return (bucket / done["ExportManifest"].replace("summary", "files")).read_text().splitlines()


@pytest.mark.parametrize("work", ["export", "deleted", "import"])
def test_a_transfer_that_is_killed_at_any_event_is_continued(tmp_path: Path, work: str):
    arn = begun(tmp_path / "start", work)
    events, deaths = 1, 0
    while True:
        home = tmp_path / f"after-{events}"
        shutil.copytree(tmp_path / "start", home)
        is_dead = killed(home, events)
        with connect(home / "shop.db", buckets=home / "buckets") as db:
            check(db, home, work, arn)
        shutil.rmtree(home)
        if not is_dead:
            break
        deaths += 1
        events += STRIDE
    assert deaths >= 4


def test_a_transfer_that_is_killed_again_and_again_is_whole(tmp_path: Path):
    for work, events in (("export", 17), ("import", 25)):
        home = tmp_path / work
        arn = begun(home, work)
        rounds = 0
        while killed(home, events) and rounds < 60:
            rounds += 1
        assert 1 <= rounds < 60
        with connect(home / "shop.db", buckets=home / "buckets") as db:
            check(db, home, work, arn)


def test_an_engine_without_buckets_leaves_transfers_to_one_that_has_some(tmp_path: Path):
    arn = begun(tmp_path, "export")
    with connect(tmp_path / "shop.db") as db:
        db.engine.maintenance.run_due()
        told = db.execute("DescribeExport", {"ExportArn": arn})["ExportDescription"]
        assert told["ExportStatus"] == "IN_PROGRESS"
    with connect(tmp_path / "shop.db", buckets=tmp_path / "buckets") as db:
        check(db, tmp_path, "export", arn)


def test_two_processes_share_one_file(tmp_path: Path):
    """Each does what it was asked for, or what the other one was."""
    (tmp_path / "buckets" / BUCKET).mkdir(parents=True)
    with (
        connect(tmp_path / "shop.db", buckets=tmp_path / "buckets") as one,
        connect(tmp_path / "shop.db", buckets=tmp_path / "buckets") as other,
    ):
        arn = make_table(one, "orders", 50)
        for db in (one, other, one, other):
            assert export(db, arn)["ItemCount"] == 50
        (tmp_path / "buckets" / BUCKET / "d1").write_text('{"Item":{"id":{"S":"a"}}}')
        assert import_table(other, "copy", "d1")["ImportStatus"] == "COMPLETED"
        assert "a" in scanned(one, "copy")
