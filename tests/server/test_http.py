"""Bytes on a socket: framing, order, limits. The numbers cite the promises in connection.py and group_commit.py."""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from types import SimpleNamespace

import pytest
from raw_http import Answer, EchoEngine, RawClient, request, until

from penstock.server import connection, connection_limits
from penstock.server.server import ServerThread
from penstock.wire.limits import REQUEST_BYTES


def ids(answers: list[Answer]) -> list[int]:
    return [answer.json()["Request"]["Id"] for answer in answers]


def test_an_answer_has_dynamodbs_headers(client: RawClient) -> None:
    answer = client.ask(request(body={"Id": 1}))
    assert answer.status == 200
    assert answer.json()["Operation"] == "GetItem"
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"
    assert int(answer.headers["x-amz-crc32"]) == zlib.crc32(answer.body)
    assert answer.headers["x-amzn-requestid"].isalnum() and len(answer.headers["x-amzn-requestid"]) == 52
    assert answer.headers["x-amzn-requestid"] == answer.headers["x-amzn-requestid"].upper()
    assert answer.headers["date"].endswith(" GMT") and answer.headers["server"] == "Penstock"


def test_request_ids_differ(client: RawClient) -> None:
    assert len({client.ask(request()).headers["x-amzn-requestid"] for _ in range(50)}) == 50


def test_an_error_of_the_engine_is_answered_as_dynamodb_does(client: RawClient) -> None:
    answer = client.ask(request(body={"Fail": "Requested resource not found"}))
    assert answer.status == 400
    assert answer.json() == {
        "__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
        "message": "Requested resource not found",
    }
    assert int(answer.headers["x-amz-crc32"]) == zlib.crc32(answer.body)


def test_a_fault_of_the_engine_is_a_500_and_the_connection_lives(client: RawClient) -> None:
    assert client.ask(request(body={"Crash": 1})).status == 500
    assert client.ask(request("Scan", {"Crash": 1})).status == 500
    assert client.ask(request()).status == 200


def test_a_connection_is_kept_alive(client: RawClient) -> None:
    assert ids([client.ask(request(body={"Id": n})) for n in range(5)]) == [0, 1, 2, 3, 4]


def test_pipelined_requests_are_answered_in_order_1(client: RawClient) -> None:
    client.send(b"".join(request(body={"Id": n}) for n in range(500)))
    assert ids([client.read() for _ in range(500)]) == list(range(500))


def test_pipelined_requests_are_executed_together(client: RawClient, engine: EchoEngine) -> None:
    client.send(b"".join(request(body={"Id": n}) for n in range(20)))
    for _ in range(20):
        client.read()
    assert max(engine.groups) > 1


def test_a_heavy_call_keeps_its_place_1(client: RawClient, engine: EchoEngine) -> None:
    calls = [
        request(body={"Id": 0}),
        request("Scan", {"Id": 1, "Sleep": 0.2}),
        request(body={"Id": 2}),
        request("Query", {"Id": 3, "Sleep": 0.1, "FilterExpression": "a = b"}),
        request("Nonsense", {"Id": 4}),
        request("PutItem", {"Id": 5}),
    ]
    client.send(b"".join(calls))
    answers = [client.read() for _ in calls]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 400, 200]
    assert ids(answers[:4]) == [0, 1, 2, 3] and ids(answers[5:]) == [5]
    assert engine.order == ["GetItem:0", "Scan:1", "GetItem:2", "Query:3", "PutItem:5"]


