"""`/records`: runs of `penstock records process`, live; what failed in a table, by its error; and trying that again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.client.tables.values import Item
from penstock.records.processor import RecordProcessor
from penstock.records.run.run_records import runs
from penstock.records.state.failed_records import OTHERS, FailureGroup
from penstock.records.state.record_state import BOOKKEEPING, NotOurs
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed, Message, fragment
from penstock.web.dashboard.table_facts import look
from penstock.web.problems import Problem

_MOST_RUNS: Final = 500
_SHOWN_RUNS: Final = 50
_SILENT_SECONDS: Final = 30.0
"""A run writes once a second: after this long without, it is no longer taken to be alive."""
_MOST_RECORDS: Final = 200_000
"""Of a table that is read whole for a page; larger ones are for the command line."""
_MOST_REDRIVEN: Final = 10_000
_SHOWN_GROUPS: Final = 100


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as its item tells of it."""

    id: str
    table: str
    state: str
    """`running`, `completed`, `failed`, `interrupted`, or `silent`: it said it runs, and says nothing any more."""
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
        """How long it still takes at its rate; None where nobody can say."""
        if self.state != "running" or self.total is None or self.rate <= 0:
            return None
        return max(0, self.total - self.done - self.failed) / self.rate

    @property
    def badge(self) -> str:
        return {"running": "processing", "completed": "completed", "interrupted": "cancelled"}.get(self.state, "failed")


def run_line(item: Item, now: float) -> RunLine:
    """Pure. What an item lacks, or has in a form that no run writes, is taken to be nothing."""
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


def _runs(desk: Desk) -> dict[str, Any]:
    now = desk.clock.now()
    found = [run_line(item, now) for item in islice(runs(desk.source.db), _MOST_RUNS)]
    found.sort(key=lambda run: (-run.started_at, run.id))
    return {"runs": found[:_SHOWN_RUNS], "more": len(found) > _SHOWN_RUNS}


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"records": _RecordsFeed(desk)}


class _RecordsFeed:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        drawn = fragment("records", self._desk.fragment("records_live.html", **_runs(self._desk)))
        return {key: [drawn] for key in keys}

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which parked records a form is about; None is any."""

    table: str
    bookkeeping: str
    kind: str | None = None
    message: str | None = None

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Wanted:
        return cls(
            fields.get("table", ""),
            fields.get("bookkeeping", "") or BOOKKEEPING,
            fields.get("kind") or None,
            fields.get("message") or None,
        )

    def has(self, group: FailureGroup) -> bool:
        return self.kind in (None, group.kind) and self.message in (None, group.message)


def _processor(desk: Desk, wanted: Wanted) -> RecordProcessor:
    """Raises Problem for a table that is not there, or that is too large to be read for a page."""
    if not wanted.table:
        raise Problem(400, "Whose failures?", "Choose a run's table at /records.")
    view = look(desk.source.db, wanted.table, ttl=False)
    if view.facts.items > _MOST_RECORDS:
        raise Problem(
            400,
            f"{wanted.table} has {view.facts.items:,} items: too many to be read for a page.",
            f"Use `penstock records failures {wanted.table}` and `penstock records redrive {wanted.table}`.",
        )
    return RecordProcessor(desk.source.db.table(wanted.table), bookkeeping=wanted.bookkeeping)


def _groups(desk: Desk, wanted: Wanted) -> list[FailureGroup]:
    with _ours(wanted):
        return [group for group in _processor(desk, wanted).failures() if wanted.has(group)]


@contextmanager
def _ours(wanted: Wanted) -> Iterator[None]:
    try:
        yield
    except NotOurs:
        raise Problem(
            400,
            f"{wanted.table} has records whose {wanted.bookkeeping[:100]} was written by something else.",
            "See them among the table's items; records are processed with another attribute by --bookkeeping.",
        ) from None


def routes(desk: Desk) -> list[Route]:
    def listing(request: Request) -> Response:
        return desk.page(request, "records.html", live="records", **_runs(desk))

    def failures(request: Request) -> Response:
        wanted = Wanted.of(dict(request.query_params))
        groups = _groups(desk, wanted)
        count = sum(group.count for group in groups)
        return desk.page(
            request, "record_failures.html", wanted=wanted, groups=groups[:_SHOWN_GROUPS], count=count,
            kinds=len(groups), others=OTHERS,
        )  # fmt: skip

    async def preview(request: Request) -> Response:
        wanted = await _posted(desk, request)
        groups = await run_in_threadpool(_groups, desk, wanted)
        count = sum(group.count for group in groups)
        return desk.page(
            request, "redrive.html", wanted=wanted, groups=groups[:_SHOWN_GROUPS], count=count, most=_MOST_REDRIVEN
        )

    async def redrive(request: Request) -> Response:
        wanted = await _posted(desk, request)
        count = await run_in_threadpool(_redriven, desk, wanted)
        return desk.page(request, "redriven.html", wanted=wanted, count=count, is_all=count < _MOST_REDRIVEN)

    return [
        Route("/records", listing),
        Route("/records/failures", failures),
        Route("/records/preview", preview, methods=["POST"]),
        Route("/records/redrive", redrive, methods=["POST"]),
    ]


async def _posted(desk: Desk, request: Request) -> Wanted:
    fields = await desk.keeper.form_of(request)
    return Wanted.of({name: values[0] for name, values in fields.items()})


def _redriven(desk: Desk, wanted: Wanted) -> int:
    with _ours(wanted):
        return _processor(desk, wanted).redrive(kind=wanted.kind, message=wanted.message, limit=_MOST_REDRIVEN)
