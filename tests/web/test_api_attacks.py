"""What browsers make of the answers of the systems' APIs, and what strangers make of their addresses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

from penstock.web.api.application import ApiRouter, make_api
from penstock.web.dashboard.site import disposition
from penstock.web.problems import json_answer

HOSTILE = '<script>alert(1)</script>"\r\nSet-Cookie: a=b'


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    router = ApiRouter()

    @router.get("/things/{id}")
    def thing(id: str) -> Response:
        return json_answer({"id": id})

    @router.get("/page")
    def page() -> Response:
        return Response(HOSTILE, media_type="text/html")

    @router.get("/broken")
    def broken() -> Response:
        raise RuntimeError(f"the password is {HOSTILE}")

    app = make_api("Things", router)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found


@pytest.mark.parametrize(
    "path", ["/things/a", "/page", "/broken", "/nothing", "/health", "/openapi.json", "/docs", "/things/%3Cb%3E"]
)
def test_no_answer_is_run_framed_or_taken_for_another_type(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "sandbox" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_refusal_is_sealed_too_and_tells_nothing_of_our_insides(client: TestClient) -> None:
    refused = client.get("/page", headers={"host": "evil.example"})
    assert (refused.status_code, refused.headers["x-content-type-options"]) == (400, "nosniff")
    assert "password" not in client.get("/broken").text


def test_no_page_is_allowed_to_read_by_cors(client: TestClient) -> None:
    for method in ("GET", "OPTIONS"):
        answer = client.request(method, "/page", headers={"origin": "https://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/things/..%2f..%2fetc%2fpasswd",
        "/things/%00",
        "/things/%0d%0aSet-Cookie:%20a=b",
        "/things/%ff",
        "//evil.example/",
    ],
)
def test_an_odd_address_is_answered_as_data(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers


def test_a_browser_is_told_to_save_what_a_job_made() -> None:
    """By name: quotes, line breaks and paths in it end no header and lead nowhere."""

    for name in (
        'a"; filename="b.exe',
        "a\r\nSet-Cookie: x",
        "../../etc/passwd",
        "a\\..\\b",
        "\u202egpj.exe",
        "..",
        "",
        "é" * 500,
    ):
        header = disposition(name)
        assert header.startswith("attachment; filename=")
        assert header.isascii()
        assert header.isprintable()
        assert header.count('"') == 2
        assert not {"/", "\\"} & set(header.replace("UTF-8''", ""))


@pytest.mark.parametrize(
    "host",
    [
        "localhost/?x=",
        "localhost/x",
        "evil@localhost",
        "localhost#a",
        "localhost?a",
        "localhost:80:90",
        "localhost ",
        "a,localhost",
    ],
)
def test_a_host_is_a_host_and_no_part_of_an_address(client: TestClient, host: str) -> None:
    """Addresses of ours are made of it: Starlette before 1.0.1 even looked for its path there."""
    assert client.get("/health", headers={"host": host}).status_code == 400
