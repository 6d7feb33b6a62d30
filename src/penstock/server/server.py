"""Starting and stopping: in the foreground (`serve`), or in a thread (`running_server`).

1. The server is ready when its socket listens; only then is its URL told.
2. A first SIGTERM or SIGINT stops accepting, answers what has begun, and ends; a second ends at once.
3. Whoever made the engine closes it, after the server has stopped.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.settings import DEFAULT_SCOPE, Scope
from penstock.errors import PenstockError
from penstock.server.change_waits import MOST_WAITS, ChangeWaits
from penstock.server.connection import Connection
from penstock.server.connection_limits import ConnectionLimits, allow_connections, most_connections
from penstock.server.group_commit import AnswersCalls, GroupCommit
from penstock.server.replies import Replies
from penstock.server.routing import LargeBodies, Router

if TYPE_CHECKING:
    from penstock.server.auth.signature import Verifier

DEFAULT_PORT = 8000
GRACE_SECONDS = 10.0  # for what has begun, after a first signal
_ACCEPT_BACKLOG = 1024
_TURN_SECONDS = 0.0005


class AddressError(PenstockError):
    """The server cannot listen at this address: it says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a server behaves.

    `secrets` are the access keys whose signatures are checked; None checks none. Then only web pages of this machine
    may call, and those of `origins`.
    """

    per_account: bool = False
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    scope: Scope = DEFAULT_SCOPE
    now: Callable[[], float] = field(default=time.time)
    origins: tuple[str, ...] = ()


class Server:
    """An engine behind listening sockets, on one event loop."""

    def __init__(self, engine: AnswersCalls, sockets: list[socket.socket], options: Options) -> None:
        self.tick = 0
        self.stopping = False
        self.replies = Replies()
        self.router = Router(
            _operations(),
            verifier=_verifier(options.secrets),
            per_account=options.per_account,
            scope=options.scope,
            now=options.now,
            heat=_heat(engine),
            origins=options.origins,
            tells_changes=hasattr(engine, "changes"),
        )
        self._engine = engine
        self._sockets = sockets
        self.limits = ConnectionLimits(most_connections())
        self._listeners: list[asyncio.Server] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.group_commit = GroupCommit(self._engine, loop)
        self.large_bodies = LargeBodies(self.router, self.group_commit.answer_of, loop)
        self.change_waits = ChangeWaits(self._engine, loop, min(MOST_WAITS, self.limits.most // 2))
        for sock in self._sockets:
            listener = await loop.create_server(lambda: Connection(self), sock=sock, backlog=_ACCEPT_BACKLOG)
            self._listeners.append(listener)
        self._timer = loop.call_later(1.0, self._tick)

    def _tick(self) -> None:
        self.tick += 1
        self.replies.refresh(time.time())
        self.limits.sweep(self.tick)
        self._timer = asyncio.get_running_loop().call_later(1.0, self._tick)

    async def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Answers what has begun, for at most the grace; then ends what is left."""
        self.stopping = True
        for listener in self._listeners:
            listener.close()
        empty = asyncio.Event()
        self.limits.admit_no_more(empty.set)
        for connection in self.limits:
            connection.stop()
        self.change_waits.stop()
        if self.limits and grace_seconds > 0:
            await _within(empty, grace_seconds)
        for connection in self.limits:
            connection.abort()
        self._timer.cancel()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.change_waits.join)
        await loop.run_in_executor(None, self.group_commit.close)
        await loop.run_in_executor(None, self.large_bodies.close)


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _verifier(secrets: Mapping[str, str] | None) -> Verifier | None:
    if secrets is None:
        return None
    from penstock.server.auth.signature import Verifier  # seldom needed, and start is timed

    return Verifier(secrets)


def _heat(engine: AnswersCalls) -> Callable[[], bytes] | None:
    """What `penstock heat --db` asks for; None where the engine does not count it."""
    simulation = getattr(engine, "simulation", None)
    if simulation is None:
        return None
    import orjson

    return lambda: orjson.dumps(simulation.heat_report())


def _operations() -> Iterable[str]:
    from penstock.engine.registry import OPERATIONS

    return tuple(OPERATIONS)


# ── addresses ──


def listen(host: str, port: int) -> list[socket.socket]:
    """Bound sockets for every address of `host`, all with one port; raises AddressError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError, OverflowError) as error:
        raise AddressError(f"There is no host {host!r} to listen on ({error}). Try --host 127.0.0.1.") from error
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            chosen = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_bind(family, kind, protocol, (address[0], chosen, *address[2:])))
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise AddressError(_why_not(host, port, error)) from error
    return sockets


def _bind(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_REUSEADDR"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_ACCEPT_BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is taken: another server is listening there. "
            f"Stop it, or choose another port: --port {port + 1 if port < 65535 else 0} "
            "(--port 0 picks a free one)."
        )
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs privileges. Choose one above 1023, such as --port 8000."
    return f"Cannot listen on {host} port {port}: {error.strerror or error}."


def url_of(sock: socket.socket) -> str:
    """The URL by which a client on this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# ── loops ──


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def serve(
    engine: AnswersCalls,
    sockets: list[socket.socket],
    options: Options | None = None,
    ready: Callable[[str], None] = print,
) -> None:
    """Serves on what `listen` gave until a signal, having called `ready` with the URL.

    A second signal ends the process at once, with 1.
    """
    allow_connections()
    loop = new_loop()
    asyncio.set_event_loop(loop)
    try:
        server = Server(engine, sockets, options or Options())
        loop.run_until_complete(_until_signal(server, loop, lambda: ready(url_of(sockets[0]))))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _until_signal(server: Server, loop: asyncio.AbstractEventLoop, ready: Callable[[], None]) -> None:
    signalled = asyncio.Event()

    def on_signal() -> None:
        if signalled.is_set():
            # Nothing is lost by it: what was acknowledged is in the file.
            os._exit(1)
        signalled.set()

    _on_signals(loop, on_signal)
    await server.start()
    _settle_memory()
    _share_the_interpreter()
    ready()
    await signalled.wait()
    await server.stop()


def _on_signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, on_signal)
        except NotImplementedError:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(on_signal))


def _share_the_interpreter() -> None:
    """Has a thread with a heavy call give way sooner: the event loop asks for its turn several times an answer."""
    sys.setswitchinterval(_TURN_SECONDS)


def _settle_memory() -> None:
    """Takes what was made at start out of the collector's sight: it lives as long as the process.

    What little of it is garbage stays, too: to look for it would take a twentieth of the start.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)


class ServerThread:
    """A server in a thread of its own, for tests. `url` is set once it is started."""

    def __init__(
        self,
        engine: AnswersCalls,
        host: str = "127.0.0.1",
        port: int = 0,
        options: Options | None = None,
    ) -> None:
        self.engine = engine
        self._sockets = listen(host, port)
        self.url = url_of(self._sockets[0])
        self._server = Server(engine, self._sockets, options or Options())
        self._loop = new_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-server", daemon=True)

    def start(self) -> None:
        """Returns when the server answers."""
        self._thread.start()
        self._ready.wait()

    def stop(self, grace_seconds: float = 2.0) -> None:
        """Answers what has begun, for at most the grace. The engine stays open."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._server.stop(grace_seconds), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.start())
            self._ready.set()
            self._loop.run_forever()
        finally:
            self._loop.close()


@contextmanager
def running_server(
    engine: AnswersCalls, host: str = "127.0.0.1", port: int = 0, options: Options | None = None
) -> Iterator[ServerThread]:
    """A running server for the length of a block: `with running_server(engine) as server: … server.url`."""
    server = ServerThread(engine, host, port, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
