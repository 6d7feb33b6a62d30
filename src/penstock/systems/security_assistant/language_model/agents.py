"""The agents of a job that ask a language model, and which agents a job gets.

The model reads the context, finds the components page by page, and looks over the schedule. The workbook is written by
the agent that ships: a model's code is never run, and the rows that it found are cells of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.systems.security_assistant.drawing.agents import Agents, Answer, JudgeAgent, NothingFound, default_agents
from penstock.systems.security_assistant.drawing.components import Component, Components, type_of
from penstock.systems.security_assistant.drawing.context import Context
from penstock.systems.security_assistant.drawing.pdf import Drawing
from penstock.systems.security_assistant.drawing.schedule import Evaluation, Finding
from penstock.systems.security_assistant.language_model.endpoint import (
    BadModelSettings,
    Budget,
    ModelEndpoint,
    ModelError,
    ModelSettings,
)
from penstock.systems.security_assistant.language_model.page_images import page_image

if TYPE_CHECKING:
    from penstock.systems.security_assistant.language_model.answers import FoundComponent, PageForm

MODEL_STAGES: Final = ("context", "components", "evaluation")
_COST: Final = {"error": 20, "warning": 4}


class _Asked:
    """Adds up the tokens of several questions; a failure tells those of the questions before it too."""

    def __init__(self) -> None:
        self.tokens = 0

    def __enter__(self) -> _Asked:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError):
            error.tokens += self.tokens


class ModelContextReader:
    """Facts and requirements of a document, whatever its form and language."""

    name = "context"

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint

    def context(self, text: str) -> Answer[Context]:
        from penstock.systems.security_assistant.language_model.answers import ContextForm, context_questions

        facts: dict[str, str] = {}
        requirements: dict[str, None] = {}
        with _Asked() as asked:
            for question in context_questions(text):
                answer = self._endpoint.ask(question, ContextForm)
                asked.tokens += answer.tokens
                for fact in answer.value.facts:
                    facts.setdefault(fact.name, fact.value)
                requirements |= dict.fromkeys(one for one in answer.value.requirements if one)
        lines = sum(1 for line in text.splitlines() if line.strip())
        return Answer(Context(facts, tuple(requirements), lines), asked.tokens)


class ModelComponentFinder:
    """Components page by page: by the page's text, and with `images` by its picture too. Raises NothingFound."""

    name = "schedule"

    def __init__(self, endpoint: ModelEndpoint, *, images: bool = True) -> None:
        self._endpoint = endpoint
        self._images = images

    def components(self, drawing: Drawing, pdf: bytes, context: Context | None) -> Answer[Components]:
        from penstock.systems.security_assistant.language_model.answers import PageForm, page_question

        forms: list[tuple[int, PageForm]] = []
        with _Asked() as asked:
            for page in drawing.pages:
                png = page_image(pdf, page.number) if self._images else None
                if png is None and not page.rows:
                    continue  # there is nothing to ask about
                answer = self._endpoint.ask(page_question(page, len(drawing.pages), context, png), PageForm)
                asked.tokens += answer.tokens
                forms.append((page.number, answer.value))
        found = merge_pages(forms)
        if not found.found:
            raise NothingFound(
                f"{self._endpoint.settings.model} found no component on the drawing. Look at its pages, or try "
                "another model" + ("." if self._images else ", or let it see the pages (--model-images).")
            )
        return Answer(found, asked.tokens)


class ModelJudge:
    """The checks of the judge that ships, and what the model finds wrong besides."""

    name = "judge"

    def __init__(self, endpoint: ModelEndpoint, judge: JudgeAgent) -> None:
        self._endpoint = endpoint
        self._judge = judge

    def evaluation(self, components: Components, workbook: bytes) -> Answer[Evaluation]:
        from penstock.systems.security_assistant.language_model.answers import JudgeForm, judge_questions

        checked = self._judge.evaluation(components, workbook)
        known = {one.designator for one in components.found}
        check = f"{self._endpoint.settings.model} finds nothing wrong"
        findings: list[Finding] = []
        with _Asked() as asked:
            for question in judge_questions(components):
                answer = self._endpoint.ask(question, JudgeForm)
                asked.tokens += answer.tokens
                for one in answer.value.findings:
                    names = tuple(name for name in one.designators if name in known)
                    findings.append(Finding(check, one.severity, one.message, max(1, len(names)), names))
        score = max(0, checked.value.score - sum(_COST[one.severity] for one in findings))
        value = replace(
            checked.value,
            score=score,
            checks=(*checked.value.checks, check),
            findings=(*checked.value.findings, *findings),
        )
        return Answer(value, checked.tokens + asked.tokens)


def merge_pages(forms: Iterable[tuple[int, PageForm]]) -> Components:
    """What was found on all pages, each designator once: what one page does not say, another may."""
    found: dict[str, Component] = {}
    legend: dict[str, str] = {}
    stated: dict[str, int] = {}
    for number, form in forms:
        for entry in form.legend:
            legend.setdefault(entry.code, entry.description)
        for total in form.totals:
            stated.setdefault(type_of(total.description), total.count)
        for one in form.components:
            before = found.get(one.designator)
            found[one.designator] = _component(one, number) if before is None else _joined(before, one, number)
    return Components(tuple(sorted(found.values(), key=lambda one: (one.type, one.designator))), legend, stated)


def _component(one: FoundComponent, page: int) -> Component:
    return Component(
        designator=one.designator,
        type=type_of(one.description),
        description=one.description,
        pages=(page,),
        door=one.door,
        location=one.location,
        level=one.level,
        on_plan=one.where in ("plan", "both"),
        in_schedule=one.where in ("schedule", "both"),
    )


def _joined(before: Component, one: FoundComponent, page: int) -> Component:
    return replace(
        before,
        pages=tuple(sorted({*before.pages, page})),
        door=before.door or one.door,
        location=before.location or one.location,
        level=before.level or one.level,
        on_plan=before.on_plan or one.where in ("plan", "both"),
        in_schedule=before.in_schedule or one.where in ("schedule", "both"),
    )


def model_agents(
    settings: ModelSettings,
    *,
    budget: Budget | None = None,
    stages: Sequence[str] = MODEL_STAGES,
    images: bool = True,
    others: Agents | None = None,
) -> Agents:
    """Agents that ask this model in these stages, and `others` (those that ship) in the rest.

    agents = model_agents(ModelSettings.from_environment(os.environ, model="…"), budget=Budget(tokens=500_000))
    """
    unknown = [stage for stage in stages if stage not in MODEL_STAGES]
    if unknown:
        raise BadModelSettings(f"A model has no stage {unknown[0]!r}: it has {', '.join(MODEL_STAGES)}.")
    endpoint = ModelEndpoint(settings, budget)
    agents = others or default_agents()
    if "context" in stages:
        agents = replace(agents, context=ModelContextReader(endpoint))
    if "components" in stages:
        agents = replace(agents, schedule=ModelComponentFinder(endpoint, images=images))
    if "evaluation" in stages:
        agents = replace(agents, judge=ModelJudge(endpoint, agents.judge))
    return agents
