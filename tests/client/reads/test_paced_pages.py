"""Scans at a pace (paced_pages.py, 1-2): a page waits for the units of the one before, a throttled one comes again."""

from __future__ import annotations

import asyncio
import threading

import pytest
from expenses import EXPENSES

import penstock
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import ManualClock
from penstock.errors import InternalServerError, ProvisionedThroughputExceededException

COUNT = 60


class Diary:
    """A pace that never waits, and writes down what it is told."""

    def __init__(self):
        self.asked, self.heard = [], []

    def before(self, units, table, kind):
        self.asked.append((units, table, kind))

    async def before_async(self, units, table, kind):
        self.before(units, table, kind)

    def after(self, outcome):
        self.heard.append(outcome)

    @property
    def throttles(self):
        return sum(len(outcome.throttles) for outcome in self.heard)


class Failing:
    """A transport whose every `every`-th scan fails."""

    def __init__(self, inner, error, every):
        self.name, self.inner = inner.name, inner
        self._error, self._every = error, every
        self._lock = threading.Lock()
        self.calls = 0

    def execute(self, operation, request):
        with self._lock:
            self.calls += 1
            fails = self.calls % self._every == 0
        if fails:
            raise self._error
        return self.inner.execute(operation, request)

    def close(self):
        self.inner.close()


class OnALoop:
    """The same transport for asyncio."""

    def __init__(self, inner):
        self.name, self._inner = inner.name, inner

    async def execute(self, operation, request):
        await asyncio.sleep(0)
        return self._inner.execute(operation, request)

    async def close(self):
        self._inner.close()


@pytest.fixture
def filled():
    with penstock.connect() as db:
        db.execute("CreateTable", EXPENSES)
        table = db.table("expenses")
        table.batch_write({"company": f"c{n}", "number": n, "text": "x" * 4_000} for n in range(COUNT))
        yield table


def scan_of(transport, way, **options):
    """The numbers of the items that a scan gives: plain, by threads, or by tasks."""
    if way == "tasks":

        async def gather():
            scan = penstock.AsyncDatabase(OnALoop(transport)).table("expenses").parallel_scan(**options)
            return [item["number"] async for item in scan]

        return sorted(asyncio.run(gather()))
    table = penstock.Database(transport).table("expenses")
    scan = table.scan(**options) if way == "plain" else table.parallel_scan(**options)
    return sorted(item["number"] for item in scan)


WAYS = pytest.mark.parametrize("way", ["plain", "threads", "tasks"])


@WAYS
def test_each_page_waits_for_what_the_last_one_cost(filled, way):
    pace = Diary()
    assert scan_of(filled._database.transport, way, page_size=5, pace=pace) == list(range(COUNT))
    assert len(pace.asked) == len(pace.heard) >= COUNT // 5
    assert {(table, kind) for _, table, kind in pace.asked} == {("expenses", "Read")}
    assert sum(outcome.units for outcome in pace.heard) == pytest.approx(COUNT * 0.5, rel=0.2)
    known = {1.0, *(outcome.units for outcome in pace.heard)}
    assert {units for units, _, _ in pace.asked} <= known


def test_a_fixed_rate_is_kept(filled):
    clock = ManualClock()
    started = clock.now()
    pace = Pacer(2, clock=clock, sleep=clock.advance)
    assert scan_of(filled._database.transport, "plain", page_size=4, pace=pace) == list(range(COUNT))
    # 15 pages of about 2.5 units at 2 a second, of which the first has saved up.
    assert clock.now() - started > 12


@WAYS
def test_a_throttled_page_is_asked_for_again_and_the_pace_hears_of_it(filled, way):
    pace = Diary()
    throttled = ProvisionedThroughputExceededException("slow down")
    transport = Failing(filled._database.transport, throttled, every=3)
    assert scan_of(transport, way, page_size=5, pace=pace) == list(range(COUNT))
    assert pace.throttles == transport.calls // 3
    assert len(pace.asked) == transport.calls


@WAYS
def test_a_page_that_stays_throttled_ends_the_scan(filled, way):
    pace = Diary()
    transport = Failing(filled._database.transport, ProvisionedThroughputExceededException("slow down"), every=1)
    with pytest.raises(ProvisionedThroughputExceededException):
        scan_of(transport, way, pace=pace, **({} if way == "plain" else {"segments": 1}))
    assert transport.calls == pace.throttles == 20


@WAYS
def test_other_errors_are_raised_at_once(filled, way):
    transport = Failing(filled._database.transport, InternalServerError("broken"), every=1)
    with pytest.raises(InternalServerError, match="broken"):
        scan_of(transport, way, pace=Diary(), **({} if way == "plain" else {"segments": 1}))
    assert transport.calls == 1


def test_a_paced_scan_is_resumed_by_one_without_a_pace(filled):
    scan = filled.scan(page_size=7, pace=Diary())
    first = [next(scan) for _ in range(10)]
    rest = filled.scan(token=scan.token)
    assert sorted(item["number"] for item in [*first, *rest]) == list(range(COUNT))