def test_a_heavy_call_holds_up_nobody_else_4(echo_server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(seconds: float) -> None:
        if seconds:
            begun.set()
            go_on.wait(60)

    monkeypatch.setattr("raw_http.time", SimpleNamespace(sleep=wait))
    with RawClient(echo_server.url) as slow, RawClient(echo_server.url) as quick:
        slow.send(request("Scan", {"Id": 1, "Sleep": 0.5}))
        assert begun.wait(60)
        assert quick.ask(request()).status == 200
        go_on.set()
        assert slow.read().status == 200


def test_a_chunked_body_is_put_together(client: RawClient) -> None:
    assert ids([client.ask(request(body={"Id": 7, "Long": "y" * 1000}, chunks=13))]) == [7]
    assert ids([client.ask(request(body={"Id": 8}))]) == [8]


def test_a_request_may_arrive_byte_by_byte(client: RawClient) -> None:
    for byte in request(body={"Id": 3}):
        client.send(bytes([byte]))
    assert ids([client.read()]) == [3]


def test_a_client_that_asks_first_is_told_to_continue(client: RawClient) -> None:
    head, _, body = request(body={"Id": 1}, Expect="100-continue").partition(b"\r\n\r\n")
    assert client.ask(head + b"\r\n\r\n").status == 100
    assert ids([client.ask(body)]) == [1]


def test_a_client_that_asks_first_for_too_much_is_refused_at_once(client: RawClient) -> None:
    head = request(Expect="100-continue").replace(b"Content-Length: 2", b"Content-Length: 999999999")
    answer = client.ask(head.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
    assert answer.status == 413


@pytest.mark.parametrize("chunks", [0, 1 << 20])
def test_a_body_of_more_than_16_mb_is_refused_and_the_client_can_read_why(client: RawClient, chunks: int) -> None:
    data = request(body=b" " * (REQUEST_BYTES + 1), chunks=chunks)
    sender = threading.Thread(target=lambda: client.send(data))
    sender.start()
    answer = client.read()
    sender.join()
    assert answer.status == 413
    assert answer.error == "RequestEntityTooLargeException"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert client.at_end()


def test_bodies_that_arrive_slowly_share_a_limit_3(echo_server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "HELD_BYTES", 3_000_000)
    monkeypatch.setattr(connection, "STALLED_TICKS", 1_000)
    data = request(body=b" " * 2_000_000 + b"{}")
    with RawClient(echo_server.url) as first, RawClient(echo_server.url) as second:
        first.send(data[:1_900_000])
        until(lambda: echo_server._server.limits._held_bytes > 1_500_000)
        second.send(data[:1_900_000])
        assert second.read().status == 503
        assert first.ask(data[1_900_000:]).status == 200
    with RawClient(echo_server.url) as third:
        assert third.ask(data).status == 200


def test_a_body_of_exactly_16_mb_is_taken(client: RawClient) -> None:
    body = b'{"Id":1}'
    client.send(request(body=body + b" " * (REQUEST_BYTES - len(body))))
    assert ids([client.read()]) == [1]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100,  # a TLS hello
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"no http at all\r\n\r\n",
    ],
)
def test_garbage_is_answered_with_400_and_the_connection_closed_5(client: RawClient, garbage: bytes) -> None:
    answer = client.ask(garbage)
    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    client.socket.shutdown(1)
    assert client.at_end()


def test_garbage_after_a_request_leaves_its_answer_alone_1(client: RawClient) -> None:
    client.send(request(body={"Id": 1}) + b"\x00\x00\x00\r\n\r\n")
    assert ids([client.read()]) == [1]
    assert client.read().status == 400


def test_endless_headers_are_refused(client: RawClient) -> None:
    client.send(b"POST / HTTP/1.1\r\n")
    for _ in range(40):
        try:
            client.send(b"X-Filler: " + b"a" * 4000 + b"\r\n")
        except OSError:
            break
    assert client.read().status == 400


@pytest.mark.parametrize(
    "data",
    [
        request(X_One="x" * 8192, X_Two="y" * 8192),
        request(path="/" + "x" * 17_000),
        request(X_One="x" * 17_000),
        request(body={"Filler": "z" * 40_000}, X_One="x" * 17_000),
    ],
)
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_head_of_more_than_16_kb_is_a_bad_request(client: RawClient, data: bytes, in_parts: bool) -> None:
    for part in [data[:9000], data[9000:]] if in_parts else [data]:
        client.send(part)
        time.sleep(0.05 if in_parts else 0)
    answer = client.read()
    assert (answer.status, answer.body) == (400, b"Bad Request\n")


def test_a_head_of_nearly_16_kb_is_fine_however_it_comes(client: RawClient) -> None:
    data = request(body={"Id": 1}, X_One="x" * 15_500)
    client.send(data[:50])
    time.sleep(0.05)
    client.send(data[50:] + data * 20)
    assert ids([client.read() for _ in range(21)]) == [1] * 21


def test_of_several_accept_encodings_only_the_first_counts(client: RawClient) -> None:
    def answered(first: bytes, second: bytes) -> str | None:
        both = b"\r\nAccept-Encoding: " + first + b"\r\nAccept-Encoding: " + second + b"\r\n"
        answer = client.ask(request(body={"Size": 5000}).replace(b"\r\n", both, 1))
        return answer.headers.get("content-encoding")

    assert answered(b"gzip", b"identity") == "gzip"
    assert answered(b"identity", b"gzip") is None


def test_too_many_headers_are_refused(client: RawClient) -> None:
    many = b"".join(b"X-%d: y\r\n" % number for number in range(1000))
    assert client.ask(b"POST / HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n").status == 431


@pytest.mark.parametrize("more", [{}, {"Connection": "keep-alive"}, {"Connection": "upgrade", "Upgrade": "h2c"}])
def test_http_1_0_needs_no_host(client: RawClient, more: dict[str, str]) -> None:
    assert client.ask(request(version="1.0", drop=["Host"], **more)).json()["Operation"] == "GetItem"


