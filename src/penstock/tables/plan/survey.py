"""A fleet of tables as it is beside what it should be: what a plan is made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.database import Database
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming, check_names
from penstock.tables.plan.inspect import Live, inspect_every
from penstock.tables.plan.plan import Plan, TablePlan, plan_of, plan_table


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One table under its full name: as it was found, and what would be done to it."""

    name: str
    wanted: Table | None
    live: Live | None
    plan: TablePlan

    @property
    def has_work(self) -> bool:
        """Whether there is something to change, or something under way to wait for."""
        return bool(self.plan.changes) or (self.live is not None and self.live.in_motion)


@dataclass(frozen=True, slots=True)
class Survey:
    tables: tuple[Surveyed, ...]
    naming: Naming

    @property
    def plan(self) -> Plan:
        return plan_of(one.plan for one in self.tables)

    @property
    def under_way(self) -> tuple[Surveyed, ...]:
        """Tables that are in motion by themselves: an index that is being built, a table that is being made."""
        return tuple(one for one in self.tables if one.live is not None and one.live.in_motion)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """Settings that this endpoint does not have, or does not tell, and that a definition has."""
        lives = ((one.wanted, one.live) for one in self.tables if one.wanted is not None and one.live is not None)
        found = {name for wanted, live in lives for name in live.unsupported if getattr(wanted, name) is not None}
        return tuple(sorted(found))


def survey(db: Database, tables: Iterable[Table], naming: Naming, *, policy: str = "") -> Survey:
    """Looks once at every table that is defined, side by side. Changes nothing.

    Raises DefinitionError for names that cannot be, and TablesUnreadable with every table that could not be looked at.
    """
    wanted = {naming.full_name(table.name): table for table in tables}
    check_names(wanted.values(), naming)
    found = inspect_every(db, wanted, policy=policy)
    return Survey(tuple(surveyed(name, table, found[name]) for name, table in wanted.items()), naming)


def surveyed(name: str, wanted: Table, live: Live | None) -> Surveyed:
    """A table that is being deleted is one that is not there: it is made again when it is gone."""
    if live is None or live.facts.status == "DELETING":
        return Surveyed(name, wanted, live, plan_table(name, None, wanted))
    return Surveyed(name, wanted, live, plan_table(name, live.table, _comparable(wanted, live), live.facts.items))


def _comparable(wanted: Table, live: Live) -> Table:
    """What an endpoint does not have is not compared: it would differ for ever."""
    left: dict[str, Any] = dict.fromkeys(live.unsupported)
    if "warm" in left:
        return wanted.altered(**left, indexes=tuple(replace(index, warm=None) for index in wanted.indexes))
    return wanted.altered(**left)


def survey_to_delete(db: Database, names: Iterable[str], naming: Naming, *, policy: str = "") -> Survey:
    """The same for tables that are to go, by their full names: only what DescribeTable tells is asked."""
    found = inspect_every(db, names, settings=False, policy=policy)
    return Survey(tuple(_leaving(name, live) for name, live in found.items()), naming)


def _leaving(name: str, live: Live | None) -> Surveyed:
    gone = live is None or live.facts.status == "DELETING"
    table = None if live is None or gone else live.table
    return Surveyed(name, None, live, plan_table(name, table, None, 0 if live is None else live.facts.items))
