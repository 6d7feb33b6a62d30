"""Web pages that may call, where no signature tells who asks.

A browser sends a page's Origin with each POST, and lets the page read the answer only if the server allows it. Programs
send none. So:

1. Where signatures are checked, every page may call, as at AWS: it has to have the secret.
2. Otherwise only pages of this machine may, and those that were named. A page elsewhere that has its own name lead here
   (host rebinding) is known by its Origin, whatever its Host header says.
3. What is told to a plain GET, which carries no Origin, is told under names that no stranger can have lead here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

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
        return bool(name) and ("." not in name or _is_address(name) or any(_host(one) == name for one in self._allowed))


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


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
