"""Signatures, against botocore's own signer as the second opinion."""

from __future__ import annotations

import calendar
import random
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from raw_http import EchoEngine, RawClient, request

from penstock.errors import DynamoDBError
from penstock.server.auth import authorization
from penstock.server.auth.credentials import CredentialsFileError, load_credentials
from penstock.server.auth.signature import Verifier
from penstock.server.server import Options, ServerThread, running_server

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
URL = "http://127.0.0.1:8000/"
TOKENS = string.ascii_letters + string.digits + " -_=/+,.;:~%&"


def signed(
    body: bytes,
    headers: dict[str, str],
    *,
    secret: str = SECRET,
    key: str = KEY,
    url: str = URL,
    signer: Any = SigV4Auth,
    service: str = "dynamodb",
    region: str = "us-east-1",
) -> AWSRequest:
    made = AWSRequest("POST", url, headers={"Host": "127.0.0.1:8000", **headers}, data=body)
    signer(Credentials(key, secret), service, region).add_auth(made)
    return made


def check(made: AWSRequest, body: bytes, now: float | None = None, secrets: dict[str, str] | None = None) -> None:
    headers = {name.lower().encode(): value.encode() for name, value in made.headers.items()}
    target = made.prepare().url.removeprefix("http://127.0.0.1:8000").encode()
    given = authorization.read(headers, target.partition(b"?")[2])
    verifier = Verifier(secrets or {KEY: SECRET})
    verifier.check(given, b"POST", target, headers, body, time.time() if now is None else now)


def random_request(rng: random.Random) -> tuple[bytes, dict[str, str], str]:
    def text(limit: int) -> str:
        return "".join(rng.choices(TOKENS, k=rng.randrange(limit))).strip()

    headers = {f"X-Amz-{rng.choice('ABCDEF')}{number}": text(30) for number in range(rng.randrange(5))}
    query = "&".join(f"{rng.choice('abc')}={quote(text(10), safe='~')}" for _ in range(rng.randrange(4)))
    return rng.randbytes(rng.randrange(200)), headers, URL + ("?" + query if query else "")


@pytest.mark.parametrize("signer", [SigV4Auth, SigV4QueryAuth])
def test_what_botocore_signs_is_right_and_any_change_makes_it_wrong(signer: Any) -> None:
    rng = random.Random(7)
    for _ in range(300):
        body, headers, url = random_request(rng)
        if signer is SigV4QueryAuth:
            body = b""  # its query is read from the body otherwise
        made = signed(body, headers, url=url, signer=signer)
        check(made, body)
        with pytest.raises(DynamoDBError, match="does not match"):
            check(made, body + b" ")
        if headers:
            name = rng.choice(sorted(headers))
            made.headers.replace_header(name, headers[name] + "x")
            with pytest.raises(DynamoDBError, match="does not match"):
                check(made, body)


def test_spaces_in_a_header_do_not_count() -> None:
    made = signed(b"{}", {"X-Amz-Meta": "Hello world"})
    made.headers.replace_header("X-Amz-Meta", "  Hello   world ")
    check(made, b"{}")


