"""Workers whose clocks differ, in every order: claims, renewals, reports, freezes, expiries, steals and ends.

A model in Python says what each call should do; after each step the whole table is compared with it. The invariants
are those of leases.py (1-5), jobs/store/store.py (1-5) and jobs/store/side_items.py (1-2).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from job_worlds import DAY, FAILURE, START, items, new_store

from penstock.client.database import connect
from penstock.clock import ManualClock, utc_text
from penstock.jobs.layouts.item_collection import CollectionLayout, claim_place
from penstock.jobs.model.job import Job, JobCancelled, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import MOST_CRASHES
from penstock.jobs.store.store import BadJob, JobStore, LimitReached
from penstock.leases import AbandonedLease, LeaseLost, allowance_seconds

LEASE = 10.0
LIMIT = 2
SKEWS = (0.0, allowance_seconds(LEASE) / 2, -allowance_seconds(LEASE) / 2)
"""By how much the workers' clocks are off: no two differ by more than the allowance."""


NUMBER = st.integers(0, 5)
WHICH = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8, 13])


class Skewed:
    """A worker's own clock."""

    def __init__(self, true: ManualClock, skew: float) -> None:
        self._true = true
        self._skew = skew

    def now(self) -> float:
        return self._true.now() + self._skew


@dataclass
class Modelled:
    """What a job should be."""

    id: str
    unique: str | None
    limited: bool
    state: State = State.QUEUED
    token: int = 0
    believed_until: float = 0.0
    """Until when its holder takes itself for one, by the true time (leases.py, 4)."""
    crashes: int = 0
    suspect: bool = False
    cancel_asked: bool = False
    completions: int = 0
    entries: list[str] = field(default_factory=list)
    checkpoints: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=lambda: ["created"])

    @property
    def is_terminal(self) -> bool:
        return self.state in (State.COMPLETED, State.FAILED, State.CANCELLED)

    def moved(self, event: str, state: State) -> None:
        self.events.append(event)
        self.state = state


