"""The processor: every unprocessed record that is there, with five workers."""

from __future__ import annotations

from collections.abc import Callable

from penstock.systems.account_records.models.record import Record, RecordModel
from penstock.systems.account_records.services.record_processor import RecordProcessor


def run(records: RecordModel, say: Callable[[str], None]) -> None:
    processor = RecordProcessor(records, max_workers=5, max_retries=3, backoff_base_ms=100, backoff_multiplier=2)

    def process_record(record: Record) -> None:
        say(f"Processing: {record['AccountId']} - {record['RunTime']}")

    errors = processor.process_all(process_record)
    say(f"Processing complete. Errors: {len(errors)}")
    for error in errors:
        say(f"Failed: {error.AccountId} - {error.RunTime}")
