"""Which operation a request means, or which refusal DynamoDB would give; large bodies are routed beside the event loop.

1. DynamoDB's order: method and path, content type, JSON, target, authorization, empty body. Tests of dynalite, which
   were run against AWS, show it.
2. Each list, map and comma of a JSON text becomes a value in memory, of fifty bytes and more. A parser that has begun
   cannot be interrupted, and holds the interpreter: what would become too many values is not parsed. What is within a
   string is not counted. The text is read once, a piece at a time: the time grows with its length whatever stands in
   it, other threads have their turn between two pieces, and a piece's parts are all that is in memory.
3. What unpacks, parses and carries out a large body is a thread: the event loop answers others meanwhile. Only the
   parser itself holds the interpreter, for 0.4 s at the longest: 16 MB of small values, the most that `MOST_TOKENS`
   lets pass.
4. One large body at a time is more than bytes. It is forgotten when its call has been answered.
5. Bodies that wait for their turn count as held (connection_limits.py, 3).
6. A body that was packed and is small after all is called as any other, and waits for no large one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from penstock.engine.engine import Pending
from penstock.engine.registry import Answer
from penstock.engine.settings import DEFAULT_SCOPE, Scope
from penstock.errors import DynamoDBError, SerializationException, UnknownOperationException
from penstock.server.auth import authorization
from penstock.server.auth.authorization import EVERY, Headers, Origins
from penstock.server.replies import FAULT, JSON, JSON_10, TEXT, TOO_LARGE, BodyTooLarge, Reply, error_body, unpack
from penstock.wire.limits import REQUEST_BYTES

if TYPE_CHECKING:
    from penstock.server.auth.signature import Verifier

STREAMS = frozenset({"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"})
WAIT_FOR_CHANGES: Final = "WaitForChanges"
"""The one operation that is not DynamoDB's (change_waits.py): authorised as the others are."""
# These may take long, so they run beside the event loop, not on it.
HEAVY = frozenset(
    {
        "Scan",
        "SearchVectors",
        "BatchGetItem",
        "TransactGetItems",
        "DescribeTable",  # counts items
        "CreateTable",
        "UpdateTable",
        "DeleteTable",
        "CreateBackup",
        "DeleteBackup",
        "RestoreTableFromBackup",
        "RestoreTableToPointInTime",
        "UpdateContinuousBackups",
        "UpdateTimeToLive",
        "ExecuteStatement",
        "BatchExecuteStatement",
        "ExecuteTransaction",
        WAIT_FOR_CHANGES,
    }
)
# DynamoDB answers these with no body, not even an empty object.
SILENT = frozenset({"TagResource", "UntagResource"})
LARGE_BYTES: Final = 1024 * 1024  # of a body that is looked at before it is parsed: a smaller one takes 20 ms at most
HEAVY_BYTES: Final = 128 * 1024  # of a body whose call may take as long as forty others
HEAVY_TRANSACTION_BYTES: Final = 16 * 1024  # it may have a hundred conditions
MOST_TOKENS: Final = REQUEST_BYTES // 3
"""Brackets, braces and commas of a body that holds items or values: `{"L":[]},` is the densest that DynamoDB takes."""
MOST_TOKENS_OF_OTHERS: Final = 100_000
_HOLD_VALUES: Final = frozenset(
    {
        "PutItem",
        "UpdateItem",
        "DeleteItem",
        "BatchWriteItem",
        "TransactWriteItems",
        "Query",
        "Scan",
        "ExecuteStatement",
        "BatchExecuteStatement",
        "ExecuteTransaction",
    }
)
_FEW_ITEMS = 10
_MAY_BE_COSTLY = frozenset({"Query", "GetItem"})
_REMEMBERED = 1024
_PREFLIGHT_SECONDS = b"172800"
_NOT_FOUND = Reply(404, b"<UnknownOperationException/>\n", content_type=b"")


