"""A report's job and its records, as values and as items: their ids, and the steps that they tell of.

job_{ms}_{6}                                    a job: milliseconds in base 36, six random digits
job_{jobId}_{ms}_{6}                            its main record
{jobId}_seq000_{time}_{4}                       its main record, as others have spelt it
{jobId}_seq000000001_2025-06-16_21_20_15_…      a record of its progress, or of its end

1. The main record's id is made of the job's id alone, so that it is found by its key in either layout.
2. Numbers are padded so that records sort in their order past 999 (others have padded to three digits; as text, their
   1,000 comes before their 999, and a reader goes by `sequenceNumber`).

The environment says which table is meant and how long a job is kept (S0.10): JOBS_TABLE, JOB_TTL_HOURS.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, get_args

from penstock.clock import utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.job import JobNotFound, new_id
from penstock.jobs.model.state import State
from penstock.systems.excel_reports.tables import JOBS

_PADDING: Final = 9
_SUFFIX: Final = 4
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_JOB: Final = re.compile(r"job_([0-9a-z]{1,12})_([0-9a-z]{6})")
# What stands before the last underscore of an id; behind it, both have a suffix.
_MAIN: Final = re.compile(r"job_(?P<job>.+)_[0-9]{1,16}")
_NUMBERED: Final = re.compile(r"(?P<job>.+)_seq(?P<number>[0-9]{3,12})_.")
_ENDING: Final = re.compile(r"[0-9a-z]+")


@dataclass(frozen=True, slots=True)
class RecordId:
    """What a record's id tells."""

    job_id: str
    number: int
    """0 for a main record."""


def new_job_id(now: float) -> str:
    return new_id(now)


def main_record_id(job_id: str) -> str | None:
    """The id that our own main record of this job has; None for an id that is not of our making."""
    found = _JOB.fullmatch(job_id)
    return None if found is None else f"job_{job_id}_{int(found.group(1), 36)}_{found.group(2)}"


def made_at(job_id: str) -> float | None:
    """When a job of our own was made, by its id; None for an id that is not of our making."""
    found = _JOB.fullmatch(job_id)
    return None if found is None else int(found.group(1), 36) / 1000


def log_record_id(job_id: str, number: int, at: float) -> str:
    """A new id of a numbered record; the suffix keeps apart what two writers call by the same number."""
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d_%H_%M_%S")
    suffix = "".join(secrets.choice(_DIGITS) for _ in range(_SUFFIX))
    return f"{job_id}_seq{number:0{_PADDING}d}_{moment}_{suffix}"


def parse_record_id(record_id: str) -> RecordId | None:
    """Whose record it is and its number, in any spelling; None for what is no record's id."""
    before, _, ending = record_id.rpartition("_")
    if "\n" in record_id or _ENDING.fullmatch(ending) is None:
        return None
    numbered = _NUMBERED.match(before)
    if numbered is not None:
        return RecordId(numbered["job"], int(numbered["number"]))
    main = _MAIN.fullmatch(before)
    return None if main is None else RecordId(main["job"], 0)


STEPS: Final = {
    "starting": 10,
    "initializing": 15,
    "fetching-products": 25,
    "fetching-users": 35,
    "generating-excel": 50,
    "downloading-images": 50,
    "uploading": 85,
    "finalizing": 95,
    "completed": 100,
}
"""In their order. Images bring it from 50 to 80, one batch after the other."""

IMAGES_END: Final = 80
FIRST_STEP: Final = "initializing"
"""What a job's main record says before anything has been done."""

_PLACES: Final = {name: place for place, name in enumerate(STEPS, start=1)}


def place_of(step: str, before: int) -> int:
    """The number of a step; one that is not ours leaves it as it was before."""
    return _PLACES.get(step, before)


Status = Literal["pending", "processing", "completed", "failed"]
RecordType = Literal["main_job", "progress_log", "completion_log", "failure_log"]
Category = Literal["file_not_found", "access_denied", "validation", "timeout", "data_format", "unknown"]

TASK: Final = "excel_report"
"""Of the job that makes a report."""

MAIN: Final = "main_job"
PROGRESS: Final = "progress_log"
COMPLETION: Final = "completion_log"
FAILURE: Final = "failure_log"

