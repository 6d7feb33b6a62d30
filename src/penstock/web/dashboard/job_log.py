"""A job's log, however long: a page of it is read, not all of it.

1. A job's other records are read by their kinds; of its log only the newest `CHART_LINES` lines, which charts need.
2. A page has `PAGE_LINES` lines and costs a read of as many.
3. A search reads at most `MOST_SEARCHED` lines a request, then says where it stopped.
4. What a task has logged is gathered in one entry (jobs/log_capture.py); a page has a row for each of its records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.client.reads.pages import read_pages
from penstock.clock import utc_text
from penstock.jobs.model.job import Entry, History, Job
from penstock.jobs.store.store import JobStore

PAGE_LINES: Final = 200
CHART_LINES: Final = 1_000
MOST_ROWS: Final = 1_000
"""Of a page: an entry may have a hundred of them (4)."""
MOST_SEARCHED: Final = 20_000
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_OTHER_NAMES: Final = {"WARN": "WARNING", "FATAL": "CRITICAL"}
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
class LogRow:
    """A row of a page: an entry, or one of the records that were gathered in it (4)."""

    number: int
    """That of its entry."""
    is_first: bool
    """Of the rows of its entry."""
    at: str
    message: str
    level: str = ""
    """A name of LEVELS, or one of the task's own; "" where it is not known."""
    logger: str = ""
    progress: float | None = None
    step: str = ""
    data: str | None = None

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.level, self.logger, self.step, self.message, self.data) if part)


def rows_of(entry: Entry) -> list[LogRow]:
    data = _parse(entry.data)
    records = data.get("log") if set(data) == {"log"} else None
    if not (records and isinstance(records, list) and all(_is_record(one) for one in records)):
        level, message = _level_of(entry.message, data)
        at = utc_text(entry.at)
        shown = entry.data
        if _level_of("", data)[0]:  # it stands before the message
            rest = {name: value for name, value in data.items() if name != "level"}
            shown = json.dumps(rest, ensure_ascii=False, separators=(",", ":")) if rest else None
        return [LogRow(entry.number, True, at, message, level, "", entry.progress, entry.step, shown)]
    first = LogRow(entry.number, True, "", "", "", "", entry.progress, entry.step)
    rows = [
        replace(first, at=one["at"], level=one["level"], logger=one["logger"], message=one["message"])
        for one in records
    ]  # fmt: skip
    return [rows[0], *(replace(row, is_first=False, progress=None, step="") for row in rows[1:])]


def _parse(data: str | None) -> dict[str, Any]:
    """The data of an entry as far as it is an object that may say a level."""
    if data is None or not ('"log"' in data or '"level"' in data):
        return {}
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_record(one: object) -> bool:
    return isinstance(one, dict) and all(
        isinstance(one.get(name), str) for name in ("at", "level", "logger", "message")
    )


def _level_of(message: str, data: dict[str, Any]) -> tuple[str, str]:
    """The level that the data says, or that the message begins with, and the message without it; "" for none."""
    said, (word, _, rest) = data.get("level"), message.partition(" ")
    level, word = said.upper() if isinstance(said, str) else "", word.removesuffix(":")
    level, word = (_OTHER_NAMES.get(name, name) for name in (level, word))
    if level not in LEVELS:
        level = word if word in LEVELS else ""
    return level, rest if level and word == level else message


@dataclass(frozen=True, slots=True)
class LogPage:
    rows: tuple[LogRow, ...]
    is_newest: bool
    earlier: int | None
    """The last line of the page before; None on the first."""
    searched_to: int | None = None
    """Of a search that did not reach the end: the last line that it looked at."""


def read_page(store: JobStore, job: Job, upto: int | None) -> LogPage:
    """The newest lines, or those up to a number."""
    last = job.entries if upto is None else min(upto, job.entries)
    lines = store.entries(job.id, after=max(0, last - PAGE_LINES), limit=min(last, PAGE_LINES)) if last > 0 else []
    rows: list[LogRow] = []
    for entry in reversed(lines):
        some = rows_of(entry)
        if rows and len(rows) + len(some) > MOST_ROWS:
            break
        rows[:0] = some
    first = rows[0].number if rows else 0
    return LogPage(tuple(rows), last >= job.entries, first - 1 if first > 1 else None)


def search_log(store: JobStore, job: Job, words: str, level: str, after: int) -> LogPage:
    """The rows after a line that have the words, and are of this level or a higher one."""
    levels = LEVELS[LEVELS.index(level) :] if level in LEVELS else ()
    wanted = words.lower()
    found: list[LogRow] = []
    at = after
    while at < min(job.entries, after + MOST_SEARCHED) and len(found) < PAGE_LINES:
        some = store.entries(job.id, after=at, limit=CHART_LINES)
        if not some:
            break
        for entry in some:
            at = entry.number
            rows = [row for row in rows_of(entry) if not levels or row.level in levels]
            rows = [row for row in rows if wanted in row.text.lower()]
            found += [replace(row, is_first=True) for row in rows[:1]] + rows[1:]
            if len(found) >= PAGE_LINES:
                break
    return LogPage(tuple(found), False, None, at if at < job.entries else None)


def log_text(store: JobStore, job: Job) -> Iterator[str]:
    """The whole log as text, read as it is sent."""
    at = 0
    while some := store.entries(job.id, after=at, limit=CHART_LINES):
        for row in (row for entry in some for row in rows_of(entry)):
            progress = "" if row.progress is None else f" {row.progress:.0f}%"
            words = "".join(f" {word}" for word in (row.level, row.logger) if word)
            step = f" [{row.step}]" if row.step else ""
            message = row.message.replace("\n", "\n    ")
            data = f" {row.data}" if row.data else ""
            yield f"{row.number} {row.at}{progress}{words}{step} {message}{data}\n"
        at = some[-1].number
