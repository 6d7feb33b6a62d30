"""Credentials, where they come from, and AWS Signature Version 4 of DynamoDB's requests.

1. At AWS they come from botocore's chain (environment, profile, SSO, container, assumed role), and are refreshed by it.
2. Elsewhere they come from the environment or are harmless dummies; botocore is not even imported.
3. `current()` is safe in many threads, and gives the same object until the credentials change.
4. For every request of ours the signature is botocore's own, to the letter. A signer never reads a clock.
"""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from penstock.client.transports.endpoints import Endpoint
from penstock.errors import CredentialsMissing

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


DUMMY = Credentials("penstock", "penstock")
"""For endpoints that check nothing. Letters only: DynamoDB Local takes no others in an access key."""


class CredentialSource(Protocol):
    def current(self) -> Credentials:
        """Raises CredentialsMissing."""
        ...

    def renew(self, refused: Credentials) -> bool:
        """Looks again after the server called these expired; says whether there are others now."""
        ...

    @property
    def blocking(self) -> bool:
        """Whether `current` may wait for the network or a file."""
        ...


def checked(endpoint: str, credentials: Credentials) -> Credentials:
    """The same, if they can stand in a header; a line break in one would be a header of its own."""
    for text in (credentials.access_key, credentials.token or "x"):
        if not (text.isascii() and text.isprintable() and text):
            raise CredentialsMissing(
                endpoint,
                "the credentials hold characters that no key has",
                "Copy AWS_ACCESS_KEY_ID and the rest again.",
            )
    return credentials


class FixedCredentials:
    """Always the same."""

    blocking = False

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = checked("credentials", credentials)

    def current(self) -> Credentials:
        return self._credentials

    def renew(self, refused: Credentials) -> bool:
        return False


class BotocoreCredentials:
    """Those of botocore's chain, found at the first call."""

    def __init__(self, endpoint: str, profile: str | None = None, session: Any = None) -> None:
        self._endpoint = endpoint
        self._profile = profile
        self._session = session
        self._found: Any = None
        self._latest: tuple[Any, Credentials] | None = None
        self._lock = threading.Lock()

    @property
    def blocking(self) -> bool:
        """False while a call costs nothing: they are found, and not due for a refresh."""
        found = self._found
        if found is None:
            return True
        needed = getattr(found, "refresh_needed", None)
        return bool(needed is not None and needed())

    def current(self) -> Credentials:
        found = self._found or self._find()
        try:
            frozen = found.get_frozen_credentials()
        except Exception as error:  # every provider has errors of its own
            raise self._missing(f"its credentials could not be refreshed ({_brief(error)})") from error
        latest = self._latest
        if latest is not None and latest[0] == frozen:
            return latest[1]
        if not frozen.access_key or not frozen.secret_key:
            raise self._missing("its credentials are empty")
        fresh = checked(self._endpoint, Credentials(frozen.access_key, frozen.secret_key, frozen.token or None))
        self._latest = (frozen, fresh)
        return fresh

    def renew(self, refused: Credentials) -> bool:
        with self._lock:
            # Of many threads that were refused at once, the first looks; the others find what it found.
            if self._latest is not None and self._latest[1] == refused:
                self._latest = None
                self._found = None
                self._session = None  # it remembers the files that it read
        return self.current() != refused

    def _find(self) -> Any:
        with self._lock:
            if self._found is None:
                self._found = self._load()
            return self._found

    def _load(self) -> Any:
        try:
            session = self._session or new_session(self._profile)
            found = session.get_credentials()
        except Exception as error:
            raise self._missing(f"AWS credentials cannot be read ({_brief(error)})") from error
        if found is None:
            raise self._missing("no AWS credentials were found")
        return found

    def _missing(self, reason: str) -> CredentialsMissing:
        login = f"aws sso login --profile {self._profile}" if self._profile else "aws sso login, aws configure"
        return CredentialsMissing(
            self._endpoint, reason, f"Sign in ({login}) or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )


def new_session(profile: str | None) -> Any:
    """A botocore session, which is what knows profiles; importing it takes a tenth of a second."""
    import botocore.session

    from penstock.client.transports.credentials import PlainData

    session = botocore.session.Session(profile=profile)
    session.get_component("data_loader").file_loader = PlainData()
    return session


def profile_region(profile: str | None) -> str | None:
    """The region that a profile names, if it does."""
    try:
        region: str | None = new_session(profile).get_config_variable("region")
    except Exception:  # an unreadable file, an unknown profile: the caller says what to do without a region
        return None
    return region


def credentials_for(endpoint: Endpoint, environment: Mapping[str, str] | None = None) -> CredentialSource:
    """Whoever signs for this endpoint."""
    if endpoint.aws:
        return BotocoreCredentials(endpoint.name, endpoint.profile)
    given = os.environ if environment is None else environment
    key, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return FixedCredentials(Credentials(key, secret, given.get("AWS_SESSION_TOKEN") or None))
    return FixedCredentials(DUMMY)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


_OPENERS = ((".json", open), (".json.gz", gzip.open))


class PlainData:
    """What a botocore Loader wants as its `file_loader`; paths are without their ending."""

    def exists(self, file_path: str) -> bool:
        return any(Path(file_path + ending).is_file() for ending, _ in _OPENERS)

    def load_file(self, file_path: str) -> Any:
        """None if there is no such file."""
        for ending, opened in _OPENERS:
            try:
                with opened(file_path + ending, "rb") as file:
                    return json.loads(file.read())
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                continue
        return None
