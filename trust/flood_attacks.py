"""What clients do to a server when they are many, slow, wrong or malicious: each attack is a coroutine of one client.

A client goes on until it is cancelled, and passes over whatever the server does to its connection: it comes back.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

TABLE: Final = "flood"
BIG_KEY: Final = "big"
BIG_ITEMS: Final = 48
"""Of 350 KB each: a Query's page has a megabyte of them, a BatchGetItem's answer 16."""
MEGABYTE: Final = 1024 * 1024

_AUTHORIZATION: Final = (
    b"AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, "
    b"SignedHeaders=host;x-amz-date, Signature=" + b"a" * 64
)


def head(operation: str, *more: bytes) -> bytes:
    lines = [
        b"POST / HTTP/1.1",
        b"Host: 127.0.0.1",
        b"Content-Type: application/x-amz-json-1.0",
        b"X-Amz-Date: 20260101T000000Z",
        b"Authorization: " + _AUTHORIZATION,
        b"X-Amz-Target: DynamoDB_20120810." + operation.encode(),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n"


def request(operation: str, body: dict[str, Any]) -> bytes:
    data = orjson.dumps(body)
    return head(operation, b"Content-Length: %d" % len(data)) + b"\r\n" + data


def key(sort: int) -> dict[str, Any]:
    return {"pk": {"S": BIG_KEY}, "sk": {"N": str(sort)}}


HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
GET: Final = request("GetItem", {"TableName": TABLE, "Key": {"pk": {"S": "small"}, "sk": {"N": "1"}}})
PUT: Final = request("PutItem", {"TableName": TABLE, "Item": {"pk": {"S": "small"}, "sk": {"N": "2"}}})
PAGE: Final = request(
    "Query",
    {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": BIG_KEY}},
    },
)
BATCH: Final = request(
    "BatchGetItem", {"RequestItems": {TABLE: {"Keys": [key(number) for number in range(BIG_ITEMS)]}}}
)
SCAN: Final = request(
    "Scan",
    {
        "TableName": TABLE,
        "FilterExpression": "contains(filler, :none)",
        "ExpressionAttributeValues": {":none": {"S": "no such text"}},
    },
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Client = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    """So many clients that do this; `says` is for people."""

    name: str
    says: str
    clients: int
    client: Client
    once: bool = False
    """It lasts until each client has ended by itself."""


async def connected(port: int, receive_bytes: int | None = None) -> Streams:
    """A connection; `receive_bytes` is how much the kernel holds for a client that does not read."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        # A stream reads ahead up to twice its limit: one that does not read must not.
        return await asyncio.open_connection(sock=sock, limit=16 * 1024)
    except BaseException:
        sock.close()
        raise


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The status line of the next answer, whose body is thrown away."""
    told = await reader.readuntil(b"\r\n\r\n")
    length = next((line for line in told.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    left = int(length.partition(b":")[2])
    while left:
        left -= len(await reader.readexactly(min(left, 16 * 1024)))
    return told.partition(b"\r\n")[0]


def asking(*requests: bytes) -> Client:
    """Asks, reads, asks again."""

    async def client(port: int) -> None:
        reader, writer = await connected(port)
        try:
            while True:
                for one in requests:
                    writer.write(one)
                    await answer(reader)
        finally:
            writer.close()

    return client


def sending(*parts: bytes, pause_seconds: float = 0.5, again: bytes = b"") -> Client:
    """Sends the parts, then `again` and again, and reads nothing but the end."""

    async def client(port: int) -> None:
        _, writer = await connected(port, receive_bytes=4096)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            while not writer.is_closing():
                await asyncio.sleep(pause_seconds)
                if again:
                    writer.write(again)
                    await writer.drain()
        finally:
            writer.transport.abort()

    return client


def refused(*parts: bytes) -> Client:
    """Sends it, reads what it is told, and comes back."""

    async def client(port: int) -> None:
        while True:
            reader, writer = await connected(port)
            try:
                for part in parts:
                    writer.write(part)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1):
                            await writer.drain()
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await reader.read(1024)
            finally:
                writer.transport.abort()

    return client


def pipelining(one: bytes, count: int) -> Client:
    """Sends as many as it can without reading one answer."""

    async def client(port: int) -> None:
        _, writer = await connected(port, receive_bytes=4096)
        try:
            while not writer.is_closing():
                writer.write(one * count)
                await writer.drain()
                await asyncio.sleep(0.05)
        finally:
            writer.transport.abort()

    return client


async def _churn(port: int) -> None:
    while True:
        reader, writer = await connected(port)
        try:
            writer.write(GET)
            await answer(reader)
        finally:
            writer.close()


async def _vanish(port: int) -> None:
    """Asks for a megabyte and is gone, with a reset in place of a goodbye."""
    while True:
        _, writer = await connected(port)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.write(PAGE)
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.01)


async def silence(port: int) -> None:
    """Says nothing, and stays."""
    reader, writer = await connected(port)
    try:
        await reader.read(1)
    finally:
        writer.close()


_LONG: Final = head("GetItem", b"Content-Length: %d" % (8 * MEGABYTE)) + b"\r\n"
_BOMB: Final = b"[" + b"[]," * (5 * MEGABYTE) + b"[]]"
_FRAMES: Final = (
    head("GetItem", b"Content-Length: 4") + b"\r\n" + GET,
    head("GetItem", b"Content-Length: -1") + b"\r\n",
    head("GetItem", b"Content-Length: 9" * 3) + b"\r\n",
    head("GetItem", b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"\r\n{}",
    head("GetItem", b"Content-Length: 99999999999999999999") + b"\r\n",
    head("GetItem", b"Transfer-Encoding: chunked") + b"\r\nffffffffffffffff\r\n",
)


async def _frames(port: int) -> None:
    while True:
        for frame in _FRAMES:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):  # no task of its own, which could outlive this one
                    await refused(frame)(port)


_HUGE_HEADER: Final = head("GetItem") + b"X-Long: " + b"a" * MEGABYTE
_TOO_LARGE: Final = (head("PutItem", b"Content-Length: %d" % (17 * MEGABYTE)) + b"\r\n", b" " * (17 * MEGABYTE))
_LISTS: Final = (head("PutItem", b"Content-Length: %d" % len(_BOMB)) + b"\r\n", _BOMB)

ATTACKS: Final = (
    Attack("crowd", "500 connections that ask and read", 500, asking(GET, PUT)),
    Attack("idle", "500 connections that say nothing", 500, silence),
    Attack("half heads", "500 heads that never end, a line at times", 500, sending(head("GetItem"), again=b"A: b\r\n")),
    Attack("half bodies", "500 bodies of 8 MB of which 512 KB come", 500, sending(_LONG, b" " * (MEGABYTE // 2))),
    Attack("slow readers", "300 that ask for 32 pages of 1 MB and read none", 300, sending(PAGE * 32)),
    Attack("slow batches", "100 that ask for 32 answers of 16 MB and read none", 100, sending(BATCH * 32)),
    Attack("huge headers", "100 with a header of 1 MB", 100, refused(_HUGE_HEADER)),
    Attack("wrong lengths", "100 whose lengths are wrong, in six ways", 100, _frames),
    Attack("pipelines", "100 that send GetItems without reading", 100, pipelining(GET, 1000)),
    Attack("churn", "100 that connect for each request", 100, _churn),
    Attack("vanish", "100 that ask for 1 MB and reset the connection", 100, _vanish),
    Attack("scans", "200 that scan and filter all", 200, asking(SCAN)),
    Attack("large bodies", "16 with bodies of 17 MB", 16, refused(*_TOO_LARGE)),
    Attack("bombs", "16 with 15 MB of empty lists", 16, refused(*_LISTS)),
)