def test_a_date_header_serves_in_place_of_x_amz_date() -> None:
    made = signed(b"{}", {"Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())})
    assert "X-Amz-Date" not in made.headers
    check(made, b"{}")


def refusal(made: AWSRequest, body: bytes = b"{}", **given: Any) -> tuple[str, str]:
    with pytest.raises(DynamoDBError) as caught:
        check(made, body, **given)
    return caught.value.code, caught.value.message


def test_a_wrong_secret_is_an_invalid_signature() -> None:
    code, message = refusal(signed(b"{}", {}, secret="wrong"))
    assert code == "InvalidSignatureException"
    assert message.startswith(
        "The request signature we calculated does not match the signature you provided. "
        "Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
    )
    assert SECRET not in message


def test_an_unknown_key_is_unrecognised() -> None:
    assert refusal(signed(b"{}", {}, key="SOMEONE")) == (
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    )


def test_an_old_or_early_signature_is_refused() -> None:
    made = signed(b"{}", {})
    stamp = made.headers["X-Amz-Date"]
    at = calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
    check(made, b"{}", now=at + 899)
    check(made, b"{}", now=at - 899)
    code, message = refusal(made, now=at + 901)
    assert code == "InvalidSignatureException"
    assert message.startswith(f"Signature expired: {stamp} is now earlier than ")
    assert message.endswith(" - 15 min.)")
    code, message = refusal(made, now=at - 901)
    assert message.startswith(f"Signature not yet current: {stamp} is still later than ")


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("host;", "", "InvalidSignatureException", "'Host' must be a 'SignedHeader'"),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA25", "IncompleteSignatureException", "Unsupported AWS 'algorithm'"),
        ("/aws4_request", "", "IncompleteSignatureException", "exactly 5 slash-delimited elements"),
        ("/dynamodb/", "/s3/", "InvalidSignatureException", "correct service: 'dynamodb'"),
        ("us-east-1", "nowhere", "InvalidSignatureException", "valid region, not 'nowhere'"),
        ("/aws4_request", "/aws5", "InvalidSignatureException", "valid terminator: 'aws4_request', not 'aws5'"),
    ],
)
def test_a_wrong_credential_is_explained(old: str, new: str, code: str, words: str) -> None:
    made = signed(b"{}", {})
    made.headers.replace_header("Authorization", made.headers["Authorization"].replace(old, new))
    assert refusal(made)[0] == code
    assert words in refusal(made)[1]


def test_a_date_that_is_none_is_explained() -> None:
    made = signed(b"{}", {})
    made.headers.replace_header("X-Amz-Date", "201")
    code, message = refusal(made)
    assert code == "IncompleteSignatureException"
    assert message.startswith("Date must be in ISO-8601 'basic format'. Got '201'.")


@pytest.fixture
def guarded() -> Iterator[ServerThread]:
    with running_server(EchoEngine(), options=Options(secrets={KEY: SECRET})) as server:
        yield server


def ask(server: ServerThread, body: bytes, **given: Any) -> Any:
    target = "DynamoDB_20120810.GetItem"
    made = signed(body, {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}, **given)
    headers = {name.replace("-", "_"): value for name, value in made.headers.items()}
    with RawClient(server.url) as client:
        return client.ask(request(body=body, **headers))


def test_a_server_with_keys_answers_the_signed_and_refuses_the_rest(guarded: ServerThread) -> None:
    assert ask(guarded, b'{"Id":1}').status == 200
    assert ask(guarded, b"{}", secret="wrong").error == "InvalidSignatureException"
    assert ask(guarded, b"{}", key="SOMEONE").error == "UnrecognizedClientException"
    with RawClient(guarded.url) as client:
        assert client.ask(request()).error == "InvalidSignatureException"
        assert client.ask(request(drop=["Authorization"])).error == "MissingAuthenticationTokenException"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"A": "b", "C": "d"}', {"A": "b", "C": "d"}),
        ("[default]\naws_access_key_id = A\naws_secret_access_key = b=/+\nregion = us-east-1\n", {"A": "b=/+"}),
        ("[x]\nAKIA1 = one\nAKIA2=two%\n", {"AKIA1": "one", "AKIA2": "two%"}),
    ],
)
def test_credentials_are_read_from_json_and_ini(tmp_path: Path, text: str, keys: dict[str, str]) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    assert load_credentials(file) == keys


@pytest.mark.parametrize(
    "text", ["", "{}", "{", '{"A": 1}', "no section", "[default]\naws_access_key_id = A\n", "[x]\n"]
)
def test_a_file_without_keys_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(text)
    with pytest.raises(CredentialsFileError, match=str(file)):
        load_credentials(file)
    with pytest.raises(CredentialsFileError, match="absent"):
        load_credentials(tmp_path / "absent")
