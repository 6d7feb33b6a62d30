"""`/pipelines`: runs of pipelines, which are jobs. `/pipelines/{id}`: the steps of one, its lineage and results."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.clock import utc_seconds
from penstock.errors import PenstockError
from penstock.files import FileError, SavedFile
from penstock.jobs.model.job import History, Job, JobNotFound
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.pipelines.execution import INPUTS_NOTE, note_name
from penstock.pipelines.lineage import Lineage, Origin, lineage, outputs
from penstock.pipelines.rounds import QUEUE, rounds
from penstock.web.dashboard.charts.lineage_chart import draw_lineage
from penstock.web.dashboard.poller import Feed, KeyedFeed
from penstock.web.dashboard.site import Site, download, pretty
from penstock.web.problems import Problem

PAGE_JOBS: Final = 200
_MOST_SEARCHED: Final = 1_000
_MOST_ROUNDS: Final = 10
_TASKS_CHECKED: Final = 20
_REMEMBERED_SECONDS: Final = 60.0
_ROUND: Final = re.compile(r"~(\d+)$")
_BEGINS: Final = "begins: "
_REUSED: Final = "reused"

StepOutcome = Literal["ran", "reused", "running", "failed", "stopped", "pending"]


def base_id(job_id: str) -> str:
    """The id that a pipeline's job was given, whichever round of it this is."""
    return _ROUND.sub("", job_id)


def round_of(job_id: str) -> int:
    suffix = _ROUND.search(job_id)
    return 1 if suffix is None else int(suffix.group(1))


# ── finding runs ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first, a line for each id; `token` leads to older jobs."""

    jobs: tuple[Job, ...]
    token: str | None
    looked_at: int


class RunFinder:
    """Finds the runs of pipelines among the jobs: by their queue, or because their task carries a pipeline."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[bool, float]] = {}

    def page(self, store: JobStore, token: str | None) -> RunPage:
        """The runs among the next jobs; where those have none, it looks further, at no more than a thousand."""
        looked_at = 0
        while True:
            page = self._page(store, token)
            looked_at, token = looked_at + page.looked_at, page.token
            if page.jobs or token is None or looked_at >= _MOST_SEARCHED:
                return replace(page, looked_at=looked_at)

    def _page(self, store: JobStore, token: str | None) -> RunPage:
        page = store.find(limit=PAGE_JOBS, token=token)
        checks = _TASKS_CHECKED
        runs: dict[str, Job] = {}
        for job in page.jobs:
            if job.queue != QUEUE and checks and self._is_new(job):
                checks -= 1
                self._tasks[job.task] = (carries_pipeline(store, job), time.monotonic())
            if job.queue == QUEUE or self._tasks.get(job.task, (False, 0.0))[0]:
                runs.setdefault(base_id(job.id), job)
        return RunPage(tuple(runs.values()), page.token, len(page.jobs))

    def _is_new(self, job: Job) -> bool:
        known = self._tasks.get(job.task)
        stale = known is None or (not known[0] and time.monotonic() - known[1] > _REMEMBERED_SECONDS)
        return stale and job.entries > 0


def carries_pipeline(store: JobStore, job: Job) -> bool:
    """Whether a pipeline has written its inputs into the job."""
    point = store.checkpoint(job.id, INPUTS_NOTE)
    if point is None:
        return False
    try:
        note = store.load(job, point.data)
    except (PenstockError, OSError):
        return False
    return isinstance(note, Mapping) and "pipeline" in note and "inputs" in note


# ── reading a run ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step in the newest round."""

    name: str
    how: StepOutcome
    why: str = ""
    at: float | None = None
    seconds: float | None = None
    version: int | None = None
    attempt: int | None = None
    summary: str = ""
    outputs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Of a step that has made nothing yet; so is `will_make`."""
    will_make: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineRun:
    job: Job
    """Of the newest round."""
    pipeline: str
    rounds: tuple[Job, ...]
    steps: tuple[StepLine, ...]
    made: Lineage | None
    trouble: str = ""
    """Why the lineage cannot be read."""

    @property
    def id(self) -> str:
        return base_id(self.job.id)

    def count(self, how: StepOutcome) -> int:
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
            raise  # the database does not answer
        made, trouble, notes = None, str(error), {}
    name = str((notes.get(INPUTS_NOTE) or {}).get("pipeline", job.task))
    return PipelineRun(job, name, tuple(known), tuple(steps_of(history, notes)), made, trouble)


def _notes(store: JobStore, histories: Sequence[History]) -> dict[str, Mapping[str, Any]]:
    """What the steps' checkpoints say, of the newest round that has each."""
    notes: dict[str, Mapping[str, Any]] = {}
    for history in histories:
        for point in history.checkpoints:
            if point.name == INPUTS_NOTE or point.name.startswith(note_name("")):
                note = store.load(history.job, point.data)
                if isinstance(note, Mapping):
                    notes[point.name] = note
    return notes


