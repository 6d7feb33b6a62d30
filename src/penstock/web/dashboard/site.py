"""What every page uses: the data source, the templates and their filters, the form token, downloads.

Everything in a template is escaped unless this package made it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import IO, Any, Final
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from penstock import __version__
from penstock.client.wrappers.metering import Usage
from penstock.clock import Clock, SystemClock, span, utc_text
from penstock.jobs.model.derived_state import DerivedState
from penstock.web.dashboard.ended_jobs import EndedJobs
from penstock.web.dashboard.job_counts import OverviewCache
from penstock.web.dashboard.job_list import jobs_address
from penstock.web.dashboard.security import HEADERS, AccessControl
from penstock.web.dashboard.source import Source
from penstock.web.problems import Problem


@dataclass(frozen=True, slots=True)
class Link:
    """A line of the navigation."""

    path: str
    label: str


NAVIGATION: Final = (
    Link("/", "Overview"),
    Link("/jobs", "Jobs"),
    Link("/failures", "Failures"),
    Link("/queues", "Queues"),
    Link("/schedules", "Schedules"),
    Link("/pipelines", "Pipelines"),
    Link("/records", "Records"),
    Link("/tables", "Tables"),
    Link("/workers", "Workers"),
    Link("/activity", "Activity"),
)


PALETTE: Final = (
    *((link.path, link.label) for link in NAVIGATION),
    *((f"/jobs?q=status%3A{state.value}", f"Jobs: {state.value}") for state in DerivedState),
    ("/schedules/new", "New schedule"),
    ("/partiql", "PartiQL"),
)
"""Where the palette leads."""

_HIDDEN: Final = {"place": "", "version": "", "visitor": "", "navigation": ()}
"""What the login page does not show."""


class Site:
    """Each page's module gets it when it makes its routes."""

    def __init__(self, source: Source, access: AccessControl, clock: Clock | None = None) -> None:
        self.source = source
        self.access = access
        self.clock = clock or SystemClock()
        self.overview = OverviewCache(source)
        self.ended = EndedJobs()
        self._environment = make_environment(lambda at: ago(at, self.clock.now()))
        self._live_environment = make_environment(ago)
        for environment in (self._environment, self._live_environment):
            environment.globals.update(navigation=NAVIGATION, palette=PALETTE, version=__version__, place=source.place)
            environment.globals.update(read_only=access.read_only, jobs_table=source.table)

    def page(self, request: Request, template: str, status: int = 200, **context: Any) -> Response:
        """A whole page, with the token that its forms need.

        A template has a `title` block. `context` may name the live feed of the page (`live`).
        """
        session = self.access.session(request)
        html = self.fragment(
            template,
            path=request.url.path,
            csrf=self.access.form_token(session),
            **{"live": None, "refresh_seconds": None, **context},
            **({"visitor": self._visitor(request)} if self.access.is_signed_in(request.scope) else _HIDDEN),
        )
        response = HTMLResponse(html, status)
        self.access.remember(response, session)
        return response

    def refusal(self, problem: Problem) -> Response:
        """A page for a request that was refused before anything was read."""
        facts = {"message": problem.message, "next_step": problem.next_step}
        nothing = {"path": "", "csrf": "", "live": None, "refresh_seconds": None}
        return HTMLResponse(self.fragment("problem.html", **facts, **nothing, **_HIDDEN), problem.status, HEADERS)

    def _visitor(self, request: Request) -> str:
        return self.access.visitor(request) if self.access.wants_token else ""

    def fragment(self, template: str, **context: Any) -> str:
        """A part of a page."""
        return self._environment.get_template(template).render(**context)

    def live_fragment(self, template: str, **context: Any) -> str:
        """The same part as the poller sends it to open pages: it changes only if the data does.

        Times in it are absolute; the script writes how long ago they were.
        """
        return self._live_environment.get_template(template).render(**context)

    @property
    def spent(self) -> Usage:
        """What this dashboard's own reads have cost."""
        return self.source.meter.units()


# ── templates ────────────────────────────────────────────────────────────────────────────────────

MINUTE: Final = 60
_SHOWN_CHARACTERS: Final = 20_000


