"""AWS Signature Version 4 of DynamoDB's requests.

A request of DynamoDB's is always `POST /` with the same few headers, so all but four places of the text that is
signed (date, target, token, body's hash) is made once. The signing key depends on credentials, day and region, and is
kept for the day.

1. For every request of ours the result is botocore's own, to the letter.
2. A signer never reads a clock: the caller says what time it is.
"""

from __future__ import annotations

import time
from hashlib import sha256
from hmac import digest
from typing import NamedTuple
from urllib.parse import quote

CONTENT_TYPE = "application/x-amz-json-1.0"


class Credentials(NamedTuple):
    """Frozen: a refreshed set is another object."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        """Without the secrets: what is shown in tracebacks and logs is read by many."""
        return f"Credentials({self.access_key!r}, …)"


class _Day(NamedTuple):
    """What is the same for one day of one set of credentials."""

    credentials: Credentials
    date: str
    key: bytes
    authorization: str

    def __repr__(self) -> str:
        return f"_Day({self.credentials!r}, {self.date!r}, …)"


class Signer:
    """Signs requests to one host. Safe to share between threads: its caches are replaced, never changed."""

    def __init__(self, authority: str, region: str, path: str = "/", service: str = "dynamodb") -> None:
        self._region = region
        self._service = service
        self._before_date = f"POST\n{_quoted(path)}\n\ncontent-type:{CONTENT_TYPE}\nhost:{authority}\nx-amz-date:"
        self._day: _Day | None = None
        self._second: tuple[int, str] = (-1, "")

    def headers(self, target: str, body: bytes, now: float, credentials: Credentials) -> str:
        """The lines `X-Amz-Date`, `X-Amz-Security-Token` (where there is one) and `Authorization`."""
        stamp = self._stamp(now)
        day = self._day
        if day is None or day.credentials is not credentials or not stamp.startswith(day.date):
            day = self._day = self._new_day(credentials, stamp[:8])
        token = credentials.token
        signed = f"\nx-amz-security-token:{token}" if token else ""
        names = ";x-amz-security-token;x-amz-target\n" if token else ";x-amz-target\n"
        canonical = (
            f"{self._before_date}{stamp}{signed}\nx-amz-target:{target}\n\n"
            f"content-type;host;x-amz-date{names}{sha256(body).hexdigest()}"
        )
        to_sign = (
            f"AWS4-HMAC-SHA256\n{stamp}\n{day.date}/{self._region}/{self._service}/aws4_request\n"
            f"{sha256(canonical.encode()).hexdigest()}"
        )
        signature = digest(day.key, to_sign.encode(), "sha256").hex()
        sent = f"X-Amz-Security-Token: {token}\r\n" if token else ""
        return f"X-Amz-Date: {stamp}\r\n{sent}{day.authorization}{signature}\r\n"

    def _stamp(self, now: float) -> str:
        second = int(now)
        known, stamp = self._second
        if known != second:
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
            self._second = (second, stamp)
        return stamp

    def _new_day(self, credentials: Credentials, date: str) -> _Day:
        key = ("AWS4" + credentials.secret_key).encode()
        for part in (date, self._region, self._service, "aws4_request"):
            key = digest(key, part.encode(), "sha256")
        token = ";x-amz-security-token" if credentials.token else ""
        scope = f"{credentials.access_key}/{date}/{self._region}/{self._service}/aws4_request"
        names = f"content-type;host;x-amz-date{token};x-amz-target"
        authorization = f"Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature="
        return _Day(credentials, date, key, authorization)


def _quoted(path: str) -> str:
    return quote(path or "/", safe="/-_.~")