_STATES: Final[dict[str, State]] = {
    "pending": State.QUEUED,
    "processing": State.PROCESSING,
    "completed": State.COMPLETED,
    "failed": State.FAILED,
}
_STATUSES: Final = {state: status for status, state in _STATES.items()}


class BadReport(PenstockError, ValueError):
    """What was asked for cannot be: `errors` says all that is wrong with it."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class JobExists(BadReport):
    """There is a job of this id already."""


def state_of(status: str) -> State:
    """The state that the table's spelling means. Raises BadReport."""
    if status not in _STATES:
        raise BadReport([f"status is one of {', '.join(_STATES)}, not {status!r}"])
    return _STATES[status]


def status_of(state: State) -> str:
    return _STATUSES[state]


@dataclass(frozen=True, slots=True)
class ReportJob:
    """A job's main record as it was when it was read."""

    record_id: str
    job_id: str
    id_project: str
    status: str
    created_at: float
    updated_at: float
    expires_at: int
    progress: float = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    total_steps: int = len(STEPS)
    current_step: int = 0
    step_name: str = FIRST_STEP
    completed_at: float | None = None
    last_number: int | None = 0
    """Of its numbered records; None in a record that others made, which have no such counter."""
    fence: int = 0
    """The token of the worker that wrote last; older ones are refused."""
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @property
    def state(self) -> State:
        return state_of(self.status)

    @property
    def is_terminal(self) -> bool:
        return self.completed_at is not None or self.status in ("completed", "failed")

    @property
    def metadata(self) -> dict[str, Any]:
        return {"totalSteps": self.total_steps, "currentStep": self.current_step, "stepName": self.step_name}


@dataclass(frozen=True, slots=True)
class Log:
    """A numbered record: progress, completion or failure."""

    record_id: str
    job_id: str
    record_type: str
    number: int
    at: float
    progress: float
    step_name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else its writer had to say."""


@dataclass(frozen=True, slots=True)
class JobWithLogs:
    """Everything of a job, by number."""

    job: ReportJob
    logs: tuple[Log, ...]

    @property
    def progress(self) -> tuple[Log, ...]:
        return tuple(log for log in self.logs if log.record_type == PROGRESS)

    @property
    def completion(self) -> Log | None:
        return next((log for log in reversed(self.logs) if log.record_type == COMPLETION), None)

    @property
    def failure(self) -> Log | None:
        return next((log for log in reversed(self.logs) if log.record_type == FAILURE), None)


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def main_item(job: ReportJob) -> dict[str, Any]:
    """The main record as it is first written."""
    return {
        "recordId": job.record_id,
        "jobId": job.job_id,
        "recordType": MAIN,
        "sequenceNumber": 0,
        "idProject": job.id_project,
        "status": job.status,
        "progress": job.progress,
        "createdAt": utc_text(job.created_at),
        "updatedAt": utc_text(job.updated_at),
        "ttl": job.expires_at,
        "options": dict(job.options),
        "metadata": job.metadata,
        "lastSequence": job.last_number,
    }


def job_of(item: Mapping[str, Any]) -> ReportJob:
    """A main record of ours or of others, who have no counter and may have left things out. Raises BadReport."""
    metadata = item.get("metadata") or {}
    last = item.get("lastSequence")
    created_at = _time(item, "createdAt") or 0.0
    return ReportJob(
        record_id=item["recordId"],
        job_id=item["jobId"],
        id_project=item.get("idProject", ""),
        status=item.get("status", "pending"),
        created_at=created_at,
        updated_at=_time(item, "updatedAt") or created_at,
        expires_at=int(item.get("ttl", _NEVER)),
        progress=_number(item.get("progress", 0)),
        options=plain(item.get("options") or {}),
        total_steps=int(metadata.get("totalSteps", len(STEPS))),
        current_step=int(metadata.get("currentStep", 0)),
        step_name=metadata.get("stepName", ""),
        completed_at=_time(item, "completedAt"),
        last_number=None if last is None else int(last),
        fence=int(item.get("fence", 0)),
        result=plain(item.get("result")),
        error=plain(item.get("error")),
    )


def log_item(log: Log, expires_at: int) -> dict[str, Any]:
    return {
        **log.fields,
        "recordId": log.record_id,
        "jobId": log.job_id,
        "recordType": log.record_type,
        "sequenceNumber": log.number,
        "timestamp": utc_text(log.at),
        "progress": log.progress,
        "stepName": log.step_name,
        "ttl": expires_at,
    }


def log_of(item: Mapping[str, Any]) -> Log:
    return Log(
        record_id=item["recordId"],
        job_id=item["jobId"],
        record_type=item["recordType"],
        number=int(item.get("sequenceNumber", 0)),
        at=_time(item, "timestamp") or 0.0,
        progress=_number(item.get("progress", 0)),
        step_name=item.get("stepName", ""),
        fields=plain({name: value for name, value in item.items() if name not in LOG_NAMES}),
    )


LOG_NAMES: Final = frozenset(
    {"recordId", "jobId", "recordType", "sequenceNumber", "timestamp", "progress", "stepName", "ttl"}
)
_NEVER: Final = 2**53
"""Of a record without a `ttl`: expiry is optional."""


def with_logs(items: list[dict[str, Any]]) -> JobWithLogs | None:
    """A job's records, in any order, put together; None without a main record."""
    mains = [item for item in items if item.get("recordType") == MAIN]
    if not mains:
        return None
    logs = [log_of(item) for item in items if item.get("recordType") in get_args(RecordType)[1:]]
    # Others' numbers come from memory, and may be given twice: then the time decides.
    logs.sort(key=lambda log: (log.number, log.at, log.record_id))
    return JobWithLogs(job_of(mains[0]), tuple(logs))


