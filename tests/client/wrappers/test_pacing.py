"""Pacing (pacing.py, 1-3): a manual clock, and a table that gives so many units a second."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.wrappers.pacing import Outcome, Pacer, Throttle
from penstock.clock import ManualClock
from penstock.errors import ProvisionedThroughputExceededException, TransactionCanceledException, ValidationException
from penstock.wire.throttles import throttled

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"
PUT = {"TableName": "jobs", "Item": {}}


def paced(units_per_second: float | None = None) -> tuple[Pacer, ManualClock]:
    clock = ManualClock()
    return Pacer(units_per_second, clock=clock, sleep=clock.advance), clock


def fine(units: float) -> Outcome:
    return Outcome("jobs", "Write", units)


def throttle(index: str | None = None, *, hot_key: bool = False) -> Outcome:
    return Outcome("jobs", "Write", 0.0, (Throttle("jobs", index, "Write", hot_key),))


def test_a_fixed_rate_is_kept():
    pacer, clock = paced(100)
    start = clock.now()
    for _ in range(200):
        pacer.before(10, "jobs")
    assert clock.now() - start == pytest.approx(2_000 / 100 - 1, rel=0.01)  # a second's worth was saved up


def test_one_large_call_is_paid_for_by_the_next():
    pacer, _ = paced(10)
    assert pacer.before(10, "jobs") == 0
    assert pacer.before(50, "jobs") == pytest.approx(5)
    assert pacer.before(10, "jobs") == pytest.approx(1)


def test_tables_and_kinds_do_not_wait_for_each_other():
    pacer, _ = paced(10)
    pacer.before(10, "jobs")
    assert pacer.before(10, "others") == 0
    assert pacer.before(10, "jobs", "Read") == 0
    assert pacer.before(10, "jobs") > 0


def test_nothing_waits_before_the_first_throttle():
    pacer, _ = paced()
    assert [pacer.before(1_000, "jobs") for _ in range(10)] == [0] * 10
    assert pacer.rates() == {"jobs Write": None}


def run(pacer: Pacer, clock: ManualClock, capacity: float, seconds: float, call: float = 10.0) -> tuple[float, int]:
    """A table that gives `capacity` units a second: the units that went through a second, and the throttles."""
    start, done, throttles, left, filled_at = clock.now(), 0.0, 0, capacity, clock.now()
    while clock.now() - start < seconds:
        pacer.before(call, "jobs")
        clock.advance(0.001)
        left = min(capacity, left + (clock.now() - filled_at) * capacity)
        filled_at = clock.now()
        if left >= call:
            left -= call
            done += call
            pacer.after(fine(call))
        else:
            throttles += 1
            pacer.after(throttle())
    return done / seconds, throttles


@pytest.mark.parametrize("capacity", [50, 500, 4_000])
def test_an_adaptive_pace_comes_near_the_tables_capacity_with_few_throttles(capacity):
    pacer, clock = paced()
    run(pacer, clock, capacity, 60)
    rate, throttles = run(pacer, clock, capacity, 120)
    assert 0.7 * capacity < rate <= 1.01 * capacity
    assert throttles < 60


def test_throttles_of_calls_in_flight_together_count_once():
    pacer, clock = paced()
    for _ in range(100):
        clock.advance(0.01)
        pacer.after(fine(10))
    pacer.after(throttle())
    rate = pacer.rates()["jobs Write"]
    for _ in range(20):
        pacer.after(throttle())
    assert pacer.rates()["jobs Write"] == rate
    clock.advance(1)
    pacer.after(throttle())
    assert pacer.rates()["jobs Write"] < rate


def test_an_indexs_throttle_paces_the_tables_writes_by_a_bucket_of_its_own():
    pacer, clock = paced()
    for _ in range(100):
        clock.advance(0.01)
        pacer.after(fine(10))
    pacer.after(throttle("by-date"))
    rates = pacer.rates()
    assert rates["jobs Write"] is None
    assert rates["jobs/by-date Write"] > 1
    assert pacer.before(10_000, "jobs") > 1


def test_a_hot_key_slows_the_table_less():
    slow, hot = paced(), paced()
    for (pacer, clock), outcome in ((slow, throttle()), (hot, throttle(hot_key=True))):
        for _ in range(100):
            clock.advance(0.01)
            pacer.after(fine(10))
        pacer.after(outcome)
    assert hot[0].rates()["jobs Write"] > slow[0].rates()["jobs Write"]


def test_a_first_guess_that_was_far_too_low_is_made_good():
    pacer, clock = paced()
    pacer.after(throttle())
    run(pacer, clock, 4_000, 90)
    rate, _ = run(pacer, clock, 4_000, 60)
    assert rate > 2_800


def test_nothing_is_paced_to_a_standstill():
    pacer, clock = paced()
    for _ in range(100):
        clock.advance(1)
        pacer.after(throttle())
    assert pacer.rates()["jobs Write"] >= 1


@pytest.mark.parametrize(
    ("error", "throttles"),
    [
        (ValidationException("no"), ()),
        (ProvisionedThroughputExceededException("slower"), (Throttle("jobs", None, "Write"),)),
        (
            throttled("Write", "ProvisionedThroughput", ARN, provisioned=True),
            (Throttle("jobs", None, "Write"),),
        ),
        (
            throttled("Write", "KeyRangeThroughput", f"{ARN}/index/by-date", provisioned=False),
            (Throttle("jobs", "by-date", "Write", hot_key=True),),
        ),
        (
            TransactionCanceledException("no", CancellationReasons=[{"Code": "None"}, {"Code": "ThrottlingError"}]),
            (Throttle("jobs", None, "Write"),),
        ),
        (TransactionCanceledException("no", CancellationReasons=[{"Code": "ConditionalCheckFailed"}]), ()),
    ],
)
def test_an_outcome_reads_codes_and_reasons(error, throttles):
    assert Outcome.of("PutItem", PUT, error) == Outcome("jobs", "Write", 0.0, throttles)


def test_an_outcome_reads_the_answer():
    assert Outcome.of("PutItem", PUT, {}, units=3).units == 3
    consumed = [{"TableName": "jobs", "CapacityUnits": 7.0}]
    answer: dict[str, Any] = {"ConsumedCapacity": consumed, "UnprocessedItems": {"jobs": [{}]}}
    outcome = Outcome.of("BatchWriteItem", {"RequestItems": {"jobs": []}}, answer)
    assert outcome == Outcome("jobs", "Write", 7.0, (Throttle("jobs", None, "Write"),))


def test_an_estimate_counts_only_what_was_done():
    def asked(size: int) -> dict[str, Any]:
        return {"jobs": [{"DeleteRequest": {"Key": {}}}] * size}

    outcome = Outcome.of("BatchWriteItem", {"RequestItems": asked(20)}, {"UnprocessedItems": asked(15)}, units=40)
    assert outcome.units == 10
    keys = {"jobs": {"Keys": [{}] * 10}}
    answer = {"UnprocessedKeys": {"jobs": {"Keys": [{}] * 5}}}
    assert Outcome.of("BatchGetItem", {"RequestItems": keys}, answer, units=10).units == 5


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(ValueError, match="more than 0"):
        Pacer(0)


def test_asyncio_waits_too():
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    pacer, _ = paced(10)

    async def run() -> None:
        await pacer.before_async(10, "jobs")
        await pacer.before_async(10, "jobs", sleep=sleep)

    asyncio.run(run())
    assert waits == [1.0]
