"""What is to be enqueued, and the rules that it is checked by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.model.job import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY, Job, new_id
from penstock.jobs.model.state import State
from penstock.retry import MOST_RETRIES

MOST_DEPENDENCIES: Final = 1_000
"""A job waits for at most so many others: their ids are in its main record."""
MOST_SLOTS: Final = 10_000
"""Of a limit: the ids of those that run are in one item."""
RESERVED: Final = frozenset({"tenants", "workers", "schedules", "settings"})
"""Items beside the jobs that have the same key as a job with such an id would."""
_NAME_BYTES: Final = 200
_NOT_IN_NAMES: Final = frozenset("/\\#" + "".join(map(chr, range(32))))
_KEY_BYTES: Final = 1_000
_FULL: Final = 100.0
_LATEST: Final = 32_503_680_000.0
"""The year 3000: a run_at after it is in milliseconds, or a mistake."""


class BadJob(PenstockError, ValueError):
    """A job, or a report of one, that cannot be stored: the message says what to change."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """What to enqueue."""

    task: str
    args: dict[str, Any]
    queue: str = "default"
    tenant: str = ""
    priority: int = DEFAULT_PRIORITY
    retries: int = 0
    run_at: float | None = None
    """In seconds since 1970."""
    delay_seconds: float | None = None
    """From when it is enqueued; instead of `run_at`."""
    idempotency_key: str | None = None
    """A second job with it is the first one."""
    unique_key: str | None = None
    concurrency_key: str | None = None
    max_concurrent: int = 1
    depends_on: tuple[str, ...] = ()
    id: str | None = None


def first_version(new: NewJob, now: float, keep_seconds: float) -> Job:
    """The job as it is when it is made; its arguments come later. It is kept for so long after it is due."""
    run_at = now if new.run_at is None else new.run_at
    if new.delay_seconds is not None:
        run_at = now + new.delay_seconds
    return Job(
        id=new.id or (new_id(now) if new.idempotency_key is None else _id_of_key(new)),
        task=new.task,
        state=State.QUEUED,
        created_at=now,
        updated_at=now,
        run_at=run_at,
        expires_at=int(max(now, run_at) + keep_seconds),
        queue=new.queue,
        tenant=new.tenant,
        priority=new.priority,
        retries=new.retries,
        depends_on=new.depends_on,
        waiting_for=frozenset(new.depends_on),
        unregistered=bool(new.depends_on),
        unique_key=new.unique_key,
        concurrency_key=new.concurrency_key,
        max_concurrent=new.max_concurrent if new.concurrency_key is not None else 0,
    )


def _id_of_key(new: NewJob) -> str:
    digest = hashlib.sha256(f"{new.tenant}\n{new.task}\n{new.idempotency_key}".encode()).hexdigest()
    return f"job_{digest[:24]}"


def checked_progress(value: float) -> float:
    # A comparison also refuses NaN, the infinities, and integers that no float holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _FULL:
        raise BadJob(f"progress is a number from 0 to 100, not {value!r}.")
    return round(float(value), 6)


def checked_name(name: str, what: str) -> str:
    """A name that may be part of a key and of a path."""
    if not isinstance(name, str) or not 1 <= _bytes(name) <= _NAME_BYTES:
        raise BadJob(f"The name of a {what} is text of 1 to {_NAME_BYTES} bytes, not {name!r}.")
    if name in (".", "..") or not _NOT_IN_NAMES.isdisjoint(name):
        raise BadJob(f"The name of a {what} may not have /, \\, # or control characters, nor be . or ..: {name!r}.")
    return name


def is_id(job_id: object) -> bool:
    """Whether a job could have this id."""
    return isinstance(job_id, str) and 1 <= _bytes(job_id) <= _NAME_BYTES and not ("#" in job_id or job_id in RESERVED)


def check_new(new: NewJob) -> None:
    checked_name(new.task, "task")
    checked_name(new.queue, "queue")
    if new.tenant:
        checked_name(new.tenant, "tenant")
    if new.id is not None and checked_name(new.id, "job") in RESERVED:
        raise BadJob(f"A job may not be called {new.id!r}: something else in its table is.")
    if not isinstance(new.args, dict):
        raise BadJob(f"args is a dict of the task's arguments by name, not {type(new.args).__name__}.")
    _check_whole("priority", new.priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)
    _check_whole("retries", new.retries, 0, MOST_RETRIES)
    if new.concurrency_key is not None:
        _check_whole("max_concurrent", new.max_concurrent, 1, MOST_SLOTS)
    if new.depends_on:
        _check_depends_on(new)
    if new.idempotency_key is not None or new.unique_key is not None or new.concurrency_key is not None:
        _check_keys(new)
    run_at = new.run_at
    if run_at is not None and (not isinstance(run_at, int | float) or not 0 <= run_at <= _LATEST):
        raise BadJob(f"run_at is a time in seconds since 1970, up to the year 3000, not {run_at!r}.")


def _check_whole(what: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise BadJob(f"{what} is a whole number from {low} to {high:,}, not {value!r}.")


def _check_depends_on(new: NewJob) -> None:
    count = len(new.depends_on)
    if isinstance(new.depends_on, str):
        raise BadJob(f"depends_on is a tuple of the ids of other jobs, not the text {new.depends_on!r}.")
    if count > MOST_DEPENDENCIES:
        raise BadJob(f"A job depends on at most {MOST_DEPENDENCIES:,} others, not {count:,}: fan in by steps.")


def _check_keys(new: NewJob) -> None:
    for what in ("idempotency_key", "unique_key", "concurrency_key"):
        key = getattr(new, what)
        if key is not None and (not isinstance(key, str) or not 1 <= _bytes(key) <= _KEY_BYTES):
            raise BadJob(f"{what} is text of 1 to {_KEY_BYTES:,} bytes, not {str(key)[:100]!r}.")


def _bytes(text: str) -> int:
    """How long it is in UTF-8; 0 for text that cannot be written."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # half a surrogate pair
        return 0
