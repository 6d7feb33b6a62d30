"""How many files a reader goes through, and how much source there is: `python -m bench walks`.

The four walks are those of `python -m tools.walk`: a call, traced, and each time that control enters another file is a
hop. What the rearrangement of the source had reached stands beside them (docs/decisions/0051-the-house.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.walk import CALLS, walk_of

from bench.options import Options
from bench.report import Section, Table, count, times
from bench.sections import alone

SOURCE = Path(__file__).parent.parent / "src"
REACHED = {"put-item": 33, "enqueue": 43, "work": 199, "apply": 176}
"""Hops when the source had been rearranged, on 2026-11-16."""


@dataclass(frozen=True)
class Plan:
    runs: int
    """The least of them counts: a worker may look once more at the queue."""


PLANS = {"full": Plan(runs=5), "quick": Plan(runs=1)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    walks = Table("Calls, traced", ["walk", "files", "hops", "returns", "hops it had", "now / then"])
    section = Section("walks", "Files on the way of a call, and lines of source", [walks])
    for name in CALLS:
        walk = min((walk_of(name) for _ in range(plan.runs)), key=lambda one: len(one.hops))
        hops, had = len(walk.hops), REACHED[name]
        cells = [str(len(walk.files)), str(hops), str(walk.returns), str(had), times(hops / had)]
        walks.rows.append([f"`{name}`", *cells])
        section.figures |= {f"{name}/hops": hops, f"{name}/then": had, f"{name}/files": len(walk.files)}
    sizes = Table("Source, by package", ["package", "files", "lines"])
    for package, files in sorted(_packages().items()):
        lines = sum(map(_lines, files))
        sizes.rows.append([f"`{package}`", count(len(files)), count(lines)])
        section.figures |= {f"lines/{package}": lines, f"source files/{package}": len(files)}
    for what in ("lines", "source files"):
        section.figures[what] = sum(number for key, number in section.figures.items() if key.startswith(f"{what}/"))
    sizes.rows.append(["all", count(section.figures["source files"]), count(section.figures["lines"])])
    section.tables.append(sizes)
    section.notes = [
        f"The least of {plan.runs} runs of each walk. Lines are those of Python files, with blank ones and comments."
    ]
    return section


def _packages() -> dict[str, list[Path]]:
    """The Python files of each package of Penstock's; those beside the packages under their common name."""
    packages: dict[str, list[Path]] = {}
    root = SOURCE / "penstock"
    for path in root.rglob("*.py"):
        first, *rest = path.relative_to(root).parts
        packages.setdefault(f"{first}/" if rest else "penstock", []).append(path)
    return packages


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


if __name__ == "__main__":
    alone("walks")
