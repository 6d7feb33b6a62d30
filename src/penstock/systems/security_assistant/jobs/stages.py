"""The stages of a job: pdf → context (if there is one) → components → excel → evaluation.

1. A stage reads what the stages before it have left in files, never what they left in memory: whoever takes a job
   over has all that its last worker had.
2. Every file that is read must have the hash that the job's item says. A stage whose file is missing or changed is
   done again, and so are those after it.
3. A drawing that is handed in is checked, saved, and then written down as a job: a job that is there has its files.
   Files whose job was never written are swept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Final

import orjson

from penstock.clock import utc_text
from penstock.files import FileChanged, FileMissing, SavedFile
from penstock.files.keys import add_version
from penstock.jobs.model.job import Job, new_id
from penstock.jobs.model.state import State
from penstock.jobs.sources import NEVER_EXPIRES
from penstock.optimistic import Conflict
from penstock.stored_text import cut
from penstock.systems.security_assistant.context_document.document import document_text
from penstock.systems.security_assistant.drawing.agents import Agents
from penstock.systems.security_assistant.drawing.components import Components
from penstock.systems.security_assistant.drawing.context import Context, ending_of
from penstock.systems.security_assistant.drawing.drawing_check import check_against
from penstock.systems.security_assistant.drawing.pdf import Drawing, check_drawing, read_drawing
from penstock.systems.security_assistant.drawing.schedule import Heading
from penstock.systems.security_assistant.jobs.job import TASK, Checkpoint, DrawingJob, count_text, job_name, new_event
from penstock.systems.security_assistant.jobs.storage import Storage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stage has made. `data` is its checkpoint; `outputs` are files for people, by kind."""

    data: Any
    summary: dict[str, Any]
    agent: str
    tokens: int = 0
    outputs: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


class Materials:
    """What a stage may read of its job. Everything is read once, and checked by its hash (2)."""

    def __init__(self, storage: Storage, job: DrawingJob, agents: Agents) -> None:
        self.storage = storage
        self.job = job
        self.agents = agents

    @cached_property
    def pdf(self) -> bytes:
        return self._file(self.job.input_files["drawing"])

    @cached_property
    def context_text(self) -> str:
        key = self.job.input_files["context"]
        return document_text(key, self._file(key))

    @cached_property
    def drawing(self) -> Drawing:
        return Drawing.of(self._checkpoint("pdf_processed"))

    @cached_property
    def context(self) -> Context | None:
        return Context.of(self._checkpoint("context_extracted")) if "context" in self.job.input_files else None

    @cached_property
    def components(self) -> Components:
        return Components.of(self._checkpoint("components_extracted"))

    @cached_property
    def workbook(self) -> bytes:
        return self._file(self.job.output_files["excel"])

    def _file(self, key: str) -> bytes:
        return self.storage.get(key, expect=self.job.saved.get(key))

    def _checkpoint(self, name: str) -> Any:
        point = self.job.checkpoints[name]
        return orjson.loads(self.storage.get(point.data_key, expect=_expected(point)))


def _pdf(materials: Materials) -> Outcome:
    drawing = read_drawing(materials.pdf)
    rows = sum(len(page.rows) for page in drawing.pages)
    tables = sum(len(page.tables) for page in drawing.pages)
    summary = {"pages": len(drawing.pages), "rows": rows, "tables": tables, "pdf_type": drawing.kind}
    metadata = {"total_pages": len(drawing.pages), "pdf_type": drawing.kind}
    message = f"Read {count_text(len(drawing.pages), 'page')} with {count_text(tables, 'table')}"
    return Outcome(drawing.form(), summary, "pdf", metadata=metadata, message=message)


def _context(materials: Materials) -> Outcome:
    agent = materials.agents.context
    answer = agent.context(materials.context_text)
    found = answer.value
    message = f"Found {count_text(len(found.facts), 'fact')} and {count_text(len(found.requirements), 'requirement')}"
    return Outcome(found.form(), found.summary(), agent.name, answer.tokens, message=message)


def _components(materials: Materials) -> Outcome:
    agent = materials.agents.schedule
    answer = agent.components(materials.drawing, materials.pdf, materials.context)
    found = answer.value
    message = f"Successfully extracted {count_text(len(found.found), 'component')}"
    return Outcome(found.form(), found.summary(), agent.name, answer.tokens, message=message)


def _excel(materials: Materials) -> Outcome:
    agent, job = materials.agents.codegen, materials.job
    heading = Heading(
        company=job.company,
        client=job.client_name,
        project=job.project_name,
        job_id=job.id,
        file_name=str(job.metadata.get("file_name", "")),
        made_at=utc_text(materials.storage.now()),
    )
    answer = agent.workbook(materials.components, materials.context, heading)
    name = add_version("schedule.xlsx", job.stage_versions["excel"])
    summary = {"file": name, "size": len(answer.value)}
    outputs = {"excel": (name, answer.value)}
    return Outcome(summary, summary, agent.name, answer.tokens, outputs, message=f"Wrote {name}")


