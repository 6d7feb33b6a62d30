"""A transport around another one, for threads and for asyncio, written once.

A wrapper is a generator, `exchange`: it yields a call (operation, request) and is sent the answer, or the error is
thrown into it; it yields a number, and is resumed after so many seconds. What it returns is the answer to the caller.
`Wrapper` makes the calls and the waits of a thread, `AsyncWrapper` those of a task.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport

Inner = TypeVar("Inner", bound=Transport | AsyncTransport)
Exchange = Generator[tuple[str, Request] | float, Any, Answer]


class WrapperState(Generic[Inner]):
    """What wrappers of both kinds have: what they wrap, its name, and how they wait."""

    def __init__(self, inner: Inner, sleep: Callable[[float], Any] | None = None) -> None:
        self.inner = inner
        self.name = inner.name
        self._sleep = sleep or self._pause

    def exchange(self, operation: str, request: Request) -> Exchange:
        """One call of the caller's."""
        raise NotImplementedError

    def release(self) -> None:
        """Releases what the wrapper itself holds."""

    @staticmethod
    def _pause(seconds: float) -> Any:
        raise NotImplementedError


class Wrapper(WrapperState[Transport]):
    """For threads."""

    @staticmethod
    def _pause(seconds: float) -> None:
        time.sleep(seconds)

    def execute(self, operation: str, request: Request) -> Answer:
        exchange = self.exchange(operation, request)
        try:
            step = next(exchange)
            while True:
                try:
                    result = self.inner.execute(*step) if isinstance(step, tuple) else self._sleep(step)
                except BaseException as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    def close(self) -> None:
        """Closes what it wraps."""
        self.release()
        self.inner.close()


class AsyncWrapper(WrapperState[AsyncTransport]):
    """For asyncio."""

    @staticmethod
    def _pause(seconds: float) -> Awaitable[None]:
        import asyncio  # who comes here has it loaded

        return asyncio.sleep(seconds)

    async def execute(self, operation: str, request: Request) -> Answer:
        exchange = self.exchange(operation, request)
        try:
            step = next(exchange)
            while True:
                try:
                    result = await (self.inner.execute(*step) if isinstance(step, tuple) else self._sleep(step))
                except BaseException as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    async def close(self) -> None:
        """Closes what it wraps."""
        self.release()
        await self.inner.close()
