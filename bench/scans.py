"""The memory of a parallel scan: `python -m bench scans`.

A file of small items, of which a page of 1 MB holds the most, is scanned by a process that does nothing else: through
a server and in process, with threads and with asyncio. Its highest resident memory is told by the system.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.kept import kept
from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import penstock, running

ROOT = Path(__file__).parent.parent
ROWS = 100
PADDING = 16  # an item of about 70 bytes, five attributes
WAYS = ("nothing", "scan", "parallel_scan", "parallel_scan, asyncio")


@dataclass(frozen=True)
class Plan:
    items: int


PLANS = {"full": Plan(1_000_000), "quick": Plan(5_000)}


def scanned(way: str, url: str) -> int:
    """How many items a scan gave."""
    import penstock

    if way == "parallel_scan, asyncio":
        return asyncio.run(_scanned_async(url))
    with penstock.connect(url) as database:
        table = database.table(workload.TABLE)
        if way == "nothing":
            return len(list(table.scan(limit=1)))
        items = table.scan() if way == "scan" else table.parallel_scan()
        return sum(1 for _ in items)


async def _scanned_async(url: str) -> int:
    import penstock

    async with penstock.connect_async(url) as database:
        number = 0
        async for _ in database.table(workload.TABLE).parallel_scan():
            number += 1
        return number


def figures_of(way: str, url: str) -> dict[str, float]:
    """What this process can say of itself after a scan."""
    began = time.perf_counter()
    items = scanned(way, url)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "items": items,
        "seconds": time.perf_counter() - began,
        "cpu": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def measured(way: str, url: str) -> dict[str, float]:
    """The same in a process of its own."""
    words = [sys.executable, "-m", "bench.scans", "--one", way, "--url", url]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{way} on {url}: {done.stderr.strip().splitlines()[-1]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def make(path: Path, items: int) -> None:
    import penstock

    with penstock.connect(str(path)) as database:
        workload.create_table(database.execute)
        workload.load_fast(database, items, ROWS, padding=PADDING)


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    columns = ["", "highest resident memory", "seconds", "seconds of CPU", "items given"]
    table = Table(f"{plan.items:,} items of some 70 bytes, scanned by a process that counts them", columns)
    section = Section("scans", "Scans of many items", [table])
    with kept(options, f"scans-{plan.items}", lambda path: make(path, plan.items)) as path:
        with running(penstock(), path.parent) as server:
            rows = [("over HTTP", way, measured(way, server.url)) for way in WAYS]
        rows += [("in process, on the file", way, measured(way, str(path))) for way in WAYS]
    for place, way, told in rows:
        cells = [f"{told['megabytes']:.0f} MB", f"{told['seconds']:.1f}", f"{told['cpu']:.1f}"]
        table.rows.append([f"{place}: {way}", *cells, f"{told['items']:,}"])
        section.figures[f"{place}/{way}/{plan.items}"] = told["megabytes"]
    section.notes.append("`nothing` reads one item: what the interpreter and the imports take. 8 segments, 4 workers.")
    return section


def main() -> None:
    """One scan in this process: `--one WAY --url URL`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", choices=WAYS)
    parser.add_argument("--url")
    told = parser.parse_args()
    sys.stdout.write(json.dumps(figures_of(told.one, told.url)))


if __name__ == "__main__":
    main() if "--one" in sys.argv else alone("scans")
