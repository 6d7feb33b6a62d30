"""A job and its records, as values."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.errors import PenstockError
from penstock.files.content import SavedFile
from penstock.jobs.model.state import TERMINAL, State, event_label
from penstock.leases import Lease

LOWEST_PRIORITY: Final = 0
DEFAULT_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 9

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


@dataclass(frozen=True, slots=True)
class Payload:
    """Arguments, a result, or a checkpoint's data: JSON, in the item itself or, when it is long, somewhere else."""

    text: str | None = None
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


@dataclass(frozen=True)  # without slots: a changed copy is then one copy of a dict (transitions.altered)
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
    """Workers that died with it. They are no failures of the task's, and are counted apart."""
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
    waiting_for: frozenset[str] = frozenset()
    depends_on: tuple[str, ...] = ()
    """The jobs that must complete first; those that have not yet are also in `waiting_for`."""
    unregistered: bool = False
    """Not all of those have been told yet that it waits for them."""
    has_children: bool = False
    """Jobs may wait for this one: they are told when it has ended."""
    unique_key: str | None = None
    concurrency_key: str | None = None
    max_concurrent: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    events: tuple[Event, ...] = ()
    """The newest of what happened to it; older ones are in records of their own."""
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Attributes of the item that Penstock does not know: they are kept as they are."""

    @property
    def is_terminal(self) -> bool:
        """Whether it has completed, failed or been cancelled."""
        return self.state in TERMINAL


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
        self._lock = threading.Lock()
        self._at = -1
        self._start = ""
        self._last = 0

    def next(self, at: int) -> str:
        with self._lock:
            if at == self._at and self._last < _LARGEST_SUFFIX - _SUFFIX_STEP:
                self._last += 1 + secrets.randbits(_STEP_BITS)
            else:
                self._at, self._start, self._last = at, f"job_{_base36(at)}_", secrets.randbelow(_LARGEST_SUFFIX // 2)
            high, low = divmod(self._last, _PAIRS)
            return f"{self._start}{_PAIR[high // _PAIRS]}{_PAIR[high % _PAIRS]}{_PAIR[low]}"


_IDS: Final = _Ids()


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
