"""Crash at every step: one call, which finds what a crash between two writes would break (crashes.py)."""

from __future__ import annotations

import pytest

import penstock
from penstock.testing import EndedOtherwise, crash_at_every_step

app = penstock.App("http://127.0.0.1:1")
charges: list[str] = []


@app.task(lease_seconds=30)
def order(ctx: penstock.JobContext, order_id: str) -> str:
    payment = ctx.step("charge", lambda: charge(order_id))
    ctx.progress(50, step="shipping")
    ship.options(idempotency_key=f"ship {order_id}").enqueue(order_id=order_id)
    return f"shipped {payment}"


@app.task()
async def order_async(ctx: penstock.AsyncJobContext) -> int:
    await ctx.progress(50)
    return await ctx.step("one", one)


async def one() -> int:
    return 1


@app.task()
def ship(order_id: str) -> None: ...


@app.task()
def child(number: int) -> int:
    return number


@app.task()
def family(ctx: penstock.JobContext) -> list[int]:
    return ctx.gather(ctx.enqueue(child, number=number) for number in range(3))


@app.task()
async def family_async(ctx: penstock.AsyncJobContext) -> list[int]:
    return await ctx.gather(ctx.enqueue(child, number=number) for number in range(3))


@app.task()
def counts_attempts(ctx: penstock.JobContext) -> int:
    ctx.progress(10)
    return ctx.attempt


@app.task()
def gives_up(ctx: penstock.JobContext) -> None:
    ctx.progress(10)
    raise ValueError("no")


def charge(order_id: str) -> str:
    if order_id not in charges:  # as payment services do it: by an idempotency key
        charges.append(order_id)
    return f"payment of {order_id}"


def test_a_job_that_survives_every_crash_is_reported() -> None:
    def check(job: penstock.Job) -> None:
        assert charges == ["o1"]

    report = crash_at_every_step(order, {"order_id": "o1"}, before_each=charges.clear, check=check)
    assert report.result == "shipped payment of o1"
    assert any("checkpoint#charge" in write for write in report.writes)
    assert report.writes[0].endswith("processing")
    assert "order was killed after each of" in str(report)


def test_an_async_job_is_killed_too() -> None:
    assert crash_at_every_step(order_async).result == 1


@pytest.mark.parametrize("task", ["family", "family_async"])
def test_a_workflow_survives_a_crash_between_its_suspension_and_the_registration(task: str) -> None:
    report = crash_at_every_step(app.tasks[task])
    assert report.result == [0, 1, 2]
    assert any("operation#gather:1" in write for write in report.writes)


def test_a_job_that_fails_must_fail_the_same() -> None:
    assert crash_at_every_step(gives_up).job.state is penstock.State.FAILED


def test_a_job_that_ends_otherwise_is_told_with_the_write() -> None:
    with pytest.raises(
        EndedOtherwise, match=r"Killed after write 1 \(.*\): .* result 2, and undisturbed .* 1"
    ) as caught:
        crash_at_every_step(counts_attempts)
    assert caught.value.write == 1


def test_a_check_that_fails_is_told_with_the_write() -> None:
    runs: list[int] = []

    def check(job: penstock.Job) -> None:
        runs.append(1)
        assert len(runs) < 4, "the third crash"

    with pytest.raises(EndedOtherwise, match=r"Killed after write 3 .*the third crash"):
        crash_at_every_step(order, {"order_id": "o2"}, check=check)
