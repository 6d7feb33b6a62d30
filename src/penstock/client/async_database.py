"""connect_async(): the same database, tables, scans, batches and transactions for asyncio.

What is sent is made by the same code as for threads; here is the waiting.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from penstock.client.batches.batch_queue import BatchReport, Chunk
from penstock.client.batches.batch_reads import ReadPlan, read_batch_async
from penstock.client.batches.batches import BatchOptions, BatchState, as_ours, units_of
from penstock.client.database import Via, open_embedded, open_remote, refuse_engine_options
from penstock.client.items.keys import Key, KeyDeclaration, TableKey
from penstock.client.items.values import Item
from penstock.client.reads.pages import AsyncItems, Cursor, Page, with_pace_async
from penstock.client.reads.scans import SegmentState
from penstock.client.tables import requests
from penstock.client.tables.requests import Call, Match
from penstock.client.tables.table import TableCalls
from penstock.client.tables.transactions import (
    Action,
    Actions,
    TransactionCall,
    TypedGet,
    failure,
    get_call,
    write_call,
)
from penstock.client.transports import endpoints
from penstock.client.transports.async_http import AsyncRemoteTransport, AsyncThreadedTransport
from penstock.client.transports.base import DEFAULT_LIMITS, AsyncTransport, Limits, capabilities_of
from penstock.client.transports.credentials import CredentialSource, profile_region
from penstock.client.transports.endpoints import MEMORY, File
from penstock.client.wrappers.pacing import Outcome, Pace
from penstock.client.wrappers.retries import DEFAULT_RETRIES, AsyncRetrying, RequestRetries
from penstock.clock import Clock
from penstock.errors import ConditionalCheckFailedException, PenstockError, TransactionCanceledException
from penstock.wire import values as wire

if TYPE_CHECKING:
    from penstock.client.models.item_table import AsyncItemTable
    from penstock.engine.settings import Settings

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
AsyncExecute = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class AsyncDatabase:
    """A DynamoDB to talk to from one event loop; an async context manager that closes it."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport
        self.name = transport.name
        self.capabilities = capabilities_of(transport)
        self._keys: dict[str, TableKey] = {}

    async def execute(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """DynamoDB's answer to `operation`, in DynamoDB's own JSON."""
        return await self.transport.execute(operation, {} if request is None else request)

    @overload
    def table(self, name: str, /, *, key: KeyDeclaration | None = None) -> AsyncTable: ...
    @overload
    def table(self, model: type[A], /, *, name: str | None = None) -> AsyncItemTable[A]: ...
    @overload
    def table(self, model: type[A], second: type[B], /, *, name: str | None = None) -> AsyncItemTable[A | B]: ...
    @overload
    def table(
        self, model: type[A], second: type[B], third: type[C], /, *, name: str | None = None
    ) -> AsyncItemTable[A | B | C]: ...
    @overload
    def table(
        self, model: type[A], second: type[B], third: type[C], fourth: type[D], /, *, name: str | None = None
    ) -> AsyncItemTable[A | B | C | D]: ...
    @overload
    def table(
        self,
        model: type[A],
        second: type[B],
        third: type[C],
        fourth: type[D],
        fifth: type[E],
        /,
        *,
        name: str | None = None,
    ) -> AsyncItemTable[A | B | C | D | E]: ...
    def table(self, *given: Any, key: KeyDeclaration | None = None, name: str | None = None) -> Any:
        """A handle of a table; nothing is asked of the database. Of a class, or several, it has typed items."""
        if not given or not isinstance(given[0], type):
            own: Any = given[0] if given else name
            return AsyncTable(self, own, self._keys.get(own) if key is None else TableKey.parse(key))
        from penstock.client.models.item_table import AsyncItemTable
        from penstock.client.models.model import models_of

        return AsyncItemTable(self, *models_of(given, name))

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
            self._keys[table] = TableKey.from_description(described["Table"])
        return self._keys[table]

    def transaction(self, *, token: str | None = None) -> AsyncTransaction:
        """`async with db.transaction() as t: t.put(table, item)`."""
        return AsyncTransaction(self, token)

    async def transact_write(self, actions: Iterable[Action], *, token: str | None = None) -> None:
        await self._run(write_call(actions, token))

    @overload
    async def transact_get(self, actions: tuple[TypedGet[A], TypedGet[B]]) -> tuple[A | None, B | None]: ...
    @overload
    async def transact_get(
        self, actions: tuple[TypedGet[A], TypedGet[B], TypedGet[C]]
    ) -> tuple[A | None, B | None, C | None]: ...
    @overload
    async def transact_get(self, actions: list[TypedGet[A]]) -> list[A | None]: ...
    @overload
    async def transact_get(self, actions: Iterable[Action]) -> list[Item | None]: ...
    async def transact_get(self, actions: Any) -> Any:
        """The items of `table.get_action(key)`s as of one moment, in their order; None where there is none.

        A tuple of them gives a tuple.
        """
        found = await self._run(get_call(actions))
        return tuple(found) if isinstance(actions, tuple) else found

    async def _run(self, call: TransactionCall[T]) -> T:
        try:
            return call.read(await self.transport.execute(call.operation, call.request))
        except TransactionCanceledException as error:
            raise failure(error, call) from None

    async def close(self) -> None:
        """Releases the file or the connections. A second close does nothing."""
        await self.transport.close()

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *_: object) -> None:
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
    retries: RequestRetries | None = DEFAULT_RETRIES,
    via: Via = "thin",
) -> AsyncDatabase:
    """`connect` for asyncio: `async with connect_async(url) as db`.

    A remote database needs no thread for a call; the embedded engine runs in a few.
    """
    transport = open_async_transport(
        url, limits=limits, credentials=credentials, via=via, clock=clock, settings=settings
    )
    if capabilities_of(transport).has_engine:
        return AsyncDatabase(transport)
    refuse_engine_options(transport.name, clock, settings)
    return AsyncDatabase(transport if retries is None else AsyncRetrying(transport, retries))


