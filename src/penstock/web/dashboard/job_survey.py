"""What there is to know of the jobs that have not completed: derived states, queues, what blocks whom, failures.

No index has a derived state, the time of a failure or a queue, so these jobs are read, a bounded number a step.
1. A step reads at most `STEP_JOBS` jobs of each stored state, whatever their number, and goes on where the last one
   stopped. What a finished round has counted is shown until the next round ends.
2. Where reads are paid for, a round ends after `PAID_JOBS` jobs and the next one begins a minute later. Numbers of a
   round that did not see all jobs are lower bounds ("1,000+").
3. What may change for many jobs at once is not part of a round: whether a queue is paused, and which tasks workers
   have. Due jobs are counted by queue, task and limit, and compared with queues and workers as of the last step.
4. The newest failed jobs are read in every step, so that a failure is seen at once; a failure of a job that was made
   long ago is seen when the round comes to it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.jobs.model.derived_state import Conditions, DerivedState, derive, why_blocked
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.conditions import read_conditions
from penstock.jobs.store.store import JobStore

FIRST_JOBS: Final = 60
STEP_JOBS: Final = 250
PAID_JOBS: Final = 1_000
_PAID_SECONDS: Final = 60.0
_NEWEST: Final = 20
_MOST_FAILURES: Final = 50_000
_SHOWN_LOST: Final = 20
_SHOWN_RUNNING: Final = 6
_MOST_RETRYING: Final = 2_000
_MOST_LIMITS: Final = 500
_MOST_QUEUES: Final = 100
"""Of so many it is read in each step whether they are paused."""


@dataclass(slots=True)
class QueueTally:
    """The jobs of a queue that have not ended."""

    name: str
    states: Counter[DerivedState] = field(default_factory=Counter)
    oldest_ready: float | None = None


@dataclass(frozen=True, slots=True)
class DueJobs:
    """Jobs that are due, and alike in what decides whether a worker may take them (3)."""

    queue: str
    task: str
    tenant: str
    kept_by: str
    """A concurrency key or a rate; "" for nothing."""


@dataclass(slots=True)
class LimitTally:
    """The jobs of a concurrency key or of a rate key that have not ended."""

    kind: str
    """`concurrency` or `rate`."""
    key: str
    limit: str
    queues: set[str] = field(default_factory=set)
    running: int = 0
    blocked: int = 0

    def add(self, state: DerivedState, job: Job) -> None:
        self.queues.add(job.queue)
        self.running += state is DerivedState.RUNNING
        self.blocked += state is DerivedState.BLOCKED

    def merge(self, other: LimitTally) -> None:
        self.queues |= other.queues
        self.running += other.running
        self.blocked += other.blocked


@dataclass(frozen=True, slots=True)
class Blocked:
    """Jobs of one tenant that one thing keeps."""

    why: str
    tenant: str
    number: int
    job_id: str
    """One of them."""


@dataclass(slots=True)
class Tally:
    """What a round over one stored state has counted."""

    queues: dict[str, QueueTally] = field(default_factory=dict)
    due: Counter[DueJobs] = field(default_factory=Counter)
    examples: dict[DueJobs, str] = field(default_factory=dict)
    """The id of one of them."""
    lost: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    """The newest of those that run."""
    retrying: list[Failure] = field(default_factory=list)
    limits: dict[tuple[str, str], LimitTally] = field(default_factory=dict)
    seen: int = 0
    begun_at: float | None = None
    is_whole: bool = False

    def add(self, job: Job, around: Conditions) -> None:
        found = derive(job, around)
        self.seen += 1
        queue = self.queues.setdefault(job.queue, QueueTally(job.queue))
        if found.state in (DerivedState.READY, DerivedState.BLOCKED):
            queue.oldest_ready = min(queue.oldest_ready or job.run_at, job.run_at)
            due = DueJobs(job.queue, job.task, job.tenant, found.why)
            self.due[due] += 1
            self.examples.setdefault(due, job.id)
        else:
            queue.states[found.state] += 1
        if found.state is DerivedState.LOST and len(self.lost) < _SHOWN_LOST:
            self.lost.append(job)
        if found.state is DerivedState.RUNNING and len(self.running) < _SHOWN_RUNNING:
            self.running.append(job)
        if found.state is DerivedState.RETRYING and len(self.retrying) < _MOST_RETRYING:
            self.retrying.append(Failure.of(job))
        self._add_limits(found.state, job)

    def _add_limits(self, state: DerivedState, job: Job) -> None:
        for kind, key, limit in (
            ("concurrency", job.concurrency_key, f"{job.max_concurrent:,} at once" if job.max_concurrent else ""),
            ("rate", job.rate_key, str(job.rate)),
        ):
            if key and (len(self.limits) < _MOST_LIMITS or (kind, key) in self.limits):
                self.limits.setdefault((kind, key), LimitTally(kind, key, limit)).add(state, job)


class _Round:
    """Goes over the jobs of a stored state again and again."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.last = Tally()
        self._current = Tally()
        self._token: str | None = None
        self._next_at = 0.0

    def is_resting(self, now: float) -> bool:
        return now < self._next_at

    def step(self, store: JobStore, now: float, most: int, around: Conditions) -> None:
        if self.is_resting(now):
            return
        page = store.find(state=self.state, limit=most, token=self._token)
        self._current.begun_at = self._current.begun_at or now
        for job in page.jobs:
            self._current.add(job, around)
        self._token = page.token
        is_paid = store.db.capabilities.metered
        if page.token is None or (is_paid and self._current.seen >= PAID_JOBS):
            self._current.is_whole = page.token is None
            self.last, self._current, self._token = self._current, Tally(), None
            self._next_at = now + _PAID_SECONDS if is_paid else 0.0
        elif not self.last.is_whole and self._current.seen > self.last.seen:
            self.last = self._current  # nothing better is known yet


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Failure:
    """What a list of failures needs to know of a job."""

    job_id: str
    failed_at: float
    task: str
    tenant: str
    queue: str
    kind: str
    message: str
    attempt: int
    pattern: str
    """What the messages of its group have in common."""
    system: str = ""
    """Whose job it is, where it is changed by that system's commands only."""

    @classmethod
    def of(cls, job: Job, system: str = "") -> Failure:
        error = job.error
        message = "" if error is None else error.message[:_LONGEST_MESSAGE]
        return cls(
            job.id,
            job.ended_at or job.updated_at,
            job.task,
            job.tenant,
            job.queue,
            "" if error is None else error.kind,
            message,
            job.attempt,
            pattern_of(message),
            system,
        )

    @property
    def group(self) -> tuple[str, str, str]:
        return self.task, self.kind, self.pattern


