"""What every HTTP API shares: JSON errors, limits, hosts, and a description made of the endpoints themselves."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response
from starlette.testclient import TestClient

from penstock.errors import PenstockError, ThrottlingException
from penstock.web.api.application import ApiRouter, make_api, refusals, url_for
from penstock.web.api.validation import StrictModel, error_sentences
from penstock.web.problems import Problem, json_answer
from penstock.web.server import running_app


class Line(StrictModel):
    text: str = Field(min_length=1, max_length=5)
    count: int = Field(default=1, ge=1, le=9)


class Order(StrictModel):
    """An order."""

    project: str = Field(alias="idProject", description="Whose it is.")
    lines: list[Line] = Field(default=[], max_length=2)
    colour: Literal["red", "blue"] = "red"
    rate: float | None = None
    urgent: bool = False


class Ordered(BaseModel):
    project: str
    status: str


class NoSuchThing(PenstockError):
    pass


router = ApiRouter()


@router.post("/orders", status_code=202, responses=refusals({400: "Wrong"}))
def order(body: Order, request: Request) -> Ordered:
    return Ordered(project=body.project, status=url_for(request, "/things/1"))


@router.get("/things/{id}", responses=refusals({404: "None"}))
def thing(id: str, q: Annotated[str | None, Query(description="a question")] = None, n: int = 1) -> Response:
    match id:
        case "missing":
            raise NoSuchThing("There is no thing missing.")
        case "busy":
            raise ThrottlingException("slow down")
        case "broken":
            raise RuntimeError("the secret inside")
        case "locked":
            raise Problem(423, "It is not ready.", "Ask again later.")
    return json_answer({"id": id, "q": q})


PDF_BODY = {"requestBody": {"content": {"application/pdf": {"schema": {"type": "string", "format": "binary"}}}}}


@router.post("/upload/{id}", openapi_extra=PDF_BODY)
async def upload(id: str, request: Request) -> Response:
    seen = 0
    async for block in request.stream():
        seen += len(block)
    return json_answer({"bytes": seen})


def things(**options: Any) -> FastAPI:
    return make_api("Things", router, statuses={NoSuchThing: 404}, body_bytes={"/upload/{id}": 1_000}, **options)


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(things(hosts=["things.example"]), base_url="http://127.0.0.1") as found:
        yield found


def test_a_body_is_read_into_its_shape(client: TestClient) -> None:
    answer = client.post("/orders", json={"idProject": "p", "lines": [{"text": "a"}]})
    assert (answer.status_code, answer.json()) == (202, {"project": "p", "status": "http://127.0.0.1/things/1"})
    assert answer.headers["cache-control"] == "no-store"


def test_all_errors_of_a_body_are_told_at_once(client: TestClient) -> None:
    lines = [{"text": "", "count": 10}, 1]
    wrong = {"lines": lines, "colour": "green", "rate": "1", "urgent": 1, "colours": 1}
    answer = client.post("/orders", json=wrong)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["kind"], error["message"]) == ("bad_request", "The request has 8 errors.")
    assert error["errors"] == [
        "colours is not known; there are idProject, lines, colour, rate, urgent",
        "idProject is missing",
        "lines[0].text has 1 to 5 characters, not 0",
        "lines[0].count is from 1 to 9, not 10",
        "lines[1] is an object, not 1",
        "colour is one of red, blue, not 'green'",
        "rate is a number, not '1'",
        "urgent is true or false, not 1",
    ]


def test_a_flag_is_no_number_and_nothing_is_guessed() -> None:
    for value in ({"text": "a", "count": True}, {"text": "a", "count": 1.0}, {"text": 1}, [], None):
        with pytest.raises(ValidationError) as wrong:
            Line.model_validate(value)
        assert error_sentences(wrong.value, Line)
    assert Line.model_validate({"text": "a"}) == Line(text="a", count=1)


def test_what_is_not_json_is_refused(client: TestClient) -> None:
    kind = {"content-type": "application/json"}
    assert client.post("/orders", content=b"{", headers=kind).json()["error"]["kind"] == "bad_request"
    for body in (b"\xff", b"", b"[" * 60_000, b'{"idProject": "p", "rate": NaN}'):
        assert client.post("/orders", content=body, headers=kind).status_code == 400, body[:40]
    # What a page of another site can send unasked is not read.
    assert client.post("/orders", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/things/missing", 404, "not_found"),
        ("/things/busy", 503, "unavailable"),
        ("/things/locked", 423, "not_ready"),
        ("/things/1?x=1", 400, "bad_request"),
        ("/health?x=1", 400, "bad_request"),
        ("/things/1?n=x", 400, "bad_request"),
        ("/nowhere", 404, "not_found"),
        ("/orders", 405, "method_not_allowed"),
    ],
)
def test_every_error_is_json_with_kind_message_and_next_step(
    client: TestClient, path: str, status: int, kind: str
) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind)
    assert {"kind", "message", "next_step"} <= answer.json()["error"].keys()


def test_a_failure_of_ours_says_nothing_of_our_insides(client: TestClient) -> None:
    answer = client.get("/things/broken")
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_a_body_is_limited_by_what_it_says_and_by_what_comes(client: TestClient) -> None:
    assert client.post("/upload/1", content=b"x" * 1_000).json() == {"bytes": 1_000}
    assert client.post("/upload/1", content=b"x" * 1_001).status_code == 413
    answer = client.post("/upload/1", content=iter([b"x" * 600, b"x" * 600]))  # chunked: there is no length
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "too_large")
    assert client.post("/orders", content=b"x" * 70_000).status_code == 413


def test_only_hosts_that_it_is_known_by_are_answered(client: TestClient) -> None:
    for host in ("localhost:8001", "127.0.0.1", "[::1]:80", "things.example", "THINGS.example:1"):
        assert client.get("/health", headers={"host": host}).status_code == 200, host
    for host in (
        "evil.example",
        "127.evil.example",
        "127.0.0.1.evil.example",
        "2130706433",
        "",
        "localhost.evil.example",
        "[::1",
    ):
        answer = client.get("/health", headers={"host": host})
        assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "bad_host"), host


def test_a_page_of_another_origin_changes_nothing(client: TestClient) -> None:
    body = {"idProject": "p"}
    assert client.post("/orders", json=body, headers={"origin": "http://localhost:3000"}).status_code == 202
    for origin in ("https://evil.example", "null"):
        assert client.post("/orders", json=body, headers={"origin": origin}).status_code == 403


def test_health_is_503_where_what_it_needs_is_away() -> None:
    def away() -> dict[str, Any]:
        raise PenstockError("The table is gone.")

    with TestClient(make_api("Things", ApiRouter(), health=away), base_url="http://localhost") as client:
        assert client.get("/health").json()["error"]["message"] == "The table is gone."


def test_the_description_is_made_of_the_endpoints(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {"/orders", "/things/{id}", "/upload/{id}", "/health"}
    order = document["components"]["schemas"]["Order"]
    assert (order["required"], order["description"]) == (["idProject"], "An order.")
    assert order["properties"]["idProject"].items() >= {"type": "string", "description": "Whose it is."}.items()
    assert order["properties"]["rate"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert set(document["paths"]["/orders"]["post"]["responses"]) == {"202", "400"}, "without FastAPI's own 422"
    names = [one["name"] for one in document["paths"]["/things/{id}"]["get"]["parameters"]]
    assert names == ["id", "q", "n"]
    assert "application/pdf" in document["paths"]["/upload/{id}"]["post"]["requestBody"]["content"]


def test_every_reference_of_the_description_leads_somewhere(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert names == set(document["components"]["schemas"]) == {"Order", "Ordered", "Line", "ErrorAnswer", "ErrorFacts"}


def test_the_reference_page_shows_every_endpoint_and_loads_nothing(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for words in ("/orders", "/things/{id}", "/upload/{id}", "/health", "Whose it is.", "list of", "a question"):
        assert words in page.text, words
    assert not re.search(r"<script|<link|<img|https?://|@import|url\(", page.text)
    assert "default-src 'none'; style-src 'sha256-" in page.headers["content-security-policy"]


def test_what_a_parameter_should_be_is_said_as_for_a_body(client: TestClient) -> None:
    assert client.get("/things/1?n=x").json()["error"]["errors"] == ["n is a whole number, not 'x'"]


def test_a_head_is_answered_as_its_get_is(client: TestClient) -> None:
    assert client.head("/health").status_code == 200
    assert client.head("/things/missing").status_code == 404
    assert client.head("/orders").status_code == 405
    assert not any("head" in one for one in client.get("/openapi.json").json()["paths"].values())


def test_a_real_server_answers_and_limits_what_it_is_sent() -> None:
    with running_app(things()) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        connection.request("POST", "/upload/1", body=iter([b"x" * 600, b"x" * 600]), encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()
