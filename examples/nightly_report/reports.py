"""Each night at three a report of the day before: a CSV file and a summary, kept with the job.

python reports.py sample         a month of sales to try it on
python reports.py 2026-11-17     the report of one day, now
python reports.py show           the newest report
penstock worker reports:app      runs what is asked for, and every night the report of the day before
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import penstock
from penstock import Index, Table
from penstock.files import open_files
from penstock.tables.apply.apply import ensure_tables

FILE = os.environ.get("PENSTOCK_DB", "reports.db")
SALES = Table("sales", ("shop:S", "number:N"), indexes=[Index("by-day", "day:S", "number:N")])

app = penstock.App(FILE, files="files")


@app.task(cron="0 3 * * *", timezone="Europe/Berlin", retries=3)
def daily_report(ctx: penstock.JobContext, day: str = "") -> dict[str, str]:
    day = day or str(datetime.now(UTC).date() - timedelta(days=1))
    with penstock.connect(FILE) as db:
        sales = list(db.table(SALES.name).query(index="by-day", day=day))
    ctx.progress(50, step="read")

    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["shop", "number", "amount"])
    rows.writerows([sale["shop"], sale["number"], sale["amount"]] for sale in sales)
    ctx.files.save("sales.csv", table.getvalue().encode())

    totals: Counter[str] = Counter()
    for sale in sales:
        totals[sale["shop"]] += sale["amount"]
    lines = [f"{shop:10} {total:>10}" for shop, total in sorted(totals.items())]
    ctx.files.save("summary.txt", "\n".join([day, *lines, ""]).encode())
    return {"day": day, "sales": str(len(sales)), "total": str(sum(totals.values()))}


def sample(db: penstock.Database) -> int:
    ensure_tables(db, [SALES])
    first = date(2026, 11, 1)
    with db.table(SALES.name).batch() as batch:
        for number in range(300):
            shop, day = ("Berlin", "Leipzig", "Zürich")[number // 30 % 3], first + timedelta(days=number % 30)
            batch.put(
                {"shop": shop, "number": number, "day": str(day), "amount": Decimal(number % 17) + Decimal("0.95")}
            )
    return 300


if __name__ == "__main__":
    if sys.argv[1:] == ["sample"]:
        with penstock.connect(FILE) as database:
            print(sample(database), "sales")
    elif sys.argv[1:] == ["show"]:
        [job] = app.jobs.find(task="daily_report", limit=1)
        print(app.result(job.id))
        print(open_files("files").read(f"{job.id}/summary.txt").decode(), end="")
    else:
        print(daily_report.enqueue(day=sys.argv[1]).id)
