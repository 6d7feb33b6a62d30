"""Large bodies: counted before they are parsed, parsed beside the event loop, one at a time."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_http import EchoEngine, RawClient, request

from penstock.engine import Engine, Pending
from penstock.engine.requests.shapes import CONVERTED_PAST_MAXIMUM
from penstock.errors import DynamoDBError
from penstock.server import connection_limits, group_commit, routing
from penstock.server.routing import MOST_TOKENS, MOST_TOKENS_OF_OTHERS, Refused, Router, has_more_tokens
from penstock.server.server import ServerThread, running_server
from penstock.wire.limits import REQUEST_BYTES

MEGABYTE = 1024 * 1024
UNENDING = b"[" * 2_000_001 + b'"' + b'\\"' * 7_000_000
"""A string that never ends, of escaped quotes: each of them may begin one."""

_JSON = st.recursive(
    st.none() | st.booleans() | st.text(alphabet='a",[]{}\\é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='b",[]{}\\'), inner),
    max_leaves=30,
)


def tokens_of(value: Any) -> int:
    """Brackets, braces and commas that stand for a value, and not within a string."""
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(tokens_of, value))
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(tokens_of, value.values()))
    return 0


@given(_JSON, st.integers(2, 7))
def test_what_is_counted_are_the_values_and_not_what_stands_in_strings(value: Any, piece: int) -> None:
    text = orjson.dumps(value)
    count = tokens_of(value)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routing, "_PIECE_BYTES", piece)  # strings and escapes lie across pieces
        assert not has_more_tokens(text, count)
        assert has_more_tokens(text, count - 1)


@pytest.mark.parametrize(
    "text",
    [UNENDING, b'"' + b"\\" * REQUEST_BYTES, b'"",' * 5_000_000, b'"\\' * 8_000_000, b"[,{" * 5_000_000],
)
def test_whatever_stands_in_a_text_it_is_cut_into_as_many_pieces_as_its_length_asks_for(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []
    cut = routing._piece

    def counting(text: bytes, at: int) -> bytes:
        piece = cut(text, at)
        pieces.append(len(piece))
        return piece

    monkeypatch.setattr(routing, "_piece", counting)
    has_more_tokens(text, 1_000)
    assert len(pieces) <= len(text) // (routing._PIECE_BYTES - 1) + 1


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("PutItem", b"[" + b"[]," * (MOST_TOKENS // 2 + 1) + b"[]]"),
        ("PutItem", b"[" + b"1," * MOST_TOKENS + b"1]"),
        ("TransactWriteItems", b'{"TransactItems":[' + b"{}," * (MOST_TOKENS // 2 + 1) + b"{}]}"),
        ("GetItem", b'{"Key":[' + b'{"N":"1111111111111111"},' * (MOST_TOKENS_OF_OTHERS // 2 + 1) + b"{}]}"),
        ("NoSuchOperation", b"[" + b"1," * MEGABYTE + b"1]"),
    ],
)
def test_a_body_of_more_values_than_its_operation_takes_is_not_parsed(
    operation: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(body) <= REQUEST_BYTES
    monkeypatch.setattr(routing, "orjson", SimpleNamespace(loads=lambda _: pytest.fail("it is parsed")))
    with pytest.raises(DynamoDBError) as caught:
        Router(["PutItem", "GetItem", "TransactWriteItems"]).route(b"POST", b"/", headers(operation), body)
    assert caught.value.code == "SerializationException"


def headers(operation: str) -> dict[bytes, bytes]:
    return {
        b"x-amz-target": f"DynamoDB_20120810.{operation}".encode(),
        b"content-type": b"application/x-amz-json-1.0",
        b"x-amz-date": b"20260101T000000Z",
        b"authorization": b"AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, "
        b"SignedHeaders=host;x-amz-date, Signature=" + b"a" * 64,
    }


def test_the_densest_item_that_dynamodb_takes_is_parsed() -> None:
    elements = (REQUEST_BYTES - 200) // len('{"L":[]},')
    body = b'{"TableName":"tab","Item":{"pk":{"S":"a"},"l":{"L":[' + b'{"L":[]},' * (elements - 1) + b'{"L":[]}]}}}'
    assert REQUEST_BYTES - 200 < len(body) <= REQUEST_BYTES
    routed = Router(["PutItem"]).route(b"POST", b"/", headers("PutItem"), body)
    assert len(routed.call.request["Item"]["l"]["L"]) == elements


@pytest.mark.parametrize("coded", [False, True])
def test_the_large_body_of_a_stranger_is_neither_unpacked_nor_parsed(
    coded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.server.auth.signature import Verifier

    for name in ("unpack", "has_more_tokens"):
        monkeypatch.setattr(routing, name, lambda *_: pytest.fail("it is looked into"))
    monkeypatch.setattr(routing, "orjson", SimpleNamespace(loads=lambda _: pytest.fail("it is parsed")))
    router = Router(["PutItem"], verifier=Verifier({"KEY": "secret"}))
    given = headers("PutItem") | ({b"content-encoding": b"gzip"} if coded else {})
    with pytest.raises((DynamoDBError, Refused)) as caught:
        router.route(b"POST", b"/", given, b"x" if coded else b" " * (2 * MEGABYTE))
    assert getattr(caught.value, "code", "") in ("InvalidSignatureException", "UnrecognizedClientException")


@pytest.fixture
def server() -> Iterator[ServerThread]:
    with running_server(EchoEngine()) as server:
        yield server


def test_the_body_that_used_to_hang_the_server_is_refused(server: ServerThread) -> None:
    packed = gzip.compress(UNENDING)
    assert len(packed) < 20_000
    with RawClient(server.url, timeout=120) as hostile, RawClient(server.url, timeout=120) as other:
        hostile.send(request("GetItem", packed, Content_Encoding="gzip"))
        assert other.ask(request(method="GET", path="/healthz")).status == 200
        answer = hostile.read()
        assert (answer.status, answer.error) == (400, "SerializationException")


def test_others_are_answered_while_a_large_body_is_carried_out(server: ServerThread) -> None:
    body = json.dumps({"Id": "large", "Sleep": 1, "Filler": "x" * MEGABYTE}).encode()
    with RawClient(server.url, timeout=120) as large, RawClient(server.url, timeout=120) as other:
        large.send(request("PutItem", body) + request("GetItem", {"Id": "after"}))
        while not any(one._busy for one in server._server.limits):
            assert other.ask(request(method="GET", path="/healthz")).status == 200
        assert other.ask(request("GetItem", {"Id": "small"})).status == 200
        assert [large.read().json()["Request"]["Id"] for _ in range(2)] == ["large", "after"]
        engine = server.engine
        assert isinstance(engine, EchoEngine)
        assert engine.order == ["GetItem:small", "PutItem:large", "GetItem:after"]


def test_a_small_body_that_comes_packed_is_called_as_any_other_and_keeps_its_place(server: ServerThread) -> None:
    packed = gzip.compress(b'{"Id":1}')
    with RawClient(server.url, timeout=120) as client:
        client.send(
            request("GetItem", {"Id": 0})
            + request("PutItem", packed, Content_Encoding="gzip")
            + request("Query", packed, Content_Encoding="gzip")
            + request("TagResource", packed, Content_Encoding="gzip")
            + request("GetItem", {"Id": 3})
        )
        answers = [client.read() for _ in range(5)]
        assert [one.status for one in answers] == [200] * 5
        assert answers[3].body == b""
        assert [one.json()["Request"]["Id"] for one in answers if one.body] == [0, 1, 1, 3]


def test_a_small_body_that_comes_packed_waits_for_no_large_one_4(server: ServerThread) -> None:
    large = json.dumps({"Id": "large", "Sleep": 1, "Filler": "x" * MEGABYTE}).encode()
    with RawClient(server.url, timeout=120) as first, RawClient(server.url, timeout=120) as second:
        first.send(request("PutItem", large))
        while not any(one._busy for one in server._server.limits):
            pass
        packed = gzip.compress(b'{"Id":"small"}')
        assert second.ask(request("GetItem", packed, Content_Encoding="gzip")).status == 200
        assert first.read().status == 200
    engine = server.engine
    assert isinstance(engine, EchoEngine)
    assert engine.order == ["GetItem:small", "PutItem:large"]


def test_a_large_answer_is_compressed_beside_the_event_loop(
    server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    pack = group_commit.pack

    def noting(encoding: bytes, body: bytes) -> bytes:
        threads.append(threading.current_thread().name)
        return pack(encoding, body)

    monkeypatch.setattr(group_commit, "pack", noting)
    with RawClient(server.url, timeout=120) as client:
        answer = client.ask(request("Scan", {"Size": MEGABYTE}, Accept_Encoding="gzip"))
        assert len(answer.json()["Filler"]) == MEGABYTE
        assert client.ask(request("GetItem", {"Id": 1})).status == 200
    assert len(threads) == 1 and threads[0].startswith("penstock-")


@pytest.mark.parametrize(
    ("operation", "asked", "is_heavy"),
    [
        ("GetItem", {"Key": {}}, False),
        ("GetItem", {"Key": {}, "ProjectionExpression": "a"}, True),
        ("GetItem", {"Key": {}, "AttributesToGet": ["a"]}, True),
        ("Query", {}, False),
        ("Query", {"FilterExpression": "a = b"}, True),
        ("Query", {"ProjectionExpression": "a"}, True),
        ("Query", {"ProjectionExpression": "a", "Limit": 5}, False),
        ("BatchGetItem", {}, True),
        ("TransactGetItems", {}, True),
        ("TransactWriteItems", {"TransactItems": []}, False),
        ("TransactWriteItems", {"TransactItems": ["x" * 20_000]}, True),
        ("PutItem", {"Item": "x" * 20_000}, False),
        ("PutItem", {"Item": "x" * 200_000}, True),
    ],
)
def test_what_may_take_long_is_carried_out_by_a_thread(operation: str, asked: dict[str, Any], is_heavy: bool) -> None:
    body = orjson.dumps(asked)
    assert Router([operation]).route(b"POST", b"/", headers(operation), body).is_heavy is is_heavy


def test_large_bodies_that_wait_count_as_held_and_are_let_go(
    server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "HELD_BYTES", 5 * MEGABYTE)
    held = server._server.limits
    slow = json.dumps({"Id": 1, "Sleep": 0.5, "Filler": "x" * 2 * MEGABYTE}).encode()
    with RawClient(server.url, timeout=120) as first, RawClient(server.url, timeout=120) as second:
        first.send(request("PutItem", slow))
        while not any(one._busy for one in held):
            pass
        second.send(request("PutItem", slow))
        while held._held_bytes < 2 * len(slow):
            pass
        with RawClient(server.url, timeout=120) as third:
            assert third.ask(request("PutItem", slow)).status == 503
        assert first.read().status == 200
        with RawClient(server.url, timeout=120) as gone:
            gone.send(request("PutItem", slow))
            while held._held_bytes < 2 * len(slow):
                pass
        assert second.read().status == 200
    while held._held_bytes or len(held):
        pass


# ── memory ──

LONG = 200
TIMES = 50  # and five requests each
REFUSED = {
    "actions without end": ("TransactWriteItems", {"TransactItems": [{}] * LONG}),
    "actions of nothing": ("TransactWriteItems", {"TransactItems": [{"Put": {}}] * LONG}),
    "gets without end": ("TransactGetItems", {"TransactItems": [{"Get": {}}] * LONG}),
    "a wrong type": ("PutItem", {"TableName": "tab", "Item": {"a": {"L": [{"N": "1"}] * LONG + [{"S": 1}]}}}),
    "a wrong number": ("PutItem", {"TableName": "tab", "Item": {"a": {"L": [{"N": "1"}] * LONG + [{"N": "x"}]}}}),
    "no table": ("PutItem", {"TableName": "none", "Item": {"pk": {"S": "a"}, "l": {"L": [{"N": "1"}] * 999}}}),
    "a batch without end": ("BatchWriteItem", {"RequestItems": {"tab": [{}] * LONG}}),
    "keys without end": ("BatchGetItem", {"RequestItems": {"tab": {"Keys": [{}] * LONG}}}),
    "an update of nothing": ("UpdateItem", {"TableName": "tab", "Key": {"x": {"L": [{"N": "1"}] * LONG}}}),
    "a wrong expression": (
        "UpdateItem",
        {"TableName": "tab", "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET", "Filler": [[]] * LONG},
    ),
    "statements without end": ("BatchExecuteStatement", {"Statements": [{"Statement": "x"}] * LONG}),
    "a statement of nothing": ("ExecuteStatement", {"Statement": "SELECT", "Parameters": [{"N": "1"}] * LONG}),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_forgotten_without_the_collector(kind: str) -> None:
    operation, asked = REFUSED[kind]
    body = orjson.dumps(asked)
    with Engine() as engine:
        engine.execute(
            "CreateTable",
            {
                "TableName": "tab",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )

        def refuse(times: int) -> None:
            for _ in range(times):
                for answers in (
                    engine.answer_many([Pending(operation, orjson.loads(body))]),
                    engine.answer_many([Pending(operation, orjson.loads(body)) for _ in range(2)]),
                    engine.try_answer_many([Pending(operation, orjson.loads(body)) for _ in range(2)]) or [],
                ):
                    assert all(isinstance(one, DynamoDBError) for one in answers)

        def grown() -> int:
            gc.collect()
            before = len(gc.get_objects())
            refuse(TIMES)
            return len(gc.get_objects()) - before

        refuse(2)
        gc.disable()
        try:
            # Again where another thread has made objects meanwhile: what a request leaves, it leaves each time.
            assert any(grown() < TIMES * 5 for _ in range(3)), "a request lives until the collector comes"
        finally:
            gc.enable()


def test_a_list_that_is_far_too_long_is_not_built_again_to_be_refused() -> None:
    many = {"TransactItems": [{} for _ in range(200_000)]}
    with Engine() as engine:
        engine.answer_many([Pending("TransactWriteItems", many)])
        tracemalloc.start()
        try:
            (answer,) = engine.answer_many([Pending("TransactWriteItems", many)])
            assert "less than or equal to 100" in str(answer)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert CONVERTED_PAST_MAXIMUM < 200_000
    assert most < 64 * 200_000 / 2, "less than half of what as many empty maps take"


def test_the_collector_rests_while_millions_of_values_are_made() -> None:
    seen: list[bool] = []

    class Watching(Router):
        def route(self, *_: Any) -> Any:
            seen.append(gc.isenabled())
            raise Refused(routing.TOO_LARGE)

    bodies = routing.LargeBodies(Watching([]), lambda _: b"", None)  # type: ignore[arg-type]
    bodies._outcome(routing.Unrouted(b"POST", b"/", {}, b""))
    assert seen == [False]
    assert gc.isenabled()
    bodies.close()
