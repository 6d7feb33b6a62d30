"""The agents that do the thinking of each stage. Those that ship read and count, and need no key and no network.

Another one, of a language model's say, has the same method, and tells how many tokens it has used:

    class MyScheduler:
        name = "schedule"

        def components(self, drawing, pdf, context):
            ...
            return Answer(Components(...), tokens=45_000)

    agents = replace(default_agents(), schedule=MyScheduler())

`penstock security process --agents my_module:make_agents` takes a function that gives `Agents`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from penstock.errors import PenstockError
from penstock.extras import missing
from penstock.systems.security_assistant.context_document.requirements import context_of
from penstock.systems.security_assistant.drawing.components import Components, count_components
from penstock.systems.security_assistant.drawing.context import Context
from penstock.systems.security_assistant.drawing.pdf import BadDrawing, Drawing
from penstock.systems.security_assistant.drawing.scans.scanned_page import MODULES as OCR_MODULES
from penstock.systems.security_assistant.drawing.schedule import (
    Evaluation,
    Heading,
    evaluate,
    schedule_sheets,
    workbook,
)
from penstock.user_modules import load_attribute

Value = TypeVar("Value")


class NothingFound(BadDrawing):
    """The drawing can be read, and no component is on it."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """What an agent found, and what it cost."""

    value: Value
    tokens: int = 0


class ContextAgent(Protocol):
    @property
    def name(self) -> str: ...
    def context(self, text: str) -> Answer[Context]: ...


class ScheduleAgent(Protocol):
    @property
    def name(self) -> str: ...
    def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]: ...


class CodegenAgent(Protocol):
    @property
    def name(self) -> str: ...
    def workbook(self, components: Components, context: Context | None, heading: Heading) -> Answer[bytes]: ...


class JudgeAgent(Protocol):
    @property
    def name(self) -> str: ...
    def evaluation(self, components: Components, workbook: bytes) -> Answer[Evaluation]: ...


class ContextReader:
    """Facts and requirements in headings, paragraphs, lists and tables."""

    name = "context"

    def context(self, text: str) -> Answer[Context]:
        return Answer(context_of(text))


class ComponentCounter:
    """Components by their designators and the drawing's legend. Raises NothingFound."""

    name = "schedule"

    def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
        found = count_components(drawing)
        if not found.found:
            raise NothingFound(_nothing(drawing.kind))
        return Answer(found)


class WorkbookWriter:
    """The schedule as an Excel workbook."""

    name = "codegen"

    def workbook(self, components: Components, context: Context | None, heading: Heading) -> Answer[bytes]:
        return Answer(workbook(schedule_sheets(components, context, heading), heading))


class ScheduleJudge:
    """Compares the workbook with the components, and the drawing with itself."""

    name = "judge"

    def evaluation(self, components: Components, workbook: bytes) -> Answer[Evaluation]:
        return Answer(evaluate(components, workbook))


@dataclass(frozen=True, slots=True)
class Agents:
    """One for each stage that thinks."""

    context: ContextAgent
    schedule: ScheduleAgent
    codegen: CodegenAgent
    judge: JudgeAgent


def default_agents() -> Agents:
    return Agents(ContextReader(), ComponentCounter(), WorkbookWriter(), ScheduleJudge())


def load_agents(place: str) -> Agents:
    """What the function `module:name` gives."""
    module, name, make = load_attribute(place, what="function", example="my_agents:make")
    if not callable(make):
        raise PenstockError(f"{module.__name__} has no function named {name}.")
    agents = make()
    if not isinstance(agents, Agents):
        raise PenstockError(f"{place} gives {type(agents).__name__}, and not Agents.")
    return agents


def _nothing(kind: str) -> str:
    if kind == "scanned":
        if missing(*OCR_MODULES):
            return (
                "The drawing is scanned: its pages are pictures without text. Install text recognition (pip install "
                "'penstock[ocr]'), export it from its CAD program, or plug in an agent that reads pictures."
            )
        return (
            "The drawing is scanned, and no component was recognised on it. Scan it with 150 dpi at least, "
            "export it from its CAD program, or plug in an agent that reads pictures."
        )
    if kind == "blank":
        return "The drawing's pages are blank. Export it again."
    return (
        "No component is on the drawing: no tag such as CR-1.04, and no code in an outline, whose letters its "
        "legend has. Check the legend."
    )
