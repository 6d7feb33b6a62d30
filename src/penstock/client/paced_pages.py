"""Reading page after page at a pace.

1. What a page will cost is not known before it has come: the last one's units are asked of the pace for the next.
2. A throttled page is asked for again, when the pace, which has heard of the throttle, lets it go: `_TURNS` times at
   most. Then its error is raised, as every other is at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from penstock.client.batches import Pace
from penstock.client.pacing import Outcome
from penstock.errors import PenstockError

Request = dict[str, Any]
Answer = dict[str, Any]
Execute = Callable[[str, Request], Answer]
AsyncExecute = Callable[[str, Request], Awaitable[Answer]]

_TURNS = 20


class _Gauge:
    """What the pages of one table cost; several threads may read them."""

    def __init__(self, pace: Pace, table: str) -> None:
        self.table = table
        self.units = 1.0
        self._pace = pace

    def asks(self, request: Request) -> Request:
        return {**request, "ReturnConsumedCapacity": "TOTAL"}

    def learn(self, operation: str, request: Request, result: Answer | PenstockError) -> bool:
        """Tells the pace what became of a page; whether it was throttled."""
        outcome = Outcome.of(operation, request, result, self.units)
        self._pace.after(outcome)
        self.units = outcome.units or self.units
        return bool(outcome.throttles)


def paced(execute: Execute, pace: Pace | None, table: str) -> Execute:
    """`execute` for the pages of a table, at this pace."""
    if pace is None:
        return execute
    gauge = _Gauge(pace, table)

    def page(operation: str, request: Request) -> Answer:
        asked = gauge.asks(request)
        for turn in range(1, _TURNS + 1):
            pace.before(gauge.units, table, "Read")
            try:
                answer = execute(operation, asked)
            except PenstockError as error:
                if not gauge.learn(operation, asked, error) or turn == _TURNS:
                    raise
            else:
                gauge.learn(operation, asked, answer)
                return answer
        raise AssertionError("the last turn returns or raises")

    return page


def paced_async(execute: AsyncExecute, pace: Pace | None, table: str) -> AsyncExecute:
    """The same for asyncio."""
    if pace is None:
        return execute
    gauge = _Gauge(pace, table)

    async def page(operation: str, request: Request) -> Answer:
        asked = gauge.asks(request)
        for turn in range(1, _TURNS + 1):
            await pace.before_async(gauge.units, table, "Read")
            try:
                answer = await execute(operation, asked)
            except PenstockError as error:
                if not gauge.learn(operation, asked, error) or turn == _TURNS:
                    raise
            else:
                gauge.learn(operation, asked, answer)
                return answer
        raise AssertionError("the last turn returns or raises")

    return page
