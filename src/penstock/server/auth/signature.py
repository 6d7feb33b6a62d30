"""AWS Signature Version 4, checked as DynamoDB checks it.

The checks run in AWS's order: date, age, signed headers, algorithm, credential scope, access key, and last
the signature itself, which covers the method, path, query, signed headers and the hash of the body.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import parse_qsl, quote

from penstock.errors import (
    IncompleteSignatureException,
    InvalidSignatureException,
    UnrecognizedClientException,
)
from penstock.server.auth.authorization import Authorization, Headers

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_SECONDS = 15 * 60
LONGEST_SECONDS = 7 * 24 * 3600  # that a signed query may live
_BASIC = "%Y%m%dT%H%M%SZ"
_BASIC_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SPACES = re.compile(rb"[ \t]+")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")


class Verifier:
    """Checks requests against access keys and their secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)

    def check(
        self,
        authorization: Authorization,
        method: bytes,
        url: bytes,
        headers: Headers,
        body: bytes,
        now: float,
    ) -> None:
        """Returns if the request was signed with the secret of its access key, recently; raises otherwise."""
        stamp = _timestamp(authorization.date)
        _check_age(stamp, now, authorization.expires_seconds)
        signed = authorization.signed_headers.lower().split(";")
        if "host" not in signed:
            raise InvalidSignatureException("'Host' must be a 'SignedHeader' in the AWS Authorization.")
        # Otherwise whoever sees a signed read could make another call of it.
        if b"x-amz-target" in headers and "x-amz-target" not in signed:
            raise InvalidSignatureException("'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.")
        if authorization.algorithm != ALGORITHM:
            raise IncompleteSignatureException(
                f"Unsupported AWS 'algorithm': '{authorization.algorithm}' (only {ALGORITHM} for now). "
            )
        key_id, date, region, service = _credential_scope(authorization, stamp)
        secret = self._secrets.get(key_id)
        if secret is None:
            raise UnrecognizedClientException("The security token included in the request is invalid.")
        canonical = canonical_request(authorization, method, url, headers, body)
        to_sign = _string_to_sign(canonical, stamp, f"{date}/{region}/{service}/aws4_request")
        wanted = hmac.new(_signing_key(secret, date, region, service), to_sign, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted.encode(), authorization.signature.encode()):
            raise _mismatch(canonical, to_sign)


def _timestamp(date: str) -> str:
    """The request's date in ISO 8601 basic format; a Date header has HTTP's format instead."""
    if _BASIC_FORM.fullmatch(date) is not None and _seconds(date) is not None:
        return date
    from email.utils import parsedate_to_datetime  # costly to import, and seldom needed

    try:
        return time.strftime(_BASIC, parsedate_to_datetime(date).utctimetuple())
    except (ValueError, TypeError, OverflowError):
        raise IncompleteSignatureException(
            f"Date must be in ISO-8601 'basic format'. Got '{date}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None


def _seconds(stamp: str) -> float | None:
    try:
        return calendar.timegm(time.strptime(stamp, _BASIC))
    except ValueError:
        return None


def _check_age(stamp: str, now: float, expires_seconds: int) -> None:
    signed = _seconds(stamp)
    assert signed is not None
    if expires_seconds > LONGEST_SECONDS:
        raise InvalidSignatureException(f"X-Amz-Expires must be less than a week, that is {LONGEST_SECONDS} seconds.")
    allowed = expires_seconds or SKEW_SECONDS
    if signed < now - allowed:
        raise InvalidSignatureException(
            f"Signature expired: {stamp} is now earlier than {_stamp(now - allowed)} "
            f"({_stamp(now)} - {allowed // 60} min.)"
        )
    if signed > now + SKEW_SECONDS:
        raise InvalidSignatureException(
            f"Signature not yet current: {stamp} is still later than {_stamp(now + SKEW_SECONDS)} "
            f"({_stamp(now)} + {SKEW_SECONDS // 60} min.)"
        )


def _stamp(now: float) -> str:
    return time.strftime(_BASIC, time.gmtime(now))


def _credential_scope(authorization: Authorization, stamp: str) -> tuple[str, str, str, str]:
    parts = authorization.credential.rstrip("/").split("/")
    if len(parts) != 5:
        raise IncompleteSignatureException(
            "Credential must have exactly 5 slash-delimited elements, "
            f"e.g. keyid/date/region/service/term, got '{authorization.credential}'"
        )
    key_id, date, region, service, term = parts
    wrong = []
    if _REGION.fullmatch(region) is None and region != "local":
        wrong.append(f"Credential should be scoped to a valid region, not '{region}'. ")
    if service != "dynamodb":
        wrong.append("Credential should be scoped to correct service: 'dynamodb'. ")
    if term != "aws4_request":
        wrong.append(f"Credential should be scoped with a valid terminator: 'aws4_request', not '{term}'. ")
    if date != stamp[:8]:
        wrong.append(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{date}' != '{stamp[:8]}', from '{stamp}'."
        )
    if wrong:
        raise InvalidSignatureException("".join(wrong))
    return key_id, date, region, service


def canonical_request(authorization: Authorization, method: bytes, url: bytes, headers: Headers, body: bytes) -> bytes:
    """The request in the one form that both sides hash."""
    path, _, query = url.partition(b"?")
    names = authorization.signed_headers.lower().encode().split(b";")
    lines = [name + b":" + _SPACES.sub(b" ", headers.get(name, b"").strip()) + b"\n" for name in names]
    return b"\n".join(
        (
            method,
            quote(path, safe="/~%").encode() or b"/",
            _canonical_query(query),
            b"".join(lines),
            b";".join(names),
            hashlib.sha256(body).hexdigest().encode(),
        )
    )


def _canonical_query(query: bytes) -> bytes:
    pairs = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True)
    escaped = sorted(
        (quote(name, safe="~"), quote(value, safe="~")) for name, value in pairs if name != "X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in escaped).encode()


def _string_to_sign(canonical: bytes, stamp: str, scope: str) -> bytes:
    return f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical).hexdigest()}".encode()


@lru_cache(maxsize=1024)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = ("AWS4" + secret).encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _mismatch(canonical: bytes, to_sign: bytes) -> InvalidSignatureException:
    return InvalidSignatureException(
        "The request signature we calculated does not match the signature you provided. "
        "Check your AWS Secret Access Key and signing method. "
        "Consult the service documentation for details.\n\n"
        "The Canonical String for this request should have been\n"
        f"'{canonical.decode('utf-8', 'replace')}'\n\n"
        f"The String-to-Sign should have been\n'{to_sign.decode()}'\n"
    )
