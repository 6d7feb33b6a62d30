"""Webhooks: their signature, for who sends and who receives them, and which addresses may be sent to.

1. A webhook is signed as Standard Webhooks (https://www.standardwebhooks.com) says; libraries for it verify ours:
   HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`, in base64, as `v1,…` in `webhook-signature`.
2. Signatures are compared in constant time, and a timestamp that is too old or in the future is refused: what somebody
   has recorded cannot be sent again later.
3. Requests go to public addresses only, unless the app allows others. Every address that a name resolves to is checked,
   and the connection is made to a checked address: a name that resolves to another one a moment later gains nothing.
4. Nothing of a URL but its host is in an error: paths and queries of webhooks often hold secrets.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from penstock.errors import PenstockError

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
TOLERANCE_SECONDS: Final = 300.0
"""By so much, clocks may differ and a delivery may be late."""
MOST_SIGNATURES: Final = 10
"""Of one delivery: more are not compared."""

_SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how a secret begins, by Standard Webhooks
_SECRET_BYTES: Final = 16
_URL_CHARACTERS: Final = 2_000
_FIRST_FREE_PORT: Final = 1_024
_WEB_PORTS: Final = {"http": 80, "https": 443}
_NOT_IN_URLS: Final = re.compile(r"[^\x21-\x7e]|\\")
_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")
_HOST_CHARACTERS: Final = 253
_NOT_PUBLIC: Final = tuple(
    map(ipaddress.ip_network, ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "3fff::/20"))
)
"""What Python 3.11 takes for public: metadata of Azure and Oracle (others' are link-local, private or shared), relays
of 6to4, and addresses for documentation."""


class BadWebhook(PenstockError, ValueError):
    """A webhook's URL or secret that cannot be used: the message says what to change."""


class AddressRefused(PenstockError):
    """The name of a webhook's URL leads to an address that requests may not go to."""


class BadSignature(PenstockError, ValueError):
    """What was received is not signed with the secret, or too old. Do not act on it; answer with status 400."""


# ── signatures ───────────────────────────────────────────────────────────────────────────────────


def secret_key(secret: str) -> bytes:
    """The key that a secret stands for: `whsec_` and base64, or any text of 16 bytes and more. Raises BadWebhook."""
    if not isinstance(secret, str):
        raise BadWebhook(f"A webhook secret is text, not {type(secret).__name__}.")
    key = secret.encode(errors="replace")
    if secret.startswith(_SECRET_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
        except ValueError:  # also for text that is not ASCII
            raise BadWebhook("A webhook secret that begins with whsec_ goes on in base64; this one does not.") from None
    if len(key) < _SECRET_BYTES:
        make = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        raise BadWebhook(f"A webhook secret has {_SECRET_BYTES} bytes at least, not {len(key)}. Make one: {make}")
    return key


def sign(body: bytes, webhook_id: str, timestamp: int, secrets: Iterable[str]) -> dict[str, str]:
    """The headers of a delivery, with a signature for each secret (1)."""
    signatures = (_signature(secret_key(secret), webhook_id, str(timestamp), body) for secret in secrets)
    signed = " ".join(f"v1,{one}" for one in signatures)
    return {ID_HEADER: webhook_id, TIMESTAMP_HEADER: str(timestamp), SIGNATURE_HEADER: signed}


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> dict[str, Any]:
    """What a webhook says, if it is genuine and not old; raises BadSignature.

    `body` is the request's, byte by byte as it was received. `secret` is the sender's, or several while it is replaced.
    The same delivery may come twice: its `webhook-id` is the same then. Whatever was received, it raises nothing else;
    a secret or a tolerance that cannot be is BadWebhook, and headers that are no mapping are a TypeError.
    """
    if not (isinstance(tolerance_seconds, int | float) and 0 <= tolerance_seconds < math.inf):
        raise BadWebhook(f"tolerance_seconds is 0 or more seconds, and finite, not {tolerance_seconds!r}.")
    if not hasattr(headers, "items"):
        raise TypeError(f"headers is a mapping of names to texts, not {type(headers).__name__}.")
    data = _bytes("The body", body)
    given = {name.lower(): value for name, value in headers.items() if isinstance(name, str)}
    missing = [name for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER) if not given.get(name)]
    if missing:
        raise BadSignature(f"The request has no {' and no '.join(missing)} header: it is no webhook of Penstock's.")
    for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER):
        if not isinstance(given[name], str):
            raise BadSignature(f"The header {name} is no text, but {type(given[name]).__name__}.")
        _bytes(f"The header {name}", given[name])
    at = given[TIMESTAMP_HEADER]
    if not (at.isascii() and at.isdigit() and len(at) < 12):
        raise BadSignature(f"{TIMESTAMP_HEADER} is no time.")
    age = (time.time() if now is None else now) - int(at)
    if abs(age) > tolerance_seconds:
        when = f"{age:.0f} s ago" if age > 0 else f"{-age:.0f} s in the future: a clock is wrong"
        raise BadSignature(f"The webhook was signed {when}. {tolerance_seconds:g} s are allowed (2).")
    keys = [secret_key(one) for one in ([secret] if isinstance(secret, str) else secret)]
    wanted = [_signature(key, given[ID_HEADER], at, data).encode() for key in keys]
    found = [one.removeprefix("v1,").encode() for one in given[SIGNATURE_HEADER].split() if one.startswith("v1,")]
    matches = [hmac.compare_digest(one, other) for one in found[:MOST_SIGNATURES] for other in wanted]
    if not any(matches):
        raise BadSignature("The webhook is not signed with this secret, or was changed on its way.")
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise BadSignature("The webhook is signed, and its body is no JSON object.")
    return said


