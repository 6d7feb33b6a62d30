"""All of a job as one HTML file that needs nothing else: no script, no style sheet, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from penstock.clock import span, utc_text
from penstock.jobs.model.job import Checkpoint, Entry, Event, History
from penstock.jobs.model.json_text import to_json

_WIDTH, _HEIGHT = 720, 160
_STYLE = """
:root { color-scheme: light dark; --line: #2b6cb0; --rule: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--rule); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre, code { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; border: 1px solid var(--rule); }
@media (prefers-color-scheme: dark) { :root { --line: #63b3ed; } }
"""


def html(
    history: History, args: Any, result: Any, sentence: str, *, written_at: float, notes: Sequence[str] = ()
) -> str:
    """The page, as of then. Everything that comes from the job is escaped; `notes` tell what is missing."""
    job = history.job
    facts = [
        ("state", job.state.value),
        ("why", sentence),
        ("progress", f"{job.progress:g} %  {job.step}"),
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tenant", job.tenant),
        ("attempts", f"{job.attempt} ({job.failures} failed, {job.crashes} lost with their worker)"),
        ("made", utc_text(job.created_at)),
        ("began", "" if job.started_at is None else utc_text(job.started_at)),
        ("ended", "" if job.ended_at is None else utc_text(job.ended_at)),
        ("took", "" if job.started_at is None or job.ended_at is None else span(job.ended_at - job.started_at)),
        ("kept until", utc_text(job.expires_at)),
        ("written", utc_text(written_at)),
        ("not read", " ".join(notes)),
    ]
    parts = [
        _table("", [(name, value) for name, value in facts if value]),
        _section("Progress", _curve(history.entries)),
        _section("Arguments", _pre(args)),
        _section("Result", _pre(result) if job.result is not None else ""),
        _section("Error", _error(history)),
        _section("Files", _rows(_FILES, [_file(one.name, one.saved.form()) for one in history.files])),
        _section("Checkpoints", _rows(_POINTS, [_point(point) for point in history.checkpoints])),
        _section("Events", _rows(_EVENTS, [_event(event) for event in history.events])),
        _section("Log", _rows(_LOG, [_entry(entry) for entry in history.entries])),
    ]
    title = f"{escape(job.id)}: {escape(job.task)}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = f"<h1>{title}</h1>{''.join(parts)}"
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>\n'


_FILES = ("file", "bytes", "sha256")
_POINTS = ("checkpoint", "version", "at", "summary")
_EVENTS = ("#", "at", "event", "attempt", "worker", "detail")
_LOG = ("#", "at", "%", "step", "message", "data")


def _curve(entries: tuple[Entry, ...]) -> str:
    """Progress over time, as steps."""
    points = [(entry.at, entry.progress) for entry in entries if entry.progress is not None]
    if len(points) < 2:
        return ""
    start, end = points[0][0], points[-1][0]
    across = max(end - start, 0.001)
    places = [f"{(at - start) / across * _WIDTH:.1f},{_HEIGHT - percent / 100 * _HEIGHT:.1f}" for at, percent in points]
    line = f'<polyline points="{" ".join(places)}" fill="none" stroke="var(--line)" stroke-width="2"/>'
    label = f"Progress from {points[0][1]:g} to {points[-1][1]:g} percent in {span(end - start)}"
    return f'<svg viewBox="0 -4 {_WIDTH} {_HEIGHT + 8}" role="img" aria-label="{label}">{line}</svg><p>{label}.</p>'


def _error(history: History) -> str:
    error = history.job.error
    return "" if error is None else f"<pre>{escape(error.trace or f'{error.kind}: {error.message}')}</pre>"


def _point(point: Checkpoint) -> tuple[Any, ...]:
    return point.name, point.version, utc_text(point.at), point.summary


def _event(event: Event) -> tuple[Any, ...]:
    return event.number, utc_text(event.at), event.label, event.attempt, event.owner, event.detail


def _entry(entry: Entry) -> tuple[Any, ...]:
    percent = "" if entry.progress is None else f"{entry.progress:g}"
    return entry.number, utc_text(entry.at), percent, entry.step, entry.message, entry.data or ""


def _file(name: str, form: dict[str, Any]) -> tuple[Any, ...]:
    return name, f"{form['size']:,}", form["sha256"]


def _section(title: str, content: str) -> str:
    return f"<h2>{title}</h2>{content}" if content else ""


def _rows(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return ""
    top = "".join(_head(name, value) for name, value in zip(head, rows[0], strict=True))
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _head(name: str, below: Any) -> str:
    return f'<th class="n">{escape(name)}</th>' if isinstance(below, int) else f"<th>{escape(name)}</th>"


def _cell(value: Any) -> str:
    return f'<td class="n">{value}</td>' if isinstance(value, int) else f"<td>{escape(str(value))}</td>"


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"{title}<table>{body}</table>"


def _pre(value: Any) -> str:
    return f"<pre>{escape(to_json(value, 'value'))}</pre>"
