"""What a workflow keeps between its attempts, as values: a task that sleeps, waits for events and has children.

1. A durable operation has a key: its kind and its name where it was given one (`sleep=cooling`), else its kind and its
   number within the attempt (`sleep:2`). The next attempt finds what was stored by that key.
2. An attempt that has to wait ends with JobSuspended, which no `except Exception` catches. Its worker stores the wait.
3. Code that was changed meanwhile may not fit what is stored. An operation without a name must have been called with
   the same parameters. And the wait that a job was suspended at comes before everything that is not stored yet: code
   that begins something new, or returns, without having passed it, is other code. Both are WorkflowChanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.model.job import LATEST, BadJob, Job, NewJob, Payload, Wait, checked_name

MOST_UNREAD_EVENTS: Final = 1_000
"""Events that were sent to a job and that it has not taken: a sender that runs wild fills no table."""
EVENT_ID_BYTES: Final = 200


class JobSuspended(BaseException):
    """The task waits, and its worker does not: the job continues when the wait is over. Let it pass.

    It is no Exception, so that `except Exception` does not catch it; `finally` runs.
    """

    def __init__(self, wait: Wait, operation: Operation, ids: tuple[str, ...] = (), sent: int = 0) -> None:
        super().__init__(wait.text)
        self.wait = wait
        self.operation = operation
        """What is stored of the wait."""
        self.ids = ids
        """The jobs that it waits for."""
        self.sent = sent
        """How many events had been sent when it looked for one."""


class WorkflowChanged(PenstockError):
    """The task's code does not fit what this job has done with the code before. No retry helps."""


class SuspensionCaught(PenstockError):
    """The task caught JobSuspended and went on. No retry helps."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(
            f"The task caught JobSuspended, which ends its attempt at {wait.key}, and went on. Let it pass: write "
            "`except Exception` instead of a bare `except`, or raise it again."
        )


@dataclass(frozen=True, slots=True)
class Operation:
    """What is stored of a sleep, a wait for an event or a gather, by its key."""

    key: str
    about: str
    """What it was called with (3)."""
    until: float | None = None
    is_done: bool = False
    data: Payload | None = None
    """What it gave, once it is done; None where it gave nothing, or many results in records of their own."""
    parts: int = 0
    """The number of those."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that a job has not taken yet. Those of one name are taken in the order of their numbers."""

    name: str
    number: int
    at: float
    data: Payload


@dataclass(frozen=True, slots=True)
class Child:
    """A job that `ctx.enqueue` has made: `ctx.gather` waits for it."""

    id: str
    task: str
    read: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)
    """Gives what it has returned, as it is stored, the type that its task's annotation says."""


def operation_key(kind: str, name: str | None, number: int) -> str:
    """The key of an operation (1)."""
    return f"{kind}:{number}" if name is None else f"{kind}={checked_name(name, kind)}"


def check_same(stored: Operation, about: str) -> None:
    """Refuses an operation without a name that was called with something else before (3)."""
    if ":" in stored.key.partition("=")[0] and stored.about != about:
        raise WorkflowChanged(
            f"{stored.key} was {stored.about} when this job came there first, and is {about} now. {_WHAT_TO_DO}"
        )


def check_same_task(key: str, stored: str, task: str) -> None:
    """Refuses a child that was made with another task before."""
    if stored != task:
        raise WorkflowChanged(f"{key} made a child with the task {stored}, and is one with {task} now. {_WHAT_TO_DO}")


def check_passed(pending: Wait | None, what: str) -> None:
    """Refuses what is new while the wait that the job was suspended at has not been passed (3)."""
    if pending is not None and what not in pending.beside:
        raise WorkflowChanged(
            f"This job was suspended at {pending.key} ({pending.text}), and now {what} comes first. {_WHAT_TO_DO}"
        )


_WHAT_TO_DO: Final = (
    "Either the task was changed while the job waited, or something that may differ from one attempt to the next "
    "decides about its way: do that in a ctx.step. Put the old code back, or make the change depend on ctx.version, "
    "and `penstock jobs retry` the job; give operations names to tell them apart."
)


def child_key(new: NewJob, number: int) -> str:
    """The key of a child: its idempotency key, else its number."""
    return f"enqueue:{number}" if new.idempotency_key is None else f"enqueue={new.idempotency_key}"


def child_id(parent: Job, key: str) -> str:
    """The same in each attempt of the parent, and another for a later job of the same id. Numbered ones sort so."""
    kind, _, number = key.partition(":")
    rest = "" if kind == "enqueue" and number else key
    from hashlib import sha256

    digest = sha256(f"{parent.id}\n{parent.created_at}\n{rest}".encode()).hexdigest()
    return f"job_{digest[:20]}" if rest else f"job_{digest[:20]}_{int(number):05d}"


def checked_sleep(duration: timedelta | float, what: str = "A sleep") -> float:
    """In seconds."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        raise BadJob(f"{what} is a timedelta or a number of seconds, 0 or more, not {duration!r}.")
    return float(seconds)


def checked_moment(moment: datetime) -> float:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise BadJob(
            f"ctx.sleep_until takes an aware datetime, such as datetime(2030, 1, 31, 6, tzinfo=UTC), not {moment!r}."
        )
    return moment.timestamp()


def checked_until(until: float) -> float:
    if until > LATEST:
        raise BadJob("A job waits until the year 3000 at the latest.")
    return until


class EventRefused(BadJob):
    """The job has ended, or has very many events that it has not taken: the event was not sent."""


def checked_event_id(event_id: str) -> str:
    if not isinstance(event_id, str) or not 1 <= len(event_id.encode(errors="replace")) <= EVENT_ID_BYTES:
        raise BadJob(f"event_id is text of 1 to {EVENT_ID_BYTES} bytes, not {event_id!r:.100}.")
    return event_id
