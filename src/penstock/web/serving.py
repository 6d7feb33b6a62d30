"""An ASGI application on a port, by uvicorn: until a signal, or in a thread for the length of a block."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.applications import Starlette

from penstock.errors import PenstockError
from penstock.server.server import listen, url_of
from penstock.web.patience import patient_protocol

CONNECTIONS: Final = 512
GRACE_SECONDS: Final = 10
_START_SECONDS: Final = 60

Told = Callable[[str], None]


def serve(
    app: Starlette,
    sockets: list[socket.socket],
    ready: Told = print,
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
def running(
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


def _server(app: Starlette, ready: Told, connections: int, grace_seconds: int, ending: Callable[[], None]) -> Any:
    import uvicorn  # start-up is timed, and most commands need none

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if sockets and not self.should_exit:
                ready(url_of(sockets[0]))

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            ending()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        http=patient_protocol(),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=connections,
        timeout_graceful_shutdown=grace_seconds,
    )
    return Announced(config)
