"""A user's module: it must pass mypy --strict, and do what it says."""

from __future__ import annotations

import penstock
from penstock.jobs.worker.worker import Worker

app = penstock.App(":memory:")


@app.task(retries=2, lease_seconds=30)
def square(run: penstock.Run, number: int, *, note: str = "") -> int:
    run.progress(50, step="squaring")
    return run.step("squared", lambda: number * number)


@app.task()
async def total(run: penstock.AsyncRun, start: int = 0) -> int:
    await run.log("adding up")
    results = await run.results()
    return start + sum(int(value) for value in results.values())


def main() -> int:
    jobs: list[penstock.Job] = [app.enqueue(square, number=number, note="x") for number in range(4)]
    last = app.enqueue(total.options(after=[job.id for job in jobs], priority=9), start=1)
    Worker(app, burst=True, concurrency=2).run()
    found: int = app.result(last.id, timeout_seconds=30)
    return found
