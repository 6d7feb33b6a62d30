"""An ASGI application on a port, by uvicorn: until a signal, or in a thread for the length of a block.

uvicorn waits for ever for a request that does not arrive whole, and every open connection counts against the limit. So
a connection is closed if no request comes for `REQUEST_SECONDS`, or if a request's body has not arrived by then. A
connection that is being answered stays open: pages follow their jobs over one answer that does not end.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.applications import Starlette

from penstock.errors import PenstockError
from penstock.server.server import listen, url_of

CONNECTIONS: Final = 512
GRACE_SECONDS: Final = 10
REQUEST_SECONDS: Final = 20.0
_START_SECONDS: Final = 60


def serve(
    app: Starlette,
    sockets: list[socket.socket],
    ready: Callable[[str], None] = print,
    *,
    connections: int = CONNECTIONS,
    grace_seconds: int = GRACE_SECONDS,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serves on what `penstock.server.server.listen` gave until a signal; `ready` is called with the URL.

    `ending` is called when it is to end, before it waits for what is under way.
    """
    try:
        _server(app, ready, connections, grace_seconds, ending).run(sockets)
    finally:
        for sock in sockets:
            sock.close()


@contextmanager
def running_app(
    app: Starlette,
    port: int = 0,
    *,
    connections: int = CONNECTIONS,
    grace_seconds: int = GRACE_SECONDS,
    ending: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Serves in a thread on a port of this machine; the URL."""
    sockets = listen("127.0.0.1", port)
    started = threading.Event()
    server = _server(app, lambda url: started.set(), connections, grace_seconds, ending)
    thread = threading.Thread(target=server.run, args=(sockets,), name="penstock-web", daemon=True)
    thread.start()
    try:
        if not started.wait(_START_SECONDS):
            raise PenstockError(f"The server has not started within {_START_SECONDS} s. See its log.")
        yield url_of(sockets[0])
    finally:
        server.should_exit = True
        thread.join(_START_SECONDS)
        for sock in sockets:
            sock.close()


def _server(
    app: Starlette, ready: Callable[[str], None], connections: int, grace_seconds: int, ending: Callable[[], None]
) -> Any:
    import uvicorn  # start-up is timed, and most commands need none

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if sockets and not self.should_exit:
                ready(url_of(sockets[0]))

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            ending()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http=_protocol(),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=grace_seconds,
    )
    return AnnouncingServer(config)


def _protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol for HTTP/1.1, whichever is installed, that closes connections as said above."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol  # uvicorn is imported when it is used

    base: Any = AutoHTTPProtocol

    class ClosingProtocol(base):  # type: ignore[misc]
        _seen: Any = None
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._check)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _check(self) -> None:
            """Has a request come since the last check, and has all of it arrived?"""
            asked = self.cycle
            is_answering = asked is not None and not asked.response_complete and not asked.more_body
            if asked is self._seen and not is_answering:
                self.transport.abort()
                return
            self._seen = asked
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._check)

    return ClosingProtocol
