"""Jobs that wait for others.

1. A job that waits is not in the claim index. It is told by each of those it waits for, and is claimable when all have
   completed; if one fails or is cancelled, it is cancelled, and those that wait for it likewise.
2. It is made first and then written into the lists of those it waits for. Both steps are marked in the claim index
   until they are done, so that a worker finishes what a dead process has begun: nobody waits for ever.
3. Telling and registering may be done twice; the second time changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobs import changes
from penstock.jobs.changes import Changed
from penstock.jobs.job import Job, JobNotFound
from penstock.jobs.new import BadJob
from penstock.jobs.reading import JobReader
from penstock.jobs.state import BadTransition, State

if TYPE_CHECKING:
    from penstock.jobs.store import JobStore


class _Ended(Exception):
    """The job to wait for has ended meanwhile."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.id)
        self.job = job


class Dependencies:
    def __init__(self, store: JobStore, reader: JobReader) -> None:
        self._store = store
        self._reader = reader

    def check(self, job: Job) -> None:
        """Refuses a job that could never begin."""
        for parent_id in job.after:
            parent = self._store.get(parent_id)
            if parent.state in (State.FAILED, State.CANCELLED):
                raise BadJob(f"{parent.id}, which the job is to wait for, is {parent.state}.")

    def register(self, job: Job) -> Job:
        """Writes the job into the lists of those it waits for (2); the job as it is then."""
        for parent_id in sorted(job.waiting_for):
            self._register(job, parent_id)
        current = self._store.get(job.id)
        if not current.unregistered or current.is_terminal:
            return current
        return self._store.change(current, lambda one: changes.registered(one, self._now()))

    def settle(self, job: Job) -> None:
        if job.is_terminal:
            self._tell_children(job)
        elif job.unregistered:
            self.register(job)

    def _register(self, job: Job, parent_id: str) -> None:
        def change(parent: Job) -> Changed:
            if parent.is_terminal:
                raise _Ended(parent)
            return changes.awaited(parent, self._now())

        try:
            parent = self._store.get(parent_id)
            self._store.change(parent, change, [self._store.layout.child(parent, job.id)])
        except _Ended as ended:
            self._tell(job.id, ended.job)
        except JobNotFound:
            self._cancel(job.id, f"{parent_id}, which it waits for, is gone")

    def _tell_children(self, job: Job) -> None:
        for item in list(self._reader.pages(self._store.layout.children(job.id))):
            self._tell(self._store.layout.child_of(item), job)
        self._store.change(job, lambda current: changes.children_told(current, self._now()))

    def _tell(self, child_id: str, parent: Job) -> None:
        if parent.state is not State.COMPLETED:
            self._cancel(child_id, f"{parent.id}, which it waits for, is {parent.state}")
            return
        try:
            child = self._store.get(child_id)
            if parent.id in child.waiting_for:
                self._store.change(child, lambda current: changes.told(current, parent.id, self._now()))
        except JobNotFound:
            pass  # it has expired

    def _cancel(self, child_id: str, reason: str) -> None:
        try:
            if self._store.get(child_id).waiting_for:
                self._store.cancel(child_id, reason)
        except (JobNotFound, BadTransition):
            pass  # it has ended in another way

    def _now(self) -> float:
        return self._store.clock.now()
