"""The dashboard on a port. Open live pages do not hold up its end: their streams are closed first."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.applications import Starlette

from penstock.errors import PenstockError
from penstock.server.run import listen, url_of

_CONNECTIONS: Final = 2_000
_GRACE_SECONDS: Final = 3
_START_SECONDS: Final = 60


def serve_dashboard(app: Starlette, sockets: list[socket.socket], ready: Callable[[str], None]) -> None:
    """Serves on what `penstock.server.run.listen` gave until a signal; `ready` is called with the URL."""
    try:
        _server(app, ready).run(sockets)
    finally:
        for sock in sockets:
            sock.close()


@contextmanager
def running_dashboard(app: Starlette, port: int = 0) -> Iterator[str]:
    """Serves in a thread on a port of this machine; the URL."""
    sockets = listen("127.0.0.1", port)
    started = threading.Event()
    server = _server(app, lambda url: started.set())
    thread = threading.Thread(target=server.run, args=(sockets,), name="penstock-dashboard", daemon=True)
    thread.start()
    try:
        if not started.wait(_START_SECONDS):
            raise PenstockError(f"The dashboard has not started within {_START_SECONDS} s. See its log.")
        yield url_of(sockets[0])
    finally:
        server.should_exit = True
        thread.join(_START_SECONDS)
        for sock in sockets:
            sock.close()


def _server(app: Starlette, ready: Callable[[str], None]) -> Any:
    import uvicorn  # start-up is timed, and most commands need none

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if sockets and not self.should_exit:
                ready(url_of(sockets[0]))

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.hub.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return Announced(config)
