"""Smuggling: both parsers end a request at the same byte, and refuse what others might end elsewhere."""

from __future__ import annotations

import select

import pytest
from framing_attacks import CHUNKED, HEAD, REFUSED, SECOND, TAKEN
from raw_http import EchoEngine, RawClient, request

from penstock.server.server import ServerThread


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_framed_dubiously_is_refused_and_nothing_behind_it_is_heard(
    client: RawClient, engine: EchoEngine, name: str
) -> None:
    answer = client.ask(REFUSED[name] + SECOND)
    assert answer.status == 400
    assert client.at_end()
    assert engine.order == []


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_framed_plainly_is_one_request_and_what_follows_another(client: RawClient, name: str) -> None:
    first = client.ask(TAKEN[name] + SECOND)
    assert (first.status, first.json()["Request"]) == (200, {})
    assert client.read().json() == {"status": "healthy"}


@pytest.mark.parametrize(
    "trailer", [b"X-Amz-Target: DynamoDB_20120810.DeleteItem", b"Authorization: none", b"Origin: x"]
)
def test_a_trailer_says_nothing_about_the_request(client: RawClient, trailer: bytes) -> None:
    answer = client.ask(HEAD + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n")
    assert answer.json()["Operation"] == "GetItem"
    assert "access-control-allow-origin" not in answer.headers


def test_a_target_that_comes_after_the_body_is_none(client: RawClient) -> None:
    without = HEAD.replace(b"X-Amz-Target", b"X-Other")
    answer = client.ask(without + CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n\r\n")
    assert answer.error == "UnknownOperationException"


@pytest.mark.parametrize("endless", [b"X: " + b"y" * 8000, b"X: y\r\n" * 1000], ids=["one trailer", "trailers"])
def test_endless_trailers_are_cut_off(client: RawClient, endless: bytes) -> None:
    client.send(HEAD + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n")
    for _ in range(2_000):  # 12 MB at least
        client.send(endless)
        if select.select([client.socket], [], [], 0)[0]:
            break
    assert client.read().status == 400


def test_small_chunks_in_large_reads_are_no_endless_trailers(client: RawClient) -> None:
    body = b'{"Id":"' + b"x" * 60_000 + b'"}'
    assert len(client.ask(request(body=body, chunks=1)).json()["Request"]["Id"]) == 60_000


@pytest.mark.parametrize("method", ["CONNECT", "PRI", "get", "FOO"])
def test_a_method_that_is_none_of_ours_ends_the_connection(echo_server: ServerThread, method: str) -> None:
    with RawClient(echo_server.url) as client:
        client.send(f"{method} a:1 HTTP/1.1\r\nHost: a\r\n\r\n".encode() + SECOND)
        while (answer := client.read()).status == 404:
            pass
        assert answer.status == 400
        assert client.at_end()
