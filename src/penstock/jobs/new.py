"""What is to be enqueued, and the rules that it is checked by."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.job import DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY, Job, new_id
from penstock.jobs.state import State

MOST_DEPENDENCIES: Final = 1_000
"""A job waits for at most so many others: their ids are in its main record."""
_NAME_CHARACTERS: Final = 200
_KEY_CHARACTERS: Final = 1_000
_FULL: Final = 100.0


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
    key: str | None = None
    """The idempotency key: a second job with it is the first one."""
    unique: str | None = None
    limit_key: str | None = None
    limit: int = 1
    after: tuple[str, ...] = ()
    id: str | None = None


def first_version(new: NewJob, now: float, expires_at: int) -> Job:
    """The job as it is when it is made; its arguments come later."""
    run_at = now if new.run_at is None else new.run_at
    return Job(
        id=new.id or (new_id(now) if new.key is None else _id_of_key(new)),
        task=new.task,
        state=State.QUEUED,
        created_at=now,
        updated_at=now,
        run_at=run_at,
        expires_at=expires_at,
        queue=new.queue,
        tenant=new.tenant,
        priority=new.priority,
        retries=new.retries,
        after=new.after,
        waiting_for=frozenset(new.after),
        unregistered=bool(new.after),
        unique=new.unique,
        limit_key=new.limit_key,
        limit=new.limit if new.limit_key is not None else 0,
    )


def _id_of_key(new: NewJob) -> str:
    digest = hashlib.sha256(f"{new.tenant}\n{new.task}\n{new.key}".encode()).hexdigest()
    return f"job_{digest[:24]}"


def checked_progress(value: float) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= _FULL:
        raise BadJob(f"progress is a number from 0 to 100, not {value!r}.")
    return float(value)


def checked_name(name: str, what: str) -> str:
    """A name that may be part of a key and of a path."""
    if not isinstance(name, str) or not name or len(name) > _NAME_CHARACTERS:
        raise BadJob(f"The name of a {what} has 1 to {_NAME_CHARACTERS} characters, not {name!r}.")
    if name in (".", "..") or any(letter in "/\\#" or ord(letter) < ord(" ") for letter in name):
        raise BadJob(f"The name of a {what} may not have /, \\, # or control characters: {name!r}.")
    return name


def check_new(new: NewJob) -> None:
    checked_name(new.task, "task")
    checked_name(new.queue, "queue")
    if new.tenant:
        checked_name(new.tenant, "tenant")
    if new.id is not None:
        checked_name(new.id, "job")
    if isinstance(new.priority, bool) or not LOWEST_PRIORITY <= new.priority <= HIGHEST_PRIORITY:
        raise BadJob(f"priority is {LOWEST_PRIORITY} to {HIGHEST_PRIORITY} (first), not {new.priority}.")
    if new.retries < 0:
        raise BadJob(f"retries is 0 or more, not {new.retries}.")
    if new.limit_key is not None and new.limit < 1:
        raise BadJob(f"limit is at least 1, not {new.limit}.")
    if len(new.after) > MOST_DEPENDENCIES:
        raise BadJob(f"A job waits for at most {MOST_DEPENDENCIES} others, not {len(new.after)}: fan in by steps.")
    for what, key in (("key", new.key), ("unique", new.unique), ("limit_key", new.limit_key)):
        if key is not None and not 1 <= len(key) <= _KEY_CHARACTERS:
            raise BadJob(f"{what} has 1 to {_KEY_CHARACTERS:,} characters, not {len(key):,}.")
    if new.run_at is not None and not math.isfinite(new.run_at):
        raise BadJob(f"run_at is a time, not {new.run_at}.")
