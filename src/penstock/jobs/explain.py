"""Why a job is not running, in one sentence.

`gather` asks the database what there is to know; `explain` decides, and is pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.clock import span, utc_text
from penstock.jobs.model.derived_state import is_due
from penstock.jobs.model.job import LIMIT_POOL, RATE_POOL, Job, JobNotFound
from penstock.jobs.model.rate import parse_rate
from penstock.jobs.model.state import State
from penstock.jobs.store.queries import MOST_COUNTED, Ahead
from penstock.jobs.store.side_items import Queue
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.processes import has_ended


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides whether a job runs, beside the job itself."""

    now: float
    queue: Queue
    workers: tuple[WorkerInfo, ...] = ()
    slot_holders: tuple[str, ...] = ()
    waiting_for: int = 0
    """So many jobs, of as many as it depends on."""
    depends_on: int = 0
    parents: dict[str, State | None] = field(default_factory=dict)
    """Some of those that it waits for."""
    ahead: Ahead = field(default_factory=Ahead)
    holder_has_ended: bool = False
    """There is proof, on this machine, that the process of the worker that holds it has ended."""
    rate_arrival: float = 0.0
    """The theoretical arrival time of its rate key (model/rate.py)."""
    suspects: tuple[Job, ...] = ()
    """Jobs that may have killed a worker: those that run alone, and (without a lease) the first of those that wait."""


def gather(store: JobStore, job: Job) -> Surroundings:
    now = store.clock.now()
    waiting_for = store.waiting_for(job)
    lines = WorkerRegistry(store.db, store.layout).lines()
    holder = "" if job.lease is None else job.lease.owner
    return Surroundings(
        now=now,
        queue=store.queue(job.queue),
        workers=tuple(line for line in lines if line.is_alive(now)),
        holder_has_ended=any(line.name == holder and has_ended(line.process) for line in lines),
        slot_holders=tuple(store.side_items.slot_holders(job.concurrency_key))
        if job.concurrency_key is not None
        else (),
        waiting_for=len(waiting_for),
        depends_on=_dependency_count(job),
        parents={parent: _state(store, parent) for parent in waiting_for[:_PARENTS_SHOWN]},
        ahead=store.count_ahead(job) if job.state is State.QUEUED else Ahead(),
        rate_arrival=store.rates.state(job.rate_key or "").arrival if job.pool == RATE_POOL else 0.0,
        suspects=tuple(_suspects(store, job, lines)) if job.state is State.QUEUED and not job.suspect else (),
    )


def _suspects(store: JobStore, job: Job, lines: list[WorkerInfo]) -> Iterator[Job]:
    """As far as a few reads tell."""
    ended = {line.name for line in lines if has_ended(line.process)}
    for one in store.find(state=State.PROCESSING, limit=_MOST_RUNNING).jobs:
        if one.pulled_from:
            continue
        is_left = one.lease is None or one.lease.owner in ended or one.lease.takeable_at <= store.clock.now()
        if one.suspect or is_left:
            yield replace(one, lease=None) if is_left else one
    yield from (one for one in store.first_ready(job.queue, _MOST_READY) if one.suspect)


def _dependency_count(job: Job) -> int:
    """Also where it waits for its children: for so many, when it was suspended."""
    if job.wait is not None and job.wait.children:
        return job.wait.children
    return job.dependency_count or len(set(job.depends_on))


def _state(store: JobStore, job_id: str) -> State | None:
    try:
        return store.get(job_id).state
    except JobNotFound:
        return None


def explain(job: Job, around: Surroundings) -> str:
    """One sentence, which begins with the job's id."""
    return f"{job.id} {_reason(job, around)}."


