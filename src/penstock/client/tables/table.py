"""A table as people use it: Python's values in and out, conditions from Python, iterators that page by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.client.batches.batch_reads import ReadPlan, read_batch
from penstock.client.batches.batches import Batch, BatchOptions, BatchReport, Pace
from penstock.client.reads.paced_pages import paced
from penstock.client.reads.pages import Cursor, Items
from penstock.client.reads.scans import ParallelScan
from penstock.client.tables.keys import Key, TableKey
from penstock.client.tables.requests import Call
from penstock.client.tables.table_calls import TableCalls
from penstock.client.tables.values import Item
from penstock.errors import ConditionalCheckFailedException

if TYPE_CHECKING:
    from penstock.client.database import Database


class Table(TableCalls[Item | None, Items, ParallelScan, Batch, BatchReport, Iterator[Item]]):
    """One table of a `Database`. Cheap to make, safe to share between threads."""

    def __init__(self, database: Database, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database

    @property
    def database(self) -> Database:
        """The database that has the table."""
        return self._database

    @property
    def key(self) -> TableKey:
        """The table's key; asked of the database once, unless it was declared."""
        if self._known is None:
            self._known = self._database.key_of(self.name)
        return self._known

    def _send(self, call: Call[Item | None]) -> Item | None:
        try:
            return call.read(self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            raise self._condition_failed(error, call) from None

    def _items(self, cursor: Cursor, pace: Pace | None) -> Items:
        return Items(cursor, paced(self._database.execute, pace, self.name))

    def _segments(self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None) -> ParallelScan:
        return ParallelScan(cursors, segments, workers, paced(self._database.execute, pace, self.name))

    def _batch(self, options: BatchOptions) -> Batch:
        database = self._database
        return Batch(self.name, self.key, database.execute, options, database.capabilities, database.loading)

    def _write(self, puts: Iterable[Mapping[str, Any]], deletes: Iterable[Key], options: BatchOptions) -> BatchReport:
        with self._batch(options) as batch:
            for item in puts:
                batch.put(item)
            for key in deletes:
                batch.delete(key)
        return batch.report

    def _read(self, plan: ReadPlan, keys: Iterable[Key], options: BatchOptions) -> Iterator[Item]:
        return read_batch(plan, keys, self._database.execute, options, self._database.capabilities.parallel_calls)
