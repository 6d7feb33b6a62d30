"""Who does the work: claims a job, does its stages one after the other, and says what became of it.

1. One worker at a time has a job: the lease is granted by a conditional write, renewed while a stage runs, and what a
   former holder writes is refused.
2. A stage's file is saved first, and its checkpoint, which points to it, second: a checkpoint that is there is whole.
3. When `time_limit_seconds` less `safety_margin_seconds` are over, the job is handed over at a checkpoint; another
   worker goes on after it. Each worker does one stage at least, so that there always is an end. A worker that is told
   to stop hands over likewise.
4. Errors that may pass are tried again a few times; others fail the job, with what is wrong and in which stage.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import orjson

from penstock.errors import PenstockError
from penstock.files import SavedFile
from penstock.jobs.model.state import State
from penstock.leases import (
    DEFAULT_LEASE_SECONDS,
    HeldLease,
    LeaseLost,
    LeaseRenewer,
    checked_seconds,
    new_owner,
)
from penstock.retry import Backoff, message_of
from penstock.systems.security_assistant.drawing.agents import Agents, default_agents
from penstock.systems.security_assistant.jobs import transitions
from penstock.systems.security_assistant.jobs.job import DrawingJob, Event, new_event
from penstock.systems.security_assistant.jobs.stages import Materials, Outcome, Stage, remaining, stages_of
from penstock.systems.security_assistant.jobs.storage import Storage
from penstock.systems.security_assistant.jobs.store import Conflict

TIME_LIMIT_SECONDS: Final = 900.0
SAFETY_MARGIN_SECONDS: Final = 60.0
RETRIES: Final = 3
_BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=300.0)
_LOG = logging.getLogger("penstock.security")

Watch = Callable[[str, DrawingJob], None]
"""Hears of each checkpoint: the stage's name, and the job as it is then."""


