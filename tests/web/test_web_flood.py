"""Connections on which nothing comes, or half a request: they take no place for ever."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.web import server


async def echo(request: Request) -> Response:
    return PlainTextResponse(await request.body())


async def follow(request: Request) -> Response:
    async def lines() -> AsyncIterator[bytes]:
        import asyncio

        for _ in range(12):
            yield b"data: more\n\n"
            await asyncio.sleep(0.1)

    return StreamingResponse(lines())


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.4)
    app = Starlette(routes=[Route("/", echo, methods=["GET", "POST"]), Route("/follow", follow)])
    with server.running_app(app, connections=4, grace_seconds=1) as url:
        yield url


def opened(url: str, data: bytes) -> socket.socket:
    parts = urlsplit(url)
    sock = socket.create_connection((str(parts.hostname), parts.port), timeout=30)
    sock.sendall(data)
    return sock


def everything(sock: socket.socket) -> bytes:
    found = b""
    try:
        while data := sock.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    sock.close()
    return found


HALF = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "half a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123",
}


@pytest.mark.parametrize("kind", HALF)
def test_a_request_that_does_not_come_leaves_its_place_to_others(url: str, kind: str) -> None:
    held = [opened(url, HALF[kind]) for _ in range(3)]
    assert [everything(one) for one in held] == [b""] * 3
    end = time.monotonic() + 30
    while True:
        answer = everything(opened(url, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        if b"200 OK" in answer or time.monotonic() > end:
            break
    assert b"200 OK" in answer


def test_an_answer_that_takes_long_is_left_alone(url: str) -> None:
    answer = everything(opened(url, b"GET /follow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    assert answer.count(b"data: more") == 12
