"""The thin client: DynamoDB's JSON protocol to any endpoint, signed, on pooled connections.

1. A connection carries one request at a time and goes back to the pool only after a whole answer.
2. Never more than `limits.connections` are open; whoever finds them all busy waits, for at most `pool_seconds`.
3. The one that has been idle for the shortest time is used first, so that those not needed grow old and are closed.
4. A connection that its server closed while it was idle is noticed before anything is sent on it.
5. A request is sent a second time only if the first cannot have been carried out: it was not sent whole.
"""

from __future__ import annotations

import http.client
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from penstock.client.transports import network
from penstock.client.transports.base import DEFAULT_LIMITS, Answer, Capabilities, Changes, Limits, Request
from penstock.client.transports.credentials import Credentials, CredentialSource, credentials_for
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.messages import Lane, Malformed, Messages, Response, new_reader, renewed
from penstock.client.transports.network import Route

_RECEIVE_BYTES = 64 * 1024  # from 128 KB up, the C library asks the system for each buffer: 30 µs a call
_SENDS = 3  # of one request: twice on connections that turned out to be broken, then on a new one


class NotSent(Exception):
    """The connection broke before the request had left whole."""


class Connection:
    """One socket and the reader of what comes on it."""

    __slots__ = ("_limits", "_name", "_poll", "_reader", "_sock", "idle_since", "used")

    def __init__(self, name: str, sock: socket.socket, limits: Limits) -> None:
        self.used = False
        self.idle_since = 0.0
        self._name = name
        self._sock = sock
        self._limits = limits
        self._reader = new_reader(limits.answer_bytes)
        sock.settimeout(limits.read_seconds)
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)

    def alive(self) -> bool:
        """False if the server closed it, or said something unasked, while it was idle."""
        if self._poll is not None:
            return not self._poll.poll(0)
        return not select.select([self._sock], [], [], 0)[0]

    def exchange(self, message: bytes) -> Response:
        """Sends one request and reads its answer; raises NotSent or TransportError."""
        try:
            self._sock.sendall(message)
        except TimeoutError as error:
            raise network.not_sent(self._name, error) from error
        except OSError as error:
            raise NotSent from error
        deadline = time.monotonic() + self._limits.read_seconds
        response = self._read(self._receive())
        return self._rest_of_answer(deadline) if response is None else response

    def _rest_of_answer(self, deadline: float) -> Response:
        """However slowly the bytes trickle in, the whole must be here by the deadline."""
        try:
            while True:
                self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
                response = self._read(self._receive())
                if response is not None:
                    return response
        finally:
            self._sock.settimeout(self._limits.read_seconds)

    def _receive(self) -> bytes:
        try:
            return self._sock.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise network.not_read(self._name, error, self._limits.read_seconds, self._reader.begun) from error

    def _read(self, data: bytes) -> Response | None:
        """The answer if `data`, or the end of the connection, makes it whole."""
        try:
            if data:
                return self._reader.feed(data)
            response = self._reader.end()
        except Malformed as error:
            raise network.malformed(self._name, error) from None
        if response is None:
            raise network.half_answer(self._name, self._reader.begun)
        return response

    def interrupt(self) -> None:
        """Ends the exchange that another thread waits for."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()


class Pool:
    """The connections to one host. Safe to share between threads, and empty again in a forked child."""

    def __init__(self, name: str, route: Route, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._route = route
        self._closed = False
        self._aborted = False
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[Connection] = deque()
        self._connections: set[Connection] = set()
        self._free = threading.Condition()
        self._open = 0
        self._waiting = 0

    def exchange(self, message: bytes) -> Response:
        """The answer to `message`, on an idle connection if there is one."""
        for _ in range(_SENDS):
            connection = self._take_idle() or self._wait()
            try:
                response = connection.exchange(message)
            except NotSent as broken:
                error = broken
                self._drop(connection)
                if not connection.used:
                    break
                self._close_idle()  # whatever ended this one has probably ended its neighbours
            except BaseException:  # an interrupt too: what is still to come would be read as the next one's answer
                self._drop(connection)
                raise
            else:
                self._give_back(connection, response)
                return response
        raise network.not_sent(self._name, error.__cause__) from error

    def _take_idle(self) -> Connection | None:
        """The connection that became idle last, if it is still of use."""
        if self._pid != os.getpid():
            self._begin()
        while True:
            try:
                connection = self._idle.pop()  # atomic, so that the usual way needs no lock
            except IndexError:
                return None
            if time.monotonic() - connection.idle_since < self._limits.idle_seconds and connection.alive():
                return connection
            self._drop(connection)

    def _wait(self) -> Connection:
        deadline = time.monotonic() + self._limits.pool_seconds
        with self._free:
            # Counted before the last look: whoever gives one back after it sees that someone waits.
            self._waiting += 1
            try:
                while True:
                    if self._closed:
                        raise network.closed(self._name)
                    connection = self._take_idle()
                    if connection is not None:
                        return connection
                    if self._open < self._limits.connections:
                        self._open += 1
                        break
                    if not self._free.wait(deadline - time.monotonic()):
                        raise network.busy(self._name, self._limits.connections, self._limits.pool_seconds)
            finally:
                self._waiting -= 1
        return self._dial()

    def _dial(self) -> Connection:
        try:
            sock = self._route.dial(self._limits.connect_seconds)
        except BaseException as error:
            self._forget()
            if isinstance(error, OSError | http.client.HTTPException | ValueError):
                raise network.unreachable(self._name, self._route, error) from error
            raise
        connection = Connection(self._name, sock, self._limits)
        self._connections.add(connection)
        if self._aborted:  # meanwhile
            connection.interrupt()
        return connection

    def _give_back(self, connection: Connection, response: Response) -> None:
        if not response.keep_alive or self._closed:
            self._drop(connection)
            return
        connection.used = True
        now = connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._closed:  # closed meanwhile, perhaps before this one was seen
            self._close_idle()
        if self._waiting:
            with self._free:
                self._free.notify()
        self._close_old(now)

    def _close_old(self, now: float) -> None:
        """The oldest stand on the left."""
        try:
            while now - self._idle[0].idle_since > self._limits.idle_seconds:
                self._drop(self._idle.popleft())
        except IndexError:
            return

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._connections.discard(connection)
        self._forget()

    def _forget(self) -> None:
        with self._free:
            self._open -= 1
            self._free.notify()

    def _close_idle(self) -> None:
        while True:
            try:
                self._drop(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Closes what is idle; what is busy is closed when its answer has come."""
        self._closed = True
        self._close_idle()
        with self._free:
            self._free.notify_all()

    def abort(self) -> None:
        """Closes, and ends the calls that are under way."""
        self._aborted = True
        self.close()
        for connection in list(self._connections):
            connection.interrupt()


