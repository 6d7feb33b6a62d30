"""A small showing of the whole system: three drawings of two companies, and the local twin.

One of them is processed in parts, and a stand-in for a language model reads the context document of another one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.client.database import Database
from penstock.extras import missing
from penstock.jobs.model.state import State
from penstock.systems.security_assistant.context_document.requirements import context_of
from penstock.systems.security_assistant.drawing.agents import Agents
from penstock.systems.security_assistant.drawing.components import count_components
from penstock.systems.security_assistant.drawing.drawing_check import check_drawing_marks
from penstock.systems.security_assistant.drawing.pdf import read_drawing
from penstock.systems.security_assistant.drawing.pdfium import render_page
from penstock.systems.security_assistant.drawing.sample import Building, PdfPage
from penstock.systems.security_assistant.drawing.sample import pdf as pdf_of
from penstock.systems.security_assistant.drawing.scans.scanned_page import MODULES as OCR_MODULES
from penstock.systems.security_assistant.jobs.job import DrawingJob, count_text
from penstock.systems.security_assistant.jobs.json_store import JsonJobStore
from penstock.systems.security_assistant.jobs.processor import Processor
from penstock.systems.security_assistant.jobs.stages import NewDrawing, submit_drawing
from penstock.systems.security_assistant.jobs.storage import Settings, Storage, table_storage
from penstock.systems.security_assistant.jobs.store import copy_jobs
from penstock.systems.security_assistant.language_model.agents import model_agents
from penstock.systems.security_assistant.language_model.endpoint import Budget, ModelSettings
from penstock.systems.security_assistant.language_model.stand_in import MODEL, stand_in_endpoint

_IN_BUBBLES: Final = 12
_SCAN_DPI: Final = 200
_CONTEXT: Final = b"Standard: EN 60839-11-1\nEvery reader shall be flush mounted.\n"
_BUILDINGS: Final = (
    ("7central", Building()),
    ("7central", Building(client="Tech Campus", project="Main Building", levels=3, doors=14, number="SEC-310")),
    ("acme", Building(client="Harbour Offices", project="Refit", levels=1, doors=8, number="SEC-007")),
)


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Does it on `db`, with files under `folder`; the facts of what was done."""
    progress(0.0, "making the tables of the security assistant")
    storage = table_storage(db, Settings("aws", files=str(folder / "security-assistant-files")))
    storage.prepare()
    jobs = []
    for number, (company, building) in enumerate(_BUILDINGS[:-1]):
        progress(0.1 + 0.25 * number, f"{building.client}, {building.project}: drawing to schedule")
        jobs.append(_process(storage, company, building, _CONTEXT if number == 0 else None, in_parts=number == 0))
    progress(0.6, "a language model reads the context document of the last drawing")
    job, model = ask_model(storage, *_BUILDINGS[-1])
    jobs.append(job)
    progress(0.9, "exporting to jobs.json")
    twin = folder / "local_output"
    moved = copy_jobs(storage.store, JsonJobStore(twin), now=storage.now(), replace_existing=True)
    first = jobs[0]
    drawing = folder / "drawing.pdf"
    drawing.write_bytes(_BUILDINGS[0][1].pdf())
    progress(0.92, "another office's style, and a scan of it")
    checked = _check(drawing.read_bytes()) | _bubbles(folder / "bubbles.pdf")
    progress(1.0, "done")
    return {
        "drawings": len(jobs),
        "pages": sum(int(job.metadata["total_pages"]) for job in jobs),
        "components": sum(_components(job) for job in jobs),
        "requirements in its brief": len(context_of(_CONTEXT.decode()).requirements),
        "completed": sum(1 for job in jobs if job.state is State.COMPLETED),
        "workers for the first": first.attempt,
        "stages done twice": sum(number - 1 for number in first.stage_versions.values()),
        "jobs of 7central": len(storage.for_company("7central").query_by_status("completed").jobs),
        "in jobs.json": moved.copied + moved.same + moved.replaced,
        "a language model as agent": model,
        **checked,
        "drawing": str(drawing),
        "schedule": str(folder / "security-assistant-files" / first.output_files["excel"]),
    }


