"""A job and its records, as values; and what is to be enqueued, with the rules that it is checked by."""

from __future__ import annotations

import math
import os
import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args
from zlib import crc32

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.other_words import OF_JOBS, with_other_words
from penstock.jobs.model.state import TERMINAL, State, event_label
from penstock.leases import Lease
from penstock.retry import MOST_RETRIES

if TYPE_CHECKING:
    from penstock.files.content import SavedFile

LOWEST_PRIORITY: Final = 0
DEFAULT_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 9

DependsOnPolicy = Literal["all_completed", "all_ended", "any_completed"]
"""When a job may begin that depends on others."""
ALL_COMPLETED: Final = "all_completed"
ALL_ENDED: Final = "all_ended"
ANY_COMPLETED: Final = "any_completed"

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIR: Final = [first + second for first in _DIGITS for second in _DIGITS]
_PAIRS: Final = len(_PAIR)
_LARGEST_SUFFIX: Final = _PAIRS**3
_STEP_BITS: Final = 13
_SUFFIX_STEP: Final = 2**_STEP_BITS


class JobNotFound(PenstockError):
    """There is no such job: it never was, or it has expired."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}: it never was, or it has expired.")
        self.job_id = job_id


class JobCancelled(PenstockError):
    """Somebody cancelled the job while it ran. Raised where the task reports next."""

    def __init__(self, job_id: str, reason: str = "") -> None:
        super().__init__(f"{job_id} was cancelled{': ' + reason if reason else ''}.")
        self.job_id = job_id
        self.reason = reason


class JobRequeued(PenstockError):
    """The job goes back to the queue, and another worker continues it at its last checkpoint."""

    def __init__(self, reason: str = "", asked_by: Literal["task", "worker", "soft limit"] = "task") -> None:
        super().__init__(reason)
        self.asked_by = asked_by


class RetryIn(PenstockError):
    """A task raises it: the attempt has failed, and the next one begins after so long. It uses up one of the retries.

    `raise penstock.RetryIn(60, "the shop is closed") from error`
    """

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise BadJob(f"RetryIn takes a timedelta or a number of seconds, 0 or more, not {delay!r}.")
        super().__init__(reason or f"the task asked for another attempt in {seconds:g} s")
        self.seconds = float(seconds)


@dataclass(frozen=True, slots=True)
class Payload:
    """Arguments, a result, or a checkpoint's data: JSON, in the item itself or, when it is long, somewhere else."""

    text: str | None = field(default=None, repr=False)  # it may be secret
    record: str | None = None
    """The record of the same job that holds the text."""
    file: SavedFile | None = None
    """The file that holds it."""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt failed: the exception's type, its text and where it was raised."""

    kind: str
    message: str
    trace: str = ""


class Event(NamedTuple):
    """A change of state, or a wish for one. Its number is the version of the job that it led to."""

    number: int
    type: str
    at: float
    attempt: int = 0
    owner: str = ""
    detail: str = ""

    @property
    def label(self) -> str:
        """Its type as it is shown."""
        return event_label(self.type)


@dataclass(frozen=True, slots=True)
class Wait:
    """What a job was suspended at (workflow.py)."""

    key: str
    until: float | None = None
    event: str = ""
    """The name of the event that it waits for."""
    children: int = 0
    """How many of its children it waits for."""
    about: str = ""
    """Of a sleep: what it was called with. It is over by the clock alone, and its record need not be read."""
    beside: tuple[str, ...] = ()
    """Operations of an async task that were under way beside the wait: the next attempt may begin them again."""

    @property
    def text(self) -> str:
        """What it waits for, in words."""
        until = "" if self.until is None else f" until {utc_text(self.until)}"
        if self.children:
            return f"waits for {self.children:,} of its children"
        return f"waits for the event {self.event!r}{until}" if self.event else f"sleeps{until}"


LIMIT_POOL: Final = "limit"
"""A job waits there for a slot of its concurrency key."""
TASK_POOL: Final = "task"
"""A job waits there for a worker that has its task."""
RATE_POOL: Final = "rate"
"""A job waits there for a slot of its rate key."""


