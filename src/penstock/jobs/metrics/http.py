"""`GET /metrics` and `GET /healthz` of a worker: on this machine only, one request at a time.

1. It listens on 127.0.0.1. A request that names another host is refused: a web page whose name was made to resolve to
   this machine cannot read it.
2. A client that does not send its request within SECONDS is cut off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.errors import PenstockError
from penstock.jobs.metrics.instruments import CONTENT_TYPE
from penstock.server.auth.authorization import is_loopback

SECONDS: Final = 5.0


@contextmanager
def metrics_server(port: int, text: Callable[[], str], is_healthy: Callable[[], bool]) -> Iterator[int]:
    """Serves in a thread for the length of a block; the port, which is chosen where it is 0."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS
        server_version = "penstock"
        sys_version = ""

        def do_GET(self) -> None:
            if not is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""):
                self._answer(400, "text/plain", "This server is known as 127.0.0.1 and localhost.\n")
            elif self.path == "/metrics":
                self._answer(200, CONTENT_TYPE, text())
            elif self.path == "/healthz":
                healthy = is_healthy()
                self._answer(200 if healthy else 503, "application/json", _HEALTH[healthy])
            else:
                self._answer(404, "text/plain", "There are /metrics and /healthz.\n")

        def _answer(self, status: int, kind: str, body: str) -> None:
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: a scrape every few seconds is no news."""

    try:
        server = HTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        raise PenstockError(
            f"Port {port} cannot be used for metrics ({error}): choose another --metrics-port."
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="penstock-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


_HEALTH: Final = {
    True: '{"status":"ok","database":"answers"}\n',
    False: '{"status":"unavailable","database":"does not answer"}\n',
}
