"""One index at a time: added after a look at real items, or changed with no gap in queries (S1.9–12).

DynamoDB leaves an item out of an index if it lacks a key attribute, and refuses every later write of an item that has
one of another type: both are silent while the index is made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.errors import PenstockError
from penstock.tables.definitions.definition import AnyIndex, Index, Naming, Table, Throughput, VectorIndex
from penstock.tables.definitions.problems import check
from penstock.tables.plan.changes import AddIndex, Change, DropIndex
from penstock.tables.plan.failures import failure_of
from penstock.tables.plan.plan import TablePlan
from penstock.tables.plan.survey import WORKERS, Live, Survey, TableSurvey, inspect_every, side_by_side

SAMPLE_ITEMS = 1_000
"""Enough to meet a spelling that one item in a hundred has; about a hundred read units."""

SEGMENTS = 4
"""The sample is taken from so many places of the table: its first items alone may all be of one kind."""

Item = Mapping[str, Mapping[str, Any]]


def sample(
    db: Database, table: str, attributes: Iterable[str] | None = None, *, items: int = SAMPLE_ITEMS
) -> list[Item]:
    """Up to so many items of a table, with these attributes only."""
    found: list[Item] = []
    for segment in range(SEGMENTS):
        found += _segment(db, table, attributes, segment, items // SEGMENTS)
    return found


def _segment(db: Database, table: str, attributes: Iterable[str] | None, segment: int, items: int) -> list[Item]:
    request: dict[str, Any] = {"TableName": table, "Segment": segment, "TotalSegments": SEGMENTS}
    if attributes is not None:
        names = {f"#{at}": name for at, name in enumerate(sorted(set(attributes)))}
        request |= {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
    found: list[Item] = []
    request["Limit"] = items
    for answer in read_pages(db.execute, "Scan", request):
        found += answer["Items"]
        if len(found) >= items:
            break
        request["Limit"] = items - len(found)
    return found


@dataclass(frozen=True, slots=True)
class Misfit:
    """Items whose value an index cannot hold: `kinds` are the types that were found, with how many items have each."""

    attribute: str
    wanted: str
    kinds: Mapping[str, int]

    @property
    def items(self) -> int:
        return sum(self.kinds.values())

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} in {number:,}" for kind, number in self.kinds.items())
        return f"{self.attribute} should be {self.wanted}, and is {kinds}"


@dataclass(frozen=True, slots=True)
class Fit:
    """How an index fits a sample."""

    sampled: int
    holds: int
    """Items that the index would have."""
    misfits: tuple[Misfit, ...] = ()
    unknown: tuple[str, ...] = ()
    """Key attributes that no item has."""


def fit(index: AnyIndex, items: Sequence[Item]) -> Fit:
    """How `index` fits these items."""
    if isinstance(index, VectorIndex):
        return _vector_fit(index, items)
    misfits, unknown = [], []
    for attribute in index.key.attributes:
        values = [item[attribute.name] for item in items if attribute.name in item]
        kinds = Counter(kind for value in values if (kind := misfit_kind(value, attribute.type)))
        if kinds:
            misfits.append(Misfit(attribute.name, attribute.type, dict(kinds)))
        if items and not values:
            unknown.append(attribute.name)
    holds = sum(all(_holds(item, one.name, one.type) for one in index.key.attributes) for item in items)
    return Fit(len(items), holds, tuple(misfits), tuple(unknown))


def _vector_fit(index: VectorIndex, items: Sequence[Item]) -> Fit:
    """A vector must be a list of as many numbers as the index has dimensions; a filter may be missing."""
    misfits, unknown = [], []
    vectors = [item[index.attribute] for item in items if index.attribute in item]
    kinds = Counter(kind for value in vectors if (kind := _vector_misfit(value, index.dimensions)))
    if kinds:
        misfits.append(Misfit(index.attribute, f"a list of {index.dimensions} numbers", dict(kinds)))
    if items and not vectors:
        unknown.append(index.attribute)
    for attribute in index.key.attributes:
        found = [item[attribute.name] for item in items if attribute.name in item]
        others = Counter(kind for value in found if (kind := next(iter(value))) != attribute.type)
        if others:
            misfits.append(Misfit(attribute.name, attribute.type, dict(others)))
    holds = sum(
        index.attribute in item and not _vector_misfit(item[index.attribute], index.dimensions) for item in items
    )
    return Fit(len(items), holds, tuple(misfits), tuple(unknown))


def _vector_misfit(value: Mapping[str, Any], dimensions: int) -> str | None:
    kind = next(iter(value))
    if kind != "L":
        return kind
    if len(value["L"]) != dimensions:
        return f"a list of {len(value['L'])}"
    return None if all("N" in one for one in value["L"]) else "a list with other types"


def misfit_kind(value: Mapping[str, Any], wanted: str) -> str | None:
    """What a value is instead of a key of this type: another type, or empty; None if it is one."""
    kind = next(iter(value))
    if kind != wanted:
        return kind
    return f"empty {kind}" if kind in ("S", "B") and not value[kind] else None


def _holds(item: Item, name: str, wanted: str) -> bool:
    return name in item and misfit_kind(item[name], wanted) is None


class IndexRefused(PenstockError):
    """An index that is not made: which ('' where its table is missing), why, and what to do."""

    def __init__(self, table: str, index: str, reason: str, next_step: str) -> None:
        super().__init__(table, index, reason, next_step)
        self.table = table
        self.index = index
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        place = f"{self.table}, index {self.index}" if self.index else self.table
        return f"{place}: {self.reason}. {self.next_step}."


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What adding an index to a live table comes to. `fit` is None for one that is there already."""

    live: Live
    index: Index
    survey: Survey
    fit: Fit | None = None

    @property
    def exists(self) -> bool:
        return self.fit is None

    @property
    def is_building(self) -> bool:
        return self.index.name in self.live.facts.filling


