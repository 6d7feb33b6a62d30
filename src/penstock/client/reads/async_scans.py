"""A scan by several tasks at once: as scans.py, on an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

from penstock.client.items.values import Item
from penstock.client.reads.pages import Cursor, Page
from penstock.client.reads.scans import SegmentState

AsyncExecute = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
_Arrival = tuple[int, Page | Exception]


class AsyncParallelScan(SegmentState, AsyncIterator[Item]):
    """Every item of a table, in no order, read by tasks of the event loop."""

    def __init__(self, cursors: dict[int, Cursor], segments: int, workers: int, execute: AsyncExecute) -> None:
        super().__init__(cursors, segments, workers)
        self._execute = execute
        self._waiting = deque(cursors)
        self._pages: asyncio.Queue[_Arrival] = asyncio.Queue(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._unfinished = len(cursors)
        self._closed = False

    async def __anext__(self) -> Item:
        while True:
            for item in self._rest:
                return item
            await self._next_page()

    async def _next_page(self) -> None:
        if not self._tasks and not self._closed:
            self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        if self._closed or not self._unfinished:
            raise StopAsyncIteration
        segment, page = await self._pages.get()
        if isinstance(page, BaseException):
            await self.close()
            raise page
        self._unfinished -= page.following is None
        self._open(segment, page)

    async def _work(self) -> None:
        while self._waiting:
            segment = self._waiting.popleft()
            cursor = self._cursors[segment]
            request: dict[str, Any] | None = cursor.request()
            while request is not None:
                page = await self._page(cursor.operation, request)
                await self._pages.put((segment, page))
                following = None if isinstance(page, Exception) else page.following
                request = None if following is None else {**request, "ExclusiveStartKey": following}
                del page  # it is the reader's now, and may be gone before the next one comes

    async def _page(self, operation: str, request: dict[str, Any]) -> Page | Exception:
        try:
            return Page.of(await self._execute(operation, request))
        except Exception as error:  # it is raised again, where the items are read
            return error

    async def close(self) -> None:
        """Stops the tasks; `tokens` still says where."""
        self._closed, self._rest = True, iter(())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> AsyncParallelScan:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