_FIRST_TIME: Final = "not done yet"
"""Why a step began that had not run before; of one that has ended it would be wrong."""


def _declared(notes: Mapping[str, Mapping[str, Any]]) -> dict[str, StepLine]:
    """The steps as the run's note has them; none of a run by a version that did not keep them."""
    return {
        one["name"]: StepLine(one["name"], "pending", needs=tuple(one["inputs"]), will_make=tuple(one["outputs"]))
        for one in (notes.get(INPUTS_NOTE) or {}).get("steps", ())
    }


def steps_of(history: History, notes: Mapping[str, Mapping[str, Any]]) -> list[StepLine]:
    """Pure: the steps in the order in which the newest attempt reached them."""
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
            summary = "" if point.summary.startswith(f"{entry.step}: ") else point.summary
            line = replace(line, how="ran", why="" if line.why == _FIRST_TIME else line.why, summary=summary)
        elif line.how == "running" and history.job.state is not State.PROCESSING:
            error, has_failed = history.job.error, history.job.state is State.FAILED
            why = f"{error.kind}: {error.message}" if has_failed and error is not None else line.why
            line = replace(line, how="failed" if has_failed else "stopped", why=why)
        lines[entry.step] = _with_note(line, notes.get(note_name(entry.step)))
    declared = _declared(notes)
    for name, line in declared.items():
        if name not in lines:
            lines[name] = line
        elif lines[name].how not in ("ran", "reused"):
            lines[name] = replace(lines[name], needs=line.needs, will_make=line.will_make)
    return list(lines.values())


def _with_note(line: StepLine, note: Mapping[str, Any] | None) -> StepLine:
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
"""For a picture that is opened by itself: none of it runs."""
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
    """The content type, by the bytes and never by the name; None for no picture."""
    for beginning, kind in _BEGINNINGS.items():
        if data.startswith(beginning):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return SVG if saved.key.lower().endswith(".svg") and b"<svg" in data[:1_000] else None


def pictures_of(made: Lineage | None) -> list[str]:
    """The names of outputs that are pictures; of one that is both SVG and pixels, the SVG."""
    stems: dict[str, str] = {}
    for origin in made or ():
        if origin.file is not None and origin.step and "/" not in origin.name and looks_like_picture(origin.file):
            stem = origin.file.key.rpartition(".")[0]
            if stem not in stems or origin.file.key.endswith(".svg"):
                stems[stem] = origin.name
    return list(stems.values())


# ── the pages ────────────────────────────────────────────────────────────────────────────────────

_SHOWN_TOPICS: Final = 200


