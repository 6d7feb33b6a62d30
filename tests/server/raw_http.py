"""What the server's tests stand on: a fake engine, and a client that sends exactly the bytes it is given."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from penstock.engine.engine import Pending
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError, ResourceNotFoundException

AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=" + "a" * 64
)
HEADERS = {
    "Host": "127.0.0.1",
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Date": "20260101T000000Z",
    "Authorization": AUTHORIZATION,
}


def until(condition: Callable[[], object]) -> None:
    """Waits for it; a machine that is busy gets the time that it needs."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class EchoEngine:
    """Answers every call with what it was asked, and remembers how calls were grouped.

    `Size` in a request asks for that many bytes; `Fail` for an error; `Sleep` for seconds in the engine.
    """

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.order: list[str] = []
        self.lock = threading.Lock()
        self.must_wait = False
        """Whether a PutItem would wait for another process."""

    def answer(self, operation: str, request: dict[str, Any], scope: Scope) -> bytes:
        time.sleep(request.get("Sleep", 0))
        with self.lock:
            self.order.append(f"{operation}:{request.get('Id')}")
        if "Fail" in request:
            raise ResourceNotFoundException(request["Fail"])
        if "Crash" in request:
            raise RuntimeError("a fault of the engine")
        echo = {"Operation": operation, "Request": request, "Account": scope.account, "Region": scope.region}
        echo["Filler"] = "x" * request.get("Size", 0)
        return json.dumps(echo).encode()

    def answer_many(self, calls: Sequence[Pending]) -> list[bytes | DynamoDBError]:
        self.groups.append(len(calls))
        return [self._one(call) for call in calls]

    def try_answer_many(self, calls: Sequence[Pending]) -> list[bytes | DynamoDBError] | None:
        if self.must_wait and any(call.operation == "PutItem" for call in calls):
            return None
        return self.answer_many(calls)

    def without_waiting(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _one(self, call: Pending) -> bytes | DynamoDBError:
        try:
            return self.answer(*call)
        except DynamoDBError as error:
            return error


def request(
    operation: str = "GetItem",
    body: bytes | dict[str, Any] | None = None,
    *,
    method: str = "POST",
    path: str = "/",
    version: str = "1.1",
    chunks: int = 0,
    drop: Sequence[str] = (),
    **headers: str,
) -> bytes:
    """The bytes of a request. Header names come as keywords: `Accept_Encoding="gzip"`."""
    sent = {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = json.dumps({} if body is None else body).encode() if not isinstance(body, bytes) else body
    if chunks:
        sent["Transfer-Encoding"] = "chunked"
        framed = b"".join(
            b"%x\r\n%b\r\n" % (len(data[at : at + chunks]), data[at : at + chunks])
            for at in range(0, len(data), chunks)
        )
        data = framed + b"0\r\n\r\n"
    elif method == "POST":
        sent["Content-Length"] = str(len(data))
    else:
        data = b""
    lines = [f"{method} {path} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in sent.items() if name not in drop]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        coding = self.headers.get("content-encoding")
        plain = {None: bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}[coding](self.body)
        return json.loads(plain)

    @property
    def error(self) -> str:
        return str(self.json()["__type"]).partition("#")[2]


class RawClient:
    """A socket that speaks in bytes and reads answers one by one."""

    def __init__(self, url: str, timeout: float = 60) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=timeout)
        self._buffer = b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.read()

    def read(self, bodiless: bool = False) -> Answer:
        head, _, self._buffer = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .+", first)
        assert match is not None, first
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if bodiless or match[1] == "100":
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = self._chunked()
        else:
            body = self._take(int(headers["content-length"]))
        return Answer(int(match[1]), headers, body)

    def at_end(self) -> bool:
        """Whether the server has closed the connection."""
        try:
            return not self._buffer and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        return self._buffer

    def _more(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError(f"the server closed the connection after {self._buffer!r}")
        self._buffer += data

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _chunked(self) -> bytes:
        body = b""
        while True:
            line, _, self._buffer = self._until(b"\r\n").partition(b"\r\n")
            part = self._take(int(line, 16) + 2)[:-2]
            if not part:
                return body
            body += part
