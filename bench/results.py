"""Kept results: results.json has every section's last figures; RESULTS.md and plots/ are written from it alone.

`python -m bench.results` writes them again, without measuring: after a change of the promises or of a plot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Set
from pathlib import Path

from bench import peers, plots, promises
from bench.report import Section, machine
from bench.sections import ALL

HERE = Path(__file__).parent
IDLE_LOAD = 0.5
HEAD = (
    "Made by `python -m bench`. Figures are from one machine and mean something only beside each other: "
    "[README.md](README.md) says what each one is. A section that was not measured in the last run keeps its last "
    "figures, with their date."
)
QUICK = "**A quick run: it shows that everything is in place. Its figures are worth nothing else.**"


class Results:
    """The sections of a folder by name, in the order of the benchmarks."""

    def __init__(self, folder: Path = HERE) -> None:
        self.folder = folder
        kept = folder / "results.json"
        told = json.loads(kept.read_text()) if kept.exists() else {"sections": []}
        self.machine: str = told.get("machine", "")
        self.sections = {one["name"]: Section.from_json(one) for one in told["sections"]}

    def put(self, sections: Iterable[Section]) -> None:
        """New sections take the place of those of the same name; the others stay."""
        # As they will be read again: figures are rounded when they are kept, and all is written from those.
        new = {one.name: Section.from_json(one.as_json()) for one in sections}
        merged = {**self.sections, **new}
        order = [name for name in ALL if name in merged]
        self.sections = {name: merged[name] for name in (*order, *(set(merged) - set(order)))}
        self.machine = machine()

    def save(self, *, quick: bool = False) -> None:
        """Writes results.json, RESULTS.md and the plots."""
        drawn = plots.drawn(self.sections)
        told = {"machine": self.machine, "sections": [one.as_json() for one in self.sections.values()]}
        (self.folder / "plots").mkdir(parents=True, exist_ok=True)
        for name, svg in drawn.items():
            (self.folder / "plots" / name).write_text(svg)
        _write(self.folder / "results.json", json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        _write(self.folder / "RESULTS.md", self.markdown(set(drawn), quick=quick))
        if self.folder.resolve() == HERE.resolve() and "excel.svg" in drawn:
            (HERE.parent / "docs" / "excel-reads.svg").write_text(drawn["excel.svg"])

    def markdown(self, drawn: Set[str], *, quick: bool = False) -> str:
        parts = ["# Results", HEAD, *([QUICK] if quick else []), f"Machine: {self.machine}."]
        parts.append(promises.markdown(promises.judged(self.sections)))
        parts.append(missing(self.sections.values()))
        parts += [of_section(one, drawn) for one in self.sections.values()]
        return "\n\n".join(part for part in parts if part) + "\n"


def of_section(section: Section, drawn: Set[str] = frozenset()) -> str:
    """A section as it stands in RESULTS.md and on the screen."""
    parts = [f"## {section.title}", f"`{section.command}`, {section.measured}, {section.seconds:,.0f} s"]
    if f"{section.name}.svg" in drawn:
        parts.append(f"![{section.title}](plots/{section.name}.svg)")
    parts += [table.markdown() for table in section.tables]
    notes = [*section.notes, *(f"{name}: not found, not measured." for name in section.missing), busy(section)]
    parts.append("\n".join(f"- {note}" for note in notes if note))
    return "\n\n".join(parts)


def busy(section: Section) -> str:
    """Figures of a busy machine are worth little."""
    verdict = "" if section.busy < IDLE_LOAD else " Other work shared the machine: measure again when it is idle."
    return f"Load average before this run: {section.busy:.1f} on {section.cores} cores.{verdict}"


def missing(sections: Iterable[Section]) -> str:
    """The peers that were not found, each with the sections that lack it and how to get it."""
    wanted: dict[str, list[str]] = {}
    for section in sections:
        for name in section.missing:
            wanted.setdefault(name, []).append(section.name)
    if not wanted:
        return "## Missing peers\n\nNone: every peer was measured in every section that has it."
    lines = [f"- **{name}** ({', '.join(places)}): {peers.how(name)}" for name, places in wanted.items()]
    return "\n".join(["## Missing peers", "", "Not found, therefore not measured:", "", *lines])


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


if __name__ == "__main__":
    Results().save()
