"""Whatever goes wrong on the way is a typed error that names endpoint, reason and next step; and nothing hangs."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from itertools import pairwise

import pytest
from fake_endpoint import AMPLE, GET, KINDS, SHORT, Incoming, always, answer, calling, fake
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.transports.base import Limits
from penstock.client.transports.boto import BotoTransport
from penstock.client.transports.http import RemoteTransport
from penstock.client.transports.messages import FastReader, Malformed, PlainReader
from penstock.errors import (
    BadAnswer,
    ConnectionFailed,
    DynamoDBError,
    NotDynamoDB,
    PenstockError,
    TimedOut,
    TransportError,
    error_of,
)


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]


def failure(kind, script_or_url, limits=AMPLE):
    """What a GetItem raises, having looked at what every such error must have."""
    if isinstance(script_or_url, str):
        return _failure(kind, script_or_url, limits)
    with fake(script_or_url) as server:
        return _failure(kind, server.url, limits)


def _failure(kind, url, limits):
    with calling(kind, url, limits) as transport, pytest.raises(TransportError) as caught:
        transport.execute(*GET)
    error = caught.value
    assert error.endpoint == url
    assert str(error).startswith(f"{url}: {error.reason}. ")
    assert error.next_step
    return error


# ── no connection ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens(kind, host):
    error = failure(kind, f"http://{host}:{free_port()}")
    assert isinstance(error, ConnectionFailed)
    assert error.retryable
    assert not error.sent
    assert "nothing listens" in error.reason
    assert "penstock serve" in error.next_step


def test_there_is_no_such_host(kind, monkeypatch):
    def unknown(*_given, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    if kind.__name__ == "WaitingOnUvloop":
        pytest.skip("uvloop resolves names without Python's socket module")
    error = failure(kind, "http://db.invalid:8000")
    assert isinstance(error, ConnectionFailed)
    assert "there is no host 'db.invalid'" in error.reason
    assert not error.sent


def test_nobody_accepts(kind):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = fill(listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        error = failure(kind, url, Limits(connect_seconds=0.2))
        for filler in fillers:
            filler.close()
    assert isinstance(error, TimedOut)
    assert not error.sent


def fill(listener):
    """Connections until the system lets no more wait."""
    made = []
    for _ in range(8):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        made.append(filler)
    time.sleep(0.02)
    return made


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# ── no whole answer ──────────────────────────────────────────────────────────────────────────────


def test_the_server_hangs(kind):
    over = threading.Event()

    def script(incoming):
        incoming.read_request()
        over.wait(20)

    error = failure(kind, script, SHORT)
    over.set()
    assert isinstance(error, TimedOut)
    assert error.sent
    assert "no answer came within 0.3 s" in error.reason


def test_the_server_sends_an_answer_one_byte_at_a_time(kind):
    sent = 0

    def script(incoming):
        nonlocal sent
        incoming.read_request()
        time.sleep(1.3)
        for byte in answer({"Item": {}}):
            incoming.send(bytes([byte]))
            sent += 1
            time.sleep(0.05)

    error = failure(kind, script, Limits(read_seconds=1.5))
    assert sent < 25  # not one limit for the first byte and another for the rest: 30 fit in that
    assert isinstance(error, TimedOut)
    assert "only part of an answer" in error.reason


@pytest.mark.parametrize("kept_bytes", [1, 20, 60, -1])
def test_half_an_answer(kind, kept_bytes):
    def script(incoming):
        incoming.read_request()
        incoming.send(answer({"Item": {"id": {"S": "a"}}})[:kept_bytes])

    error = failure(kind, script)
    assert isinstance(error, BadAnswer)
    assert error.sent
    assert error.retryable


def test_no_answer_at_all(kind):
    error = failure(kind, lambda incoming: incoming.read_request())
    assert isinstance(error, ConnectionFailed)
    assert error.sent


def test_a_reset(kind):
    def script(incoming):
        incoming.read_request()
        incoming.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        incoming.sock.close()

    error = failure(kind, script)
    assert isinstance(error, ConnectionFailed)
    assert error.sent


# ── not an answer of DynamoDB's ──────────────────────────────────────────────────────────────────

PAGE = b"<html><body>It works!</body></html>"


@pytest.mark.parametrize("status", [200, 404, 403, 301])
def test_a_web_page(kind, status):
    page = answer(PAGE, status, content_type="text/html", location="https://elsewhere.example/")
    error = failure(kind, always(page))
    assert isinstance(error, NotDynamoDB)
    assert not error.retryable
    assert ("https://elsewhere.example/" if status == 301 else "text/html") in error.reason


@pytest.mark.parametrize("body", [b"", PAGE, b"[]", b'{"oops": 1}'])
@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_a_servers_failure_without_a_word_of_dynamodbs(kind, status, body):
    error = failure(kind, always(answer(body, status)))
    assert isinstance(error, BadAnswer)
    assert str(status) in error.reason
    assert error.retryable


@pytest.mark.parametrize("body", [b"[]", b"null", b"17", b"{", b'"text"', b"\xff\xfe", b"{}{}"])
def test_json_that_is_no_answer(kind, body):
    assert isinstance(failure(kind, always(answer(body))), NotDynamoDB)


@pytest.mark.parametrize(
    "noise", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"220 mail ESMTP\r\n", b"\0" * 500]
)
def test_another_protocol(kind, noise):
    def script(incoming):
        incoming.read_request()
        incoming.send(noise)

    assert isinstance(failure(kind, script), BadAnswer)


def test_headers_without_end(kind):
    def script(incoming):
        incoming.read_request()
        incoming.send(b"HTTP/1.1 200 OK\r\n")
        for number in range(3000):
            incoming.send(b"X-Header-%d: %s\r\n" % (number, b"x" * 50))

    assert isinstance(failure(kind, script), BadAnswer)


def test_a_body_without_end(kind):
    def script(incoming):
        incoming.read_request()
        incoming.send(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n")
        for _ in range(400):
            incoming.send(b"x" * 10_000)

    error = failure(kind, script, Limits(read_seconds=5, answer_bytes=1_000_000))
    assert isinstance(error, BadAnswer)
    assert "longer" in error.reason


# ── mangled answers ──────────────────────────────────────────────────────────────────────────────

WHOLE = answer({"Item": {"id": {"S": "a"}}})
HOSTILE = st.sampled_from(
    [
        WHOLE.replace(b"content-length: ", b"content-length: 1"),
        WHOLE.replace(b"content-length: ", b"content-length: -"),
        WHOLE.replace(b"content-length: ", b"content-length: 1\r\ncontent-length: "),
        WHOLE.replace(b"content-length: ", b"transfer-encoding: chunked\r\ncontent-length: "),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/9.9"),
        WHOLE.replace(b"\r\n", b"\n"),
        WHOLE.replace(b"200", b"2000"),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        b"HTTP/1.1 200 OK\r\nx-amz-crc32: " + b"9" * 5000 + b"\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b'HTTP/1.1 400 Bad Request\r\ncontent-length: 13\r\n\r\n{"__type": 7}',
        b'HTTP/1.1 400 Bad Request\r\ncontent-length: 38\r\n\r\n{"__type": "x#\\u0000", "message": [1]} ',
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ]
)


@st.composite
def mangled(draw):
    """An answer with bytes cut, doubled, changed or put in."""
    data = bytearray(WHOLE)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "change", "insert", "double"])):
            case "cut":
                del data[at : at + draw(st.integers(1, 30))]
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=20))
            case _:
                data[at:at] = data[at : at + 40]
    return bytes(data)


ANYTHING = mangled() | HOSTILE | st.binary(max_size=200)


@pytest.mark.parametrize("reader", [FastReader, PlainReader])
@settings(max_examples=500)
@given(data=ANYTHING, cuts=st.lists(st.integers(0, 300), max_size=4))
def test_a_reader_gives_a_response_or_says_that_it_is_none(reader, data, cuts):
    reading = reader(10_000)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    try:
        for start, end in pairwise(places):
            if reading.feed(data[start:end]) is not None:
                return
        response = reading.end()
    except Malformed:
        return
    assert response is None or response.status >= 200


@settings(max_examples=300)
@given(
    data=st.sampled_from([WHOLE, answer(b"x" * 500, 400), b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE]),
    size=st.integers(1, 99),
)
def test_both_readers_read_the_same_in_pieces_of_any_size(data, size):
    found = []
    for reader in (FastReader, PlainReader):
        reading = reader(10_000)
        answers = [reading.feed(data[at : at + size]) for at in range(0, len(data), size)]
        found.append([one for one in answers if one is not None])
    assert len(found[0]) == 1
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def mangler():
    """A server that answers every request with `said`, and hangs up."""

    def script(incoming: Incoming) -> None:
        incoming.read_request()
        incoming.send(state["said"])

    state = {"said": b""}
    with fake(script) as server:
        yield server.url, state


LIMITS = Limits(connect_seconds=2, read_seconds=0.5)


@pytest.mark.parametrize("caller", KINDS.values(), ids=KINDS)
@settings(max_examples=100)
@given(data=ANYTHING)
def test_mangled_answers_end_in_typed_errors(mangler, caller, data):
    ends_well(mangler, caller, data)


@settings(max_examples=10)
@given(data=ANYTHING)
def test_mangled_answers_end_in_typed_errors_through_boto(mangler, data):
    ends_well(mangler, BotoTransport, data)


def ends_well(mangler, caller, data):
    url, state = mangler
    state["said"] = data
    began = time.monotonic()
    with calling(caller, url, LIMITS) as transport:
        try:
            transport.execute(*GET)
        except (DynamoDBError, TransportError) as error:
            assert isinstance(error, PenstockError)
    assert time.monotonic() - began < 30


# ── the errors themselves ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        TimedOut("http://x", "why", "next", sent=True),
        error_of("Unheard", "m", 503, {"a": 1}),
        error_of("ValidationException", "m"),
    ],
)
def test_errors_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again).__name__ == type(error).__name__
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("name", ["connections", "read_seconds", "connect_seconds", "idle_seconds", "pool_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_of_nothing_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


def test_an_interrupted_call_does_not_spoil_the_next(monkeypatch):
    from penstock.client.transports.http import Connection

    real = Connection._receive

    def interrupted(self):
        monkeypatch.setattr(Connection, "_receive", real)
        raise KeyboardInterrupt

    with fake(always(answer())) as server, calling(RemoteTransport, server.url) as transport:
        monkeypatch.setattr(Connection, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            transport.execute(*GET)
        assert transport.execute(*GET) == {}
        assert len(server.connections) == 2
