"""Claiming: how a job that waits, or whose worker is dead, becomes a worker's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.jobs.layouts.layout import Layout
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, JobNotFound, Payload
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import Changed
from penstock.jobs.store.conditional_writes import Conflict, Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.payloads import NotJson, to_json
from penstock.jobs.store.queries import Claimable, JobReader
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.side_items import Sides

_SHORT: Final = 1024
_LOOK_AFTER_SECONDS: Final = 24 * 3600.0
_FREE_SLOTS_SECONDS: Final = 60.0


Ended = tuple[Job, str]
"""A job whose task has returned, and its `short_result`."""
Candidate = tuple[Job, float]
"""A job that may be claimed, and for how many seconds."""


def short_result(value: object) -> str | None:
    """The text of a result that fits into the write that ends its job; None of one that is long, or no JSON."""
    try:
        text = to_json(value, "result")
    except NotJson:
        return None  # `complete` says what is wrong with it
    return text if len(text) <= _SHORT else None


class LimitReached(PenstockError):
    """As many jobs with this limit key run as may."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.id}: {job.limit} jobs with the limit key {job.limit_key!r} are running already.")
        self.job_id = job.id
        self.limit_key = job.limit_key


@dataclass(frozen=True, slots=True)
class Claims:
    clock: Clock
    layout: Layout
    reader: JobReader
    writer: JobWriter
    sides: Sides
    dependencies: Dependencies
    expiry: Expiry
    _looked_after: dict[str, float] = field(default_factory=dict)
    _freed: dict[str, float] = field(default_factory=dict)

    def claimable(self, queue: str, limit: int, *, evenly: bool = False, wake: bool = True) -> Claimable:
        self.look_after(queue)
        return self.reader.claimable(queue, limit, self.clock.now(), evenly=evenly, wake=wake)

    def look_after(self, queue: str) -> None:
        """Keeps the queue's jobs from expiring before they could begin; done once in a while, else it costs nothing.

        For a queue that is paused too: its jobs wait.
        """
        now = self.clock.now()
        if now < self._looked_after.get(queue, 0.0):
            return
        often = self.expiry.half_seconds / 4
        self._looked_after[queue] = now + min(_LOOK_AFTER_SECONDS, often)
        for job in self.reader.forgotten(queue, now - often, now):
            if not job.is_terminal and job.expires_at > now and self.expiry.is_near(job, now):
                self.dependencies.look_after(self.expiry.extended(job, now, now))

    def claim(self, job: Job, owner: str, lease_seconds: float) -> Job | None:
        """The job as it is now that it is ours; None where there is nothing to claim any more.

        A job whose worker is dead is taken over; one that has killed too many is parked, and None is returned.
        Raises LimitReached.
        """
        now = self.clock.now()
        try:
            if self.expiry.is_near(job, now):
                if self.reader.get(job.id, now).version != job.version or job.is_terminal:
                    return None
                job = self.expiry.extended(job, now, now)
            if job.state is State.QUEUED:
                # What was ready by the clock of the one who wrote it is ready: clocks differ a little.
                if job.waiting_for or job.run_at > max(now, job.updated_at):
                    return None
                changed = transitions.started(job, owner, lease_seconds, now)
                self.writer.change(job, changed, (), self.sides.hold_slot(job))
            elif job.state is State.PROCESSING and job.lease is not None and job.lease.takeable_at <= now:
                changed = self._take_over(job, owner, lease_seconds, now)
            else:
                return None
        except (Conflict, JobNotFound):
            return None
        except Guarded:
            self._free_slots(job.limit_key or "", now)
            raise LimitReached(job) from None
        return changed.job if changed.job.state is State.PROCESSING else None

    def _free_slots(self, limit_key: str, now: float) -> None:
        """Now and then: a job that was deleted while it ran would hold its slot for ever."""
        if limit_key and now >= self._freed.get(limit_key, 0.0):
            self._freed[limit_key] = now + _FREE_SLOTS_SECONDS
            self.sides.free_slots(limit_key)

    def _take_over(self, job: Job, owner: str, lease_seconds: float, now: float) -> Changed:
        if job.cancel_reason is not None:
            changed = transitions.cancelled(job, job.cancel_reason, now)
        else:
            changed = transitions.taken_over(job, owner, lease_seconds, now)
        actions = self.sides.given_back(job, changed.job)
        try:
            self.writer.change(job, changed, (), actions)
        except Guarded:  # its unique key is another job's, after its own guard was lost
            self.writer.change(job, changed, (), self.sides.release_slot(job))
        return changed

    def is_plain(self, candidate: Job) -> bool:
        """Whether it can be claimed together with others: by one write, and it has not killed a worker yet."""
        now = self.clock.now()
        return (
            candidate.state is State.QUEUED
            and not candidate.waiting_for
            and not candidate.unregistered
            and candidate.run_at <= now
            and not candidate.crashes
            and self._is_one_write(candidate, now)
        )

    def complete_and_claim(
        self, ended: Sequence[Ended], candidates: Sequence[Candidate], owner: str
    ) -> tuple[list[Job | None], list[Job | None]]:
        """`complete` of some jobs and `claim` of others with one commit: for short jobs, most of whose cost is that.

        Each is None where it was not done: somebody else was quicker, or it is more than one plain write. Then it is
        for `complete` and `claim` to do.
        """
        now = self.clock.now()
        asked = [self._completed(job, result, now) for job, result in ended]
        asked += [self._begun(job, owner, seconds, now) for job, seconds in candidates]
        pairs = [pair for pair in asked if pair is not None]
        written = iter(self.writer.change_together(pairs) if pairs else ())
        done = [pair[1].job if pair is not None and next(written) else None for pair in asked]
        return done[: len(ended)], done[len(ended) :]

    def _completed(self, job: Job, result: str, now: float) -> tuple[Job, Changed] | None:
        changed = transitions.completed(job, Payload(result), now) if self._is_one_write(job, now) else None
        return None if changed is None or changed.moved_out else (job, changed)

    def _begun(self, job: Job, owner: str, lease_seconds: float, now: float) -> tuple[Job, Changed] | None:
        changed = transitions.started(job, owner, lease_seconds, now) if self.is_plain(job) else None
        return None if changed is None or changed.moved_out else (job, changed)

    def _is_one_write(self, job: Job, now: float) -> bool:
        """Whether a change of its state is one write of one item, with nothing beside it."""
        return (
            self.layout.keeps_events
            and job.unique is None
            and job.limit_key is None
            and job.cancel_reason is None
            and not self.expiry.is_near(job, now)
        )