def existing(db: Database, table: str, policy: str = "") -> Live:
    """The table of this full name. Raises IndexRefused if there is none."""
    live = inspect_every(db, [table], settings=False, policy=policy)[table]
    if live is None:
        raise IndexRefused(table, "", "there is no such table", "Check the name, --env and --prefix")
    return live


def plan_addition(db: Database, live: Live, index: Index, naming: Naming) -> IndexPlan:
    """How to add `index`; looks at a sample of the table's items.

    Raises DefinitionError for an index that cannot be, and IndexRefused if another of that name is there.
    """
    name = live.facts.name
    index = with_units(index, live.table)
    there = live.table.index(index.name)
    if there is not None:
        if there.shape != index.shape:
            raise IndexRefused(
                name,
                index.name,
                f"there is one of that name with another key or projection ({there.key})",
                "Use `penstock tables change-index`, which leaves no gap, or another name",
            )
        return IndexPlan(live, index, survey_of(live, (), naming))
    check(live.table.replace(indexes=(*live.table.indexes, index)))
    found = fit(index, sample(db, name, index.key.names))
    return IndexPlan(live, index, survey_of(live, (AddIndex(index),), naming), found)


def plan_removal(live: Live, index: str, naming: Naming) -> Survey:
    """How to drop an index; nothing to do for one that is not there."""
    there = live.table.index(index)
    return survey_of(live, () if there is None else (DropIndex(there),), naming)


def survey_of(live: Live, changes: tuple[Change, ...], naming: Naming) -> Survey:
    """A survey of one table with these changes."""
    name = live.facts.name
    plan = TablePlan(name, changes, live.facts.items)
    return Survey((TableSurvey(name, None, live, plan),), naming)


def with_units(index: Index, table: Table) -> Index:
    """A global index of a provisioned table needs units: the table's, unless it has its own."""
    if isinstance(table.billing, Throughput) and index.throughput is None and not index.local:
        return replace(index, throughput=table.billing)
    return index


def refuse_misfits(plan: IndexPlan) -> None:
    """Raises IndexRefused if items of the sample could not be written again once the index is there."""
    if plan.fit is not None:
        _refuse_misfits(plan.live.facts.name, plan.index.name, plan.fit)


def _refuse_misfits(table: str, index: str, found: Fit) -> None:
    if not found.misfits:
        return
    told = "; ".join(str(misfit) for misfit in found.misfits)
    raise IndexRefused(
        table,
        index,
        f"of {found.sampled:,} sampled items {told} — each write of such an item would fail",
        "Rewrite those items, take the stored type, or give --force",
    )


def warning_of(plan: IndexPlan) -> str | None:
    """What should be known before an index is made that nothing speaks against."""
    return None if plan.fit is None else fit_warning(plan.fit)


def fit_warning(found: Fit) -> str | None:
    """The same of how an index fits a sample."""
    if not found.sampled:
        return "the table has no items to look at: the types of the index's key could not be checked"
    if found.unknown:
        names = ", ".join(found.unknown)
        return f"none of {found.sampled:,} sampled items has {names}: the index will be empty. Check the spelling"
    return None


# ── the new indexes of a plan ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """A new index of a table that exists, beside a sample of its items; `unread` is why none could be read."""

    table: str
    index: AnyIndex
    fit: Fit
    unread: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever says yes to the index should have read."""
        if self.unread:
            return (f"its items could not be looked at: {self.unread}",)
        misfits = (f"{misfit}: such items can no longer be written" for misfit in self.fit.misfits)
        return (*misfits, *filter(None, [fit_warning(self.fit)]))


def check_new_indexes(db: Database, survey: Survey, *, policy: str = "") -> tuple[IndexCheck, ...]:
    """How the new indexes of a plan fit the items that are there: one sample for each table that gets any.

    A table whose items cannot be read breaks no plan; `policy` is the command that writes the policy for it.
    """
    adding = {one.name: _added(one) for one in survey.tables if one.live is not None and _added(one)}
    found = side_by_side(lambda name: _check_table(db, name, adding[name], policy), list(adding), WORKERS)
    return tuple(check for checks in found for check in checks)


def _added(table: TableSurvey) -> tuple[AnyIndex, ...]:
    return tuple(one.index for one in table.plan.changes if isinstance(one, AddIndex))


def _check_table(db: Database, table: str, indexes: tuple[AnyIndex, ...], policy: str) -> list[IndexCheck]:
    try:
        vectors = {index.attribute for index in indexes if isinstance(index, VectorIndex)}
        items = sample(db, table, {name for index in indexes for name in index.key.names} | vectors)
    except PenstockError as error:  # a plan is worth having without it
        why = failure_of(table, "", error, operation="Scan", policy=policy)
        return [IndexCheck(table, index, Fit(0, 0), f"{why.reason} {why.next_step}".strip()) for index in indexes]
    return [IndexCheck(table, index, fit(index, items)) for index in indexes]


def refuse_new_misfits(checks: Iterable[IndexCheck]) -> None:
    """Raises IndexRefused for the first index that sampled items could not be written with."""
    for one in checks:
        _refuse_misfits(one.table, one.index.name, one.fit)


def successor_name(name: str) -> str:
    """`email-index` → `email-index-v2` → `email-index-v3`."""
    found = re.fullmatch(r"(.+)-v(\d+)", name)
    return f"{found[1]}-v{int(found[2]) + 1}" if found else f"{name}-v2"
