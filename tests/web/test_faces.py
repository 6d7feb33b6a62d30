"""What every HTTP face shares: JSON errors, limits, hosts, and a description made of the endpoints themselves."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from penstock.errors import PenstockError, ThrottlingException
from penstock.systems.shapes import Between, Length, Misshapen, Named, parse, schema
from penstock.web.faces import Call, Endpoint, make_face
from penstock.web.problems import Problem, json_answer
from penstock.web.serving import running


@dataclass(frozen=True, slots=True)
class Line:
    text: Annotated[str, Length(1, 5)]
    count: Annotated[int, Between(1, 9)] = 1


@dataclass(frozen=True, slots=True)
class Order:
    """An order."""

    project: Annotated[str, Named("idProject"), "Whose it is."]
    lines: Annotated[list[Line], Length(0, 2)] = field(default_factory=list)
    colour: Literal["red", "blue"] = "red"
    rate: float | None = None
    urgent: bool = False


class NoSuchThing(PenstockError):
    pass


def _order(call: Call) -> Any:
    return json_answer({"project": call.body.project, "status": call.url("/things/1")}, 202)


def _thing(call: Call) -> Any:
    match call.path["id"]:
        case "missing":
            raise NoSuchThing("There is no thing missing.")
        case "busy":
            raise ThrottlingException("slow down")
        case "broken":
            raise RuntimeError("the secret inside")
        case "locked":
            raise Problem(423, "It is not ready.", "Ask again later.")
    return json_answer({"id": call.path["id"], "q": call.query.get("q")})


async def _upload(call: Call) -> Any:
    seen = 0
    async for block in call.request.stream():
        seen += len(block)
    return json_answer({"bytes": seen})


def _endpoints() -> list[Endpoint]:
    return [
        Endpoint("POST", "/orders", _order, "Order", {202: dict, 400: "Wrong"}, body=Order),
        Endpoint("GET", "/things/{id}", _thing, "See", {200: dict, 404: "None"}, query={"q": "a question"}),
        Endpoint("POST", "/upload/{id}", _upload, "Send", media={"application/pdf": {}}, body_bytes=1_000),
    ]


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = make_face("Things", _endpoints(), statuses={NoSuchThing: 404}, hosts=["things.example"])
    with TestClient(app, base_url="http://127.0.0.1") as found:
        yield found


def test_a_body_is_read_into_its_shape(client: TestClient) -> None:
    answer = client.post("/orders", json={"idProject": "p", "lines": [{"text": "a"}]})
    assert (answer.status_code, answer.json()) == (202, {"project": "p", "status": "http://127.0.0.1/things/1"})


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
        with pytest.raises(Misshapen):
            parse(Line, value)
    assert parse(Line, {"text": "a"}) == Line("a", 1)


def test_what_is_not_json_is_refused(client: TestClient) -> None:
    kind = {"content-type": "application/json"}
    assert client.post("/orders", content=b"{", headers=kind).json()["error"]["kind"] == "bad_request"
    assert client.post("/orders", content=b"\xff", headers=kind).status_code == 400
    # What a page of another site can send unasked is not read.
    assert client.post("/orders", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/things/missing", 404, "not_found"),
        ("/things/busy", 503, "unavailable"),
        ("/things/locked", 423, "not_ready"),
        ("/things/1?x=1", 400, "bad_request"),
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

    with TestClient(make_face("Things", [], health=away), base_url="http://localhost") as client:
        assert client.get("/health").json()["error"]["message"] == "The table is gone."


def test_the_description_is_made_of_the_endpoints(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == {"/orders", "/things/{id}", "/upload/{id}", "/health"}
    order = document["components"]["schemas"]["Order"]
    assert (order["required"], order["description"]) == (["idProject"], "An order.")
    assert order["properties"]["idProject"] == {"type": "string", "description": "Whose it is."}
    assert order["properties"]["rate"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    names = [one["name"] for one in document["paths"]["/things/{id}"]["get"]["parameters"]]
    assert names == ["id", "q"]
    assert "application/pdf" in document["paths"]["/upload/{id}"]["post"]["requestBody"]["content"]


def test_every_reference_of_the_description_leads_somewhere() -> None:
    shapes: dict[str, Any] = {}
    schema(Order, shapes)
    text = json.dumps(shapes)
    assert set(shapes) == {"Order", "Line"}
    assert all(f"schemas/{name}" in text or name == "Order" for name in shapes)


def test_a_real_server_answers_and_limits_what_it_is_sent() -> None:
    with running(make_face("Things", _endpoints())) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        connection.request("POST", "/upload/1", body=iter([b"x" * 600, b"x" * 600]), encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()
