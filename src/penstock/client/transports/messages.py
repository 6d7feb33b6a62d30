"""DynamoDB's JSON protocol without I/O, shared by threads and asyncio: calls to bytes, bytes to responses and answers.

1. A request is JSON in one `POST`, its target in a header, signed; the checksum of an answer is looked at.
2. DynamoDB's errors become the classes of `penstock.errors`; everything else that is no answer a TransportError.
3. If the server says that our clock is wrong, its own `Date` is believed from then on.
4. A reader raises `Malformed` for bytes that are no response, and never waits: more bytes, or the end, are given to it.
5. Headers and bodies have limits; nothing a server sends makes a reader keep more.
"""

from __future__ import annotations

import http.client
import io
import re
import time
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple, Protocol

import orjson

from penstock.client.transports.base import STREAMS_OPERATIONS, Answer, Request
from penstock.client.transports.credentials import CONTENT_TYPE, Credentials, CredentialSource, Signer
from penstock.client.transports.endpoints import Endpoint, Host
from penstock.client.transports.network import Route
from penstock.errors import (
    BadAnswer,
    DynamoDBError,
    NotDynamoDB,
    SerializationException,
    TransportError,
    UnknownOperationException,
    error_of,
)

HEAD_BYTES = 64 * 1024
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_CHUNK_LINE_BYTES = 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?![0-9A-Fa-f])")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)


class Malformed(Exception):
    """The bytes are not an HTTP/1.1 response, or too many."""


