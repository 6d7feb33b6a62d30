"""The record model: a record is written, found unprocessed, marked, and found processed."""

from __future__ import annotations

from collections.abc import Callable

from penstock.systems.account_records.models.record import RecordModel


def run(records: RecordModel, say: Callable[[str], None]) -> None:
    records.put_item(
        {"AccountId": "ACC12345", "RunTime": "2026-02-17T12:00:00Z", "Processed": 0, "DocumentId": "DOC67890"}
    )
    say(f"Unprocessed: {[one.get('DocumentId') for one in records.query_unprocessed()]}")
    records.mark_as_processed("ACC12345", "2026-02-17T12:00:00Z")
    say(f"Processed: {[one.get('DocumentId') for one in records.query_processed()]}")
    say(f"Of ACC12345: {list(records.query_by_account('ACC12345'))}")
