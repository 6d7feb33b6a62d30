"""A table for asyncio: `Table`'s methods, to be awaited or read with `async for`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.client.batches.async_batches import AsyncBatch
from penstock.client.batches.batch_queue import BatchReport
from penstock.client.batches.batch_reads import ReadPlan, read_batch_async
from penstock.client.batches.batches import BatchOptions
from penstock.client.items.keys import Key, TableKey
from penstock.client.items.values import Item
from penstock.client.reads.async_scans import AsyncParallelScan
from penstock.client.reads.pages import AsyncItems, Cursor, paced_async
from penstock.client.tables.requests import Call
from penstock.client.tables.table import TableCalls
from penstock.client.wrappers.pacing import Pace
from penstock.errors import ConditionalCheckFailedException

if TYPE_CHECKING:
    from penstock.client.async_database import AsyncDatabase

_Awaited = Coroutine[Any, Any, Item | None]


class AsyncTable(
    TableCalls[
        _Awaited, AsyncItems, AsyncParallelScan, AsyncBatch, Coroutine[Any, Any, BatchReport], AsyncIterator[Item]
    ]
):
    """One table of an `AsyncDatabase`: `await table.get(key)`, `async for item in table.query(companyId="c1")`,
    `async with table.batch() as batch: await batch.put(item)`."""

    def __init__(self, database: AsyncDatabase, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database

    async def key(self) -> TableKey:
        """The table's key; asked of the database once, unless it was declared."""
        if self._known is None:
            self._known = await self._database.key_of(self.name)
        return self._known

    async def _send(self, call: Call[Item | None]) -> Item | None:
        try:
            return call.read(await self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            raise self._condition_failed(error, call) from None

    def _items(self, cursor: Cursor, pace: Pace | None) -> AsyncItems:
        return AsyncItems(cursor, paced_async(self._database.execute, pace, self.name))

    def _segments(
        self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None
    ) -> AsyncParallelScan:
        return AsyncParallelScan(cursors, segments, workers, paced_async(self._database.execute, pace, self.name))

    def _batch(self, options: BatchOptions) -> AsyncBatch:
        return AsyncBatch(
            self.name, self.key, self._database.execute, options, self._database.capabilities.parallel_calls
        )

    async def _write(
        self, puts: Iterable[Mapping[str, Any]], deletes: Iterable[Key], options: BatchOptions
    ) -> BatchReport:
        async with self._batch(options) as batch:
            for item in puts:
                await batch.put(item)
            for key in deletes:
                await batch.delete(key)
        return batch.report

    def _read(self, plan: ReadPlan, keys: Iterable[Key], options: BatchOptions) -> AsyncIterator[Item]:
        return read_batch_async(plan, keys, self._database.execute, options, self._database.capabilities.parallel_calls)
