"""Ways around the signature, where keys are configured; and around what is remembered of those who signed before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from raw_http import Answer, EchoEngine, RawClient, request

from penstock.errors import DynamoDBError
from penstock.server.auth import authorization
from penstock.server.auth.credentials import CredentialsFileError, load_credentials
from penstock.server.auth.signature import Verifier
from penstock.server.server import Options, ServerThread, running_server

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
BODY = b'{"Id":1}'
TARGET = "DynamoDB_20120810.GetItem"
TYPE = "application/x-amz-json-1.0"


class _LeavesOutTarget(SigV4Auth):
    def headers_to_sign(self, request: Any) -> Any:
        kept = super().headers_to_sign(request)
        del kept["x-amz-target"]
        return kept


class _SaysUnsigned(SigV4Auth):
    """Signs no body, as S3 allows."""

    def payload(self, request: Any) -> str:
        return "UNSIGNED-PAYLOAD"


def signed(signer: Any = SigV4Auth, body: bytes = BODY, **headers: str) -> dict[str, str]:
    sent = {"Host": "127.0.0.1", "X-Amz-Target": TARGET, "Content-Type": TYPE}
    made = AWSRequest("POST", "http://127.0.0.1/", headers={**sent, **headers}, data=body)
    signer(Credentials(KEY, SECRET), "dynamodb", "us-east-1").add_auth(made)
    return dict(made.headers.items())


def raw(headers: dict[str, str], body: bytes = BODY, extra: str = "") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.1\r\n{lines}{extra}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServerThread]:
    with running_server(EchoEngine(), options=Options(secrets={KEY: SECRET})) as server:
        yield server


def ask(server: ServerThread, *data: bytes) -> list[Answer]:
    with RawClient(server.url) as client:
        return [client.ask(one) for one in data]


def test_a_signed_request_is_answered(guarded: ServerThread) -> None:
    assert ask(guarded, raw(signed()))[0].status == 200


def test_names_of_headers_may_be_written_in_any_case(guarded: ServerThread) -> None:
    shouted = {name.upper(): value for name, value in signed().items()}
    assert ask(guarded, raw(shouted))[0].status == 200


WRONG: dict[str, bytes] = {
    "another body": raw(signed(), b'{"Id":2}'),
    "another operation": raw({**signed(), "X-Amz-Target": "DynamoDB_20120810.DeleteItem"}),
    "an operation that is not signed": raw(signed(_LeavesOutTarget)),
    "a body that is not signed": raw(signed(_SaysUnsigned, **{"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})),
    "a body said to come in signed pieces": raw(
        signed(**{"X-Amz-Content-SHA256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"})
    ),
    "a second target": raw(signed(), extra="X-Amz-Target: DynamoDB_20120810.DeleteItem\r\n"),
    "a second date": raw(signed(), extra="X-Amz-Date: 20200101T000000Z\r\n"),
    "a second authorization": raw(signed(), extra=f"Authorization: {signed()['Authorization']}\r\n"),
    "a signature in capitals": raw(
        {**signed(), "Authorization": signed()["Authorization"][:-64] + signed()["Authorization"][-64:].upper()}
    ),
    "no signature": raw({**signed(), "Authorization": signed()["Authorization"][:-64]}),
    "a signature that is no ASCII": raw({**signed(), "Authorization": signed()["Authorization"][:-1] + "é"}),
    "another algorithm": raw({**signed(), "Authorization": "AWS4-HMAC-SHA1 " + signed()["Authorization"][17:]}),
    "algorithm none": raw({**signed(), "Authorization": "none " + signed()["Authorization"][17:]}),
    "ECDSA": raw({**signed(), "Authorization": "AWS4-ECDSA-P256-SHA256 " + signed()["Authorization"][17:]}),
    "Basic": raw({**signed(), "Authorization": "Basic QUtJQUVYQU1QTEU6"}),
    "nothing": raw({name: value for name, value in signed().items() if name != "Authorization"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_signed_as_it_stands_is_refused(guarded: ServerThread, name: str) -> None:
    (answer,) = ask(guarded, WRONG[name])
    assert answer.status == 400
    assert answer.error in (
        "InvalidSignatureException",
        "IncompleteSignatureException",
        "MissingAuthenticationTokenException",
        "UnknownOperationException",
    )
    assert SECRET not in answer.body.decode()


def test_a_head_that_was_let_in_lets_in_no_other(guarded: ServerThread) -> None:
    """Neither on its connection, where it could be remembered, nor on another; differing in the signature alone."""
    good = raw(signed())
    forged = good.replace(signed()["Authorization"][-64:].encode(), b"a" * 64)
    first = ask(guarded, good, good, good, forged, raw(signed(), b'{"Id":2}'), good)
    assert [answer.status for answer in first] == [200, 200, 200, 400, 400, 200]
    assert ask(guarded, forged)[0].status == 400


def test_a_credential_behind_the_signature_names_no_other_account() -> None:
    """What is remembered of a head is what stood before its signature: nothing else may have decided."""
    both = (
        "AWS4-HMAC-SHA256 Credential=111111111111/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=a"
    )
    with running_server(EchoEngine(), options=Options(per_account=True)) as server:
        sneaky = request(Authorization=both + ",Credential=222222222222/20260101/eu-west-2/dynamodb/aws4_request")
        for data in (sneaky, request(Authorization=both)):
            *_, answer = ask(server, data, data, data)
        told = answer.json()
        assert (told["Account"], told["Region"]) == ("111111111111", "us-east-1")


# ── signed queries ──


def check_query(expires: int, age: float, **changed: str) -> None:
    made = AWSRequest("POST", "http://127.0.0.1:8000/", headers={"Host": "127.0.0.1:8000", **changed}, data=b"")
    SigV4QueryAuth(Credentials(KEY, SECRET), "dynamodb", "us-east-1", expires=expires).add_auth(made)
    url = made.prepare().url.removeprefix("http://127.0.0.1:8000").encode()
    headers = {name.lower().encode(): value.encode() for name, value in made.headers.items()}
    given = authorization.read(headers, url.partition(b"?")[2])
    Verifier({KEY: SECRET}).check(given, b"POST", url, headers, b"", time.time() + age)


def test_a_signed_query_lives_as_long_as_it_says_and_a_week_at_most() -> None:
    check_query(60, age=50)
    check_query(604_800, age=600_000)
    for expires, age in ((60, 120), (3600, 3700), (604_800, 604_900), (604_801, 0), (9_999_999, 0)):
        with pytest.raises(DynamoDBError, match=r"Signature expired|X-Amz-Expires"):
            check_query(expires, age)


# ── the file of keys ──


def test_settings_of_the_aws_cli_are_no_keys(tmp_path: Path) -> None:
    """`output = json` would let everybody in who signs as "output" with the secret "json"."""
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = one\noutput = json\nregion = us-east-1\n"
        "[profile sso]\nsso_region = us-east-1\ncli_pager =\n[more]\nAKIA2 = two\n"
    )
    assert load_credentials(file) == {"AKIA1": "one", "AKIA2": "two"}


@pytest.mark.parametrize(
    "text", ['{"A": ""}', '{"": "b"}', "[x]\naws_access_key_id = A\naws_secret_access_key =\n", "[x]\noutput = json\n"]
)
def test_a_key_that_anybody_could_sign_with_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    with pytest.raises(CredentialsFileError, match=r"empty key or secret|no keys"):
        load_credentials(file)
