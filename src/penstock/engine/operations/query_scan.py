"""Query and Scan: from key conditions to a range of rows, and from these to a page.

A key condition gives each partition attribute by equality, then sort attributes from left to right, of which only
the last may be compared in another way. It is then one range of row keys, by the schema alone.

A page is what is read in key order until Limit items or 1 MB have been looked at:

1. Everything read counts towards the page, whether a filter then keeps it or not.
2. The item that fills the page belongs to it; LastEvaluatedKey is its key.
3. Without filter and projection no item is decoded but the last one, whose key may be needed; and rows that cannot
   fill the page are taken together, without a look at each.
4. What an index of keys alone holds stands in its rows: the items are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import check_key_value, length_of, refuse_nested_keys
from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo
from penstock.engine.items import capacity_units
from penstock.engine.operations.table_description import billing_mode
from penstock.engine.operations.usual_queries import UsualQuery, keep_form, usual_query
from penstock.engine.registry import Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import ValidationException
from penstock.expressions.request import QueryParts, in_java_order, query_of, scan_of
from penstock.wire.limits import PAGE_BYTES, PIECE_BYTES
from penstock.wire.numbers import RefusedValue
from penstock.wire.values import AttributeValue, Item, check_item, item_size

_PARTITION_WIDTH = 256 // 4  # of a row key's first byte
_LAST_KEY = b"\xff"
_INVALID = "One or more parameter values were invalid: "
_NO_PARTS = QueryParts()


@operation("Query", kind="read")
def query(context: OperationContext, request: Request) -> Response:
    usual = usual_query(context, request)
    if usual is not None:
        walk = _walk_of_usual(usual, _index_of(context, usual.table, request))
        walk.forward = request.get("ScanIndexForward", True) is not False
        return _answer(context, walk, request, _NO_PARTS, whole=False)[0]
    start = StartKey(request)
    try:
        parts = query_of(request, start.check if "ExclusiveStartKey" in request else None)
    except ValidationException as error:
        raise error_wording.of_read(error) from None
    _check_select(request, parts)
    table = context.table(request["TableName"])
    index = _index_of(context, table, request)
    walk = walk_of(table, index, parts.key_terms, start.values)
    walk.forward = request.get("ScanIndexForward", True) is not False
    if parts.projected_nested:
        refuse_nested_keys(table, parts.projected_nested)
    _refuse_key_filters(table, index, parts, "QueryFilter" in request)
    if index is not None:
        _refuse_unprojected_filter(index, parts)
    whole = _whole_items(index, request, parts)
    if parts.filter_nested:
        refuse_nested_keys(table, parts.filter_nested)
    if start.values is not None:
        start_after(walk, start.values)
    keep_form(table, request, parts.key_terms)
    response, page = _answer(context, walk, request, parts, whole)
    if capacity_units.is_wanted(request):
        _report(response, walk, request, page)
    return response


@operation("Scan", kind="read")
def scan(context: OperationContext, request: Request) -> Response:
    start = StartKey(request)

    def check() -> None:
        start.check()
        _check_segments(request)

    parts = scan_of(request, check)
    _check_select(request, parts)
    table = context.table(request["TableName"])
    index = _index_of(context, table, request)
    if index is not None and start.values is not None:
        check_index_start(index, start.values)
    whole = _whole_items(index, request, parts)
    walk = _segment(table, index, request)
    if start.values is not None:
        position = position_of(table, index, start.values)
        if (walk.low is not None and position < walk.low) or (walk.high is not None and position >= walk.high):
            raise ValidationException(
                "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with "
                f"correct Segment. TotalSegments: {request['TotalSegments']} Segment: {request['Segment']}"
            )
        walk.low, walk.low_open = position, True
    refuse_nested_keys(table, parts.projected_nested | parts.filter_nested)
    response, page = _answer(context, walk, request, parts, whole)
    if capacity_units.is_wanted(request):
        _report(response, walk, request, page, _partitions(walk, page))
    return response


def _answer(
    context: OperationContext, walk: Walk, request: Request, parts: QueryParts, whole: bool
) -> tuple[Response, Page]:
    count_only = request.get("Select") == "COUNT"
    page = read_page(
        context,
        walk,
        limit=request.get("Limit"),
        keep=parts.filter,
        project=parts.projector,
        count_only=count_only,
        whole_items=whole,
    )
    response: dict[str, Any] = {"Count": page.count, "ScannedCount": page.scanned}
    if not count_only:
        response["Items"] = page.items
    if page.last is not None:
        response["LastEvaluatedKey"] = page.last
    return response, page


def _report(response: Response, walk: Walk, request: Request, page: Page, partitions: int = 1) -> None:
    units = _units(walk, page, bool(request.get("ConsistentRead")), partitions)
    response["ConsumedCapacity"] = capacity_units.report(walk.table, units, request["ReturnConsumedCapacity"])


def _partitions(walk: Walk, page: Page) -> int:
    """How many partitions a Scan has looked into: DynamoDB gives a new table on demand four, others one."""
    if billing_mode(walk.table.record) != "PAY_PER_REQUEST":
        return 1
    first = 0 if walk.low is None else walk.low[0] // _PARTITION_WIDTH
    if page.last is not None:
        end = position_of(walk.table, walk.index, page.last)
    else:
        end = _LAST_KEY if walk.high is None else (int.from_bytes(walk.high, "big") - 1).to_bytes(len(walk.high), "big")
    return end[0] // _PARTITION_WIDTH - first + 1


def _units(walk: Walk, page: Page, consistent: bool, partitions: int) -> capacity_units.Units:
    """No partition that is looked into costs less than one unit's rounding."""
    units = max(capacity_units.read_units(page.size, consistent), partitions * capacity_units.read_units(0, consistent))
    if walk.index is None:
        return capacity_units.Units(units)
    fetched = sum(capacity_units.read_units(size, consistent) for size in page.fetched)
    return capacity_units.Units(fetched, {walk.index.name: units})


