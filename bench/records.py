"""Records processed in parallel: `python -m bench.records [--records 10000] [--large 1000000] [--only NAME]`.

    efficiency   a function that sleeps 5 ms, 8 threads, a file: the ideal wall time as a part of the real one
    overhead     CPU of the process a record (user and system) beyond the function's own; beside a plain UpdateItem
    chunks       seed 004's scheme, chunks of max_workers that wait for their slowest, with exponential times
    processes    one, two and four processes on one table, with functions that sleep and that compute; no record may be
                 run twice
    memory       the most memory that 10,000, 100,000 and 1,000,000 records take; SQLite's page caches are part of it

Each part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.files import peak_bytes
from penstock.client.database import Database, connect
from penstock.client.table import Table as Handle
from penstock.records.processor import RecordProcessor
from penstock.tables.definitions import Index, Table
from penstock.tables.single import make

ROOT = Path(__file__).parent.parent
NAME = "Records"
WORKERS = 8
SLEEP_SECONDS = 0.005
PARTS = ("efficiency", "overhead", "chunks", "processes", "memory")

PLAIN = Table(NAME, ("AccountId:S", "RunTime:S"))
INDEXED = Table(NAME, ("AccountId:S", "RunTime:S"), indexes=(Index("Processed", "Processed:N"),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000, help="records of the memory's second figure")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.one:
        ONES[options.one](*rest)
        return
    for part in options.only or PARTS:
        if part == "memory":
            for count in (options.records, options.large // 10, options.large):
                part_of("memory", str(count))
        else:
            part_of(part, str(options.records))
    print(f"Load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


def part_of(name: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "bench.records", "--one", name, *arguments], cwd=ROOT, check=True)


# ── a table ──────────────────────────────────────────────────────────────────────────────────────


def filled(folder: str, count: int, definition: Table = PLAIN) -> tuple[Database, Handle]:
    db = connect(Path(folder) / "records.db")
    make(db, definition, NAME)
    table = db.table(NAME)
    table.batch_write(
        {"AccountId": f"a{n % 97}", "RunTime": f"{n:08}", "Processed": 0, "DocumentId": f"D{n}"} for n in range(count)
    )
    return db, table


def by_index(table: Handle, **options: Any) -> RecordProcessor:
    return RecordProcessor(table, index="Processed", value=0, set={"Processed": 1}, **options)


def sleeping(record: dict[str, Any]) -> None:
    time.sleep(SLEEP_SECONDS)


def computing(record: dict[str, Any]) -> None:
    """As long, but of CPU: what a further process is for."""
    end = time.thread_time() + SLEEP_SECONDS
    while time.thread_time() < end:
        sum(range(200))


def nothing(record: dict[str, Any]) -> None:
    """What is left is ours."""


def cpu() -> float:
    return time.process_time()


# ── efficiency ───────────────────────────────────────────────────────────────────────────────────


def efficiency(records: str) -> None:
    count = int(records)
    bare = sleeping_alone(count // 10)
    for title, definition, make_processor in (
        ("whole table", PLAIN, lambda table: RecordProcessor(table, max_workers=WORKERS)),
        ("by an index", INDEXED, lambda table: by_index(table, max_workers=WORKERS)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            db, table = filled(folder, count, definition)
            began, used = time.perf_counter(), cpu()
            report = make_processor(table).process_all(sleeping)
            wall, used = time.perf_counter() - began, cpu() - used
            assert report.processed == count
            db.close()
        ideal = count * SLEEP_SECONDS / WORKERS
        print(
            f"efficiency, {title}: {ideal / wall:.1%} of the ideal ({wall:.2f} s for {ideal:.2f} s); "
            f"threads that only sleep: {bare:.1%}; {used / count * 1e6:.0f} µs CPU a record",
            flush=True,
        )


def sleeping_alone(count: int) -> float:
    """What the machine gives to threads that do nothing else."""

    def sleep() -> None:
        for _ in range(count // WORKERS):
            time.sleep(SLEEP_SECONDS)

    threads = [threading.Thread(target=sleep) for _ in range(WORKERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (count // WORKERS) * SLEEP_SECONDS / (time.perf_counter() - began)


# ── overhead ─────────────────────────────────────────────────────────────────────────────────────


def overhead(records: str) -> None:
    count = int(records)
    for title, definition, make_processor in (
        ("whole table", PLAIN, lambda table, **options: RecordProcessor(table, **options)),
        ("by an index", INDEXED, by_index),
    ):
        for workers in (1, WORKERS):
            with tempfile.TemporaryDirectory() as folder:
                db, table = filled(folder, count, definition)
                plain = plain_update(db, min(count, 3_000))
                used = cpu()
                report = make_processor(table, max_workers=workers).process_all(nothing)
                used = cpu() - used
                assert report.processed == count
                db.close()
            each = used / count
            print(
                f"overhead, {title}, {workers} threads: {each * 1e6:.0f} µs CPU a record, {each / plain:.1f} × "
                f"a plain UpdateItem ({plain * 1e6:.0f} µs)",
                flush=True,
            )


def plain_update(db: Database, count: int) -> float:
    used = cpu()
    for number in range(count):
        request = {
            "TableName": NAME,
            "Key": {"AccountId": {"S": f"a{number % 97}"}, "RunTime": {"S": f"{number:08}"}},
            "UpdateExpression": "SET Seen = :seen",
            "ConditionExpression": "attribute_exists(AccountId)",
            "ExpressionAttributeValues": {":seen": {"S": "x" * 100}},
        }
        db.execute("UpdateItem", request)
    return (cpu() - used) / count


# ── chunks ───────────────────────────────────────────────────────────────────────────────────────


def chunks(records: str) -> None:
    count = int(records) // 4

    def drawn(record: dict[str, Any]) -> None:
        time.sleep(random.Random(record["RunTime"]).expovariate(1 / SLEEP_SECONDS))

    walls = {}
    for title, run in (("chunks", run_chunks), ("pool", run_pool)):
        with tempfile.TemporaryDirectory() as folder:
            db, table = filled(folder, count, INDEXED)
            began = time.perf_counter()
            run(table, drawn)
            walls[title] = time.perf_counter() - began
            assert not list(table.query(index="Processed", key={"Processed": 0}, limit=1))
            db.close()
    print(
        f"chunks: {walls['chunks'] / walls['pool']:.2f} × as long as the pool "
        f"({walls['chunks']:.2f} s, {walls['pool']:.2f} s)",
        flush=True,
    )


def run_pool(table: Handle, function: Callable[[dict[str, Any]], None]) -> None:
    by_index(table, max_workers=WORKERS).process_all(function)


def run_chunks(table: Handle, function: Callable[[dict[str, Any]], None]) -> None:
    """As seed 004 describes it: read all, run max_workers at a time, wait for them, mark each; no leases."""

    def one(record: dict[str, Any]) -> None:
        function(record)
        key = {"AccountId": record["AccountId"], "RunTime": record["RunTime"]}
        table.update(key, set={"Processed": 1})

    found = list(table.query(index="Processed", key={"Processed": 0}))
    with ThreadPoolExecutor(WORKERS) as pool:
        for start in range(0, len(found), WORKERS):
            list(pool.map(one, found[start : start + WORKERS]))


# ── processes ────────────────────────────────────────────────────────────────────────────────────


def processes(records: str) -> None:
    for work, count in (("sleeping", int(records)), ("computing", int(records) // 4)):
        for number in (1, 2, 4):
            _processes(number, work, count)


def _processes(number: int, work: str, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db, table = filled(folder, count, INDEXED)
        words = [sys.executable, "-m", "bench.records", "--one", "process", db.name, work]
        began = time.perf_counter()
        started = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(number)]
        told = [tuple(map(float, one.communicate()[0].split())) for one in started]
        wall = time.perf_counter() - began
        assert not list(table.query(index="Processed", key={"Processed": 0}, limit=1))
        db.close()
    done, attempts = sum(one[0] for one in told), sum(one[1] for one in told)
    assert done == attempts == count, "a record was run twice"
    longest = max(one[2] for one in told)
    used = sum(one[3] for one in told) / count
    print(
        f"processes, {number}, {work}: {count / longest:,.0f} records a second ({longest:.1f} s, with the start "
        f"{wall:.1f} s), {used * 1e6:.0f} µs CPU a record, {sum(one[4] for one in told):,.0f} claims in vain",
        flush=True,
    )


def one_process(path: str, work: str) -> None:
    function = {"sleeping": sleeping, "computing": computing}[work]
    with connect(path) as db:
        used = cpu()
        report = by_index(db.table(NAME), max_workers=WORKERS).process_all(function)
        print(report.processed, report.attempts, report.seconds, cpu() - used, report.skipped)


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


def memory(records: str) -> None:
    count = int(records)
    with tempfile.TemporaryDirectory() as folder:
        db, _ = filled(folder, count, PLAIN)
        subprocess.run(
            [sys.executable, "-m", "bench.records", "--one", "measure_memory", db.name], cwd=ROOT, check=True
        )
        db.close()


def measure_memory(path: str) -> None:
    with connect(path) as db:
        # Every record fails: what a run keeps of failures counts too.
        report = RecordProcessor(db.table(NAME), max_workers=WORKERS, max_retries=0).process_all(failing)
    ended = report.processed + report.failed
    print(f"memory, {ended:,} records: {peak_bytes() / 1e6:.0f} MB at most, {report.seconds:.0f} s", flush=True)


def failing(record: dict[str, Any]) -> None:
    if record["DocumentId"].endswith("7"):
        raise ValueError(f"no price in {record['DocumentId']}")


ONES: dict[str, Callable[..., None]] = {
    "efficiency": efficiency,
    "overhead": overhead,
    "chunks": chunks,
    "processes": processes,
    "process": one_process,
    "memory": memory,
    "measure_memory": measure_memory,
}


if __name__ == "__main__":
    main()