class Refused(Exception):
    """Answered without the engine."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class Target:
    """An operation as the X-Amz-Target header names it."""

    operation: str
    heavy: bool
    may_be_costly: bool
    """Heavy only where `is_costly` says so of the request."""
    heavy_bytes: int
    """Heavy where its body has more."""
    silent: bool
    most_tokens: int
    """That its body may have, if it is large."""


class Routed(NamedTuple):
    """A request that the engine is to answer."""

    target: Target
    call: Pending
    size: int
    """Of the body that was parsed, in bytes."""
    is_heavy: bool
    """Whether a thread should carry it out."""


def targets_of(operations: Iterable[str]) -> dict[bytes, Target]:
    """Each operation under the one prefix that it answers to."""
    return {_target_name(name): _target(name) for name in operations}


def _target(name: str) -> Target:
    most_tokens = MOST_TOKENS if name in _HOLD_VALUES else MOST_TOKENS_OF_OTHERS
    heavy_bytes = HEAVY_TRANSACTION_BYTES if name == "TransactWriteItems" else HEAVY_BYTES
    return Target(name, name in HEAVY, name in _MAY_BE_COSTLY, heavy_bytes, name in SILENT, most_tokens)


def _target_name(operation: str) -> bytes:
    service = "DynamoDBStreams" if operation in STREAMS else "DynamoDB"
    return f"{service}_20120810.{operation}".encode()


def content_type_of(header: bytes | None) -> bytes:
    """The media type: what stands before a semicolon."""
    return b"" if header is None else header.partition(b";")[0].strip()


def is_costly(request: dict[str, Any]) -> bool:
    """Whether a Query or GetItem looks into items, by a filter or a projection, however small its answer is."""
    if "FilterExpression" in request or "QueryFilter" in request:
        return True
    if "ProjectionExpression" in request or "AttributesToGet" in request:
        limit = request.get("Limit")
        return type(limit) is not int or limit > _FEW_ITEMS
    return False


class Router:
    """Routes requests of one server."""

    def __init__(
        self,
        operations: Iterable[str],
        *,
        verifier: Verifier | None = None,
        per_account: bool = False,
        scope: Scope = DEFAULT_SCOPE,
        now: Callable[[], float] = time.time,
        heat: Callable[[], bytes] | None = None,
        origins: Iterable[str] = (),
        tells_changes: bool = False,
    ) -> None:
        self._targets = targets_of(operations)
        if tells_changes:
            self._targets[b"Penstock." + WAIT_FOR_CHANGES.encode()] = _target(WAIT_FOR_CHANGES)
        self._endpoints = self._targets.get(_target_name("DescribeEndpoints"))
        self._verifier = verifier
        self.checks_form_alone = verifier is None
        """Whether two requests that differ in nothing but signature and date are treated alike."""
        self._per_account = per_account
        self._scope = scope
        self._now = now
        # Names of keys are not for strangers, and GET carries no signature.
        self._heat = heat if verifier is None else None
        self.origins = Origins(origins if verifier is None else (EVERY,))
        self._scopes: dict[bytes, Scope] = {}
        self._health = b"healthy: dynamodb." + scope.region.encode() + b".amazonaws.com "

    def route(
        self, method: bytes, url: bytes, headers: Headers, body: bytes, most_bytes: int = REQUEST_BYTES
    ) -> Routed:
        """Raises Refused or DynamoDBError where the engine is not to be asked, BodyTooLarge if it unpacks to more."""
        if b"origin" in headers and not self.origins.allows(headers[b"origin"]):
            raise Refused(_refuse_origin(headers[b"origin"]))
        if method != b"POST" or (url != b"/" and url.partition(b"?")[0] != b"/"):
            raise Refused(self._other(method, url, headers))
        target = self._targets.get(headers.get(b"x-amz-target", b""))
        is_large = len(body) > LARGE_BYTES or b"content-encoding" in headers
        # A stranger's large body is neither unpacked nor parsed. DynamoDB reads a body first, and tells it the same.
        scope = self._authorised(method, url, headers, body) if is_large and self._verifier is not None else None
        sent = body
        if b"content-encoding" in headers:
            body = unpack(headers[b"content-encoding"], body, most_bytes)
        request = _parse_body(headers, body, target) if body else None
        if target is None:
            raise UnknownOperationException()
        if scope is None:
            scope = self._authorised(method, url, headers, sent)
        if type(request) is not dict:
            raise SerializationException()
        if target is self._endpoints and b"host" in headers:
            raise Refused(_endpoint(headers[b"host"]))
        is_heavy = target.heavy or len(body) > target.heavy_bytes or (target.may_be_costly and is_costly(request))
        return Routed(target, Pending(target.operation, request, scope), len(body), is_heavy)

    def _authorised(self, method: bytes, url: bytes, headers: Headers, body: bytes) -> Scope:
        """The scope of a request that has the authorization it needs."""
        # All that stands before the signature is the same for a day: it is read once.
        constant, _, signature = headers.get(b"authorization", b"").rpartition(b" Signature=")
        scope = self._scopes.get(constant)
        # Only letters and digits: what follows a signature may name another credential.
        whole = signature.isalnum()
        if scope is not None and whole and url == b"/" and b"x-amz-date" in headers:
            return scope
        given = authorization.read(headers, url.partition(b"?")[2])
        scope = authorization.scope_of(given, self._scope) if self._per_account else self._scope
        if self._verifier is not None:
            self._verifier.check(given, method, url, headers, body, self._now())
        elif constant and whole and b"Signature=" not in constant:
            self._remember(constant, scope)
        return scope

    def _remember(self, constant: bytes, scope: Scope) -> None:
        if len(self._scopes) >= _REMEMBERED:
            self._scopes.clear()
        self._scopes[constant] = scope

    def _other(self, method: bytes, url: bytes, headers: Headers) -> Reply:
        if method == b"OPTIONS" and b"origin" in headers:
            return _preflight(headers)
        if method not in (b"GET", b"HEAD"):
            return _NOT_FOUND
        path = url.partition(b"?")[0]
        if path == b"/healthz":
            return Reply(200, b'{"status":"healthy"}', content_type=JSON)
        if path == b"/heat" and self._heat is not None and self.origins.knows(headers.get(b"host", b"")):
            return Reply(200, self._heat(), content_type=JSON)
        if path in (b"/", b"/ping"):
            return Reply(200, self._health_of(headers.get(b"host", b"")), content_type=TEXT)
        return _NOT_FOUND

    def _health_of(self, host: bytes) -> bytes:
        """DynamoDB names the endpoint that was asked; to a bare address, the region's own."""
        if not host or not host[:1].isalpha() or len(host) > 255:
            return self._health
        return b"healthy: " + host + b" "


