"""What is to be worked on, and what says that it is done: as DynamoDB's expressions.

A source is a table, or an index and the values of its partition key. A record is *pending* if it is in the source,
meets `where`, and does not have all marks yet. The feeder asks for keys alone; whether a record is pending is decided
once more by the condition of its claim, because what was read may be old by then. A record is marked as done on the
condition that it is as the function was given it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

from penstock.client.database import Database
from penstock.client.items.expressions import Aliases, Condition, condition_text
from penstock.client.items.keys import TableKey
from penstock.client.items.values import Item, encode
from penstock.client.reads.pages import read_pages
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.records.executors import BadResult
from penstock.records.record_state import BOOKKEEPING, DONE, PARKED, Claim
from penstock.wire.values import AttributeValue, equal
from penstock.wire.values import Item as WireItem

QUERY_PAGE: Final = 64
"""Records of a page of an index, at most. What other processors take of it meanwhile is asked for in vain, so it is
small, and in a random order; what they hold when it is read is seen in it.
"""

FILE_PAGE: Final = 256
"""The same on the embedded engine, where records that lie together are to be found, and more are among more. Not of the
first page: only after it is it known who else is there.
"""

SCAN_PAGE: Final = 1_000
"""Records that one page of a scan looks at: most of them may be done."""

SEGMENTS: Final = 8
"""Parts of a scan, each processor in an order of its own: for the same reason."""

_NEIGHBOURS: Final = 16
"""Records that stay together in a random order: they lie on the same pages of a file, which a commit writes whole."""


_TYPES: Final = {"S": "text", "N": "a number", "B": "bytes"}


class BadWork(PenstockError, ValueError):
    """The source or the marks cannot be as they were given."""


Mark = Any | Callable[[Item], Any]
"""A value, or a function of the record that gives one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that was read: its key, its state at that moment, and the index value that it was found under."""

    key: WireItem
    state: AttributeValue | None = None
    value: AttributeValue | None = None


@dataclass(frozen=True)
class Work:
    """Records of `table` to work on. `set` and `remove` are the marks of one that is done."""

    table: str
    index: str | None = None
    values: Sequence[Any] = ()
    where: Condition | None = None
    set: Mapping[str, Mark] = field(default_factory=dict)
    remove: Sequence[str] = ()
    bookkeeping: str = BOOKKEEPING

    def __post_init__(self) -> None:
        if self.values and self.index is None:
            raise BadWork("value= goes with index=: it is the value of that index's partition key")
        if isinstance(self.remove, str):
            raise BadWork(f"remove is a list of attributes: [{self.remove!r}]")
        if self.where is not None and not isinstance(self.where, Condition):
            raise BadWork(f'where is a condition made from F, such as F("kind") == "invoice"; not {self.where!r}')
        if self.bookkeeping in {*self.set, *self.remove}:
            raise BadWork(f"{self.bookkeeping} is the attribute for the bookkeeping: choose another by bookkeeping=")

    @property
    def has_marks(self) -> bool:
        """Without marks, the bookkeeping says what is done."""
        return bool(self.set or self.remove)


class Source:
    """The work as requests: pages to read, and the condition of a claim."""

    def __init__(self, db: Database, work: Work) -> None:
        described = _describe(db, work.table)
        self.db = db
        self.work = work
        self._in_a_file = db.capabilities.shares_commits
        self.key = TableKey.from_description(described)
        self.item_count: int = described.get("ItemCount", 0)
        self.index_key, self._shows_state, self._shows_all = self._index(described)
        self._check_marks()
        self._check_values(_key_types(described))
        aliases = Aliases({"#b": work.bookkeeping, "#k0": self.key.names[0]})
        self.pending = self._pending(aliases)
        self.names, self.claim_values = aliases.names, aliases.values

    def _index(self, described: Mapping[str, Any]) -> tuple[str | None, bool, bool]:
        """The index's partition key, and whether it has the bookkeeping, and everything else, of its records."""
        wanted = self.work.index
        if wanted is None:
            return None, True, True
        indexes = [*described.get("GlobalSecondaryIndexes", ()), *described.get("LocalSecondaryIndexes", ())]
        for index in indexes:
            if index["IndexName"] == wanted:
                projection = index.get("Projection", {})
                everything = projection.get("ProjectionType", "ALL") == "ALL"
                shown = everything or self.work.bookkeeping in projection.get("NonKeyAttributes", ())
                return self.key.indexes[wanted][0], shown, everything
        known = ", ".join(sorted(index["IndexName"] for index in indexes)) or "none"
        raise BadWork(f"{self.work.table} has no index {wanted}. It has: {known}.")

    def _check_marks(self) -> None:
        for name in (*self.work.set, *self.work.remove):
            if name in self.key.names:
                raise BadWork(f"{name} is part of the key of {self.work.table}, which cannot be changed")
        for name, mark in self.work.set.items():
            if not callable(mark):
                encode(mark, name)

    def _check_values(self, types: Mapping[str, str]) -> None:
        for value in self.work.values:
            wanted = types[self.index_key or ""]
            if wanted not in encode(value, self.index_key or ""):
                raise BadWork(
                    f"The index {self.work.index} is by {self.index_key}, which is {_TYPES[wanted]}: not {value!r}"
                )

    # ── what is pending ──────────────────────────────────────────────────────────────────────────

    def _pending(self, aliases: Aliases) -> str:
        """The condition of a record that is still to be done; it is there in any case."""
        parts = ["attribute_exists(#k0)"]
        if self.index_key is not None:
            name = aliases.name(self.index_key)
            parts.append(f"{name} = :iv" if self.work.values else f"attribute_exists({name})")
        elif self.work.has_marks:
            parts.append(f"({self._unmarked(aliases)})")
        if self.work.where is not None:
            parts.append(f"({condition_text(self.work.where, aliases)})")
        return " AND ".join(parts)

    def _unmarked(self, aliases: Aliases) -> str:
        """At least one mark is missing."""
        parts = []
        for name, mark in self.work.set.items():
            alias = aliases.name(name)
            parts.append(f"attribute_not_exists({alias})")
            if not callable(mark):
                parts.append(f"{alias} <> {aliases.value(mark, name)}")
        parts += [f"attribute_exists({aliases.name(name)})" for name in self.work.remove]
        return " OR ".join(parts)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def pages(self, draw: random.Random) -> Iterator[list[Candidate]]:
        """Keys of the pending records, a page at a time, each page in a random order of small parts."""
        for request, value in self._parts(draw):
            operation = "Query" if "KeyConditionExpression" in request else "Scan"
            for answer in read_pages(self.db.execute, operation, request):
                page = [self._candidate(item, value) for item in answer["Items"]]
                yield _shuffle(self._as_they_lie(page), draw)
                if self._in_a_file and value is not None:
                    request["Limit"] = FILE_PAGE

    def _as_they_lie(self, page: list[Candidate]) -> list[Candidate]:
        """What lies together in a file is written together; an index has an order of its own.

        In DynamoDB such neighbours would be one partition's, which is throttled.
        """
        if self.work.index is None or not self._in_a_file:
            return page
        return sorted(page, key=lambda one: [next(iter(value.values())) for value in one.key.values()])

    def count(self) -> int:
        """How many records are pending now: as many reads as one pass."""
        counted = 0
        for request, _ in self._parts(random.Random(0)):
            operation = "Query" if "KeyConditionExpression" in request else "Scan"
            names = {name: one for name, one in request["ExpressionAttributeNames"].items() if _used(name, request)}
            asked = {**request, "Select": "COUNT", "ExpressionAttributeNames": names}
            for unwanted in ("ProjectionExpression", "Limit", *(() if names else ("ExpressionAttributeNames",))):
                del asked[unwanted]
            counted += sum(answer["Count"] for answer in read_pages(self.db.execute, operation, asked))
        return counted

    def _candidate(self, item: WireItem, value: AttributeValue | None) -> Candidate:
        return Candidate({name: item[name] for name in self.key.names}, item.get(self.work.bookkeeping), value)

    def _parts(self, draw: random.Random) -> list[tuple[dict[str, Any], AttributeValue | None]]:
        """The first requests of all queries, or of the segments of a scan, in a random order."""
        parts: list[tuple[dict[str, Any], AttributeValue | None]]
        if self.index_key is not None and self.work.values:
            encoded = [encode(value, self.index_key) for value in self.work.values]
            parts = [(self._request(value), value) for value in encoded]
        else:
            segments = [{"Segment": number, "TotalSegments": SEGMENTS} for number in range(SEGMENTS)]
            parts = [(self._request(None) | segment, None) for segment in segments]
        draw.shuffle(parts)
        return parts

    def _request(self, value: AttributeValue | None) -> dict[str, Any]:
        aliases = Aliases()
        shown = [*self.key.names, self.work.bookkeeping] if self._shows_state else self.key.names
        request: dict[str, Any] = {"TableName": self.work.table, "Limit": SCAN_PAGE if value is None else QUERY_PAGE}
        request["ProjectionExpression"] = ", ".join(aliases.name(name) for name in shown)
        if self.work.index is not None:
            request["IndexName"] = self.work.index
        if value is not None:
            assert self.index_key is not None
            request["KeyConditionExpression"] = f"{aliases.name(self.index_key)} = :iv"
            aliases.values[":iv"] = value
        elif self.work.index is None:
            # What another processor has finished a moment ago need not be looked at again.
            request["ConsistentRead"] = True
        filter_text = self._filter(aliases)
        if filter_text:
            request["FilterExpression"] = filter_text
        return aliases.into(request)

    def _filter(self, aliases: Aliases) -> str:
        """What the index, or the table, can already leave out."""
        parts = []
        if self._shows_state:
            settled = (PARKED,) if self.work.has_marks else (PARKED, DONE)
            name = aliases.name(self.work.bookkeeping)
            parts += [f"NOT begins_with({name}, {aliases.value(word)})" for word in settled]
        if self.index_key is None and self.work.has_marks:
            parts.append(f"({self._unmarked(aliases)})")
        if self.work.where is not None and self._shows_all:
            parts.append(f"({condition_text(self.work.where, aliases)})")
        return " AND ".join(parts)

    def key_text(self, key: WireItem) -> str:
        """A record's name for messages: `AccountId=a1 RunTime=2026-01-01`."""
        return " ".join(f"{name}={next(iter(value.values()))}" for name, value in key.items())


