"""A look at real items, and whether an index fits them.

DynamoDB leaves an item out of an index if it lacks a key attribute, and refuses every later write of an item that has
one of another type: both are silent while the index is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.tables.definitions.definition import Index

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


def fit(index: Index, items: Sequence[Item]) -> Fit:
    """How `index` fits these items."""
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


def misfit_kind(value: Mapping[str, Any], wanted: str) -> str | None:
    """What a value is instead of a key of this type: another type, or empty; None if it is one."""
    kind = next(iter(value))
    if kind != wanted:
        return kind
    return f"empty {kind}" if kind in ("S", "B") and not value[kind] else None


def _holds(item: Item, name: str, wanted: str) -> bool:
    return name in item and misfit_kind(item[name], wanted) is None
