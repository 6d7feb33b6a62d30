"""The thin client against our server and against servers that say what a test tells them to."""

from __future__ import annotations

import gzip
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest
from fake_endpoint import GET, KINDS, always, answer, calling, fake

from penstock.client.transports import messages
from penstock.client.transports.base import STREAMS_OPERATIONS, Limits
from penstock.client.transports.credentials import Credentials, FixedCredentials
from penstock.client.transports.endpoints import Endpoint, Host
from penstock.client.transports.http import RemoteTransport
from penstock.engine import Engine
from penstock.errors import (
    BadAnswer,
    ConditionalCheckFailedException,
    DynamoDBError,
    InvalidSignatureException,
    NotDynamoDB,
    ProvisionedThroughputExceededException,
    SerializationException,
    TransactionCanceledException,
    UnknownOperationException,
    ValidationException,
)
from penstock.server import Options, running_server

AMPLE = Limits(read_seconds=20)


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=["httptools", "http.client"])
def reader(request, monkeypatch):
    if request.param == "http.client":
        monkeypatch.setattr(messages, "_KIND", messages.PlainReader)


@pytest.fixture
def remote(kind):
    """A transport to a server of ours, with a table."""
    with Engine() as engine, running_server(engine) as server, calling(kind, server.url, AMPLE) as transport:
        transport.execute(
            "CreateTable",
            {
                "TableName": "jobs",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
                "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            },
        )
        yield transport


# ── a conversation ───────────────────────────────────────────────────────────────────────────────


def test_items_go_there_and_back(remote, reader):
    item = {"id": {"S": "é\u2028😀"}, "n": {"N": "1.10"}, "b": {"B": "AAE="}, "m": {"M": {"x": {"NULL": True}}}}
    assert remote.execute("PutItem", {"TableName": "jobs", "Item": item}) == {}
    got = remote.execute("GetItem", {"TableName": "jobs", "Key": {"id": item["id"]}})
    assert got == {"Item": item | {"n": {"N": "1.1"}}}


def test_an_answer_of_a_megabyte_arrives_whole(remote, reader):
    for number in range(4):
        item = {"id": {"S": str(number)}, "text": {"S": "x" * 250_000}}
        remote.execute("PutItem", {"TableName": "jobs", "Item": item})
    assert remote.execute("Scan", {"TableName": "jobs"})["Count"] == 4


def test_the_streams_api_has_its_own_target(remote):
    streams = remote.execute("ListStreams", {})["Streams"]
    assert [stream["TableName"] for stream in streams] == ["jobs"]
    assert "StreamDescription" in remote.execute("DescribeStream", {"StreamArn": streams[0]["StreamArn"]})


def test_many_threads_share_one_transport():
    with (
        Engine() as engine,
        running_server(engine) as server,
        calling(RemoteTransport, server.url, AMPLE) as transport,
        ThreadPoolExecutor(16) as pool,
    ):
        answers = list(pool.map(lambda _: transport.execute("ListTables", {}), range(300)))
    assert answers == [{"TableNames": []}] * 300


def test_what_is_sent_is_dynamodbs_json_protocol(kind):
    with fake(always(answer())) as server, calling(kind, server.url + "/path") as transport:
        transport.execute("PutItem", {"TableName": "é"})
    head, _, body = server.connections[0].request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert lines[0] == "POST /path HTTP/1.1"
    assert headers["X-Amz-Target"] == "DynamoDB_20120810.PutItem"
    assert headers["Content-Type"] == "application/x-amz-json-1.0"
    assert headers["Content-Length"] == str(len(body))
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=penstock/")
    assert body.decode() == '{"TableName":"é"}'


def test_at_aws_the_streams_api_has_its_own_host(kind):
    with fake(always(answer({"here": "items"}))) as items, fake(always(answer({"here": "streams"}))) as streams:
        hosts = (Host(False, "127.0.0.1", server.port) for server in (items, streams))
        with calling(kind, Endpoint("aws://eu-west-2", *hosts, "eu-west-2")) as transport:
            for operation in ("GetItem", "ListTables"):
                assert transport.execute(operation, {}) == {"here": "items"}
            for operation in STREAMS_OPERATIONS:
                assert transport.execute(operation, {}) == {"here": "streams"}
        assert b"DynamoDBStreams_20120810." in streams.connections[0].request


@pytest.mark.parametrize("operation", ["Get Item", "GetItem\r\nX-Injected: yes", "", "Gét", "x" * 200])
def test_an_operation_that_is_no_word_is_not_sent(kind, operation):
    with fake(always(answer())) as server, calling(kind, server.url) as transport:
        with pytest.raises(UnknownOperationException):
            transport.execute(operation, {})
        assert not server.connections


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, "\ud800", 2**70, object()])
def test_a_value_that_json_has_not_is_not_sent(kind, value):
    with fake(always(answer())) as server, calling(kind, server.url) as transport:
        with pytest.raises(SerializationException):
            transport.execute("PutItem", {"TableName": value})
        assert not server.connections


