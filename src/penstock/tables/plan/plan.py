"""What would be done to a fleet of tables, and what each part of it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import Change, CreateTable, DeleteTable, ReplaceTable
from penstock.tables.plan.costs import Cost, Refused, cost_of
from penstock.tables.plan.diff import diff

Fate = Literal["create", "change", "delete", "refused", "keep"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table under its full name: its changes, in their order, and how many items they concern."""

    name: str
    changes: tuple[Change, ...] = ()
    items: int = 0

    @property
    def fate(self) -> Fate:
        if not self.changes:
            return "keep"
        if any(isinstance(self.cost(change), Refused) for change in self.changes):
            return "refused"
        match self.changes[0]:
            case CreateTable():
                return "create"
            case DeleteTable():
                return "delete"
            case _:
                return "change"

    @property
    def replaces(self) -> bool:
        return any(isinstance(change, ReplaceTable) for change in self.changes)

    def cost(self, change: Change) -> Cost:
        return cost_of(change, self.items)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every table that was looked at, also those with nothing to do."""

    tables: tuple[TablePlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it should be."""
        return all(not table.changes for table in self.tables)

    @property
    def counts(self) -> dict[Fate, int]:
        """How many tables meet each fate; those that none meets are 0."""
        found = Counter(table.fate for table in self.tables)
        fates: tuple[Fate, ...] = ("create", "change", "delete", "refused", "keep")
        return {fate: found[fate] for fate in fates}


def plan_table(name: str, live: Table | None, wanted: Table | None, items: int = 0) -> TablePlan:
    """The plan of one table under its full name."""
    return TablePlan(name, diff(live, wanted), items)


def plan_of(tables: Iterable[TablePlan]) -> Plan:
    """The plan of several tables."""
    return Plan(tuple(tables))