def open_async_transport(
    url: str | os.PathLike[str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    credentials: CredentialSource | None = None,
    via: Via = "thin",
    **engine_options: Any,
) -> AsyncTransport:
    """`open_transport` for asyncio. Everything but the thin client runs in a few threads."""
    target = endpoints.parse(os.fspath(url), region_of=profile_region)
    if isinstance(target, File):
        return AsyncThreadedTransport(open_embedded(target, engine_options))
    if via == "boto":
        return AsyncThreadedTransport(open_remote(target, limits, credentials, via), threads=limits.connections)
    return AsyncRemoteTransport(target, limits=limits, credentials=credentials)


_Arrival = tuple[int, Page | Exception]


class AsyncSegmentedItems(SegmentState, AsyncIterator[T], Generic[T]):
    """Every item of a table, in no order, read by tasks of the event loop."""

    def __init__(self, cursors: dict[int, Cursor], segments: int, workers: int, execute: AsyncExecute) -> None:
        super().__init__(cursors, segments, workers)
        self._execute = execute
        self._waiting = deque(cursors)
        self._pages: asyncio.Queue[_Arrival] = asyncio.Queue(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._unfinished = len(cursors)
        self._closed = False

    async def __anext__(self) -> T:
        while True:
            for item in self._rest:
                found: T = item
                return found
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
                page = await self._page(cursor, request)
                await self._pages.put((segment, page))
                following = None if isinstance(page, Exception) else page.following
                request = None if following is None else {**request, "ExclusiveStartKey": following}
                del page  # it is the reader's now, and may be gone before the next one comes

    async def _page(self, cursor: Cursor, request: dict[str, Any]) -> Page | Exception:
        try:
            return Page.of(await self._execute(cursor.operation, request), cursor.decode)
        except Exception as error:  # it is raised again, where the items are read
            return error

    async def close(self) -> None:
        """Stops the tasks; `tokens` still says where."""
        self._closed, self._rest = True, iter(())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncParallelScan(AsyncSegmentedItems[Item]):
    """Every item of a table as a dict, in no order, read by tasks of the event loop."""


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

    async def put_encoded(self, item: wire.Item, length: int) -> None:
        """`put` of an item in DynamoDB's own JSON, of this length: nothing of it is changed or checked."""
        self._refuse_after_failure()
        self._queue.put_encoded(item, length)
        if self._queue.may_fill_one:
            await self._send(whole=True)

    async def delete_encoded(self, key: wire.Item) -> None:
        """`delete` of a key in DynamoDB's own JSON."""
        self._refuse_after_failure()
        self._queue.delete_encoded(key)
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

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
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
            self._take_result(self._in_flight.pop(task), task.result())


_Awaited = Coroutine[Any, Any, Item | None]


class AsyncTable(
    TableCalls[
        _Awaited,
        Coroutine[Any, Any, Item],
        AsyncItems,
        AsyncParallelScan,
        AsyncBatch,
        Coroutine[Any, Any, BatchReport],
        AsyncIterator[Item],
        Coroutine[Any, Any, list[Match]],
    ]
):
    """One table of an `AsyncDatabase`: `await table.get(key)`, `async for item in table.query(companyId="c1")`,
    `async with table.batch() as batch: await batch.put(item)`."""

    def __init__(self, database: AsyncDatabase, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database
        self._vector_index: str | None = None

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
        return AsyncItems(cursor, with_pace_async(self._database.execute, pace, self.name))

    def _segments(
        self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None
    ) -> AsyncParallelScan:
        return AsyncParallelScan(cursors, segments, workers, with_pace_async(self._database.execute, pace, self.name))

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

    async def _search(self, index: str | None, request: Callable[[str], requests.Request]) -> list[Match]:
        if index is None and self._vector_index is None:
            described = (await self._database.execute("DescribeTable", {"TableName": self.name}))["Table"]
            self._vector_index = requests.only_vector_index(described)
        asked = request(index or self._vector_index or "")
        return requests.matches_of(await self._database.execute("SearchVectors", asked))


class AsyncTransaction(Actions):
    """`Transaction` for asyncio."""

    def __init__(self, database: AsyncDatabase, token: str | None = None) -> None:
        super().__init__(token)
        self._database = database

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self.actions:
            await self._database.transact_write(self.actions, token=self.token)
