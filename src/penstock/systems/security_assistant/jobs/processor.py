"""The worker: it claims a job, runs its stages one after the other, and stores how it ended.

1. One worker at a time has a job: the lease is granted by a conditional write, renewed while a stage runs, and what a
   former holder writes is refused.
2. A stage's file is saved first, and its checkpoint, which points to it, second: a checkpoint that is there is whole.
3. When `time_limit_seconds` less `safety_margin_seconds` are over, the job is requeued at a checkpoint, and another
   worker continues it. Each worker does one stage at least, so that there always is an end. A worker that is told to
   stop requeues likewise. With `ends_in_time` the limit is the worker's own: it counts from its beginning, and
   `process_all` ends when it is over. Otherwise it is that of each job.
4. Errors that may pass are retried a few times; others fail the job, with what is wrong and in which stage.
5. It is no Worker of `penstock.jobs`: drawings are in tables without an index of what may be claimed, whose keys are
   not the jobs' ids, or in a jobs.json. What happens to a job is the same (transitions.py).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import orjson

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.state import State
from penstock.leases import (
    DEFAULT_LEASE_SECONDS,
    HeldLease,
    LeaseLost,
    LeaseRenewer,
    checked_seconds,
    new_owner,
)
from penstock.optimistic import Conflict
from penstock.retry import Failure, RetryPolicy
from penstock.systems.security_assistant.drawing.agents import Agents, default_agents
from penstock.systems.security_assistant.jobs import transitions
from penstock.systems.security_assistant.jobs.job import Checkpoint, DrawingJob, Event, new_event
from penstock.systems.security_assistant.jobs.stages import Materials, Outcome, Stage, remaining, stages_of
from penstock.systems.security_assistant.jobs.storage import Storage

TIME_LIMIT_SECONDS: Final = 900.0
SAFETY_MARGIN_SECONDS: Final = 60.0
_RETRIES: Final = RetryPolicy(3, on=(PenstockError,))
_MESSAGE_CHARACTERS: Final = 4_000
_IDLE_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0
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
        ends_in_time: bool = False,
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
        self._begun = storage.now() if ends_in_time else None
        self._watch = watch
        self._stopping = stopping
        self._is_ending = False
        """Whether the write that ends this attempt has begun."""

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────

    def process_all(
        self,
        on_end: Callable[[DrawingJob], None],
        *,
        once: bool = False,
        wait: Callable[[float], object] = time.sleep,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        """Processes jobs as they come, until it is told to stop; with `once`, until none waits."""
        while not self._stopping():
            try:
                done = self.process_next()
            except LeaseLost as lost:
                _LOG.warning("%s", lost)
                continue
            if done is not None:
                on_end(done)
            if self._begun is not None and self._is_over(self._begun):
                return
            if done is not None:
                continue
            if once:
                return
            wait(idle_seconds)

    def process_next(self) -> DrawingJob | None:
        """Processes the next job that waits or was interrupted; None if there is none."""
        # Those that were begun first: somebody has waited for them longest.
        for job in itertools.chain(self.storage.interrupted_jobs(), self.storage.waiting()):
            done = self.process(job)
            if done is not None:
                return done
        return None

    def process(self, job: DrawingJob) -> DrawingJob | None:
        """Processes this job; None if another worker has it, or it has ended."""
        claimed = self.claim(job)
        return None if claimed is None else self.run(claimed)

    def claim(self, job: DrawingJob) -> DrawingJob | None:
        """The job, ours now; None where there is nothing to claim any more (1)."""
        now = self.storage.now()
        if not job.is_claimable(now):
            return None
        start = transitions.started if job.state is State.QUEUED else transitions.taken_over
        claimed = start(job, self.owner, self._lease_seconds, now)
        events: list[Event] = []
        if claimed.error is not None and claimed.is_terminal:
            events.append(new_event(claimed, "error_occurred", now, str(claimed.error["message"])))
        try:
            self.storage.store.replace(claimed, events)
        except Conflict:
            return None
        return None if claimed.is_terminal else claimed

    # ── working ──────────────────────────────────────────────────────────────────────────────────

    def run(self, job: DrawingJob) -> DrawingJob:
        """Runs the stages that are left of a job that is ours; the job as it is then.

        Raises LeaseLost if another worker has it by then.
        """
        stage = ""
        begun = self.storage.now() if self._begun is None else self._begun
        self._is_ending = False
        with self._lease_renewer(job):
            try:
                stages, reason = remaining(self.storage, job)
                if reason:
                    self._report_repair(job, stages[0], reason)
                for number, one in enumerate(stages):
                    if (number and self._is_over(begun)) or self._stopping():
                        return self._requeue(job)
                    stage = one.name
                    job = self._run_stage(job, one)
                return self._complete(job)
            except LeaseLost:
                raise
            except Exception as error:  # an agent may raise anything; the job says what
                return self._fail(job, stage, error)
            except BaseException:  # Ctrl-C, or the process is told to end: another worker continues it
                with suppress(PenstockError):
                    self._requeue(job)
                raise

    def _is_over(self, begun: float) -> bool:
        return self.storage.now() - begun >= self._budget_seconds

    def _run_stage(self, job: DrawingJob, stage: Stage) -> DrawingJob:
        begun = self.storage.now()
        names = [one.checkpoint for one in stages_of(job)]
        stale = frozenset(names[names.index(stage.checkpoint) :])
        event = new_event(job, "agent_started", begun, f"{stage.name}, attempt {job.attempt}", agent=stage.agent)
        job = self.storage.change_held(
            job, lambda current: transitions.stage_started(current, stage.name, stale, begun), event
        )
        job = self._save_checkpoint(job, stage, stage.run(Materials(self.storage, job, self.agents)), begun)
        self._watch(stage.name, job)
        return job

    def _save_checkpoint(self, job: DrawingJob, stage: Stage, outcome: Outcome, begun: float) -> DrawingJob:
        """The stage's files, and then the checkpoint that points to them (2)."""
        version = job.stage_versions[stage.name]
        data = orjson.dumps(outcome.data, option=orjson.OPT_INDENT_2)
        saved = self.storage.save(job.name.path(f"checkpoint_{stage.name}_v{version}.json"), data)
        outputs = {kind: self.storage.save(job.name.path(name), made) for kind, (name, made) in outcome.outputs.items()}
        now = self.storage.now()
        point = Checkpoint(utc_text(now), saved.key, version, saved.sha256, saved.size, outcome.summary)
        metadata = {**outcome.metadata, "token_usage": _with_tokens(job, outcome)}
        event = new_event(
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
            lambda current: transitions.stage_completed(current, stage.checkpoint, point, outputs, metadata, now),
            event,
        )

    def _complete(self, job: DrawingJob) -> DrawingJob:
        now = self.storage.now()
        self._is_ending = True
        took = {"processing_time_seconds": round(now - (job.lifecycle.started_at or now), 3)}
        return self.storage.change_held(job, lambda current: transitions.completed(current, took, now))

    def _requeue(self, job: DrawingJob) -> DrawingJob:
        now = self.storage.now()
        self._is_ending = True
        return self.storage.change_held(job, lambda current: transitions.requeued(current, now))

    def _fail(self, job: DrawingJob, stage: str, error: Exception) -> DrawingJob:
        now = self.storage.now()
        failure = Failure.of(error, characters=_MESSAGE_CHARACTERS, trace=False)
        form = {"kind": failure.kind, "message": failure.message or "it gave no reason"}
        if not isinstance(error, PenstockError):
            _LOG.error("%s failed in stage %s", job.id, stage, exc_info=error)

        def change(current: DrawingJob) -> DrawingJob:
            current = replace(current, metadata=_with_failed_tokens(current, stage, error))
            failures = current.lifecycle.failures
            stored = form | ({"stage": stage} if stage else {})
            if isinstance(error, PenstockError) and error.retryable and _RETRIES.allows(error, failures):
                return transitions.retrying(current, stored, now + _RETRIES.backoff.bound(failures + 1), now)
            return transitions.failed(current, stored, now)

        event = new_event(job, "error_occurred", now, form["message"], error=form["kind"], stage=stage)
        self._is_ending = True
        return self.storage.change_held(job, change, event)

    def _report_repair(self, job: DrawingJob, stage: Stage, reason: str) -> None:
        message = f"The stage {stage.name} is done again: {reason}"
        self.storage.store.add_event(new_event(job, "error_occurred", self.storage.now(), message, stage=stage.name))

    def _lease_renewer(self, job: DrawingJob) -> LeaseRenewer:
        """Renews the lease while a stage runs. A worker that has lost it hears of it at its next write."""

        lease = HeldLease(job.id, self._lease_seconds, lambda: self._renew(job))
        return LeaseRenewer(lambda: (lease,), name="penstock-security-lease")

    def _renew(self, job: DrawingJob) -> None:
        try:
            self.storage.change_held(job, lambda current: transitions.renewed(current, self.storage.now()))
        except LeaseLost:
            if not self._is_ending:  # else it was our own write that ended it, and nobody has lost anything
                raise


