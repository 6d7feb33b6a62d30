"""The heat that a running server tells at /heat, read from whatever answers there.

1. The address is asked and no other: a redirect is an answer like any that is not the heat.
2. No more than `MOST_BYTES` are read.
3. What comes out has the form of `engine.heat`; everything else is `NoHeat`, which says what was wrong.
"""

from __future__ import annotations

import http.client
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from penstock.errors import PenstockError

MOST_BYTES: Final = 32 * 1024 * 1024
"""A thousand keys and as many partitions of a hundred tables have less."""
_HASH: Final = re.compile("[0-9a-f]{1,16}")
_COUNTS: Final = ("reads", "writes", "throttled")


class NoHeat(PenstockError):
    """Nothing that tells its heat answers at the address. `status` is HTTP's, where there was an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def read_heat(url: str, timeout_seconds: float) -> dict[str, Any]:
    """What the server at this http:// or https:// URL has counted. Raises NoHeat."""
    from urllib.error import HTTPError  # brings ssl along, which most commands do not need
    from urllib.request import Request

    try:
        request = Request(f"{url.rstrip('/')}/heat", headers={"Accept": "application/json"})  # noqa: S310 - http(s) only
        with _opener().open(request, timeout=timeout_seconds) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        error.close()
        raise NoHeat(f"{url} does not tell its heat (HTTP {error.code}).", error.code) from None
    except OSError as error:  # URLError is one
        raise NoHeat(f"{url}: {error}. Check that the server runs there.") from error
    except (http.client.HTTPException, ValueError) as error:  # half an answer, no HTTP, a URL that cannot be
        reason = f"{type(error).__name__}: {error}"[:200]
        raise NoHeat(f"{url}: {reason}. Check that a Penstock server runs there.") from error
    if len(body) > MOST_BYTES:
        raise NoHeat(f"{url} is not a Penstock server: its answer has more than {MOST_BYTES:,} bytes. Check the URL.")
    return _parse_heat(url, body)


def _opener() -> Any:
    from urllib.request import HTTPRedirectHandler, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None  # the answer is then an HTTPError

    return build_opener(Stay)


def _parse_heat(url: str, body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise NoHeat(f"{url} is not a Penstock server: its answer is not JSON. Check the URL.") from None
    if not isinstance(found, dict) or not _all(found.get("resources"), _is_resource):
        raise NoHeat(f"{url} is not a Penstock server of this version: its answer is not its heat. Check the URL.")
    return found


def _all(listed: Any, holds: Any) -> bool:
    return isinstance(listed, list) and all(isinstance(one, dict) and holds(one) for one in listed)


def _is_resource(one: Mapping[str, Any]) -> bool:
    reasons = one.get("reasons", {})
    return (
        isinstance(one.get("table"), str)
        and isinstance(one.get("index"), str | None)
        and all(_is_count(one.get(name)) for name in _COUNTS)
        and isinstance(reasons, dict)
        and all(map(_is_count, reasons.values()))
        and _all(one.get("keys"), lambda key: isinstance(key.get("key"), str) and _is_used(key))
        and _all(one.get("partitions"), lambda part: _is_hash(part.get("low"), part.get("high")) and _is_used(part))
    )


def _is_used(one: Mapping[str, Any]) -> bool:
    return all(_is_count(one.get(name)) for name in (*_COUNTS, "over"))


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _is_hash(*texts: Any) -> bool:
    return all(isinstance(text, str) and _HASH.fullmatch(text) for text in texts)