@with_other_words(OF_JOBS)
@dataclass(frozen=True)  # without slots: a changed copy is then one copy of a dict (transitions.copy_with)
class Job:
    """A job as it was when it was read. `store.get(job.id)` reads it again."""

    id: str
    task: str
    state: State
    created_at: float
    updated_at: float
    run_at: float
    expires_at: int
    queue: str = "default"
    tenant: str = ""
    args: Payload = Payload("{}")
    priority: int = DEFAULT_PRIORITY
    retries: int = 0
    version: int = 1
    """Of the job's main record: every write of it is conditional on the one it was made from."""
    attempt: int = 0
    """How often a worker has begun it."""
    failures: int = 0
    crashes: int = 0
    """Workers that died while it ran alone, since its last checkpoint. They are no failures of the task's."""
    suspect: bool = False
    """A worker died while it ran, perhaps of another job beside it: it runs alone until it has shown that it can."""
    requeues: int = 0
    """How often its task has asked to be requeued since it last kept a checkpoint."""
    token: int = 0
    lease: Lease | None = None
    progress: float = 0.0
    step: str = ""
    entries: int = 0
    """The number of its newest progress entry."""
    result: Payload | None = None
    error: JobError | None = None
    cancel_reason: str | None = None
    """Somebody asked to cancel it, and why; "" where no reason was given."""
    cancelled_by: str | None = None
    """The job that did not complete, and that this one depends on, if that is why it was cancelled."""
    waiting_for: frozenset[str] = frozenset()
    depends_on: tuple[str, ...] = ()
    """The jobs that it depends on; those that it still waits for are also in `waiting_for`.

    Both are empty where it depends on many: `store.depends_on(job)` and `store.waiting_for(job)` read their ids from
    records of their own, so that the main record stays short and is not written for each of them.
    """
    depends_on_policy: DependsOnPolicy = ALL_COMPLETED
    dependency_count: int = 0
    """How many it depends on, where their ids are in records of their own."""
    waiting_parts: int = 0
    """In how many records those are that it waits for; 0 where it waits for none of them any more."""
    unregistered: bool = False
    """Not all jobs that it depends on know yet that it waits for them."""
    has_children: bool = False
    """Other jobs may wait for this one, or it has a parent: they are notified when it has ended."""
    children_told: bool = False
    """It did not complete, and those that waited for it know. A retry revives them."""
    reviving: bool = False
    """It is queued again, and not all of those that it had cancelled are yet."""
    turn: float | None = None
    """Its place among the ready jobs of its priority, where that is not its `run_at` (store/turns.py)."""
    pool: str = ""
    """Where it waits while nobody could start it, instead of among the ready jobs: LIMIT_POOL, TASK_POOL, RATE_POOL."""
    wait: Wait | None = None
    """What it was last suspended at."""
    parked: bool = False
    """It waits for an event, for as long as that takes."""
    sent: int = 0
    """How many events have been sent to it."""
    unread: int = 0
    """How many of them it has not taken."""
    parent_id: str | None = None
    """The job whose task has made this one with `ctx.enqueue`. It is notified when this one has ended."""
    child_count: int = 0
    """How many jobs its task has made so; `store.workflows.children(job.id)` reads their ids."""
    cancel_children: bool = False
    """Whether its children are to be cancelled too."""
    task_version: int = 1
    """The version of the task when the job first started."""
    unique_key: str | None = None
    concurrency_key: str | None = None
    max_concurrent: int = 0
    rate_key: str | None = None
    rate: str = ""
    """How often jobs with its rate key may start (model/rate.py)."""
    rate_at: float | None = None
    """The slot of its rate key that it has been given for its next attempt."""
    schedule: str = ""
    """The schedule that has made it."""
    tags: tuple[str, ...] = ()
    """Words that it is found by."""
    traceparent: str = ""
    """The span that it was enqueued in, as W3C Trace Context writes it; "" where nobody traces."""
    webhook: str | None = field(default=None, repr=False)
    """The URL that is called when it has ended; it may hold a secret."""
    forked_from: str = ""
    """The job whose checkpoints it began with."""
    pulled_from: str = ""
    """The database that it is a copy from: workers leave a copy alone, and `penstock jobs debug` runs it."""
    masked: tuple[str, ...] = ()
    """The arguments that were left out of the copy, by name; those inside others with dots."""
    started_at: float | None = None
    ended_at: float | None = None
    events: tuple[Event, ...] = ()
    """The newest of what happened to it; older ones are in records of their own."""
    secret: tuple[str, ...] = ()
    """Paths to what is not shown of its arguments and its result (secret_fields.py)."""
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Attributes of the item that Penstock does not know: they are kept as they are."""
    is_new: bool = field(default=False, repr=False, compare=False)
    """Whether the call that returned it has made it; False of one that was there already, and of one that was read."""

    @property
    def is_terminal(self) -> bool:
        """Whether it has completed, failed or been cancelled."""
        return self.state in TERMINAL

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for other jobs."""
        return bool(self.waiting_for) or self.waiting_parts > 0

    @property
    def needs_settling(self) -> bool:
        """Whether it stands in the claim index for another reason than to be run."""
        return self.unregistered or self.reviving or self.state in TERMINAL


