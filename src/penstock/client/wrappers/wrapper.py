"""A transport around another one, for threads and for asyncio, written once.

A wrapper is a generator, `_exchange`: it yields a call (operation, request) and is sent the answer, or the error is
thrown into it; it yields a number, and is resumed after so many seconds. What it returns is the answer to the caller.
`Wrapper` makes the calls and the waits of a thread, `AsyncWrapper` those of a task.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.wire.throttles import Kind

Inner = TypeVar("Inner", bound=Transport | AsyncTransport)
Exchange = Generator[tuple[str, Request] | float, Any, Answer]


class WrapperState(Generic[Inner]):
    """What wrappers of both kinds have: what they wrap, its name, and how they wait."""

    def __init__(self, inner: Inner, sleep: Callable[[float], Any] | None = None) -> None:
        self.inner = inner
        self.name = inner.name
        self._sleep = sleep or self._pause

    def _exchange(self, operation: str, request: Request) -> Exchange:
        """One call of the caller's."""
        raise NotImplementedError

    def _release(self) -> None:
        """Releases what the wrapper itself holds."""

    @staticmethod
    def _pause(seconds: float) -> Any:
        raise NotImplementedError


class Wrapper(WrapperState[Transport]):
    """For threads."""

    @staticmethod
    def _pause(seconds: float) -> None:
        time.sleep(seconds)

    def execute(self, operation: str, request: Request) -> Answer:
        """The answer to one call."""
        exchange = self._exchange(operation, request)
        try:
            step = next(exchange)
            while True:
                try:
                    result = self.inner.execute(*step) if isinstance(step, tuple) else self._sleep(step)
                except BaseException as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    def close(self) -> None:
        """Closes what it wraps."""
        self._release()
        self.inner.close()


class AsyncWrapper(WrapperState[AsyncTransport]):
    """For asyncio."""

    @staticmethod
    def _pause(seconds: float) -> Awaitable[None]:
        import asyncio  # who comes here has it loaded

        return asyncio.sleep(seconds)

    async def execute(self, operation: str, request: Request) -> Answer:
        """The answer to one call."""
        exchange = self._exchange(operation, request)
        try:
            step = next(exchange)
            while True:
                try:
                    result = await (self.inner.execute(*step) if isinstance(step, tuple) else self._sleep(step))
                except BaseException as error:
                    step = exchange.throw(error)
                else:
                    step = exchange.send(result)
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    async def close(self) -> None:
        """Closes what it wraps."""
        self._release()
        await self.inner.close()


# ── what a call says about itself ──────────────────────────────────────────────────────────────────

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"})
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
STATEMENTS = frozenset({"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"})
METERED = READS | WRITES | STATEMENTS
"""Those that take ReturnConsumedCapacity: the data plane."""

_SOURCE = re.compile(r"""\b(?:FROM|INTO|UPDATE)\s+(?:"([^"]+)"|([\w.-]+))""", re.IGNORECASE)
_ACTIONS = ("Put", "Update", "Delete", "ConditionCheck", "Get")


def kind_of(operation: str, request: Request) -> Kind | None:
    """Whether it uses read or write capacity; None for the control plane. Statements go by their first word."""
    if operation in READS:
        return "Read"
    if operation in WRITES:
        return "Write"
    if operation in STATEMENTS:
        texts = _statements(operation, request)
        return "Read" if all(text.lstrip()[:6].upper() == "SELECT" for text in texts) else "Write"
    return None


def tables_of(operation: str, request: Request) -> list[str]:
    """The tables that it names, each once, without the rest of an ARN."""
    if operation in STATEMENTS:
        found = (_SOURCE.search(text) for text in _statements(operation, request))
        names = [match[1] or match[2] for match in found if match]
    elif isinstance(items := request.get("RequestItems"), dict):
        names = list(items)
    elif isinstance(actions := request.get("TransactItems"), list):
        names = [str(action[kind]["TableName"]) for action in actions for kind in _ACTIONS if action.get(kind)]
    else:
        names = [str(request["TableName"])] if "TableName" in request else []
    return list(dict.fromkeys(map(short_name, names)))


def short_name(name_or_arn: str) -> str:
    """`jobs` of `arn:aws:dynamodb:us-east-1:000000000000:table/jobs` and of `jobs`."""
    return name_or_arn.split(":table/", 1)[1].split("/", 1)[0] if ":table/" in name_or_arn else name_or_arn


def index_of_arn(arn: str) -> str | None:
    """`by-date` of `…:table/jobs/index/by-date`; None for a table's."""
    return arn.split("/index/", 1)[1] if "/index/" in arn else None


def _statements(operation: str, request: Request) -> list[str]:
    if operation == "ExecuteStatement":
        return [str(request.get("Statement", ""))]
    members = request.get("Statements" if operation == "BatchExecuteStatement" else "TransactStatements")
    return [str(member.get("Statement", "")) for member in members or ()]
