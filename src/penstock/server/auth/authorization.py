"""The form of a signed request: Authorization header or X-Amz-… query, and DynamoDB's words for a wrong one.

Whether the signature is right is `signature.py`'s question; here it is only read.

Where no signature tells who asks, the Origin does, which a browser sends with each POST of a web page. Programs send
none. So:

1. Where signatures are checked, every page may call, as at AWS: it has to have the secret.
2. Otherwise only pages of this machine may, and those that were named. A page elsewhere that has its own name lead here
   (host rebinding) is known by its Origin, whatever its Host header says.
3. What is told to a plain GET, which carries no Origin, is told under names that no stranger can have lead here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

from penstock.engine.settings import Scope
from penstock.errors import (
    IncompleteSignatureException,
    InvalidSignatureException,
    MissingAuthenticationTokenException,
)

Headers = Mapping[bytes, bytes]

_HEADER_PARAMETERS = ("Credential", "Signature", "SignedHeaders")
_QUERY_PARAMETERS = (
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
    "X-Amz-Date",
)
_ACCOUNT = re.compile(r"[0-9]{12}")


@dataclass(frozen=True, slots=True)
class Authorization:
    """What a request says about who signed it, and how."""

    algorithm: str
    credential: str
    signed_headers: str
    signature: str
    date: str
    in_query: bool = False
    expires_seconds: int = 0

    @property
    def access_key(self) -> str:
        return self.credential.partition("/")[0]

    @property
    def region(self) -> str:
        """The region of the credential scope, or "" where it has none."""
        parts = self.credential.split("/")
        return parts[2] if len(parts) > 2 else ""


def read(headers: Headers, query: bytes) -> Authorization:
    """The request's authorization; raises DynamoDB's error where it has none or only half of one."""
    header = headers.get(b"authorization")
    parameters = dict(parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True))
    in_query = "X-Amz-Algorithm" in parameters
    if header and in_query:
        raise InvalidSignatureException(
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
        )
    if in_query:
        return _from_query(parameters)
    text = (header or b"").decode("utf-8", "replace").strip()
    if not text.startswith("AWS4-"):
        raise MissingAuthenticationTokenException("Request is missing Authentication Token")
    return _from_header(text, headers)


def _from_header(text: str, headers: Headers) -> Authorization:
    algorithm, *pairs = [part for part in re.split(r"[, ]", text) if part]
    given = {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
    if len(given) != len(pairs):  # which of two counts is not for us to guess
        raise IncompleteSignatureException("Authorization header has a parameter twice. Authorization=" + text)
    date = headers.get(b"x-amz-date") or headers.get(b"date") or b""
    missing = [
        f"Authorization header requires '{name}' parameter. " for name in _HEADER_PARAMETERS if not given.get(name)
    ]
    if not date:
        missing.append("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
    if missing:
        raise IncompleteSignatureException("".join(missing) + "Authorization=" + text)
    return Authorization(
        algorithm, given["Credential"], given["SignedHeaders"], given["Signature"], date.decode("latin-1")
    )


def _from_query(given: dict[str, str]) -> Authorization:
    missing = [
        f"AWS query-string parameters must include '{name}'. " for name in _QUERY_PARAMETERS if not given.get(name)
    ]
    if missing:
        raise IncompleteSignatureException("".join(missing) + "Re-examine the query-string parameters.")
    expires = given.get("X-Amz-Expires", "")
    return Authorization(
        given["X-Amz-Algorithm"],
        given["X-Amz-Credential"],
        given["X-Amz-SignedHeaders"],
        given["X-Amz-Signature"],
        given["X-Amz-Date"],
        in_query=True,
        expires_seconds=int(expires) if expires.isascii() and expires.isdigit() and len(expires) < 8 else 0,
    )


def scope_of(authorization: Authorization, default: Scope) -> Scope:
    """Whose tables are meant, for `--per-account`.

    The region is that of the credential scope. The account is the access key where that is twelve digits;
    otherwise twelve digits made from it: the first 8 bytes of its SHA-256 as a number, modulo 10¹².
    """
    return Scope(account_of(authorization.access_key), authorization.region or default.region)


def account_of(access_key: str) -> str:
    if _ACCOUNT.fullmatch(access_key):
        return access_key
    from hashlib import sha256

    digest = sha256(access_key.encode()).digest()
    return f"{int.from_bytes(digest[:8], 'big') % 10**12:012d}"


# ── web pages that may call ────────────────────────────────────────────────────────────────────────


EVERY = "*"
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


class Origins:
    """Those of one server: `allowed` as browsers write them, such as `https://app.example`, or `*` for every page."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(one.rstrip("/").lower() for one in allowed)

    def allows(self, origin: bytes) -> bool:
        """Whether a page of this origin may call, and read what it is answered (1, 2)."""
        if EVERY in self._allowed:
            return True
        text = origin.decode("latin-1").lower()
        return text in self._allowed or (_ORIGIN.fullmatch(text) is not None and is_loopback(_host(text)))

    def knows(self, host: bytes) -> bool:
        """Whether the Host header is an address, a name without a dot, or an allowed page's own (3)."""
        if EVERY in self._allowed:
            return True
        name = _host(f"//{host.decode('latin-1').lower()}")
        return bool(name) and ("." not in name or is_address(name) or any(_host(one) == name for one in self._allowed))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that host. An address, or localhost: 127.evil.example is neither."""
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761: nobody else can have such a name
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
