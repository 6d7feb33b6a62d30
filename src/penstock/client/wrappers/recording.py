"""Recording: calls and their answers as lines of JSON, and the same answered from the file, for tests.

1. A line is written before its answer is given: what a program has seen is in the file.
2. Only the operation, the request and the answer or error are written: no headers, no signature, no credentials.
3. With `redact`, no value of an item is in the file: neither in items and keys, nor in expression values, statements,
   tokens and error messages. Names of tables and attributes remain.
4. A replay gives the answers of equal requests in the order in which they were recorded, and refuses any other call.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from penstock import errors
from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.retries import TOKEN
from penstock.client.wrappers.wrapper import AsyncWrapper, Exchange, Inner, Wrapper, WrapperState
from penstock.errors import DynamoDBError, PenstockError, TransportError, error_of

REDACTED = "redacted"
_SCALARS = {"S": REDACTED, "N": "0", "B": "cmVkYWN0ZWQ="}
_SETS = {"SS": "S", "NS": "N", "BS": "B"}
_SELF_EVIDENT = ("BOOL", "NULL")
_LITERAL = re.compile(r"'(?:[^']|'')*'|(?<![\w\"?])-?\d[\d.eE+-]*")
_SHOWN = 300  # characters of a request in a message


class ReplayMismatch(PenstockError):
    """The program made a call that the recording does not have, or no longer has."""


# ── values taken out ─────────────────────────────────────────────────────────────────────────────


def redact_values(part: Any) -> Any:
    """A request or an answer with every attribute value replaced by one of its type."""
    if isinstance(part, list):
        return [redact_values(member) for member in part]
    if not isinstance(part, dict):
        return part
    value = _attribute_value(part)
    return value if value is not None else {name: _member(name, member) for name, member in part.items()}


def _member(name: str, member: Any) -> Any:
    if name == "Statement" and isinstance(member, str):
        return _LITERAL.sub("?", member)
    if name in (TOKEN, "NextToken", "Message", "message") and isinstance(member, str):
        return REDACTED
    return redact_values(member)


def _attribute_value(part: dict[str, Any]) -> dict[str, Any] | None:
    """The attribute value `{"S": …}` without its value; None if this is something else."""
    if len(part) != 1:
        return None
    ((kind, data),) = part.items()
    if kind in _SCALARS and isinstance(data, str):
        return {kind: _SCALARS[kind]}
    if kind in _SETS and isinstance(data, list):
        return {kind: [_SCALARS[_SETS[kind]]]}
    if kind in _SELF_EVIDENT and isinstance(data, bool):
        return {kind: True}
    if kind == "L" and isinstance(data, list):
        return {"L": [redact_values(member) for member in data]}
    if kind == "M" and isinstance(data, dict):
        # An item whose one attribute is named M looks the same, and has a plain value here.
        return {
            "M": {
                name: redact_values(member) if isinstance(member, dict) else REDACTED for name, member in data.items()
            }
        }
    return None


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def _line(operation: str, request: Request, result: Answer | PenstockError, redact: bool) -> bytes:
    clean: Callable[[Any], Any] = redact_values if redact else _as_is
    line: dict[str, Any] = {"operation": operation, "request": clean(request)}
    if isinstance(result, PenstockError):
        line["error"] = _error_line(result, clean, redact)
    else:
        line["answer"] = clean(result)
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _as_is(part: Any) -> Any:
    return part


def _error_line(error: PenstockError, clean: Callable[[Any], Any], redact: bool) -> dict[str, Any]:
    if isinstance(error, DynamoDBError):
        message = REDACTED if redact else error.message
        return {"code": error.code, "message": message, "status": error.status, "fields": clean(error.fields)}
    if isinstance(error, TransportError):
        return {"transport": type(error).__name__, "reason": error.reason, "sent": error.sent}
    return {"transport": "", "reason": REDACTED if redact else str(error), "sent": False}


def _result(line: dict[str, Any], name: str) -> Answer | PenstockError:
    if "answer" in line:
        answer: Answer = line["answer"]
        return answer
    stored = line["error"]
    if "code" in stored:
        return error_of(stored["code"], stored["message"], stored["status"], stored["fields"])
    kind = getattr(errors, stored["transport"], None)
    if isinstance(kind, type) and issubclass(kind, TransportError):
        return kind(name, stored["reason"], sent=stored["sent"])
    return PenstockError(stored["reason"])


def _key(operation: str, request: Request) -> tuple[str, bytes]:
    """What makes two calls equal: everything but a transaction's token, which is new each time."""
    rest = {name: value for name, value in request.items() if name != TOKEN}
    return operation, orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)