P = TypeVar("P", bound="Closing")


class Closing(Protocol):
    def close(self) -> None: ...


class RemoteState(Generic[P]):
    """What the transports to an endpoint have in common: all but the waiting."""

    def __init__(
        self,
        endpoint: Endpoint,
        pool: Callable[[str, Route, Limits], P],
        credentials: CredentialSource | None,
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint
        is_other = not endpoint.is_amazons
        self.capabilities = Capabilities(local_order=is_other, tells_changes=is_other, tells_settings=not is_other)
        self._credentials = credentials or credentials_for(endpoint)
        self._messages = Messages(endpoint, now)
        items, streams, searches = self._messages.items, self._messages.streams, self._messages.searches
        self._pools = {items: pool(self.name, items.route, limits)}
        same = endpoint.streams == endpoint.host
        self._pools[streams] = self._pools[items] if same else pool(self.name, streams.route, limits)
        if searches is not items:
            self._pools[searches] = pool(self.name, searches.route, limits)

    def _close_pools(self) -> None:
        for pool in self._pools.values():
            pool.close()


class RemoteTransport(RemoteState[Pool]):
    """Calls one endpoint: one request a call, and another if a wrong clock or expired credentials were put right."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        credentials: CredentialSource | None = None,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(endpoint, Pool, credentials, limits, now)
        self._now = now

    def execute(self, operation: str, request: Request) -> Answer:
        messages = self._messages
        lane = messages.lane(operation)
        body = messages.body(request)
        credentials, skew = self._credentials.current(), messages.skew_seconds
        response = self._exchange(lane, operation, body, credentials)
        if response.status != 200 and self._correct(response, credentials, skew):
            response = self._exchange(lane, operation, body, self._credentials.current())
        return messages.answer(operation, response)

    def _exchange(self, lane: Lane, operation: str, body: bytes, credentials: Credentials) -> Response:
        return self._pools[lane].exchange(self._messages.message(lane, operation, body, credentials))

    def _correct(self, response: Response, credentials: Credentials, skew_seconds: float) -> bool:
        trouble = self._messages.trouble(response, skew_seconds)
        return trouble == "clock" or (trouble == "expired" and renewed(self._credentials, credentials))

    def changes(self) -> Changes | None:
        from penstock.client.transports.remote_changes import RemoteChanges  # which stands on this module

        changes = RemoteChanges(self.endpoint, self._credentials, self._now)
        return changes if changes.is_offered() else None

    def close(self) -> None:
        """Closes the connections; calls that are under way end as they would."""
        self._close_pools()

    def abort(self) -> None:
        """Closes the connections, and ends the calls that are under way."""
        for pool in self._pools.values():
            pool.abort()
