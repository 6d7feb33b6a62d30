"""A pipeline: steps that are plain functions, run under a job id, resumed where they stopped.

pipeline = Pipeline("delphi", inputs=("comments",), parameters={"seed": 42}, job_id_variable="DELPHI_JOB_ID")

@pipeline.step(inputs=("comments", "seed"), outputs=("vectors",))
def embed(context: StepContext, comments: PipelineFile, seed: int) -> PipelineFile: ...

report = pipeline.run(store, job_id=pipeline.new_job_id(), inputs={"comments": Path("comments.csv")})
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar
from uuid import uuid4

from penstock.errors import PenstockError
from penstock.jobs.context import Attempt, JobContext, attempt_of
from penstock.jobs.model.job import Job, JobCancelled, JobRequeued
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import TaskSettings
from penstock.jobs.worker.outcomes import job_error
from penstock.leases import DEFAULT_LEASE_SECONDS, LeaseLost, LeaseRenewer
from penstock.pipelines.definition import BadPipeline, JobIdRequired, Step, in_order, name_problems, problems
from penstock.pipelines.execution import Execution, Inputs, NotDone, PipelineReport, Tell
from penstock.pipelines.rounds import Ledger, checked_job_id, claim_round, rounds

F = TypeVar("F", bound=Callable[..., Any])

_LOG = logging.getLogger("penstock.pipelines")
_NO_INPUTS: Final[Mapping[str, Any]] = {}


class Pipeline:
    """Steps that fit together by the names of what they need and make."""

    def __init__(
        self,
        name: str,
        *,
        inputs: Sequence[str] = (),
        parameters: Mapping[str, Any] = _NO_INPUTS,
        job_id_variable: str | None = None,
        job_id_prefix: str | None = None,
    ) -> None:
        """`parameters` are inputs that have a default. New job ids are `{job_id_prefix}{uuid4}`."""
        self.name = name
        self.inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        self.parameters = dict(parameters)
        self._variable = job_id_variable
        self._prefix = f"{name}_" if job_id_prefix is None else job_id_prefix
        self._steps: list[Step] = []
        self._ordered: list[Step] | None = None

    def step(
        self, *, inputs: Sequence[str] = (), outputs: Sequence[str] = (), version: int = 1, name: str | None = None
    ) -> Callable[[F], F]:
        """Makes a function a step; it stays the plain function that it is.

        It is called with a StepContext, then with its inputs by name. It returns its output; a dict of them where there
        are several; None where there is none. Raise `version` when it would make something else of the same inputs.
        """

        def register(function: F) -> F:
            needs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
            makes = (outputs,) if isinstance(outputs, str) else tuple(outputs)
            self._steps.append(Step(name or function.__name__, function, needs, makes, version))
            self._ordered = None
            return function

        return register

    @property
    def steps(self) -> tuple[Step, ...]:
        """In the order in which they run. Raises BadPipeline, with all problems."""
        if self._ordered is None:
            found = name_problems(self.name, "pipeline") + problems(self._steps, (*self.inputs, *self.parameters))
            if found:
                raise BadPipeline(self.name, found)
            self._ordered = in_order(self._steps)
        return tuple(self._ordered)

    def check(self) -> None:
        """Raises BadPipeline if the steps do not fit together: for the end of the module that defines them."""
        assert self.steps

    def new_job_id(self) -> str:
        """The job id that the environment gives, else a new one: made once, and carried through everything."""
        given = os.environ.get(self._variable) if self._variable is not None else None
        if given is None:
            return f"{self._prefix}{uuid4()}"
        if not given.strip():
            raise JobIdRequired(f"{self._variable} is set, but empty. Give it the job's id, or unset it.")
        return checked_job_id(self.name, given)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        store: JobStore,
        *,
        job_id: str | None = None,
        inputs: Mapping[str, Any] = _NO_INPUTS,
        executor: Executor | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        wait_seconds: float = 0.0,
        time_limit_seconds: float | None = None,
        soft_time_limit_seconds: float | None = None,
        tell: Tell = lambda report: None,
    ) -> PipelineReport:
        """Runs the job from its first step that is not done to the end.

        Inputs are JSON values, files of this machine (a Path), or saved ones; those that are not given are as they were
        in this job. After `soft_time_limit_seconds` it stops between two steps or items: then the report is not
        `finished`, and the next run continues there. A step that raises fails the job, and its exception is raised.
        Raises JobIdRequired, BadPipeline, PipelineHeld if another run has had the job for longer than `wait_seconds`.
        """
        job_id = checked_job_id(self.name, job_id)
        wanted = Inputs(self.name, self.inputs, self.parameters, inputs, self.steps)
        limits = TaskSettings(time_limit_seconds=time_limit_seconds, soft_time_limit_seconds=soft_time_limit_seconds)
        began_at = time.monotonic()
        self.check()
        while True:
            found = rounds(store, job_id)
            is_done = bool(found) and found[0].state is State.COMPLETED
            if is_done:
                report = self._report_if_done(store, found, job_id, wanted, tell)
                if report is not None:
                    return report
            else:
                found = found[1:]  # its newest round is the one to go on with
            job = claim_round(
                store, self.name, job_id, len(found) + 1, lease_seconds=lease_seconds, wait_seconds=wait_seconds
            )
            if job is not None:
                attempt = Attempt(store, job)
                attempt.begin(limits.time_limit_seconds, limits.soft_time_limit_seconds, began_at)
                return self._run_held(attempt, [job, *found], job_id, wanted, executor, tell)

    def run_in(
        self,
        ctx: JobContext,
        *,
        inputs: Mapping[str, Any] = _NO_INPUTS,
        executor: Executor | None = None,
        tell: Tell = lambda report: None,
    ) -> PipelineReport:
        """The same within a task: the task's job is the pipeline's, and its worker keeps the lease.

        When the worker dies, another one continues the job at the first step that is not done.
        """
        wanted = Inputs(self.name, self.inputs, self.parameters, inputs, self.steps)
        self.check()
        store = attempt_of(ctx).store
        ledger = Ledger(store, [ctx.job], ctx)
        execution = self._execution(store, ledger, ctx.id, wanted, executor, tell)
        execution.perform()
        return self._report(execution)

    def _report_if_done(
        self, store: JobStore, found: Sequence[Job], job_id: str, wanted: Inputs, tell: Tell
    ) -> PipelineReport | None:
        """The report on a job that has completed, if there is nothing to do; nothing is written."""
        execution = self._execution(store, Ledger(store, found), job_id, wanted, None, lambda report: None)
        try:
            execution.perform()
        except NotDone:
            return None
        for report in execution.reports:
            tell(report)
        return self._report(execution)

    def _run_held(
        self,
        attempt: Attempt,
        found: Sequence[Job],
        job_id: str,
        wanted: Inputs,
        executor: Executor | None,
        tell: Tell,
    ) -> PipelineReport:
        """Runs a job that is ours, and ends it as it ended."""
        store = attempt.store
        execution: Execution | None = None
        with LeaseRenewer(lambda: (attempt,), name="penstock-pipeline-lease"):
            try:
                execution = self._execution(
                    store, Ledger(store, found, JobContext(attempt)), job_id, wanted, executor, tell
                )
                execution.perform()
                hashes = {name: product.sha256 for name, product in execution.products.items()}
                attempt.finish(lambda job: store.complete(job, {"outputs": hashes}))
            except LeaseLost:
                raise
            except JobCancelled:
                attempt.finish(store.end_cancelled)
                raise
            except JobRequeued as stop:
                reason = str(stop)
                attempt.finish(lambda job: store.requeue(job, reason))
                assert execution is not None
                return self._report(execution, stopped=reason)
            except KeyboardInterrupt:
                _end(attempt, lambda job: store.requeue(job, "somebody interrupted it"))
                raise
            except BaseException as error:
                told = job_error(error)
                _end(attempt, lambda job: store.fail(job, told))
                raise
        return self._report(execution)

    def _execution(
        self,
        store: JobStore,
        ledger: Ledger,
        job_id: str,
        wanted: Inputs,
        executor: Executor | None,
        tell: Tell,
    ) -> Execution:
        products = wanted.products(ledger)
        return Execution(self.name, job_id, self.steps, ledger, products, store.clock, executor, tell)

    def _report(self, execution: Execution, *, stopped: str = "") -> PipelineReport:
        made = {name for step in self.steps for name in step.outputs}
        files = execution.ledger.files
        outputs = {name: one.step_value(files) for name, one in execution.products.items() if name in made}
        return PipelineReport(self.name, execution.job_id, execution.all_reports(), outputs, stopped)


def _end(attempt: Attempt, end: Callable[[Job], Job]) -> None:
    """Ends a run on whose way out something else is being raised already, which counts for more."""
    try:
        attempt.finish(end)
    except PenstockError as error:
        _LOG.warning("%s: its end could not be stored: %s", attempt.id, error)