@dataclass(frozen=True)
class Held:
    """A job as one of the workers remembers it: the newest value, or one from before it was frozen."""

    worker: int
    job: Job


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock(START)
        self.db = connect(":memory:")
        new_store(self.db, self.clock, shards=1)
        self.stores = [
            JobStore(self.db, CollectionLayout("jobs", shards=1), clock=Skewed(self.clock, skew)) for skew in SKEWS
        ]
        self.model: dict[str, Modelled] = {}
        self.serial = 0
        self.long_waits = 0
        self.values: list[Held] = []
        for limited in (False, True, True):
            self._enqueue(0, None, limited)
        self._claim(1, self._job(0))
        self._claim(2, self._job(1))

    def _job(self, number: int) -> str:
        return list(self.model)[number % len(self.model)]

    def _holder(self, which: int) -> Held:
        """One of the values that workers have in hand: mostly a new one, now and then one from long ago."""
        return self.values[-1 - which % len(self.values)]

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()

    # ── making ───────────────────────────────────────────────────────────────────────────────────

    @rule(worker=st.sampled_from(range(3)), unique=st.sampled_from([None, "a"]), limited=st.booleans())
    def enqueue(self, worker: int, unique: str | None, limited: bool) -> None:
        self._enqueue(worker, unique, limited)

    def _enqueue(self, worker: int, unique: str | None, limited: bool) -> None:
        limit_key = "k" if limited else None
        job, is_new = self.stores[worker].create(
            NewJob("t", {}, unique_key=unique, concurrency_key=limit_key, max_concurrent=LIMIT)
        )
        holder = self._unique_holder(unique)
        assert is_new == (holder is None)
        if holder is not None:
            assert job.id == holder.id
            return
        self.model[job.id] = Modelled(job.id, unique, limited)

    def _unique_holder(self, unique: str | None) -> Modelled | None:
        holders = [one for one in self.model.values() if unique and one.unique == unique and not one.is_terminal]
        assert len(holders) <= 1
        return holders[0] if holders else None

    # ── workers ──────────────────────────────────────────────────────────────────────────────────

    @rule(worker=st.sampled_from(range(3)), number=NUMBER)
    def claim(self, worker: int, number: int) -> None:
        self._claim(worker, self._job(number))

    def _claim(self, worker: int, job_id: str) -> None:
        store, model = self.stores[worker], self.model[job_id]
        if self._is_gone(model):
            return
        now = store.clock.now()
        seen = store.get(job_id)
        if model.state is State.QUEUED:
            if model.limited and len(self._slots()) >= LIMIT:
                self._refused(LimitReached, lambda: store.claim(seen, f"w{worker}", LEASE))
                return
            assert claim_place(seen) is not None
            if seen.run_at > max(now, seen.updated_at):
                assert store.claim(seen, f"w{worker}", LEASE) is None
                return
            self._granted(worker, model, "started", store.claim(seen, f"w{worker}", LEASE))
            return
        if model.state is State.PROCESSING and seen.lease is not None and seen.lease.takeable_at <= now:
            self._taken(worker, model, seen)
            return
        assert store.claim(seen, f"w{worker}", LEASE) is None

    @rule(worker=st.sampled_from(range(3)), number=NUMBER)
    def set_aside(self, worker: int, number: int) -> None:
        """A worker that was refused a slot moves the job to the pool of its key; not if a slot is free by then."""
        store, model = self.stores[worker], self.model[self._job(number)]
        if not model.limited or model.state is not State.QUEUED:
            return
        seen = store.get(model.id)
        if seen.run_at > max(store.clock.now(), seen.updated_at):
            return
        assert store.pools.set_aside_limited([seen]) == (len(self._slots()) >= LIMIT)

    @rule(worker=st.sampled_from(range(3)))
    def look_at_limits(self, worker: int) -> None:
        for key in self.stores[worker].claimable("default", 10).limits:
            self.stores[worker].pools.unblock(key)

    @rule(worker=st.sampled_from(range(3)), number=NUMBER, excuse=st.sampled_from(["", "it was told to stop"]))
    def claim_with_proof(self, worker: int, number: int, excuse: str) -> None:
        """The holder's process has ended; a write of its own may still be on its way, and is refused (2, 3)."""
        job_id = self._job(number)
        if self._is_gone(self.model[job_id]) or self.model[job_id].state is not State.PROCESSING:
            return
        seen = self.stores[worker].get(job_id)
        assert seen.lease is not None
        held = seen.lease
        lease = AbandonedLease(held.owner, held.token, held.until, held.seconds, has_ended=True, excuse=excuse)
        self.model[job_id].believed_until = 0.0
        self._taken(worker, self.model[job_id], replace(seen, lease=lease), excuse)

    def _taken(self, worker: int, model: Modelled, seen: Job, excuse: str = "") -> None:
        got = self.stores[worker].claim(seen, f"w{worker}", LEASE)
        # 1, 3, 4: the one before has ended or stopped believing in its lease, however the clocks differ.
        assert model.believed_until <= self.clock.now() + 1e-3
        if model.cancel_asked:
            model.moved("cancelled", State.CANCELLED)
            assert got is None
            return
        model.crashes += model.suspect and not excuse
        if model.suspect and not excuse and model.crashes >= MOST_CRASHES:
            model.moved("parked", State.FAILED)
            assert got is None
            return
        model.suspect = model.suspect or not excuse
        self._granted(worker, model, "taken_over", got)

    def _granted(self, worker: int, model: Modelled, event: str, got: Job | None) -> None:
        assert got is not None
        assert got.token == model.token + 1, "2: tokens only grow"
        model.token = got.token
        model.believed_until = self.clock.now() + LEASE
        model.moved(event, State.PROCESSING)
        self.values.append(Held(worker, got))

    @rule(worker=st.sampled_from(range(3)), which=WHICH)
    def claim_what_was_seen_before(self, worker: int, which: int) -> None:
        """A candidate that has changed since it was read is nobody's."""
        current = self.stores[worker]
        seen = self._holder(which).job
        model = self.model[seen.id]
        if self._is_gone(model) or current.get(seen.id).version == seen.version:
            return
        before = items(current)
        assert current.claim(seen, f"w{worker}", LEASE) is None
        assert items(current) == before

    @rule(which=WHICH)
    def renew(self, which: int) -> None:
        holder = self._holder(which)
        self._write(holder, lambda store: store.renew(holder.job), is_renewal=True)

    @rule(which=WHICH, progress=st.one_of(st.none(), st.integers(0, 100)))
    def report(self, which: int, progress: int | None) -> None:
        holder = self._holder(which)
        message = self._words()
        self._write(holder, lambda store: store.report(holder.job, progress=progress, message=message), entry=message)

    @rule(which=WHICH, name=st.sampled_from(["rows", "pages"]))
    def checkpoint(self, which: int, name: str) -> None:
        holder = self._holder(which)
        message = self._words()
        value = self.serial
        report = lambda store: store.report(holder.job, message=message, checkpoint=name, value=value)  # noqa: E731
        after = self._write(holder, report, entry=message)
        if isinstance(after, Held):
            model = self.model[holder.job.id]
            model.checkpoints[name] = value
            model.crashes, model.suspect = 0, False

    @rule(which=WHICH)
    def complete(self, which: int) -> None:
        holder = self._holder(which)
        if isinstance(self._write(holder, lambda store: store.complete(holder.job, {"n": 1})), Held):
            model = self.model[holder.job.id]
            model.completions += 1
            model.moved("completed", State.COMPLETED)

    @rule(which=WHICH)
    def fail(self, which: int) -> None:
        holder = self._holder(which)
        if isinstance(self._write(holder, lambda store: store.fail(holder.job, FAILURE)), Held):
            self.model[holder.job.id].moved("failed", State.FAILED)

    @rule(which=WHICH, later=st.sampled_from([0.0, 5.0, 40 * DAY]))
    def fail_and_retry(self, which: int, later: float) -> None:
        holder = self._holder(which)
        at = self.clock.now() + later
        if isinstance(self._write(holder, lambda store: store.fail(holder.job, FAILURE, retry_at=at)), Held):
            self.model[holder.job.id].suspect = False
            self.model[holder.job.id].moved("retrying", State.QUEUED)

    @rule(which=WHICH)
    def requeue(self, which: int) -> None:
        holder = self._holder(which)
        if isinstance(self._write(holder, lambda store: store.requeue(holder.job, "it stops")), Held):
            self.model[holder.job.id].moved("handed_over", State.QUEUED)

    @rule(which=WHICH)
    def end_cancelled(self, which: int) -> None:
        holder = self._holder(which)
        model = self.model[holder.job.id]
        if self._is_gone(model) or not (model.cancel_asked or self._is_fenced(holder)):
            return
        end = lambda: self.stores[holder.worker].end_cancelled(holder.job)  # noqa: E731
        if self._is_fenced(holder):
            self._refused(LeaseLost, end)
        else:
            end()
            model.moved("cancelled", State.CANCELLED)

    def _write(
        self, holder: Held, write: Callable[[JobStore], Job], entry: str | None = None, *, is_renewal: bool = False
    ) -> Held | None:
        """A write under a lease: done by the holder, even if it has been frozen for long; refused to everybody else."""
        store, model = self.stores[holder.worker], self.model[holder.job.id]
        if self._is_gone(model):
            return None
        if self._is_fenced(holder):
            self._refused(LeaseLost, lambda: write(store))
            return None
        if model.cancel_asked and not is_renewal:
            self._refused(JobCancelled, lambda: write(store))
            return None
        after = write(store)
        if after.lease is not None:
            assert holder.job.lease is not None
            assert (after.lease.token, after.lease.owner) == (holder.job.lease.token, holder.job.lease.owner), "5"
            model.believed_until = self.clock.now() + LEASE
        if entry is not None:
            model.entries.append(entry)
        self.values.append(Held(holder.worker, after))
        return self.values[-1]

    def _is_fenced(self, holder: Held) -> bool:
        model = self.model[holder.job.id]
        return model.state is not State.PROCESSING or model.token != holder.job.token

    def _refused(self, kind: type[Exception], write: Callable[[], object]) -> None:
        before = items(self.stores[0])
        try:
            write()
        except kind:
            assert items(self.stores[0]) == before, "what is refused changes nothing"
        else:
            raise AssertionError(f"{kind.__name__} was not raised")

    # ── anybody ──────────────────────────────────────────────────────────────────────────────────

    @rule(number=NUMBER)
    def cancel(self, number: int) -> None:
        job_id = self._job(number)
        model = self.model[job_id]
        if self._is_gone(model):
            return
        if model.is_terminal:
            self._refused(BadTransition, lambda: self.stores[0].cancel(job_id, "unwanted"))
            return
        self.stores[0].cancel(job_id, "unwanted")
        if model.state is State.PROCESSING:
            model.cancel_asked = True
            model.events.append("cancel_asked")
        else:
            model.moved("cancelled", State.CANCELLED)

    @rule(number=NUMBER)
    def retry(self, number: int) -> None:
        job_id = self._job(number)
        model = self.model[job_id]
        if self._is_gone(model):
            return
        if model.state is not State.FAILED:
            self._refused(BadTransition, lambda: self.stores[0].retry(job_id))
        elif model.unique and self._unique_holder(model.unique):
            try:
                self.stores[0].retry(job_id)
            except BadJob:
                return
            raise AssertionError("its unique key is held by another")
        else:
            self.stores[0].retry(job_id)
            model.crashes, model.suspect = 0, False
            model.cancel_asked = False
            model.moved("retried", State.QUEUED)

    @rule(worker=st.sampled_from(range(3)), number=NUMBER)
    def log(self, worker: int, number: int) -> None:
        job_id = self._job(number)
        if not self._is_gone(self.model[job_id]):
            message = self._words()
            self.stores[worker].log(job_id, message)
            self.model[job_id].entries.append(message)

    @rule(worker=st.sampled_from(range(3)), number=NUMBER, after=st.sampled_from([-0.6, 0.0, 0.6, 1.0, 1.6]))
    def claim_at_the_edge(self, worker: int, number: int, after: float) -> None:
        """Just before and just after the lease can be taken."""
        job_id = self._job(number)
        lease = None if self._is_gone(self.model[job_id]) else self.stores[0].get(job_id).lease
        if lease is not None and lease.until + after > self.clock.now():
            self.clock.advance(lease.until + after - self.clock.now())
        self._claim(worker, job_id)

    @rule(seconds=st.sampled_from([0.2, 3.0, LEASE - 0.4, LEASE + 1.2, 4 * LEASE]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.long_waits < 2)
    @rule()
    def weeks_pass(self) -> None:
        """A worker runs and looks at the queue, but has no time for these jobs."""
        self.long_waits += 1
        for _ in range(6):
            self.clock.advance(3 * DAY)
            self.stores[0].claimable("default", 1)

    def _words(self) -> str:
        self.serial += 1
        return f"entry {self.serial}"

    def _is_gone(self, model: Modelled) -> bool:
        """What has ended is forgotten after a while; what has not never is."""
        if not model.is_terminal:
            return False
        key = {"job_id": {"S": model.id}, "record": {"S": "main"}}
        main = self.db.execute("GetItem", {"TableName": "jobs", "Key": key})["Item"]
        # By the fastest clock: near the moment itself, nothing is said.
        return int(main["ttl"]["N"]) <= self.clock.now() + max(SKEWS)

    def _slots(self) -> set[str]:
        return {one.id for one in self.model.values() if one.limited and one.state is State.PROCESSING}

    # ── what always holds ────────────────────────────────────────────────────────────────────────

    @invariant()
    def everything_is_as_modelled(self) -> None:
        if not hasattr(self, "model"):
            return
        found = items(self.stores[0])
        for model in self.model.values():
            if not self._is_gone(model):
                self._check_job(model)
            expiries = {one["ttl"]["N"] for one in found if one["job_id"]["S"] == model.id}
            assert len(expiries) == 1, "store 5: all records expire together"
        self._check_guards(found)
        self._check_claim_index(found)

    def _check_job(self, model: Modelled) -> None:
        history = self.stores[2].history(model.id)
        job = history.job
        assert (job.state, job.token) == (model.state, model.token)
        assert (job.crashes, job.suspect) == (model.crashes, model.suspect)
        assert (job.lease is not None) == (model.state is State.PROCESSING)
        assert (job.cancel_reason is not None) == (model.cancel_asked or model.state is State.CANCELLED)
        assert [entry.number for entry in history.entries] == list(range(1, job.entries + 1)), "store 4"
        assert [entry.message for entry in history.entries] == model.entries, "store 4"
        values = {one.name: self.stores[2].load(job, one.data) for one in history.checkpoints}
        assert values == model.checkpoints, "no checkpoint is lost"
        assert [event.type for event in history.events] == model.events
        assert model.completions <= 1

    def _check_guards(self, found: list[dict[str, Any]]) -> None:
        guards = {one["job_id"]["S"]: one for one in found if one["job_id"]["S"].partition("#")[1]}
        unique = {one["holder"]["S"] for name, one in guards.items() if name.startswith("unique#")}
        assert unique == {one.id for one in self.model.values() if one.unique and not one.is_terminal}, "queues 1"
        slots = set(guards.get("limit#k", {}).get("holders", {}).get("SS", []))
        assert slots == self._slots(), "queues 2"
        assert len(slots) <= LIMIT

    def _check_claim_index(self, found: list[dict[str, Any]]) -> None:
        answer = self.db.execute("Scan", {"TableName": "jobs", "IndexName": "by-claim"})
        places = {one["job_id"]["S"]: (one["claim_pool"]["S"], one["claim_order"]["S"]) for one in answer["Items"]}
        limit = places.pop("limit#k", None)
        if any(pool == "#limit#k" for pool, _ in places.values()):
            assert limit is not None, "side_items 3: somebody looks at a limit for which jobs wait"
            assert self._slots() or limit[1] <= utc_text(self.clock.now() + max(SKEWS)), "and soon if nobody runs"
        layout = self.stores[0].layout
        wanted = {}
        for one in found:
            if one["record"]["S"] == "main" and "task" in one:
                job = layout.job(one)
                place = claim_place(job)
                assert (place is None) == job.is_terminal, "no job has children here"
                if place is not None:
                    wanted[job.id] = ("#limit#k" if place[0] == "limit" else f"default#{place[0]}#0", place[1])
        assert {job_id: pool for job_id, (pool, _) in places.items()} == {
            job_id: pool for job_id, (pool, _) in wanted.items()
        }
        for job_id, (_, order) in places.items():
            assert order.partition("Z")[0][:-2] == wanted[job_id][1].partition("Z")[0][:-2], "but for a millisecond"


_EXPLORING = bool(os.environ.get("PENSTOCK_EXPLORE"))
# Making a long walk shorter takes minutes: a red build need not wait for it.
_PHASES = tuple(phase for phase in Phase if _EXPLORING or phase is not Phase.shrink)
Interleavings.TestCase.settings = settings(
    max_examples=1_000 if _EXPLORING else 60, stateful_step_count=40, phases=_PHASES
)
TestInterleavings = Interleavings.TestCase