def make_environment(show_time: Callable[[float | None], Markup]) -> Environment:
    """Autoescape is on for every template, whatever its name."""
    environment = Environment(
        loader=PackageLoader("penstock.web.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ago=show_time,
        span=took,
        count=count,
        rate=rate,
        size=size,
        pretty=pretty,
        utc=utc_text,
        segment=lambda text: quote(str(text), safe=""),
        axis=axis_time,
        query=lambda pairs: urlencode(pairs),
        words=lambda text: str(text).replace("_", " "),
        linked=linked,
        sentence=sentence,
    )
    environment.globals.update(asset=asset, jobs_address=jobs_address)
    return environment


@lru_cache
def asset(name: str) -> str:
    """The URL of a static file. It changes with the content, so that browsers may cache it."""
    content = (files("penstock.web.dashboard") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


def ago(at: float | None, now: float | None = None) -> Markup:
    """A time relative to now, too coarse to change each second; the script refines it. Without `now`, the time."""
    if at is None:
        return Markup("<span class=none>–</span>")
    text = utc_text(at)
    shown = text if now is None else coarse(now - at)
    return Markup('<time datetime="{0}" title="{0}" data-ago>{1}</time>').format(text, shown)


def axis_time(at: float, seconds: float) -> Markup:
    """A time below a chart of that length: the hour, or the day. The script writes it in the visitor's own zone."""
    text = utc_text(at)
    shown = text[5:10] if seconds > 2 * 86_400 else text[11:16]
    how = "day" if seconds > 2 * 86_400 else "minute"
    return Markup('<time datetime="{0}" title="{0}" data-axis="{1}">{2}</time>').format(text, how, shown)


def coarse(seconds: float) -> str:
    """`just now`, `5 m ago`, `in 2 h`."""
    distance = abs(seconds)
    if distance < MINUTE:
        return "just now" if seconds >= 0 else "in a moment"
    for length, unit in ((86_400, "d"), (3_600, "h"), (MINUTE, "m")):
        if distance >= length:
            rounded = f"{int(distance // length)} {unit}"
            return f"{rounded} ago" if seconds >= 0 else f"in {rounded}"
    raise AssertionError("the last unit is a minute")


_JOB_ID: Final = re.compile(r"\bjob_[0-9a-z]{6,40}(?:_[0-9a-z]{1,20})?\b")


def linked(text: str, here: str = "") -> Markup:
    """A text in which the ids of jobs are links to their pages, other than that of the page it is on."""

    def link(found: re.Match[str]) -> str:
        return found[0] if found[0] == here else f'<a class="in-text" href="/jobs/{found[0]}">{found[0]}</a>'

    return Markup(_JOB_ID.sub(link, str(escape(text))))  # noqa: S704


def sentence(text: str, here: str = "") -> Markup:
    """One of our own sentences: what is between backticks is a command, ids of jobs are links."""
    parts = [linked(part, here) for part in text.split("`")]
    parts[1::2] = [Markup('<code class="command">{}</code>').format(part) for part in text.split("`")[1::2]]
    return Markup("").join(parts)


def took(seconds: float) -> str:
    """`12 ms`, `4.2 s`, `2m 5s`."""
    return f"{max(seconds, 0.0) * 1000:.0f} ms" if seconds < 0.95 else span(seconds)


def count(number: float) -> str:
    return f"{number:,.0f}"


def rate(number: float) -> str:
    """`0.4`, `12.5`, `3,079`: a figure behind the point where it says something; `< 0.1` is not 0."""
    if 0 < number < 0.05:
        return "< 0.1"
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def size(number: int) -> str:
    """`12 bytes`, `3.4 KB`, `1.2 MB`."""
    if number < 1024:
        return f"{number:,} byte{'' if number == 1 else 's'}"
    amount = float(number)
    for unit in ("KB", "MB", "GB"):
        amount /= 1024
        if amount < 1024 or unit == "GB":
            break
    return f"{amount:.1f} {unit}"


def pretty(value: Any, most: int = _SHOWN_CHARACTERS) -> str:
    """Indented JSON, cut after so many characters."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        text = orjson.dumps(value, option=options, default=str).decode()
    except TypeError:  # integers past 64 bits
        text = json.dumps(value, indent=2, default=str)
    if len(text) > most:
        return f"{text[:most]}\n… {len(text):,} characters in all"
    return text


# ── downloads ────────────────────────────────────────────────────────────────────────────────────

_BLOCK_BYTES: Final = 256 * 1024
_LONGEST_NAME: Final = 150


def download(stream: IO[bytes], name: str, size: int) -> Response:
    """A file to save, in blocks. The browser never shows it."""
    headers = {"Content-Disposition": disposition(name), "Content-Length": str(size)}
    return StreamingResponse(_blocks(stream), 200, headers, "application/octet-stream")


def disposition(name: str) -> str:
    """A header that makes the browser save: the last part of the name, without what a header cannot hold."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip(". ") or "file"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", last)[:_LONGEST_NAME]
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last[:_LONGEST_NAME], safe='')}"


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block