_VARYING: Final = re.compile(
    r"(?<=job_)[0-9a-z]{6,40}(?:_[0-9a-z]{1,20})?|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]{1,16}|\b(?=[a-f]{0,63}\d)[0-9a-f]{8,64}\b|\d{1,40}"
)
"""Ids of jobs, UUIDs, addresses, hashes, numbers."""
_LONGEST_MESSAGE: Final = 200


def pattern_of(message: str) -> str:
    """A message without what differs from one failure to the next: its first line, with # for each number and id."""
    return _VARYING.sub("#", message.partition("\n")[0][:_LONGEST_MESSAGE])


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one task with one error, and the jobs that had it and will be tried again. Each are newest first."""

    task: str
    kind: str
    message: str
    failures: tuple[Failure, ...]
    retrying: tuple[Failure, ...] = ()

    @property
    def system(self) -> str:
        return self.last.system

    @property
    def key(self) -> str:
        """What a form sends to name the group: none of its parts has a line break."""
        return f"{self.task}\n{self.kind}\n{self.message}"

    @property
    def number(self) -> int:
        return len(self.failures)

    @property
    def last(self) -> Failure:
        return max((*self.failures[:1], *self.retrying[:1]), key=lambda one: one.failed_at)

    @property
    def first_at(self) -> float:
        return min(one.failed_at for one in (*self.failures[-1:], *self.retrying[-1:]))

    @property
    def shown(self) -> str:
        """The message if all have the same one, otherwise what their messages have in common."""
        messages = {one.message for one in (*self.failures, *self.retrying)}
        return self.last.message.partition("\n")[0] if len(messages) == 1 else self.message

    @property
    def tenants(self) -> int:
        return len({one.tenant for one in (*self.failures, *self.retrying)})


class FailedJobs:
    """The failed jobs, by when they failed."""

    def __init__(self) -> None:
        self._known: dict[str, Failure] = {}
        self._seen: set[str] = set()
        self._token: str | None = None
        self._next_at = 0.0
        self._newest: tuple[Failure, ...] | None = ()
        """None where something has changed since they were sorted."""
        self.is_whole = False

    def step(self, store: JobStore, now: float, most: int) -> None:
        if self._token is not None or now < self._next_at:  # otherwise the page below begins with them
            self._add(store.find(state=State.FAILED, limit=_NEWEST).jobs)
        if now < self._next_at:
            return
        page = store.find(state=State.FAILED, limit=most, token=self._token)
        self._add(page.jobs)
        self._token = page.token
        is_paid = store.db.capabilities.metered
        if page.token is None or len(self._seen) >= (PAID_JOBS if is_paid else _MOST_FAILURES):
            if not self._seen.issuperset(self._known):
                self._known = {job_id: one for job_id, one in self._known.items() if job_id in self._seen}
                self._newest = None
            self.is_whole = page.token is None
            self._seen, self._token = set(), None
            self._next_at = now + _PAID_SECONDS if is_paid else 0.0

    def _add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._seen.add(job.id)
            failure = Failure.of(job)
            if self._known.get(job.id) != failure:
                self._known[job.id] = failure
                self._newest = None

    def newest(self) -> tuple[Failure, ...]:
        """The same tuple while nothing has changed."""
        if self._newest is None:
            self._newest = newest_first(self._known.values())
        return self._newest


def group_failures(failures: Iterable[Failure], retrying: Iterable[Failure] = ()) -> list[FailureGroup]:
    """The largest group first. Both are newest first."""
    groups: dict[tuple[str, str, str], tuple[list[Failure], list[Failure]]] = {}
    for place, some in enumerate((failures, retrying)):
        for one in some:
            groups.setdefault(one.group, ([], []))[place].append(one)
    made = [FailureGroup(*named, tuple(ended), tuple(later)) for named, (ended, later) in groups.items()]
    return sorted(made, key=lambda group: (group.number, len(group.retrying), group.last.failed_at), reverse=True)


def newest_first(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    return tuple(sorted(failures, key=lambda one: (one.failed_at, one.job_id), reverse=True))


# ── all of it ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SurveyView:
    """What the survey knows now."""

    states: Mapping[DerivedState, int]
    whole: frozenset[State]
    """Stored states of which every job was seen."""
    queues: Mapping[str, QueueTally]
    blocked: tuple[Blocked, ...]
    lost: tuple[Job, ...]
    running: tuple[Job, ...]
    failures: tuple[Failure, ...]
    failures_whole: bool
    retrying: tuple[Failure, ...] = ()
    """Jobs whose last attempt failed, by when that was."""
    limits: tuple[LimitTally, ...] = ()
    """Concurrency keys and rates, those that block most first."""
    seen: int = 0
    """How many jobs that have not ended were read."""
    counted_since: float | None = None
    """When the round began that these were read in."""


class JobSurvey:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queued = _Round(State.QUEUED)
        self._running = _Round(State.PROCESSING)
        self._failed = FailedJobs()
        self._names: set[str] = set()
        self._around = Conditions(0.0)

    def step(self, store: JobStore, now: float, most: int = STEP_JOBS) -> None:
        with self._lock:
            is_resting = self._queued.is_resting(now) and self._running.is_resting(now)
            self._queued.step(store, now, most, Conditions(now))  # what else decides is added by `view` (3)
            self._names |= set(self._queued.last.queues)
            if not is_resting:
                self._around = read_conditions(store, sorted(self._names)[:_MOST_QUEUES])
            self._running.step(store, now, most, self._around)
            self._names |= set(self._running.last.queues)
            self._failed.step(store, now, most)

    def view(self) -> SurveyView:
        with self._lock:
            rounds = (self._queued.last, self._running.last)
            queues = {name: QueueTally(name) for name in self._names}  # also those whose last job has ended
            for tally in rounds:
                for name, one in tally.queues.items():
                    queues[name].states += one.states
                    queues[name].oldest_ready = queues[name].oldest_ready or one.oldest_ready
            queued = self._queued.last
            number_blocked: Counter[tuple[str, str]] = Counter()
            examples: dict[tuple[str, str], str] = {}
            for due, number in queued.due.items():
                why = why_blocked(due.queue, due.task, due.kept_by, self._around)
                queues[due.queue].states[DerivedState.BLOCKED if why else DerivedState.READY] += number
                if why:
                    number_blocked[why, due.tenant] += number
                    examples.setdefault((why, due.tenant), queued.examples[due])
            blocked = [
                Blocked(why, tenant, number, examples[why, tenant])
                for (why, tenant), number in number_blocked.most_common()
            ]
            named = zip((State.QUEUED, State.PROCESSING), rounds, strict=True)
            whole_states = {state for state, one in named if one.is_whole}
            return SurveyView(
                sum((one.states for one in queues.values()), Counter()),
                frozenset(whole_states),
                queues,
                tuple(blocked),
                tuple(self._running.last.lost),
                tuple(self._running.last.running),
                self._failed.newest(),
                self._failed.is_whole,
                newest_first(queued.retrying),
                _limits(rounds),
                sum(tally.seen for tally in rounds),
                queued.begun_at,
            )


def _limits(rounds: Iterable[Tally]) -> tuple[LimitTally, ...]:
    limits: dict[tuple[str, str], LimitTally] = {}
    for tally in rounds:
        for named, one in tally.limits.items():
            limits.setdefault(named, LimitTally(one.kind, one.key, one.limit)).merge(one)
    return tuple(sorted(limits.values(), key=lambda one: (-one.blocked, -one.running, one.key)))