class JobFailed(PenstockError):
    """The job that was waited for has failed or was cancelled; `job` says why."""

    def __init__(self, job: Job) -> None:
        reason = job.cancel_reason if job.error is None else f"{job.error.kind}: {job.error.message}"
        super().__init__(f"{job.id} is {job.state}{': ' + reason if reason else ''}")
        self.job = job


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a job's numbered log: progress, or words."""

    number: int
    at: float
    progress: float | None = None
    step: str = ""
    message: str = ""
    data: str | None = None
    """JSON."""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    name: str
    version: int
    at: float
    data: Payload
    summary: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that belongs to the job, as the task calls it and as it was saved."""

    name: str
    saved: SavedFile


@dataclass(frozen=True, slots=True)
class History:
    """All of a job's records, each kind in order."""

    job: Job
    entries: tuple[Entry, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    events: tuple[Event, ...] = ()
    files: tuple[JobFile, ...] = ()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first; `token` is where the next page begins, None after the last one."""

    jobs: tuple[Job, ...]
    token: str | None


def new_id(now: float) -> str:
    """`job_{milliseconds in base 36}_{6 random digits}`: they sort by age, within a process always."""
    return _IDS.next(int(now * 1000))


class _Ids:
    """Random numbers that grow within a millisecond: jobs that are made one after the other are claimed so."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Anew, in a forked child too: it must not go on where its parent does."""
        self._lock = threading.Lock()
        self._at = -1
        self._start = ""
        self._last = 0
        self._steps = random.Random(os.urandom(8))  # no id is a secret, and the system is asked once

    def next(self, at: int) -> str:
        with self._lock:
            if at == self._at and self._last < _LARGEST_SUFFIX - _SUFFIX_STEP:
                self._last += 1 + self._steps.getrandbits(_STEP_BITS)
            else:
                self._at, self._start = at, f"job_{_base36(at)}_"
                self._last = int(self._steps.random() * (_LARGEST_SUFFIX // 2))
            high, low = divmod(self._last, _PAIRS)
            return f"{self._start}{_PAIR[high // _PAIRS]}{_PAIR[high % _PAIRS]}{_PAIR[low]}"


_IDS: Final = _Ids()
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_IDS.begin)


def _base36(number: int) -> str:
    text = ""
    while number:
        number, pair = divmod(number, _PAIRS)
        text = _PAIR[pair] + text
    return text.lstrip("0") or "0"


MOST_DEPENDENCIES: Final = 10_000
"""A job waits for at most so many others: their ids are written with it, in one transaction of at most 100 items."""
INLINE_DEPENDENCIES: Final = 16
"""The ids of so many are in the main record. It is written once for each of them; for more, it is not."""
_PART_IDS: Final = 128
_DEPENDENCY_BYTES: Final = 1_500_000
"""Of all ids together, which are written twice: a transaction holds 4 MB."""
MOST_TAGS: Final = 5
"""Of a job: each is a record that is written with it, and a transaction has at most 100 items."""
MOST_SLOTS: Final = 10_000
"""Of a limit: the ids of those that run are in one item."""
RESERVED: Final = frozenset({"tenants", "workers", "schedules", "settings"})
"""Items beside the jobs that have the same key as a job with such an id would."""
_NAME_BYTES: Final = 200
INTERNAL_PREFIX: Final = "penstock."
"""How the names of Penstock's own tasks begin."""
_NOT_IN_NAMES: Final = frozenset("/\\#" + "".join(map(chr, range(32))))
_KEYS: Final = ("idempotency_key", "unique_key", "concurrency_key", "rate_key")
_KEY_BYTES: Final = 1_000
_FULL: Final = 100.0
LATEST: Final = 32_503_680_000.0
"""The year 3000: a run_at after it is in milliseconds, or a mistake."""
LONGEST_DELAY_SECONDS: Final = 100 * 366 * 86_400.0
"""A hundred years: a longer delay is in milliseconds, or a mistake."""


class BadJob(PenstockError, ValueError):
    """A job, or a report of one, that cannot be stored: the message says what to change."""


class KeyTaken(BadJob):
    """Another job has the idempotency key, or holds the unique key."""


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
    rate_key: str | None = None
    rate: str = ""
    schedule: str = ""
    depends_on: tuple[str, ...] = ()
    depends_on_policy: DependsOnPolicy = ALL_COMPLETED
    id: str | None = None
    parent_id: str | None = None
    secret: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    traceparent: str = ""
    webhook: str | None = None
    """Where its end is told (jobs/webhooks.py)."""
    forked_from: str = ""
    """The job whose checkpoints it begins with."""


def another_like(job: Job, args: dict[str, Any]) -> NewJob:
    """One of the same task and options. Keys that make two jobs one, and what it waits for, are not among them."""
    return NewJob(
        job.task,
        args,
        queue=job.queue,
        tenant=job.tenant,
        priority=job.priority,
        retries=job.retries,
        concurrency_key=job.concurrency_key,
        max_concurrent=job.max_concurrent or 1,
        rate_key=job.rate_key,
        rate=job.rate,
        secret=job.secret,
        tags=job.tags,
        webhook=job.webhook,
    )


def first_version(new: NewJob, now: float, keep_seconds: float) -> Job:
    """The job as it is when it is made; its arguments come later. It is kept for so long after it is due."""
    run_at = now if new.run_at is None else new.run_at
    if new.delay_seconds is not None:
        run_at = now + new.delay_seconds
    fields: dict[str, Any] = {
        **_DEFAULTS,
        "id": new.id or (new_id(now) if new.idempotency_key is None else _id_of_key(new)),
        "task": new.task,
        "state": State.QUEUED,
        "created_at": now,
        "updated_at": now,
        "run_at": run_at,
        "expires_at": int(max(now, run_at) + keep_seconds),
        "queue": new.queue,
        "tenant": new.tenant,
        "priority": new.priority,
        "retries": new.retries,
        "unique_key": new.unique_key,
        "concurrency_key": new.concurrency_key,
        "max_concurrent": new.max_concurrent if new.concurrency_key is not None else 0,
        "rate_key": new.rate_key,
        "rate": new.rate if new.rate_key is not None else "",
        "schedule": new.schedule,
        "secret": new.secret,
        "tags": new.tags,
        "traceparent": new.traceparent,
        "webhook": new.webhook,
        "forked_from": new.forked_from,
        "others": {},
        "is_new": True,
    }
    if new.depends_on:
        fields |= {
            "depends_on": new.depends_on,
            "waiting_for": frozenset(new.depends_on),
            "depends_on_policy": new.depends_on_policy,
            "unregistered": True,
        }
    if new.parent_id is not None:
        fields |= {"parent_id": new.parent_id, "has_children": True}
    return job_of_fields(fields)


def is_made_by(new: NewJob, planned: Job, found: Job) -> bool:
    """Whether a job is the one that was planned, whose id is random: two writes have no id in common by chance."""
    is_random = new.idempotency_key is None and new.id is None
    return is_random and (found.created_at, found.task) == (round(planned.created_at, 3), planned.task)


def job_of_fields(fields: dict[str, Any]) -> Job:
    """A job of all of its fields, in a tenth of the time of `Job(**fields)`."""
    job = object.__new__(Job)
    object.__setattr__(job, "__dict__", fields)
    return job


_DEFAULTS: Final = {one.name: one.default for one in dataclass_fields(Job)}
"""Every field of a job, with its default where it has one."""


def waiting_parts(dependencies: int) -> int:
    """How many records hold the ids of those that a job waits for."""
    return -(-dependencies // _PART_IDS)


def waiting_part(job_id: str, parts: int) -> int:
    """The number of the record that holds this one."""
    return crc32(job_id.encode()) % parts


def _id_of_key(new: NewJob) -> str:
    from hashlib import sha256

    digest = sha256(f"{new.tenant}\n{new.task}\n{new.idempotency_key}".encode()).hexdigest()
    return f"job_{digest[:24]}"


def checked_progress(value: float) -> float:
    # A comparison also refuses NaN, the infinities, and integers that no float holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _FULL:
        raise BadJob(f"progress is a number from 0 to 100, not {value!r}.")
    return round(float(value), 6)


def checked_name(name: str, what: str) -> str:
    """A name that may be part of a key and of a path."""
    if not isinstance(name, str) or not 1 <= _bytes(name) <= _NAME_BYTES:
        raise BadJob(f"The name of {_with_article(what)} is text of 1 to {_NAME_BYTES} bytes, not {name!r}.")
    if name in (".", "..") or not _NOT_IN_NAMES.isdisjoint(name):
        raise BadJob(
            f"The name of {_with_article(what)} may not have /, \\, # or control characters, nor be . or ..: {name!r}."
        )
    return name


def checked_task_name(name: str) -> str:
    """The name of a task that users have. Only Penstock enqueues its own: a webhook that a user
    enqueues would be signed too."""
    if checked_name(name, "task").startswith(INTERNAL_PREFIX):
        raise BadJob(
            f"{name} is no task of yours: names that begin with {INTERNAL_PREFIX} are of Penstock's own tasks, which "
            "nobody else defines, enqueues or schedules. Take another name."
        )
    return name


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, in their order."""
    if isinstance(tags, str):
        raise BadJob(f"tags is a list of words, such as [{tags[:100]!r}], not one text.")
    found = tuple(dict.fromkeys(checked_name(tag, "tag") for tag in tags))
    if len(found) > MOST_TAGS:
        raise BadJob(f"A job has at most {MOST_TAGS} tags, not {len(found)}: each is one more record of it.")
    return found


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
    if new.webhook is not None:
        from penstock.webhooks import parse_target

        parse_target(new.webhook)
    if new.depends_on or new.depends_on_policy != ALL_COMPLETED:
        _check_depends_on(new)
    if (
        new.idempotency_key is not None
        or new.unique_key is not None
        or new.concurrency_key is not None
        or new.rate_key is not None
    ):
        _check_keys(new)
    if new.tags:
        checked_tags(new.tags)
    run_at = new.run_at
    if run_at is not None and (not isinstance(run_at, int | float) or not 0 <= run_at <= LATEST):
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
    if count > INLINE_DEPENDENCIES and sum(map(_bytes, new.depends_on)) > _DEPENDENCY_BYTES:
        raise BadJob(f"The ids in depends_on have more than {_DEPENDENCY_BYTES:,} bytes together: fan in by steps.")
    if new.depends_on_policy not in get_args(DependsOnPolicy):
        policies = ", ".join(map(repr, get_args(DependsOnPolicy)))
        raise BadJob(f"depends_on_policy is one of {policies}, not {new.depends_on_policy!r:.100}.")


def _check_keys(new: NewJob) -> None:
    for what in _KEYS:
        key = getattr(new, what)
        if key is not None and (not isinstance(key, str) or not 1 <= _bytes(key) <= _KEY_BYTES):
            raise BadJob(f"{what} is text of 1 to {_KEY_BYTES:,} bytes, not {str(key)[:100]!r}.")
    if new.rate_key is not None and not new.rate:
        raise BadJob(
            f"{new.task}: rate_key says which jobs share a rate, and the task has none: @app.task(rate='10/s')."
        )


def _bytes(text: str) -> int:
    """How long it is in UTF-8; 0 for text that cannot be written."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:  # half a surrogate pair
        return 0