def _parse_body(headers: Headers, body: bytes, target: Target | None) -> Any:
    content_type = headers.get(b"content-type")
    if content_type != JSON_10 and content_type_of(content_type) not in (JSON, JSON_10):
        raise Refused(_NOT_FOUND)
    if len(body) > LARGE_BYTES and has_more_tokens(body, target.most_tokens if target else MOST_TOKENS_OF_OTHERS):
        raise SerializationException()
    try:
        return orjson.loads(body)
    except ValueError:
        raise SerializationException() from None


def _endpoint(host: bytes) -> Reply:
    """DescribeEndpoints names the address that was asked: a client that looks for endpoints comes back to us."""
    address = {"Address": host.decode("latin-1"), "CachePeriodInMinutes": 1440}
    return Reply(200, orjson.dumps({"Endpoints": [address]}))


def _refuse_origin(origin: bytes) -> Reply:
    """A page of elsewhere, which its visitor did not ask to call here."""
    page = origin[:200].decode("latin-1")
    message = f"A web page of {page} may not call this server. To allow it: penstock serve --allow-origin {page}"
    return Reply(403, orjson.dumps({"__type": "com.amazon.coral.service#AccessDeniedException", "message": message}))


def _preflight(headers: Headers) -> Reply:
    """What a browser asks before it lets a page call us: a page that may call may send anything, as at AWS."""
    allowed = b"Access-Control-Max-Age: " + _PREFLIGHT_SECONDS + b"\r\n"
    if value := headers.get(b"access-control-request-headers"):
        allowed += b"Access-Control-Allow-Headers: " + value + b"\r\n"
    if value := headers.get(b"access-control-request-method"):
        allowed += b"Access-Control-Allow-Methods: " + value + b"\r\n"
    return Reply(200, b"", content_type=b"", headers=allowed)


