"""Jobs that wait for others.

1. A job that waits is not in the claim index. It is told by each of those it waits for, and is claimable when all have
   completed; if one fails or is cancelled, it is cancelled, and those that wait for it likewise.
2. It is made first and then written into the lists of those it waits for. Both steps are marked in the claim index
   until they are done, so that a worker finishes what a dead process has begun: nobody waits for ever.
3. Telling and registering may be done twice; the second time changes nothing.
4. A job that ended, was retried and ends again tells once more; what it has told before stays told.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.jobs.layouts.layout import Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import BadJob, Job, JobNotFound
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.queries import JobReader

if TYPE_CHECKING:
    from penstock.jobs.store.store import JobStore


class _Settled(Exception):
    """There is nothing to write: the job has ended meanwhile, or knows already. `job` is what it is now."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.id)
        self.job = job


class Dependencies:
    def __init__(self, store: JobStore, reader: JobReader) -> None:
        self._store = store
        self._reader = reader

    def check_parents(self, job: Job) -> Job:
        """The job, which waits for those that have not completed yet; one that could never begin is refused."""
        waiting = set()
        for parent in self._store.get_many(job.depends_on):
            if parent.state in (State.FAILED, State.CANCELLED):
                raise BadJob(f"{parent.id}, which the job is to wait for, is {parent.state}.")
            if parent.state is not State.COMPLETED:
                waiting.add(parent.id)
        return replace(job, waiting_for=frozenset(waiting), unregistered=bool(waiting))

    def register(self, job: Job) -> Job:
        """Writes the job into the lists of those it waits for (2); the job as it is then."""
        completed = self._register_all(job)

        def change(current: Job) -> ChangedJob:
            if not current.unregistered or current.is_terminal:
                raise _Settled(current)
            return transitions.finish_registration(current, completed, self._now())

        try:
            return self._store.change(self._store.get(job.id), change)
        except _Settled as settled:
            return settled.job

    def settle(self, job: Job) -> None:
        if job.is_terminal:
            self._tell_children(job)
        elif job.unregistered:
            self.register(job)

    def look_after(self, job: Job) -> None:
        """Sees to a job that has waited for long: those it waits for may be gone, and tell nobody any more."""
        for parent_id in self._register_all(job):
            self._tell(job.id, self._store.get(parent_id))

    def _register_all(self, job: Job) -> frozenset[str]:
        """Those of the jobs it waits for that have completed; the others will tell it. If one never will, it ends."""
        completed = set()
        parents = {parent.id: parent for parent in self._reader.get_existing(sorted(job.waiting_for), self._now())}
        for parent_id in sorted(job.waiting_for):
            parent = parents.get(parent_id)
            ended = None if parent is None else self._register(job, parent)
            if parent is None:
                self._cancel(job.id, f"{parent_id}, which it waits for, is gone")
            elif ended is not None and ended.state is State.COMPLETED:
                completed.add(parent_id)
            elif ended is not None:
                self._tell(job.id, ended)
        return frozenset(completed)

    def _register(self, job: Job, parent: Job) -> Job | None:
        """The parent, if it has ended and will tell nobody any more."""
        records: list[Record] = []

        def change(current: Job) -> ChangedJob:
            if current.is_terminal:
                raise _Settled(current)
            records[:] = [self._store.layout.child(current, job.id)]
            return transitions.add_child(current, self._now())

        try:
            self._store.change(parent, change, records)
        except _Settled as settled:
            return settled.job
        except JobNotFound:
            self._cancel(job.id, f"{parent.id}, which it waits for, is gone")
        return None

    def _tell_children(self, job: Job) -> None:
        for item in list(self._reader.pages(self._store.layout.children(job.id))):
            self._tell(self._store.layout.child_of(item), job)

        def change(current: Job) -> ChangedJob:
            # One that was retried meanwhile ends once more, and tells those who wait for it then.
            if not current.has_children or current.state is not job.state or current.token != job.token:
                raise _Settled(current)
            return transitions.clear_children(current, self._now())

        with suppress(_Settled, JobNotFound):
            self._store.change(job, change)

    def _tell(self, child_id: str, parent: Job) -> None:
        if parent.state is not State.COMPLETED:
            self._cancel(child_id, f"{parent.id}, which it waits for, is {parent.state}")
            return

        def change(child: Job) -> ChangedJob:
            if parent.id not in child.waiting_for or child.is_terminal:
                raise _Settled(child)
            return transitions.complete_parents(child, frozenset({parent.id}), self._now())

        with suppress(_Settled, JobNotFound):  # it knows, or it has ended, or expired
            self._store.change(self._store.get(child_id), change)

    def _cancel(self, child_id: str, reason: str) -> None:
        with suppress(JobNotFound, BadTransition):  # it has ended in another way
            if self._store.get(child_id).waiting_for:
                self._store.cancel(child_id, reason)

    def _now(self) -> float:
        return self._store.clock.now()
