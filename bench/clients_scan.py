"""The memory of a parallel scan: `python -m bench.clients_scan [--items 1000000] [--save]`.

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
import tempfile
import time
from pathlib import Path

from bench import workload
from bench.report import Section, Table, save, show
from bench.servers import penstock, running

ROOT = Path(__file__).parent.parent
ROWS = 100
PADDING = 16  # an item of about 70 bytes, five attributes
WAYS = ("nothing", "scan", "parallel_scan", "parallel_scan, asyncio")


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


def told(way: str, url: str) -> dict[str, float]:
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
    words = [sys.executable, "-m", "bench.clients_scan", "--one", way, "--url", url]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{way} on {url}: {done.stderr.strip().splitlines()[-1]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def make(path: Path, items: int) -> None:
    import penstock

    with penstock.connect(str(path)) as database:
        rows = (workload.item(number // ROWS, number % ROWS, padding=PADDING) for number in range(items))
        workload.load(database.execute, rows)


def run(items: int, folder: Path | None) -> Section:
    section = Section("Scans of many items", f"python -m bench.clients_scan --items {items}", [])
    table = Table(
        f"{items:,} items of some 70 bytes, scanned by a process that counts them",
        ["", "highest resident memory", "seconds", "seconds of CPU", "items given"],
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        path = (folder or Path(directory)) / "penstock.db"
        if not path.exists():
            make(path, items)
        with running(penstock(), path.parent) as server:
            rows = [("over HTTP", way, measured(way, server.url)) for way in WAYS]
        rows += [("in process, on the file", way, measured(way, str(path))) for way in WAYS]
    for place, way, figures in rows:
        cells = [f"{figures['megabytes']:.0f} MB", f"{figures['seconds']:.1f}", f"{figures['cpu']:.1f}"]
        table.rows.append([f"{place}: {way}", *cells, f"{figures['items']:,}"])
    section.tables.append(table)
    section.notes.append("`nothing` reads one item: what the interpreter and the imports take. 8 segments, 4 workers.")
    return section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the file is kept, and used again; a temporary one")
    parser.add_argument("--save", action="store_true", help="put the section in RESULTS.md")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(told(options.one, options.url)))
        return
    section = run(options.items, options.folder)
    show(section)
    if options.save:
        save([section])


if __name__ == "__main__":
    main()
