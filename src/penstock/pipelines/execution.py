"""What a job begins with, its steps run or found as they were made before, and the report on them.

1. A step's checkpoint is written after everything that it made is stored: a step that has one is done.
2. A step is reused if it has the version and the inputs that its checkpoint tells of, by their hashes, and if all that
   it made is still there as it was. Otherwise it runs, and the report says why.
3. What a step made is hashed, so that a step that ran again and made the same makes no later one run again.
4. Inputs are given once and kept with the job, so that it can be resumed by its id alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal

from penstock.clock import Clock, utc_text
from penstock.files import FileChanged, FileMissing, SavedFile
from penstock.jobs.context import attempt_of
from penstock.pipelines.context import StepContext
from penstock.pipelines.definition import INPUTS, BadPipeline, Step
from penstock.pipelines.rounds import Ledger
from penstock.pipelines.values import PipelineFile, Product, name_in_attempt, path_hash

How = Literal["running", "ran", "reused", "waiting"]


@dataclass(frozen=True, slots=True)
class StepReport:
    """`why` says why it ran, or what was reused; a step that is "waiting" was not reached."""

    name: str
    how: How
    why: str = ""
    seconds: float = 0.0
    summary: str = ""
    """The step's own words on what it made (`context.summary`)."""

    def __str__(self) -> str:
        took = f"{self.seconds:.1f} s" if self.how == "ran" else ""
        words = "; ".join(one for one in (self.why, self.summary) if one)
        return f"  {self.name:<20} {self.how:<8} {took:>8}  {words}".rstrip()


@dataclass(frozen=True, slots=True)
class PipelineReport:
    """`report["topics"]` is an output of a step: a JSON value, or a PipelineFile."""

    pipeline: str
    job_id: str
    steps: tuple[StepReport, ...]
    outputs: Mapping[str, Any]
    """Those of the steps that are done."""
    stopped: str = ""
    """Why it stopped before the end: run the same job again, and it continues there. Empty when it is finished."""

    def __getitem__(self, output: str) -> Any:
        return self.outputs[output]

    @property
    def finished(self) -> bool:
        """Whether it came to its end; if not, `stopped` says why."""
        return not self.stopped

    @property
    def ran(self) -> tuple[str, ...]:
        """The steps that were run this time."""
        return tuple(step.name for step in self.steps if step.how == "ran")

    @property
    def reused(self) -> tuple[str, ...]:
        """The steps that were not run, because what they made is there."""
        return tuple(step.name for step in self.steps if step.how == "reused")

    def __str__(self) -> str:
        end = f"stopped: {self.stopped}. Run it again to continue." if self.stopped else "finished."
        head = f"{self.pipeline} {self.job_id}: {len(self.ran)} ran, {len(self.reused)} reused, {end}"
        return "\n".join([head, *(str(step) for step in self.steps)])