def _index_of(context: OperationContext, table: TableInfo, request: Request) -> IndexInfo | None:
    name = request.get("IndexName")
    if name is None:
        return None
    index = table.indexes.get(name)
    if index is None and name in table.vectors:
        is_query = "KeyConditionExpression" in request or "KeyConditions" in request
        raise ValidationException(not_supported("Query") + "." if is_query else not_supported("Scan"))
    if index is None:
        raise ValidationException(f"The table does not have the specified index: {name}")
    if not index.local and request.get("ConsistentRead"):
        raise ValidationException("Consistent reads are not supported on global secondary indexes")
    if not index.local and (index.backfilling or context.now < index.record.get("active_at", 0.0)):
        raise ValidationException(f"Cannot read from backfilling global secondary index: {name}")
    return index


def not_supported(operation: str) -> str:
    """What DynamoDB says of a vector index that is read as others are; after Query with a full stop."""
    return f"{operation} operation not supported on this index type"


def _check_select(request: Request, parts: QueryParts) -> None:
    select = request.get("Select")
    if select is None:
        return
    if select == "ALL_PROJECTED_ATTRIBUTES" and "IndexName" not in request:
        raise ValidationException("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
    parameter = "ProjectionExpression" if "ProjectionExpression" in request else "AttributesToGet"
    if select == "SPECIFIC_ATTRIBUTES" and parts.projector is None:
        raise ValidationException(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
        )
    if select != "SPECIFIC_ATTRIBUTES" and parts.projector is not None:
        target = "only the Count" if select == "COUNT" else select
        raise ValidationException(f"Cannot specify the {parameter} when choosing to get {target}")


def _refuse_key_filters(table: TableInfo, index: IndexInfo | None, parts: QueryParts, legacy: bool) -> None:
    if not parts.filter_attributes:
        return
    for part in table.key if index is None else index.key:
        if part.name in parts.filter_attributes:
            source = "QueryFilter" if legacy else "Filter Expression"
            raise ValidationException(
                f"{source} can only contain non-primary key attributes: Primary key attribute: {part.name}"
            )


def _refuse_unprojected_filter(index: IndexInfo, parts: QueryParts) -> None:
    """Query refuses what Scan takes: a filter that looks at an attribute which the index does not hold."""
    outside = _outside(index, parts.filter_attributes)
    if outside:
        listed = ", ".join(in_java_order(outside, len(parts.filter_attributes)))
        raise ValidationException(
            f"{_INVALID}Secondary index {index.name} does not project one or more filter attributes: [{listed}]"
        )


def _outside(index: IndexInfo, names: tuple[str, ...]) -> list[str]:
    held = index.projected
    return [] if held is None else [name for name in names if name not in held]


def _whole_items(index: IndexInfo | None, request: Request, parts: QueryParts) -> bool:
    """Whether items must be fetched from the table because the index does not hold what is asked for."""
    if index is None or index.projected is None:
        return False
    wants_all = request.get("Select") == "ALL_ATTRIBUTES"
    outside = _outside(index, parts.projected_attributes)
    if index.local:
        return wants_all or bool(outside)
    if wants_all:
        raise ValidationException(
            f"{_INVALID}Select type ALL_ATTRIBUTES is not supported for global secondary index {index.name} "
            "because its projection type is not ALL"
        )
    if outside:
        raise ValidationException(
            f"{_INVALID}Global secondary index {index.name} does not project [{', '.join(outside)}]"
        )
    return False


def _check_segments(request: Request) -> None:
    segment, total = request.get("Segment"), request.get("TotalSegments")
    if segment is not None and total is None:
        raise ValidationException(
            "The TotalSegments parameter is required but was not present in the request "
            "when Segment parameter is present"
        )
    if total is None:
        return
    if segment is None:
        raise ValidationException(
            "The Segment parameter is required but was not present in the request "
            "when parameter TotalSegments is present"
        )
    if segment >= total:
        raise ValidationException(
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            f"Segment: {segment} is not less than TotalSegments: {total}"
        )


def _segment(table: TableInfo, index: IndexInfo | None, request: Request) -> Walk:
    walk = Walk(table, index)
    total = request.get("TotalSegments", 1)
    if total > 1:
        segment = request["Segment"]
        walk.low = row_keys.segment_start(segment, total) if segment else None
        walk.high = row_keys.segment_start(segment + 1, total) if segment + 1 < total else None
    return walk


# ── from key conditions to a range of rows ─────────────────────────────────────────────────────────


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
    named = [by_name[part.name] for part in ranges if part.name in by_name]
    if start is not None:
        _check_start(table, hashes, by_name, named, start)
        if index is None and not ranges:
            raise ValidationException(f"The provided exclusive start key is invalid: {_render_value(start)}")
    return _partition_walk(table, index, [by_name[part.name] for part in hashes], named)


def _walk_of_usual(usual: UsualQuery, index: IndexInfo | None) -> Walk:
    """The same of terms that have been found right."""
    return _partition_walk(usual.table, index, usual.terms[:1], usual.terms[1:])


def _partition_walk(table: TableInfo, index: IndexInfo | None, hashes: Sequence[Term], named: Sequence[Term]) -> Walk:
    low, high = row_keys.partition_range([term.operands[0] for term in hashes])
    walk = Walk(table, index, low, high=high, single=index is None and table.range is None)
    if named:
        narrow = _narrow_in_table if index is None else _narrow_in_index
        narrow(walk, low, named)
    return walk


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
                raise _missing_equality(hashes, by_name)
            if is_hash or (len(ranges) == 1 and len(by_name) > len(hashes)):
                raise ValidationException(f"Query condition missed key schema element: {part.name}")
            continue
        if term.operator not in _COMPARISONS:
            raise ValidationException("Attempted conditional constraint is not an indexable operation")
        _check_operands(part, term, is_hash)
        if is_hash and term.operator != "=":
            if len(hashes) > 1:
                raise _missing_equality(hashes, by_name)
            raise ValidationException("Query key condition not supported")
    _check_ranges(ranges, by_name)
    known = {part.name for part in (*hashes, *ranges)}
    if any(name not in known for name in by_name):
        raise ValidationException("Query key condition not supported")


def _missing_equality(hashes: Sequence[KeyAttribute], by_name: dict[str, Term]) -> ValidationException:
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
    data = row_keys.data_of(value)
    first, *second = map(row_keys.data_of, term.operands)
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
        if not 0 < len(value[part.kind]) <= row_keys.SHORT_TEXT:
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


def _narrow_in_table(walk: Walk, prefix: bytes, terms: Sequence[Term]) -> None:
    """A table's sort key ends its row keys, so that bounds can be exact."""
    (term,) = terms
    first = prefix + row_keys.data_of(term.operands[0])
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
            walk.low, walk.high, walk.high_open = first, prefix + row_keys.data_of(term.operands[1]), False
        case _:
            walk.low, walk.high = first, row_keys.after(first)


def _narrow_in_index(walk: Walk, prefix: bytes, terms: Sequence[Term]) -> None:
    """An index's row keys go on after its sort attributes: a value means all that begins with it."""
    for term in terms[:-1]:
        prefix += row_keys.escape_value(term.operands[0])
    walk.low, walk.high = prefix, row_keys.after(prefix)
    last = terms[-1]
    if last.operator == "begins_with":
        start = prefix + row_keys.escape(row_keys.data_of(last.operands[0]))
        walk.low, walk.high = start, row_keys.after(start)
        return
    first = prefix + row_keys.escape_value(last.operands[0])
    match last.operator:
        case "=":
            walk.low, walk.high = first, row_keys.after(first)
        case "<":
            walk.high = first
        case "<=":
            walk.high = row_keys.after(first)
        case ">":
            walk.low = row_keys.after(first)
        case ">=":
            walk.low = first
        case _:
            walk.low, walk.high = first, row_keys.after(prefix + row_keys.escape_value(last.operands[1]))


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
    row_key = row_keys.row_key(table, start)
    if index is None:
        return row_key
    entry = row_keys.index_key(index, start, row_key)
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


# ── pages ──────────────────────────────────────────────────────────────────────────────────────────


Projector = Callable[[Item], Item]
Filter = Callable[[Item], bool]


@dataclass(slots=True)
class Walk:
    """Which rows, in which order. Bounds are row keys of the table or the index; `low` and `high` may be open."""

    table: TableInfo
    index: IndexInfo | None
    low: bytes | None = None
    low_open: bool = False
    high: bytes | None = None
    high_open: bool = True
    forward: bool = True
    single: bool = False
    """No more than one row: there is nothing to go on with after it."""


_GROUP_ROWS = 64
_PIECE_HEAD_BYTES = 18
_NEARLY_FULL = PAGE_BYTES * 7 // 8  # below it no page is full, except with sort keys of some hundred bytes


@dataclass(slots=True)
class Page:
    items: list[Any] = field(default_factory=list)
    """As an answer has them; one `orjson.Fragment` may be several items with commas between them."""
    count: int = 0
    scanned: int = 0
    size: int = 0
    """Bytes looked at, which the reading costs."""
    fetched: list[int] = field(default_factory=list)
    """Sizes of items read from the table for an index that does not hold them whole."""
    pieces: int = 0
    """Of large items, how many pieces of 3 KB they are stored in."""
    last: Item | None = None
    """The key of the last item looked at, if the page was filled."""

    def is_full(self, walk: Walk, item: Item) -> bool:
        """Whether 1 MB has been looked at, as DynamoDB stores it: each piece of an item has a head and the sort key.

        Measured on AWS by dynalite's author: 25 items of 41,660 bytes fill a page. The sort key is taken to be as long
        as this item's. Small items count by their size; what they are stored with is about what their names save.
        """
        sort = walk.table.range
        head = _PIECE_HEAD_BYTES + (0 if sort is None else length_of(item[sort.name]) + 1)
        return self.size + self.pieces * head >= PAGE_BYTES


def read_page(
    context: OperationContext,
    walk: Walk,
    *,
    limit: int | None,
    keep: Filter | None,
    project: Projector | None,
    count_only: bool,
    whole_items: bool = False,
) -> Page:
    """One page. `whole_items`: a local index shall give attributes that it does not hold.

    A filter sees no more of an item than the index holds, even then (docs/decisions/0040-filters-on-indexes.md).
    """
    page = Page()
    index = walk.index
    held = None if index is None or whole_items else index.held_in_keys
    narrow = index is not None and index.projected is not None and held is None
    view = index.view if index is not None and narrow else None
    if index is not None and held is not None:
        rows = _read_index_keys(context, walk, index, limit, held)
    elif narrow or keep is not None or project is not None:
        rows = ((orjson.loads(blob), blob, size) for blob, size in chain.from_iterable(_items(context, walk, limit)))
    else:
        left = _take_groups(page, walk, _items(context, walk, limit), limit, count_only)
        rows = ((None, blob, size) for blob, size in left)
    for item, blob, size in rows:
        page.scanned += 1
        counted = _index_size(index, item) if narrow else size
        page.size += counted
        if counted > PIECE_BYTES:
            page.pieces += 1 + counted // PIECE_BYTES
        if whole_items and narrow:
            page.fetched.append(size)
        if item is None:
            page.count += 1
            if not count_only:
                page.items.append(orjson.Fragment(blob))
        else:
            held_part = item if view is None else view(item)
            if keep is None or keep(held_part):
                _take(page, item if whole_items else held_part, project, count_only)
        if page.size >= _NEARLY_FULL or page.scanned == limit:
            whole = item or orjson.loads(blob)
            if page.scanned == limit or page.is_full(walk, whole):
                page.last = None if walk.single else _position(walk, whole)
                break
    return page


_LookedAt = Iterator[tuple[Item | None, bytes, int]]
"""Items with their JSON and sizes, as far as they were read."""

_Groups = Iterator[list[tuple[Any, Any]]]
"""Rows as they are fetched, some at a time."""


def _items(context: OperationContext, walk: Walk, limit: int | None) -> _Groups:
    """Items as they lie in the file, with their sizes."""
    if walk.index is None:
        source = f"SELECT r.item, r.size FROM {walk.table.storage} r"  # noqa: S608
    else:
        # CROSS JOIN keeps SQLite from walking the table instead of the index.
        source = (
            f"SELECT t.item, t.size FROM {walk.index.storage} r "  # noqa: S608
            f"CROSS JOIN {walk.table.storage} t ON t.key = r.item_key"
        )
    return _rows(context, source, walk, limit)


def _take_groups(
    page: Page, walk: Walk, groups: _Groups, limit: int | None, count_only: bool
) -> Iterable[tuple[Any, Any]]:
    """Takes the groups that cannot fill the page but by their number; later rows are to be looked at one by one."""
    for rows in groups:
        blobs, sizes = zip(*rows, strict=True)
        size = page.size + sum(sizes)
        if size >= _NEARLY_FULL or max(sizes) > PIECE_BYTES:
            return chain(rows, chain.from_iterable(groups))
        page.size = size
        page.scanned += len(rows)
        page.count += len(rows)
        if not count_only:
            page.items.append(orjson.Fragment(blobs[0] if len(blobs) == 1 else b",".join(blobs)))
        if page.scanned == limit:
            page.last = None if walk.single else _position(walk, orjson.loads(blobs[-1]))
            break
    return ()


def _read_index_keys(
    context: OperationContext,
    walk: Walk,
    index: IndexInfo,
    limit: int | None,
    read: Callable[[bytes, bytes], tuple[Item, int]],
) -> _LookedAt:
    source = f"SELECT r.key, r.item_key FROM {index.storage} r"  # noqa: S608
    for key, item_key in chain.from_iterable(_rows(context, source, walk, limit)):
        item, size = read(key, item_key)
        yield item, b"", size


def _take(page: Page, item: Item, project: Projector | None, count_only: bool) -> None:
    page.count += 1
    if not count_only:
        page.items.append(item if project is None else project(item))


def _index_size(index: IndexInfo | None, item: Item | None) -> int:
    assert index is not None and item is not None
    return item_size(index.view(item))


def _position(walk: Walk, item: Item) -> Item:
    names = walk.table.key_names if walk.index is None else walk.index.key_names
    return {name: item[name] for name in names}


def _rows(context: OperationContext, source: str, walk: Walk, limit: int | None) -> _Groups:
    """What the source selects of the rows of the walk, some rows at a time."""
    conditions: list[str] = []
    bounds: list[bytes | int] = []
    if walk.low is not None:
        conditions.append("r.key > ?" if walk.low_open else "r.key >= ?")
        bounds.append(walk.low)
    if walk.high is not None:
        conditions.append("r.key < ?" if walk.high_open else "r.key <= ?")
        bounds.append(walk.high)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "ASC" if walk.forward else "DESC"
    sql = f"{source}{where} ORDER BY r.key {order}"
    if limit is not None:
        sql += " LIMIT ?"
        bounds.append(limit)
    cursor = context.db.execute(sql, bounds)
    # Few rows at a time: a page may be full long before the partition ends.
    cursor.arraysize = _GROUP_ROWS
    try:
        while rows := cursor.fetchmany():
            yield rows
            if len(rows) < _GROUP_ROWS:
                break
    finally:
        cursor.close()
