"""A table's key changed while another process writes to it: `python -m bench.rekey [--items 200000]`.

The writer puts, updates and deletes, and notes each write that was acknowledged. At the end every item that it, or the
load before it, left must be in the new table, and nothing else. Rates are of the source's items, by wall clock and by
the CPU of the rekey's own process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock.client.database import Database, connect
from penstock.tables.definitions import Index, Table
from penstock.tables.rekey import Options, Rekey
from penstock.tables.rekey_plan import plan
from penstock.tables.rekey_state import Job, JobStore
from penstock.tables.single import make
from penstock.tables.transfers import ItemTable, Places
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--writes-a-second", type=float, default=300.0)
    parser.add_argument("--index", action="store_true", help="both tables have a global index")
    parser.add_argument("--writer", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        write(options.writer, options.items, 1.0 / options.writes_a_second)
        return
    with tempfile.TemporaryDirectory() as folder:
        table = OLD.altered(indexes=(INDEX,)) if options.index else OLD
        measure(f"{folder}/rekey.db", table, options.items, options.writes_a_second)


def measure(path: str, table: Table, count: int, rate: float) -> None:
    busy = os.getloadavg()[0]
    with connect(path) as db:
        make(db, table, "old")
        for at in range(0, count, 1_000):
            ItemTable.of(db, "old").write(comment(number) for number in range(at, min(count, at + 1_000)))
        words = [sys.executable, "-m", "bench.rekey", "--writer", path]
        words += ["--items", str(count), "--writes-a-second", str(rate)]
        writer = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        phases = Phases()
        store = JobStore(db)
        Rekey(db, store, Options(tell=phases.tell)).start(plan(db, "old", "new", "job_id:S,comment_id:N"))
        told, _ = writer.communicate("stop\n")
        phases.end()
        done = Rekey(db, store, Options()).confirm("old", quiet_seconds=0.0)
        lost = check(db, count, json.loads(told))
    phases.show(count)
    print(f"{done.followed:,} changes followed, {done.repaired:,} repaired; {lost} lost, old or resurrected")
    print(f"Load average before: {busy:.1f} on {os.cpu_count()} cores.")


class Phases:
    """How long each phase took."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, float, float]] = []
        self._now = ("preparing", time.perf_counter(), time.process_time())

    def tell(self, job: Job) -> None:
        if job.phase != self._now[0]:
            self.end()
            self._now = (job.phase, time.perf_counter(), time.process_time())

    def end(self) -> None:
        phase, wall, cpu = self._now
        self._rows.append((phase, time.perf_counter() - wall, time.process_time() - cpu))

    def show(self, count: int) -> None:
        rows = [row for row in self._rows if row[0] in ("copying", "summing", "comparing", "clearing")]
        rows.append(("in all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
        print(f"{'phase':<10} {'seconds':>8} {'items/s':>9} {'CPU s':>8} {'items/CPU s':>12}")
        for phase, wall, cpu in rows:
            print(f"{phase:<10} {wall:8.2f} {count / wall:9,.0f} {cpu:8.2f} {count / max(cpu, 1e-9):12,.0f}")


def write(path: str, count: int, pause: float) -> None:
    """Writes until told to stop; then says what it left, by comment: a version, or null for one that it deleted."""
    import select

    chance, left, version = random.Random(7), {}, 0
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
    print(json.dumps(left))


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
    main()
