"""Web pages that call a server of this machine behind their visitor's back, by their own name or one led here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from raw_http import EchoEngine, RawClient, request

from penstock.server.auth.authorization import Origins
from penstock.server.server import Options, running_server

ASKED = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "x-amz-target"}
STRANGERS = [
    "http://evil.example",
    "http://evil.example:8000",  # a name of theirs that leads to this machine, by this very port
    "https://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost@evil.example",
    "http://evil.example/localhost",
    "http://169.254.169.254",
    "null",  # a sandboxed frame of any page, or a file
    "file://",
    "file://localhost",
    "chrome-extension://localhost",
    "http://[::1",
    "",
    "http://localhost:3000,http://evil.example",
    "http://localhost\xe9",
]
NEIGHBOURS = [
    "http://localhost",
    "http://localhost:3000",
    "https://LOCALHOST:3000",
    "http://app.localhost:3000",
    "http://127.0.0.1:5173",
    "http://127.8.9.1",
    "http://[::1]:3000",
]


class HotEngine(EchoEngine):
    """One that counts which keys are hot."""

    class simulation:
        @staticmethod
        def heat_report() -> dict[str, str]:
            return {"key": "secret"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server(HotEngine()) as server:
        yield server.url


@pytest.mark.parametrize("origin", STRANGERS)
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_a_page_of_elsewhere_reaches_nothing_and_reads_nothing(url: str, method: str, origin: str) -> None:
    with RawClient(url) as client:
        answer = client.ask(request(method=method, Origin=origin, Host="127.0.0.1", **ASKED))
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", NEIGHBOURS)
def test_a_page_of_this_machine_may_call(url: str, origin: str) -> None:
    with RawClient(url) as client:
        assert client.ask(request(method="OPTIONS", Origin=origin, **ASKED)).status == 200
        answer = client.ask(request(Origin=origin))
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")


def test_two_origins_are_none(url: str) -> None:
    sent = request(Origin="http://localhost").replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n", 1)
    with RawClient(url) as client:
        assert client.ask(sent).status == 403


@pytest.mark.parametrize("given", ["https://app.example", "https://app.example/", "HTTPS://APP.example", "*"])
def test_a_page_that_was_named_may_call(given: str) -> None:
    with running_server(EchoEngine(), options=Options(origins=(given,))) as server, RawClient(server.url) as client:
        assert client.ask(request(Origin="https://app.example")).status == 200
        assert client.ask(request(Origin="https://evil.example")).status == (200 if given == "*" else 403)


def test_where_signatures_are_checked_every_page_may_try() -> None:
    with running_server(EchoEngine(), options=Options(secrets={"A": "b"})) as server, RawClient(server.url) as client:
        answer = client.ask(request(Origin="https://app.example"))
    assert (answer.status, answer.error) == (400, "InvalidSignatureException")
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::1", ""])
def test_hot_keys_are_not_told_under_a_strangers_name(url: str, host: str) -> None:
    with RawClient(url) as client:
        assert client.ask(request(method="GET", path="/heat", Host=host)).status == 404


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000", "192.168.1.7:8000", "penstock:8000"])
def test_hot_keys_are_told_under_names_that_no_stranger_can_have(url: str, host: str) -> None:
    with RawClient(url) as client:
        assert client.ask(request(method="GET", path="/heat", Host=host)).json() == {"key": "secret"}


def test_a_form_or_a_text_which_browsers_send_unasked_is_no_call(url: str) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        with RawClient(url) as client:
            answer = client.ask(request(Content_Type=kind, Origin="http://localhost", body=b"{}"))
        assert answer.status == 404


def test_no_answer_can_be_split_by_what_was_asked(url: str) -> None:
    """A line break in a header that is answered with would be a header of its own."""
    sent = request(method="OPTIONS", Origin="http://localhost", Access_Control_Request_Method="a\r\n Set-Cookie: x=y")
    with RawClient(url) as client:
        answer = client.ask(sent)
    assert answer.status == 400
    assert "set-cookie" not in answer.headers


def test_a_name_without_a_dot_is_no_origin() -> None:
    assert not Origins().allows(b"http://penstock")
    assert Origins().knows(b"penstock")
