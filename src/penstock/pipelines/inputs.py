"""What a job of a pipeline begins with: given once, kept with the job, so that it can be resumed by its id alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.files import FileChanged, FileMissing, SavedFile
from penstock.pipelines.definition import INPUTS
from penstock.pipelines.errors import BadPipeline
from penstock.pipelines.ledger import Ledger
from penstock.pipelines.values import PipelineFile, Product, name_in_attempt, path_hash

NOTE: Final = INPUTS
_DEFAULT: Final = "default"
"""Marks a parameter that was not given: a new default of the pipeline takes its place."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Those that a run is given. One that is not given is as it was in this job, or the pipeline's own default."""

    pipeline: str
    names: Sequence[str]
    defaults: Mapping[str, Any]
    given: Mapping[str, Any]

    def products(self, ledger: Ledger) -> dict[str, Product]:
        """All of them. Files of this machine become files of the job, where the ledger writes."""
        note: Mapping[str, Any] = ledger.read(NOTE) or {}
        self._check_pipeline(note)
        kept = {name: form for name, form in note.get("inputs", {}).items() if not form.get(_DEFAULT)}
        self._check(kept)
        own = {name: Product.parse(form) for name, form in kept.items() if name in self._known}
        own |= {name: self._product(name, value, own.get(name), ledger) for name, value in self.given.items()}
        missing = {name: value for name, value in self.defaults.items() if name not in own}
        others = {name: Product.of(value, f"parameters.{name}") for name, value in missing.items()}
        if ledger.run is not None:
            self._write(ledger, note, own, others)
        return others | own

    def _write(self, ledger: Ledger, before: Any, own: Mapping[str, Product], others: Mapping[str, Product]) -> None:
        """Keeps what was given; and, for those who ask where things come from, what was not."""
        forms = {name: product.form() for name, product in own.items()}
        forms |= {name: {**product.form(), _DEFAULT: True} for name, product in others.items()}
        note = {"pipeline": self.pipeline, "inputs": forms}
        if note != before:
            ledger.write(NOTE, note, summary=", ".join(forms))

    @property
    def _known(self) -> set[str]:
        return {*self.names, *self.defaults}

    def _check_pipeline(self, note: Mapping[str, Any]) -> None:
        """A job carries one pipeline: two would take each other's steps and files for their own."""
        other = note.get("pipeline", self.pipeline)
        if other != self.pipeline:
            raise BadPipeline(self.pipeline, [f"the job carries the pipeline {other!r} already: use a job for each"])

    def _check(self, kept: Mapping[str, Any]) -> None:
        takes = ", ".join((*self.names, *self.defaults)) or "none"
        found = [f"{name!r} is no input of it: it takes {takes}" for name in self.given if name not in self._known]
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
        if before is not None and before.sha256 == digest and (ledger.run is None or _is_whole(before, ledger)):
            return before
        if ledger.run is None:
            return Product(file=SavedFile(str(path), 0, digest, ""), sha256=digest)  # to be compared, not to be read
        stored = name_in_attempt(f"{name}{path.suffix}", ledger.run.attempt)
        with path.open("rb") as stream:
            file = ledger.run.files.save(f"{INPUTS}/{stored}", stream, may_stop=False)
        return Product.of_file(file.saved)


def _is_whole(product: Product, ledger: Ledger) -> bool:
    if product.file is None or ledger.home is None:
        return False
    try:
        PipelineFile(product.file, ledger.home).check()
    except (FileMissing, FileChanged):
        return False
    return True