class Response(NamedTuple):
    """`headers` by their names in lower case; of a name that stands twice, the last."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    keep_alive: bool


class Reader(Protocol):
    def feed(self, data: bytes | memoryview) -> Response | None:
        """The response once it is whole. After it, the reader is ready for the next."""
        ...

    def end(self) -> Response | None:
        """What the end of the connection means: the end of a body without a length, or None for half a response."""
        ...

    @property
    def begun(self) -> bool:
        """Whether any byte of a response has come."""
        ...


class FastReader:
    """Listens to one httptools parser for the life of a connection."""

    def __init__(self, limit_bytes: int) -> None:
        import httptools

        self._parser = httptools.HttpResponseParser(self)
        self._errors = (httptools.HttpParserError, httptools.HttpParserUpgrade)
        self._limit = limit_bytes
        self._clear()

    def _clear(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._in_body = False
        self._begun = False
        self._response: Response | None = None

    @property
    def begun(self) -> bool:
        return self._begun

    def feed(self, data: bytes | memoryview) -> Response | None:
        self._begun = True
        self._size += len(data)
        if self._size > (self._limit if self._in_body else HEAD_BYTES + self._limit):
            raise Malformed("it is longer than any answer of DynamoDB's")
        try:
            self._parser.feed_data(data)
        except self._errors as error:
            if self._response is None:
                raise Malformed(str(error) or "no HTTP response") from None
            self._response = self._response._replace(keep_alive=False)
        response = self._response
        if response is None:
            if not self._in_body and self._size > HEAD_BYTES:
                raise Malformed("its headers are too long")
            return None
        self._clear()
        return response

    def end(self) -> Response | None:
        unbounded = b"content-length" not in self._headers and b"transfer-encoding" not in self._headers
        if self._in_body and unbounded and self._response is None:
            return self._whole(keep_alive=False)
        return None

    def _whole(self, keep_alive: bool) -> Response:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        return Response(self._parser.get_status_code(), self._headers, body, keep_alive)

    # ── what the parser calls ──

    def on_message_begin(self) -> None:
        if self._response is not None:  # more than was asked for: this connection is out of step
            self._response = self._response._replace(keep_alive=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is None:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        if self._response is None:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._response is not None:
            return
        if self._parser.get_status_code() < 200:  # "100 Continue" and its like come before the answer
            self._headers = {}
            self._in_body = False
        else:
            self._response = self._whole(self._parser.should_keep_alive())


class PlainReader:
    """Keeps the bytes until they are a whole response, and lets http.client read that."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._body_at = 0
        self._needed: int | None = None
        self._chunked = False
        self._chunk_at = 0

    @property
    def begun(self) -> bool:
        return bool(self._buffer)

    def feed(self, data: bytes | memoryview) -> Response | None:
        self._buffer += data
        if len(self._buffer) > self._limit + HEAD_BYTES:
            raise Malformed("it is longer than any answer of DynamoDB's")
        if not self._body_at and not self._head():
            return None
        if self._chunked:
            return self._parsed() if self._has_last_chunk() else None
        if self._needed is not None and len(self._buffer) >= self._needed:
            return self._parsed()
        return None

    def end(self) -> Response | None:
        if self._body_at and not self._chunked and self._needed is None:
            return self._parsed(keep_alive=False)
        return None

    def _head(self) -> bool:
        """Whether the headers are whole; notes what they say about the body."""
        while True:
            if not b"HTTP/1."[: len(self._buffer)] == self._buffer[:7]:
                raise Malformed("no HTTP response")
            end = self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES)
            if end < 0:
                if len(self._buffer) >= HEAD_BYTES:
                    raise Malformed("its headers are too long")
                return False
            if self._buffer[8:10] != b" 1":
                break
            del self._buffer[: end + 4]  # "100 Continue" and its like come before the answer
            if not self._buffer:
                return False
        head = bytes(self._buffer[: end + 4])
        self._body_at = end + 4
        self._chunked = bool(_CHUNKED.search(head))
        self._chunk_at = self._body_at
        length = _LENGTH.search(head)
        bodiless = bytes(self._buffer[9:12]) in (b"204", b"304")
        if length or bodiless:
            self._needed = self._body_at + (int(length.group(1)) if length and not bodiless else 0)
        return True

    def _has_last_chunk(self) -> bool:
        """Whether all chunks are there; goes on at the one where it stopped, so that each is looked at once."""
        while self._chunk_at < len(self._buffer):
            line_end = self._buffer.find(b"\r\n", self._chunk_at, self._chunk_at + _CHUNK_LINE_BYTES)
            if line_end < 0:
                if len(self._buffer) - self._chunk_at >= _CHUNK_LINE_BYTES:
                    raise Malformed("the line of a chunk is too long")
                return False
            size = _CHUNK_SIZE.match(self._buffer, self._chunk_at, line_end)
            if size is None:
                raise Malformed("a chunk without a size")
            length = int(size[1], 16)
            if length == 0:
                return self._buffer.find(b"\r\n\r\n", line_end, line_end + HEAD_BYTES) >= 0
            self._chunk_at = line_end + length + len(b"\r\n\r\n")
        return False

    def _parsed(self, keep_alive: bool = True) -> Response | None:
        whole = _Bytes(bytes(self._buffer))
        response = http.client.HTTPResponse(whole, method="POST")  # type: ignore[arg-type]
        try:
            response.begin()
            body = response.read()
        except http.client.IncompleteRead:
            return None
        except (http.client.HTTPException, ValueError, OSError) as error:
            raise Malformed(f"{type(error).__name__}: {error}"[:200]) from None
        headers = {name.lower().encode("latin-1"): text.encode("latin-1") for name, text in response.getheaders()}
        used = self._needed or len(self._buffer)
        keep = keep_alive and not response.will_close and used == len(self._buffer)
        self.__init__(self._limit)  # type: ignore[misc]
        return Response(response.status, headers, body, keep)


class _Bytes:
    """A socket, as far as http.client reads one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def new_reader(limit_bytes: int) -> Reader:
    """The fastest that is installed."""
    return _KIND(limit_bytes)


def _kind() -> Callable[[int], Reader]:
    try:
        import httptools  # noqa: F401
    except ImportError:
        return PlainReader
    return FastReader


_KIND = _kind()


SKEW_SECONDS = 240.0  # AWS allows 300 to 900, by service; less is no reason to distrust our own clock
_CHECKSUM = re.compile(rb"[0-9]{1,10}")
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")
_OPERATION = re.compile(r"[A-Za-z0-9_]{1,100}")
_SKEW_CODES = frozenset(
    {
        "AuthFailure",
        "InvalidSignatureException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException"})
_CREDENTIAL_CODES = _SKEW_CODES | _EXPIRED_CODES | {"UnrecognizedClientException", "InvalidClientTokenId"}
WAIT_FOR_CHANGES = "WaitForChanges"
"""The one operation that is Penstock's own (remote_changes.py)."""
_EMPTY_ANSWERS = frozenset({"TagResource", "UntagResource"})
_MAX_UNPACKED = 64 * 1024 * 1024
_SPOKEN = {429: "too many requests", 502: "bad gateway", 503: "unavailable", 504: "gateway timeout"}

