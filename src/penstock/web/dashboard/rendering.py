"""Templates, and how times, numbers and JSON are written in them. Everything is escaped unless it is ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.clock import utc_text
from penstock.jobs.explain import span

MINUTE: Final = 60
_SHOWN_CHARACTERS: Final = 20_000


def make_environment(now: Callable[[], float]) -> Environment:
    """Autoescape is on for every template, whatever its name."""
    found = Environment(
        loader=PackageLoader("penstock.web.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        ago=lambda at: ago(at, now()),
        span=span,
        count=count,
        size=size,
        pretty=pretty,
        utc=utc_text,
        segment=lambda text: quote(str(text), safe=""),
        query=lambda pairs: urlencode(pairs),
        words=lambda text: str(text).replace("_", " "),
    )
    found.globals["asset"] = asset
    return found


@lru_cache
def asset(name: str) -> str:
    """The address of a static file: it changes with its content, so that browsers may keep it."""
    content = (files("penstock.web.dashboard") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def ago(at: float | None, now: float) -> Markup:
    """A time as its distance from now, coarse enough not to change with each second; the script makes it finer."""
    if at is None:
        return Markup("<span class=none>–</span>")
    return Markup('<time datetime="{0}" title="{0}" data-ago>{1}</time>').format(utc_text(at), coarse(now - at))


def coarse(seconds: float) -> str:
    """`just now`, `5 m ago`, `in 2 h`."""
    distance = abs(seconds)
    if distance < MINUTE:
        return "just now" if seconds >= 0 else "in a moment"
    for length, unit in ((86_400, "d"), (3_600, "h"), (MINUTE, "m")):
        if distance >= length:
            told = f"{int(distance // length)} {unit}"
            return f"{told} ago" if seconds >= 0 else f"in {told}"
    raise AssertionError("a minute is the last of them")


def count(number: float) -> str:
    return f"{number:,.0f}"


def size(number: int) -> str:
    """`12 bytes`, `3.4 KB`, `1.2 MB`."""
    if number < 1024:
        return f"{number} bytes"
    amount = float(number)
    for unit in ("KB", "MB", "GB"):
        amount /= 1024
        if amount < 1024 or unit == "GB":
            break
    return f"{amount:.1f} {unit}"


def pretty(value: Any) -> str:
    """JSON to read, cut where it is longer than anybody would."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        text = orjson.dumps(value, option=options, default=str).decode()
    except TypeError:  # integers past 64 bits
        text = json.dumps(value, indent=2, default=str)
    if len(text) > _SHOWN_CHARACTERS:
        return f"{text[:_SHOWN_CHARACTERS]}\n… {len(text):,} characters in all"
    return text