def _bytes(what: str, received: object) -> bytes:
    if isinstance(received, bytes | bytearray | memoryview):
        return bytes(received)
    if not isinstance(received, str):
        raise BadSignature(f"{what} is neither bytes nor text, but {type(received).__name__}.")
    try:
        return received.encode()
    except UnicodeEncodeError:
        raise BadSignature(f"{what} has half surrogate pairs, which nobody has signed.") from None


def _signature(key: bytes, webhook_id: str, timestamp: str, body: bytes) -> str:
    signed = b".".join((webhook_id.encode(), timestamp.encode(), body))
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


# ── where to ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that has been checked."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query."""


def parse_target(url: str) -> Target:
    """The parts of a webhook's URL. Raises BadWebhook, which shows no more of it than its host (4)."""
    if not isinstance(url, str) or not 1 <= len(url) <= _URL_CHARACTERS or _NOT_IN_URLS.search(url):
        raise BadWebhook(
            f"webhook is a URL of 1 to {_URL_CHARACTERS:,} ASCII characters without spaces, such as "
            "https://example.com/hooks/penstock; other characters are percent-encoded, and names in IDNA."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise BadWebhook("webhook is no URL: its host or port cannot be read.") from None
    if parts.scheme not in _WEB_PORTS or not host:
        raise BadWebhook("webhook is a URL that begins with https:// or http://, and has a host.")
    if parts.username is not None or parts.password is not None:
        raise BadWebhook(f"The webhook to {host} has a user or a password in its URL: use the signature instead.")
    if "%" in host:
        raise BadWebhook("webhook has a host with a %: zones of addresses are local.")
    if not _is_host(host):
        raise BadWebhook("webhook has a host that no name or address looks like: labels of 1 to 63 characters, a to z.")
    port = _WEB_PORTS[parts.scheme] if port is None else port
    if port not in _WEB_PORTS.values() and port < _FIRST_FREE_PORT:
        raise BadWebhook(f"The webhook to {host} has the port {port}: use 80, 443, or one from {_FIRST_FREE_PORT} on.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path)


def _is_host(host: str) -> bool:
    """Whether it can be a name or an address: what resolvers and TLS refuse with an error of another kind."""
    if ":" in host:
        try:
            return bool(ipaddress.IPv6Address(host))
        except ValueError:
            return False
    name = host.removesuffix(".")
    return len(name) <= _HOST_CHARACTERS and all(_LABEL.fullmatch(label) for label in name.split("."))


def check_addresses(host: str, addresses: Sequence[str], *, allow_private: bool) -> None:
    """Refuses unless requests may go to every one of the addresses of a name (3). Raises AddressRefused."""
    if not addresses:
        raise AddressRefused(f"{host} has no address.")
    for address in () if allow_private else addresses:
        if not is_public(address):
            raise AddressRefused(
                f"{host} leads to {address}, which is no public address: webhooks do not go there. If they should, "
                "App(allow_private_webhooks=True)."
            )


def is_public(address: str) -> bool:
    """Whether everybody on the internet could send to it: not private, loopback, link-local, shared, multicast, …"""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = _inner_ipv4(found)
        if inner is not None:
            return is_public(str(inner))
        if found.scope_id is not None or found.is_site_local:
            return False
        if (int(found) >> 32) & 0xFFFFFFFF in _ISATAP and not is_public(str(_last_ipv4(found))):
            return False
    if any(found in network for network in _NOT_PUBLIC):
        return False
    return found.is_global and not found.is_multicast and not found.is_reserved


_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_ISATAP: Final = frozenset({0x5EFE, 0x0200_5EFE})
"""How the second half of such an address begins, in any network; an IPv4 address follows."""


def _inner_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a translator or a tunnel would send to, if the address has one in it."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _COMPATIBLE:
        return _last_ipv4(address)
    return None


def _last_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
