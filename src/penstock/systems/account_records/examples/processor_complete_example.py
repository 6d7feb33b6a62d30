"""The processor with test data: twenty records, of which some fail at first and one for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.systems.account_records.models.record import Record, RecordModel
from penstock.systems.account_records.services.record_processor import RecordProcessor

RECORDS = 20
ACCOUNT = "ACC-EXAMPLE"


class DocumentUnreadable(Exception):
    """Trying again does not help."""


def run(records: RecordModel, say: Callable[[str], None]) -> None:
    for number in range(RECORDS):
        document = {"DocumentId": f"DOC{number:03d}", "Processed": 0}
        records.put_item({"AccountId": ACCOUNT, "RunTime": f"2026-02-17T12:00:{number:02d}Z", **document})
    say(f"Test data: {RECORDS} records")
    tried: Counter[str] = Counter()

    def process_record(record: Record) -> dict[str, str]:
        name = record["DocumentId"]
        tried[name] += 1
        if name == "DOC013":
            raise DocumentUnreadable("a page is missing")
        if name in ("DOC005", "DOC010") and tried[name] == 1:
            raise TimeoutError("busy")
        return {"Result": f"{name} read"}

    processor = RecordProcessor(records, max_workers=5, backoff_base_ms=1, give_up_on=[DocumentUnreadable])
    report = processor.process_all(process_record)
    say(f"Processed: {report.processed} in {report.attempts} attempts, {report.success_rate:.0%} of the records")
    for error in report:
        say(f"Failed: {error.AccountId} - {error.RunTime}: {error.kind}: {error.message}")
    say(f"Failed until they are redriven: {sum(group.count for group in processor.failures())}")
