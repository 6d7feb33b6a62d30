"""What decides the derived states of jobs beside the jobs themselves: paused queues, and workers that have ended."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.jobs.model.derived_state import Conditions, DerivedState, Situation, derive
from penstock.jobs.model.job import Job
from penstock.jobs.store.store import JobStore
from penstock.processes import has_ended


def read_conditions(store: JobStore, queues: Iterable[str]) -> Conditions:
    """For jobs of these queues: one read for each queue, and one of the workers' lines."""
    lines = (store.side_items.read("workers") or {}).get("entries", {}).get("M", {})
    ended = (name for name, line in lines.items() if has_ended(line["M"].get("process", {}).get("S", "")))
    paused = (name for name in queues if store.queue(name).paused)
    return Conditions(store.clock.now(), frozenset(paused), frozenset(ended))


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
