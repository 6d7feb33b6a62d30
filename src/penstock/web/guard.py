"""Checks of every request: host, origin, and the length of its body.

1. A request names a host that the server knows. Otherwise any web site could make its name resolve to this machine,
   and read what the machine serves (DNS rebinding). A server on all addresses is known by every address: no web site's
   name is one.
2. A request from a web page of another machine changes nothing. Pages of this machine, on any port, may.
3. A body is never longer than its endpoint's limit, whatever its Content-Length says, and must arrive in time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.server.auth.authorization import is_address, is_loopback
from penstock.web.problems import Problem

BODY_SECONDS: Final = 60.0
"""Long enough for a drawing over a slow line."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def host_of(header: str) -> str:
    """The host of a Host header or of an origin, in lower case and without its port; "" where it is none."""
    try:
        return (urlsplit(header if "://" in header else f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A Host header that is only a host: URLs in answers are built from it."""


class PathDispatch:
    """ASGI middleware: gives the requests below a path to another application, which has a guard of its own."""

    def __init__(self, app: ASGIApp, prefix: str, other: ASGIApp) -> None:
        self._app = app
        self._prefix = prefix
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_below = path == self._prefix or path.startswith(f"{self._prefix}/")
        await (self._other if scope["type"] == "http" and is_below else self._app)(scope, receive, send)


class SecurityHeaders:
    """ASGI middleware: sets headers that a response does not have."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


API_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
"""An API's answers are data: no browser runs them, frames them or takes them for another type."""


ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what --host may say


class Guard:
    """ASGI middleware. `body_bytes` gives the limit of a path; `page` shows a refusal to a browser."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        body_bytes: Callable[[str, str], int],
        page: Callable[[Problem], ASGIApp] | None = None,
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._has_all_addresses = not self._hosts.isdisjoint(ALL_ADDRESSES)
        self._body_bytes = body_bytes
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = self._body_bytes(scope["method"], scope["path"])
        problem = self._refusal(scope["method"], headers) or _too_long(headers, limit)
        if problem is not None:
            is_browser = "text/html" in headers.get("accept", "")
            answer = self._page(problem) if is_browser and self._page is not None else problem.response()
            await answer(scope, receive, send)
            return
        await self._app(scope, _LimitedReceive(receive, limit), send)

    def _refusal(self, method: str, headers: Headers) -> Problem | None:
        named = headers.getlist("host")
        if len(named) != 1 or not _HOST.fullmatch(named[0]) or not self._knows(host_of(named[0])):
            shown = ", ".join(named)[:100] or "no host"
            return Problem(
                400,
                f"This server is not known as {shown}.",
                "Use the address that it printed, or start it with --allow-host NAME.",
                kind="bad_host",
            )
        origin = headers.get("origin")
        if (
            method not in _SAFE_METHODS
            and origin is not None
            and not self._may_post(host_of(origin), host_of(named[0]))
        ):
            return Problem(403, f"A page of {origin[:100]} may not do this.", "Call from a program, or from this host.")
        return None

    def _knows(self, host: str) -> bool:
        return is_loopback(host) or host in self._hosts or (self._has_all_addresses and is_address(host))

    def _may_post(self, origin: str, host: str) -> bool:
        """A page of this machine, or of the very host that is asked: another machine's address is no host of ours."""
        return origin == host or is_loopback(origin) or origin in self._hosts


def _too_long(headers: Headers, limit: int) -> Problem | None:
    length = headers.get("content-length")
    if length is None:
        return None
    if not (length.isascii() and length.isdigit()):
        return Problem(400, "Content-Length is a whole number.")
    return too_large(limit) if len(length) > _LONGEST_LENGTH or int(length) > limit else None


_LONGEST_LENGTH: Final = 18


def too_large(limit: int) -> Problem:
    return Problem(413, f"The body has more than {limit:,} bytes.", "Send less.", headers={"Connection": "close"})


class _LimitedReceive:
    """`receive`, with a limit of bytes and of time."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0
        self._more = True
        self._until = time.monotonic() + BODY_SECONDS

    async def __call__(self) -> Message:
        if not self._more:  # after the body comes only the disconnect, which may take long
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._until - time.monotonic()))
        except TimeoutError:
            raise Problem(408, f"The body has not come within {BODY_SECONDS:g} s.", "Send it again.") from None
        self._more = message.get("more_body", False)
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit:
            raise too_large(self._limit)
        return message
