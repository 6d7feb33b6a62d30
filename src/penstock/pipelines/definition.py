"""Steps, and how they fit together: pure. What is wrong is found before anything runs, all of it at once."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.files.keys import checked_key
from penstock.jobs.model.job import checked_name

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


T = TypeVar("T")

INPUTS: Final = "inputs"
"""Where a job's own inputs lie: no step may have this name."""
_STEP_BYTES: Final = 120
"""The names of checkpoints are made of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A function, what it needs and what it makes. Another `version` is another step: what the old one made is old."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    version: int

    def fingerprint(self, hashes: Mapping[str, str]) -> str:
        """Of a call of this step with inputs of these hashes."""
        parts = [self.name, self.version, sorted((name, hashes[name]) for name in self.inputs)]
        return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()

    def problems(self) -> list[str]:
        """What is wrong with it alone."""
        found = [f"the step {self.name!r}: {problem}" for problem in name_problems(self.name, "step")]
        for name in (*self.inputs, *self.outputs):
            found += [f"the step {self.name!r}: {problem}" for problem in name_problems(name, "input or output")]
        if len(self.name.encode(errors="replace")) > _STEP_BYTES:
            found.append(f"the name {self.name[:40]!r}… of a step has more than {_STEP_BYTES} bytes")
        if self.name == INPUTS:
            found.append(f"no step may be called {INPUTS!r}: the job's inputs lie there")
        if type(self.version) is not int or self.version < 1:
            found.append(f"the step {self.name!r} has the version {self.version!r}: it is a whole number from 1 on")
        for name in _twice(self.inputs):
            found.append(f"the step {self.name!r} names the input {name!r} twice")
        return found + self._signature_problems()

    def _signature_problems(self) -> list[str]:
        if inspect.iscoroutinefunction(self.function) or inspect.isgeneratorfunction(self.function):
            return [f"the step {self.name!r} is async or a generator: a step is a plain function that returns"]
        signature = inspect.signature(self.function)
        try:
            signature.bind(None, **dict.fromkeys(self.inputs))
        except TypeError as error:
            called = f"{self.name}({', '.join(('context', *self.inputs))})"
            return [f"the step {self.name!r} is called as {called}, but is {self.name}{signature}: {error}"]
        return []


def problems(steps: Sequence[Step], inputs: Iterable[str]) -> list[str]:
    """All that is wrong with a pipeline of these steps and inputs of its own."""
    given = tuple(inputs)
    found = [f"the pipeline's inputs: {problem}" for name in given for problem in name_problems(name, "input")]
    if not steps:
        found.append("it has no step")
    for name in _twice([step.name for step in steps]):
        found.append(f"two steps are called {name!r}")
    for step in steps:
        found += step.problems()
    found += _maker_problems(steps, given)
    used = {name for step in steps for name in step.inputs}
    found += [f"no step uses the pipeline's input {name!r}" for name in given if name not in used]
    return found


def _maker_problems(steps: Sequence[Step], given: tuple[str, ...]) -> list[str]:
    makers: dict[str, list[str]] = {name: ["the pipeline's inputs"] for name in given}
    for step in steps:
        for name in step.outputs:
            makers.setdefault(name, []).append(f"the step {step.name!r}")
    found = [f"{name!r} is made by {' and '.join(made)}" for name, made in makers.items() if len(made) > 1]
    for step in steps:
        for name in step.inputs:
            if name not in makers:
                found.append(f"the step {step.name!r} needs {name!r}, which no step makes and is no input")
    if circle := _circle(steps, given):
        found.append(f"these steps wait for each other: {', '.join(circle)}")
    return found


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Each after those whose outputs it needs; as they were declared where that leaves a choice."""
    ordered, _ = sorted_by_need([(step, step.inputs, step.outputs) for step in steps])
    return ordered


def _circle(steps: Sequence[Step], given: tuple[str, ...]) -> list[str]:
    """Steps that wait for each other; not those that only wait for them."""
    made = [(step, set(step.inputs) - set(given), set(step.outputs) - set(given)) for step in steps]
    _, left = sorted_by_need(made)
    _, both = sorted_by_need([(step, step.outputs, step.inputs) for step in left])
    return [step.name for step in steps if step in both]


def sorted_by_need(makers: Iterable[tuple[T, Iterable[str], Iterable[str]]]) -> tuple[list[T], list[T]]:
    """Of makers with what they need and make: each after those that it needs; and those that wait for each other."""
    left = [(maker, frozenset(needs), frozenset(makes)) for maker, needs, makes in makers]
    ordered: list[T] = []
    while left:
        pending = frozenset[str]().union(*(makes for _, _, makes in left))
        place = next((place for place, (_, needs, _) in enumerate(left) if not pending & needs), None)
        if place is None:
            break
        ordered.append(left.pop(place)[0])
    return ordered, [maker for maker, _, _ in left]


def name_problems(name: str, what: str) -> list[str]:
    """A name is part of a key, of a checkpoint and of a path."""
    try:
        checked_name(name, what)
        checked_key(f"job/{name}")
    except PenstockError as error:
        return [str(error).rstrip(".")]
    return []


def _twice(names: Sequence[str]) -> list[str]:
    return [name for place, name in enumerate(names) if name in names[:place]]
