"""The marks of a record that is done, and the condition that it is as the function was given it: as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from penstock.client.items.values import encode
from penstock.records.executors.attempts import BadResult
from penstock.records.source.selection import BadWork, Source
from penstock.records.state.answers import Claim
from penstock.wire.values import AttributeValue, equal
from penstock.wire.values import Item as WireItem

Unchanged = Literal["record"] | Sequence[str] | None
"""What must be as it was when a record is marked: all its attributes, these ones (a version, say), or nothing."""

MOST_COMPARED: Final = 150
"""Attributes that a condition compares: DynamoDB takes 300 operators and 4 KB of text."""

_MOST_SHAPES: Final = 256  # of records whose expressions are remembered


@dataclass(frozen=True, slots=True)
class MarkText:
    """The expressions that mark records of one shape."""

    update: str
    condition: str
    names: dict[str, str]
    marks: tuple[str, ...]
    """The aliases of the marks' values."""
    compared: tuple[tuple[str, str], ...]
    """The aliases of the values that must be as they were, with their attributes."""


class Marks:
    """Those of one processor's records."""

    def __init__(self, source: Source, unchanged: Unchanged) -> None:
        work = source.work
        self._work = work
        self._unchanged = unchanged
        self._not_compared = frozenset({*source.key.names, work.bookkeeping})
        removed = {f"#r{number}": name for number, name in enumerate(work.remove)}
        self._removal = f"REMOVE {', '.join(('#b', *removed))}" if work.has_marks else ""
        self._names = {"#b": work.bookkeeping, **removed}
        self._plain = {name: encode(mark, name) for name, mark in work.set.items() if not callable(mark)}
        self._computed = {name: mark for name, mark in work.set.items() if callable(mark)}
        self._texts: dict[tuple[tuple[str, ...], tuple[str, ...]], MarkText] = {}
        self._index_key = source.index_key
        self._index_values = [encode(value, work.index or "") for value in work.values]
        names = source.key.indexes.get(work.index, ()) if work.index is not None else ()
        # What else may end it: a key of the index that is removed, and whatever makes `where` untrue.
        self._ends_it = work.has_marks and work.where is None and frozenset(names).isdisjoint(work.remove)

    def of(self, claim: Claim, result: Mapping[str, Any] | None) -> WireItem:
        """What is set in a record that is done."""
        marks = dict(self._plain)
        if self._computed:
            item = claim.item
            marks |= {name: encode(mark(item), name) for name, mark in self._computed.items()}
        if result:
            marks |= {name: encode(value, name) for name, value in result.items()}
        if self._ends_it:
            self._check_ended(marks, result or {})
        return marks

    def _check_ended(self, marks: WireItem, result: Mapping[str, Any]) -> None:
        """Refuses what would leave a record pending: it would be run again and again."""
        name = self._pending_by(marks)
        if name is None:
            return
        if name in result:
            raise BadResult(f"the function returned a {name} with which the record is still pending: leave it out")
        raise BadWork(
            f"A record that is done would stay in the index {self._work.index}, and be run again and again: nothing "
            f"changes its {name}. Give set={{{name!r}: …}} or remove=[{name!r}] (--set, --remove)."
        )

    def _pending_by(self, marks: WireItem) -> str | None:
        """The attribute for which a record with these marks is pending; None if it is not."""
        key = self._index_key
        if key is None:
            return next((name for name, mark in self._plain.items() if not equal(marks[name], mark)), None)
        if key in marks and self._index_values and not any(equal(marks[key], one) for one in self._index_values):
            return None
        return key

    def text(self, marks: tuple[str, ...], record: tuple[str, ...]) -> MarkText:
        """The expressions for records of this shape; most tables have few."""
        text = self._texts.get((marks, record))
        if text is None:
            text = self._new_text(marks, record)
            if len(self._texts) < _MOST_SHAPES:
                self._texts[marks, record] = text
        return text

    def _new_text(self, marks: tuple[str, ...], record: tuple[str, ...]) -> MarkText:
        names, compared, parts = dict(self._names), [], ["#b = :own"]
        assignments = [f"#m{number} = :m{number}" for number in range(len(marks))]
        names |= {f"#m{number}": name for number, name in enumerate(marks)}
        if not self._work.has_marks:
            assignments.append("#b = :b")
        for number, name in enumerate(self.compared(record)):
            names[f"#a{number}"] = name
            if name in record:
                compared.append((f":a{number}", name))
                parts.append(f"#a{number} = :a{number}")
            else:
                parts.append(f"attribute_not_exists(#a{number})")
        update = f"SET {', '.join(assignments)} {self._removal}" if assignments else self._removal
        aliases = tuple(f":m{number}" for number in range(len(marks)))
        return MarkText(update, " AND ".join(parts), names, aliases, tuple(compared))

    def compared(self, record: Iterable[str]) -> list[str]:
        """The attributes that must be as they were."""
        wanted = record if self._unchanged == "record" else self._unchanged or ()
        return [name for name in wanted if name not in self._not_compared]

    def too_many_to_compare(self, record: WireItem) -> str:
        """Why a record cannot be compared as a whole; empty if it can."""
        if len(record) <= MOST_COMPARED or len(self.compared(record)) <= MOST_COMPARED:
            return ""
        return (
            f"the record has {len(record)} attributes, and a condition compares {MOST_COMPARED} at most: "
            'name those that matter, such as unchanged=["version"]'
        )

    def changed(self, before: WireItem, there: WireItem) -> tuple[str, ...]:
        """The compared attributes that are not as they were."""
        return tuple(name for name in self.compared(before) if not same(there.get(name), before.get(name)))


def same(one: AttributeValue | None, other: AttributeValue | None) -> bool:
    return one is other if one is None or other is None else equal(one, other)