# ── DynamoDB's errors ────────────────────────────────────────────────────────────────────────────


def refusal(code, status=400, **members):
    return always(answer({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **members}, status))


def refused(kind, script):
    with fake(script) as server, calling(kind, server.url) as transport, pytest.raises(DynamoDBError) as caught:
        transport.execute(*GET)
    return caught.value


def test_an_error_is_its_class_with_dynamodbs_words(remote):
    with pytest.raises(ValidationException) as caught:
        remote.execute("GetItem", {"TableName": "jobs", "Key": {}})
    assert caught.value.message == "The provided key element does not match the schema"
    assert caught.value.code == "ValidationException"


def test_an_error_keeps_its_members(kind):
    item = {"id": {"S": "a"}}
    error = refused(kind, refusal("ConditionalCheckFailedException", message="no", Item=item))
    assert isinstance(error, ConditionalCheckFailedException)
    assert (error.message, error.fields) == ("no", {"Item": item})
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": item}]
    error = refused(kind, refusal("TransactionCanceledException", Message="cancelled", CancellationReasons=reasons))
    assert isinstance(error, TransactionCanceledException)
    assert (error.message, error.fields) == ("cancelled", {"CancellationReasons": reasons})
    why = [{"reason": "TableReadProvisionedThroughputExceeded", "resource": "arn"}]
    error = refused(kind, refusal("ProvisionedThroughputExceededException", message="slow", ThrottlingReasons=why))
    assert isinstance(error, ProvisionedThroughputExceededException)
    assert error.fields == {"ThrottlingReasons": why}
    assert error.retryable


@pytest.mark.parametrize(
    ("code", "status", "retryable"),
    [
        ("GlobalTableNotFoundException", 400, False),
        ("ReplicatedWriteConflictException", 400, True),
        ("ServiceUnavailable", 503, True),
        ("SomethingNew", 500, True),
    ],
)
def test_a_code_without_a_class_is_still_its_code(kind, code, status, retryable):
    error = refused(kind, refusal(code, status, message="told"))
    assert (error.code, error.message, error.status, error.retryable) == (code, "told", status, retryable)


@pytest.mark.parametrize(
    "body",
    [
        {"__type": "ValidationException", "message": "m"},
        {"__type": "com.amazon.coral.validate#ValidationException", "Message": "m"},
        {"__type": "ValidationException:http://internal.amazon.com/coral/", "message": "m"},
        {"code": "ValidationException", "message": "m"},
    ],
)
def test_a_code_is_found_however_it_is_written(kind, body):
    error = refused(kind, always(answer(body, 400)))
    assert isinstance(error, ValidationException)
    assert error.message == "m"
    assert error.fields == {}


def test_a_code_in_a_header_will_do(kind):
    error = refused(kind, always(answer({"message": "m"}, 400, x_amzn_errortype="ValidationException:http://x")))
    assert isinstance(error, ValidationException)


def test_a_refusal_of_the_credentials_names_the_endpoint_and_the_next_step(kind):
    error = refused(kind, refusal("UnrecognizedClientException", message="The security token is invalid."))
    assert "127.0.0.1" in error.__notes__[0]
    assert "AWS_PROFILE" in error.__notes__[0]


# ── checksums and encodings ──────────────────────────────────────────────────────────────────────


def test_a_wrong_checksum_is_a_bad_answer_that_may_be_repeated(kind, reader):
    with fake(always(answer({"Item": {}}, x_amz_crc32="1"))) as server, calling(kind, server.url) as transport:
        with pytest.raises(BadAnswer, match="checksum") as caught:
            transport.execute(*GET)
        assert caught.value.retryable
        assert caught.value.sent


@pytest.mark.parametrize("checksum", ["", "many"])
def test_an_answer_without_a_checksum_is_believed(kind, checksum):
    with fake(always(answer({"Item": {}}, x_amz_crc32=checksum))) as server, calling(kind, server.url) as transport:
        assert transport.execute(*GET) == {"Item": {}}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "identity"])
