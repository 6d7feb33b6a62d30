"""From key conditions to a range of rows: decided from the schema alone, before anything is read.

A key condition gives each partition attribute by equality, then sort attributes from left to right, of which only
the last may be compared in another way. It is then one range of row keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo, check_key_value
from penstock.engine.reads.pages import Walk
from penstock.errors import ValidationException
from penstock.wire import keys
from penstock.wire.refusals import RefusedValue
from penstock.wire.values import AttributeValue, Item, check_item

_INVALID = "One or more parameter values were invalid: "
_START = "The provided starting key is invalid"
_MISMATCH = "The provided key element does not match the schema"
_TABLE_KEY_ATTRIBUTES = 2
_COMPARISONS = ("=", "<", "<=", ">", ">=", "BETWEEN", "begins_with")


class Term(Protocol):
    @property
    def attribute(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def operands(self) -> tuple[AttributeValue, ...]: ...


def walk_of(table: TableInfo, index: IndexInfo | None, terms: Sequence[Term], start: Item | None = None) -> Walk:
    """The rows that a Query's key condition means, from after `start` on if it is given."""
    hashes = index.hash if index is not None else (table.hash,)
    ranges = index.range if index is not None else table.key[1:]
    by_name = {term.attribute: term for term in terms}
    _check_terms(hashes, ranges, by_name, start, len(table.key_names if index is None else index.key_names))
    prefix = keys.partition_of_many([by_name[part.name].operands[0] for part in hashes])
    named = [by_name[part.name] for part in ranges if part.name in by_name]
    if start is not None:
        _check_start(table, hashes, by_name, named, start)
        if index is None and not ranges:
            raise ValidationException(f"The provided exclusive start key is invalid: {_render_value(start)}")
    if index is None:
        walk = _table_walk(table, prefix, named[0] if named else None)
        walk.single = not ranges
        return walk
    return _index_walk(table, index, prefix, named)


def _check_terms(
    hashes: Sequence[KeyAttribute],
    ranges: Sequence[KeyAttribute],
    by_name: dict[str, Term],
    start: Item | None,
    start_attributes: int,
) -> None:
    """DynamoDB looks at each attribute of the key in turn: first at the starting key, then at the condition."""
    if start is not None and len(start) != start_attributes:
        raise ValidationException(_START)
    if len(by_name) > max(_TABLE_KEY_ATTRIBUTES, len(hashes) + len(ranges)):
        raise ValidationException(
            f"The number of query conditions ({len(by_name)}) exceeds the number of key attributes defined in the "
            f"schema ({len(hashes) + len(ranges)})"
        )
    if not ranges and len(by_name) > len(hashes):
        raise ValidationException("Query key condition not supported")
    for part in (*hashes, *ranges):
        if start is not None:
            _check_start_part(part, start)
        is_hash = part in hashes
        term = by_name.get(part.name)
        if term is None:
            if is_hash and len(hashes) > 1:
                raise _lacking_equality(hashes, by_name)
            if is_hash or (len(ranges) == 1 and len(by_name) > len(hashes)):
                raise ValidationException(f"Query condition missed key schema element: {part.name}")
            continue
        if term.operator not in _COMPARISONS:
            raise ValidationException("Attempted conditional constraint is not an indexable operation")
        _check_operands(part, term, is_hash)
        if is_hash and term.operator != "=":
            if len(hashes) > 1:
                raise _lacking_equality(hashes, by_name)
            raise ValidationException("Query key condition not supported")
    _check_ranges(ranges, by_name)
    known = {part.name for part in (*hashes, *ranges)}
    if any(name not in known for name in by_name):
        raise ValidationException("Query key condition not supported")


def _lacking_equality(hashes: Sequence[KeyAttribute], by_name: dict[str, Term]) -> ValidationException:
    given = {name for name, term in by_name.items() if term.operator == "="}
    lacking = ", ".join(part.name for part in hashes if part.name not in given)
    return ValidationException(f"HASH key attributes {lacking} must have equality conditions specified in the query")


def _render_value(start: Item) -> str:
    """A starting key as DynamoDB's texts show it."""
    parts = (f"{name}=AttributeValue: {{{kind}:{data}}}" for name, one in start.items() for kind, data in one.items())
    return f"ExclusiveStartKey: {{{', '.join(parts)}}}"


def _check_start_part(part: KeyAttribute, start: Item) -> None:
    value = start.get(part.name)
    if value is None:
        raise ValidationException(_START)
    if part.kind not in value:
        raise ValidationException(_MISMATCH)


def _check_start(
    table: TableInfo,
    hashes: Sequence[KeyAttribute],
    by_name: dict[str, Term],
    ranges: Sequence[Term],
    start: Item,
) -> None:
    """Refuses a starting key that the table could not have, or that the condition does not mean."""
    for part in table.key:
        if part.kind not in start.get(part.name, {}):
            raise ValidationException(f"{_START}: {_MISMATCH}")
    if not all(_holds(term, start[term.attribute]) for term in ranges):
        raise ValidationException("The provided starting key does not match the range key predicate")
    if not all(_holds(by_name[part.name], start[part.name]) for part in hashes):
        raise ValidationException(
            "The query can return at most one row and cannot be restarted"
            if ranges
            else "The provided starting key is outside query boundaries based on provided conditions"
        )


