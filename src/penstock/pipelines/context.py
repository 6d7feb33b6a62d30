"""What a step is given beside its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Literal, TypeVar, cast, overload

from penstock.files import Data, SavedFile
from penstock.jobs.context import JobContext, attempt_of
from penstock.jobs.model.job import checked_progress
from penstock.pipelines.definition import ItemFailure, required_job_id
from penstock.pipelines.fanout import IN_FLIGHT, FanOut, Key
from penstock.pipelines.rounds import Ledger
from penstock.pipelines.values import PipelineFile, name_in_attempt

T = TypeVar("T")
R = TypeVar("R")


class StepContext:
    """One call of a step: the job that it belongs to, its files, its fan-out and its reports."""

    def __init__(
        self,
        job_id: str,
        step: str,
        ledger: Ledger,
        *,
        fingerprint: str,
        executor: Executor | None = None,
        span: tuple[float, float] = (0.0, 100.0),
    ) -> None:
        self.job_id = required_job_id(job_id)
        self.step = step
        self.saved: dict[str, SavedFile] = {}
        """The files that it has saved, by name."""
        self.summary = ""
        """A few words on what it made, for people: in its checkpoint and in the report."""
        self._ledger = ledger
        self._fingerprint = fingerprint
        self._executor = executor
        self._span = span
        self._maps = 0

    @property
    def attempt(self) -> int:
        """1 in the first attempt at the job."""
        return self._ctx.attempt

    @property
    def seconds_left(self) -> float | None:
        """Until the run's time limit; None without one."""
        return self._ctx.seconds_left

    # ── files ────────────────────────────────────────────────────────────────────────────────────

    def save(self, name: str, data: Data) -> PipelineFile:
        """Saves a file of this step, whole or not at all. Return it to make it an output.

        It is `{job_id}/{step}/{name}`; in a second attempt at the job, `a.txt` is `a~2.txt` (values.py, 4).
        """
        stored = name_in_attempt(name, self.attempt)
        file = attempt_of(self._ctx).save_file(f"{self.step}/{stored}", data)
        self.saved[name] = file.saved
        files = self._ledger.files
        assert files is not None  # it has just been saved there
        return PipelineFile(file.saved, files)

    # ── reports ──────────────────────────────────────────────────────────────────────────────────

    def progress(self, percent: float, message: str = "") -> None:
        """How far this step is, 0 to 100. Raises where the run should stop: the step begins again in the next one."""
        self._ledger.tell(self.step, message, self._overall(checked_progress(percent)))

    def log(self, message: object, **data: Any) -> None:
        """A numbered entry of words in the job's log."""
        self._ctx.log(message, **data)

    def stop_if_asked(self) -> None:
        """Ends the run here if it should end: between two parts of a long step."""
        self._ledger.stop_if_asked()

    # ── fan-out ──────────────────────────────────────────────────────────────────────────────────

    @overload
    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        executor: Executor | None = None,
        key: Key | None = None,
        in_flight: int = IN_FLIGHT,
        keep_failures: Literal[False] = False,
    ) -> list[R]: ...

    @overload
    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        executor: Executor | None = None,
        key: Key | None = None,
        in_flight: int = IN_FLIGHT,
        keep_failures: Literal[True],
    ) -> list[R | ItemFailure]: ...

    def map(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        executor: Executor | None = None,
        key: Key | None = None,
        in_flight: int = IN_FLIGHT,
        keep_failures: bool = False,
    ) -> list[R] | list[R | ItemFailure]:
        """`function(item)` of each, in their order; what is done is kept, and not done again after a crash.

        On any executor, at most `in_flight` at once; one after the other without one. Results are JSON values or files
        of this step. `key(item)` names an item; without it, an item is its own JSON. An item that raises stops no
        other: ItemsFailed names them at the end, or with `keep_failures` they stand in the list as ItemFailures.
        """
        self._maps += 1
        fan = FanOut(
            self._ledger,
            self.step,
            self._maps,
            self._fingerprint,
            executor=executor or self._executor,
            in_flight=in_flight,
            percent=self._overall,
        )
        results = fan.map(function, items, key)
        if not keep_failures:
            fan.raise_failures(results)
        return cast("list[R]", results)

    def _overall(self, percent: float) -> float:
        begin, end = self._span
        return begin + (end - begin) * min(max(percent, 0.0), 100.0) / 100

    @property
    def _ctx(self) -> JobContext:
        assert self._ledger.ctx is not None
        return self._ledger.ctx
