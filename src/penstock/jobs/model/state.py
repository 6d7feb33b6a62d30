"""The one state machine of every job, whatever its tables look like.

1. A state changes only by a transition of the table below.
2. Completed jobs never change again. A failed one may be retried: that is a new attempt. A cancelled one may be revived
   only if it was cancelled because a job that it depends on did not complete, and that one is queued again.
3. Each change of state is one conditional write, and the event that tells of it is in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.errors import PenstockError


class State(StrEnum):
    """What a job can be."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})


@dataclass(frozen=True, slots=True)
class Transition:
    """`event` is its type in the job's history, as it is stored."""

    event: str
    sources: tuple[State, ...]
    target: State
    when: str


TRANSITIONS: Final = (
    Transition("created", (), State.QUEUED, "it was enqueued"),
    Transition("started", (State.QUEUED,), State.PROCESSING, "a worker claimed it"),
    Transition(
        "taken_over",
        (State.PROCESSING,),
        State.PROCESSING,
        "its worker ended, or its lease ran out; another one took it",
    ),
    Transition("handed_over", (State.PROCESSING,), State.QUEUED, "its worker stopped, or its time was up"),
    Transition("retrying", (State.PROCESSING,), State.QUEUED, "the attempt failed; another one follows"),
    Transition(
        "suspended", (State.PROCESSING,), State.QUEUED, "its task sleeps, or waits for an event or its children"
    ),
    Transition("completed", (State.PROCESSING,), State.COMPLETED, "the task returned"),
    Transition("failed", (State.PROCESSING,), State.FAILED, "the task raised, and no retry is left"),
    Transition("parked", (State.PROCESSING,), State.FAILED, "it has killed its workers too often"),
    Transition("cancelled", (State.QUEUED, State.PROCESSING), State.CANCELLED, "somebody asked for it"),
    Transition("retried", (State.FAILED,), State.QUEUED, "somebody asked for another attempt"),
    Transition("revived", (State.CANCELLED,), State.QUEUED, "the job that it was cancelled because of was retried"),
)

_BY_EVENT: Final = {transition.event: transition for transition in TRANSITIONS}
TARGETS: Final = {(one.event, source): one.target for one in TRANSITIONS for source in one.sources}
"""The state after an event in a state."""


_LABELS: Final = {"handed_over": "requeued", "parked": "failed"}
"""The words for events whose types are stored, and older than the words."""


_WISHES: Final = {"rescheduled": "scheduled or retrying"}
"""Events that change no state, and which jobs they are for."""


def event_label(event: str) -> str:
    """An event's type as it is shown."""
    return _LABELS.get(event, event).replace("_", " ")


class BadTransition(PenstockError):
    """The job is not in a state that this may happen in."""

    def __init__(self, job_id: str, event: str, state: State) -> None:
        wanted = _WISHES.get(event) or " or ".join(_BY_EVENT[event].sources) or "not made yet"
        super().__init__(f"{job_id} is {state}; it can be {event_label(event)} only while it is {wanted}.")
        self.job_id = job_id
        self.event = event
        self.state = state


def target(job_id: str, state: State, event: str) -> State:
    """The state after `event`; raises BadTransition where it may not happen."""
    transition = _BY_EVENT[event]
    if state not in transition.sources:
        raise BadTransition(job_id, event, state)
    return transition.target


def diagram() -> str:
    """The table as a Mermaid diagram; the documentation's is this one."""
    lines = ["stateDiagram-v2"]
    for transition in TRANSITIONS:
        for source in transition.sources or ("[*]",):
            lines.append(f"    {source} --> {transition.target}: {event_label(transition.event)}")
    lines += [f"    {state} --> [*]" for state in State if state in TERMINAL]
    return "\n".join(dict.fromkeys(lines)) + "\n"