def _reason(job: Job, around: Surroundings) -> str:
    if job.pulled_from and not job.is_terminal:
        return f"is a copy from {job.pulled_from}, which no worker starts: `penstock jobs debug {job.id}` runs it"
    if job.state is State.PROCESSING:
        return _running(job, around)
    if job.state is State.QUEUED:
        return _waiting(job, around)
    if job.state is State.COMPLETED:
        return f"has completed, {ago(job.ended_at, around.now)}"
    if job.state is State.CANCELLED:
        return f"was cancelled {ago(job.ended_at, around.now)}{_because(job.cancel_reason)}"
    error = "" if job.error is None else f"{job.error.kind}: {job.error.message}"
    tries = "one attempt" if job.attempt == 1 else f"{job.attempt} attempts"
    return f"has failed after {tries}, {ago(job.ended_at, around.now)}{_because(error)}"


def _running(job: Job, around: Surroundings) -> str:
    lease = job.lease
    if lease is None:
        return "is running"
    left = lease.takeable_at - around.now
    is_cancelled = job.cancel_reason is not None
    if is_cancelled and left > 0 and not around.holder_has_ended:
        return f"is to be cancelled: {lease.owner}, which runs it, stops it at its next report"
    takes, take = ("cancels it", "cancel it") if is_cancelled else ("takes it over", "take it over")
    waits = f"the next worker {takes}" if around.workers else f"no worker is there to {take}"
    if around.holder_has_ended:
        return f"was running on {lease.owner}, whose process has ended; {waits}"
    if left > 0:
        alone = ", alone because a worker died while it ran" if job.suspect else ""
        ends = f"whose lease ends in {span(lease.until - around.now)} unless it is renewed"
        return f"is running on {lease.owner}{alone}, {ends}"
    return f"was running on {lease.owner}, which has not renewed its lease for {span(-left)}; {waits}"


def _waiting(job: Job, around: Surroundings) -> str:
    if job.reviving:
        return "waits until a worker has revived the jobs that were cancelled because of it"
    if job.is_waiting:
        return f"waits for {_parents(around)}"
    if job.parked and job.wait is not None:
        return f"waits for the event {job.wait.event!r}: {_send(job)}"
    if around.queue.paused:
        return f"waits because the queue {job.queue} is paused{_because(around.queue.reason)}"
    if not is_due(job, around.now):
        left = span(job.run_at - around.now)
        if job.wait is not None and job.wait.event:
            return f"waits for the event {job.wait.event!r}, for another {left}: {_send(job)}"
        if job.wait is not None:
            return f"sleeps for another {left}, until {utc_text(job.run_at)}"
        if job.rate_at == job.run_at:
            return f"waits for its rate, {job.rate} for {job.rate_key!r}: its slot is in {left}"
        if job.failures and job.error is not None:
            return f"failed ({_one_line(f'{job.error.kind}: {job.error.message}')}) and is tried again in {left}"
        return f"is due in {left}"
    key, most = job.concurrency_key, job.max_concurrent
    if key is not None and len(around.slot_holders) >= most > 0 and job.id not in around.slot_holders:
        holders = ", ".join(around.slot_holders[:3])
        are = "is" if most == 1 else "are"
        first = f"; {_same_first(around.ahead.of_key)}" if around.ahead.of_key else ""
        return f"waits because {most} with the concurrency key {key!r} {are} running already: {holders}{first}"
    if job.pool == RATE_POOL:
        return _no_worker(job, around) or _in_rate_pool(job, around)
    if job.pool == LIMIT_POOL:
        return _no_worker(job, around) or _in_pool(job, around)
    return _no_worker(job, around) or _in_line(job, around)


def _send(job: Job) -> str:
    event = "" if job.wait is None else job.wait.event
    return f"`penstock jobs send {job.id} {shlex.quote(event)}`"


def _in_pool(job: Job, around: Surroundings) -> str:
    """Between two holders of a slot: whose it is next depends on who has waited before."""
    key, ahead = job.concurrency_key, around.ahead.of_key
    if ahead < job.max_concurrent - len(around.slot_holders):
        return f"is among the next with the concurrency key {key!r}, which has a free slot"
    at_once = f"of which {job.max_concurrent:,} may run at once"
    return f"waits for the concurrency key {key!r}, {at_once}: {_same_first(ahead)}"