class Processor:
    """A worker on one storage."""

    def __init__(
        self,
        storage: Storage,
        agents: Agents | None = None,
        *,
        owner: str | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        time_limit_seconds: float = TIME_LIMIT_SECONDS,
        safety_margin_seconds: float = SAFETY_MARGIN_SECONDS,
        watch: Watch = lambda stage, job: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        if not 0 <= safety_margin_seconds <= time_limit_seconds:
            raise ValueError("safety_margin_seconds is 0 to time_limit_seconds")
        self.storage = storage
        self.agents = agents or default_agents()
        self.owner = owner or new_owner()
        self._lease_seconds = checked_seconds(lease_seconds)
        self._budget_seconds = time_limit_seconds - safety_margin_seconds
        self._watch = watch
        self._stopping = stopping

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────

    def process_next(self) -> DrawingJob | None:
        """Does the next job that waits or was interrupted; None if there is none."""
        for job in self._candidates():
            claimed = self.claim(job)
            if claimed is not None:
                return self.run(claimed)
        return None

    def _candidates(self) -> Iterator[DrawingJob]:
        # Those that were begun first: somebody has waited for them longest.
        yield from self.storage.interrupted_jobs()
        yield from self.storage.waiting()

    def process(self, job: DrawingJob) -> DrawingJob | None:
        """Does this job; None if another worker has it, or it has ended."""
        claimed = self.claim(job)
        return None if claimed is None else self.run(claimed)

    def claim(self, job: DrawingJob) -> DrawingJob | None:
        """The job, ours now; None where there is nothing to claim any more (1)."""
        now = self.storage.now()
        if job.state is State.QUEUED and (job.retry_at is None or job.retry_at <= now):
            claimed = transitions.started(job, self.owner, self._lease_seconds, now)
        elif job.state is State.PROCESSING and (job.lease is None or job.lease.takeable_at <= now):
            claimed = transitions.taken_over(job, self.owner, self._lease_seconds, now)
        else:
            return None
        told: list[Event] = []
        if claimed.error is not None and claimed.state is State.FAILED:
            told.append(new_event(claimed, "error_occurred", now, str(claimed.error["message"])))
        try:
            self.storage.store.replace(claimed, told)
        except Conflict:
            return None
        return claimed if claimed.state is State.PROCESSING else None

    # ── working ──────────────────────────────────────────────────────────────────────────────────

    def run(self, job: DrawingJob) -> DrawingJob:
        """Does the stages that are left of a job that is ours; the job as it is then.

        Raises LeaseLost if another worker has it by then.
        """
        stage = ""
        begun = self.storage.now()
        with self._kept(job):
            try:
                stages, reason = remaining(self.storage, job)
                if reason:
                    self._tell_of_repair(job, stages[0], reason)
                for number, one in enumerate(stages):
                    over = self.storage.now() - begun >= self._budget_seconds
                    if (number and over) or self._stopping():
                        return self._hand_over(job)
                    stage = one.name
                    job = self._do(job, one)
                return self._complete(job)
            except LeaseLost:
                raise
            except Exception as error:  # an agent may raise anything; the job says what
                return self._fail(job, stage, error)
            except BaseException:  # Ctrl-C, or the process is told to end: another worker goes on
                with suppress(PenstockError):
                    self._hand_over(job)
                raise

    def _do(self, job: DrawingJob, stage: Stage) -> DrawingJob:
        begun = self.storage.now()
        job = self._begin(job, stage, begun)
        outcome = stage.run(Materials(self.storage, job, self.agents))
        version = job.stage_versions[stage.name]
        data = orjson.dumps(outcome.data, option=orjson.OPT_INDENT_2)
        point = self.storage.save(job.name.path(f"checkpoint_{stage.name}_v{version}.json"), data)
        outputs = {kind: self.storage.save(job.name.path(name), made) for kind, (name, made) in outcome.outputs.items()}
        job = self._note(job, stage, outcome, version, point, outputs, begun)
        self._watch(stage.name, job)
        return job

    def _begin(self, job: DrawingJob, stage: Stage, now: float) -> DrawingJob:
        names = [one.checkpoint for one in stages_of(job)]
        stale = frozenset(names[names.index(stage.checkpoint) :])
        told = new_event(job, "agent_started", now, f"{stage.name}, attempt {job.attempt}", agent=stage.agent)
        return self.storage.change_held(
            job, lambda current: transitions.stage_begun(current, stage.name, stale, now), lambda _: [told]
        )

    def _note(
        self,
        job: DrawingJob,
        stage: Stage,
        outcome: Outcome,
        version: int,
        saved: SavedFile,
        outputs: Mapping[str, SavedFile],
        begun: float,
    ) -> DrawingJob:
        """The checkpoint, now that its files are there (2)."""
        now = self.storage.now()
        point = transitions.checkpoint(saved, version, outcome.summary, now)
        metadata = {**outcome.metadata, "token_usage": _with_tokens(job, outcome)}
        told = new_event(
            job,
            "agent_completed",
            now,
            outcome.message,
            agent=stage.agent,
            duration_ms=round((now - begun) * 1000),
            token_usage=outcome.tokens,
            pages_processed=job.metadata.get("total_pages", 0),
        )
        return self.storage.change_held(
            job,
            lambda current: transitions.stage_done(
                current,
                stage.checkpoint,
                point,
                {one.key: one for one in outputs.values()},
                now,
                outputs={kind: one.key for kind, one in outputs.items()},
                metadata=metadata,
            ),
            lambda _: [told],
        )

    def _complete(self, job: DrawingJob) -> DrawingJob:
        now = self.storage.now()
        took = {"processing_time_seconds": round(now - (job.started_at or now), 3)}
        return self.storage.change_held(job, lambda current: transitions.completed(current, took, now))

    def _hand_over(self, job: DrawingJob) -> DrawingJob:
        now = self.storage.now()
        return self.storage.change_held(job, lambda current: transitions.handed_over(current, now))

    def _fail(self, job: DrawingJob, stage: str, error: Exception) -> DrawingJob:
        now = self.storage.now()
        form = transitions.error_form(type(error).__name__, message_of(error, 4_000) or "it gave no reason", stage)
        if not isinstance(error, PenstockError):
            _LOG.error("%s failed in stage %s", job.id, stage, exc_info=error)

        def change(current: DrawingJob) -> DrawingJob:
            if isinstance(error, PenstockError) and error.retryable and current.failures < RETRIES:
                return transitions.retrying(current, form, now + _BACKOFF.bound(current.failures + 1), now)
            return transitions.failed(current, form, now)

        told = new_event(job, "error_occurred", now, form["message"], error=form["kind"], stage=stage)
        return self.storage.change_held(job, change, lambda _: [told])

    def _tell_of_repair(self, job: DrawingJob, stage: Stage, reason: str) -> None:
        told = f"The stage {stage.name} is done again: {reason}"
        self.storage.add_event(new_event(job, "error_occurred", self.storage.now(), told, stage=stage.name))

    # ── the lease ────────────────────────────────────────────────────────────────────────────────

    def _kept(self, job: DrawingJob) -> LeaseRenewer:
        """Renews the lease while a stage runs. A worker that has lost it is told so at its next write."""

        def renew() -> None:
            self.storage.change_held(job, lambda current: transitions.renewed(current, self.storage.now()))

        lease = HeldLease(job.id, self._lease_seconds, renew)
        return LeaseRenewer(lambda: (lease,), name="penstock-security-lease")


def _with_tokens(job: DrawingJob, outcome: Outcome) -> dict[str, Any]:
    """What all agents have used so far; a stage that is done twice has cost twice."""
    used = dict(job.metadata.get("token_usage", {}).get("by_agent", {}))
    if outcome.agent != "pdf":
        used[outcome.agent] = used.get(outcome.agent, 0) + outcome.tokens
    return {"total": sum(used.values()), "by_agent": used}


_IDLE_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0


class Workers:
    """`wake` tells them that there may be something to do."""

    def __init__(self, storage: Storage, agents: Agents, count: int = 1) -> None:
        self._wish = threading.Event()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(storage, agents), name="penstock-security", daemon=True)
            for _ in range(count)
        ]

    @contextmanager
    def running(self) -> Iterator[Workers]:
        """Ended, they hand their jobs over at the next checkpoint."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            self._wish.set()
            for thread in self._threads:
                thread.join()

    def wake(self) -> None:
        self._wish.set()

    def _work(self, storage: Storage, agents: Agents) -> None:
        processor = Processor(storage, agents, stopping=self._over.is_set)
        while not self._over.is_set():
            self._wish.clear()
            pause = _IDLE_SECONDS
            try:
                if processor.process_next() is not None:
                    continue
            except LeaseLost as lost:
                _LOG.warning("%s", lost)
                continue
            except Exception:  # the outermost place: the database may be away, and come back
                _LOG.exception("A worker could not go on, and tries again in %g s", _AGAIN_SECONDS)
                pause = _AGAIN_SECONDS
            self._wish.wait(pause)
