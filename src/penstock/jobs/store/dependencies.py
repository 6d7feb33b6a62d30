"""Jobs that depend on others.

1. A job that waits is not in the claim index. Each of those it waits for tells it how it has ended, and its policy
   decides. With `all_completed` it begins when all have completed, and is cancelled when one fails or is cancelled;
   with `all_ended` it begins when all have ended, however; with `any_completed` it begins when the first has completed,
   and is cancelled when none can any more. One that is gone (expired) has ended without completion.
2. It is made first and then written into the lists of those it waits for. Both steps are marked in the claim index
   until they are done, so that a worker finishes what a dead process has begun: nobody waits for ever.
3. Telling and registering may be done twice; the second time changes nothing.
4. A job that was retried revives those that were cancelled because of it, and those of `all_ended` and `any_completed`
   that still wait do so for it again. It cannot be claimed before that is done, and the claim index marks it.
5. "It has failed" and "it is queued again" are written together with a check that the parent is still so: a worker
   that was slow cannot cancel a child after the parent's retry, nor revive it after its next failure.
6. A job that depends on many has their ids in records of its own, and those that it waits for in others, by a hash of
   the id. Telling takes the id out of one of these; only whoever empties one looks at the others, and whoever finds
   nothing left writes the main record. So the writes of that do not grow with their number.
7. A job that waits for its own children (workflows.py) waits as with `all_ended`. Each child names it, and tells it by
   that: it is in no list of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import ConditionalCheckFailedException, TransactionCanceledException
from penstock.jobs.layouts.layout import Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import (
    ALL_COMPLETED,
    ALL_ENDED,
    ANY_COMPLETED,
    INLINE_DEPENDENCIES,
    BadJob,
    DependsOnPolicy,
    Job,
    JobNotFound,
    waiting_part,
    waiting_parts,
)
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.queries import BATCH_KEYS, JobReader
from penstock.jobs.store.side_items import Action
from penstock.optimistic import Contention

if TYPE_CHECKING:
    from penstock.jobs.store.store import JobStore

_REGISTERED_TOGETHER: Final = 50
"""With so many parents at once: each is two writes of a transaction."""


class _Settled(Exception):
    """There is nothing to write: the job has ended meanwhile, or knows already. `job` is what it is now."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.id)
        self.job = job


