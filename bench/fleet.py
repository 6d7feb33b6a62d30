"""Tables as code: `python -m bench tables`.

Thirteen tables are planned, applied and verified on an embedded engine in a file; an unchanged fleet is planned again,
its calls counted; then six tables get indexes on an engine where building one takes a while.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from penstock.client.database import Database, connect
from penstock.engine.settings import Settings
from penstock.systems.construction_expenses.tables import tables as construction_expenses
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.definition import Index, Naming
from penstock.tables.definitions.definition import Table as Definition
from penstock.tables.plan.survey import survey

NAMING = Naming("construction-expenses")
TABLES_WITH_INDEXES = 6


@dataclass(frozen=True)
class Plan:
    rounds: int
    index_seconds: float


PLANS = {"full": Plan(rounds=5, index_seconds=3.0), "quick": Plan(rounds=1, index_seconds=0.5)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("tables", "Tables")
    section.tables = [_fleet(plan, section), _indexes(plan, section)]
    return section


def _fleet(plan: Plan, section: Section) -> Table:
    """Medians; every round in a file of its own."""
    taken: dict[str, list[float]] = {"plan": [], "apply": [], "verify": [], "in all": []}
    for _ in range(plan.rounds):
        with tempfile.TemporaryDirectory() as folder, connect(Path(folder) / "tables.db") as db:
            moments = [time.perf_counter()]
            found = survey(db, construction_expenses(), NAMING)
            moments.append(time.perf_counter())
            created = apply(db, found).counts["created"]
            moments.append(time.perf_counter())
            drift, calls = _verified(db)
            moments.append(time.perf_counter())
        if drift:
            raise RuntimeError(f"the fleet is not as applied: {drift}")
        for name, start, end in zip(taken, moments, moments[1:], strict=False):
            taken[name].append(end - start)
        taken["in all"].append(moments[-1] - moments[0])
    table = Table(f"{created} tables on the embedded engine, a file", ["", "milliseconds"])
    table.rows = [[name, f"{1000 * statistics.median(times):.0f}"] for name, times in taken.items()]
    section.figures |= {"tables": created, "seconds": statistics.median(taken["in all"])}
    section.figures["describes"] = max(calls.values()) / created
    section.notes.append(f"A plan of the unchanged fleet made these calls: {_told(calls)}.")
    return table


def _verified(db: Database) -> tuple[int, Counter[str]]:
    """How many tables would change, and the calls that it took to know."""
    calls: Counter[str] = Counter()
    execute = db.execute

    def counting(operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        calls[operation] += 1
        return execute(operation, request)

    db.execute = counting  # type: ignore[method-assign]
    try:
        found = survey(db, construction_expenses(), NAMING)
    finally:
        db.execute = execute  # type: ignore[method-assign]
    return len(found.with_work), calls


def _told(calls: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))


def _indexes(plan: Plan, section: Section) -> Table:
    """Six tables, one of which gets two indexes: as long as that one takes, not as seven."""
    numbers = [2, *[1] * (TABLES_WITH_INDEXES - 1)]
    bare = [Definition(f"table{place}", "id:S") for place in range(TABLES_WITH_INDEXES)]
    wanted = [
        one.replace(indexes=tuple(Index(f"by-a{place}", f"a{place}:S") for place in range(number)))
        for one, number in zip(bare, numbers, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(index_delay_seconds=plan.index_seconds)
        with connect(Path(folder) / "tables.db", settings=settings) as db:
            apply(db, survey(db, bare, NAMING))
            began = time.perf_counter()
            apply(db, survey(db, wanted, NAMING))
            took = time.perf_counter() - began
    slowest, whole = max(numbers) * plan.index_seconds, sum(numbers) * plan.index_seconds
    table = Table(f"{sum(numbers)} indexes of {plan.index_seconds:g} s on {len(numbers)} tables", ["", "seconds"])
    table.rows = [["the slowest table's", f"{slowest:.1f}"], ["measured", f"{took:.1f}"], ["the sum", f"{whole:.1f}"]]
    section.figures |= {"indexes/slowest": slowest, "indexes/seconds": took, "indexes/sum": whole}
    return table


if __name__ == "__main__":
    alone("tables")