def _evaluation(materials: Materials) -> Outcome:
    agent = materials.agents.judge
    answer = agent.evaluation(materials.components, materials.workbook)
    judged = check_against(materials.drawing, materials.components, answer.value)
    form = judged.form()
    outputs = {"evaluation": ("evaluation.json", orjson.dumps(form, option=orjson.OPT_INDENT_2))}
    message = f"Score {judged.score}, {count_text(len(judged.findings), 'finding')}"
    return Outcome(form, judged.summary(), agent.name, answer.tokens, outputs, message=message)


@dataclass(frozen=True, slots=True)
class Stage:
    """`checkpoint` is its name in the item, `agent` who works in it; `outputs` are the kinds of files it makes."""

    name: str
    checkpoint: str
    agent: str
    run: Callable[[Materials], Outcome]
    outputs: tuple[str, ...] = ()


STAGES: Final = (
    Stage("pdf", "pdf_processed", "pdf_agent", _pdf),
    Stage("context", "context_extracted", "context_agent", _context),
    Stage("components", "components_extracted", "schedule_agent", _components),
    Stage("excel", "excel_generated", "codegen_agent", _excel, ("excel",)),
    Stage("evaluation", "evaluation_completed", "judge_agent", _evaluation, ("evaluation",)),
)
KINDS: Final = ("excel", "evaluation", "drawing", "context", "components")
"""What of a job can be downloaded."""


def stages_of(job: DrawingJob) -> tuple[Stage, ...]:
    """Those that the job has: without a context, there is nothing to read in it."""
    return tuple(stage for stage in STAGES if stage.name != "context" or "context" in job.input_files)


def remaining(storage: Storage, job: DrawingJob) -> tuple[tuple[Stage, ...], str]:
    """The stages that are to be done, and why one that was done already is among them ("" if none is)."""
    stages = stages_of(job)
    for at, stage in enumerate(stages):
        reason = _unusable(storage, job, stage)
        if reason is not None:
            return stages[at:], reason
    return (), ""


def _unusable(storage: Storage, job: DrawingJob, stage: Stage) -> str | None:
    """Why what the stage has left cannot be used; "" if it has left nothing, None if it can."""
    point = job.checkpoints.get(stage.checkpoint)
    if point is None:
        return ""
    if not point.sha256:
        return f"{point.data_key} has no hash to check it by"
    wanted = [(point.data_key, _expected(point))]
    for kind in stage.outputs:
        key = job.output_files.get(kind, "")
        if key not in job.saved:
            return f"its {kind} file is not known"
        wanted.append((key, job.saved[key]))
    try:
        for key, expected in wanted:
            storage.get(key, expect=expected)
    except (FileMissing, FileChanged) as error:
        return str(error)
    return None


def _expected(point: Checkpoint) -> SavedFile:
    return SavedFile(point.data_key, point.size, point.sha256, point.timestamp)


def file_of_kind(job: DrawingJob, kind: str) -> str | None:
    """The key of what is downloaded as `kind`; None while it is not there."""
    if kind in job.input_files:
        return job.input_files[kind]
    if kind == "components":
        point = job.checkpoints.get("components_extracted")
        return None if point is None else point.data_key
    return job.output_files.get(kind)


# ── submission ─────────────────────────────────────────────────────────────────────────────────────

_NAME_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class NewDrawing:
    """What is to be processed."""

    company_id: str
    client_name: str
    project_name: str
    file_name: str
    pdf: bytes
    context_name: str = ""
    context: bytes | None = None
    job_id: str | None = None


def check_files(new: NewDrawing) -> int:
    """How many pages it has. Raises BadDrawing: for those who ask before they make a place for it, too."""
    pages = check_drawing(new.pdf)
    if new.context is not None:
        document_text(new.context_name, new.context)
    return pages


def submit_drawing(storage: Storage, new: NewDrawing) -> DrawingJob:
    """The queued job. Raises BadName, BadDrawing, and Conflict for an id that is taken; then nothing is kept."""
    now = storage.now()
    name = job_name(new.company_id, new.client_name, new.project_name, new.job_id or new_id(now))
    pages = check_files(new)
    files = {"drawing": (name.path("drawing.pdf"), new.pdf)}
    if new.context is not None:
        files["context"] = (name.path(f"context{ending_of(new.context_name)}"), new.context)
    taken = storage.store.get(name.key)
    if taken is not None:
        raise Conflict(name.key, taken)
    saved = [storage.save(key, data) for key, data in files.values()]
    job = DrawingJob(
        name=name,
        client_name=cut(new.client_name.strip(), _NAME_CHARACTERS),
        project_name=cut(new.project_name.strip(), _NAME_CHARACTERS),
        lifecycle=Job(name.job_id, TASK, State.QUEUED, now, now, now, NEVER_EXPIRES, tenant=name.company),
        input_files={kind: key for kind, (key, _) in files.items()},
        metadata=_metadata(new, pages),
        saved={one.key: one for one in saved},
    )
    event = new_event(job, "job_created", now, f"{job.metadata['file_name']}: {count_text(pages, 'page')}", key=job.key)
    return storage.add(job, [event])


def _metadata(new: NewDrawing, pages: int) -> dict[str, Any]:
    shown = PurePosixPath(new.file_name.replace("\\", "/")).name or "drawing.pdf"
    return {
        "file_name": cut(shown, _NAME_CHARACTERS),
        "file_size_mb": round(len(new.pdf) / 1_000_000, 3),
        "total_pages": pages,
        "token_usage": {"total": 0, "by_agent": {}},
    }
