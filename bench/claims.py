"""What finished jobs cost the others: `python -m bench claims`, 10² to 10⁵ finished ones; to 10⁶ with --large.

One database a size. In turn, jobs are made, claimed, ended, read with their history and listed in each; the medians of
CPU time are compared. A million takes minutes to make: --keep DIR keeps it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import penstock
from bench.kept import grown, kept
from bench.options import Options
from bench.report import Section, Table, count, times
from bench.sections import alone
from penstock.jobs.model.job import Job, NewJob, Payload, new_id
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

SMALLEST = 100
KEPT_FROM = 100_000  # smaller ones are made anew: what a run adds would change them


@dataclass(frozen=True)
class Plan:
    largest: int
    rounds: int
    calls: int


PLANS = {
    "full": Plan(100_000, rounds=9, calls=60),
    "large": Plan(1_000_000, rounds=9, calls=60),
    "quick": Plan(1_000, rounds=2, calls=20),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    sizes = grown(options, SMALLEST, plan.largest, "jobs")
    with ExitStack() as stack:
        stores = {size: _opened(options, size, stack) for size in sizes}
        taken = {name: _in_turn(stores, measure, plan) for name, measure in MEASURES.items()}
    title = "Microseconds of CPU, beside so many finished jobs"
    table = Table(title, ["", *map(count, sizes), "largest / smallest"])
    section = Section("claims", "Jobs beside finished jobs", [table])
    for name, medians in taken.items():
        section.figures |= {f"{name}/{size}": value * 1e6 for size, value in medians.items()}
        cells = [f"{value * 1e6:,.0f}" for value in medians.values()]
        table.rows.append([name, *cells, times(medians[sizes[-1]] / medians[sizes[0]])])
    section.notes.append(f"Medians of {plan.rounds} rounds of {plan.calls} calls, in which the sizes take turns.")
    return section


def _opened(options: Options, size: int, stack: ExitStack) -> JobStore:
    keeping = options if size >= KEPT_FROM else Options()
    path = stack.enter_context(kept(keeping, f"jobs-{size}", lambda path: fill(path, size)))
    return JobStore(stack.enter_context(penstock.connect(path)))


def fill(path: Path, number: int) -> None:
    with penstock.connect(path) as db:
        store = JobStore(db)
        store.ensure_tables()
        now = time.time()
        with db.table(store.layout.table).batch() as batch:
            for place in range(number):
                batch.put(plain(store, finished(now - place / 100)))


def finished(at: float) -> Job:
    return Job(
        id=new_id(at), task="noop", state=State.COMPLETED, created_at=at, updated_at=at, run_at=at,
        expires_at=int(at + 1e7), token=1, attempt=1, version=3, ended_at=at, started_at=at, result=Payload("null"),
    )  # fmt: skip


def plain(store: JobStore, job: Job) -> dict[str, object]:
    """The main record in Python's own values, as batches take them."""
    return {name: int(value["N"]) if "N" in value else value["S"] for name, value in store.layout.main(job).items()}


def _in_turn(stores: dict[int, JobStore], measure: Callable[[JobStore, int], float], plan: Plan) -> dict[int, float]:
    times: dict[int, list[float]] = {size: [] for size in stores}
    for _ in range(plan.rounds):
        for size, store in stores.items():
            times[size].append(measure(store, plan.calls))
    return {size: statistics.median(found) for size, found in times.items()}


def claim(store: JobStore, calls: int) -> float:
    """CPU of finding and claiming a job, and ending it."""
    for number in range(calls):
        store.create(NewJob("noop", {"n": number}))
    began = time.process_time()
    for _ in range(calls):
        job = store.claim(store.claimable("default", 1).jobs[0], "bench", 30)
        assert job is not None
        store.complete(job)
    return (time.process_time() - began) / calls


def history(store: JobStore, calls: int) -> float:
    job, _ = store.create(NewJob("noop", {}))
    held = store.claim(job, "bench", 30)
    assert held is not None
    for number in range(20):
        held = store.report(held, progress=number)
    store.complete(held)
    began = time.process_time()
    for _ in range(calls):
        store.history(job.id)
    return (time.process_time() - began) / calls


def find(store: JobStore, calls: int) -> float:
    lists = max(1, calls // 10)
    began = time.process_time()
    for _ in range(lists):
        assert len(store.find(state=State.COMPLETED, limit=20).jobs) == 20
    return (time.process_time() - began) / lists


MEASURES = {"Claim and end a job": claim, "Read a job's history": history, "List 20 jobs": find}


if __name__ == "__main__":
    alone("claims")
