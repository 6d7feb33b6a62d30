"""What can be wrong with a pipeline, its inputs, or a run of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.new_job import checked_name

SHOWN: Final = 10
"""Of many failures, so many are written out."""


class BadPipeline(PenstockError, ValueError):
    """The steps do not fit together, or an input does not fit them; `problems` are all that were found."""

    def __init__(self, pipeline: str, problems: Sequence[str]) -> None:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"The pipeline {pipeline!r} cannot run as it is:{listed}")
        self.pipeline = pipeline
        self.problems = tuple(problems)


class JobIdRequired(PenstockError, ValueError):
    """Whatever a pipeline writes or reads is a job's, and none was named."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"job_id parameter is required{': ' + reason if reason else ''}")


class PipelineHeld(PenstockError):
    """Another run of the same job is under way: it has `held_by` as its owner, until `until` unless it renews."""

    retryable = True

    def __init__(self, job_id: str, held_by: str, until: float) -> None:
        super().__init__(
            f"{job_id} is being run by {held_by}. If that run is dead, the job is free at {utc_text(until)}: "
            "run it again then, or with wait_seconds."
        )
        self.job_id = job_id
        self.held_by = held_by
        self.until = until


class ItemFailure:
    """An item of a fan-out that failed: its place, its key, and what was raised."""

    def __init__(self, index: int, key: str, error: BaseException) -> None:
        self.index = index
        self.key = key
        self.error = error

    def __repr__(self) -> str:
        return f"ItemFailure({self.index}, {self.key!r}, {self.error!r})"

    def __str__(self) -> str:
        return f"item {self.index} ({self.key}): {type(self.error).__name__}: {self.error}"


class ItemsFailed(PenstockError):
    """Some items of a fan-out failed. Those that did not are kept: another run tries only these again."""

    def __init__(self, step: str, failures: Sequence[ItemFailure], total: int) -> None:
        listed = "".join(f"\n  - {failure}" for failure in failures[:SHOWN])
        more = f"\n  - and {len(failures) - SHOWN:,} more" if len(failures) > SHOWN else ""
        super().__init__(f"{len(failures):,} of {total:,} items of {step} failed; the others are kept.{listed}{more}")
        self.step = step
        self.failures = tuple(failures)
        self.total = total


def required_job_id(job_id: str | None) -> str:
    """The id, if it is one. Raises JobIdRequired, and BadJob for one that could not be part of a key and a path."""
    if job_id is None or job_id == "":
        raise JobIdRequired
    return checked_name(job_id, "job")
