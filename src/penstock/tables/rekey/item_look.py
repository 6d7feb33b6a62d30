"""A look at some items before a rekey begins: those that have no place in the new table would stop it at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.tables.definitions.aws_shapes import create_request
from penstock.tables.definitions.definition import Table
from penstock.tables.indexes import Misfit, fit, sample
from penstock.tables.rekey.item_mapping import Problem, parse_mapping

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ItemLook:
    """What a sample of the old table's items shows."""

    sampled: int
    problems: tuple[Problem, ...] = ()
    """Items that the mapping or the new key refuses."""
    same_key: int = 0
    """Items whose new key another item of the sample has too."""
    misfits: tuple[tuple[str, Misfit], ...] = ()
    """By the name of an index of the new table."""

    @property
    def lines(self) -> Iterator[str]:
        of = f"of {self.sampled:,} items that were looked at"
        if self.problems:
            yield f"{len(self.problems):,} {of} cannot be moved:"
            yield from (f"  {one}" for one in self.problems[:_SHOWN])
        if self.same_key:
            yield f"{self.same_key:,} {of} have a new key that another one has too: cannot be moved"
        for index, misfit in self.misfits:
            yield f"{misfit.items:,} {of} cannot be moved: index {index} refuses them: {misfit}"

    @property
    def form(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "looked_at": self.sampled,
            "cannot_be_moved": len(self.problems),
            "problems": [{"key": one.key, "text": one.text} for one in self.problems[:_SHOWN]],
            "with_the_same_key": self.same_key,
            "index_misfits": [
                {"index": index, "attribute": one.attribute, "type": one.wanted, "found": dict(one.kinds)}
                for index, one in self.misfits
            ],
        }


def look_at_items(db: Database, old: Table, new: Table, mapping: str) -> ItemLook:
    """Maps up to a thousand items as the rekey would; reads only."""
    old_key, new_key = (TableKey.from_description(create_request(one, one.name)) for one in (old, new))
    change = parse_mapping(mapping, old_key, new_key)
    problems, moved = [], []
    for item in sample(db, old.name):
        mapped = change({name: dict(value) for name, value in item.items()})
        if isinstance(mapped, Problem):
            problems.append(mapped)
        else:
            moved.append(mapped)
    keys = Counter(new_key.identity_of(one) for one in moved)
    misfits = [(index.name, one) for index in new.every_index for one in fit(index, moved).misfits]
    same_key = sum(count for count in keys.values() if count > 1)
    return ItemLook(len(problems) + len(moved), tuple(problems), same_key, tuple(misfits))
