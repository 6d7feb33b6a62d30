"""BatchGetItem and BatchWriteItem: everything is checked before anything is done."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.engine.capacity import capacity_units
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import write_steps
from penstock.engine.items.bulk_rows import Row, put_rows, row_of_checked
from penstock.engine.items.item_collections import collection_metrics
from penstock.engine.items.item_keys import refuse_nested_keys, row_key_of_key
from penstock.engine.registry import Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import DynamoDBError, ValidationException
from penstock.expressions.request import projection_of
from penstock.wire.limits import BATCH_BYTES, BATCH_GET_ITEMS, BATCH_WRITE_ITEMS
from penstock.wire.values import Item, check_item

ANSWER_BYTES = 2 * BATCH_BYTES
"""Of items as JSON, which may be nine times as long as DynamoDB counts: what is more is left for the next call."""
_DUPLICATES = "Provided list of item keys contains duplicates"


@operation("BatchGetItem", kind="snapshot")
def batch_get_item(context: OperationContext, request: Request) -> Response:
    wanted = _wanted(context, request)
    responses: dict[str, list[Any]] = {name: [] for name in request["RequestItems"]}
    unprocessed: dict[str, Any] = {}
    consumed: dict[str, tuple[TableInfo, capacity_units.Units]] = {}
    total = told = 0
    for name, table, asked, projector, row_keys in wanted:
        units = capacity_units.Units()
        for position, (row_key, _) in enumerate(row_keys):
            row = context.db.execute(table.sql_get_sized, (row_key,)).fetchone()
            size = row[1] if row else 0
            told += len(row[0]) if row else 0
            if total + size > BATCH_BYTES or (told > ANSWER_BYTES and total):
                rest = [key for _, key in row_keys[position:]]
                unprocessed[name] = {**asked, "Keys": rest}
                break
            total += size
            units.table += capacity_units.read_units(size, bool(asked.get("ConsistentRead")))
            if row is not None:
                responses[name].append(
                    orjson.Fragment(row[0]) if projector is None else projector(orjson.loads(row[0]))
                )
        consumed[name] = (table, units)
    response: dict[str, Any] = {"Responses": responses, "UnprocessedKeys": unprocessed}
    if capacity_units.wanted(request):
        mode = request["ReturnConsumedCapacity"]
        response["ConsumedCapacity"] = [capacity_units.report(table, units, mode) for table, units in consumed.values()]
    return response


def _wanted(
    context: OperationContext, request: Request
) -> list[tuple[str, TableInfo, dict[str, Any], Any, list[tuple[bytes, Item]]]]:
    """What to read of which table: (name, table, what was asked, projector, row keys with their keys)."""
    if not request["RequestItems"]:
        raise ValidationException("The requestItems parameter is required for BatchGetItem")
    _refuse_mixed_projections(request["RequestItems"])
    prepared = []
    count = 0
    for name, asked in request["RequestItems"].items():
        try:
            projector = projection_of(asked)
            checked = [check_item(key)[0] for key in asked["Keys"]]
        except ValidationException as error:
            raise error_wording.of_read(error) from None
        if len({orjson.dumps(key, option=orjson.OPT_SORT_KEYS) for key in checked}) != len(checked):
            raise ValidationException(_DUPLICATES)
        count += len(checked)
        prepared.append((name, asked, projector, checked))
    if count > BATCH_GET_ITEMS:
        raise ValidationException("Too many items requested for the BatchGetItem call")
    wanted = []
    for name, asked, projector, checked in prepared:
        table = context.table(name)
        row_keys = [(row_key_of_key(table, key), key) for key in checked]
        if projector is not None:
            refuse_nested_keys(table, projector.nested)
        wanted.append((name, table, asked, projector, row_keys))
    return wanted


def _refuse_mixed_projections(tables: dict[str, Any]) -> None:
    """A request is written with expressions or without, whichever its table."""
    used = {name for asked in tables.values() for name in ("ProjectionExpression", "AttributesToGet") if name in asked}
    if len(used) > 1:
        raise ValidationException(
            "Can not use both expression and non-expression parameters in the same request: "
            "Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}"
        )


_Planned = dict[str, list[write_steps.Write]]


def _prepare_writes(request: Request) -> _Planned:
    """The writes by table."""
    items = request["RequestItems"]
    if not items:
        raise ValidationException("The requestItems parameter is required for BatchWriteItem")
    if sum(map(len, items.values())) > BATCH_WRITE_ITEMS:
        raise ValidationException("Too many items requested for the BatchWriteItem call")
    by_table: _Planned = {}
    for name, asked in items.items():
        table = {"TableName": name}  # all that is left to ask of the request of one of these
        by_table[name] = [_write(table, one) for one in asked]
    return by_table


def _write(table: Request, asked: dict[str, Any]) -> write_steps.Write:
    put, delete = asked.get("PutRequest"), asked.get("DeleteRequest")
    if (put is None) is (delete is None):
        raise ValidationException(
            "Supplied AttributeValue has more than one datatypes set, "
            "must contain exactly one of the supported datatypes"
        )
    if put is not None:
        return write_steps.plain_put(table, put["Item"])
    return write_steps.prepare_delete({**table, "Key": asked["DeleteRequest"]["Key"]})


@operation("BatchWriteItem", kind="write", prepare=_prepare_writes)
def batch_write_item(context: OperationContext, request: Request) -> Response:
    by_table: _Planned = context.prepared or _prepare_writes(request)
    if len(request) == 1:  # nothing is asked about costs
        plain = _plain_puts(context, by_table)
        if plain is not None:
            for table, rows in plain:
                put_rows(context, table, rows)
            return {"UnprocessedItems": {}}
    for planned in by_table.values():
        _resolve_all(context, planned)
    response: dict[str, Any] = {"UnprocessedItems": {}}
    consumed = []
    metrics: dict[str, list[Any]] = {}
    costs = capacity_units.wanted(request)
    for name, planned in by_table.items():
        table = planned[0].table
        units = capacity_units.Units()
        for write in planned:
            if table.watched or costs or isinstance(write, write_steps.Delete):
                write.read(context)
            write.decide()
            write.apply(context)
            if costs:
                units.add(capacity_units.units_of_write(table, write.old, write.new))
        if costs:
            consumed.append(capacity_units.report(table, units, request["ReturnConsumedCapacity"]))
        if request.get("ReturnItemCollectionMetrics") == "SIZE" and table.has_local_indexes:
            collections = {orjson.dumps(write.key_values[table.hash.name]): write.key_values for write in planned}
            metrics[name] = [collection_metrics(context, table, item) for item in collections.values()]
    if costs:
        response["ConsumedCapacity"] = consumed
    if metrics:
        response["ItemCollectionMetrics"] = metrics
    return response


def _plain_puts(context: OperationContext, by_table: _Planned) -> list[tuple[TableInfo, list[Row]]] | None:
    """The rows of a batch that does nothing but put into tables where nothing is kept in step; None for any other."""
    found = []
    for name, planned in by_table.items():
        table = _plain_table(context, name)
        if table is None:
            return None
        rows: dict[bytes, Row] = {}
        for write in planned:
            row = row_of_checked(table, write.item, write.size) if isinstance(write, write_steps.Put) else None
            if row is None:
                return None
            rows[row[0]] = row
        if len(rows) < len(planned):
            return None
        found.append((table, list(rows.values())))
    return found


def _plain_table(context: OperationContext, name: str) -> TableInfo | None:
    try:
        table = context.table(name)
    except DynamoDBError:
        return None
    return None if table.watched else table


def _resolve_all(context: OperationContext, planned: list[write_steps.Write]) -> None:
    for write in planned:
        _resolve(context, write)
    if len({write.key for write in planned}) != len(planned):
        raise ValidationException(_DUPLICATES)


def _resolve(context: OperationContext, write: write_steps.Write) -> None:
    """Finds the table and the row; a batch says the same of a put's key as of a delete's."""
    table = context.table(write.request["TableName"])
    if any(part.kind not in write.key_values.get(part.name, {}) for part in table.key):
        raise ValidationException("The provided key element does not match the schema")
    write.resolve(context)