INPUTS_NOTE: Final = INPUTS
_DEFAULT: Final = "default"
"""Marks a parameter that was not given: a new default of the pipeline takes its place."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Those that a run is given. One that is not given is as it was in this job, or the pipeline's own default."""

    pipeline: str
    names: Sequence[str]
    defaults: Mapping[str, Any]
    given: Mapping[str, Any]
    steps: Sequence[Step] = ()
    """Kept beside them, so that those who look at a run know what is still to come."""

    def products(self, ledger: Ledger) -> dict[str, Product]:
        """All of them. Files of this machine become files of the job, where the ledger writes."""
        note: Mapping[str, Any] = ledger.read(INPUTS_NOTE) or {}
        self._check_pipeline(note)
        kept = {name: form for name, form in note.get("inputs", {}).items() if not form.get(_DEFAULT)}
        self._check(kept)
        own = {name: Product.parse(form) for name, form in kept.items() if name in self._input_names}
        own |= {name: self._product(name, value, own.get(name), ledger) for name, value in self.given.items()}
        missing = {name: value for name, value in self.defaults.items() if name not in own}
        others = {name: Product.of(value, f"parameters.{name}") for name, value in missing.items()}
        if ledger.ctx is not None:
            self._write(ledger, note, own, others)
        return others | own

    def _write(self, ledger: Ledger, before: Any, own: Mapping[str, Product], others: Mapping[str, Product]) -> None:
        """Keeps what was given; and, for those who ask where things come from, what was not."""
        forms = {name: product.form() for name, product in own.items()}
        forms |= {name: {**product.form(), _DEFAULT: True} for name, product in others.items()}
        steps = [{"name": one.name, "inputs": list(one.inputs), "outputs": list(one.outputs)} for one in self.steps]
        note = {"pipeline": self.pipeline, "inputs": forms, "steps": steps}
        if note != before:
            ledger.write(INPUTS_NOTE, note, summary=", ".join(forms))

    @property
    def _input_names(self) -> set[str]:
        return {*self.names, *self.defaults}

    def _check_pipeline(self, note: Mapping[str, Any]) -> None:
        """A job carries one pipeline: two would take each other's steps and files for their own."""
        other = note.get("pipeline", self.pipeline)
        if other != self.pipeline:
            raise BadPipeline(self.pipeline, [f"the job carries the pipeline {other!r} already: use a job for each"])

    def _check(self, kept: Mapping[str, Any]) -> None:
        takes = ", ".join((*self.names, *self.defaults)) or "none"
        unknown = [name for name in self.given if name not in self._input_names]
        found = [f"{name!r} is no input of it: it takes {takes}" for name in unknown]
        missing = [name for name in self.names if name not in self.given and name not in kept]
        found += [f"its input {name!r} is missing: give inputs={{{name!r}: …}}" for name in missing]
        if found:
            raise BadPipeline(self.pipeline, found)

    def _product(self, name: str, value: Any, before: Product | None, ledger: Ledger) -> Product:
        if isinstance(value, Path):
            return self._of_path(name, value, before, ledger)
        return Product.of(value, f"inputs.{name}")

    def _of_path(self, name: str, path: Path, before: Product | None, ledger: Ledger) -> Product:
        try:
            digest = path_hash(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise BadPipeline(self.pipeline, [f"its input {name!r} is the file {path}: {reason}"]) from error
        is_kept = before is not None and before.file is not None and before.sha256 == digest
        if before is not None and is_kept and (ledger.ctx is None or before.is_whole(ledger.files)):
            return before
        if ledger.ctx is None:
            return Product(file=SavedFile(str(path), 0, digest, ""), sha256=digest)  # to be compared, not to be read
        stored = name_in_attempt(f"{name}{path.suffix}", ledger.ctx.attempt)
        with path.open("rb") as stream:
            file = attempt_of(ledger.ctx).save_file(f"{INPUTS}/{stored}", stream)
        return Product.of_file(file.saved)


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
            found, why = self._find_products(step, fingerprint)
            span = (100 * place / len(self.steps), 100 * (place + 1) / len(self.steps))
            if found is not None:
                self.products.update(found)
                self._report_reuse(step, span)
            elif self.ledger.ctx is None:
                raise NotDone
            else:
                self.ledger.stop_if_asked()
                self._run(step, fingerprint, why, span, {name: makers.get(name, "") for name in step.inputs})

    def all_reports(self) -> tuple[StepReport, ...]:
        """With those that were not reached."""
        reached = {report.name for report in self.reports}
        return (*self.reports, *(StepReport(step.name, "waiting") for step in self.steps if step.name not in reached))

    # ── what is there ────────────────────────────────────────────────────────────────────────────

    def _find_products(self, step: Step, fingerprint: str) -> tuple[dict[str, Product] | None, str]:
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
        files = self.ledger.files
        forms = [*note["files"].values(), *(form["file"] for form in note["outputs"].values() if "file" in form)]
        for saved in {form["key"]: SavedFile.parse(form) for form in forms}.values():
            if files is None:
                return f"its file {saved.key} cannot be looked at: this store has no place for files"
            try:
                PipelineFile(saved, files).check()
            except FileMissing:
                return f"its file {saved.key} is missing"
            except FileChanged as error:
                return f"its file {saved.key} was changed: {error.reason}"
        return ""

    def _report_reuse(self, step: Step, span: tuple[float, float]) -> None:
        report = StepReport(step.name, "reused")
        self.reports.append(report)
        if self.ledger.ctx is not None:
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
        made = self._call(step, context, inputs)
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

    def _call(self, step: Step, context: StepContext, inputs: Mapping[str, Product]) -> dict[str, Product]:
        try:
            given = {name: product.step_value(self.ledger.files) for name, product in inputs.items()}
            return self._products_of(step, step.function(context, **given))
        except Exception as error:
            error.add_note(
                f"In the step {step.name!r} of the pipeline {self.pipeline!r}. What was done before it is kept: "
                f"run the job {self.job_id} again, and it continues here."
            )
            raise

    def _products_of(self, step: Step, value: Any) -> dict[str, Product]:
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
