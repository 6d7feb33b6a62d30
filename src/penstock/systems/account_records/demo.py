"""A small showing of the whole system: users, records, a processor with failures, and a redrive of only those."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.client.database import Database
from penstock.records.run_records import process_recorded
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.models.record import Record, RecordModel
from penstock.systems.account_records.models.user import UserModel
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.account_records.services.record_processor import RecordProcessor

_ACCOUNTS = 10
_RECORDS = 300
_FOREIGN = 20
_CONFIG = Config()


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Does it on `db`, and writes what failed to a file under `folder`; the facts of what was done."""
    progress(0.05, "making Users and Records")
    create_tables(db, _CONFIG)
    users = UserModel(db, table=_CONFIG.user_table)
    users.put_item({"id": "ada", "name": "Ada", "email": "ada@example.org"})
    records = RecordModel(db, table=_CONFIG.record_table)
    progress(0.2, f"adding {_RECORDS} records")
    for number in range(_RECORDS):
        records.put_item(_record(number))
    theirs = db.table(_CONFIG.record_table, key=("AccountId:S", "RunTime:S"))
    for number in range(_FOREIGN):  # as boto3 in somebody else's program puts them: nothing of ours around it
        theirs.put(_record(_RECORDS + number))
    processor = RecordProcessor(records, max_workers=5, max_retries=1, backoff_base_ms=1)
    progress(0.5, "processing them with 5 workers")
    first = process_recorded(processor, _read_document, db, _CONFIG.record_table)
    failed = folder / "accounts-failed.txt"
    failed.parent.mkdir(parents=True, exist_ok=True)
    failed.write_text("".join(f"{error}\n" for error in first.errors))
    progress(0.8, "redriving only what failed")
    redriven = processor.redrive()
    second = process_recorded(processor, _repaired, db, _CONFIG.record_table)
    progress(1.0, "done")
    return {
        "records": _RECORDS,
        "put by another program": _FOREIGN,
        "processed at first": first.processed,
        "failed": first.failed,
        "the first error": f"{first.errors[0]}",
        "redriven": redriven,
        "processed then": second.processed,
        "left to do": sum(1 for _ in records.query_unprocessed()),
        "errors": str(failed),
    }


def _record(number: int) -> Record:
    return {
        "AccountId": f"ACC{number % _ACCOUNTS:05d}",
        "RunTime": f"2026-02-17T12:{number // 60:02d}:{number % 60:02d}Z",
        "Processed": 0,
        "DocumentId": f"DOC{number:05d}",
    }


def _read_document(record: Record) -> dict[str, str]:
    if record["DocumentId"].endswith("7"):
        raise TimeoutError(f"{record['DocumentId']}: the archive does not answer")
    return {"Result": "read"}


def _repaired(record: Record) -> dict[str, str]:
    return {"Result": "read at last"}
