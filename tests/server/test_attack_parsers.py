"""The law of two readers: what the h11 parser takes, httptools takes too, and both end it at the same byte."""

from __future__ import annotations

import random
from typing import Any

import pytest
from framing_attacks import REFUSED, SECOND, TAKEN

from penstock.server.http1 import H11Parser, ParserError

httptools = pytest.importorskip("httptools")

PIECES = [
    *(bytes([one]) for one in b'\r\n \t:01a;=,+-_"\x00\x0b\xff'),
    b"\r\n",
    b"0\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
]
SEEDS = [data + SECOND for data in (*REFUSED.values(), *TAKEN.values())]


class Bodies:
    """The bodies of the requests that a parser found whole, up to the one after which the connection ends."""

    def __init__(self, parser: Any) -> None:
        self.found: list[bytes] = []
        self._body = b""
        self._is_over = False
        self._parser = parser(self)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if not self._is_over:
            self.found.append(self._body)
        self._is_over = self._is_over or not self._parser.should_keep_alive()

    def fed(self, data: bytes, size: int) -> list[bytes]:
        try:
            for at in range(0, len(data), size):
                self._parser.feed_data(data[at : at + size])
        except (ParserError, httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass
        return self.found


def damaged(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = rng.choice([b"", *PIECES])
    return bytes(data)


def test_what_the_h11_parser_takes_httptools_takes_too_whatever_the_cuts() -> None:
    rng = random.Random(20261116)
    for _ in range(3_000):
        data = damaged(rng)
        ours = Bodies(H11Parser).fed(data, len(data) or 1)
        assert Bodies(H11Parser).fed(data, rng.randrange(1, 40)) == ours, data
        assert Bodies(httptools.HttpRequestParser).fed(data, len(data) or 1)[: len(ours)] == ours, data
