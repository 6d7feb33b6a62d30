"""A process that processes the records of a file: `python record_worker.py FILE LOG`.

Each run of a record is two lines of the log: when it began and when it ended, by a clock that all processes share.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from penstock.client.database import connect
from penstock.records.processor import RecordProcessor


def main(path: str, log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(record: dict[str, Any]) -> None:
        os.write(out, f"{record['Number']} begin {time.monotonic_ns()}\n".encode())
        time.sleep(0.002)
        os.write(out, f"{record['Number']} end {time.monotonic_ns()}\n".encode())

    with connect(path) as db:
        table = db.table("Records")
        report = RecordProcessor(table, index="Processed", value=0, set={"Processed": 1}, max_workers=4).process_all(
            handle
        )
        print(report.processed)


if __name__ == "__main__":
    main(*sys.argv[1:])