def _process(
    storage: Storage,
    company: str,
    building: Building,
    context: bytes | None = None,
    agents: Agents | None = None,
    *,
    in_parts: bool = False,
) -> DrawingJob:
    """With `in_parts`, each stage is another worker's, whose time is up after it."""
    new = NewDrawing(company, building.client, building.project, f"{building.number}.pdf", building.pdf())
    if context is not None:
        new = replace(new, context_name="brief.txt", context=context)
    job = submit_drawing(storage, new)
    limit = 0.0 if in_parts else 900.0
    while not job.is_terminal:
        done = Processor(storage, agents, time_limit_seconds=limit, safety_margin_seconds=0.0).process(job)
        if done is None:
            return storage.job(job.id)
        job = done
    return job


def ask_model(storage: Storage, company: str, building: Building) -> tuple[DrawingJob, str]:
    """A job whose context stage asks a model, and what that took; where the extra is missing, no model is asked."""
    if missing("httpx", "pydantic"):
        return _process(storage, company, building, _CONTEXT), "not run: pip install 'penstock[models]'"
    budget = Budget(tokens=100_000)
    with stand_in_endpoint() as url:
        agents = model_agents(ModelSettings(url, MODEL), budget=budget, stages=["context"])
        job = _process(storage, company, building, _CONTEXT, agents)
    point = job.checkpoints.get("context_extracted")
    if point is None or point.summary is None:
        return job, f"failed: {(job.error or {}).get('message')}"
    read = ", ".join(count_text(count, name.removesuffix("s")) for name, count in point.summary.items())
    tokens = job.metadata["token_usage"]["by_agent"]["context"]
    return job, f"context stage: {read}; {count_text(budget.requests, 'request')}, {tokens} tokens"


def _check(pdf: bytes) -> dict[str, object]:
    """The drawing's own check of what was found on it, and of the same with every fourth component left out."""
    drawing = read_drawing(pdf)
    found = count_components(drawing)
    fewer = replace(found, found=tuple(one for at, one in enumerate(found.found) if at % 4))
    whole, lacking = (check_drawing_marks(drawing, one) for one in (found, fewer))
    return {
        "check of the drawing": f"{whole.score} points; with every fourth component left out: {lacking.score}",
    }


def _bubbles(place: Path) -> dict[str, object]:
    """Codes over numbers in bubbles, as another office draws them; and the same page as a picture."""
    page = PdfPage((420.0, 300.0))
    for at in range(_IN_BUBBLES):
        x, y = 50 + 64 * (at % 6), 220 - 70 * (at // 6)
        page.circle(x, y, 13)
        page.centred_text(x, y + 2, ("CR", "DC", "ES")[at % 3], size=8)
        page.centred_text(x, y - 9, str(11 + at // 3), size=8)
    page.text(50, 60, "ALL READERS ARE MOUNTED AT ONE METRE", size=8)
    place.write_bytes(pdf_of([page]))
    drawn = len(count_components(read_drawing(place.read_bytes())).found)
    found: dict[str, object] = {"devices in bubbles": f"{drawn} of {_IN_BUBBLES} found"}
    if missing(*OCR_MODULES):
        return found | {"the same, scanned": "not read: pip install 'penstock[ocr]'"}
    from PIL import Image

    width, height, pixels = render_page(place.read_bytes(), 0, _SCAN_DPI, _SCAN_DPI**2 * 100)
    scan = io.BytesIO()
    Image.frombytes("L", (width, height), pixels).rotate(1, fillcolor=255).save(scan, "PDF", resolution=_SCAN_DPI)
    read = len(count_components(read_drawing(scan.getvalue())).found)
    return found | {"the same, scanned askew": f"{read} of {_IN_BUBBLES} found"}


def _components(job: DrawingJob) -> int:
    point = job.checkpoints.get("components_extracted")
    return 0 if point is None or point.summary is None else int(point.summary["total_components"])
