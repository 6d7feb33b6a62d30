"""A CSV file, worked on row by row: what is right is done once, what is wrong is kept, mended and done again.

python imports.py load invoices.csv      every row becomes an item that waits
python imports.py run                    books those that wait
python imports.py mend 1003 1200.00      corrects a row, and does again what failed
"""

from __future__ import annotations

import csv
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import penstock
from penstock import Index, Table
from penstock.tables.apply.apply import ensure_tables

ROWS = Table("rows", key=("file:S", "number:S"), indexes=[Index("waiting", "waiting:N")])


class BadAmount(ValueError):
    """The amount of a row is no number."""


def load(db: penstock.Database, file: str) -> int:
    """Once, however often it is called: a row that is there already stays as it is."""
    ensure_tables(db, [ROWS])
    count = 0
    with Path(file).open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            item = {"file": file, "waiting": 0, **row}
            try:
                db.table(ROWS.name).put(item, if_=penstock.F("number").missing())
            except penstock.ConditionFailed:
                continue
            count += 1
    return count


def book(row: dict[str, Any]) -> dict[str, Any]:
    """What is to be done for a row. What it returns is stored in the row's item."""
    try:
        amount = Decimal(row["amount"])
    except InvalidOperation:
        raise BadAmount(f"{row['amount']!r} is no amount") from None
    return {"booked": amount, "tax": (amount * Decimal("0.19")).quantize(Decimal("0.01"))}


def processor(db: penstock.Database) -> penstock.RecordProcessor:
    return penstock.RecordProcessor(
        db.table(ROWS.name), index="waiting", value=0, set={"waiting": 1}, max_workers=4, max_retries=0
    )


def main(words: list[str]) -> None:
    with penstock.connect("imports.db") as db:
        match words:
            case ["load", file]:
                print(load(db, file), "rows")
            case ["run"]:
                report = processor(db).process_all(book)
                print(report.processed, "booked,", report.failed, "failed")
                for error in sorted(map(str, report.errors)):
                    print(" ", error)
            case ["mend", number, amount]:
                db.table(ROWS.name).update({"file": "invoices.csv", "number": number}, set={"amount": amount})
                processor(db).redrive(kind="BadAmount")
                print(processor(db).process_all(book).processed, "booked")
            case _:
                print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