class Dependencies:
    def __init__(self, store: JobStore, reader: JobReader, writer: JobWriter) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer

    # ── a new job ────────────────────────────────────────────────────────────────────────────────

    def check_parents(self, job: Job) -> Job:
        """The job, which waits for those that have not completed yet; one that could never begin is refused."""
        policy, waiting, ended, completed = job.depends_on_policy, set[str](), set[str](), 0
        for ids in _batches(list(dict.fromkeys(job.depends_on)), BATCH_KEYS):
            for parent in self._store.get_many(ids):
                if parent.state is State.COMPLETED:
                    completed += 1
                    continue
                waiting.add(parent.id)
                if parent.is_terminal:
                    ended.add(parent.id)
                    if policy == ALL_COMPLETED:
                        raise BadJob(f"{parent.id}, which the job is to wait for, is {parent.state}.")
        if policy == ANY_COMPLETED and waiting == ended and not completed:
            raise BadJob("None of the jobs that the job is to wait for can complete any more: all have failed.")
        if waiting == ended or (policy == ANY_COMPLETED and completed):
            waiting.clear()
        return replace(job, waiting_for=frozenset(waiting), unregistered=bool(waiting))

    def store_apart(self, job: Job) -> tuple[Job, list[Record]]:
        """The job as it is stored, and the records that hold the ids of many (6)."""
        if len(job.depends_on) <= INLINE_DEPENDENCIES:
            return job, []
        ids = tuple(dict.fromkeys(job.depends_on))
        if len(ids) <= INLINE_DEPENDENCIES:
            return replace(job, depends_on=ids), []
        parts = waiting_parts(len(ids)) if job.waiting_for else 0
        stored = replace(job, depends_on=(), waiting_for=frozenset(), dependency_count=len(ids), waiting_parts=parts)
        return stored, [*self._store.layout.dependencies(job, ids), *self.waiting_records(stored, job.waiting_for)]

    def waiting_records(self, job: Job, ids: Iterable[str]) -> list[Record]:
        parts = _by_part(ids, job.waiting_parts)
        return [self._store.layout.waiting(job, part, parts.get(part, ())) for part in range(job.waiting_parts)]

    # ── which they are ───────────────────────────────────────────────────────────────────────────

    def depends_on(self, job: Job) -> list[str]:
        if not job.dependency_count:
            return list(job.depends_on)
        keys = self._store.layout.dependency_keys(job)
        return [one for key in keys for item in self._reader.records([key]) for one in self._store.layout.ids_of(item)]

    def waiting_for(self, job: Job) -> list[str]:
        if not job.waiting_parts:
            return sorted(job.waiting_for)
        return self._waiting_in(job, range(job.waiting_parts))

    def _waiting_in(self, job: Job, parts: Iterable[int]) -> list[str]:
        items = self._reader.records([self._store.layout.waiting_key(job, part) for part in parts])
        return sorted(one for item in items for one in self._store.layout.ids_of(item))

    # ── registering ──────────────────────────────────────────────────────────────────────────────

    def register(self, job: Job) -> Job:
        """Writes the job into the lists of those it waits for (2); the job as it is then."""
        completed = self._register_all(job)
        is_enough = bool(completed) and _policy(job) == ANY_COMPLETED
        if job.waiting_parts and not is_enough:
            self._stop_waiting(job, completed)

        def change(current: Job) -> ChangedJob:
            if not current.unregistered or current.is_terminal:
                raise _Settled(current)
            waits = not is_enough and bool(current.waiting_parts and self.waiting_for(current))
            return transitions.finish_registration(current, completed, self._now(), waits=waits)

        try:
            return self._store.change(self._store.get(job.id), change)
        except _Settled as settled:
            return settled.job

    def settle(self, job: Job) -> None:
        if job.is_terminal:
            self._tell_children(job)
            return
        if job.reviving:
            self._revive_children(job)
        if job.unregistered:
            self.register(job)

    def look_after(self, job: Job) -> None:
        """Sees to a job that has waited for long: those it waits for may be gone, and tell nobody any more."""
        for parent_id in self._register_all(job) if job.is_waiting else ():
            self._end_parent(job.id, parent_id, State.COMPLETED)

    def _register_all(self, job: Job) -> frozenset[str]:
        """Those of the jobs it waits for that have completed. It is told here of those that will tell it nothing."""
        completed = set[str]()
        for ids in _batches(self.waiting_for(job), _REGISTERED_TOGETHER):
            parents = self._reader.get_existing(ids, self._now())
            ended = self._register_batch(job, parents)
            completed |= {parent.id for parent in ended if parent.state is State.COMPLETED}
            failed = [parent for parent in ended if parent.state is not State.COMPLETED]
            gone = set(ids).difference(parent.id for parent in parents)
            for parent_id in gone:
                self._end_parent(job.id, parent_id, None)
            for parent in failed:
                self._tell(job.id, parent)
            if (gone or failed) and self._store.get(job.id).is_terminal:
                break
        return frozenset(completed)

    def _register_batch(self, job: Job, parents: Sequence[Job]) -> list[Job]:
        """Those of the parents that have ended, as they are now. One that may be retried knows the job all the same."""
        now, child = self._now(), self._store.layout.child
        # Its own children know it (7).
        ended = [one for one in parents if one.is_terminal and (one.state is State.COMPLETED or _is_child(one, job))]
        others = [one for one in parents if one.state is not State.COMPLETED and not _is_child(one, job)]
        if len(others) > 1:
            with suppress(JobNotFound):
                others = [one if one.is_terminal else self._store.keep_longer(one) for one in others]
            changes = [(one, transitions.add_child(one, now), [child(one, job.id)]) for one in others]
            if self._writer.change_all(changes):
                return ended + [changed.job for _, changed, _ in changes if changed.job.is_terminal]
        for parent in others:
            registered = self._register(job, parent)
            if registered is None:
                self._end_parent(job.id, parent.id, None)
            elif registered.is_terminal:
                ended.append(registered)
        return ended

    def _register(self, job: Job, parent: Job) -> Job | None:
        """The parent as it is now; None if it is gone."""
        records: list[Record] = []

        def change(current: Job) -> ChangedJob:
            if current.state is State.COMPLETED:
                raise _Settled(current)
            records[:] = [self._store.layout.child(current, job.id)]
            return transitions.add_child(current, self._now())

        try:
            return self._store.change(parent, change, records)
        except _Settled as settled:
            return settled.job
        except JobNotFound:
            return None

    # ── telling ──────────────────────────────────────────────────────────────────────────────────

    def _tell_children(self, job: Job) -> None:
        if job.cancel_children:
            self._cancel_own_children(job)
        for child_id in self._who_waits(job):
            if not self._tell(child_id, job):
                return

        def change(current: Job) -> ChangedJob:
            # One that was retried meanwhile ends once more, and tells those who wait for it then.
            if not current.has_children or current.state is not job.state or current.token != job.token:
                raise _Settled(current)
            return transitions.clear_children(current, self._now())

        with suppress(_Settled, JobNotFound):
            self._store.change(job, change)

    def _who_waits(self, job: Job) -> list[str]:
        """Those who may wait for it, its parent among them (7)."""
        listed = [self._store.layout.child_of(item) for item in self._reader.pages(self._store.layout.children(job.id))]
        return listed if job.parent_id is None else [*listed, job.parent_id]

    def _cancel_own_children(self, job: Job) -> None:
        """Cancels the jobs that its task has made, and theirs: who cancelled it has asked for that."""
        for child in self._store.workflows.made(job.id):
            with suppress(BadTransition, JobNotFound):  # it has ended
                self._store.cancel(child.id, f"{job.id}, which made it, was cancelled", cancel_children=True)

    def _tell(self, child_id: str, parent: Job) -> bool:
        """Tells one child how the parent has ended; False if the parent has been retried meanwhile (5)."""
        state, contention = parent.state, Contention(parent.id)
        while parent.state is state:
            checks = [] if state is State.COMPLETED else [self._is_unchanged(parent)]
            try:
                self._end_parent(child_id, parent.id, state, checks)
                return True
            except Guarded:
                try:
                    parent = self._store.get(parent.id)
                except JobNotFound:
                    self._end_parent(child_id, parent.id, None)
                    return True
            contention.wait()
        return False

    def _end_parent(self, child_id: str, parent_id: str, state: State | None, checks: Sequence[Action] = ()) -> None:
        """One that the child waits for has ended in this state, or is gone. Raises Guarded."""
        with suppress(_Settled, JobNotFound):  # it knows, or it has ended, or expired
            child = self._store.get(child_id)
            if child.is_terminal or not child.is_waiting:
                return
            if child.waiting_parts and not _decides(child, state):
                self._stop_waiting(child, [parent_id], checks)
                if self._waiting_in(child, [waiting_part(parent_id, child.waiting_parts)]):
                    return
            change = lambda current: self._without(current, parent_id, state)  # noqa: E731
            self._store.change(child, change, ending=True, checks=checks)

    def _without(self, child: Job, parent_id: str, state: State | None) -> ChangedJob:
        """The child after this end of a parent (1)."""
        now = self._now()
        if child.is_terminal or not child.is_waiting or (child.waiting_for and parent_id not in child.waiting_for):
            raise _Settled(child)
        if not _decides(child, state):
            if child.waiting_parts and self.waiting_for(child):
                raise _Settled(child)
            if len(child.waiting_for) > 1:
                return transitions.end_parent(child, parent_id, now)
        if state is State.COMPLETED or _policy(child) == ALL_ENDED:
            return transitions.end_waiting(child, now)
        which = "which it waits for" if _policy(child) == ALL_COMPLETED else "the last that it waited for"
        return transitions.cancel(child, f"{parent_id}, {which}, is {state or 'gone'}", now, cancelled_by=parent_id)

    def _stop_waiting(self, job: Job, ids: Collection[str], checks: Sequence[Action] = ()) -> None:
        """Takes the ids out of the records of those that it waits for (6). Raises Guarded."""
        for part, some in _by_part(ids, job.waiting_parts).items():
            update = self._update(job, part, some, "DELETE")
            # A record that is gone with its job is not made again.
            update["ConditionExpression"] = "attribute_exists(#key)"
            update["ExpressionAttributeNames"]["#key"] = next(iter(update["Key"]))
            try:
                if checks:
                    self._store.patient_db.execute(
                        "TransactWriteItems", {"TransactItems": [{"Update": update}, *checks]}
                    )
                else:
                    self._store.patient_db.execute("UpdateItem", update)
            except ConditionalCheckFailedException:  # it is gone with its job
                pass
            except TransactionCanceledException as error:
                raise Guarded(0, None) from error

    def _update(self, job: Job, part: int, ids: Iterable[str], verb: str) -> dict[str, Any]:
        return {
            "TableName": self._store.layout.table,
            "Key": self._store.layout.waiting_key(job, part),
            "UpdateExpression": f"{verb} #ids :ids",
            "ExpressionAttributeNames": {"#ids": "ids"},
            "ExpressionAttributeValues": {":ids": {"SS": sorted(ids)}},
        }

    def _is_unchanged(self, job: Job) -> Action:
        """A part of a transaction that is refused if the job is not as it was read (5)."""
        check = {
            "TableName": self._store.layout.table,
            "Key": self._store.layout.main_key(job.id),
            "ConditionExpression": "#version = :version",
            "ExpressionAttributeNames": {"#version": self._store.layout.version_name},
            "ExpressionAttributeValues": {":version": {"N": str(job.version)}},
        }
        return {"ConditionCheck": check}

    # ── reviving ─────────────────────────────────────────────────────────────────────────────────

    def is_to_be_revived(self, job: Job) -> bool:
        """Whether a job that it was cancelled because of has not ended any more, so that a worker will revive it."""
        seen: set[str] = set()
        left = [job]
        while left:
            one = left.pop()
            if one.state is not State.CANCELLED or one.cancelled_by is None:
                continue
            ids = self.depends_on(one) if one.depends_on_policy == ANY_COMPLETED else [one.cancelled_by]
            parents = self._store.get_existing([parent for parent in ids if parent not in seen])
            if any(not parent.is_terminal for parent in parents):
                return True
            seen.update(ids)
            left += parents
        return False

    def _revive_children(self, job: Job) -> None:
        """Revives those that were cancelled because of the job, which is queued again (4)."""
        revived: list[Job] = []
        contention = Contention(job.id)
        children = self._who_waits(job)
        while children:
            try:
                revived += self._revive(children[-1], job)
                children.pop()
            except Guarded:
                job = self._store.get(job.id)
                if not job.reviving:
                    break  # another worker has done it
                contention.wait()

        def change(current: Job) -> ChangedJob:
            if not current.reviving:
                raise _Settled(current)
            return transitions.finish_revival(current, self._now())

        if not children:
            with suppress(_Settled, JobNotFound):
                self._store.change(job, change)
        for child in revived:
            self.register(child)

    def _revive(self, child_id: str, parent: Job) -> list[Job]:
        """The child, if it has been revived. Raises Guarded if the parent has changed."""
        try:
            child = self._store.get(child_id)
            if child.state is State.QUEUED and child.is_waiting and _policy(child) != ALL_COMPLETED:
                if _is_gathering(child) == _is_child(parent, child):
                    self._wait_again(child, parent)
            elif _is_cancelled_by(child, parent):
                return [self._revive_cancelled(self._store.keep_longer(child), parent)]
        except _Settled as settled:
            if _is_cancelled_by(settled.job, parent):  # just now
                return self._revive(child_id, parent)
        except JobNotFound:
            pass
        return []

    def _revive_cancelled(self, child: Job, parent: Job) -> Job:
        records: list[Record] = []

        def change(current: Job) -> ChangedJob:
            if not _is_cancelled_by(current, parent):
                raise _Settled(current)
            changed = transitions.revive(current, parent.id, self._now())
            records[:] = self.waiting_records(changed.job, self.depends_on(current))
            return changed

        def refuse(current: Job) -> ChangedJob:
            if not _is_cancelled_by(current, parent):
                raise _Settled(current)
            reason = f"{parent.id} is queued again, but another job holds its unique key {current.unique_key!r} now"
            return transitions.refuse_revival(current, reason, self._now())

        hold, checks = self._store.side_items.hold_unique, [self._is_unchanged(parent)]
        try:
            return self._store.change(child, change, records, guards=hold, checks=checks)
        except BadJob:
            raise _Settled(self._store.change(child, refuse, checks=checks)) from None

    def _wait_again(self, child: Job, parent: Job) -> None:
        """The child, which did not wait for the parent any more, does so again. Raises Guarded, _Settled."""
        checks = [self._is_unchanged(parent)]
        if child.waiting_parts:
            part = waiting_part(parent.id, child.waiting_parts)
            checks.append({"Update": self._update(child, part, [parent.id], "ADD")})

        def change(current: Job) -> ChangedJob:
            if current.is_terminal or not current.is_waiting or parent.id in self.waiting_for(current):
                raise _Settled(current)
            return transitions.wait_again(current, parent.id, self._now())

        self._store.change(child, change, checks=checks)

    def _now(self) -> float:
        return self._store.clock.now()


