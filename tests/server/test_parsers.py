"""The law of the two HTTP parsers: whatever the cuts, both read the same requests from the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http1 import H11Parser, ParserError

httptools = pytest.importorskip("httptools")

names = st.text("abcXYZ-", min_size=1, max_size=8).map(lambda name: "X-" + name)
values = st.text("abc XYZ:;=/,", max_size=20).map(str.strip)


class Log:
    """What a parser said, in order; the parts of a body are one body."""

    def __init__(self, parser: Any) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.body = b""
        self.parser = parser(self)

    def on_message_begin(self) -> None:
        self.body = b""
        self.url = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.events.append((name, value))

    def on_headers_complete(self) -> None:
        self.events.append((self.url, self.parser.get_method(), self.parser.get_http_version()))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.events.append((self.body, self.parser.should_keep_alive()))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "POST", "PUT", "OPTIONS", "HEAD"]))
    lines = [f"{method} {draw(st.sampled_from(['/', '/?a=b', '/x%20y']))} HTTP/1.1", "Host: a"]
    lines += [f"{name}: {value}" for name, value in draw(st.lists(st.tuples(names, values), max_size=4))]
    body = draw(st.binary(max_size=60))
    if draw(st.booleans()):
        lines.append("Transfer-Encoding: chunked")
        parts = [body[at : at + 7] for at in range(0, len(body), 7)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@given(st.lists(messages(), min_size=1, max_size=4), st.lists(st.integers(1, 50), min_size=1))
def test_both_parsers_read_the_same(sent: list[bytes], cuts: list[int]) -> None:
    data = b"".join(sent)
    whole, cut = Log(httptools.HttpRequestParser), Log(H11Parser)
    whole.parser.feed_data(data)
    at = 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        cut.parser.feed_data(data[at : at + size])
        at += size
    assert cut.events == whole.events
    assert len([event for event in cut.events if len(event) == 3]) == len(sent)


@given(st.binary(max_size=200))
def test_the_h11_parser_refuses_or_waits_but_never_fails(data: bytes) -> None:
    log = Log(H11Parser)
    try:
        log.parser.feed_data(data)
    except ParserError:
        return
