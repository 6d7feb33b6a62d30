"""What a pipeline's job has written down: its checkpoints.

1. A run writes under its lease, and only into its own job.
2. A job that has completed is never changed. Running it again is a job of its own, `{job_id}~2`, which reads what the
   ones before wrote: the newest of a name is what counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from penstock.files import Files
from penstock.files.keys import checked_key
from penstock.jobs.model.job import Job, JobNotFound
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.context import HandOver, Run
from penstock.pipelines.errors import BadPipeline, required_job_id

MOST_ROUNDS: Final = 1_000
_ROUND: Final = re.compile(r"~\d+$")
_NOTHING: Final = object()
_MOST_PERCENT: Final = 99.9
"""The last percent is the job's own end."""


class Ledger:
    """The checkpoints of a job and of the rounds before it; `run` is None for one who only reads."""

    def __init__(self, store: JobStore, rounds: Sequence[Job], run: Run | None = None) -> None:
        """`rounds` are the job's, the newest first; the run's own is the first."""
        self._store = store
        self._rounds = tuple(rounds)
        self.run = run

    @property
    def home(self) -> Files | None:
        return self._store.files

    def read(self, name: str) -> Any:
        """The newest value of that name; None without one. Raises FileMissing or FileChanged if it lay in a file."""
        older = self._rounds
        if self.run is not None:
            found = self.run.resume(name, _NOTHING)
            if found is not _NOTHING:
                return found
            older = self._rounds[1:]
        for job in older:
            checkpoint = self._store.checkpoint(job.id, name)
            if checkpoint is not None:
                return self._store.load(job, checkpoint.data)
        return None

    def write(self, name: str, value: Any, *, summary: str = "", percent: float | None = None) -> None:
        """Keeps it. A run that should stop is told so by `stop_if_asked` only: that is asked between two steps."""
        progress = None if percent is None else min(percent, _MOST_PERCENT)
        try:
            self._running.checkpoint(name, value, summary=summary, progress=progress)
        except HandOver:
            return  # what was to be written is written

    def stop_if_asked(self) -> None:
        """Raises HandOver where the run should end, and JobCancelled or LeaseLost where it has."""
        run = self._running
        run.stop_if_asked()
        if run.cancelled:
            run.log("it should stop")  # refused, with what is the matter

    def tell(self, step: str, message: str, percent: float) -> None:
        self._running.progress(min(percent, _MOST_PERCENT), step=step, message=message)

    @property
    def _running(self) -> Run:
        assert self.run is not None, "whoever only reads writes nothing"
        return self.run


def rounds(store: JobStore, job_id: str) -> list[Job]:
    """The job and its further rounds, the newest first; none where there is no such job."""
    found: list[Job] = []
    for number in range(1, MOST_ROUNDS):
        try:
            found.insert(0, store.get(round_id(job_id, number)))
        except JobNotFound:
            break
        if found[0].state is not State.COMPLETED:
            break
    return found


def round_id(job_id: str, number: int) -> str:
    """The id of the job that is a job's first, second, … round."""
    return job_id if number == 1 else f"{job_id}~{number}"


def checked_job_id(pipeline: str, job_id: str | None) -> str:
    """An id that a job of a pipeline may have. Raises JobIdRequired, BadJob."""
    job_id = required_job_id(job_id)
    checked_key(job_id)  # its files lie under it
    if _ROUND.search(job_id):
        problem = f"the job id {job_id!r} ends as that of a further round does: name the job itself"
        raise BadPipeline(pipeline, [problem])
    return job_id
