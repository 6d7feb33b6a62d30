"""The table of costs in docs/on-aws.md is what the embedded engine counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from doc_blocks import ROOT

import penstock
from penstock.client.wrappers.metering import Meter, Metering
from penstock.clock import ManualClock
from penstock.jobs.worker.worker import Worker

ROW = re.compile(r"^\| ([^|]+) \| (\d+) \|([\d ]*)\| (\d+) \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "on-aws.md").read_text()
TABLE = {what: (float(writes), float(dollars)) for what, writes, _, dollars in ROW.findall(PAGE)}


class TickingClock(ManualClock):
    """Each look at it is a millisecond later: two reports never renew a lease to the same time, however fast it is."""

    def now(self) -> float:
        self.advance(0.001)
        return super().now()


def units(task: Callable[[penstock.JobContext], object], jobs: int) -> tuple[float, float]:
    """Write units of a job, and dollars for a million of them."""
    meter = Meter()
    db = penstock.Database(Metering(penstock.connect(":memory:").transport, meter))
    with penstock.App(db, clock=TickingClock(time.time())) as app:
        made = app.task("measured")(task)
        app.store  # noqa: B018  the table is made before anything is counted
        meter.reset()
        made.enqueue_many([{}] * jobs)
        Worker(app, burst=True, concurrency=1).run()
        app.store.db.close()
    return meter.units().write_units / jobs, float(meter.report().total.cost) / jobs * 1e6


def nothing(ctx: penstock.JobContext) -> None: ...


def monthly_report(ctx: penstock.JobContext) -> dict[str, int]:
    rows = ctx.step("rows", lambda: [f"bodwassho {number}" for number in range(8)])
    for number in range(8):
        ctx.checkpoint("rendered", number, progress=100 * (number + 1) / 8)
    ctx.files.save("report.txt", "\n".join(rows).encode())
    return {"rows": 8}


@pytest.mark.parametrize(
    ("what", "task", "jobs"),
    [
        ("a job that does nothing, enqueued and run", nothing, 100),
        ("`monthly_report`: nine checkpoints and a file", monthly_report, 10),
    ],
)
def test_a_job_costs_what_the_page_says(what: str, task: Callable[[penstock.JobContext], object], jobs: int) -> None:
    assert units(task, jobs) == pytest.approx(TABLE[what], rel=0.1)


def test_a_report_costs_what_the_page_says() -> None:
    def report(ctx: penstock.JobContext) -> None:
        for number in range(100):
            ctx.progress(number)

    def keep(ctx: penstock.JobContext) -> None:
        for number in range(100):
            ctx.checkpoint("kept", number)

    idle, _ = units(nothing, 1)
    for task, what in ((report, "each `ctx.progress` or `ctx.log`"), (keep, "each `ctx.checkpoint` or `ctx.step`")):
        writes, _ = units(task, 1)
        each, most = (writes - idle) / 100, TABLE[what][0]
        assert 0.6 * most < each <= most + 0.1  # less where the lease needs no renewal with it
