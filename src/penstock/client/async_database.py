"""connect_async(): the same database and tables for asyncio. What is sent is made by the same code as for threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.database import Via, open_embedded, open_remote, refuse_engine_options
from penstock.client.items.keys import KeyDeclaration, TableKey
from penstock.client.items.values import Item
from penstock.client.tables.async_table import AsyncTable
from penstock.client.tables.requests import Call
from penstock.client.tables.transactions import Action, AsyncTransaction, failure, get_call, write_call
from penstock.client.transports import endpoints
from penstock.client.transports.async_http import AsyncRemoteTransport, AsyncThreadedTransport
from penstock.client.transports.base import DEFAULT_LIMITS, AsyncTransport, Limits, capabilities_of
from penstock.client.transports.credentials import CredentialSource, profile_region
from penstock.client.transports.endpoints import MEMORY, File
from penstock.client.wrappers.retries import DEFAULT_RETRIES, AsyncRetrying, RequestRetries
from penstock.clock import Clock
from penstock.errors import TransactionCanceledException

if TYPE_CHECKING:
    from penstock.engine.settings import Settings

T = TypeVar("T")


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
