"""Records processed in parallel, one part a process: `python -m bench.record_parts PART COUNT`. Prints JSON.

efficiency COUNT   a function that sleeps 5 ms, 8 threads, a file: the ideal wall time as a part of the real one
overhead COUNT     CPU of the process a record (user and system) beyond the function's own; a plain UpdateItem's
chunks COUNT       seed 004's scheme, chunks of max_workers that wait for their slowest, with exponential times
processes COUNT    one, two and four processes on one table, with functions that sleep and that compute; no record
                   may be run twice
memory COUNT       the most memory that so many records take; SQLite's page caches are part of it
"""

from __future__ import annotations

import json
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
from penstock.client.tables.table import Table as Handle
from penstock.records.processor import RecordProcessor
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Index, Table

ROOT = Path(__file__).parent.parent
NAME = "Records"
WORKERS = 8
SLEEP_SECONDS = 0.005

PLAIN = Table(NAME, ("AccountId:S", "RunTime:S"))
INDEXED = Table(NAME, ("AccountId:S", "RunTime:S"), indexes=(Index("Processed", "Processed:N"),))


def main() -> None:
    part, *arguments = sys.argv[1:]
    PARTS[part](*arguments)


def tell(**figures: Any) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


# ── a table ──────────────────────────────────────────────────────────────────────────────────────


def filled(folder: str, count: int, definition: Table = PLAIN) -> tuple[Database, Handle]:
    db = connect(Path(folder) / "records.db")
    make(db, definition, NAME)
    table = db.table(NAME)
    table.batch_write(
        {"AccountId": f"a{n % 97}", "RunTime": f"{n:08}", "Processed": 0, "DocumentId": f"D{n}"} for n in range(count)
    )
    return db, table


def by_table(table: Handle, **options: Any) -> RecordProcessor:
    return RecordProcessor(table, **options)


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
        ("whole table", PLAIN, by_table),
        ("by an index", INDEXED, by_index),
    ):
        with tempfile.TemporaryDirectory() as folder:
            db, table = filled(folder, count, definition)
            began, used = time.perf_counter(), cpu()
            report = make_processor(table, max_workers=WORKERS).process_all(sleeping)
            wall, used = time.perf_counter() - began, cpu() - used
            assert report.processed == count
            db.close()
        tell(how=title, part=count * SLEEP_SECONDS / WORKERS / wall, bare=bare, cpu=used / count)


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
        ("whole table", PLAIN, by_table),
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
            tell(how=title, workers=workers, cpu=used / count, plain=plain)


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
    tell(**walls)


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
        words = [sys.executable, "-m", "bench.record_parts", "process", db.name, work]
        began = time.perf_counter()
        started = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(number)]
        told = [tuple(map(float, one.communicate()[0].split())) for one in started]
        wall = time.perf_counter() - began
        assert not list(table.query(index="Processed", key={"Processed": 0}, limit=1))
        db.close()
    done, attempts = sum(one[0] for one in told), sum(one[1] for one in told)
    assert done == attempts == count, "a record was run twice"
    longest, used = max(one[2] for one in told), sum(one[3] for one in told)
    vain = sum(one[4] for one in told)
    tell(processes=number, work=work, rate=count / longest, cpu=used / count, vain=vain, wall=wall)


def one_process(path: str, work: str) -> None:
    function = {"sleeping": sleeping, "computing": computing}[work]
    with connect(path) as db:
        used = cpu()
        report = by_index(db.table(NAME), max_workers=WORKERS).process_all(function)
        sys.stdout.write(f"{report.processed} {report.attempts} {report.seconds} {cpu() - used} {report.skipped}")


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


def memory(records: str) -> None:
    count = int(records)
    with tempfile.TemporaryDirectory() as folder:
        db, _ = filled(folder, count, PLAIN)
        words = [sys.executable, "-m", "bench.record_parts", "measure_memory", db.name]
        subprocess.run(words, cwd=ROOT, check=True)
        db.close()


def measure_memory(path: str) -> None:
    with connect(path) as db:
        # Every record fails: what a run keeps of failures counts too.
        report = RecordProcessor(db.table(NAME), max_workers=WORKERS, max_retries=0).process_all(failing)
    tell(records=report.processed + report.failed, bytes=peak_bytes(), seconds=report.seconds)


def failing(record: dict[str, Any]) -> None:
    if record["DocumentId"].endswith("7"):
        raise ValueError(f"no price in {record['DocumentId']}")


PARTS: dict[str, Callable[..., None]] = {
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
