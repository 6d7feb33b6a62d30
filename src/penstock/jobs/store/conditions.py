"""What decides the derived states of jobs beside the jobs themselves: paused queues, and who works."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.clock import utc_seconds
from penstock.jobs.model.derived_state import Conditions, DerivedState, Situation, derive
from penstock.jobs.model.job import Job
from penstock.jobs.store.store import JobStore
from penstock.processes import has_ended

GONE_SECONDS: Final = 60.0
"""A worker that has written no line for so long is taken for gone."""


def read_conditions(store: JobStore, queues: Iterable[str]) -> Conditions:
    """For jobs of these queues: one read for each queue, and one of the workers' lines."""
    lines = (store.side_items.read("workers") or {}).get("entries", {}).get("M", {})
    ended = frozenset(name for name, line in lines.items() if has_ended(line["M"].get("process", {}).get("S", "")))
    paused = frozenset(name for name in queues if store.queue(name).paused)
    now = store.clock.now()
    tasks: dict[str, set[str]] = {}
    for name, line in lines.items():
        if name not in ended and now - utc_seconds(line["M"]["seen_at"]["S"]) < GONE_SECONDS:
            for queue in line["M"]["queues"]["L"]:
                tasks.setdefault(queue["S"], set()).update(task["S"] for task in line["M"]["tasks"]["L"])
    return Conditions(now, paused, ended, tasks)


class Situations:
    """The situations of jobs now. A queue is read once, when its first job is met."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._around: dict[str, Conditions] = {}

    def of(self, job: Job) -> Situation:
        around = self._around.get(job.queue)
        if around is None:
            around = self._around[job.queue] = read_conditions(self._store, (job.queue,))
        return derive(job, around)


class StateFilter:
    """Accepts jobs that are in a derived state now."""

    def __init__(self, store: JobStore, wanted: DerivedState) -> None:
        self._situations = Situations(store)
        self._wanted = wanted

    def __call__(self, job: Job) -> bool:
        return self._situations.of(job).state is self._wanted
