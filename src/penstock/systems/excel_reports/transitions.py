"""What may happen to a report's job, as pure functions: a job as it was read, and what it is afterwards.

1. A change of status goes by the one table of transitions (jobs/model/state.py); the table's own words are mapped here.
2. Progress is 0 to 100 and never goes back; times do not go back either.
3. A job that has ended says when (`completedAt`), and nothing more is reported of it.
4. Each function gives the changed job and the numbered record that tells of it, if there is one.
5. Why a report failed is told in a word that programs can act on (S0.11): by the error's class, never by its text.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from penstock.client.items.values import InvalidValue
from penstock.errors import AccessDeniedException, CredentialsMissing, TimedOut, TransportError, ValidationException
from penstock.files.errors import FileChanged, FileMissing, NotAllowed, StoreMissing, StoreUnreachable
from penstock.jobs.model.job import checked_progress
from penstock.jobs.model.state import BadTransition, State, target
from penstock.stored_text import cut
from penstock.systems.excel_reports.records import (
    COMPLETION,
    FAILURE,
    LOG_NAMES,
    PROGRESS,
    BadReport,
    Category,
    Log,
    ReportJob,
    log_record_id,
    place_of,
    state_of,
    status_of,
)
from penstock.systems.excel_reports.sources.errors import BadData, SourceMissing, SourceRefused, SourceUnreachable

# The first that fits: BadReport is a ValueError too.
_CATEGORIES: Final[tuple[tuple[Category, tuple[type[BaseException], ...]], ...]] = (
    ("file_not_found", (FileNotFoundError, FileMissing, StoreMissing, SourceMissing)),
    ("access_denied", (PermissionError, NotAllowed, AccessDeniedException, CredentialsMissing, SourceRefused)),
    # It did not answer in time, or not at all: the same next step, to try again later.
    ("timeout", (TimeoutError, TimedOut, ConnectionError, TransportError, StoreUnreachable, SourceUnreachable)),
    (
        "data_format",
        (FileChanged, json.JSONDecodeError, orjson.JSONDecodeError, UnicodeError, zipfile.BadZipFile, BadData),
    ),
    ("validation", (BadReport, InvalidValue, ValidationException)),
)


def category_of(error: BaseException) -> Category:
    """The category of an error, or of the first of its causes that has one."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        for category, kinds in _CATEGORIES:
            if isinstance(now, kinds):
                return category
        now = now.__cause__
    return "unknown"


def duration_text(seconds: float) -> str:
    """`45s`, `2m 5s`, `1h 0m 5s`."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours}h {minutes}m {whole % 60}s"
    return f"{minutes}m {whole % 60}s" if minutes else f"{whole}s"


FULL: Final = 100
MESSAGE_CHARACTERS: Final = 4_000
_STEP_CHARACTERS: Final = 200
_EVENTS: Final = {
    (State.QUEUED, State.PROCESSING): "started",
    (State.PROCESSING, State.PROCESSING): "taken_over",
    (State.PROCESSING, State.COMPLETED): "completed",
    (State.PROCESSING, State.FAILED): "failed",
    (State.FAILED, State.QUEUED): "retried",
}


@dataclass(frozen=True, slots=True)
class Changed:
    job: ReportJob
    log: Log | None = None


Change = Callable[[ReportJob, float], Changed]


def moved(job: ReportJob, status: str, now: float) -> Changed:
    """Another status. Raises BadTransition where it may not be reached from this one."""
    wanted = state_of(status)
    event = _EVENTS.get((job.state, wanted))
    if event is None:
        raise BadTransition(job.job_id, _event_to(wanted), job.state)
    after = replace(_later(job, now), status=status_of(target(job.job_id, job.state, event)))
    if wanted is State.COMPLETED:
        after = replace(after, progress=FULL)
    if wanted in (State.COMPLETED, State.FAILED):
        return Changed(replace(after, completed_at=after.updated_at))
    return Changed(replace(after, completed_at=None, error=None))


def _event_to(wanted: State) -> str:
    return {State.QUEUED: "retried", State.PROCESSING: "started", State.COMPLETED: "completed"}.get(wanted, "failed")


def progressed(
    job: ReportJob, now: float, progress: float, step_name: str, fields: Mapping[str, Any], *, on_main: bool
) -> Changed:
    """One more step: a record of its own and, with `on_main`, what the main record says. A pending job has begun."""
    if job.is_terminal:
        raise BadTransition(job.job_id, "started", job.state)
    value, name = checked_progress(progress), _checked_step(step_name)
    _check_fields(fields)
    after = _later(job, now)
    if on_main:
        begun = after if job.state is State.PROCESSING else moved(after, "processing", now).job
        after = replace(
            begun,
            progress=_shortest(max(job.progress, value)),
            step_name=name,
            current_step=max(job.current_step, place_of(name, job.current_step)),
        )
    return _add_log(after, PROGRESS, _shortest(value), name, fields)


def completed(job: ReportJob, now: float, facts: Mapping[str, Any]) -> Changed:
    """It has its file: `facts` are in the main record and in the record of its completion."""
    after = replace(
        moved(job, "completed", now).job, result=facts, step_name="completed", current_step=job.total_steps, error=None
    )
    return _add_log(after, COMPLETION, FULL, "completed", facts)


def failed(job: ReportJob, now: float, category: Category, message: str) -> Changed:
    """It could not be made, before it began or after."""
    begun = moved(job, "processing", now).job if job.state is State.QUEUED else job
    facts = {"category": category, "message": message}
    after = replace(moved(begun, "failed", now).job, error=facts)
    return _add_log(after, FAILURE, after.progress, job.step_name, facts)


def kept_longer(job: ReportJob, expires_at: int) -> ReportJob:
    return replace(job, expires_at=max(job.expires_at, expires_at))


def _add_log(after: ReportJob, record_type: str, progress: float, step_name: str, fields: Mapping[str, Any]) -> Changed:
    number = (after.last_number or 0) + 1
    record_id = log_record_id(after.job_id, number, after.updated_at)
    log = Log(record_id, after.job_id, record_type, number, after.updated_at, progress, step_name, fields)
    return Changed(replace(after, last_number=number), log)


def _later(job: ReportJob, now: float) -> ReportJob:
    return replace(job, updated_at=max(now, job.updated_at))


def _checked_step(step_name: object) -> str:
    if not isinstance(step_name, str) or not step_name:
        raise BadReport([f"stepName is text, not {step_name!r}"])
    return cut(step_name, _STEP_CHARACTERS)


def _check_fields(fields: Mapping[str, Any]) -> None:
    taken = sorted(LOG_NAMES.intersection(fields))
    if taken:
        raise BadReport([f"{name} is a record's own: choose another name" for name in taken])


def _shortest(value: float) -> float:
    return int(value) if value == int(value) else value
