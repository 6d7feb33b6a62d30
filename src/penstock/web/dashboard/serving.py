"""The dashboard on a port. Open live pages do not hold up its end: their streams are closed first."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from starlette.applications import Starlette

from penstock.web.server import running, serve

_CONNECTIONS: Final = 2_000
_GRACE_SECONDS: Final = 3


def serve_dashboard(app: Starlette, sockets: list[socket.socket], ready: Callable[[str], None]) -> None:
    """Serves on what `penstock.server.server.listen` gave until a signal; `ready` is called with the URL."""
    close = app.state.hub.close
    serve(app, sockets, ready, connections=_CONNECTIONS, grace_seconds=_GRACE_SECONDS, ending=close)


def running_dashboard(app: Starlette, port: int = 0) -> AbstractContextManager[str]:
    """Serves in a thread on a port of this machine; the URL."""
    close = app.state.hub.close
    return running(app, port, connections=_CONNECTIONS, grace_seconds=_GRACE_SECONDS, ending=close)
