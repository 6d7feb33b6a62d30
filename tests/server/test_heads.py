"""Known heads: a request takes the short way only where the parser would have read the same from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_http import EchoEngine, RawClient, request

from penstock.engine.settings import DEFAULT_SCOPE
from penstock.server import known_heads, request_reader
from penstock.server.known_heads import Meaning
from penstock.server.replies import PLAIN, Reply
from penstock.server.request_reader import RequestReader
from penstock.server.server import Options, ServerThread, running_server

SIGNATURE = "AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature="


class Ear:
    """Writes down what it hears: (operation, body) for each request, and which of them took the fast path."""

    def __init__(self, learns: bool = True) -> None:
        self.reader = RequestReader(self)
        self.data_received = self.reader.data_received
        self.heard: list[tuple[Any, bytes]] = []
        self.short: list[bytes] = []
        if not learns:
            self.reader._misses = known_heads.MISSES + 1

    def received(self, body: bytes) -> None:
        operation = self.reader.headers.get(b"x-amz-target", b"").decode("latin-1")
        self.heard.append((operation, body))
        self.reader.meaning = Meaning(PLAIN, operation, DEFAULT_SCOPE, may_be_costly=False, heavy_bytes=1_000_000)

    def understood(self, meaning: Meaning, body: bytes) -> bool:
        if body.startswith(b"!"):  # as what is no JSON
            return False
        self.heard.append((meaning.operation, body))
        self.short.append(body)
        return True

    def refuse(self, reply: Reply) -> None:
        self.heard.append((reply.status, b""))
        self.reader.is_discarding = True

    def send_continue(self) -> None: ...
    def discard(self, count: int) -> None: ...
    def touch(self) -> None: ...
    def must_wait(self) -> bool:
        return False

    def hold(self, count: int) -> bool:
        return True


def sent(body: bytes = b'{"Id":1}', operation: str = "GetItem", signature: str = "a" * 64, **headers: Any) -> bytes:
    return request(operation, body, **{"Authorization": SIGNATURE + signature, **headers})


def ear_that_knows(*requests: bytes) -> Ear:
    """One that has heard each request often enough to know its head."""
    ear = Ear()
    for data in (requests[0], *requests):
        ear.data_received(data)
    assert ear.short == [], "a head is learned from the second request on"
    ear.heard.clear()
    return ear


def test_a_head_that_comes_apart_from_its_body_is_known_too_2() -> None:
    ear = Ear()
    for number in range(5):
        head, end, body = sent(b'{"Id":%d}' % number, signature=str(number) * 64).partition(b"\r\n\r\n")
        ear.data_received(head + end)
        assert len(ear.heard) == number, "a head alone is no request"
        ear.data_received(body)
    assert ear.short == [b'{"Id":2}', b'{"Id":3}', b'{"Id":4}']
    ear.data_received(sent(b'{"Id":5}'))
    assert len(ear.short) == 4, "the same head with its body"


@pytest.mark.parametrize("cut", [1, 4, 7])
def test_a_body_that_comes_in_parts_behind_a_known_head_is_the_parsers(cut: int) -> None:
    ear = ear_that_knows(sent())
    head, end, body = sent(b'{"Id":7}').partition(b"\r\n\r\n")
    for data in (head + end, body[:cut], body[cut:] + sent(b'{"Id":8}'), sent(b'{"Id":9}')):
        ear.data_received(data)
    assert [body for _, body in ear.heard] == [b'{"Id":7}', b'{"Id":8}', b'{"Id":9}']
    assert ear.short == [b'{"Id":9}']


def test_a_head_without_a_body_is_a_request_at_once() -> None:
    ear = ear_that_knows(sent(b"x"))
    ear.data_received(sent(b""))
    assert [body for _, body in ear.heard] == [b""]


def test_a_new_length_is_learned_between_heads_that_are_known() -> None:
    ear = ear_that_knows(sent())
    for _ in range(4):
        ear.data_received(sent())
        ear.data_received(sent(b"x" * 50))
    assert ear.short.count(b"x" * 50) == 3


def test_a_head_like_the_one_before_it_is_not_parsed_again_1() -> None:
    ear = ear_that_knows(sent())
    ear.data_received(sent(b'{"Id":2}', signature="b" * 64, X_Amz_Date="20260102T030405Z"))
    assert ear.short == [b'{"Id":2}']


def test_heads_of_several_operations_and_lengths_are_known_at_once() -> None:
    kinds = [sent(b"x" * length, name) for name in ("GetItem", "PutItem", "UpdateItem") for length in (5, 50)]
    ear = ear_that_knows(*kinds)
    for data in kinds * 3:
        ear.data_received(data)
    assert len(ear.short) == len(kinds) * 3


def test_the_sdks_own_ids_may_differ() -> None:
    ids = ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "0a1b2c3d-9dad-11d1-80b4-00c04fd430c9"]
    first, second = (sent(amz_sdk_invocation_id=one, X_Amz_Content_Sha256=one * 2) for one in ids)
    ear = ear_that_knows(first)
    ear.data_received(second)
    assert len(ear.short) == 1


@pytest.mark.parametrize(
    "data",
    [
        sent(X_New="y"),
        sent(Content_Type="application/json"),
        sent(operation="PutItem"),
        sent(signature="a" * 63),
        sent(signature="a" * 10 + "\r\nX-New: " + "b" * 45),
        sent(signature="a" * 60 + "b\x00cd"),
        sent(Content_Type="application/x-amz-json-1.0\r\nTransfer-Encoding: chunked"),
        sent(Authorization=SIGNATURE.replace("KEY", "YEK") + "a" * 64),
        sent(method="GET"),
        sent(path="/x"),
        sent(version="1.0"),
        sent().replace(b": 8\r\n", b": 08\r\n"),
        sent().replace(b": 8\r\n", b": +8\r\n"),
        sent(b"!not json"),
        b"\r\n" + sent(),
    ],
)
def test_what_differs_elsewhere_goes_to_the_parser_4(data: bytes) -> None:
    ear, parser = ear_that_knows(sent()), Ear(learns=False)
    for one in (ear, parser):
        one.data_received(data)
    assert ear.short == []
    assert ear.heard == parser.heard


@pytest.mark.parametrize("header", ["Transfer-Encoding", "Expect", "Content-Encoding", "Upgrade", "TE", "Trailer"])
def test_a_head_that_asks_for_more_than_a_length_is_not_learned_3(header: str) -> None:
    data = sent(**{header: "gzip"})
    headers = dict(line.lower().split(b": ", 1) for line in data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:])
    meaning = Meaning(PLAIN, "GetItem", DEFAULT_SCOPE, may_be_costly=False, heavy_bytes=1_000_000)
    assert known_heads.learn(data, headers, meaning) is None


@pytest.mark.parametrize(
    "data",
    [
        sent() + sent(),
        sent().replace(b"Host: ", b"Host:"),
        sent().replace(b"\r\nHost:", b"\r\nX-A: 1\r\nX-A: 2\r\nHost:"),
        sent(chunks=3),
    ],
)
def test_a_head_that_we_read_otherwise_than_the_parser_is_not_learned_3(data: bytes) -> None:
    ear = Ear()
    for _ in range(4):
        ear.data_received(data)
    assert ear.reader.heads == []


def test_the_end_of_an_authorization_is_a_hole_only_where_it_is_the_signature() -> None:
    by = "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=00, Credential="
    ear = ear_that_knows(sent(Authorization=by + "ALICE"))
    ear.data_received(sent(Authorization=by + "MARIA"))
    assert ear.short == []


def test_a_connection_whose_heads_are_ever_different_is_left_alone() -> None:
    ear = Ear()
    for number in range(known_heads.MISSES + 1):
        ear.data_received(sent(X_Number=str(number)))
    for _ in range(3):
        ear.data_received(sent())
    assert ear.short == [] and ear.reader.heads == []


def test_bodies_that_come_in_parts_count_for_nothing() -> None:
    ear = ear_that_knows(sent())
    large = sent(b"x" * 1000)
    for _ in range(known_heads.MISSES * 2):
        ear.data_received(large[:-500])
        ear.data_received(large[-500:])
    ear.data_received(sent())
    assert len(ear.short) == 1


def test_a_new_day_is_learned_anew() -> None:
    ear = ear_that_knows(sent())
    tomorrow = sent().replace(b"KEY/20260101", b"KEY/20260102")
    for data in [sent()] * 50 + [tomorrow] * 50:
        ear.data_received(data)
    assert len(ear.short) >= 98


# ── the law: with known heads or without, the same is heard ──

BODIES = st.sampled_from(
    [b"{}", b'{"Id":1}', b"!", b"", b"x" * 99, b"y" * 100, b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"]
)
SIGNATURES = st.sampled_from(["a" * 64, "b" * 64, "-" * 64, "a" * 63, "a" * 30 + "\r\nX-Y: " + "b" * 27, "a " * 32])
REQUESTS = st.builds(sent, BODIES, st.sampled_from(["GetItem", "PutItem"]), SIGNATURES)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A request with a few bytes gone, doubled or replaced."""
    data = draw(REQUESTS)
    at = draw(st.integers(0, len(data) - 1))
    instead = draw(st.sampled_from([b"", b"\r\n", b"\n", b" ", b"0", b"9", b"x", b":", b"\x00", data[at : at + 1] * 2]))
    return data[:at] + instead + data[at + 1 :]


