"""Items in a new shape while another process writes to them: `python -m bench migrations`.

The items and the writer are those of `rekey`: it puts, updates and deletes, and notes each write that was acknowledged.
Each item is given an attribute that is worked out from another one. At the end, nothing that the writer, or the load
before it, left may be missing, old or back again, and all that the writer did not touch must have the new shape. Rates
are of the table's items, by wall clock and by the CPU of the migration's own process.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.options import Options
from bench.rekey import OLD, PLANS, Plan, comment, fill, start_writer
from bench.report import Section, Table, count
from bench.sections import alone
from penstock.client.database import Database, connect
from penstock.tables.apply.apply import make
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.migrations.migration import load_folder
from penstock.tables.migrations.migrator import Migrator, Status, counts_text
from penstock.tables.migrations.migrator import Options as MigratorOptions

MIGRATION = """
table = "old"

def up(item):
    item["length"] = len(item["text"])
    return item
"""


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        done, wall, cpu, wrong = measure(Path(folder), plan)
    columns = ["items", "seconds", "items/s", "CPU s", "items/CPU s", "lost, old or back again"]
    table = Table("Items of 300 bytes given another attribute", columns)
    cells = [f"{wall:.2f}", count(plan.items / wall), f"{cpu:.2f}", count(plan.items / cpu), str(wrong)]
    table.rows.append([count(plan.items), *cells])
    section = Section("migrations", "Items migrated beside a writer", [table])
    section.figures = {"rate": plan.items / wall, "rate by CPU": plan.items / cpu, "wrong": wrong}
    assert done.progress is not None
    section.notes = [
        f"The migration: {counts_text(done.progress.counts)}.",
        f"The writer, another process, writes up to {plan.writes_a_second:.0f} times a second.",
    ]
    return section


def measure(folder: Path, plan: Plan) -> tuple[Status, float, float, int]:
    """The migration as it ended, its seconds, those of its CPU, and how many items are not what they must be."""
    path = str(folder / "migrations.db")
    (folder / "migrations").mkdir()
    (folder / "migrations" / "0001_length.py").write_text(MIGRATION)
    with connect(path) as db:
        make(db, OLD, "old")
        fill(db, plan.items)
        migrator = Migrator(db, load_folder(folder / "migrations"), options=MigratorOptions(backup=False))
        writer = start_writer(path, plan)
        try:
            began, used = time.perf_counter(), time.process_time()
            (done,) = migrator.up()
            wall, cpu = time.perf_counter() - began, time.process_time() - used
        finally:
            told, _ = writer.communicate("stop\n")
        return done, wall, cpu, check(db, plan.items, json.loads(told))


def check(db: Database, items: int, left: Mapping[str, int | None]) -> int:
    """How many items are not as the writer, or the load, left them, or have not their new shape."""
    wanted: dict[int, int | None] = dict.fromkeys(range(items), 0)
    wanted.update((int(number), version) for number, version in left.items())
    wrong = 0
    for pages in ItemTable.of(db, "old").rounds(Places(1)):
        for item in (item for page in pages for item in page.items):
            number = int(item["comment_id"]["N"])
            version = wanted.pop(number, None)
            length = item.pop("length", None)
            is_new = length == {"N": str(len(item["text"]["S"]))} or (length is None and str(number) in left)
            wrong += version is None or item != comment(number, version) or not is_new
    return wrong + sum(version is not None for version in wanted.values())


if __name__ == "__main__":
    alone("migrations")
