"""`/pipelines`: their runs, which are jobs. `/pipelines/{id}`: the steps of one, and what came from what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.files import FileError
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.store.store import JobStore
from penstock.pipelines.lineage import Lineage, Origin, lineage, outputs
from penstock.web.dashboard import lineage_chart, pipeline_runs
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed, Message, fragment
from penstock.web.dashboard.pages.job import disposition
from penstock.web.dashboard.pipeline_runs import Finder, PipelineRun, base_id, pictures_of, read_run, round_of
from penstock.web.dashboard.rendering import pretty
from penstock.web.problems import Problem

_BLOCK_BYTES: Final = 256 * 1024
_DRAWN_A_POLL: Final = 4
_SHOWN_TOPICS: Final = 200


def routes(desk: Desk) -> list[Route]:
    finder = Finder()

    def listing(request: Request) -> Response:
        token = request.query_params.get("from") or None
        found = finder.page(desk.source.store(), token)
        following = None if found.token is None else urlencode({"from": found.token})
        return desk.page(
            request, "pipelines.html", found=found, next=following, is_first=token is None, base_id=base_id,
            round_of=round_of,
        )  # fmt: skip

    def show(request: Request) -> Response:
        store = desk.source.store()
        job_id = request.path_params["job_id"]
        if base_id(job_id) != job_id:
            return RedirectResponse(f"/pipelines/{base_id(job_id)}", 303)
        run = read_run(store, job_id)
        context = {**_context(run), **_results(store, run)}
        return desk.page(request, "pipeline.html", live="pipeline?" + urlencode({"key": run.id}), **context)

    def picture(request: Request) -> Response:
        store, origin = _asked(desk, request)
        saved = origin.file
        if saved is None or store.files is None or not pipeline_runs.looks_like_picture(saved):
            raise Problem(404, f"{origin.name[:100]} is no picture.", "See the run's page.")
        data = store.files.read(saved.key, limit=pipeline_runs.PICTURE_BYTES, expect=saved)
        kind = pipeline_runs.picture_type(saved, data)
        if kind is None:
            raise Problem(404, f"{origin.name[:100]} is no picture.", "Download it from the run's page.")
        headers = {"Content-Security-Policy": pipeline_runs.SVG_POLICY} if kind == pipeline_runs.SVG else {}
        return Response(data, 200, headers, kind)

    def download(request: Request) -> Response:
        store, origin = _asked(desk, request)
        if origin.file is None or store.files is None:
            raise Problem(404, f"{origin.name[:100]} is no file here.", "Give `penstock up --files PLACE`.")
        stream = store.files.open(origin.file.key, expect=origin.file)
        headers = {"Content-Disposition": disposition(origin.file.key), "Content-Length": str(origin.file.size)}
        return StreamingResponse(_blocks(stream), 200, headers, "application/octet-stream")

    return [
        Route("/pipelines", listing),
        Route("/pipelines/{job_id}", show),
        Route("/pipelines/{job_id}/pictures/{name:path}", _without_files(picture)),
        Route("/pipelines/{job_id}/files/{name:path}", _without_files(download)),
    ]


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block


def _without_files(handler: Any) -> Any:
    """A file that is gone, or is another by now, is no reason to say that the database is away."""

    def answer(request: Request) -> Response:
        try:
            response: Response = handler(request)
        except FileError as error:
            raise Problem(404, str(error), "Run the pipeline again: what is missing is made again.") from None
        return response

    return answer


def _asked(desk: Desk, request: Request) -> tuple[JobStore, Origin]:
    store = desk.source.store()
    name = request.path_params["name"]
    try:
        found: Lineage = lineage(store, request.path_params["job_id"])
    except (KeyError, TypeError, ValueError):
        raise Problem(404, "This job is no run of a pipeline.", "Find it among the jobs.") from None
    origin = next((one for one in found if one.name == name), None)
    if origin is None:
        raise Problem(404, f"{found.job_id} has nothing called {name[:100]}.", "See the run's page.")
    return store, origin


# ── one run ──────────────────────────────────────────────────────────────────────────────────────


def _context(run: PipelineRun) -> dict[str, Any]:
    states = {step.name: step.how for step in run.steps}
    return {
        "run": run,
        "job": run.job,
        "drawing": lineage_chart.drawn(run.made, states),
        "colours": {"ran": "completed", "reused": "queued", "running": "processing", "failed": "failed"},
    }


def _results(store: JobStore, run: PipelineRun) -> dict[str, Any]:
    """What it made: files to download, values to read, pictures to see; and Delphi's topics by their names."""
    values: dict[str, str] = {}
    topics: list[tuple[str, str]] = []
    if run.made is not None:
        try:
            found = outputs(store, run.id)
        except (PenstockError, OSError, KeyError, ValueError):
            found = {}
        files = {origin.name for origin in run.made if origin.file is not None}
        values = {name: pretty(value) for name, value in found.items() if name not in files}
        topics = topics_of(found.get("names"))
    return {
        "values": values,
        "pictures": pictures_of(run.made) if store.files is not None else [],
        "has_files": store.files is not None,
        "topics": topics[:_SHOWN_TOPICS],
        "more_topics": max(0, len(topics) - _SHOWN_TOPICS),
    }


def topics_of(named: Any) -> list[tuple[str, str]]:
    """Delphi's names of topics, by their keys: `{"names": {"0_1": "Buses"}}`; nothing for any other value."""
    names = named.get("names") if isinstance(named, Mapping) else None
    if not isinstance(names, Mapping) or not all(isinstance(text, str) for text in names.values()):
        return []
    return [(str(key), text) for key, text in names.items()]


# ── live ─────────────────────────────────────────────────────────────────────────────────────────


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"pipeline": _PipelineFeed(desk)}


class _PipelineFeed:
    """A few runs a poll, in turn."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._turn = 0

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        store = self._desk.source.store()
        start = self._turn % max(1, len(keys))
        self._turn += _DRAWN_A_POLL
        found = {}
        for key in [*keys[start:], *keys[:start]][:_DRAWN_A_POLL]:
            try:
                run = read_run(store, key)
            except (JobNotFound, ValueError):
                continue
            found[key] = [fragment("pipeline", self._desk.fragment("pipeline_live.html", **_context(run)))]
        return found

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()
