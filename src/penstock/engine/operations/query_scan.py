"""Query and Scan."""

from __future__ import annotations

from typing import Any

from penstock.engine.catalog.table_schema import IndexInfo, TableInfo, refuse_nested_keys
from penstock.engine.context import OperationContext
from penstock.engine.items import capacity_units
from penstock.engine.operations.table_description import billing_mode
from penstock.engine.reads import key_ranges
from penstock.engine.reads.pages import Page, Walk, read_page
from penstock.engine.registry import Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import ValidationException
from penstock.expressions.compiled.placeholders import in_java_order
from penstock.expressions.request import QueryParts, query_of, scan_of
from penstock.wire import keys

_PARTITION_WIDTH = 256 // 4  # of a row key's first byte
_LAST_KEY = b"\xff"
_INVALID = "One or more parameter values were invalid: "


@operation("Query", kind="read")
def query(context: OperationContext, request: Request) -> Response:
    start = key_ranges.StartKey(request)
    try:
        parts = query_of(request, start.check)
    except ValidationException as error:
        raise error_wording.of_read(error) from None
    _check_select(request, parts)
    table = context.table(request["TableName"])
    index = _index_of(context, table, request)
    walk = key_ranges.walk_of(table, index, parts.key_terms, start.values)
    walk.forward = request.get("ScanIndexForward", True) is not False
    refuse_nested_keys(table, parts.projected_nested)
    _refuse_key_filters(table, index, parts, "QueryFilter" in request)
    if index is not None:
        _refuse_unprojected_filter(index, parts)
    whole = _whole_items(index, request, parts)
    refuse_nested_keys(table, parts.filter_nested)
    if start.values is not None:
        key_ranges.start_after(walk, start.values)
    response, page = _answer(context, walk, request, parts, whole)
    if capacity_units.is_wanted(request):
        _report(response, walk, request, page)
    return response


@operation("Scan", kind="read")
def scan(context: OperationContext, request: Request) -> Response:
    start = key_ranges.StartKey(request)

    def check() -> None:
        start.check()
        _check_segments(request)

    parts = scan_of(request, check)
    _check_select(request, parts)
    table = context.table(request["TableName"])
    index = _index_of(context, table, request)
    if index is not None and start.values is not None:
        key_ranges.check_index_start(index, start.values)
    whole = _whole_items(index, request, parts)
    walk = _segment(table, index, request)
    if start.values is not None:
        position = key_ranges.position_of(table, index, start.values)
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
        end = key_ranges.position_of(walk.table, walk.index, page.last)
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
    if index is None:
        raise ValidationException(f"The table does not have the specified index: {name}")
    if not index.local and request.get("ConsistentRead"):
        raise ValidationException("Consistent reads are not supported on global secondary indexes")
    if not index.local and (index.backfilling or context.now < index.record.get("active_at", 0.0)):
        raise ValidationException(f"Cannot read from backfilling global secondary index: {name}")
    return index


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
        walk.low = keys.segment_start(segment, total) if segment else None
        walk.high = keys.segment_start(segment + 1, total) if segment + 1 < total else None
    return walk
