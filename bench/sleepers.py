"""What jobs that sleep cost: `python -m bench sleepers`.

First the CPU of a claim, which is a poll and the write that takes the job, with no sleeping job and with 100,000 in the
same file. Then 10,000 jobs that sleep until the same second: how long one worker takes from then on to end them all.
Each is begun by a worker and suspends itself there, as any task does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import penstock
from bench.claims import plain
from bench.options import Options
from bench.report import Section, Table, count, times
from bench.sections import alone
from penstock.jobs.model.job import Job, NewJob, new_id
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

HOUR = 3600.0
DAY = 24 * HOUR
CONCURRENCY = 8
TASK = "nap"


@dataclass(frozen=True)
class Plan:
    sleepers: int
    timers: int
    rounds: int
    calls: int


PLANS = {
    "full": Plan(sleepers=100_000, timers=10_000, rounds=9, calls=60),
    "quick": Plan(sleepers=500, timers=50, rounds=2, calls=10),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    none, many = _claims(plan)
    seconds = _timers(plan)
    claims = Table("Microseconds of CPU of a claim", ["no job sleeps", f"{count(plan.sleepers)} sleep", "ratio"])
    claims.rows.append([f"{none * 1e6:,.0f}", f"{many * 1e6:,.0f}", times(many / none)])
    timers = Table("Jobs that sleep until the same second, one worker", ["jobs", "until all have ended", "a second"])
    timers.rows.append([f"{plan.timers:,}", f"{seconds:.1f} s", f"{plan.timers / seconds:,.0f}"])
    section = Section("sleepers", "Jobs that sleep", [claims, timers])
    section.figures = {"claim/none": none * 1e6, "claim/many": many * 1e6, "ratio": many / none, "timers": seconds}
    section.notes = [
        f"A claim is a poll and the write that takes the job; medians of {plan.rounds} rounds of {plan.calls}, in "
        f"which the two files take turns. The worker of the timers runs {CONCURRENCY} jobs at once, on a file.",
    ]
    return section


def _claims(plan: Plan) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        stores = []
        for number in (0, plan.sleepers):
            db = stack.enter_context(penstock.connect(Path(name) / f"{number}.db"))
            store = JobStore(db)
            store.ensure_tables()
            with db.table(store.layout.table).batch() as batch:
                for place in range(number):
                    batch.put(plain(store, _sleeper(time.time() + DAY + place / 100)))
            stores.append(store)
        taken: list[list[float]] = [[], []]
        for _ in range(plan.rounds):
            for store, seconds in zip(stores, taken, strict=True):
                seconds.append(_claim(store, plan.calls))
    return statistics.median(taken[0]), statistics.median(taken[1])


def _claim(store: JobStore, calls: int) -> float:
    store.create_all([NewJob(TASK, {}) for _ in range(calls)])
    seconds = []
    for _ in range(calls):
        began = time.thread_time()
        (first, *_) = store.claimable("default", 1).jobs
        claimed = store.claim(first, "bench", 60)
        seconds.append(time.thread_time() - began)
        assert claimed is not None
        store.complete(claimed)
    return statistics.median(seconds)


def _sleeper(until: float) -> Job:
    at = time.time()
    return Job(
        id=new_id(until), task=TASK, state=State.QUEUED, created_at=at, updated_at=at, run_at=until,
        expires_at=int(until + 1e7), token=1, attempt=1, version=3, started_at=at,
    )  # fmt: skip


class _Later:
    """The machine's clock, an hour ahead: nobody wants to wait for the timers."""

    def now(self) -> float:
        return time.time() + HOUR


def _timers(plan: Plan) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, penstock.App(Path(name) / "jobs.db") as app:
        due = datetime.fromtimestamp(time.time() + HOUR, UTC)

        @app.task(TASK)
        def nap(ctx: penstock.JobContext) -> None:
            ctx.sleep_until(due)

        nap.enqueue_many([{}] * plan.timers)
        asleep = penstock.Worker(app, burst=True, concurrency=CONCURRENCY).run()
        assert asleep.suspended == plan.timers, asleep
        app.use(app.store.db, clock=_Later())
        began = time.monotonic()
        woken = penstock.Worker(app, burst=True, concurrency=CONCURRENCY).run()
        assert woken.completed == plan.timers, woken
        return time.monotonic() - began


if __name__ == "__main__":
    alone("sleepers")
