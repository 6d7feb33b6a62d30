"""Transports for asyncio: the thin client with the promises of http.py, on one event loop, without locks; any other
transport in a few threads.

A connection is an asyncio protocol with a buffer of its own, so that an answer that arrives in one piece costs one
callback, one wake-up and no large allocation: asyncio's own 256 KB for each read cost more than all of ours.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from penstock.client.transports import network
from penstock.client.transports.base import DEFAULT_LIMITS, Answer, Limits, Request, Transport, capabilities_of
from penstock.client.transports.credentials import Credentials, CredentialSource
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.http import RemoteState
from penstock.client.transports.messages import Lane, Malformed, Response, new_reader, renewed
from penstock.client.transports.network import Route
from penstock.errors import DatabaseClosed

_BUFFER_BYTES = 64 * 1024
_SENDS = 3  # of one request: twice on connections that turned out to be broken, then on a new one
_TUNNELLED = re.compile(rb"HTTP/1\.[01] 2[0-9][0-9]")
_TUNNEL_ANSWER_BYTES = 16 * 1024


class NotSent(Exception):
    """The connection was closed before the request could be written to it."""


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection: at most one request is under way, and `_answer` waits for its response."""

    def __init__(self, name: str, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self.used = False
        self.idle_since = 0.0
        self._name = name
        self._limits = limits
        self._loop = loop
        self._reader = new_reader(limits.answer_bytes)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._poll: select.poll | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    @property
    def alive(self) -> bool:
        """False if the server closed it; asked of the system too, as a busy event loop may not have heard of it yet."""
        if self._transport is None or self._transport.is_closing():
            return False
        return self._poll is None or not self._poll.poll(0)

    async def exchange(self, message: bytes) -> Response:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise NotSent
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        transport.write(message)
        if transport.is_closing():  # the system refused the first byte
            answer.cancel()
            raise NotSent
        self._deadline = self._loop.time() + self._limits.read_seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._look_at_clock)
        try:
            return await answer
        finally:
            self._answer = None

    def _look_at_clock(self) -> None:
        """One timer for many requests: it is set again for the one under way when it rings too early."""
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look_at_clock)
        else:
            self._fail(network.late(self._name, self._limits.read_seconds, self._reader.begun))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # ── what the event loop calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._answer is None:  # unasked: this connection is out of step
            self.close()
            return
        try:
            response = self._reader.feed(self._buffer[:nbytes])
        except Malformed as error:
            self._fail(network.malformed(self._name, error))
            return
        if response is not None and not self._answer.done():
            self._answer.set_result(response)

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        answer = self._answer
        if answer is None or answer.done():
            self.close()
            return
        response = self._reader.end()
        if response is not None:
            answer.set_result(response)
            self.close()
        elif isinstance(error, OSError):
            self._fail(network.not_read(self._name, error, self._limits.read_seconds, self._reader.begun))
        else:
            self._fail(network.half_answer(self._name, self._reader.begun))


