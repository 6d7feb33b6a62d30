"""The app that the soak hurts: tasks of every shape, whose bodies write down what they know (`trust.ledger`).

Its database is PENSTOCK_DB, its ledger SOAK_LEDGER. Leases are short, so that a dead worker is noticed at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import penstock
from penstock.pipelines import Pipeline, PipelineFile, StepContext
from penstock.retry import RetryPolicy
from trust.ledger import Ledger

P = ParamSpec("P")
R = TypeVar("R")

LEASE_SECONDS: Final = 1.0
STEPS: Final = 4
_AGAIN: Final = RetryPolicy(1_000, base_seconds=0.02, cap_seconds=0.5)
"""Whatever the database does to an attempt, another one follows."""

app = penstock.App()
ledger = Ledger(Path(os.environ["SOAK_LEDGER"]))
_worker = f"pid {os.getpid()}"


def noted(body: Callable[Concatenate[penstock.JobContext, P], R]) -> Callable[Concatenate[penstock.JobContext, P], R]:
    """Notes that a body begins, and what it is about to return."""

    @wraps(body)
    def noting(ctx: penstock.JobContext, *args: P.args, **kwargs: P.kwargs) -> R:
        ledger.note("began", job=ctx.id, attempt=ctx.attempt, worker=_worker)
        value = body(ctx, *args, **kwargs)
        ledger.note("ended", job=ctx.id, attempt=ctx.attempt, value=value)
        return value

    return noting  # type: ignore[return-value]  # wraps names the run, which is passed by its place


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def steps(ctx: penstock.JobContext, number: int, seconds: float) -> list[int]:
    """Each step is done once and kept."""
    return [_step(ctx, step, number * 10 + step, seconds) for step in range(STEPS)]


def _step(ctx: penstock.JobContext, index: int, value: int, seconds: float) -> int:
    name, done = f"step{index}", False

    def body() -> int:
        nonlocal done
        done = True
        ledger.note("did", job=ctx.id, step=name, index=index, attempt=ctx.attempt)
        time.sleep(seconds)
        return value

    kept: int = ctx.step(name, body)
    if done:
        ledger.note("kept", job=ctx.id, step=name, attempt=ctx.attempt, value=value)
    return kept


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def counter(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """One checkpoint that grows, and progress with it."""
    done: int = ctx.resume("done", 0)
    ledger.note("resumed", job=ctx.id, name="done", value=done, attempt=ctx.attempt)
    for reached in range(done + 1, STEPS + 1):
        time.sleep(seconds)
        ctx.checkpoint("done", reached, progress=100 * reached / STEPS)
        ledger.note("checkpoint", job=ctx.id, name="done", value=reached, attempt=ctx.attempt)
    return number


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def talker(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Words. A report that the database would not take is lost, and nobody says that it is there."""
    for line in range(STEPS):
        time.sleep(seconds)
        text, lost = f"line {line} of {number}", ctx.lost_reports
        ctx.log(text)
        if ctx.lost_reports == lost:
            ledger.note("entry", job=ctx.id, number=ctx.job.entries, text=text, attempt=ctx.attempt)
    return number


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def plain(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Nothing but time: for parts, limits and unique keys."""
    time.sleep(seconds)
    return number


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def gather(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """What the jobs before it have returned."""
    results = ctx.results
    ledger.note("results", job=ctx.id, parents=results)
    return sum(results.values())


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def shaky(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Raises in its first attempts."""
    if ctx.attempt <= number % 3:
        raise ConnectionError(f"attempt {ctx.attempt}")
    return number


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def hopeless(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    raise ValueError(f"{number} cannot be done")


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def endless(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Until it is cancelled."""
    while True:
        time.sleep(0.05)
        ctx.progress(1)


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN, cron="* * * * *")
@noted
def tick(ctx: penstock.JobContext) -> str:
    return ctx.id


# ── a pipeline ───────────────────────────────────────────────────────────────────────────────────────

words = Pipeline("words", inputs=("text", "seconds"))


def _did(context: StepContext, step: str, index: int, seconds: float) -> None:
    ledger.note("did", job=context.job_id, step=step, index=index, attempt=context.attempt)
    time.sleep(seconds)


@words.step(inputs=("text", "seconds"), outputs=("listed",))
def split(context: StepContext, text: str, seconds: float) -> PipelineFile:
    _did(context, "split", 0, seconds)
    return context.save("words.txt", "\n".join(text.split()).encode())


@words.step(inputs=("listed", "seconds"), outputs=("lengths",))
def measure(context: StepContext, listed: PipelineFile, seconds: float) -> list[int]:
    _did(context, "measure", 1, seconds)
    return [len(word) for word in listed.read().decode().splitlines()]


@words.step(inputs=("lengths", "seconds"), outputs=("total",))
def add(context: StepContext, lengths: list[int], seconds: float) -> int:
    _did(context, "add", 2, seconds)
    return sum(lengths)


@app.task(lease_seconds=LEASE_SECONDS, retries=_AGAIN)
@noted
def pipeline(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    total: int = words.run_in(ctx, inputs={"text": "so much depends upon " * number, "seconds": seconds})["total"]
    return total


# ── records ──────────────────────────────────────────────────────────────────────────────────────────

RECORDS: Final = "soak-records"
RECORDS_TABLE: Final[dict[str, Any]] = {
    "TableName": RECORDS,
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "done", "AttributeType": "N"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-done",
            "KeySchema": [{"AttributeName": "done", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


def handle(record: dict[str, Any]) -> dict[str, Any]:
    """A record's function: the value tells which run of it was stored."""
    time.sleep(0.01)
    value = f"{record['id']} by {_worker} at {time.monotonic_ns()}"
    ledger.note("ran", record=record["id"], value=value)
    return {"value": value}
