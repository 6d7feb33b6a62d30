"""The items of two tables compared, in one database or in two.

1. Every item of both is looked at: the first table is scanned and looked up in the second, then the second's keys in
   the first. Memory is bounded by a few pages, whatever the tables' size.
2. Items are compared by value: sets have no order, and attributes none either.
3. Each item is compared as of some moment of the run: what is written meanwhile may be told as a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.errors import PenstockError
from penstock.tables.data.transfers import ItemTable, Places
from penstock.wire.values import Item, equal

SEGMENTS = 8
SHOWN = 10

Kind = Literal["only in first", "only in second", "different"]
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that the two tables do not agree on; for a different item, the attributes that differ."""

    kind: Kind
    key: Item
    attributes: tuple[str, ...] = ()

    def form(self) -> dict[str, Any]:
        return {"kind": self.kind, "key": self.key, "attributes": list(self.attributes)}


@dataclass(slots=True)
class Comparison:
    """What was found. All differences are counted; the first ones are kept."""

    first: str
    second: str
    first_items: int = 0
    second_items: int = 0
    only_in_first: int = 0
    only_in_second: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not (self.only_in_first or self.only_in_second or self.different)


def compare(
    first: ItemTable,
    second: ItemTable,
    *,
    segments: int = SEGMENTS,
    shown: int = SHOWN,
    ignored: frozenset[str] = frozenset(),
    page_items: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compares all items but for the attributes `ignored`. Raises PenstockError for tables with different keys."""
    if first.keys != second.keys:
        raise PenstockError(
            f"{first.name} has the key {', '.join(first.keys)} and {second.name} {', '.join(second.keys)}: "
            "items of tables with different keys cannot be told apart. `penstock tables rekey` compares by itself."
        )
    found = Comparison(first.name, second.name)
    look = _Look(found, shown, ignored)
    for pages in first.rounds(Places(segments), limit=page_items, ahead=True):
        items = [item for page in pages for item in page.items]
        there = second.get(map(first.key_of, items))
        found.first_items += len(items)
        for item in items:
            look.at(first.key_of(item), item, there.get(first.text_of(item)))
        _report(progress, found)
    for pages in second.rounds(Places(segments), limit=page_items, ahead=True):
        keys = [second.key_of(item) for page in pages for item in page.items]
        there = first.get(keys, only=())
        found.second_items += len(keys)
        for key in keys:
            if second.text_of(key) not in there:
                look.note(Difference("only in second", key))
        _report(progress, found)
    return found


def _report(progress: Progress | None, found: Comparison) -> None:
    if progress is not None:
        done = found.first_items + found.second_items
        progress(done, max(done, 2 * found.first_items))


class _Look:
    def __init__(self, found: Comparison, shown: int, ignored: frozenset[str]) -> None:
        self._found = found
        self._shown = shown
        self._ignored = ignored

    def at(self, key: Item, one: Item, other: Item | None) -> None:
        if other is None:
            self.note(Difference("only in first", key))
        elif one != other:
            names = self._differing(one, other)
            if names:
                self.note(Difference("different", key, names))

    def _differing(self, one: Item, other: Item) -> tuple[str, ...]:
        names = (one.keys() | other.keys()) - self._ignored
        return tuple(sorted(name for name in names if not _same(one.get(name), other.get(name))))

    def note(self, difference: Difference) -> None:
        found = self._found
        match difference.kind:
            case "only in first":
                found.only_in_first += 1
            case "only in second":
                found.only_in_second += 1
            case "different":
                found.different += 1
        if len(found.differences) < self._shown:
            found.differences.append(difference)


def _same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    return one is not None and other is not None and equal(one, other)
