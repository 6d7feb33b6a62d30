"""The app that the soak hurts: tasks of every shape, whose bodies write down what they know (`trust.ledger`).

Its database is PENSTOCK_DB, its ledger SOAK_LEDGER. Leases are short, so that a dead worker is noticed at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import penstock
from penstock.jobs.model.workflow import Child
from penstock.pipelines import Pipeline, PipelineFile, StepContext
from penstock.retry import RetryPolicy
from trust.ledger import POISONED, Ledger

P = ParamSpec("P")
R = TypeVar("R")

LEASE_SECONDS: Final = float(os.environ.get("SOAK_LEASE", "1"))
STEPS: Final = 4
_AGAIN: Final = RetryPolicy(3, base_seconds=0.02, cap_seconds=0.5)
"""Only for what tasks raise themselves: whatever the database does to an attempt uses up no retry."""

app = penstock.App()
ledger = Ledger(Path(os.environ["SOAK_LEDGER"]))
_worker = os.environ.get("SOAK_WORKER") or f"pid {os.getpid()}"


@contextmanager
def _noting(ctx: penstock.JobContext | penstock.AsyncJobContext) -> Iterator[Callable[[R], R]]:
    """Notes that a body begins, and what it has raised; what it gives is called with what it is about to return.

    A suspension is neither: the job's own events tell of it.
    """

    def returns(value: R) -> R:
        ledger.note("ended", job=ctx.id, attempt=ctx.attempt, value=value)
        return value

    ledger.note("began", job=ctx.id, attempt=ctx.attempt, worker=_worker, queue=ctx.job.queue)
    try:
        yield returns
    except (ConnectionError, ValueError) as error:
        ledger.note("raised", job=ctx.id, attempt=ctx.attempt, kind=type(error).__name__)
        raise


def noted(body: Callable[Concatenate[penstock.JobContext, P], R]) -> Callable[Concatenate[penstock.JobContext, P], R]:
    @wraps(body)
    def noting(ctx: penstock.JobContext, *args: P.args, **kwargs: P.kwargs) -> R:
        with _noting(ctx) as returns:
            return returns(body(ctx, *args, **kwargs))

    return noting  # type: ignore[return-value]  # wraps names the run, which is passed by its place


def noted_async(
    body: Callable[Concatenate[penstock.AsyncJobContext, P], Awaitable[R]],
) -> Callable[Concatenate[penstock.AsyncJobContext, P], Awaitable[R]]:
    @wraps(body)
    async def noting(ctx: penstock.AsyncJobContext, *args: P.args, **kwargs: P.kwargs) -> R:
        with _noting(ctx) as returns:
            return returns(await body(ctx, *args, **kwargs))

    return noting  # type: ignore[return-value]


@app.task(lease_seconds=LEASE_SECONDS)
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


@app.task(lease_seconds=LEASE_SECONDS)
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


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def talker(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Words."""
    for line in range(STEPS):
        time.sleep(seconds)
        text = f"line {line} of {number}"
        ctx.log(text)
        ledger.note("entry", job=ctx.id, number=ctx.job.entries, text=text, attempt=ctx.attempt)
    return number


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def plain(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Nothing but time: for parts, limits and unique keys."""
    time.sleep(seconds)
    return number


@app.task(lease_seconds=LEASE_SECONDS)
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


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def endless(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Until it is cancelled."""
    while True:
        time.sleep(0.05)
        ctx.progress(1)


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def second_chance(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Fails for good, until an operator retries it."""
    if ctx.resume("tried", 0):
        return number
    time.sleep(seconds)
    ctx.checkpoint("tried", 1)
    raise ValueError(f"{number} cannot be done yet")


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def after_some(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Waits for others, by one of the policies."""
    return number


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def rare(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """A task that most workers do not have."""
    return number


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def poison(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Ends its worker, whatever else runs there."""
    time.sleep(seconds)
    ledger.note("hurt", how="poison", job=ctx.id, worker=_worker)
    os._exit(POISONED)


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def requeuer(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Would be requeued for ever."""
    ctx.requeue("once more")
    return number


@app.task(lease_seconds=LEASE_SECONDS, retries=RetryPolicy(1, base_seconds=0.02), time_limit_seconds=0.5)
@noted
def overrunner(ctx: penstock.JobContext, number: int, seconds: float) -> int:
    """Overruns its time limit in every attempt, with reports and without a checkpoint."""
    while True:
        time.sleep(0.05)
        ctx.progress(1)


@app.task(lease_seconds=LEASE_SECONDS, cron="* * * * *", cron_overlap=True)
@noted
def tick(ctx: penstock.JobContext) -> str:
    return ctx.id


# ── workflows ────────────────────────────────────────────────────────────────────────────────────────

EVENT: Final = "go"
_NAP_SECONDS: Final = 10
"""Times the seconds that a body takes, which are short."""


def _waits(ctx: penstock.JobContext | penstock.AsyncJobContext, key: str, **facts: Any) -> None:
    ledger.note("waits", job=ctx.id, key=key, attempt=ctx.attempt, **facts)


def _passed(ctx: penstock.JobContext | penstock.AsyncJobContext, key: str, value: R, **facts: Any) -> R:
    ledger.note("passed", job=ctx.id, key=key, attempt=ctx.attempt, value=value, **facts)
    return value


def _note_child(parent: str, place: int, child: str, task: str, **facts: Any) -> None:
    ledger.note("enqueued", key=f"{parent}/{place}", job=child, task=task, parent=parent, **facts)


def _child_shape(place: int, number: int) -> tuple[str, dict[str, Any]]:
    """Some fail: their parents are told so."""
    if place == 0 and number % 4 == 0:
        return "hopeless", {"ends": "failed", "fails": ["ValueError"], "failures": 1}
    return "plain", {"ends": "completed"}


def _outcomes(results: list[Any]) -> list[Any]:
    return ["failed" if isinstance(one, penstock.JobFailed) else one for one in results]


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def order(ctx: penstock.JobContext, number: int, seconds: float, events: int) -> list[Any]:
    """Sleeps, waits for so many events, and for children that it makes one by one."""
    nap = _NAP_SECONDS * seconds
    first = _step(ctx, 0, number * 10, seconds)
    _waits(ctx, "sleep", seconds=nap)
    ctx.sleep(nap)
    _passed(ctx, "sleep", None)
    taken = []
    for place in range(events):
        _waits(ctx, f"event {place}", event=EVENT)
        taken.append(_passed(ctx, f"event {place}", ctx.wait_for(EVENT), event=EVENT))
    children: list[Child] = []
    for place in range(2):
        task, facts = _child_shape(place, number)
        children.append(ctx.enqueue(app.tasks[task], number=number + place, seconds=seconds))
        _note_child(ctx.id, place, children[-1].id, task, **facts)
    _waits(ctx, "gather")
    results = _outcomes(ctx.gather(children, return_exceptions=True))
    _passed(ctx, "gather", results, children=[child.id for child in children])
    return [first, taken, results, _step(ctx, 1, number * 10 + 1, seconds)]


@app.task(lease_seconds=LEASE_SECONDS)
@noted_async
async def night(ctx: penstock.AsyncJobContext, number: int, seconds: float) -> list[Any]:
    """The same of an async task: children that a generator makes together, and an event that may come too late."""
    nap = _NAP_SECONDS * seconds
    ids: list[str] = []

    def children() -> Iterator[Any]:
        for place in range(3):
            child = ctx.enqueue(app.tasks[_child_shape(place, number)[0]], number=number + place, seconds=seconds)
            ids.append(child.id)
            yield child

    _waits(ctx, "gather")
    results = _outcomes(await ctx.gather(children(), return_exceptions=True))
    for place, child_id in enumerate(ids):
        task, facts = _child_shape(place, number)
        _note_child(ctx.id, place, child_id, task, **facts)
    _passed(ctx, "gather", results, children=ids)
    timeout = nap if number % 2 else 0.0  # what has come by then counts, also where there is no time
    _waits(ctx, "event 0", event=EVENT, seconds=timeout)
    answer = _passed(ctx, "event 0", await ctx.wait_for(EVENT, timeout=timeout), event=EVENT)
    _waits(ctx, "sleep", seconds=nap)
    await ctx.sleep(nap)
    _passed(ctx, "sleep", None)
    return [results, answer]


@app.task(lease_seconds=LEASE_SECONDS)
@noted
def abandoned(ctx: penstock.JobContext, number: int, seconds: float) -> None:
    """Waits for what never comes, with children that never end, until somebody cancels all of them."""
    for place in range(2):
        child = ctx.enqueue(endless, number=number, seconds=seconds)
        _note_child(ctx.id, place, child.id, "endless", ends="cancelled")
    _waits(ctx, "event 0", event="never")
    ctx.wait_for("never")


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


@app.task(lease_seconds=LEASE_SECONDS)
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