Trouble = Literal["clock", "expired"]


class Lane:
    """One of the hosts of an endpoint (items, searches, streams): its route, and its requests."""

    def __init__(self, name: str, host: Host, region: str, prefix: str) -> None:
        self.route = Route.to(name, host)
        self._prefix = prefix
        self._signer = Signer(host.authority, region, host.path)
        self._heads: dict[str, tuple[str, str]] = {}

    def message(self, operation: str, body: bytes, now: float, credentials: Credentials) -> bytes:
        """The bytes of a signed request."""
        known = self._heads.get(operation)
        if known is None:
            known = self._heads[operation] = self._head(operation)
        target, head = known
        signed = self._signer.headers(target, body, now, credentials)
        return f"{head}{signed}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body

    def _head(self, operation: str) -> tuple[str, str]:
        """(target, the part of the request that is the same each time)."""
        if not _OPERATION.fullmatch(operation):
            raise UnknownOperationException(f"{operation[:100]!r} is no operation")
        target = f"{'Penstock' if operation == WAIT_FOR_CHANGES else self._prefix}.{operation}"
        return target, (
            f"{self.route.first_line}\r\nHost: {self.route.host.authority}\r\n{self.route.proxy_header}"
            "User-Agent: penstock\r\nAccept-Encoding: identity\r\n"
            f"Content-Type: {CONTENT_TYPE}\r\nX-Amz-Target: {target}\r\n"
        )


