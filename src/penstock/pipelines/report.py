"""What a run did, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

How = Literal["running", "ran", "reused", "waiting"]


@dataclass(frozen=True, slots=True)
class StepReport:
    """`why` says why it ran, or what was reused; a step that is "waiting" was not reached."""

    name: str
    how: How
    why: str = ""
    seconds: float = 0.0
    summary: str = ""
    """The step's own words on what it made (`context.summary`)."""

    def __str__(self) -> str:
        took = f"{self.seconds:.1f} s" if self.how == "ran" else ""
        told = "; ".join(one for one in (self.why, self.summary) if one)
        return f"  {self.name:<20} {self.how:<8} {took:>8}  {told}".rstrip()


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """`report["topics"]` is an output of a step: a JSON value, or a PipelineFile."""

    pipeline: str
    job_id: str
    steps: tuple[StepReport, ...]
    outputs: Mapping[str, Any]
    """Those of the steps that are done."""
    stopped: str = ""
    """Why it stopped before the end: run the same job again, and it goes on there. Empty when it is finished."""

    def __getitem__(self, output: str) -> Any:
        return self.outputs[output]

    @property
    def finished(self) -> bool:
        """Whether it came to its end; if not, `stopped` says why."""
        return not self.stopped

    @property
    def ran(self) -> tuple[str, ...]:
        """The steps that were run this time."""
        return tuple(step.name for step in self.steps if step.how == "ran")

    @property
    def reused(self) -> tuple[str, ...]:
        """The steps that were not run, because what they made is there."""
        return tuple(step.name for step in self.steps if step.how == "reused")

    def __str__(self) -> str:
        end = f"stopped: {self.stopped}. Run it again to go on." if self.stopped else "finished."
        head = f"{self.pipeline} {self.job_id}: {len(self.ran)} ran, {len(self.reused)} reused, {end}"
        return "\n".join([head, *(str(step) for step in self.steps)])