def _holds(term: Term, value: AttributeValue) -> bool:
    data = keys.data_of(value)
    first, *second = map(keys.data_of, term.operands)
    match term.operator:
        case "=":
            return data == first
        case "<":
            return data < first
        case "<=":
            return data <= first
        case ">":
            return data > first
        case ">=":
            return data >= first
        case "BETWEEN":
            return first <= data <= second[0]
        case _:
            return data.startswith(first)


def _check_operands(part: KeyAttribute, term: Term, is_hash: bool) -> None:
    for value in term.operands:
        if part.kind not in value:
            raise ValidationException(f"{_INVALID}Condition parameter type does not match schema type")
        check_key_value(part, value, is_hash)


def _check_ranges(ranges: Sequence[KeyAttribute], by_name: dict[str, Term]) -> None:
    """Sort attributes are named from left to right, and only the last one by anything but equality."""
    unequal: list[str] = []
    for part in ranges:
        term = by_name.get(part.name)
        if term is not None and unequal:
            raise ValidationException(
                f"RANGE key attributes {', '.join(unequal)} must have equality conditions specified in the query "
                f"because a condition is present on key attribute {part.name}"
            )
        if term is None or term.operator != "=":
            unequal.append(part.name)


def _table_walk(table: TableInfo, prefix: bytes, term: Term | None) -> Walk:
    """A table's sort key ends its row keys, so that bounds can be exact."""
    walk = Walk(table, None, low=prefix, high=keys.after(prefix))
    if term is None:
        return walk
    first = prefix + keys.data_of(term.operands[0])
    match term.operator:
        case "=":
            walk.low, walk.high, walk.high_open = first, first, False
        case "<":
            walk.high = first
        case "<=":
            walk.high, walk.high_open = first, False
        case ">":
            walk.low, walk.low_open = first, True
        case ">=":
            walk.low = first
        case "BETWEEN":
            walk.low, walk.high, walk.high_open = first, prefix + keys.data_of(term.operands[1]), False
        case _:
            walk.low, walk.high = first, keys.after(first)
    return walk


def _index_walk(table: TableInfo, index: IndexInfo, prefix: bytes, terms: Sequence[Term]) -> Walk:
    """An index's row keys go on after its sort attributes: a value means all that begins with it."""
    for term in terms[:-1]:
        prefix += keys.escaped(term.operands[0])
    walk = Walk(table, index, low=prefix, high=keys.after(prefix))
    if not terms:
        return walk
    last = terms[-1]
    if last.operator == "begins_with":
        start = prefix + keys.escape(keys.data_of(last.operands[0]))
        walk.low, walk.high = start, keys.after(start)
        return walk
    first = prefix + keys.escaped(last.operands[0])
    match last.operator:
        case "=":
            walk.low, walk.high = first, keys.after(first)
        case "<":
            walk.high = first
        case "<=":
            walk.high = keys.after(first)
        case ">":
            walk.low = keys.after(first)
        case ">=":
            walk.low = first
        case _:
            walk.low, walk.high = first, keys.after(prefix + keys.escaped(last.operands[1]))
    return walk


def start_after(walk: Walk, start: Item) -> None:
    """Makes a walk go on after ExclusiveStartKey."""
    position = position_of(walk.table, walk.index, start)
    if walk.forward:
        walk.low, walk.low_open = position, True
    else:
        walk.high, walk.high_open = position, True


def position_of(table: TableInfo, index: IndexInfo | None, start: Item) -> bytes:
    """The row key that a starting key means."""
    if index is not None:
        check_index_start(index, start)
    elif len(start) != len(table.key_names):
        raise ValidationException(f"{_START}: {_MISMATCH}")
    for part in table.key:
        if part.kind not in start.get(part.name, {}) or not start[part.name][part.kind]:
            raise ValidationException(f"{_START}: {_MISMATCH}")
        _check_start_length(part, start[part.name], part is table.hash)
    row_key = table.row_key(start)
    if index is None:
        return row_key
    entry = index.entry(start, row_key)
    if entry is None:
        raise ValidationException(_START)
    return entry


def check_index_start(index: IndexInfo, start: Item) -> None:
    """Refuses a starting key that is no position in this index."""
    if len(start) != len(index.key_names):
        raise ValidationException(_START)
    for part in index.key:
        _check_start_part(part, start)
        _check_start_length(part, start[part.name], part in index.hash)


def _check_start_length(part: KeyAttribute, value: AttributeValue, is_hash: bool) -> None:
    """Refuses what no key can be as long as: a row key has no room for it."""
    if not value[part.kind]:
        return
    try:
        check_key_value(part, value, is_hash)
    except ValidationException as error:
        raise ValidationException(f"{_START}: {error.message}") from None


class StartKey:
    """ExclusiveStartKey, checked when its turn comes in DynamoDB's order of checks; `values` is None without one."""

    __slots__ = ("_given", "values")

    def __init__(self, request: dict[str, Item]) -> None:
        self._given = request.get("ExclusiveStartKey")
        self.values: Item | None = None

    def check(self) -> None:
        if self._given is None:
            return
        try:
            self.values = check_item(self._given)[0]
        except ValidationException as error:
            # DynamoDB adds its sentence to some of these texts only.
            if isinstance(error, RefusedValue) or "number set" in error.message:
                raise
            raise ValidationException(f"{_START}: {error.message}") from error