def routes(site: Site) -> list[Route]:
    finder = RunFinder()

    def listing(request: Request) -> Response:
        token = request.query_params.get("from") or None
        page = finder.page(site.source.store(), token)
        following = None if page.token is None else urlencode({"from": page.token})
        return site.page(
            request, "pipelines.html", page=page, next=following, is_first=token is None, base_id=base_id,
            round_of=round_of,
        )  # fmt: skip

    def show(request: Request) -> Response:
        store = site.source.store()
        job_id = request.path_params["job_id"]
        if base_id(job_id) != job_id:
            return RedirectResponse(f"/pipelines/{base_id(job_id)}", 303)
        run = read_run(store, job_id)
        context = {**_context(run), **_results(store, run)}
        return site.page(request, "pipeline.html", live="pipeline?" + urlencode({"key": run.id}), **context)

    def picture(request: Request) -> Response:
        store, origin = _requested_output(site, request)
        saved = origin.file
        if saved is None or store.files is None or not looks_like_picture(saved):
            raise Problem(404, f"{origin.name[:100]} is no picture.", "See the run's page.")
        data = store.files.read(saved.key, limit=PICTURE_BYTES, expect=saved)
        kind = picture_type(saved, data)
        if kind is None:
            raise Problem(404, f"{origin.name[:100]} is no picture.", "Download it from the run's page.")
        headers = {"Content-Security-Policy": SVG_POLICY} if kind == SVG else {}
        return Response(data, 200, headers, kind)

    def file(request: Request) -> Response:
        store, origin = _requested_output(site, request)
        if origin.file is None or store.files is None:
            raise Problem(404, f"{origin.name[:100]} is no file here.", "Give `penstock up --files PLACE`.")
        stream = store.files.open(origin.file.key, expect=origin.file)
        return download(stream, origin.file.key, origin.file.size)

    return [
        Route("/pipelines", listing),
        Route("/pipelines/{job_id}", show),
        Route("/pipelines/{job_id}/pictures/{name:path}", _without_files(picture)),
        Route("/pipelines/{job_id}/files/{name:path}", _without_files(file)),
    ]


def _without_files(handler: Any) -> Any:
    """Answers 404 for a file that is missing or has changed: the database is not down."""

    def answer(request: Request) -> Response:
        try:
            response: Response = handler(request)
        except FileError as error:
            raise Problem(404, str(error), "Run the pipeline again: what is missing is made again.") from None
        return response

    return answer


def _requested_output(site: Site, request: Request) -> tuple[JobStore, Origin]:
    store = site.source.store()
    name = request.path_params["name"]
    try:
        origins: Lineage = lineage(store, request.path_params["job_id"])
    except (KeyError, TypeError, ValueError):
        raise Problem(404, "This job is no run of a pipeline.", "Find it among the jobs.") from None
    origin = next((one for one in origins if one.name == name), None)
    if origin is None:
        raise Problem(404, f"{origins.job_id} has nothing called {name[:100]}.", "See the run's page.")
    return store, origin


# ── one run ──────────────────────────────────────────────────────────────────────────────────────


def _context(run: PipelineRun) -> dict[str, Any]:
    states = {step.name: step.how for step in run.steps}
    return {
        "run": run,
        "job": run.job,
        "drawing": draw_lineage(run.made, states, {step.name: (step.needs, step.will_make) for step in run.steps}),
        "colours": {"ran": "completed", "reused": "queued", "running": "processing", "failed": "failed"},
    }


def _results(store: JobStore, run: PipelineRun) -> dict[str, Any]:
    """Its outputs: files, values and pictures; and the names of Delphi's topics."""
    values: dict[str, str] = {}
    topics: list[tuple[str, str]] = []
    if run.made is not None:
        try:
            results = outputs(store, run.id)
        except (PenstockError, OSError, KeyError, ValueError):
            results = {}
        files = {origin.name for origin in run.made if origin.file is not None}
        values = {name: pretty(value) for name, value in results.items() if name not in files}
        topics = topics_of(results.get("names"))
    return {
        "values": values,
        "pictures": pictures_of(run.made) if store.files is not None else [],
        "has_files": store.files is not None,
        "topics": topics[:_SHOWN_TOPICS],
        "more_topics": max(0, len(topics) - _SHOWN_TOPICS),
    }


def topics_of(named: Any) -> list[tuple[str, str]]:
    """The names of Delphi's topics by key: `{"names": {"0_1": "Buses"}}`; nothing for any other value."""
    names = named.get("names") if isinstance(named, Mapping) else None
    if not isinstance(names, Mapping) or not all(isinstance(text, str) for text in names.values()):
        return []
    return [(str(key), text) for key, text in names.items()]


# ── live ─────────────────────────────────────────────────────────────────────────────────────────


def feeds(site: Site) -> dict[str, Feed]:
    def draw(key: str) -> str | None:
        try:
            return site.live_fragment("pipeline_live.html", **_context(read_run(site.source.store(), key)))
        except (JobNotFound, ValueError):
            return None

    return {"pipeline": KeyedFeed("pipeline", draw)}
