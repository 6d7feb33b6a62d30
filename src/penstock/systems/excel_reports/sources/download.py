"""One GET of what a source's URL gives, with limits of size and time.

1. http and https only. A redirect may lead to the same host only: the data of a host does not choose other hosts.
2. Nothing of a URL but its scheme, host and path is in an error: queries often hold secrets.
3. The token is sent to the source's own host, over https or to this machine only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.systems.excel_reports.sources.errors import (
    BadData,
    SourceError,
    SourceMissing,
    SourceRefused,
    SourceUnreachable,
)
from penstock.systems.excel_reports.sources.source import TOKEN_VARIABLE, shown_url

WAIT_SECONDS: Final = 20.0
"""For the connection, and between two blocks."""
TOTAL_SECONDS: Final = 300.0
"""For all of it: a host that sends a byte now and then is not waited for."""
_BLOCK: Final = 64 * 1024
_MOST_REDIRECTS: Final = 5
_AGAIN: Final = frozenset({408, 425, 429})
_THIS_MACHINE: Final = frozenset({"localhost", "127.0.0.1", "::1"})

Download = Callable[[str, int], bytes]


def download(url: str, limit_bytes: int, *, token: str = "", total_seconds: float = TOTAL_SECONDS) -> bytes:
    """The body. Raises SourceError: SourceUnreachable for what may pass."""
    import http.client  # only sources on the web need all of this
    import ssl
    import urllib.error

    shown = shown_url(url)
    end = time.monotonic() + total_seconds
    try:
        with _opener().open(_request(url, token), timeout=WAIT_SECONDS) as answer:
            return _body(answer, shown, limit_bytes, end)
    except urllib.error.HTTPError as error:
        error.close()
        raise _status_error(shown, error.code) from None
    except TimeoutError as error:
        raise SourceUnreachable(f"{shown} did not answer in time.") from error
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise SourceRefused(f"{shown}: its certificate is not valid ({reason.verify_message}).") from error
        if isinstance(reason, TimeoutError):
            raise SourceUnreachable(f"{shown} did not answer in time.") from error
        raise SourceUnreachable(f"{shown} could not be reached: {type(reason).__name__}.") from error


def source_token() -> str:
    return os.environ.get(TOKEN_VARIABLE, "")


def same_host(one: str, other: str) -> bool:
    first, second = urlsplit(one), urlsplit(other)
    return (first.hostname, first.port or first.scheme) == (second.hostname, second.port or second.scheme)


def _request(url: str, token: str) -> Any:
    from urllib.request import Request

    headers = {"Accept": "application/json, image/*, */*;q=0.5", "User-Agent": "penstock-excel"}
    if token:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _THIS_MACHINE:
            raise SourceRefused(f"{shown_url(url)}: {TOKEN_VARIABLE} is sent over https only (3).")
        headers["Authorization"] = f"Bearer {token}"
    return Request(url, headers=headers)  # noqa: S310 - its scheme was checked, and the opener has no other


def _opener() -> Any:
    """Without the handlers of file:, ftp: and data: that urllib's own has."""
    from urllib import request

    class Redirects(request.HTTPRedirectHandler):
        max_redirections = _MOST_REDIRECTS

        def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
            there, here = urlsplit(newurl), urlsplit(req.full_url)
            upgraded = (here.scheme, there.scheme) == ("http", "https") and there.hostname == here.hostname
            if there.scheme not in ("http", "https") or not (same_host(req.full_url, newurl) or upgraded):
                raise SourceRefused(
                    f"{shown_url(req.full_url)} leads to another host, {there.hostname}: use that URL (1)."
                )
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _body(answer: Any, shown: str, limit_bytes: int, end: float) -> bytes:
    blocks, size = [], 0
    while block := answer.read1(_BLOCK):
        blocks.append(block)
        size += len(block)
        if size > limit_bytes:
            raise BadData(f"{shown} gives more than {limit_bytes / 1024**2:g} MB, which is the limit.")
        if time.monotonic() > end:
            raise TimeoutError
    expected = answer.headers.get("Content-Length", "")
    if expected.isdecimal() and size < int(expected):
        raise SourceUnreachable(f"{shown} ended after {size:,} of {int(expected):,} bytes.")
    return b"".join(blocks)


def _status_error(shown: str, status: int) -> SourceError:
    if status in (404, 410):
        return SourceMissing(f"{shown}: there is no such page (it answered {status}).")
    if status in (401, 403, 407):
        return SourceRefused(f"{shown} answered {status}: set {TOKEN_VARIABLE} to a token that may read it.")
    if status in _AGAIN or status >= 500:
        return SourceUnreachable(f"{shown} answered {status}.")
    return BadData(f"{shown} answered {status}, not with data.")