def _decides(child: Job, state: State | None) -> bool:
    """Whether one end of a parent decides whether the child begins, whatever becomes of the others."""
    if state is State.COMPLETED:
        return _policy(child) == ANY_COMPLETED
    return _policy(child) == ALL_COMPLETED


def _is_child(job: Job, of: Job) -> bool:
    return job.parent_id == of.id


def _is_gathering(job: Job) -> bool:
    """Whether what it waits for are its own children (7): it has run, and was suspended there."""
    return job.wait is not None and job.wait.children > 0


def _policy(job: Job) -> DependsOnPolicy:
    return ALL_ENDED if _is_gathering(job) else job.depends_on_policy


def _is_cancelled_by(child: Job, parent: Job) -> bool:
    """Whether it was cancelled because of the parent, or because nothing it depends on could complete any more."""
    if child.state is not State.CANCELLED or child.cancelled_by is None:
        return False
    return child.cancelled_by == parent.id or child.depends_on_policy == ANY_COMPLETED


def _batches(ids: Sequence[str], most: int) -> Iterable[Sequence[str]]:
    return (ids[start : start + most] for start in range(0, len(ids), most))


def _by_part(ids: Iterable[str], parts: int) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in ids if parts else ():
        found.setdefault(waiting_part(one, parts), []).append(one)
    return found