def plain(value: Any) -> Any:
    """Without Decimals: as JSON has it."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return _number(value) if isinstance(value, Decimal) else value


def _time(item: Mapping[str, Any], name: str) -> float | None:
    text = item.get(name)
    try:
        return None if text is None else utc_seconds(text)
    except (TypeError, ValueError):
        raise BadReport(
            [f"{item['recordId']}: {name} is a time such as 2025-06-16T21:19:33.789Z, not {text!r}"]
        ) from None


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────


def job_form(job: ReportJob) -> dict[str, Any]:
    """As JSON, with the table's own names."""
    form: dict[str, Any] = {
        "jobId": job.job_id,
        "idProject": job.id_project,
        "status": job.status,
        "progress": job.progress,
        "createdAt": utc_text(job.created_at),
        "updatedAt": utc_text(job.updated_at),
        "completedAt": None if job.completed_at is None else utc_text(job.completed_at),
        "options": dict(job.options),
        "metadata": job.metadata,
    }
    if job.result is not None:
        form["result"] = dict(job.result)
    if job.error is not None:
        form["error"] = dict(job.error)
    return form


def log_form(log: Log) -> dict[str, Any]:
    return {
        "sequenceNumber": log.number,
        "recordType": log.record_type,
        "timestamp": utc_text(log.at),
        "progress": log.progress,
        "stepName": log.step_name,
        **log.fields,
    }


def not_found(job_id: str) -> JobNotFound:
    return JobNotFound(job_id[:100])


# ── settings ───────────────────────────────────────────────────────────────────────────────────────

TABLE_VARIABLE: Final = "JOBS_TABLE"
TTL_VARIABLE: Final = "JOB_TTL_HOURS"
DEFAULT_TTL_HOURS: Final = 24.0
_LONGEST_TTL_HOURS: Final = 10 * 365 * 24.0


@dataclass(frozen=True, slots=True)
class Settings:
    table: str = JOBS
    ttl_hours: float = DEFAULT_TTL_HOURS

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises BadReport for a value that cannot be."""
        found = os.environ if environment is None else environment
        hours = found.get(TTL_VARIABLE) or str(DEFAULT_TTL_HOURS)
        try:
            return cls(found.get(TABLE_VARIABLE) or JOBS, checked_hours(float(hours)))
        except ValueError:
            raise BadReport([f"{TTL_VARIABLE} is hours, such as 24, not {hours[:100]!r}"]) from None


def checked_hours(hours: float) -> float:
    """Raises ValueError for what is no time to keep a job for."""
    if not 0 < hours <= _LONGEST_TTL_HOURS:  # also refuses NaN
        raise ValueError(f"a job is kept more than 0 and at most {_LONGEST_TTL_HOURS:,.0f} hours, not {hours}")
    return hours
