"""A job's log, however long: a page of it is read, not all of it.

1. A job's other records are read by their kinds; of its log only the newest `CHART_LINES` lines, which charts need.
2. A page has `PAGE_LINES` lines and costs a read of as many.
3. A search reads at most `MOST_SEARCHED` lines a request, then says where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from penstock.client.reads.pages import read_pages
from penstock.clock import utc_text
from penstock.jobs.model.job import Entry, History, Job
from penstock.jobs.store.store import JobStore

PAGE_LINES: Final = 200
CHART_LINES: Final = 1_000
MOST_SEARCHED: Final = 20_000
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_KINDS: Final = ("main", "checkpoint#", "event#", "file#")


def read_history(store: JobStore, job_id: str) -> History:
    """All of a job but the older lines of a long log. Raises JobNotFound."""
    job = store.get(job_id)
    if job.entries <= CHART_LINES:
        return store.history(job_id)
    calls = [store.layout.records(job_id, kind) for kind in _KINDS]
    items = [
        item for call in calls for answer in read_pages(store.db.execute, call.operation, call.request)
        for item in answer["Items"]
    ]  # fmt: skip
    found = store.layout.history(items)
    if found is None:
        return store.history(job_id)
    return replace(found, entries=tuple(store.entries(job_id, after=found.job.entries - CHART_LINES)))


@dataclass(frozen=True, slots=True)
class LogPage:
    lines: tuple[Entry, ...]
    is_newest: bool
    earlier: int | None
    """The last line of the page before; None on the first."""
    searched_to: int | None = None
    """Of a search that did not reach the end: the last line that it looked at."""


def read_page(store: JobStore, job: Job, upto: int | None) -> LogPage:
    """The newest lines, or those up to a number."""
    last = job.entries if upto is None else min(upto, job.entries)
    lines = store.entries(job.id, after=max(0, last - PAGE_LINES), limit=min(last, PAGE_LINES)) if last > 0 else []
    first = lines[0].number if lines else 0
    return LogPage(tuple(lines), last >= job.entries, first - 1 if first > 1 else None)


def search_log(store: JobStore, job: Job, words: str, level: str, after: int) -> LogPage:
    """The lines after a number that have the words, and are of this level or a higher one."""
    levels = LEVELS[LEVELS.index(level) :] if level in LEVELS else ()
    wanted = words.lower()
    found: list[Entry] = []
    at = after
    while at < min(job.entries, after + MOST_SEARCHED) and len(found) < PAGE_LINES:
        some = store.entries(job.id, after=at, limit=CHART_LINES)
        if not some:
            break
        for entry in some:
            at = entry.number
            text = f"{entry.step} {entry.message} {entry.data or ''}"
            if wanted in text.lower() and (not levels or _has_level(entry, levels)):
                found.append(entry)
                if len(found) == PAGE_LINES:
                    break
    return LogPage(tuple(found), False, None, at if at < job.entries else None)


def _has_level(entry: Entry, levels: tuple[str, ...]) -> bool:
    """Captured log records begin with their level, and have it in their data (jobs/log_capture.py)."""
    data = (entry.data or "").replace(" ", "")
    return entry.message.startswith(levels) or any(f'"level":"{level}"' in data for level in levels)


def log_text(store: JobStore, job: Job) -> Iterator[str]:
    """The whole log as text, a line each, read as it is sent."""
    at = 0
    while some := store.entries(job.id, after=at, limit=CHART_LINES):
        for entry in some:
            progress = "" if entry.progress is None else f" {entry.progress:.0f}%"
            step = f" [{entry.step}]" if entry.step else ""
            message = entry.message.replace("\n", "\n    ")
            data = f" {entry.data}" if entry.data else ""
            yield f"{entry.number} {utc_text(entry.at)}{progress}{step} {message}{data}\n"
        at = some[-1].number
