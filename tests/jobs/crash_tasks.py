"""The app of test_crashes.py: every lease is an hour long, so whoever takes a job over does not wait for it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import penstock

app = penstock.App()
TRACE = Path(os.environ.get("CRASH_TRACE", "trace"))
HOUR = 3_600


@app.task(lease_seconds=HOUR)
def good(ctx: penstock.JobContext) -> int:
    """Its first attempt waits to be killed."""
    trace(f"began {ctx.id}")
    while ctx.attempt == 1:
        time.sleep(0.01)
    time.sleep(0.05)
    trace(f"ended {ctx.id}")
    return ctx.attempt


@app.task(lease_seconds=HOUR)
async def good_async(ctx: penstock.AsyncJobContext) -> int:
    trace(f"began {ctx.id}")
    while ctx.attempt == 1:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    trace(f"ended {ctx.id}")
    return ctx.attempt


@app.task(lease_seconds=HOUR)
def deadly(ctx: penstock.JobContext, beside: int) -> None:
    trace(f"began {ctx.id}")
    while ctx.attempt == 1 and len(traced()) <= beside:
        time.sleep(0.01)
    os._exit(9)


@app.task(lease_seconds=HOUR, max_crashes=1)
def progressing(ctx: penstock.JobContext, steps: int) -> int:
    """Each attempt does one step more, and then kills its worker."""
    done: int = ctx.resume("done", 0)
    if done < steps:
        ctx.checkpoint("done", done + 1)
        os._exit(9)
    return done


@app.task(lease_seconds=HOUR)
def stepping(ctx: penstock.JobContext) -> int:
    """Step after step, each with a checkpoint, until it is told to end."""
    done: int = ctx.resume("done", 0)
    while "end" not in traced():
        time.sleep(0.02)
        trace(f"step {ctx.id} {done} {ctx.attempt}")
        ctx.progress(0)
        done += 1
        ctx.checkpoint("done", done)
    return done


@app.task(lease_seconds=HOUR)
def noted(ctx: penstock.JobContext) -> None:
    trace(f"began {ctx.id}")


@app.task(lease_seconds=HOUR)
def quick(ctx: penstock.JobContext) -> int:
    return ctx.attempt


@app.task(lease_seconds=HOUR)
def forking(ctx: penstock.JobContext) -> int:
    """A child that has copies of all that its parent has open lives on after the parent was killed."""
    if ctx.attempt == 1:
        child = os.fork()
        if not child:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        trace(f"child {child}")
        time.sleep(HOUR)
    return ctx.attempt


def trace(line: str) -> None:
    with TRACE.open("a") as file:
        file.write(line + "\n")


def traced() -> list[str]:
    return TRACE.read_text().splitlines() if TRACE.exists() else []
