"""Runs of pipelines, as their jobs' records tell of them: which jobs they are, and what each step did."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from penstock.clock import utc_seconds
from penstock.errors import PenstockError
from penstock.files import SavedFile
from penstock.jobs.model.job import History, Job
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.pipelines.execution import note_name
from penstock.pipelines.holding import QUEUE
from penstock.pipelines.inputs import NOTE
from penstock.pipelines.ledger import rounds
from penstock.pipelines.lineage import Lineage, lineage

PAGE_JOBS: Final = 200
_MOST_ROUNDS: Final = 10
_LOOKS: Final = 20
_REMEMBERED_SECONDS: Final = 60.0
_ROUND: Final = re.compile(r"~(\d+)$")
_BEGINS: Final = "begins: "
_REUSED: Final = "reused"

How = Literal["ran", "reused", "running", "failed", "stopped"]


def base_id(job_id: str) -> str:
    """The id that a pipeline's job was given, whichever round of it this is."""
    return _ROUND.sub("", job_id)


def round_of(job_id: str) -> int:
    found = _ROUND.search(job_id)
    return 1 if found is None else int(found.group(1))


# ── which jobs ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Listed:
    """Runs, the newest first, a line for each id; `token` leads to older jobs."""

    jobs: tuple[Job, ...]
    token: str | None
    looked_at: int


class Finder:
    """Knows the runs of pipelines among the jobs: by their queue, or because a task of that name carries one."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[bool, float]] = {}

    def page(self, store: JobStore, token: str | None) -> Listed:
        found = store.find(limit=PAGE_JOBS, token=token)
        looks = _LOOKS
        runs: dict[str, Job] = {}
        for job in found.jobs:
            if job.queue != QUEUE and looks and self._is_new(job):
                looks -= 1
                self._tasks[job.task] = (carries_pipeline(store, job), time.monotonic())
            if job.queue == QUEUE or self._tasks.get(job.task, (False, 0.0))[0]:
                runs.setdefault(base_id(job.id), job)
        return Listed(tuple(runs.values()), found.token, len(found.jobs))

    def _is_new(self, job: Job) -> bool:
        known = self._tasks.get(job.task)
        stale = known is None or (not known[0] and time.monotonic() - known[1] > _REMEMBERED_SECONDS)
        return stale and job.entries > 0


def carries_pipeline(store: JobStore, job: Job) -> bool:
    """Whether a pipeline has written its inputs into the job."""
    point = store.checkpoint(job.id, NOTE)
    if point is None:
        return False
    try:
        note = store.load(job, point.data)
    except (PenstockError, OSError):
        return False
    return isinstance(note, Mapping) and "pipeline" in note and "inputs" in note


# ── one of them ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StepLine:
    """What became of a step in the newest round."""

    name: str
    how: How
    why: str = ""
    at: float | None = None
    seconds: float | None = None
    version: int | None = None
    attempt: int | None = None
    summary: str = ""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineRun:
    job: Job
    """Of the newest round."""
    pipeline: str
    rounds: tuple[Job, ...]
    steps: tuple[StepLine, ...]
    made: Lineage | None
    trouble: str = ""
    """Why what was made cannot be told."""

    @property
    def id(self) -> str:
        return base_id(self.job.id)

    def count(self, how: How) -> int:
        return sum(1 for step in self.steps if step.how == how)


def read_run(store: JobStore, job_id: str) -> PipelineRun:
    """All of a run. Raises JobNotFound."""
    known = rounds(store, base_id(job_id))
    job = known[0] if known else store.get(job_id)
    history = store.history(job.id)
    try:
        made, trouble = lineage(store, base_id(job.id)), ""
        older = [store.history(one.id) for one in known[1:_MOST_ROUNDS]]
        notes = _notes(store, [*reversed(older), history])
    except (PenstockError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, PenstockError) and error.retryable:
            raise  # the database is away: another matter
        made, trouble, notes = None, str(error), {}
    name = str((notes.get(NOTE) or {}).get("pipeline", job.task))
    return PipelineRun(job, name, tuple(known), tuple(steps_of(history, notes)), made, trouble)


def _notes(store: JobStore, histories: Sequence[History]) -> dict[str, Mapping[str, Any]]:
    """What the steps' checkpoints say, of the newest round that has each."""
    found: dict[str, Mapping[str, Any]] = {}
    for history in histories:
        for point in history.checkpoints:
            if point.name == NOTE or point.name.startswith(note_name("")):
                note = store.load(history.job, point.data)
                if isinstance(note, Mapping):
                    found[point.name] = note
    return found


def steps_of(history: History, notes: Mapping[str, Mapping[str, Any]]) -> list[StepLine]:
    """Pure: the steps in the order in which the newest attempt came to them."""
    done = {point.name: point for point in history.checkpoints}
    lines: dict[str, StepLine] = {}
    for entry in history.entries:
        if not entry.step:
            continue
        if entry.message == _REUSED:
            line = StepLine(entry.step, "reused", at=entry.at)
        elif entry.message.startswith(_BEGINS):
            line = StepLine(entry.step, "running", entry.message.removeprefix(_BEGINS), entry.at)
        else:
            continue
        lines.pop(entry.step, None)
        point = done.get(note_name(entry.step))
        if line.how == "running" and point is not None and point.at >= entry.at:
            line = replace(
                line, how="ran", summary="" if point.summary.startswith(f"{entry.step}: ") else point.summary
            )
        elif line.how == "running" and history.job.state is not State.PROCESSING:
            line = replace(line, how="failed" if history.job.state is State.FAILED else "stopped")
        lines[entry.step] = _told(line, notes.get(note_name(entry.step)))
    return list(lines.values())


def _told(line: StepLine, note: Mapping[str, Any] | None) -> StepLine:
    if note is None or line.how not in ("ran", "reused"):
        return line
    try:
        took = utc_seconds(str(note["ended_at"])) - utc_seconds(str(note["began_at"]))
    except (KeyError, ValueError):
        took = None
    return replace(
        line,
        seconds=took if line.how == "ran" else None,
        version=note.get("version"),
        attempt=note.get("attempt"),
        outputs=tuple(note.get("outputs", ())),
    )


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────

SVG: Final = "image/svg+xml"
SVG_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""Whoever opens the picture by itself runs nothing of it either."""
PICTURE_BYTES: Final = 16 * 1024 * 1024
_ENDINGS: Final = (".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp")
_BEGINNINGS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}


def looks_like_picture(saved: SavedFile) -> bool:
    return saved.key.lower().endswith(_ENDINGS) and saved.size <= PICTURE_BYTES


def picture_type(saved: SavedFile, data: bytes) -> str | None:
    """The type that a browser is told: by the bytes, never by what somebody has called it; None for no picture."""
    for beginning, kind in _BEGINNINGS.items():
        if data.startswith(beginning):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return SVG if saved.key.lower().endswith(".svg") and b"<svg" in data[:1_000] else None


def pictures_of(made: Lineage | None) -> list[str]:
    """The names of outputs that are pictures; where one is there as SVG and as pixels, the SVG."""
    stems: dict[str, str] = {}
    for origin in made or ():
        if origin.file is not None and origin.step and "/" not in origin.name and looks_like_picture(origin.file):
            stem = origin.file.key.rpartition(".")[0]
            if stem not in stems or origin.file.key.endswith(".svg"):
                stems[stem] = origin.name
    return list(stems.values())
