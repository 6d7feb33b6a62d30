"""What a transport is: one call, whatever answers it. Wrappers are transports around transports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.items.bulk_rows import Loading
    from penstock.errors import PenstockError

Request = dict[str, Any]
Answer = dict[str, Any]

STREAMS_OPERATIONS = frozenset({"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"})
"""Those of the streams API, which has a target prefix, and at AWS a host, of its own."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a database offers beside DynamoDB's operations: code asks for what it needs, never for who answers.

    The defaults are those of a DynamoDB behind a network, and of a transport that says nothing.
    """

    shares_commits: bool = False
    """Calls that are made together share one commit."""

    local_order: bool = False
    """Items lie in one file in the order of their keys: neighbours that are read or written together cost less, and no
    partition becomes hot by it."""

    parallel_calls: int = 4
    """Calls that are worth having in flight at once."""

    metered: bool = True
    """Capacity is limited or paid for: reads cost something, and calls may be throttled."""

    delayed_streams: bool = True
    """A stream shows a change some time after the write was answered."""

    has_engine: bool = False
    """`Database.engine` is there: it can be served, and its file watched."""

    tells_changes: bool = False
    """What others commit can be waited for (`Database.changes`), as far as can be known without asking."""

    tells_settings: bool = True
    """What a table was given is in its description. An emulator may take a setting and forget it."""

    @property
    def wrapped(self) -> Capabilities:
        """What is left behind a wrapper, which has to see each call by itself."""
        return replace(self, shares_commits=False)


DEFAULT_CAPABILITIES = Capabilities()


class Transport(Protocol):
    """Safe to share between threads. A closed transport refuses further calls."""

    name: str
    """Where it goes, for messages: "jobs.db", "http://localhost:8000", "aws://eu-west-2"."""

    def execute(self, operation: str, request: Request) -> Answer:
        """DynamoDB's answer in DynamoDB's JSON; raises `DynamoDBError` or `TransportError`."""
        ...

    def close(self) -> None: ...


class Changes(Protocol):
    """Waits for what others commit. For one thread, except `close`."""

    @property
    def poll_seconds(self) -> float:
        """While it waits, a poll that found nothing need not be repeated sooner."""
        ...

    def wait(self, seconds: float) -> bool:
        """True if anything may have been committed since it last said so; the first time, at once.

        False if nothing was in so many seconds, or it is closed. Raises PenstockError.
        """
        ...

    def close(self) -> None:
        """Ends a wait that is under way."""
        ...


class LocalTransport(Transport, Protocol):
    """A transport whose capabilities have `shares_commits` and `has_engine`."""

    engine: Engine

    def execute_together(self, calls: Sequence[tuple[str, Request]]) -> list[Answer | PenstockError]: ...

    def loading(self, table: str) -> Loading | None:
        """How a batch writes many rows at once; None where this table's rows have to be written one by one."""
        ...


class ChangesTransport(Transport, Protocol):
    """A transport whose capabilities have `tells_changes`."""

    def changes(self) -> Changes | None: ...


class AsyncTransport(Protocol):
    """The same for asyncio. Belongs to the event loop that first uses it."""

    name: str

    async def execute(self, operation: str, request: Request) -> Answer: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a remote transport may use. A call ends within pool + connect + read seconds; twice that if sent again."""

    connections: int = 50
    idle_seconds: float = 20.0  # less than any common server's own idle limit, so that we close first
    connect_seconds: float = 5.0  # name, TCP, proxy and TLS, each
    read_seconds: float = 30.0  # from the request to the last byte of its answer
    pool_seconds: float = 30.0  # waiting for one of the connections
    answer_bytes: int = 64 * 1024 * 1024  # four times the largest answer that DynamoDB gives

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ValueError(f"Limits({name}=…) must be more than 0, not {getattr(self, name)!r}")


DEFAULT_LIMITS = Limits()


def capabilities_of(transport: Any) -> Capabilities:
    """Those that a transport states, or the wrapper around one leaves of them."""
    stated: Capabilities | None = getattr(transport, "capabilities", None)
    if stated is not None:
        return stated
    inner = getattr(transport, "inner", None)
    return DEFAULT_CAPABILITIES if inner is None else capabilities_of(inner).wrapped


def innermost(transport: Any) -> Any:
    """The transport that wrappers, and the threads of asyncio, stand around."""
    while (inner := getattr(transport, "inner", None)) is not None:
        transport = inner
    return transport
