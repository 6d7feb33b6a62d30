"""The jobs that a job has to do with, and the steps of its workflow: read at a bounded cost, drawn by charts/.

1. Dependencies are followed two jobs up and two down, `MOST_IN_A_COLUMN` of each; children one down.
2. A step is a checkpoint, or a wait that the job's history names (`sleep`, `wait_for`, `gather`). A checkpoint begins
   where the step before it ended; a wait begins where the attempt was suspended, and ends where the next one began.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.jobs.model.derived_state import Situation
from penstock.jobs.model.job import History, Job, Payload
from penstock.jobs.model.workflow import Operation
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.charts.job_graph import MOST_IN_A_COLUMN, JobEdge, JobGraph, JobNode

_LEVELS: Final = 2
_MOST_STEPS: Final = 60


# ── the graph ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Reader:
    store: JobStore
    state_of: Callable[[Job], Situation]
    left_out: int = 0

    def some(self, ids: Iterable[str]) -> list[Job]:
        wanted = list(dict.fromkeys(itertools.islice(ids, MOST_IN_A_COLUMN + 1)))
        self.left_out += len(wanted) > MOST_IN_A_COLUMN
        return self.store.get_existing(wanted[:MOST_IN_A_COLUMN])

    def before(self, job: Job) -> list[tuple[Job, str]]:
        found = [(one, "needs") for one in self.some(self.store.depends_on(job))]
        return [*found, *((one, "child") for one in self.some([job.parent_id] if job.parent_id else []))]

    def after(self, job: Job) -> list[tuple[Job, str]]:
        found: list[tuple[Job, str]] = []
        if job.child_count:
            found += [(one, "child") for one in self.some(one.id for one in self.store.workflows.made(job.id))]
        if job.has_children or job.children_told:
            call = self.store.layout.children(job.id)
            items = self.store.db.execute(call.operation, {**call.request, "Limit": MOST_IN_A_COLUMN + 1})["Items"]
            found += [(one, "needs") for one in self.some(self.store.layout.child_of(item) for item in items)]
        return found


def read_graph(store: JobStore, job: Job, state_of: Callable[[Job], Situation]) -> JobGraph:
    """The job, what it depends on, and what depends on it (1)."""
    reader = _Reader(store, state_of)
    nodes = {job.id: JobNode(job.id, job.task, state_of(job).state.value, 0)}
    edges: list[JobEdge] = []
    for direction, read in ((-1, reader.before), (1, reader.after)):
        level = [job]
        for distance in range(1, _LEVELS + 1):
            following: list[Job] = []
            room = MOST_IN_A_COLUMN
            for one in level:
                for other, how in read(one):
                    if other.id not in nodes:
                        if room == 0:
                            reader.left_out += 1
                            continue
                        room -= 1
                        state = state_of(other).state.value
                        nodes[other.id] = JobNode(other.id, other.task, state, direction * distance)
                        following.append(other)
                    source, target = (other, one) if direction < 0 else (one, other)
                    edges.append(JobEdge(source.id, target.id, how))
            level = following
    return JobGraph(tuple(nodes.values()), tuple(dict.fromkeys(edges)), reader.left_out)


def related(graph: JobGraph) -> list[tuple[str, JobNode]]:
    """Pure: how each of the others is related to the job, as words."""
    here = next(node.job_id for node in graph.nodes if node.column == 0)
    words = {}
    for edge in graph.edges:
        if edge.target == here:
            words[edge.source] = "is a child of" if edge.how == "child" else "depends on"
        elif edge.source == here:
            words[edge.target] = "has the child" if edge.how == "child" else "is waited for by"
    far = {-1: "needs, further up", 1: "is needed, further down"}
    others = [node for node in graph.nodes if node.column]
    return [(words.get(node.job_id) or far[1 if node.column > 0 else -1], node) for node in others]


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    """A step: a checkpoint of `ctx.step`, or a wait. `end` is None while it waits."""

    name: str
    kind: str
    """`step`, `sleep`, `wait_for`, `gather`."""
    start: float
    end: float | None
    attempt: int
    about: str = ""
    """What it was called with."""
    until: float | None = None
    value: Payload | None = None
    """What it gave."""


def read_operations(store: JobStore, history: History) -> list[Operation]:
    """The waits that are stored, read only for a job that has been suspended."""
    if not any(event.type == "suspended" for event in history.events):
        return []
    call = store.layout.records(history.job.id, "operation#")
    items = store.db.execute(call.operation, {**call.request, "Limit": _MOST_STEPS})["Items"]
    return [one for one in (store.layout.operation_of(item) for item in items) if "#" not in one.key]


def _about(one: Operation) -> str:
    """What it was called with. What is stored of a gather also has a digest of ids, and no word for one child."""
    return re.sub(r"\bof 1 children", "of 1 child", re.sub(r" \([0-9a-f]{12}\)$", "", one.about))


def workflow_steps(history: History, operations: Sequence[Operation]) -> list[WorkflowStep]:
    """Pure: the steps in their order (2)."""
    stored = {one.key: one for one in operations}
    waits: dict[str, WorkflowStep] = {}
    marks: list[float] = []
    """When something ended or began: a step begins at the last of these before its end."""
    open_key = ""
    for event in history.events:
        marks.append(event.at)
        if event.type == "suspended":
            open_key = event.detail.partition(": ")[0]
            one = stored.get(open_key)
            kind = open_key.partition(":")[0].partition("=")[0]
            about, until, value = ("", None, None) if one is None else (_about(one), one.until, one.data)
            start = waits[open_key].start if open_key in waits else event.at
            waits[open_key] = WorkflowStep(open_key, kind, start, None, event.attempt, about, until, value)
        elif open_key and event.type in ("started", "taken_over", "cancelled"):
            waits[open_key] = replace(waits[open_key], end=event.at)
            open_key = ""
    marks += [point.at for point in history.checkpoints]
    steps = [
        WorkflowStep(
            point.name,
            "step",
            max((at for at in marks if at < point.at), default=point.at),
            point.at,
            point.attempt,
            value=point.data,
        )
        for point in history.checkpoints
    ]
    return sorted([*steps, *waits.values()], key=lambda one: (one.start, one.end or float("inf")))[-_MOST_STEPS:]
