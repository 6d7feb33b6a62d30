"""The same calls through the thin client and through boto3, against our server: the same answers, as JSON."""

from __future__ import annotations

import gzip
import socket

import pytest
from fake_endpoint import GET, SHORT, always, answer, calling, fake

from penstock.client.transports.base import Limits
from penstock.client.transports.boto import BotoTransport, failure_of
from penstock.client.transports.http import RemoteTransport
from penstock.engine import Engine
from penstock.errors import (
    BadAnswer,
    ConnectionFailed,
    CredentialsMissing,
    DynamoDBError,
    PenstockError,
    TimedOut,
    TransportClosed,
    TransportError,
    UnknownOperationException,
)
from penstock.server import running_server

AMPLE = Limits(read_seconds=20)
KEY = {"id": {"S": "a"}, "at": {"N": "1"}}
ITEM = KEY | {
    "bytes": {"B": "AAECAw=="},
    "many": {"BS": ["AAE=", "Ag=="]},
    "numbers": {"NS": ["1", "2.5"]},
    "nested": {"M": {"list": {"L": [{"NULL": True}, {"BOOL": False}, {"S": "é\u2028😀"}]}}},
}
TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "at", "AttributeType": "N"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
WITH_ITEM = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
TOTAL = {"ReturnConsumedCapacity": "TOTAL"}
CALLS: list[tuple[str, dict]] = [
    ("CreateTable", TABLE),
    ("CreateTable", TABLE),
    ("DescribeTable", {"TableName": "jobs"}),
    ("DescribeTable", {"TableName": "nobody"}),
    ("PutItem", {"TableName": "jobs", "Item": ITEM, **TOTAL}),
    ("GetItem", {"TableName": "jobs", "Key": KEY, **TOTAL}),
    ("GetItem", {"TableName": "jobs", "Key": {"id": {"S": "none"}, "at": {"N": "1"}}}),
    ("GetItem", {"TableName": "jobs", "Key": {}}),
    ("PutItem", {"TableName": "jobs", "Item": ITEM, "ConditionExpression": "attribute_not_exists(id)", **WITH_ITEM}),
    ("UpdateItem", {"TableName": "jobs", "Key": KEY, "UpdateExpression": "SET x = :x",
                    "ExpressionAttributeValues": {":x": {"B": "AA=="}}, "ReturnValues": "ALL_NEW"}),
    ("BatchWriteItem", {"RequestItems": {"jobs": [
        {"PutRequest": {"Item": {"id": {"S": "b"}, "at": {"N": str(n)}}}} for n in range(25)]}}),
    ("BatchGetItem", {"RequestItems": {"jobs": {"Keys": [KEY, {"id": {"S": "b"}, "at": {"N": "3"}}]}}}),
    ("Query", {"TableName": "jobs", "KeyConditionExpression": "id = :id", "Limit": 3,
               "ExpressionAttributeValues": {":id": {"S": "b"}}}),
    ("Scan", {"TableName": "jobs", "Segment": 0, "TotalSegments": 2}),
    ("TransactWriteItems", {"TransactItems": [
        {"ConditionCheck": {"TableName": "jobs", "Key": KEY, "ConditionExpression": "attribute_not_exists(id)",
                            **WITH_ITEM}},
        {"Delete": {"TableName": "jobs", "Key": KEY}}]}),
    ("TransactGetItems", {"TransactItems": [{"Get": {"TableName": "jobs", "Key": KEY}}]}),
    ("ExecuteStatement", {"Statement": 'SELECT * FROM jobs WHERE id = \'b\' AND "at" = 3'}),
    ("UpdateTimeToLive", {"TableName": "jobs", "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}}),
    ("DescribeTimeToLive", {"TableName": "jobs"}),
    ("ListTables", {}),
    ("ListStreams", {"TableName": "jobs"}),
    ("DescribeLimits", {}),
    ("DescribeEndpoints", {}),
    ("DeleteItem", {"TableName": "jobs", "Key": KEY, "ReturnValues": "ALL_OLD"}),
    ("Query", {"TableName": 17}),
    ("Query", {"TableName": "jobs", "Limit": 0}),
    ("DeleteTable", {"TableName": "jobs"}),
]  # fmt: skip
VARYING = {
    "Address",
    "CreationDateTime",
    "LastUpdateToPayPerRequestDateTime",
    "LatestStreamArn",
    "LatestStreamLabel",
    "StreamArn",
    "StreamLabel",
    "TableId",
}


@pytest.fixture(params=[RemoteTransport, BotoTransport])
def transport(request):
    with Engine() as engine, running_server(engine) as server, calling(request.param, server.url, AMPLE) as transport:
        yield transport


def conversation(kind):
    """Every call's answer or error, on a database of its own."""
    with Engine() as engine, running_server(engine) as server, calling(kind, server.url, AMPLE) as transport:
        return [outcome(transport, *call) for call in CALLS]


def outcome(transport, operation, request):
    try:
        return settled(transport.execute(operation, request))
    except DynamoDBError as error:
        return type(error), error.code, error.message, settled(error.fields)


def settled(value):
    """Without what differs between any two databases."""
    if isinstance(value, dict):
        return {name: "varies" if name in VARYING else settled(member) for name, member in value.items()}
    return [settled(member) for member in value] if isinstance(value, list) else value


def test_the_same_calls_have_the_same_answers():
    thin, boto = conversation(RemoteTransport), conversation(BotoTransport)
    for call, ours, theirs in zip(CALLS, thin, boto, strict=True):
        assert ours == theirs, call
    assert len([one for one in thin if isinstance(one, tuple)]) == 7


def test_an_item_is_given_back_as_the_wire_has_it(transport):
    transport.execute("CreateTable", TABLE)
    transport.execute("PutItem", {"TableName": "jobs", "Item": ITEM})
    assert transport.execute("GetItem", {"TableName": "jobs", "Key": KEY}) == {"Item": ITEM}


def test_an_operation_that_boto3_does_not_know_is_refused():
    with calling(BotoTransport, "http://127.0.0.1:1") as transport:
        for operation in ("Frobnicate", "close", "get_item"):
            with pytest.raises(UnknownOperationException):
                transport.execute(operation, {})


# ── boto3's failures are ours ────────────────────────────────────────────────────────────────────


def failure(script, limits=AMPLE):
    with (
        fake(script) as server,
        calling(BotoTransport, server.url, limits) as transport,
        pytest.raises(TransportError) as caught,
    ):
        transport.execute(*GET)
    assert caught.value.endpoint == server.url
    assert caught.value.next_step
    return caught.value


def test_refused():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with calling(BotoTransport, url) as transport, pytest.raises(ConnectionFailed) as caught:
            transport.execute(*GET)
    assert not caught.value.sent


def test_a_hanging_server_is_given_up_without_a_retry():
    counted = []

    def script(incoming):
        counted.append(incoming.read_request())
        incoming.read_request()

    error = failure(script, SHORT)
    assert isinstance(error, TimedOut)
    assert error.sent
    assert len(counted) == 1


def test_a_throttle_is_not_retried():
    told = answer({"__type": "x#ProvisionedThroughputExceededException", "message": "slow"}, 400)
    with fake(always(told)) as server, calling(BotoTransport, server.url) as transport:
        with pytest.raises(DynamoDBError) as caught:
            transport.execute(*GET)
        assert caught.value.retryable
        assert len(server.connections) == 1


def test_a_wrong_checksum_and_half_an_answer():
    assert isinstance(failure(always(answer({"Item": {}}, x_amz_crc32="1"))), BadAnswer)

    def script(incoming):
        incoming.read_request()
        incoming.send(answer({"Item": {}})[:-3])

    assert failure(script).sent


def test_a_packed_answer():
    packed = always(answer(gzip.compress(b'{"Item":{}}'), content_encoding="gzip"))
    with fake(packed) as server, calling(BotoTransport, server.url) as transport:
        assert transport.execute(*GET) == {"Item": {}}


def test_a_closed_transport_says_so():
    with fake(always(answer())) as server, calling(BotoTransport, server.url) as transport:
        transport.execute(*GET)
    with pytest.raises(TransportClosed):
        transport.execute(*GET)


def test_a_missing_profile_is_missing_credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    url = "http://127.0.0.1:1?profile=nobody"
    with calling(BotoTransport, url) as transport, pytest.raises(CredentialsMissing, match="nobody"):
        transport.execute(*GET)


def test_every_error_of_botocores_has_a_class():
    from botocore import exceptions

    for name in (
        "NoCredentialsError",
        "PartialCredentialsError",
        "SSLError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
    ):
        made = getattr(exceptions, name)(endpoint_url="u", error="e", provider="p", cred_var="c")
        error = failure_of("here", made)
        assert isinstance(error, PenstockError)
        assert error.endpoint == "here"
        assert error.next_step
