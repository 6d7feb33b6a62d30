"""Our signatures are botocore's own, on thousands of random requests."""

from __future__ import annotations

import datetime
from unittest import mock

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as TheirCredentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.client.transports.credentials import CONTENT_TYPE, Credentials, Signer

KEYS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=1, max_size=20)
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=60)
TOKENS = st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=300)
REGIONS = st.sampled_from(["us-east-1", "eu-west-2", "ap-southeast-4", "us-gov-west-1", "cn-north-1", "local"])
HOSTS = st.sampled_from(
    [
        "localhost:8000",
        "dynamodb.eu-west-2.amazonaws.com",
        "[::1]:4567",
        "127.0.0.1",
        "streams.dynamodb.cn-north-1.amazonaws.com.cn",
    ]
)
PATHS = st.sampled_from(["/", "/shard/a", "/a%20b/", "/~user/x_y-z", "/a+b=c"])
TARGETS = st.from_regex(r"DynamoDB(Streams)?_20120810\.[A-Z][A-Za-z]{0,30}", fullmatch=True)
TIMES = st.integers(0, 4_102_444_800)


def by_botocore(host, region, path, target, body, now, credentials) -> dict[str, str]:
    headers = {"Content-Type": CONTENT_TYPE, "Host": host, "X-Amz-Target": target}
    request = AWSRequest("POST", f"http://{host}{path}", headers=headers, data=body)
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=moment):
        botocore.auth.SigV4Auth(TheirCredentials(*credentials), "dynamodb", region).add_auth(request)
    names = ("X-Amz-Date", "X-Amz-Security-Token", "Authorization")
    return {name: request.headers[name] for name in names if name in request.headers}


def by_us(signer, target, body, now, credentials) -> dict[str, str]:
    lines = signer.headers(target, body, now, credentials).removesuffix("\r\n").split("\r\n")
    return dict(line.split(": ", 1) for line in lines)


@settings(max_examples=2_000)
@given(KEYS, SECRETS, TOKENS, REGIONS, HOSTS, PATHS, TARGETS, st.binary(max_size=500), TIMES)
@example("A", "b", None, "us-east-1", "localhost", "/", "DynamoDB_20120810.GetItem", b"", 0)
@example("A", "b", "t==", "us-east-1", "localhost", "/", "DynamoDB_20120810.PutItem", '{"é":1}'.encode(), 1_700_000_000)
def test_a_signature_is_botocores_own(key, secret, token, region, host, path, target, body, now):
    credentials = Credentials(key, secret, token)
    signer = Signer(host, region, path)
    assert by_us(signer, target, body, now, credentials) == by_botocore(
        host, region, path, target, body, now, credentials
    )


@given(st.lists(st.tuples(TIMES, st.booleans(), st.binary(max_size=40)), min_size=2, max_size=8))
def test_one_signer_signs_rightly_across_days_and_changing_credentials(calls):
    signer = Signer("localhost:8000", "us-east-1")
    sets = (Credentials("A", "one"), Credentials("B", "two", "token"))
    target = "DynamoDB_20120810.GetItem"
    for now, second, body in calls:
        ours = by_us(signer, target, body, now, sets[second])
        assert ours == by_botocore("localhost:8000", "us-east-1", "/", target, body, now, sets[second])


def test_the_signing_key_is_made_once_a_day():
    signer = Signer("localhost:8000", "us-east-1")
    credentials = Credentials("A", "b")
    with mock.patch.object(Signer, "_new_day", autospec=True, side_effect=Signer._new_day) as made:
        for now in (0, 1, 3600, 86_399, 86_400, 90_000):
            signer.headers("DynamoDB_20120810.GetItem", b"{}", now, credentials)
    assert made.call_count == 2


@pytest.mark.parametrize("token", [None, "FwoGZXIvYXdzE"])
def test_a_server_that_checks_signatures_accepts_ours(token):
    from penstock.client.transports.credentials import FixedCredentials
    from penstock.client.transports.endpoints import Endpoint, parse
    from penstock.client.transports.http import RemoteTransport
    from penstock.engine import Engine
    from penstock.errors import InvalidSignatureException
    from penstock.server import Options, running_server

    with Engine() as engine, running_server(engine, options=Options(secrets={"AKID": "secret"})) as server:
        endpoint = parse(server.url, {})
        assert isinstance(endpoint, Endpoint)
        right = RemoteTransport(endpoint, credentials=FixedCredentials(Credentials("AKID", "secret", token)))
        assert right.execute("ListTables", {}) == {"TableNames": []}
        right.close()
        wrong = RemoteTransport(endpoint, credentials=FixedCredentials(Credentials("AKID", "other", token)))
        with pytest.raises(InvalidSignatureException) as refused:
            wrong.execute("ListTables", {})
        assert server.url in refused.value.__notes__[0]
        wrong.close()
