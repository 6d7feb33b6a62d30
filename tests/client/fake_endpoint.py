"""A TCP server on loopback that says what a test tells it to, and callers that all must bear it."""

from __future__ import annotations

import asyncio
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import orjson

from penstock.client.transports import endpoints
from penstock.client.transports.async_http import AsyncRemoteTransport
from penstock.client.transports.base import Limits
from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.http import RemoteTransport

AMPLE = Limits(connections=4, connect_seconds=20, read_seconds=20, pool_seconds=20)
SHORT = Limits(connections=4, connect_seconds=20, read_seconds=0.3, pool_seconds=20)  # where no answer is to come
GET = ("GetItem", {"TableName": "jobs", "Key": {"id": {"S": "a"}}})


class Incoming:
    """One accepted connection, `number` counting from 0."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.request = b""

    def read_request(self) -> bytes | None:
        """The next request, head and body; None at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.sock.recv(65536)
            if not part:
                return None
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += self.sock.recv(65536)
        self.request = head + b"\r\n\r\n" + body
        return self.request

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)


def answer(body: object = None, status: int = 200, **headers: str) -> bytes:
    """A response of DynamoDB's, with its checksum unless told otherwise."""
    raw = body if isinstance(body, bytes) else orjson.dumps({} if body is None else body)
    lines = {
        "content-type": "application/x-amz-json-1.0",
        "content-length": str(len(raw)),
        "x-amz-crc32": str(zlib.crc32(raw)),
    }
    lines |= {name.replace("_", "-"): text for name, text in headers.items()}
    head = "".join(f"{name}: {text}\r\n" for name, text in lines.items() if text)
    return f"HTTP/1.1 {status} Because\r\n{head}\r\n".encode() + raw


class FakeEndpoint:
    """Runs `script` on each connection, in a thread; `requests` are those read by it."""

    def __init__(self, script: Callable[[Incoming], None], context: Any = None, host: str = "127.0.0.1") -> None:
        self._script = script
        self._context = context
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = self._listener.getsockname()[1]
        scheme = "https" if context else "http"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.connections: list[Incoming] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.settimeout(5)
                threading.Thread(target=self._run, args=(sock, len(self.connections)), daemon=True).start()

    def _run(self, sock: socket.socket, number: int) -> None:
        with suppress(OSError):
            if self._context:
                sock = self._context.wrap_socket(sock, server_side=True)
            incoming = Incoming(sock, number)
            self.connections.append(incoming)
            self._script(incoming)
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()

    def close(self) -> None:
        # Closing alone does not wake a thread in accept().
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@contextmanager
def fake(script: Callable[[Incoming], None], **options: Any) -> Iterator[FakeEndpoint]:
    server = FakeEndpoint(script, **options)
    try:
        yield server
    finally:
        server.close()


def always(*responses: bytes) -> Callable[[Incoming], None]:
    """Answers each request of a connection with the next of these, the last one again and again."""

    def script(incoming: Incoming) -> None:
        left = list(responses)
        while incoming.read_request() is not None:
            incoming.send(left.pop(0) if len(left) > 1 else left[0])

    return script


def endpoint_of(url: str, **environment: str) -> Endpoint:
    target = endpoints.parse(url, environment)
    assert isinstance(target, Endpoint)
    return target


class Waiting:
    """An AsyncRemoteTransport with a blocking `execute`, so that one test serves both."""

    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None

    def __init__(self, *given: Any, **options: Any) -> None:
        self._runner = asyncio.Runner(loop_factory=self.loop_factory)
        self.inner = AsyncRemoteTransport(*given, **options)
        self.name = self.inner.name

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        return self._runner.run(self.inner.execute(operation, request))

    def close(self) -> None:
        self._runner.run(self.inner.close())
        self._runner.close()


@contextmanager
def calling(kind: Any, url: str | Endpoint, limits: Limits = AMPLE, **options: Any) -> Iterator[Any]:
    transport = kind(url if isinstance(url, Endpoint) else endpoint_of(url), limits=limits, **options)
    try:
        yield transport
    finally:
        transport.close()


KINDS: dict[str, Any] = {"threads": RemoteTransport, "asyncio": Waiting}
with suppress(ImportError):
    import uvloop

    KINDS["uvloop"] = type("WaitingOnUvloop", (Waiting,), {"loop_factory": staticmethod(uvloop.new_event_loop)})
