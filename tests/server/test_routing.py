"""DynamoDB's refusals before any operation runs. The texts and checksums were taken from AWS by dynalite's tests."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from raw_http import AUTHORIZATION, Answer, EchoEngine, RawClient, request

from penstock.server.auth.authorization import account_of
from penstock.server.server import Options, ServerThread, running_server

SERIALIZATION = 3948637019
UNKNOWN = 1368724161
CORS_HEADERS = (
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "access-control-allow-methods",
    "access-control-allow-headers",
)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    with running_server(EchoEngine()) as server:
        yield server


@pytest.fixture
def client(server: ServerThread) -> Iterator[RawClient]:
    with RawClient(server.url) as client:
        yield client


def crc(answer: Answer) -> int:
    assert zlib.crc32(answer.body) == int(answer.headers["x-amz-crc32"])
    return int(answer.headers["x-amz-crc32"])


@pytest.mark.parametrize(
    "data",
    [
        request(method="PUT"),
        request(method="DELETE"),
        request(method="OPTIONS"),
        request(method="GET", path="/abc"),
        request(method="GET", path="/index.htm"),
        request(path="/abc"),
        request(body=b"hi", drop=["Content-Type"]),
        request(body=b"hi", Content_Type="whatever"),
        request(body=b"hi", Content_Type="application/x-amz-json-1.1"),
        request(body=b"hi", Content_Type="application/jsonasdf"),
    ],
)
def test_what_is_no_call_is_not_found(client: RawClient, data: bytes) -> None:
    answer = client.ask(data)
    assert (answer.status, answer.body) == (404, b"<UnknownOperationException/>\n")
    assert crc(answer) == 3552371480


@pytest.mark.parametrize(
    ("given", "answered"),
    [
        ("application/json", "application/json"),
        ("application/json;", "application/json"),
        ("  application/json  ;   asfd", "application/json"),
        ("application/x-amz-json-1.0", "application/x-amz-json-1.0"),
        ("application/x-amz-json-1.0;blahblah", "application/x-amz-json-1.0"),
    ],
)
def test_a_body_that_is_no_json_is_a_serialization_exception(client: RawClient, given: str, answered: str) -> None:
    answer = client.ask(request(body=b"hi", Content_Type=given))
    assert (answer.status, crc(answer)) == (400, SERIALIZATION)
    assert answer.headers["content-type"] == answered


@pytest.mark.parametrize(
    "body", [b"", b"null", b"7", b"[]", b'"text"', b"{", b'{"a":}', b"\xff", b"{" * 5000, b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_a_serialization_exception(client: RawClient, body: bytes) -> None:
    assert crc(client.ask(request(body=body))) == SERIALIZATION


@pytest.mark.parametrize(
    "target",
    [
        "",
        "whatever",
        "GetItem",
        "DynamoDB_20120810.",
        "DynamoDB_20120810.ListTable",
        "DynamoDB_20120810.getItem",
        "DynamoDB_20111205.GetItem",
        "DynamoDBStreams_20120810.GetItem",
        "DynamoDB_20120810.ListStreams",
    ],
)
def test_an_unknown_target_is_an_unknown_operation(client: RawClient, target: str) -> None:
    answer = client.ask(request(X_Amz_Target=target))
    assert (answer.status, crc(answer)) == (400, UNKNOWN)


def test_an_unknown_target_is_seen_before_the_missing_signature(client: RawClient) -> None:
    answer = client.ask(request("Nothing", drop=["Authorization", "Content-Type"], body=b""))
    assert crc(answer) == UNKNOWN
    assert answer.headers["content-type"] == "application/json"


def test_streams_answer_to_their_own_prefix(client: RawClient) -> None:
    answer = client.ask(request(X_Amz_Target="DynamoDBStreams_20120810.ListStreams"))
    assert answer.json()["Operation"] == "ListStreams"


NO_DATE = "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
NEEDS = "Authorization header requires '{}' parameter. "
IN_QUERY = "AWS query-string parameters must include '{}'. "
QUERY = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date")


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            request(drop=["Authorization"]),
            "MissingAuthenticationTokenException",
            "Request is missing Authentication Token",
        ),
        (
            request(Authorization="AWS4"),
            "MissingAuthenticationTokenException",
            "Request is missing Authentication Token",
        ),
        (
            request(Authorization="X", path="/?X-Amz-Algorith"),
            "MissingAuthenticationTokenException",
            "Request is missing Authentication Token",
        ),
        (
            request(drop=["Authorization"], path="/?X-Amz-Credential=a&X-Amz-Signature=b&X-Amz-Date=d"),
            "MissingAuthenticationTokenException",
            "Request is missing Authentication Token",
        ),
        (
            request(Authorization="X", path="/?X-Amz-Algorithm"),
            "InvalidSignatureException",
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
        ),
        (
            request(Authorization="AWS4-", drop=["X-Amz-Date"]),
            "IncompleteSignatureException",
            "".join(NEEDS.format(name) for name in ("Credential", "Signature", "SignedHeaders"))
            + NO_DATE
            + "Authorization=AWS4-",
        ),
        (
            request(Authorization="AWS4- Signature=b,Credential=a", Date="a", drop=["X-Amz-Date"]),
            "IncompleteSignatureException",
            NEEDS.format("SignedHeaders") + "Authorization=AWS4- Signature=b,Credential=a",
        ),
        (
            request(Authorization=AUTHORIZATION, drop=["X-Amz-Date"]),
            "IncompleteSignatureException",
            NO_DATE + "Authorization=" + AUTHORIZATION,
        ),
        (
            request(drop=["Authorization"], path="/?X-Amz-Algorithm"),
            "IncompleteSignatureException",
            "".join(IN_QUERY.format(name) for name in QUERY) + "Re-examine the query-string parameters.",
        ),
        (
            request(
                drop=["Authorization"],
                path="/?X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Signature=c&X-Amz-Date=d",
            ),
            "IncompleteSignatureException",
            IN_QUERY.format("X-Amz-SignedHeaders") + "Re-examine the query-string parameters.",
        ),
    ],
)
def test_half_an_authorization_is_explained(client: RawClient, data: bytes, error: str, message: str) -> None:
    answer = client.ask(data)
    assert (answer.status, answer.error, answer.json()["message"]) == (400, error, message)


def test_a_full_query_authorization_is_accepted(client: RawClient) -> None:
    path = "/?" + "&".join(f"{name}=a" for name in QUERY)
    assert client.ask(request(drop=["Authorization"], path=path)).status == 200


@pytest.mark.parametrize(
    "header", [AUTHORIZATION, AUTHORIZATION.replace(", ", ","), "AWS4-x Credential=a SignedHeaders=b Signature=c"]
)
def test_any_well_formed_authorization_is_accepted_without_keys(client: RawClient, header: str) -> None:
    for _ in range(2):
        assert client.ask(request(Authorization=header)).json()["Account"] == "000000000000"


def test_the_health_of_an_address_is_the_regions(client: RawClient) -> None:
    answer = client.ask(request(method="GET"))
    assert (answer.status, answer.body) == (200, b"healthy: dynamodb.us-east-1.amazonaws.com ")
    assert crc(answer) == 3128867991


def test_the_health_of_a_name_is_its_own(client: RawClient) -> None:
    assert client.ask(request(method="GET", Host="localhost:8000")).body == b"healthy: localhost:8000 "


def test_the_endpoint_described_is_the_one_that_was_asked(client: RawClient) -> None:
    answer = client.ask(request("DescribeEndpoints", {}, Host='10.0.0.7:8000"'))
    assert answer.json() == {"Endpoints": [{"Address": '10.0.0.7:8000"', "CachePeriodInMinutes": 1440}]}
    assert client.ask(request("DescribeEndpoints", b"[]")).status == 400
    old = request("DescribeEndpoints", {}, drop=["Host"], version="1.0")
    assert client.ask(old).json()["Operation"] == "DescribeEndpoints"


def test_healthz_is_json(client: RawClient) -> None:
    answer = client.ask(request(method="GET", path="/healthz"))
    assert answer.json() == {"status": "healthy"} and answer.headers["content-type"] == "application/json"


def test_a_head_has_no_body(client: RawClient) -> None:
    client.send(request(method="HEAD"))
    assert client.read(bodiless=True).headers["content-length"] == "42"
    assert client.ask(request()).status == 200


@pytest.mark.parametrize("data", [request(), request(method="GET"), request(method="OPTIONS")])
def test_without_an_origin_there_is_nothing_of_cors(client: RawClient, data: bytes) -> None:
    assert not set(CORS_HEADERS) & set(client.ask(data).headers)


ASKED = {
    "Origin": "http://localhost:3000",
    "Access_Control_Request_Method": "dog",
    "Access_Control_Request_Headers": "cat, meerkat, mouse",
}


@pytest.mark.parametrize("operation", ["GetItem", "Nothing"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_with_an_origin_every_answer_may_be_read(client: RawClient, method: str, operation: str) -> None:
    answer = client.ask(request(operation, method=method, **ASKED))
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "x-amzn-RequestId" in answer.headers["access-control-expose-headers"]
    assert not set(CORS_HEADERS[2:]) & set(answer.headers)


def test_a_preflight_allows_what_it_asks_for(client: RawClient) -> None:
    answer = client.ask(request(method="OPTIONS", **ASKED))
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-max-age"] == "172800"
    assert answer.headers["access-control-allow-methods"] == "dog"
    assert answer.headers["access-control-allow-headers"] == "cat, meerkat, mouse"


def test_a_tagging_call_is_answered_with_nothing(client: RawClient) -> None:
    answer = client.ask(request("TagResource"))
    assert (answer.status, answer.body) == (200, b"")
    assert client.ask(request("TagResource", {"Fail": "no"})).status == 400


@pytest.mark.parametrize(
    ("key", "region", "account"),
    [
        ("123456789012", "eu-west-2", "123456789012"),
        ("AKIAEXAMPLE", "us-west-2", account_of("AKIAEXAMPLE")),
    ],
)
def test_per_account_takes_account_and_region_from_the_credential(key: str, region: str, account: str) -> None:
    header = AUTHORIZATION.replace("KEY/20260101/us-east-1", f"{key}/20260101/{region}")
    with running_server(EchoEngine(), options=Options(per_account=True)) as server, RawClient(server.url) as client:
        for _ in range(2):
            answer = client.ask(request(Authorization=header)).json()
            assert (answer["Account"], answer["Region"]) == (account, region)


def test_an_account_made_of_a_key_is_twelve_digits_and_always_the_same() -> None:
    assert account_of("AKIAEXAMPLE") == account_of("AKIAEXAMPLE") != account_of("AKIAEXAMPLF")
    assert len(account_of("x")) == 12 and account_of("x").isdigit()
