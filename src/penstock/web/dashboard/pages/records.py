"""`/records`: runs of `penstock records process`, live; the failed records of a table by error; and redriving them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.client.items.values import Item
from penstock.records.failed_records import OTHERS, FailureGroup
from penstock.records.processor import RecordProcessor
from penstock.records.record_state import BOOKKEEPING, NotOurs
from penstock.records.run_records import runs
from penstock.web.dashboard.pages.tables import read_table
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

_MOST_RUNS: Final = 500
_SHOWN_RUNS: Final = 50
_SILENT_SECONDS: Final = 30.0
"""A run writes once a second. After this long without a write it counts as dead."""
_MOST_RECORDS: Final = 200_000
"""A page reads the whole table; larger tables are for the command line."""
_MOST_REDRIVEN: Final = 10_000
_SHOWN_GROUPS: Final = 100


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run, as its item describes it."""

    id: str
    table: str
    state: str
    """`running`, `completed`, `failed`, `interrupted`, or `silent`: running, but it stopped writing."""
    function: str
    host: str
    pid: int
    done: int
    failed: int
    total: int | None
    running: int
    rate: float
    retried: int
    started_at: float
    updated_at: float
    ended_at: float | None
    kinds: tuple[tuple[str, int], ...]

    @property
    def percent(self) -> float | None:
        if self.state == "completed":
            return 100.0
        return None if not self.total else min(100.0, 100 * (self.done + self.failed) / self.total)

    @property
    def seconds(self) -> float:
        return max(0.0, (self.ended_at or self.updated_at) - self.started_at)

    @property
    def left_seconds(self) -> float | None:
        """How long it still takes at its rate; None if unknown."""
        if self.state != "running" or self.total is None or self.rate <= 0:
            return None
        return max(0, self.total - self.done - self.failed) / self.rate

    @property
    def badge(self) -> str:
        return {"running": "processing", "completed": "completed", "interrupted": "cancelled"}.get(self.state, "failed")


def run_line(item: Item, now: float) -> RunLine:
    """Pure. A value that is missing, or that no run writes, counts as nothing."""
    state, updated = str(item.get("state", "")), _number(item, "updated_at")
    if state == "running" and now - updated > _SILENT_SECONDS:
        state = "silent"
    kinds = item.get("failures_by_kind")
    counted = [(str(kind), int(count)) for kind, count in kinds.items()] if isinstance(kinds, Mapping) else []
    return RunLine(
        id=str(item.get("run_id", "")),
        table=str(item.get("table", "")),
        state=state,
        function=str(item.get("function", "")),
        host=str(item.get("host", "")),
        pid=int(_number(item, "pid")),
        done=int(_number(item, "processed")),
        failed=int(_number(item, "failed")),
        total=int(_number(item, "total")) if "total" in item else None,
        running=int(_number(item, "running")),
        rate=_number(item, "rate"),
        retried=int(_number(item, "retried")),
        started_at=_number(item, "started_at"),
        updated_at=updated,
        ended_at=_number(item, "ended_at") if "ended_at" in item else None,
        kinds=tuple(sorted(counted, key=lambda pair: (-pair[1], pair[0]))),
    )


def _number(item: Item, name: str) -> float:
    try:
        return float(item.get(name, 0))
    except (TypeError, ValueError):
        return 0.0


def _runs(site: Site) -> dict[str, Any]:
    now = site.clock.now()
    lines = [run_line(item, now) for item in islice(runs(site.source.db), _MOST_RUNS)]
    lines.sort(key=lambda run: (-run.started_at, run.id))
    return {"runs": lines[:_SHOWN_RUNS], "more": len(lines) > _SHOWN_RUNS}


def feeds(site: Site) -> dict[str, Feed]:
    return {"records": PageFeed("records", lambda: site.live_fragment("records_live.html", **_runs(site)))}


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Selection:
    """Which failed records a form selects; None matches any."""

    table: str
    bookkeeping: str
    kind: str | None = None
    message: str | None = None

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Selection:
        return cls(
            fields.get("table", ""),
            fields.get("bookkeeping", "") or BOOKKEEPING,
            fields.get("kind") or None,
            fields.get("message") or None,
        )

    def matches(self, group: FailureGroup) -> bool:
        return self.kind in (None, group.kind) and self.message in (None, group.message)


def _processor(site: Site, selection: Selection) -> RecordProcessor:
    """Raises Problem for a table that does not exist, or is too large for a page."""
    if not selection.table:
        raise Problem(400, "Whose failures?", "Choose a run's table at /records.")
    view = read_table(site.source.db, selection.table, ttl=False)
    if view.facts.items > _MOST_RECORDS:
        raise Problem(
            400,
            f"{selection.table} has {view.facts.items:,} items: too many to be read for a page.",
            f"Use `penstock records failures {selection.table}` and `penstock records redrive {selection.table}`.",
        )
    return RecordProcessor(site.source.db.table(selection.table), bookkeeping=selection.bookkeeping)


def _groups(site: Site, selection: Selection) -> list[FailureGroup]:
    with _refusing_foreign_records(selection):
        return [group for group in _processor(site, selection).failures() if selection.matches(group)]


@contextmanager
def _refusing_foreign_records(selection: Selection) -> Iterator[None]:
    try:
        yield
    except NotOurs:
        raise Problem(
            400,
            f"{selection.table} has records whose {selection.bookkeeping[:100]} was written by something else.",
            "See them among the table's items; records are processed with another attribute by --bookkeeping.",
        ) from None


def routes(site: Site) -> list[Route]:
    def listing(request: Request) -> Response:
        return site.page(request, "records.html", live="records", **_runs(site))

    def failures(request: Request) -> Response:
        selection = Selection.of(dict(request.query_params))
        groups = _groups(site, selection)
        count = sum(group.count for group in groups)
        return site.page(
            request, "record_failures.html", selection=selection, groups=groups[:_SHOWN_GROUPS], count=count,
            kinds=len(groups), others=OTHERS,
        )  # fmt: skip

    async def preview(request: Request) -> Response:
        selection = await _posted_selection(site, request)
        groups = await run_in_threadpool(_groups, site, selection)
        count = sum(group.count for group in groups)
        return site.page(
            request,
            "redrive.html",
            selection=selection,
            groups=groups[:_SHOWN_GROUPS],
            count=count,
            most=_MOST_REDRIVEN,
        )

    async def redrive(request: Request) -> Response:
        selection = await _posted_selection(site, request)
        count = await run_in_threadpool(_redrive, site, selection)
        return site.page(request, "redriven.html", selection=selection, count=count, is_all=count < _MOST_REDRIVEN)

    return [
        Route("/records", listing),
        Route("/records/failures", failures),
        Route("/records/preview", preview, methods=["POST"]),
        Route("/records/redrive", redrive, methods=["POST"]),
    ]


async def _posted_selection(site: Site, request: Request) -> Selection:
    fields = await site.access.read_form(request)
    return Selection.of({name: values[0] for name, values in fields.items()})


def _redrive(site: Site, selection: Selection) -> int:
    with _refusing_foreign_records(selection):
        return _processor(site, selection).redrive(kind=selection.kind, message=selection.message, limit=_MOST_REDRIVEN)
