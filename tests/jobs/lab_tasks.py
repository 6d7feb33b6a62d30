"""The app that the fault lab's tests hurt: its database is PENSTOCK_DB."""

from __future__ import annotations

import os
import time
from pathlib import Path

import penstock
from penstock.retry import RetryPolicy

app = penstock.App()


@app.task(lease_seconds=1)
def count(ctx: penstock.JobContext, steps: int, seconds: float) -> list[int]:
    """Does so many steps, each once; what it did in which attempt is also written to a file beside the database."""
    done: list[int] = ctx.resume("done", [])
    for step in range(len(done), steps):
        time.sleep(seconds)
        done.append(ctx.attempt)
        ctx.checkpoint("done", done, progress=100 * len(done) / steps)
        trace(f"{ctx.id} step {step} attempt {ctx.attempt}")
    return done


@app.task(lease_seconds=3)
def steady(ctx: penstock.JobContext, steps: int, seconds: float) -> list[int]:
    """The same with a longer lease: for tests in which no worker is hurt, on machines that stand still at times."""
    return count(ctx, steps, seconds)  # type: ignore[no-any-return]


@app.task(lease_seconds=1, retries=RetryPolicy(3, base_seconds=0.01))
def shaky(ctx: penstock.JobContext, failures: int) -> int:
    if ctx.attempt <= failures:
        raise ConnectionError(f"attempt {ctx.attempt}")
    return ctx.attempt


@app.task(lease_seconds=1)
def part(ctx: penstock.JobContext, number: int) -> int:
    trace(f"{ctx.job.parent_id} part {number}")
    return number


@app.task(lease_seconds=1)
def flow(ctx: penstock.JobContext, parts: int) -> list[object]:
    """Sleeps, waits for an event, and has children."""
    ctx.sleep(0.1)
    word = ctx.wait_for("word", timeout=60)
    numbers = ctx.gather(ctx.enqueue(part, number=number) for number in range(parts))
    ctx.sleep(0.1)
    return [word, numbers]


@app.task(lease_seconds=1)
def deadly(ctx: penstock.JobContext) -> None:
    os._exit(9)


@app.task(lease_seconds=1)
def endless(ctx: penstock.JobContext) -> None:
    while True:
        time.sleep(0.02)
        ctx.progress(1)


def trace(line: str) -> None:
    path = Path(os.environ["PENSTOCK_DB"] + ".trace")
    with path.open("a") as file:
        file.write(line + "\n")


def traced() -> list[str]:
    path = Path(os.environ["PENSTOCK_DB"] + ".trace")
    return path.read_text().splitlines() if path.exists() else []