# ── how many values a text would become (2) ───────────────────────────────────────────────────────


_TOKENS: Final = (b"[", b"{", b",")
_PIECE_BYTES: Final = 256 * 1024


def has_more_tokens(text: bytes, most: int) -> bool:
    """Whether a JSON text has more than `most` brackets, braces and commas outside its strings.

    For what is no JSON, some number that is not far off: the parser refuses it.
    """
    if _count_tokens(text) <= most:
        return False  # nearly always, and three quick looks
    tokens, at, in_string = 0, 0, False
    while at < len(text) and tokens <= most:
        piece = _piece(text, at)
        at += len(piece)
        # An escaped backslash escapes nothing; then an escaped quote ends nothing.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        tokens += _count_tokens(b"".join(parts[in_string::2]))
        in_string ^= len(parts) % 2 == 0
    return tokens > most


def _piece(text: bytes, at: int) -> bytes:
    """The next piece; an escape stays whole."""
    piece = text[at : at + _PIECE_BYTES]
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 and len(piece) > 1 else piece


def _count_tokens(text: bytes) -> int:
    return sum(map(text.count, _TOKENS))


# ── large bodies (3) ──────────────────────────────────────────────────────────────────────────────


_log = logging.getLogger(__name__)


class Unrouted(NamedTuple):
    """A request as it came."""

    method: bytes
    url: bytes
    headers: Headers
    body: bytes


Outcome = Reply | Routed | tuple[Target, Answer]
"""A refusal, a call that is still to be carried out, or the answer of one that was."""


def is_large(headers: Headers, body: bytes) -> bool:
    """Whether a body is, or may become when it is unpacked, too large to be parsed on the event loop."""
    return len(body) > LARGE_BYTES or b"content-encoding" in headers


def route(router: Router, request: Unrouted, most_bytes: int = REQUEST_BYTES) -> Reply | Routed:
    """What a request asks for, or how it is refused without the engine; TOO_LARGE where it unpacks to more."""
    try:
        return router.route(*request, most_bytes)
    except DynamoDBError as error:
        return Reply(error.status, error_body(error))
    except Refused as refused:
        return refused.reply
    except BodyTooLarge:
        return TOO_LARGE


class LargeBodies:
    """Those of one server."""

    def __init__(self, router: Router, answer_of: Callable[[Pending], Answer], loop: asyncio.AbstractEventLoop) -> None:
        self._router = router
        self._answer_of = answer_of
        self._loop = loop
        self._packed = ThreadPoolExecutor(1, thread_name_prefix="penstock-packed-bodies")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="penstock-large-bodies")

    def add(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        """Calls `done` on the loop when its turn has come, unless its client has gone."""
        if len(request.body) > LARGE_BYTES:
            self._large.submit(self._in_thread, request, is_gone, done)
        else:
            self._packed.submit(self._unpack, request, is_gone, done)

    def _unpack(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        """Routes it if it is small when it is unpacked (4)."""
        try:
            outcome = route(self._router, request, LARGE_BYTES)
        except Exception as error:  # as in `_in_thread`
            _log.error("a request could not be routed", exc_info=error)
            outcome = FAULT
        if outcome is TOO_LARGE:
            self._large.submit(self._in_thread, request, is_gone, done)
        else:
            self._loop.call_soon_threadsafe(done, outcome)

    def _in_thread(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        outcome: Outcome = FAULT
        try:
            if not is_gone():
                outcome = self._outcome(request)
        except Exception as error:  # the outermost loop of a thread: a fault is answered and recorded
            _log.error("a request could not be routed", exc_info=error)
        self._loop.call_soon_threadsafe(done, outcome)

    def _outcome(self, request: Unrouted) -> Outcome:
        with _collector_at_rest():
            routed = route(self._router, request)
            if isinstance(routed, Reply) or routed.size <= LARGE_BYTES:
                return routed
            return routed.target, self._answer_of(routed.call)

    def close(self) -> None:
        """Waits for the one under way; the others' clients are gone."""
        self._packed.shutdown(cancel_futures=True)
        self._large.shutdown(cancel_futures=True)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Millions of new values are no garbage: looking through them takes ten times as long as parsing them does."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
