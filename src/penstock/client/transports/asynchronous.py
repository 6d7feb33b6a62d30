"""Transports for asyncio: the thin client without threads, and the embedded engine in a few."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from penstock.client.transports.async_connections import AsyncPool
from penstock.client.transports.base import DEFAULT_LIMITS, Answer, Limits, Request, Transport, capabilities_of
from penstock.client.transports.credentials import CredentialSource
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.messages import Lane, renewed
from penstock.client.transports.remote import RemoteState
from penstock.client.transports.responses import Response
from penstock.client.transports.signing import Credentials
from penstock.errors import StorageError

ENGINE_THREADS = 4


class AsyncRemoteTransport(RemoteState[AsyncPool]):
    """`RemoteTransport` on an event loop. Only finding and refreshing AWS credentials uses a thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        credentials: CredentialSource | None = None,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(endpoint, AsyncPool, credentials, limits, now)

    async def execute(self, operation: str, request: Request) -> Answer:
        messages = self._messages
        lane = messages.lane(operation)
        body = messages.body(request)
        credentials, skew = await self._current(), messages.skew_seconds
        response = await self._exchange(lane, operation, body, credentials)
        if response.status != 200 and await self._put_right(response, credentials, skew):
            response = await self._exchange(lane, operation, body, await self._current())
        return messages.answer(operation, response)

    async def _exchange(self, lane: Lane, operation: str, body: bytes, credentials: Credentials) -> Response:
        return await self._pools[lane].exchange(self._messages.message(lane, operation, body, credentials))

    async def _current(self) -> Credentials:
        source = self._credentials
        if source.blocking:
            return await asyncio.get_running_loop().run_in_executor(None, source.current)
        return source.current()

    async def _put_right(self, response: Response, credentials: Credentials, skew_seconds: float) -> bool:
        trouble = self._messages.trouble(response, skew_seconds)
        if trouble == "expired":
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, renewed, self._credentials, credentials)
        return trouble == "clock"

    async def close(self) -> None:
        """Closes the connections; calls that are under way end as they would."""
        self._close_pools()


class AsyncThreadedTransport:
    """A blocking transport, the embedded engine for one, in a few threads. Calls made together run in any order."""

    def __init__(self, transport: Transport, threads: int = ENGINE_THREADS) -> None:
        self.name = transport.name
        self.inner = transport
        self.capabilities = capabilities_of(transport)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="penstock")
        self._closed = False

    async def execute(self, operation: str, request: Request) -> Answer:
        if self._closed:
            raise StorageError(f"{self.name}: the database has been closed; open it again with connect_async().")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.inner.execute, operation, request)

    async def close(self) -> None:
        """Waits for the calls that have begun, then closes what is inside. A second close does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(None, self._shut)

    def _shut(self) -> None:
        self._threads.shutdown(wait=True)
        self.inner.close()
