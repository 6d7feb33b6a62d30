"""Runs the steps of a job, or finds what they made.

1. A step's checkpoint is written after everything that it made is stored: a step that has one is done.
2. A step is reused if it has the version and the inputs that its checkpoint tells of, by their hashes, and if all that
   it made is still there as it was. Otherwise it runs, and the report says why.
3. What a step made is hashed, so that a step that ran again and made the same makes no later one run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from penstock.clock import Clock, utc_text
from penstock.files import FileChanged, FileMissing, SavedFile
from penstock.pipelines.context import StepContext
from penstock.pipelines.definition import Step
from penstock.pipelines.errors import BadPipeline
from penstock.pipelines.ledger import Ledger
from penstock.pipelines.report import StepReport
from penstock.pipelines.values import PipelineFile, Product

Tell = Callable[[StepReport], None]


class NotDone(Exception):
    """Something would have to run, and this is one who only looks."""


@dataclass(slots=True)
class Execution:
    """One run over the steps. With a ledger that only reads, it looks: NotDone is raised where a step would run."""

    pipeline: str
    job_id: str
    steps: Sequence[Step]
    """In the order in which they run."""
    ledger: Ledger
    products: dict[str, Product]
    """The pipeline's inputs; what the steps make is added."""
    clock: Clock
    executor: Executor | None = None
    tell: Tell = field(default=lambda report: None)
    reports: list[StepReport] = field(default_factory=list)

    def perform(self) -> None:
        makers = {name: step.name for step in self.steps for name in step.outputs}
        for place, step in enumerate(self.steps):
            fingerprint = step.fingerprint({name: self.products[name].sha256 for name in step.inputs})
            found, why = self._found(step, fingerprint)
            span = (100 * place / len(self.steps), 100 * (place + 1) / len(self.steps))
            if found is not None:
                self.products.update(found)
                self._reused(step, span)
            elif self.ledger.run is None:
                raise NotDone
            else:
                self.ledger.stop_if_asked()
                self._run(step, fingerprint, why, span, {name: makers.get(name, "") for name in step.inputs})

    def all_reports(self) -> tuple[StepReport, ...]:
        """With those that were not reached."""
        reached = {report.name for report in self.reports}
        return (*self.reports, *(StepReport(step.name, "waiting") for step in self.steps if step.name not in reached))

    # ── what is there ────────────────────────────────────────────────────────────────────────────

    def _found(self, step: Step, fingerprint: str) -> tuple[dict[str, Product] | None, str]:
        """What the step made before; or None, and why it has to run (2)."""
        try:
            note = self.ledger.read(note_name(step.name))
        except (FileMissing, FileChanged) as error:
            return None, f"its checkpoint lay in a file: {error.reason}"
        if note is None:
            return None, "not done yet"
        if note["fingerprint"] != fingerprint or set(note["outputs"]) != set(step.outputs):
            return None, self._difference(step, note)
        damage = self._damage(note)
        if damage:
            return None, damage
        return {name: Product.parse(form) for name, form in note["outputs"].items()}, ""

    def _difference(self, step: Step, note: Mapping[str, Any]) -> str:
        if note["version"] != step.version:
            return f"its version is {step.version}, and was {note['version']}"
        before: Mapping[str, str] = note["inputs"]
        changed = [name for name in step.inputs if before.get(name) != self.products[name].sha256]
        if changed:
            return f"{', '.join(changed)} changed"
        return "what it needs or makes was declared anew"

    def _damage(self, note: Mapping[str, Any]) -> str:
        """What is wrong with the files that it made; nothing if all are as they were."""
        home = self.ledger.home
        forms = [*note["files"].values(), *(form["file"] for form in note["outputs"].values() if "file" in form)]
        for saved in {form["key"]: SavedFile.parse(form) for form in forms}.values():
            if home is None:
                return f"its file {saved.key} cannot be looked at: this store has no place for files"
            try:
                PipelineFile(saved, home).check()
            except FileMissing:
                return f"its file {saved.key} is missing"
            except FileChanged as error:
                return f"its file {saved.key} was changed: {error.reason}"
        return ""

    def _reused(self, step: Step, span: tuple[float, float]) -> None:
        report = StepReport(step.name, "reused")
        self.reports.append(report)
        if self.ledger.run is not None:
            self.ledger.tell(step.name, "reused", span[1])
        self.tell(report)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def _run(
        self, step: Step, fingerprint: str, why: str, span: tuple[float, float], sources: Mapping[str, str]
    ) -> None:
        self.ledger.tell(step.name, f"begins: {why}", span[0])
        self.tell(StepReport(step.name, "running", why))
        context = StepContext(
            self.job_id, step.name, self.ledger, fingerprint=fingerprint, executor=self.executor, span=span
        )
        inputs = {name: self.products[name] for name in step.inputs}
        began_at, began = self.clock.now(), monotonic()
        made = self._called(step, context, inputs)
        note = {
            "step": step.name,
            "version": step.version,
            "fingerprint": fingerprint,
            "inputs": {name: product.sha256 for name, product in inputs.items()},
            "sources": dict(sources),
            "outputs": {name: product.form() for name, product in made.items()},
            "files": {name: saved.form() for name, saved in context.saved.items()},
            "began_at": utc_text(began_at),
            "ended_at": utc_text(self.clock.now()),
            "attempt": context.attempt,
        }
        seconds = monotonic() - began
        summary = str(context.summary)
        self.ledger.write(note_name(step.name), note, summary=summary or f"{step.name}: {why}", percent=span[1])
        self.products.update(made)
        report = StepReport(step.name, "ran", why, seconds, summary)
        self.reports.append(report)
        self.tell(report)

    def _called(self, step: Step, context: StepContext, inputs: Mapping[str, Product]) -> dict[str, Product]:
        try:
            given = {name: product.given(self.ledger.home) for name, product in inputs.items()}
            return self._made(step, step.function(context, **given))
        except Exception as error:
            error.add_note(
                f"In the step {step.name!r} of the pipeline {self.pipeline!r}. What was done before it is kept: "
                f"run the job {self.job_id} again, and it goes on here."
            )
            raise

    def _made(self, step: Step, value: Any) -> dict[str, Product]:
        """What was returned, by the names of the outputs. Raises NotJson, BadPipeline."""
        if len(step.outputs) == 1:
            return {step.outputs[0]: Product.of(value, f"{step.name}.{step.outputs[0]}")}
        if not step.outputs:
            if value is not None:
                problem = f"the step {step.name!r} returned a {type(value).__name__}, and has no outputs declared"
                raise BadPipeline(self.pipeline, [problem])
            return {}
        if not isinstance(value, Mapping) or set(value) != set(step.outputs):
            what = f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
            problem = f"the step {step.name!r} returns a dict of {', '.join(step.outputs)}, but returned {what}"
            raise BadPipeline(self.pipeline, [problem])
        return {name: Product.of(value[name], f"{step.name}.{name}") for name in step.outputs}


def note_name(step: str) -> str:
    """The checkpoint of a step."""
    return f"step {step}"