class Messages:
    """What is said to one endpoint, and what its answers mean."""

    def __init__(self, endpoint: Endpoint, now: Callable[[], float] = time.time) -> None:
        self.endpoint = endpoint
        self.items = Lane(endpoint.name, endpoint.host, endpoint.region, "DynamoDB_20120810")
        self.searches = self.items
        if endpoint.search != endpoint.host:
            self.searches = Lane(endpoint.name, endpoint.search, endpoint.region, "DynamoDB_20120810")
        self.streams = Lane(endpoint.name, endpoint.streams, endpoint.region, "DynamoDBStreams_20120810")
        self.skew_seconds = 0.0  # of the server's clock, as far as it has told; added to ours
        self._now = now

    def lane(self, operation: str) -> Lane:
        if operation == "SearchVectors":
            return self.searches
        return self.streams if operation in STREAMS_OPERATIONS else self.items

    @staticmethod
    def body(request: Request) -> bytes:
        try:
            return orjson.dumps(request)
        except TypeError as error:  # orjson's error is one
            raise SerializationException(f"The request cannot be written as JSON: {error}") from error

    def message(self, lane: Lane, operation: str, body: bytes, credentials: Credentials) -> bytes:
        return lane.message(operation, body, self._now() + self.skew_seconds, credentials)

    def answer(self, operation: str, response: Response) -> Answer:
        """The answer in DynamoDB's JSON; raises DynamoDBError or TransportError."""
        status, headers, body, _ = response
        checksum = headers.get(b"x-amz-crc32")
        if checksum is not None and _CHECKSUM.fullmatch(checksum) and int(checksum) != zlib.crc32(body):
            raise self._bad("the answer's checksum is wrong: it was changed on its way")
        if b"content-encoding" in headers:
            body = self._unpacked(headers[b"content-encoding"], body)
        if status == 200:
            return self._parsed(operation, headers, body)
        raise self._error(status, headers, body)

    def _parsed(self, operation: str, headers: dict[bytes, bytes], body: bytes) -> Answer:
        if not body and operation in _EMPTY_ANSWERS:
            return {}
        try:
            answer = orjson.loads(body)
        except ValueError:
            answer = None
        if type(answer) is not dict:
            raise self._foreign(200, headers, body)
        return answer

    def _unpacked(self, encoding: bytes, body: bytes) -> bytes:
        name = encoding.strip().lower()
        if name == b"identity" or not body:
            return body
        if name not in (b"gzip", b"deflate"):
            raise self._bad(f"the answer has an unknown encoding {encoding[:40]!r}")
        try:
            # 32 finds out by itself which of the two it is
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
            unpacked = unpacker.decompress(body, _MAX_UNPACKED)
        except zlib.error as error:
            raise self._bad(f"the answer cannot be unpacked ({error})") from None
        if not unpacker.eof:
            raise self._bad("the answer cannot be unpacked whole")
        return unpacked

    # ── errors ──

    def _error(self, status: int, headers: dict[bytes, bytes], body: bytes) -> DynamoDBError | TransportError:
        content = _json_object(body)
        code = _code(content, headers)
        if not code:
            return self._foreign(status, headers, body)
        message = content.pop("message", None) or content.pop("Message", None) or ""
        fields = {name: part for name, part in content.items() if name not in ("__type", "code", "message", "Message")}
        error = error_of(code, message if isinstance(message, str) else str(message), status, fields)
        self._annotate(error)
        return error

    def _annotate(self, error: DynamoDBError) -> None:
        """DynamoDB's words do not say who spoke them; where that matters, a note does."""
        endpoint, code = self.endpoint, error.code
        if code in _EXPIRED_CODES:
            error.add_note(f"{endpoint.name}: the credentials have expired. Sign in again (aws sso login).")
        elif code in _CREDENTIAL_CODES:
            error.add_note(
                f"{endpoint.name}: the credentials or the region {endpoint.region} were not accepted. "
                "Check AWS_ACCESS_KEY_ID, AWS_PROFILE and AWS_REGION."
            )
        elif code == "ResourceNotFoundException":
            error.add_note(f"{endpoint.name}: asked in region {endpoint.region}. Check the name, region and account.")

    def _foreign(self, status: int, headers: dict[bytes, bytes], body: bytes) -> TransportError:
        """An answer in which DynamoDB says nothing."""
        kind = headers.get(b"content-type", b"").decode("latin-1")[:60].partition(";")[0] or "no content type"
        what = f"HTTP {status}" + (f" {_SPOKEN[status]}" if status in _SPOKEN else "")
        begins = f", beginning {body[:60].decode('utf-8', 'replace')!r}" if body else ", and no body"
        if status >= 500 or status == 429:
            return self._bad(f"it answered {what} ({kind}{begins})", "Repeat the call; look at the server's log.")
        if 300 <= status < 400:
            place = headers.get(b"location", b"another place")[:200].decode("latin-1")
            return NotDynamoDB(self.endpoint.name, f"it answered {what}, a redirect to {place}", "Check the URL.")
        return NotDynamoDB(
            self.endpoint.name,
            f"it answered {what} that is not DynamoDB's ({kind}{begins})",
            "Check the URL: host, port and path of a DynamoDB endpoint.",
        )

    def _bad(self, reason: str, next_step: str = "Repeat the call.") -> BadAnswer:
        return BadAnswer(self.endpoint.name, reason, next_step, sent=True)

    # ── what can be put right ──

    def trouble(self, response: Response, skew_seconds: float) -> Trouble | None:
        """Why a refused call, signed with this skew, may do better at once: a wrong clock, or expired credentials."""
        content = _json_object(response.body)
        code = _code(content, response.headers)
        if code in _EXPIRED_CODES:
            return "expired"
        return "clock" if code in _SKEW_CODES and self._set_clock(response, skew_seconds) else None

    def _set_clock(self, response: Response, skew_seconds: float) -> bool:
        """Believes the server's date if it is far from the one that was signed."""
        try:
            theirs = parsedate_to_datetime(response.headers[b"date"].decode("latin-1")).timestamp()
        except (LookupError, TypeError, ValueError, OverflowError):
            return False
        skew = theirs - self._now()
        if abs(skew - skew_seconds) <= SKEW_SECONDS:
            return False
        self.skew_seconds = skew
        return True


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        content = orjson.loads(body)
    except ValueError:
        return {}
    return content if type(content) is dict else {}


def _code(content: dict[str, Any], headers: dict[bytes, bytes]) -> str:
    """The error's code, without the namespace before it and the URL after it."""
    given = content.get("__type") or content.get("code") or headers.get(b"x-amzn-errortype", b"").decode("latin-1")
    code = given.rpartition("#")[2].partition(":")[0].strip() if isinstance(given, str) else ""
    return code if _CODE.fullmatch(code) else ""


def renewed(source: CredentialSource, refused: Credentials) -> bool:
    """Whether looking again found other credentials."""
    try:
        return source.renew(refused)
    except TransportError:
        return False  # the server's own words say more
