"""How tables differ from their definitions: what `penstock tables plan` would do.

A form may name one of the systems that ship with Penstock, and nothing else: other definitions are Python modules or
files, and only whoever starts the dashboard says which (`penstock up --definitions`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.systems import SYSTEMS
from penstock.tables.definitions.naming import PRODUCTION, Naming
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.sources import Definitions, load
from penstock.tables.plan.costs import Destroys, Refused, cost_text
from penstock.tables.plan.plan import TablePlan
from penstock.tables.plan.render import describe, describe_whole, summary
from penstock.tables.plan.survey import survey
from penstock.web.problems import Problem

OWN: Final = "own"
"""What the form calls the definitions of the command line."""
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9_.-]{0,50}")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a form may be compared with."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """One change that would make a table what its definition says."""

    table: str
    there: bool
    fate: str
    what: str
    cost: str
    danger: bool


@dataclass(frozen=True, slots=True)
class Drift:
    chosen: str
    """What the form calls them."""
    source: str
    environment: str
    lines: tuple[Line, ...]
    same: tuple[str, ...]
    """Tables that are as they should be."""
    not_compared: tuple[str, ...]
    summary: str

    def of(self, table: str) -> Drift | None:
        """What concerns one table; None where the definitions do not have it."""
        lines = tuple(line for line in self.lines if line.table == table)
        same = tuple(name for name in self.same if name == table)
        if not lines and not same:
            return None
        return Drift(self.chosen, self.source, self.environment, lines, same, self.not_compared, self.summary)


def choices(own: Definitions | None) -> list[Choice]:
    found = [Choice(name, name) for name in SYSTEMS]
    return found if own is None else [Choice(OWN, own.source), *found]


def compared(db: Database, own: Definitions | None, chosen: str, environment: str, layout: str) -> Drift:
    """Looks at every table that is defined; changes nothing. Raises Problem for a name that may not be asked for."""
    if not _ENVIRONMENT.fullmatch(environment):
        raise Problem(400, "An environment is a word such as staging.", "Go back and mend it.")
    definitions = _definitions(own, chosen, layout)
    naming = Naming.of(os.environ, environment=environment or None, default_prefix=definitions.prefix)
    try:
        found = survey(db, definitions.tables, naming)
    except DefinitionError as error:
        raise Problem(400, str(error), "Choose another environment.") from None
    there = {one.name: one.live is not None for one in found.tables}
    lines = [line for one in found.plan.tables for line in _lines(one, there[one.name])]
    same = tuple(one.name for one in found.plan.tables if not one.changes)
    told = summary(found.plan)
    return Drift(chosen, definitions.source, naming.environment, tuple(lines), same, found.not_compared, told)


def _definitions(own: Definitions | None, chosen: str, layout: str) -> Definitions:
    if chosen == OWN and own is not None:
        return own
    if chosen not in SYSTEMS:
        raise Problem(
            400,
            "These definitions may not be named here.",
            f"Choose one of {', '.join(SYSTEMS)}, or start with `penstock up --definitions MODULE:NAME`.",
        )
    variables: Mapping[str, str] = os.environ
    try:
        return load(chosen, SYSTEMS, layout="compat" if layout == "compat" else "safe", variables=variables)
    except (PenstockError, ValueError) as error:
        raise Problem(400, str(error), "Choose another layout.") from None


def _lines(plan: TablePlan, there: bool) -> list[Line]:
    return [
        Line(
            plan.name,
            there,
            plan.fate,
            describe(change) or describe_whole(change),
            cost_text(plan.cost(change)),
            isinstance(plan.cost(change), Destroys | Refused),
        )
        for change in plan.changes
    ]


def guessed(table: str, own: Definitions | None) -> tuple[str, str]:
    """The definitions that a table's name belongs to, and its environment: where there are none, ("", "")."""
    for choice in choices(own):
        definitions = _definitions(own, choice.value, "safe")
        for suffix in sorted((one.name for one in definitions.tables), key=len, reverse=True):
            prefix = f"{definitions.prefix}-" if definitions.prefix else ""
            if table.startswith(prefix) and table.endswith(suffix):
                middle = table.removeprefix(prefix).removesuffix(suffix).strip("-")
                if middle and not prefix:
                    continue  # any name may end so
                naming = Naming(definitions.prefix, middle or PRODUCTION)
                if naming.full_name(suffix) == table:
                    return choice.value, naming.environment
    return "", ""
