"""What a transport is: one call, whatever answers it. Wrappers are transports around transports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

Request = dict[str, Any]
Answer = dict[str, Any]

STREAMS_OPERATIONS = frozenset({"DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"})
"""Those of the streams API, which has a target prefix, and at AWS a host, of its own."""


class Transport(Protocol):
    """Safe to share between threads. A closed transport refuses further calls."""

    name: str
    """Where it goes, for messages: "jobs.db", "http://localhost:8000", "aws://eu-west-2"."""

    def execute(self, operation: str, request: Request) -> Answer:
        """DynamoDB's answer in DynamoDB's JSON; raises `DynamoDBError` or `TransportError`."""
        ...

    def close(self) -> None: ...


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
