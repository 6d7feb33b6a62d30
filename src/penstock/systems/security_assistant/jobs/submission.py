"""How a drawing becomes a job: checked, saved, and written down, in this order.

A job that is there has its files; files whose job was never written are swept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from penstock.jobs.model.job import Job, new_id
from penstock.jobs.model.state import State
from penstock.jobs.sources import NEVER_EXPIRES
from penstock.optimistic import Conflict
from penstock.stored_text import cut
from penstock.systems.security_assistant.drawing.context import check_context, ending_of
from penstock.systems.security_assistant.drawing.pdf import check_drawing
from penstock.systems.security_assistant.jobs.job import TASK, DrawingJob, counted, new_event
from penstock.systems.security_assistant.jobs.names import job_name
from penstock.systems.security_assistant.jobs.storage import Storage

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
        check_context(new.context_name, new.context)
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
    told = new_event(job, "job_created", now, f"{job.metadata['file_name']}: {counted(pages, 'page')}", key=job.key)
    return storage.add(job, [told])


def _metadata(new: NewDrawing, pages: int) -> dict[str, Any]:
    shown = PurePosixPath(new.file_name.replace("\\", "/")).name or "drawing.pdf"
    return {
        "file_name": cut(shown, _NAME_CHARACTERS),
        "file_size_mb": round(len(new.pdf) / 1_000_000, 3),
        "total_pages": pages,
        "token_usage": {"total": 0, "by_agent": {}},
    }
