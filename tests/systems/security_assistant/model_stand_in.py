"""A stand-in for an OpenAI-compatible endpoint: it answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What is sent: a status, a body as it is, and headers. `hang` sends nothing until the stand-in ends."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False


def says(content: Any, *, tokens: int | None = 100, finish: str = "stop", **message: Any) -> Reply:
    """An answer of the model; what is no text is JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    told: dict[str, Any] = {
        "choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}]
    }
    if tokens is not None:
        told["usage"] = {"prompt_tokens": tokens - 10, "completion_tokens": 10, "total_tokens": tokens}
    return Reply(body=json.dumps(told).encode())


Answering = Callable[[dict[str, Any]], Reply]


class StandIn:
    """`replies` are given in order; when there are none left, `answering` answers by the request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.replies: list[Reply] = []
        self.answering: Answering = lambda request: Reply(500)
        self.url = ""
        self.ended = threading.Event()

    def reset(self, *replies: Reply, answering: Answering | None = None) -> None:
        self.requests.clear()
        self.headers.clear()
        self.paths.clear()
        self.replies[:] = replies
        self.answering = answering or (lambda request: Reply(500))


@contextmanager
def stand_in() -> Iterator[StandIn]:
    made = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.requests.append(request)
            made.headers.append(dict(self.headers))
            made.paths.append(self.path)
            reply = made.replies.pop(0) if made.replies else made.answering(request)
            if reply.hang:
                made.ended.wait(30)
                return
            if reply.drop:
                self.connection.close()
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