def _shuffle(page: list[Candidate], draw: random.Random) -> list[Candidate]:
    parts = [page[start : start + _NEIGHBOURS] for start in range(0, len(page), _NEIGHBOURS)]
    draw.shuffle(parts)
    return list(chain.from_iterable(parts))


def key_type(db: Database, table: str, index: str) -> str | None:
    """The type of an index's partition key: S, N or B; None if there is no such index."""
    described = _describe(db, table)
    names = TableKey.from_description(described).indexes.get(index)
    return None if names is None else _key_types(described)[names[0]]


def _key_types(described: Mapping[str, Any]) -> dict[str, str]:
    return {one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]}


def _describe(db: Database, table: str) -> dict[str, Any]:
    try:
        described: dict[str, Any] = db.execute("DescribeTable", {"TableName": table})["Table"]
    except ResourceNotFoundException:
        known = db.tables()
        shown = f"{', '.join(known[:10])}{' …' if known[10:] else ''}" if known else "no tables"
        raise BadWork(f"There is no table {table} in {db.name}. It has: {shown}.") from None
    return described


def _used(name: str, request: Mapping[str, Any]) -> bool:
    texts = (request.get("KeyConditionExpression", ""), request.get("FilterExpression", ""))
    return any(name in re.findall(r"#\w+", text) for text in texts)


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