@given(st.lists(st.one_of(REQUESTS, damaged()), max_size=6), st.lists(st.integers(1, 900), max_size=2), st.booleans())
def test_known_heads_change_nothing_that_is_heard_2(requests: list[bytes], cuts: list[int], apart: bool) -> None:
    ears = [ear_that_knows(sent(), sent(b"x" * 99), sent(operation="PutItem")), Ear(learns=False)]
    for ear in ears:
        for data in requests:
            at = sorted([*cuts, data.find(b"\r\n\r\n") + 4]) if apart else sorted(cuts)
            for begin, end in zip([0, *at], [*at, len(data)], strict=True):
                if data[begin:end]:
                    ear.data_received(data[begin:end])
    assert ears[0].heard == ears[1].heard
    # What a known head has begun is not the parser's yet; it must end alike.
    for ear in ears:
        ear.data_received(b"x" * 200)
        ear.data_received(sent())
    assert ears[0].heard == ears[1].heard


# ── on a socket ──


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What went to the parser from now on."""
    found: list[bytes] = []
    parse = RequestReader._parse

    def noting(self: RequestReader, data: bytes) -> None:
        found.append(data)
        parse(self, data)

    monkeypatch.setattr(request_reader.RequestReader, "_parse", noting)
    return found


def known(client: RawClient) -> None:
    for _ in range(3):
        assert client.ask(request(body={"Id": 0})).status == 200


def ids(answers: list[Any]) -> list[int]:
    return [answer.json()["Request"]["Id"] for answer in answers]


def test_a_connection_parses_its_first_requests_only(client: RawClient, parsed: list[bytes]) -> None:
    assert ids([client.ask(request(body={"Id": n % 10})) for n in range(50)]) == [n % 10 for n in range(50)]
    assert len(parsed) == 2


def test_a_known_head_may_come_in_parts(client: RawClient) -> None:
    known(client)
    data = request(body={"Id": 5})
    end = data.index(b"\r\n\r\n") + 4
    for cut in (1, 20, end - 2, end, end + 1, len(data) - 1):
        client.send(data[:cut])
        time.sleep(0.02)  # mostly two reads; if it is one, the answer is the same
        assert ids([client.ask(data[cut:])]) == [5]
        assert ids([client.ask(request(body={"Id": 6}))]) == [6]


def test_a_known_head_may_be_followed_by_a_body_of_another_length(client: RawClient) -> None:
    known(client)
    for size in (1, 2, 10, 100, 5000, 70_000, 3):
        body = {"Id": 1, "Long": "y" * size}
        assert client.ask(request(body=body)).json()["Request"] == body


def test_requests_with_known_heads_may_be_pipelined(client: RawClient) -> None:
    known(client)
    for _ in range(3):
        client.send(b"".join(request(body={"Id": n}) for n in range(10)))
        assert ids([client.read() for _ in range(10)]) == list(range(10))
        assert ids([client.ask(request(body={"Id": 7}))]) == [7]


def test_a_length_that_says_less_than_what_follows_smuggles_nothing(client: RawClient, engine: EchoEngine) -> None:
    known(client)
    hidden = request("DeleteItem", {"Id": 9})
    client.send(request(body={"Id": 1}) + hidden)
    answers = [client.read(), client.read()]
    assert [answer.json()["Operation"] for answer in answers] == ["GetItem", "DeleteItem"]
    engine.order.clear()
    body = b'{"Id":1}' + b" " * len(hidden)
    shown = request(body=body).replace(b" " * len(hidden), hidden)
    assert client.ask(shown).status == 400, "what looks like a request is the end of the body"
    assert engine.order == []


def test_a_length_that_says_more_than_what_follows_waits_for_it(client: RawClient) -> None:
    known(client)
    data = request(body=b'{"Id":3}').replace(b"Content-Length: 8", b"Content-Length: 9")
    client.send(data)
    assert ids([client.ask(b" " + request(body={"Id": 4})), client.read()]) == [3, 4]


def test_a_broken_body_behind_a_known_head_is_answered_as_ever(client: RawClient) -> None:
    known(client)
    for body in (b'{"Id":', b"[]", b'"text"', b"7"):
        answer = client.ask(request(body=body))
        assert (answer.status, answer.error) == (400, "SerializationException")
        assert client.ask(request(body={"Id": 0})).status == 200


def test_a_query_with_a_filter_stays_heavy(client: RawClient, engine: EchoEngine) -> None:
    for _ in range(4):
        client.ask(request("Query", {"Id": 1}))
    groups = len(engine.groups)
    client.ask(request("Query", {"Id": 2, "FilterExpression": "a = b"}))
    assert len(engine.groups) == groups, "it ran in a thread"


def test_a_connection_of_its_own_style_keeps_it(client: RawClient, parsed: list[bytes]) -> None:
    for _ in range(5):
        answer = client.ask(request(body={"Size": 5000}, Accept_Encoding="gzip", Origin="http://127.0.0.1:9"))
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["access-control-allow-origin"] == "*"
    assert len(parsed) == 2


def test_connection_close_is_heeded_after_known_heads(client: RawClient) -> None:
    known(client)
    assert client.ask(request(Connection="close")).headers["connection"] == "close"
    assert client.at_end()


def test_where_signatures_are_checked_each_request_is_parsed(parsed: list[bytes]) -> None:
    options = Options(secrets={"KEY": "secret"})
    with running_server(EchoEngine(), options=options) as server, RawClient(server.url) as client:
        for _ in range(4):
            assert client.ask(request()).status == 400
    assert len(parsed) == 4


def test_accounts_are_told_apart_behind_known_heads() -> None:
    with running_server(EchoEngine(), options=Options(per_account=True)) as server, RawClient(server.url) as client:
        for account in ("111111111111", "222222222222") * 3:
            signed = SIGNATURE.replace("KEY", account) + "a" * 64
            for _ in range(3):
                assert client.ask(request(Authorization=signed)).json()["Account"] == account


def test_a_body_that_is_awaited_when_the_server_stops_is_answered_as_the_last(echo_server: ServerThread) -> None:
    head, end, body = request(body={"Id": 3}).partition(b"\r\n\r\n")
    with RawClient(echo_server.url) as client:
        known(client)
        client.send(head + end)
        (connection,) = echo_server._server.limits
        until(lambda: connection._reader._begun is not None)
        stopping = threading.Thread(target=echo_server.stop, args=(10,))
        stopping.start()
        until(lambda: connection._reader.heads == [])
        answer = client.ask(body)
        assert ids([answer]) == [3] and answer.headers["connection"] == "close"
        assert client.at_end()
        stopping.join()


def until(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


def test_a_server_that_stops_says_so_behind_known_heads(echo_server: ServerThread) -> None:
    with RawClient(echo_server.url) as client:
        known(client)
        client.send(request("Query", {"Id": 1, "FilterExpression": "a = b", "Sleep": 0.3}) + request(body={"Id": 2}))
        assert ids([client.read(), client.read()]) == [1, 2]
        echo_server.stop()
        assert client.at_end()