def _with_tokens(job: DrawingJob, outcome: Outcome) -> dict[str, Any]:
    """What all agents have used so far; a stage that is done twice has cost twice."""
    return _token_usage(job, outcome.agent, outcome.tokens)


def _with_failed_tokens(job: DrawingJob, stage: str, error: Exception) -> dict[str, Any]:
    """The job's metadata with what the stage cost that failed: an error of a model tells its `tokens`."""
    tokens = getattr(error, "tokens", 0)
    if not isinstance(tokens, int) or not tokens:
        return dict(job.metadata)
    agent = next((one.agent.removesuffix("_agent") for one in stages_of(job) if one.name == stage), stage)
    return {**job.metadata, "token_usage": _token_usage(job, agent, tokens)}


def _token_usage(job: DrawingJob, agent: str, tokens: int) -> dict[str, Any]:
    used = dict(job.metadata.get("token_usage", {}).get("by_agent", {}))
    if agent != "pdf":
        used[agent] = used.get(agent, 0) + tokens
    return {"total": sum(used.values()), "by_agent": used}


class Workers:
    """Processors in threads of their own. `wake` tells them that there may be something to do."""

    def __init__(self, storage: Storage, agents: Agents, count: int = 1) -> None:
        self._storage = storage
        self._agents = agents
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name="penstock-security", daemon=True) for _ in range(count)
        ]

    @contextmanager
    def running(self) -> Iterator[Workers]:
        """Stopped, they requeue their jobs at the next checkpoint."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            self._woken.set()
            for thread in self._threads:
                thread.join()

    def wake(self) -> None:
        self._woken.set()

    def _work(self) -> None:
        processor = Processor(self._storage, self._agents, stopping=self._stopped.is_set)
        while not self._stopped.is_set():
            try:
                processor.process_all(lambda job: None, wait=self._wait)
            except Exception:  # the outermost place: the database may be away, and come back
                _LOG.exception("A worker could not go on, and tries again in %g s", _AGAIN_SECONDS)
                self._stopped.wait(_AGAIN_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()
