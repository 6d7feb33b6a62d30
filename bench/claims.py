"""What finished jobs cost the others: `python -m bench.claims [--finished 1000000]`.

Two databases, one with a hundred finished jobs and one with many. In turn, jobs are made, claimed and read with their
history in both; the medians of CPU time are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import penstock
from penstock.jobs.job import Job, Payload, new_id
from penstock.jobs.new import NewJob
from penstock.jobs.state import State
from penstock.jobs.store import JobStore

FEW = 100
ROUNDS = 9
CALLS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--finished", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-claims-") as folder:
        stores = [filled(Path(folder) / f"{number}.db", number) for number in (FEW, options.finished)]
        for name, measure in (("claim", claim), ("history", history), ("find", find)):
            few, many = measured(stores, measure)
            told = f"{few * 1e6:7.0f} µs with {FEW} finished jobs, {many * 1e6:7.0f} µs with {options.finished:,}"
            print(f"{name:8} {told}: {many / few:.2f} ×")


def filled(path: Path, number: int) -> JobStore:
    store = JobStore(penstock.connect(path))
    store.ensure_tables()
    began = time.monotonic()
    now = time.time()
    with store.db.table(store.layout.table).batch() as batch:
        for place in range(number):
            batch.put(plain(store, finished(now - place / 100)))
    print(f"{number:,} finished jobs made in {time.monotonic() - began:.0f} s", flush=True)
    return store


def finished(at: float) -> Job:
    return Job(
        id=new_id(at), task="noop", state=State.COMPLETED, created_at=at, updated_at=at, run_at=at,
        expires_at=int(at + 1e7), token=1, attempt=1, version=3, ended_at=at, started_at=at, result=Payload("null"),
    )  # fmt: skip


def plain(store: JobStore, job: Job) -> dict[str, object]:
    """The main record in Python's own values, as batches take them."""
    return {name: int(value["N"]) if "N" in value else value["S"] for name, value in store.layout.main(job).items()}


def measured(stores: list[JobStore], measure: Callable[[JobStore], float]) -> list[float]:
    times: list[list[float]] = [[] for _ in stores]
    for _ in range(ROUNDS):
        for store, found in zip(stores, times, strict=True):
            found.append(measure(store))
    return [statistics.median(found) for found in times]


def claim(store: JobStore) -> float:
    """CPU of finding and claiming a job, and ending it."""
    for number in range(CALLS):
        store.create(NewJob("noop", {"n": number}))
    began = time.process_time()
    for _ in range(CALLS):
        job = store.claim(store.claimable("default", 1).jobs[0], "bench", 30)
        assert job is not None
        store.complete(job)
    return (time.process_time() - began) / CALLS


def history(store: JobStore) -> float:
    job, _ = store.create(NewJob("noop", {}))
    held = store.claim(job, "bench", 30)
    assert held is not None
    for number in range(20):
        held = store.report(held, progress=number)
    store.complete(held)
    began = time.process_time()
    for _ in range(CALLS):
        store.history(job.id)
    return (time.process_time() - began) / CALLS


def find(store: JobStore) -> float:
    began = time.process_time()
    for _ in range(CALLS // 10):
        assert len(store.find(state=State.COMPLETED, limit=20).jobs) == 20
    return (time.process_time() - began) / (CALLS // 10)


if __name__ == "__main__":
    main()
