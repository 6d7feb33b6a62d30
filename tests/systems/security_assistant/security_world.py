"""What the tests of the security assistant share: a small drawing, and storages of every kind."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from penstock.clock import Clock, ManualClock
from penstock.systems.security_assistant.drawing.sample import Building
from penstock.systems.security_assistant.jobs.job import DrawingJob
from penstock.systems.security_assistant.jobs.stages import NewDrawing, submit_drawing
from penstock.systems.security_assistant.jobs.storage import Settings, Storage, open_storage

START = 1_894_701_600.0
"""2030-01-15T10:00:00Z, after today: the engine deletes what has expired by the machine's own clock."""
CLIENT = "St. Mary's Hospital"
PROJECT = "Emergency Wing"
KINDS = ("local", "safe", "compat")
TABLES = ("safe", "compat")
BUILDING = Building(levels=1, doors=4)


@cache
def drawing() -> bytes:
    """One level with four doors."""
    return BUILDING.pdf()


def settings_of(kind: str, folder: Path) -> Settings:
    folder.mkdir(exist_ok=True)
    if kind == "local":
        return Settings(folder=str(folder / "local_output"))
    layout: Any = kind
    return Settings("aws", url=str(folder / "jobs.db"), files=str(folder / "files"), layout=layout)


@contextmanager
def storage_of(kind: str, folder: Path, clock: Clock | None = None) -> Iterator[Storage]:
    with open_storage(settings_of(kind, folder), clock=clock) as storage:
        yield storage


def new_drawing(company: str = "7central", client: str = CLIENT, **others: Any) -> NewDrawing:
    return NewDrawing(company, client, PROJECT, "Building_A_Level_2_Security.pdf", drawing(), **others)


def made(storage: Storage, company: str = "7central", client: str = CLIENT, **others: Any) -> DrawingJob:
    return submit_drawing(storage, new_drawing(company, client, **others))


def ids(jobs: Any) -> list[str]:
    return [job.id for job in jobs]


def all_pages(query: Any, limit: int) -> list[str]:
    """The ids of every page of a query, one page after the other."""
    found: list[str] = []
    token = None
    while True:
        page = query(limit=limit, token=token)
        assert len(page.jobs) <= limit
        found += ids(page.jobs)
        token = page.token
        if token is None:
            return found


def docx(*paragraphs: str, head: str = "") -> bytes:
    """A Word document; `head` is what stands before its XML."""
    name = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(
            "word/document.xml", f'{head}<w:document xmlns:w="{name}"><w:body>{body}</w:body></w:document>'
        )
    return stream.getvalue()


def clock_at(moment: float = START) -> ManualClock:
    return ManualClock(moment)
