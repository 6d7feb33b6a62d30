"""What a job made, and where each thing comes from: which step, of which version, from what."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.files import SavedFile
from penstock.jobs.model.job import Checkpoint, Job, JobNotFound
from penstock.jobs.store.store import JobStore
from penstock.pipelines.definition import required_job_id, sorted_by_need
from penstock.pipelines.execution import INPUTS_NOTE, note_name
from penstock.pipelines.rounds import rounds
from penstock.pipelines.values import Product

_HASH_CHARACTERS: Final = 12


@dataclass(frozen=True, slots=True)
class Origin:
    """One thing of a job: an input, an output, or another file that a step saved (`{step}/{name}`)."""

    name: str
    sha256: str
    size: int
    file: SavedFile | None = None
    """None for a value."""
    step: str = ""
    """Which made it; empty for what the job was given."""
    version: int = 0
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What it was made from, and the hashes that those had then."""
    at: str = ""
    attempt: int = 0

    def form(self) -> dict[str, Any]:
        """As JSON."""
        names = ("name", "sha256", "size", "step", "version", "at", "attempt")
        form = {name: getattr(self, name) for name in names}
        return form | {"inputs": dict(self.inputs), "key": None if self.file is None else self.file.key}


@dataclass(frozen=True, slots=True)
class Lineage:
    """All that a job was given and has made, what was first needed first."""

    job_id: str
    origins: tuple[Origin, ...]

    def __getitem__(self, name: str) -> Origin:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Origin]:
        return iter(self.origins)

    def sources(self, name: str) -> tuple[Origin, ...]:
        """What it was made from, and what that was made from, and so on; the nearest first."""
        known = self._by_name
        found: dict[str, Origin] = {}
        waiting = deque(known[name].inputs)
        while waiting:
            source = waiting.popleft()
            if source not in found and source in known:
                found[source] = known[source]
                waiting += known[source].inputs
        return tuple(found.values())

    def is_current(self, name: str) -> bool:
        """Whether all that it was made from is still what it was then."""
        known = self._by_name
        return all(
            source in known and known[source].sha256 == digest
            for origin in (known[name], *self.sources(name))
            for source, digest in origin.inputs.items()
        )

    @property
    def _by_name(self) -> dict[str, Origin]:
        return {origin.name: origin for origin in self.origins}

    def __str__(self) -> str:
        return "\n".join(self._line(origin) for origin in self.origins)

    def _line(self, origin: Origin) -> str:
        head = f"{origin.name:<20} {origin.sha256[:_HASH_CHARACTERS]} {origin.size:>12,} bytes"
        if not origin.step:
            return f"{head}  given"
        made = f"{head}  {origin.step} v{origin.version} from {', '.join(origin.inputs) or 'nothing'}"
        return made if self.is_current(origin.name) else f"{made} (as it was before)"


def lineage(store: JobStore, job_id: str | None) -> Lineage:
    """What the job's checkpoints tell. Raises JobIdRequired, JobNotFound."""
    job_id = required_job_id(job_id)
    notes = _notes(store, job_id)
    origins = [
        _origin(name, Product.parse(form)) for name, form in notes.pop(INPUTS_NOTE, {"inputs": {}})["inputs"].items()
    ]
    by_time = sorted(notes.values(), key=lambda note: str(note["ended_at"]))
    ordered, circular = sorted_by_need([(note, note["inputs"], note["outputs"]) for note in by_time])
    for note in (*ordered, *circular):  # steps that were since declared otherwise may seem to need each other
        origins += _origins_of(note)
    return Lineage(job_id, tuple(origins))


def outputs(store: JobStore, job_id: str | None) -> dict[str, Any]:
    """What the job's steps have made so far: JSON values and PipelineFiles. Raises JobIdRequired, JobNotFound."""
    notes = _notes(store, required_job_id(job_id))
    notes.pop(INPUTS_NOTE, None)
    by_time = sorted(notes.values(), key=lambda note: str(note["ended_at"]))
    return {
        name: Product.parse(form).step_value(store.files) for note in by_time for name, form in note["outputs"].items()
    }


def _notes(store: JobStore, job_id: str) -> dict[str, Any]:
    """The job's checkpoints, but for those of items."""
    found = rounds(store, job_id)
    if not found:
        raise JobNotFound(job_id)
    notes: dict[str, Any] = {}
    for job in reversed(found):  # the newer ones take the place of the older
        notes |= {point.name: store.load(job, point.data) for point in _points(store, job)}
    return notes


def _points(store: JobStore, job: Job) -> list[Checkpoint]:
    return [
        one
        for one in store.history(job.id).checkpoints
        if one.name == INPUTS_NOTE or one.name.startswith(note_name(""))
    ]


def _origins_of(note: Mapping[str, Any]) -> list[Origin]:
    step = str(note["step"])
    outputs = {name: Product.parse(form) for name, form in note["outputs"].items()}
    keys = {product.file.key for product in outputs.values() if product.file is not None}
    files = {f"{step}/{name}": SavedFile.parse(form) for name, form in note["files"].items()}
    others = {name: Product.of_file(saved) for name, saved in files.items() if saved.key not in keys}
    return [_origin(name, product, note) for name, product in (outputs | others).items()]


def _origin(name: str, product: Product, note: Mapping[str, Any] | None = None) -> Origin:
    thing = (name, product.sha256, product.size, product.file)
    if note is None:
        return Origin(*thing)
    return Origin(*thing, note["step"], note["version"], note["inputs"], note["ended_at"], note["attempt"])