def _in_rate_pool(job: Job, around: Surroundings) -> str:
    """How many are before it, and from that, when about it starts."""
    rate, ahead = parse_rate(job.rate), around.ahead.of_rate
    slot, _ = rate.next_slot(around.rate_arrival + ahead * rate.interval, around.now)
    when = f"in about {span(slot - around.now)}" if ahead < MOST_COUNTED else f"in {span(slot - around.now)} or later"
    first = f"{_same_first(ahead)}, and " if ahead else ""
    return f"waits for its rate, {job.rate} for {job.rate_key!r}: {first}it starts {when}"


def _no_worker(job: Job, around: Surroundings) -> str:
    if not around.workers:
        return "waits because no worker is running now: start one with `penstock worker MODULE:APP`"
    there = [worker for worker in around.workers if job.queue in worker.queues]
    if not there:
        return f"waits because no worker looks at the queue {job.queue}: start one with --queue {job.queue}"
    if not any(job.task in worker.tasks for worker in there):
        return f"waits because no worker of the queue {job.queue} has a task named {job.task}"
    return ""


def _in_line(job: Job, around: Surroundings) -> str:
    if job.suspect:
        return "waits for a worker that runs nothing else, because a worker died while it ran"
    able = [one for one in around.workers if job.queue in one.queues and job.task in one.tasks]
    alone = {one.lease.owner: one.id for one in around.suspects if one.lease is not None}
    if all(worker.name in alone for worker in able):
        return (
            f"waits for {alone[able[0].name]}, which runs alone on {able[0].name} until it ends or writes a newer "
            "checkpoint, because a worker died while it ran"
        )
    ahead, urgent = around.ahead.ready, around.ahead.urgent
    first = f"{_many(ahead)} {'comes' if ahead == 1 else 'come'} first"
    if 0 < urgent < ahead:
        first += f", {_many(urgent)} of them with a higher priority"
    elif urgent:
        first += ", with a higher priority"
    if all(worker.running >= worker.concurrency for worker in able):
        places = sum(one.concurrency for one in able)
        return f"waits for a free place: the {places} of its workers are taken{f', and {first}' if ahead else ''}"
    for suspect in around.suspects:
        if suspect.lease is None and any(suspect.queue in one.queues and suspect.task in one.tasks for one in able):
            return (
                f"comes after {suspect.id}, which a worker that runs nothing else takes first, because a worker died "
                "while it ran; a worker that is busy waits up to 30 s for that"
            )
    return f"is in line: {first}" if ahead else "is next: a worker is about to take it"


def _same_first(count: int) -> str:
    return f"{_many(count)} that {'waits for the same comes' if count == 1 else 'wait for the same come'} first"


def _many(count: int) -> str:
    """Very many are not counted to the end."""
    return f"{count:,}" if count < MOST_COUNTED else f"{MOST_COUNTED:,} or more"


def _parents(around: Surroundings) -> str:
    texts = [f"{parent} ({state or 'gone'})" for parent, state in around.parents.items()]
    rest = around.waiting_for - len(texts)
    count = f"{around.waiting_for:,} of {around.depends_on:,} jobs: " if around.depends_on > 1 else ""
    return count + ", ".join(texts) + (f" and {rest:,} more" if rest > 0 else "")


_PARENTS_SHOWN = 3
_MOST_RUNNING = 100
_MOST_READY = 16


def _because(reason: str | None) -> str:
    return f" ({_one_line(reason)})" if reason else ""


def _one_line(text: str) -> str:
    """A text as a part of a sentence: in one line, and not for long."""
    line = " ".join(text.split())
    return f"{line[: _LONGEST_LINE - 1]}…" if len(line) > _LONGEST_LINE else line.removesuffix(".")


_LONGEST_LINE = 300


def ago(at: float | None, now: float) -> str:
    return "at some time" if at is None else f"{span(now - at)} ago"
