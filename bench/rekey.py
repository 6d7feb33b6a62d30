"""A table's key changed while another process writes to it: `python -m bench rekey`.

The writer puts, updates and deletes, and notes each write that was acknowledged. At the end every item that it, or the
load before it, left must be in the new table, and nothing else. Rates are of the source's items, by wall clock and by
the CPU of the rekey's own process.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.options import Options
from bench.report import Section
from bench.report import Table as Shown
from bench.sections import alone
from penstock.client.database import Database, connect
from penstock.tables.apply.apply import make
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.rekey.phases import Options as RekeyOptions
from penstock.tables.rekey.phases import Rekey, plan_rekey
from penstock.tables.rekey.state import RekeyRun, RekeyStore
from penstock.wire.values import Item

OLD = Table("old", key=("conversation_id:S", "comment_id:N"))
INDEX = Index("by-author", "author:S", "comment_id:N")
ROOT = Path(__file__).parent.parent


def comment(number: int, version: int = 0) -> Item:
    """About 300 bytes."""
    return {
        "conversation_id": {"S": f"conversation-{number % 97}"},
        "comment_id": {"N": str(number)},
        "job_id": {"S": f"job-{number % 501}"},
        "author": {"S": f"author-{number % 1009}"},
        "version": {"N": str(version)},
        "text": {"S": "x" * 200},
    }


@dataclass(frozen=True)
class Plan:
    items: int
    writes_a_second: float


PLANS = {"full": Plan(200_000, 300.0), "quick": Plan(2_000, 100.0)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("rekey", "A key changed beside a writer")
    for title, table in (("no index", OLD), ("a global index", OLD.replace(indexes=(INDEX,)))):
        with tempfile.TemporaryDirectory() as folder:
            phases, told, lost = measure(f"{folder}/rekey.db", table, plan)
        section.tables.append(phases.table(plan.items, title))
        wall, cpu = phases.whole()
        section.figures |= {f"rate/{title}/{plan.items}": plan.items / wall, f"lost/{title}/{plan.items}": lost}
        section.figures[f"rate by CPU/{title}/{plan.items}"] = plan.items / cpu
        section.notes.append(f"With {title}: {told}; {lost} lost, old or resurrected.")
    section.notes.append(f"The writer, another process, writes up to {plan.writes_a_second:.0f} times a second.")
    return section


def measure(path: str, table: Table, plan: Plan) -> tuple[Phases, str, int]:
    with connect(path) as db:
        make(db, table, "old")
        fill(db, plan.items)
        writer = start_writer(path, plan)
        phases = Phases()
        store = RekeyStore(db)
        try:
            Rekey(db, store, RekeyOptions(tell=phases.tell)).start(
                plan_rekey(db, "old", "new", "job_id:S,comment_id:N")
            )
        finally:
            told, _ = writer.communicate("stop\n")
        phases.end()
        done = Rekey(db, store, RekeyOptions()).confirm("old", quiet_seconds=0.0)
        lost = check(db, plan.items, json.loads(told))
    return phases, f"{done.followed:,} changes followed, {done.repaired:,} repaired", lost


def fill(db: Database, items: int) -> None:
    """The items into the old table."""
    for at in range(0, items, 1_000):
        ItemTable.of(db, "old").write(comment(number) for number in range(at, min(items, at + 1_000)))


def start_writer(path: str, plan: Plan) -> subprocess.Popen[str]:
    """The other process, which writes to the old table until it is sent a line; then it says what it left."""
    words = [sys.executable, "-m", "bench.rekey", "--writer", path, str(plan.items), str(plan.writes_a_second)]
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Phases:
    """How long each phase took."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, float, float]] = []
        self._now = ("preparing", time.perf_counter(), time.process_time())

    def tell(self, job: RekeyRun) -> None:
        if job.phase != self._now[0]:
            self.end()
            self._now = (job.phase, time.perf_counter(), time.process_time())

    def end(self) -> None:
        phase, wall, cpu = self._now
        self._rows.append((phase, time.perf_counter() - wall, time.process_time() - cpu))

    def rows(self) -> list[tuple[str, float, float]]:
        return [row for row in self._rows if row[0] in ("copying", "summing", "comparing", "clearing")]

    def whole(self) -> tuple[float, float]:
        """Seconds, and seconds of CPU, of all that moves items."""
        return sum(row[1] for row in self.rows()), sum(row[2] for row in self.rows())

    def table(self, items: int, title: str) -> Shown:
        shown = Shown(f"{items:,} items of 300 bytes, {title}", ["phase", "seconds", "items/s", "CPU s", "items/CPU s"])
        for phase, wall, cpu in (*self.rows(), ("in all", *self.whole())):
            rates = [f"{items / wall:,.0f}", f"{cpu:.2f}", f"{items / max(cpu, 1e-9):,.0f}"]
            shown.rows.append([phase, f"{wall:.2f}", *rates])
        return shown


def write(path: str, count: int, pause: float) -> None:
    """Writes until told to stop; then says what it left, by comment: a version, or null for one that it deleted."""
    import select

    chance, version = random.Random(7), 0
    left: dict[int, int | None] = {}
    with connect(path) as db:
        while not select.select([sys.stdin], [], [], pause)[0]:
            version += 1
            number = chance.randrange(count + count // 10)
            item = comment(number, version)
            if chance.random() < 0.2:
                key = {name: item[name] for name in ("conversation_id", "comment_id")}
                db.execute("DeleteItem", {"TableName": "old", "Key": key})
                left[number] = None
            else:
                db.execute("PutItem", {"TableName": "old", "Item": item})
                left[number] = version
    sys.stdout.write(json.dumps(left))


def check(db: Database, count: int, left: dict[str, int | None]) -> int:
    """How many items of the new table are not what they must be."""
    wanted: dict[int, int | None] = dict.fromkeys(range(count), 0)
    wanted.update((int(number), version) for number, version in left.items())
    wrong = 0
    for pages in ItemTable.of(db, "new").rounds(Places(1)):
        for item in (item for page in pages for item in page.items):
            version = wanted.pop(int(item["comment_id"]["N"]), None)
            wrong += version is None or item != comment(int(item["comment_id"]["N"]), version)
    return wrong + sum(version is not None for version in wanted.values())


if __name__ == "__main__":
    if "--writer" in sys.argv:
        write(sys.argv[2], int(sys.argv[3]), 1.0 / float(sys.argv[4]))
    else:
        alone("rekey")
