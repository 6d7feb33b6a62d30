"""A user's module: it must pass mypy --strict, and do what it says."""

from __future__ import annotations

import penstock
from penstock.jobs.worker.worker import Worker

app = penstock.App(":memory:")


@app.task(retries=2, lease_seconds=30)
def square(ctx: penstock.JobContext, number: int, *, note: str = "") -> int:
    ctx.progress(50, step="squaring")
    return ctx.step("squared", lambda: number * number)


@app.task()
async def total(ctx: penstock.AsyncJobContext, start: int = 0) -> int:
    await ctx.log("adding up")
    results = await ctx.results()
    return start + sum(int(value) for value in results.values())


@app.task()
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task()
async def add_async(a: int) -> int:
    return a


def main() -> int:
    add.enqueue(1, b=2)
    add_async.enqueue(a=1)
    jobs: list[penstock.Job] = [square.enqueue(number=number, note="x") for number in range(4)]
    with app.store.db.transaction() as t:
        added: penstock.Job = t.enqueue(add, 1, b=2)
        t.enqueue(square.options(priority=9), number=2, note="x")
        t.enqueue(add_async, a=1)
    assert added.is_new
    last = total.options(depends_on=[job.id for job in jobs], priority=9).enqueue(start=1)
    Worker(app, burst=True, concurrency=2).run()
    return total.result(last, timeout_seconds=30)
