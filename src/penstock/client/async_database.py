"""connect_async(): the same database and tables for asyncio. What is sent is made by the same code as for threads."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client import requests
from penstock.client.async_batches import AsyncBatch
from penstock.client.async_scans import AsyncParallelScan
from penstock.client.batch_reads import ReadPlan, read_batch_async
from penstock.client.batches import BatchOptions, BatchReport, Duplicates, Pace
from penstock.client.credentials import CredentialSource
from penstock.client.database import embedded_engine, refuse_engine_options
from penstock.client.endpoints import MEMORY
from penstock.client.keys import Key, KeyDeclaration, TableKey
from penstock.client.pages import AsyncItems
from penstock.client.rendering import Attribute, Where
from penstock.client.requests import Call, Changes, Names, Reading, Values
from penstock.client.retries import DEFAULT_POLICY, AsyncRetrying, RetryPolicy
from penstock.client.table import TableCalls
from penstock.client.transactions import Action, AsyncTransaction, failure, get_call, write_call
from penstock.client.transports.base import DEFAULT_LIMITS, AsyncTransport, Limits
from penstock.client.transports.opening import Via, open_async_transport
from penstock.client.values import Item
from penstock.clock import Clock
from penstock.errors import ConditionalCheckFailedException, TransactionCanceledException

if TYPE_CHECKING:
    from penstock.engine.settings import Settings

T = TypeVar("T")

_REMOTE_WORKERS = 4


class AsyncTable(TableCalls):
    """One table of an `AsyncDatabase`. Its methods are `Table`'s, to be awaited."""

    def __init__(self, database: AsyncDatabase, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database

    async def key(self) -> TableKey:
        """The table's key; asked of the database once, unless it was declared."""
        if self._known is None:
            self._known = await self._database.key_of(self.name)
        return self._known

    async def get(
        self, key: Key, *, consistent: bool = False, select: Iterable[Attribute] | None = None
    ) -> Item | None:
        return await self._run(requests.get(requests.get_request(self.name, self._known, key, select), consistent))

    async def put(
        self,
        item: Mapping[str, Any],
        *,
        if_: Where = None,
        return_old: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Item | None:
        request = requests.put_request(self.name, self._known, item, if_, names, values)
        return await self._run(requests.put(request, self._known, return_old))

    async def update(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Item | None:
        changes = Changes(set, remove, add, delete, expression)
        request = requests.update_request(self.name, self._known, key, changes, if_, names, values)
        return await self._run(requests.update(request, return_old, return_new))

    async def delete(
        self, key: Key, *, if_: Where = None, return_old: bool = False, names: Names = None, values: Values = None
    ) -> Item | None:
        request = requests.delete_request(self.name, self._known, key, if_, names, values)
        return await self._run(requests.delete(request, return_old))

    def query(
        self,
        *,
        index: str | None = None,
        key: Mapping[str, Any] | None = None,
        sort: Where = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        token: str | None = None,
        names: Names = None,
        values: Values = None,
        **equals: Any,
    ) -> AsyncItems:
        """`async for item in table.query(companyId="c1")`."""
        reading = Reading(index, filter, select, consistent, names, values)
        wanted = {**(key or {}), **equals}
        cursor = self._query_cursor(wanted, sort, newest_first, reading, limit, page_size, token)
        return AsyncItems(cursor, self._database.execute)

    def scan(
        self,
        *,
        index: str | None = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        segment: int | None = None,
        segments: int | None = None,
        token: str | None = None,
        names: Names = None,
        values: Values = None,
    ) -> AsyncItems:
        reading = Reading(index, filter, select, consistent, names, values)
        cursor = self._scan_cursor(reading, segment, segments, limit, page_size, token)
        return AsyncItems(cursor, self._database.execute)

    def parallel_scan(
        self,
        *,
        segments: int = 8,
        workers: int = 4,
        index: str | None = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        tokens: Sequence[str | None] | None = None,
        names: Names = None,
        values: Values = None,
    ) -> AsyncParallelScan:
        """As `Table.parallel_scan`, with tasks in place of threads: `async with`, or close it, to stop early."""
        reading = Reading(index, filter, select, consistent, names, values)
        cursors = self._segment_cursors(reading, segments, page_size, tokens)
        return AsyncParallelScan(cursors, segments, workers, self._database.execute)

    def batch(
        self,
        *,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        duplicates: Duplicates = "last",
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> AsyncBatch:
        """`async with table.batch() as batch: await batch.put(item)`."""
        options = options or BatchOptions(workers, deadline_seconds, duplicates, pace)
        return AsyncBatch(self.name, self.key, self._database.execute, options, self._database.batch_workers)

    async def batch_write(
        self,
        puts: Iterable[Mapping[str, Any]] = (),
        deletes: Iterable[Key] = (),
        *,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        duplicates: Duplicates = "last",
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> BatchReport:
        options = options or BatchOptions(workers, deadline_seconds, duplicates, pace)
        async with self.batch(options=options) as batch:
            for item in puts:
                await batch.put(item)
            for key in deletes:
                await batch.delete(key)
        return batch.report

    def batch_get(
        self,
        keys: Iterable[Key],
        *,
        consistent: bool = False,
        select: Iterable[Attribute] | None = None,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> AsyncIterator[Item]:
        options = options or BatchOptions(workers, deadline_seconds, "last", pace)
        plan = ReadPlan(self.name, self._known, select, consistent)
        return read_batch_async(plan, keys, self._database.execute, options, self._database.batch_workers)

    async def _run(self, call: Call[T]) -> T:
        try:
            return call.read(await self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            raise self._condition_failed(error, call) from None


class AsyncDatabase:
    """A DynamoDB to talk to from one event loop; an async context manager that closes it."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport
        self.name = transport.name
        self._keys: dict[str, TableKey] = {}

    async def execute(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """DynamoDB's answer to `operation`, in DynamoDB's own JSON."""
        return await self.transport.execute(operation, {} if request is None else request)

    def table(self, name: str, *, key: KeyDeclaration | None = None) -> AsyncTable:
        """A handle of a table; nothing is asked of the database."""
        return AsyncTable(self, name, self._keys.get(name) if key is None else TableKey.declared(key))

    async def tables(self) -> list[str]:
        """The names of all tables, in order."""
        names: list[str] = []
        request: dict[str, Any] = {}
        while True:
            answer = await self.transport.execute("ListTables", request)
            names += answer["TableNames"]
            if "LastEvaluatedTableName" not in answer:
                return names
            request = {"ExclusiveStartTableName": answer["LastEvaluatedTableName"]}

    async def key_of(self, table: str) -> TableKey:
        """The key of a table, asked once."""
        if table not in self._keys:
            described = await self.transport.execute("DescribeTable", {"TableName": table})
            self._keys[table] = TableKey.described(described["Table"])
        return self._keys[table]

    def transact(self, *, token: str | None = None) -> AsyncTransaction:
        """`async with db.transact() as tx: tx.put(table, item)`."""
        return AsyncTransaction(self, token)

    async def transact_write(self, actions: Iterable[Action], *, token: str | None = None) -> None:
        await self._run(write_call(actions, token))

    async def transact_get(self, actions: Iterable[Action]) -> list[Item | None]:
        return await self._run(get_call(actions))

    async def _run(self, call: Call[T]) -> T:
        try:
            return call.read(await self.transport.execute(call.operation, call.request))
        except TransactionCanceledException as error:
            raise failure(error, call) from None

    @property
    def batch_workers(self) -> int:
        return _REMOTE_WORKERS if embedded_engine(self.transport) is None else 1

    async def close(self) -> None:
        """Releases the file or the connections. A second close does nothing."""
        await self.transport.close()

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncDatabase({self.name!r})"


def connect_async(
    url: str | os.PathLike[str] = MEMORY,
    *,
    clock: Clock | None = None,
    settings: Settings | None = None,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    retries: RetryPolicy | None = DEFAULT_POLICY,
    via: Via = "thin",
) -> AsyncDatabase:
    """`connect` for asyncio: `async with connect_async(url) as db`.

    A remote database needs no thread for a call; the embedded engine runs in a few.
    """
    transport = open_async_transport(
        url, limits=limits, credentials=credentials, via=via, clock=clock, settings=settings
    )
    if embedded_engine(transport) is not None:
        return AsyncDatabase(transport)
    refuse_engine_options(transport.name, clock, settings)
    return AsyncDatabase(transport if retries is None else AsyncRetrying(transport, retries))