@pytest.mark.parametrize("more", [{"version": "1.0"}, {"Connection": "upgrade", "Upgrade": "h2c"}])
def test_two_hosts_are_refused_in_http_1_0_and_beside_another_protocol(
    client: RawClient, engine: EchoEngine, more: dict[str, str]
) -> None:
    asked = request(**more).replace(b"\r\nHost:", b"\r\nHost: b\r\nHost:")
    assert client.ask(asked).status == 400
    assert client.at_end()
    assert engine.order == []


def test_a_connection_whose_head_is_known_takes_no_other_host_beside_it(client: RawClient, engine: EchoEngine) -> None:
    for _ in range(4):
        assert client.ask(request()).status == 200
    assert client.ask(request().replace(b"\r\nHost:", b"\r\nHost: b\r\nHost:")).status == 400
    assert client.at_end()
    assert len(engine.order) == 4


def test_half_a_request_then_silence_is_no_answer_and_no_harm(client: RawClient, echo_server: ServerThread) -> None:
    client.send(request()[:100])
    client.socket.shutdown(1)
    assert client.at_end()
    with RawClient(echo_server.url) as other:
        assert other.ask(request()).status == 200


def test_a_client_that_shuts_its_side_still_gets_its_answers(client: RawClient) -> None:
    client.send(request("Scan", {"Id": 1, "Sleep": 0.1}) + request(body={"Id": 2}))
    client.socket.shutdown(1)
    assert ids([client.read(), client.read()]) == [1, 2]
    assert client.at_end()


def test_http_1_0_is_answered_and_closed(client: RawClient) -> None:
    assert client.ask(request(version="1.0")).headers["connection"] == "close"
    assert client.at_end()


def test_http_1_0_with_keep_alive_is_kept(client: RawClient) -> None:
    first = client.ask(request(version="1.0", Connection="keep-alive"))
    assert first.headers["connection"] == "keep-alive"
    assert client.ask(request(version="1.0", Connection="keep-alive")).status == 200


def test_connection_close_is_obeyed(client: RawClient) -> None:
    assert client.ask(request(Connection="close")).headers["connection"] == "close"
    assert client.at_end()


def test_an_offer_to_upgrade_is_passed_over(client: RawClient) -> None:
    answer = client.ask(request(body={"Id": 1}, Connection="Upgrade, HTTP2-Settings", Upgrade="h2c"))
    assert ids([answer]) == [1]
    assert ids([client.ask(request(body={"Id": 2}))]) == [2]


def test_a_gzip_body_is_unpacked(client: RawClient) -> None:
    body = gzip.compress(b'{"Id":') + gzip.compress(b"5}")
    assert ids([client.ask(request(body=body, Content_Encoding="gzip"))]) == [5]


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b'{"Id":1}'),
        ("gzip", b""),
        ("gzip", gzip.compress(b'{"Id":1}', mtime=0)[:-1]),
        ("gzip", gzip.compress(b'{"Id":1}', mtime=0) + b"junk"),
        ("garbage", b'{"Id":1}'),
    ],
)
def test_a_broken_coding_is_an_internal_server_error_as_at_aws(client: RawClient, coding: str, body: bytes) -> None:
    answer = client.ask(request(body=body, Content_Encoding=coding))
    assert (answer.status, answer.error) == (500, "InternalServerError")
    assert client.ask(request()).status == 200


def test_a_small_gzip_body_that_unpacks_to_too_much_is_refused(client: RawClient) -> None:
    body = gzip.compress(b" " * (REQUEST_BYTES + 1))
    assert len(body) < 100_000
    assert client.ask(request(body=body, Content_Encoding="gzip")).status == 413


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("operation", ["GetItem", "Scan"])
def test_a_large_answer_is_compressed_when_asked_for(client: RawClient, coding: str, operation: str) -> None:
    answer = client.ask(request(operation, {"Size": 5000}, Accept_Encoding=coding))
    assert answer.headers["content-encoding"] == coding
    assert answer.json()["Filler"] == "x" * 5000
    assert len(answer.body) < 300
    assert int(answer.headers["x-amz-crc32"]) == zlib.crc32(answer.body)


def test_a_small_answer_is_never_compressed(client: RawClient) -> None:
    assert "content-encoding" not in client.ask(request(Accept_Encoding="gzip")).headers


def test_a_slow_reader_gets_everything_and_stops_being_read_2(client: RawClient) -> None:
    client.socket.settimeout(60)
    calls = b"".join(request(body={"Id": n, "Size": 400_000}) for n in range(60))
    sender = threading.Thread(target=lambda: client.send(calls))
    sender.start()
    time.sleep(0.3)
    assert ids([client.read() for _ in range(60)]) == list(range(60))
    sender.join()


def test_a_client_that_goes_away_harms_nobody(echo_server: ServerThread) -> None:
    for _ in range(20):
        with RawClient(echo_server.url) as client:
            client.send(request(body={"Size": 300_000}) * 5 + request("Scan", {"Sleep": 0.01}))
    with RawClient(echo_server.url) as client:
        assert client.ask(request()).status == 200
