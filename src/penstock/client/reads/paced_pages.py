"""Reading page after page at a pace.

1. What a page will cost is not known before it has come: the last one's units are asked of the pace for the next.
2. A throttled page is asked for again, when the pace, which has heard of the throttle, lets it go: `_TURNS` times at
   most. Then its error is raised, as every other is at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.client.batches.batches import Pace
from penstock.client.wrappers.pacing import Outcome
from penstock.errors import PenstockError

Request = dict[str, Any]
Answer = dict[str, Any]
Execute = Callable[[str, Request], Answer]
AsyncExecute = Callable[[str, Request], Awaitable[Answer]]

_TURNS = 20


class _Gauge:
    """What the pages of one table cost; several threads may read them."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.units = 1.0

    def learn(self, operation: str, request: Request, result: Answer | PenstockError) -> Outcome:
        outcome = Outcome.of(operation, request, result, self.units)
        self.pace.after(outcome)
        self.units = outcome.units or self.units
        return outcome


class _Page:
    """One page on its way: what is asked, and how often it may still be."""

    def __init__(self, gauge: _Gauge, operation: str, request: Request) -> None:
        self.operation = operation
        self.asked = {**request, "ReturnConsumedCapacity": "TOTAL"}
        self._gauge = gauge
        self._turns = _TURNS

    def came(self, answer: Answer) -> Answer:
        self._gauge.learn(self.operation, self.asked, answer)
        return answer

    def failed(self, error: PenstockError) -> None:
        """Raises the error, unless the page may be asked for again."""
        self._turns -= 1
        if not self._gauge.learn(self.operation, self.asked, error).throttles or not self._turns:
            raise error


def paced(execute: Execute, pace: Pace | None, table: str) -> Execute:
    """`execute` for the pages of a table, at this pace."""
    if pace is None:
        return execute
    gauge = _Gauge(pace)

    def send(operation: str, request: Request) -> Answer:
        page = _Page(gauge, operation, request)
        while True:
            pace.before(gauge.units, table, "Read")
            try:
                return page.came(execute(operation, page.asked))
            except PenstockError as error:
                page.failed(error)

    return send


def paced_async(execute: AsyncExecute, pace: Pace | None, table: str) -> AsyncExecute:
    """The same for asyncio."""
    if pace is None:
        return execute
    gauge = _Gauge(pace)

    async def send(operation: str, request: Request) -> Answer:
        page = _Page(gauge, operation, request)
        while True:
            await pace.before_async(gauge.units, table, "Read")
            try:
                return page.came(await execute(operation, page.asked))
            except PenstockError as error:
                page.failed(error)

    return send