def test_packed_answers_are_unpacked(kind, reader, encoding):
    raw = b'{"Item":{}}'
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding.lower(), bytes)(raw)
    with fake(always(answer(packed, content_encoding=encoding))) as server, calling(kind, server.url) as transport:
        assert transport.execute(*GET) == {"Item": {}}


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"no gzip", "gzip"),
        (gzip.compress(b"{}")[:-4], "gzip"),
        (b"{}", "br"),
        (gzip.compress(bytes(70 << 20)), "gzip"),
    ],
    ids=["not packed", "half", "unknown", "bomb"],
)
def test_an_answer_that_cannot_be_unpacked_is_bad(kind, body, encoding):
    script = always(answer(body, content_encoding=encoding))
    with fake(script) as server, calling(kind, server.url, AMPLE) as transport, pytest.raises(BadAnswer):
        transport.execute(*GET)


def test_chunked_answers_and_answers_that_end_with_the_connection(kind, reader):
    def script(incoming):
        incoming.read_request()
        if incoming.number == 0:
            incoming.send(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n')
            time.sleep(0.02)
            incoming.send(b'3\r\n":1\r\n1\r\n}\r\n0\r\n\r\n')
            incoming.read_request()
        incoming.send(b'HTTP/1.1 200 OK\r\n\r\n{"b":2}')

    with fake(script) as server, calling(kind, server.url) as transport:
        assert transport.execute(*GET) == {"a": 1}
        assert transport.execute(*GET) == {"b": 2}
        assert transport.execute(*GET) == {"b": 2}
        assert len(server.connections) == 2


def test_a_100_continue_comes_before_the_answer(kind, reader):
    script = always(b"HTTP/1.1 100 Continue\r\n\r\n" + answer({"a": 1}))
    with fake(script) as server, calling(kind, server.url) as transport:
        assert transport.execute(*GET) == {"a": 1}


def test_an_empty_answer_is_one_only_where_dynamodb_gives_such(kind):
    with fake(always(answer(b""))) as server, calling(kind, server.url) as transport:
        assert transport.execute("TagResource", {}) == {}
        with pytest.raises(NotDynamoDB):
            transport.execute(*GET)


# ── clocks and expiry ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error_seconds", [-7200, 7200])
def test_a_wrong_clock_is_put_right_by_the_servers(kind, error_seconds):
    secrets = {"AKID": "secret"}
    credentials = FixedCredentials(Credentials("AKID", "secret"))
    with Engine() as engine, running_server(engine, options=Options(secrets=secrets)) as server:
        options = {"credentials": credentials, "now": lambda: time.time() + error_seconds}
        with calling(kind, server.url, AMPLE, **options) as transport:
            assert transport.execute("ListTables", {}) == {"TableNames": []}
            assert transport.execute("ListTables", {}) == {"TableNames": []}


def test_a_clock_is_put_right_once_and_then_remembered(kind):
    late = formatdate(time.time() + 3600, usegmt=True)
    told = {"__type": "com.amazon.coral.service#InvalidSignatureException", "message": "Signature expired"}
    with (
        fake(always(answer(told, 400, date=late), answer(), answer())) as server,
        calling(kind, server.url) as transport,
    ):
        assert transport.execute(*GET) == {}
        stamp = server.connections[0].request.split(b"X-Amz-Date: ")[1][:16]
        assert stamp >= time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + 3500)).encode()
        assert transport.execute(*GET) == {}


def test_a_refusal_whose_date_is_ours_is_not_repeated(kind):
    told = {"__type": "x#InvalidSignatureException", "message": "wrong key"}
    dated = answer(told, 400, date=formatdate(usegmt=True))
    with fake(always(dated)) as server, calling(kind, server.url) as transport:
        with pytest.raises(InvalidSignatureException):
            transport.execute(*GET)
        assert len(server.connections) == 1


class Renewable:
    """Credentials that expire once."""

    blocking = False

    def __init__(self):
        self.count = 0

    def current(self):
        return Credentials(f"AK{self.count}", "s")

    def renew(self, refused):
        self.count += 1
        return self.count == 1


def test_expired_credentials_are_looked_for_again(kind):
    told = answer({"__type": "x#ExpiredTokenException", "message": "expired"}, 400)
    with (
        fake(always(told, answer({"a": 1}))) as server,
        calling(kind, server.url, credentials=Renewable()) as transport,
    ):
        assert transport.execute(*GET) == {"a": 1}
        assert b"Credential=AK1/" in server.connections[0].request
    with fake(always(told)) as server, calling(kind, server.url, credentials=Renewable()) as transport:
        with pytest.raises(DynamoDBError) as caught:
            transport.execute(*GET)
        assert caught.value.code == "ExpiredTokenException"
        assert "aws sso login" in caught.value.__notes__[0]