class AsyncPool:
    """The connections to one host, of one event loop; on another loop it begins anew."""

    def __init__(self, name: str, route: Route, limits: Limits) -> None:
        self._name = name
        self._route = route
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._idle: deque[AsyncConnection] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._open = 0

    async def exchange(self, message: bytes) -> Response:
        """The answer to `message`, on an idle connection if there is one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop = loop
            self._begin()
        for _ in range(_SENDS):
            connection = self._take_idle() or await self._wait()
            try:
                response = await connection.exchange(message)
            except NotSent:
                self._drop(connection)
                if not connection.used:
                    break
            except BaseException:  # a cancelled call too: its answer is still to come
                self._drop(connection)
                raise
            else:
                self._give_back(connection, response)
                return response
        raise network.not_sent(self._name, ConnectionResetError())

    def _take_idle(self) -> AsyncConnection | None:
        assert self._loop is not None
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.alive and self._loop.time() - connection.idle_since < self._limits.idle_seconds:
                return connection
            self._drop(connection)
        return None

    async def _wait(self) -> AsyncConnection:
        try:
            async with asyncio.timeout(self._limits.pool_seconds):
                while self._open >= self._limits.connections:
                    await self._turn()
                    connection = self._take_idle()
                    if connection is not None:
                        return connection
        except TimeoutError:
            raise network.busy(self._name, self._limits.connections, self._limits.pool_seconds) from None
        if self._closed:
            raise network.closed(self._name)
        self._open += 1
        return await self._dial()

    async def _turn(self) -> None:
        """Waits until a connection was given back or closed, first come first served."""
        assert self._loop is not None
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # the turn that came too late for this one is the next one's
            raise

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _dial(self) -> AsyncConnection:
        assert self._loop is not None
        made = AsyncConnection(self._name, self._limits, self._loop)
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                await connect(self._loop, self._route, made)
        except BaseException as error:
            made.close()
            self._forget()
            if isinstance(error, OSError | ValueError):
                raise network.unreachable(self._name, self._route, error) from error
            raise
        return made

    def _give_back(self, connection: AsyncConnection, response: Response) -> None:
        assert self._loop is not None
        if not response.keep_alive or self._closed or not connection.alive:
            self._drop(connection)
            return
        connection.used = True
        now = connection.idle_since = self._loop.time()
        idle = self._idle
        idle.append(connection)
        if self._waiters:
            self._wake()
        while now - idle[0].idle_since > self._limits.idle_seconds:
            self._drop(idle.popleft())

    def _drop(self, connection: AsyncConnection) -> None:
        connection.close()
        self._forget()

    def _forget(self) -> None:
        self._open -= 1
        self._wake()

    def close(self) -> None:
        """Closes what is idle; what is busy is closed when its answer has come."""
        self._closed = True
        while self._idle:
            self._drop(self._idle.pop())


async def connect(loop: asyncio.AbstractEventLoop, route: Route, connection: AsyncConnection) -> None:
    """Connects `connection` to the route's host; raises what sockets and ssl raise."""
    host = route.host
    if route.proxy is None:
        name = host.host if route.context else None
        await loop.create_connection(lambda: connection, host.host, host.port, ssl=route.context, server_hostname=name)
    elif route.context is None:
        await loop.create_connection(lambda: connection, route.proxy.host, route.proxy.port)
    else:
        await _tunnel(loop, route, route.context, connection)


async def _tunnel(
    loop: asyncio.AbstractEventLoop, route: Route, context: ssl.SSLContext, connection: AsyncConnection
) -> None:
    assert route.proxy is not None
    asking = _Asking(loop.create_future(), route.tunnel_message)
    transport, _ = await loop.create_connection(lambda: asking, route.proxy.host, route.proxy.port)
    try:
        line = await asking.answer
        if not _TUNNELLED.match(line):
            raise OSError(f"Tunnel connection failed: {line.partition(b' ')[2][:100].decode('latin-1')}")
        secured = await loop.start_tls(transport, connection, context, server_hostname=route.host.host)
    except BaseException:
        transport.abort()
        raise
    assert secured is not None
    connection.connection_made(secured)


class _Asking(asyncio.Protocol):
    """Asks a proxy for a tunnel; `answer` is the first line of what it says."""

    def __init__(self, answer: asyncio.Future[bytes], question: bytes) -> None:
        self.answer = answer
        self._question = question
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._question)

    def data_received(self, data: bytes) -> None:
        self._said += data
        if b"\r\n\r\n" in self._said and not self.answer.done():
            self.answer.set_result(self._said.split(b"\r\n", 1)[0])
        elif len(self._said) > _TUNNEL_ANSWER_BYTES:
            self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(OSError("Tunnel connection failed: no answer"))


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
        if response.status != 200 and await self._correct(response, credentials, skew):
            response = await self._exchange(lane, operation, body, await self._current())
        return messages.answer(operation, response)

    async def _exchange(self, lane: Lane, operation: str, body: bytes, credentials: Credentials) -> Response:
        return await self._pools[lane].exchange(self._messages.message(lane, operation, body, credentials))

    async def _current(self) -> Credentials:
        source = self._credentials
        if source.blocking:
            return await asyncio.get_running_loop().run_in_executor(None, source.current)
        return source.current()

    async def _correct(self, response: Response, credentials: Credentials, skew_seconds: float) -> bool:
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
            raise DatabaseClosed(f"{self.name}: the database has been closed; open it again with connect_async().")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.inner.execute, operation, request)

    async def close(self) -> None:
        """Waits for the calls that have begun, then closes what is inside. A second close does nothing."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(None, self._shut)

    def _shut(self) -> None:
        self._threads.shutdown(wait=True)
        self.inner.close()
