"""Credentials: who signs.

1. At AWS they come from botocore's chain (environment, profile, SSO, container, assumed role), and are refreshed by it.
2. Elsewhere they come from the environment or are harmless dummies; botocore is not even imported.
3. `current()` is safe in many threads, and gives the same object until the credentials change.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from penstock.client.transports.endpoints import Endpoint
from penstock.client.transports.signing import Credentials
from penstock.errors import CredentialsMissing

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

    from penstock.client.boto3.session_data import PlainData

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