# ── the wrappers ─────────────────────────────────────────────────────────────────────────────────


class RecordingState(WrapperState[Inner]):
    """Appends lines; many threads may."""

    def __init__(self, inner: Inner, path: str | Path, *, redact: bool = False) -> None:
        super().__init__(inner)
        self._file = Path(path).open("ab")  # noqa: SIM115 - closed by close()
        self._lock = threading.Lock()
        self._redact = redact

    def _exchange(self, operation: str, request: Request) -> Exchange:
        try:
            answer: Answer = yield operation, request
        except PenstockError as error:
            self._write(operation, request, error)
            raise
        self._write(operation, request, answer)
        return answer

    def _write(self, operation: str, request: Request, result: Answer | PenstockError) -> None:
        line = _line(operation, request, result, self._redact)
        with self._lock:
            self._file.write(line)
            self._file.flush()

    def _release(self) -> None:
        with self._lock:
            self._file.close()


class Recording(RecordingState[Transport], Wrapper):
    """A transport that writes down what it is asked and what it answers, to the end of the file `path`."""


class AsyncRecording(RecordingState[AsyncTransport], AsyncWrapper):
    """The same for asyncio. Writing a line takes microseconds and is not handed to a thread."""


class Replaying:
    """A transport that answers from a recording. One made with `redact` is asked with `redact` again."""

    def __init__(self, path: str | Path, *, redact: bool = False) -> None:
        self.name = str(path)
        self._redact = redact
        self._left: dict[tuple[str, bytes], deque[Answer | PenstockError]] = defaultdict(deque)
        self._lock = threading.Lock()
        for number, text in enumerate(Path(path).read_bytes().splitlines(), start=1):
            self._read(number, text)

    def _read(self, number: int, text: bytes) -> None:
        try:
            line = orjson.loads(text)
            result = _result(line, self.name)
            self._left[_key(line["operation"], line["request"])].append(result)
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise PenstockError(f"{self.name}, line {number}: not a line of a recording. Record it again.") from error

    def execute(self, operation: str, request: Request) -> Answer:
        """The answer that the file has next for this call. Raises ReplayMismatch."""
        key = _key(operation, redact_values(request) if self._redact else request)
        with self._lock:
            results = self._left.get(key)
            result = results.popleft() if results else None
        if result is None:
            shown = key[1].decode()[:_SHOWN]
            raise ReplayMismatch(f"{self.name} has no further answer to {operation} {shown}. Record it again.")
        if isinstance(result, PenstockError):
            raise result
        return result

    @property
    def unused(self) -> int:
        """How many recorded calls have not been made yet: 0 at the end of a faithful replay."""
        with self._lock:
            return sum(map(len, self._left.values()))

    def close(self) -> None:
        """Nothing to release."""


class AsyncReplaying:
    """The same for asyncio."""

    def __init__(self, path: str | Path, *, redact: bool = False) -> None:
        self._replaying = Replaying(path, redact=redact)
        self.name = self._replaying.name

    async def execute(self, operation: str, request: Request) -> Answer:
        return self._replaying.execute(operation, request)

    @property
    def unused(self) -> int:
        return self._replaying.unused

    async def close(self) -> None:
        """Nothing to release."""
