"""Batches of writes for asyncio: as batches.py, with tasks in place of threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any

from penstock.client.batches.batch_queue import Chunk
from penstock.client.batches.batches import BatchOptions, BatchState, as_ours, units_of
from penstock.client.items.keys import Key, TableKey
from penstock.client.wrappers.pacing import Outcome
from penstock.errors import PenstockError

AsyncExecute = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class AsyncBatch(BatchState):
    """`async with table.batch() as batch:` and then `await batch.put(item)`. For one task."""

    def __init__(
        self,
        table: str,
        key: Callable[[], Awaitable[TableKey]],
        execute: AsyncExecute,
        options: BatchOptions | None = None,
        workers: int = 4,
    ) -> None:
        super().__init__(table, options or BatchOptions(), workers)
        self._find_key = key
        self._execute = execute
        self._in_flight: dict[asyncio.Task[dict[str, Any] | PenstockError], Chunk] = {}

    async def put(self, item: Mapping[str, Any]) -> None:
        """Will write the item. Waits while as many requests are in flight as may be."""
        self._refuse_after_failure()
        self._queue.put(item)
        if self._queue.may_fill_one:
            await self._send(whole=True)

    async def delete(self, key: Key) -> None:
        """Will delete the item with this key."""
        self._refuse_after_failure()
        self._queue.delete(key)
        if self._queue.may_fill_one:
            await self._send(whole=True)

    async def flush(self) -> None:
        """Returns when everything given so far is done; raises `BatchIncomplete` if a part of it cannot be."""
        while (len(self._queue) or self._in_flight) and self._queue.fatal is None:
            await self._send(whole=False)
            await self._await_one()
        await self._await_all()
        self._finish()

    async def __aenter__(self) -> AsyncBatch:
        self._open(await self._find_key())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.flush()
        else:
            await self._await_all()
            self._abandon(error)

    async def _send(self, *, whole: bool) -> None:
        while self._queue.fatal is None:
            if len(self._in_flight) >= self._workers:
                await self._await_one()
            await self._pause()
            chunk = self._queue.next_chunk(self._now(), whole=whole)
            if chunk is None:
                return
            self._in_flight[asyncio.create_task(self._call(chunk))] = chunk

    async def _pause(self) -> None:
        seconds = self._wait_seconds()
        if seconds > 0 and len(self._queue):
            # A test's sleep moves its clock and returns at once; the loop's own is the real one.
            if self._options.sleep is time.sleep:
                await asyncio.sleep(seconds)
            else:
                self._options.sleep(seconds)

    async def _call(self, chunk: Chunk) -> dict[str, Any] | PenstockError:
        request, pace = self._queue.request(chunk), self._options.pace
        if pace is None:
            return await self._attempt(request)
        units = units_of(chunk)
        await pace.before_async(units, self._table, "Write")
        answer = await self._attempt(request)
        pace.after(Outcome.of("BatchWriteItem", request, answer, units))
        return answer

    async def _attempt(self, request: dict[str, Any]) -> dict[str, Any] | PenstockError:
        try:
            return await self._execute("BatchWriteItem", request)
        except Exception as error:
            return as_ours(error)

    async def _await_one(self) -> None:
        if self._in_flight:
            finished, _ = await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
            self._collect(finished)

    async def _await_all(self) -> None:
        if self._in_flight:
            finished, _ = await asyncio.wait(self._in_flight)
            self._collect(finished)

    def _collect(self, finished: set[asyncio.Task[dict[str, Any] | PenstockError]]) -> None:
        for task in finished:
            self._settle(self._in_flight.pop(task), task.result())
