"""PutItem, UpdateItem, DeleteItem."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import orjson

from penstock.engine import requests
from penstock.engine.capacity import capacity_units
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import bulk_rows, changes, write_steps
from penstock.engine.items.item_collections import collection_metrics
from penstock.engine.registry import Answer, Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import DynamoDBError, ValidationException
from penstock.wire.values import Item


def _prepare_put(request: Request) -> tuple[Request, write_steps.Put]:
    """The write, and the request as it is to be read."""
    try:
        return request, _put_of(request)
    except Exception as error:
        if isinstance(error, ValidationException) and error.message == write_steps.ITEM_TOO_LARGE:
            raise  # all of it was looked at, and a second look would take as much memory again
        looked_at = requests.look_closely("PutItem", request)
        if looked_at == request:
            raise
        return looked_at, _put_of(looked_at)


def _put_of(request: Request) -> write_steps.Put:
    try:
        return write_steps.prepare_put(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


def _prepare_delete(request: Request) -> write_steps.Delete:
    try:
        return write_steps.prepare_delete(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


def _prepare_update(request: Request) -> write_steps.Update:
    try:
        return write_steps.prepare_update(request)
    except ValidationException as error:
        raise error_wording.of_write(error, request) from None


@operation("PutItem", kind="write", prepare=_prepare_put)
def put_item(context: OperationContext, request: Request) -> Response:
    request, write = context.prepared or _prepare_put(request)
    write.resolve(context)
    table = write.table
    if write.condition is None and not table.watched and "ReturnValues" not in request and _plain(request):
        changes.put_unwatched(context, table, write.key, write.item, write.size)
        return {}
    if write.put_new(context):
        return _with_costs(context, request, write, {})
    return _carry_out(context, request, write)


@operation("DeleteItem", kind="write", prepare=_prepare_delete)
def delete_item(context: OperationContext, request: Request) -> Response:
    write = context.prepared or _prepare_delete(request)
    write.resolve(context)
    return _carry_out(context, request, write)


def _resolved_update(context: OperationContext, request: Request) -> write_steps.Update:
    """All of an UpdateItem that can be told without its item."""
    write: write_steps.Update = context.prepared or _prepare_update(request)
    write.resolve(context)
    write.refuse_charge()
    return write


def _update_response(context: OperationContext, request: Request, write: write_steps.Update) -> Response:
    """The answer to an UpdateItem that was decided."""
    response: dict[str, Any] = {}
    attributes = write.returned(request.get("ReturnValues", "NONE")) if "ReturnValues" in request else None
    if attributes is not None:
        response["Attributes"] = attributes
    return _with_costs(context, request, write, response)


# ── UpdateItems that arrived together ──
#
# One statement reads their items, one writes them, one or two each index.
# 1. Each is decided as if it came alone after those before it: it sees what they leave.
# 2. All are decided before anything is written, and what is refused changes nothing.

_Prepared = tuple[Request, write_steps.Update]
_Items = dict[tuple[int, bytes], Item | None]


def _update_items(context: OperationContext, given: Sequence[Request]) -> list[Answer]:
    """Stops before a request that asks about its item's collection: the answer is known after the write."""
    taken = takewhile(lambda request: "ReturnItemCollectionMetrics" not in request, given)
    prepared = [_prepared(context, request) for request in taken]
    if len(prepared) < 2:
        return []
    items = _read_items(context, [one for one in prepared if not isinstance(one, DynamoDBError)])
    made: list[changes.Change] = []
    answers = [one if isinstance(one, DynamoDBError) else _decided(context, *one, items, made) for one in prepared]
    changes.write_many(context, made)
    return answers


def _prepared(context: OperationContext, given: Request) -> _Prepared | DynamoDBError:
    try:
        request = requests.check("UpdateItem", given)
        return request, _resolved_update(context, request)
    except DynamoDBError as error:
        return error.as_answer()


def _read_items(context: OperationContext, prepared: Sequence[_Prepared]) -> _Items:
    """The items as they are, by table and key."""
    keys: dict[int, tuple[TableInfo, set[bytes]]] = {}
    for _, write in prepared:
        keys.setdefault(write.table.id, (write.table, set()))[1].add(write.key)
    items: _Items = {}
    for number, (table, wanted) in keys.items():
        for key, data in bulk_rows.get_rows(context, table, wanted):
            context.db.refuse_long_work(data)
            items[number, key] = orjson.loads(data)
    return items


def _decided(
    context: OperationContext,
    request: Request,
    write: write_steps.Update,
    items: _Items,
    made: list[changes.Change],
) -> Answer:
    place = write.table.id, write.key
    write.old = items.get(place)
    try:
        write.decide()
    except DynamoDBError as error:
        return error.as_answer()
    answer = orjson.dumps(_update_response(context, request, write))
    if write.new is not None:
        made.append(changes.Change(write.table, write.key, write.old, write.new, write.size))
        items[place] = write.new  # (1)
    return answer


@operation("UpdateItem", kind="write", prepare=_prepare_update, run_many=_update_items)
def update_item(context: OperationContext, request: Request) -> Response:
    write = _resolved_update(context, request)
    write.read(context)
    write.decide()
    write.apply(context)
    return _update_response(context, request, write)


def _carry_out(context: OperationContext, request: Request, write: write_steps.Write) -> Response:
    write.read(context)
    write.decide()
    write.apply(context)
    response: dict[str, Any] = {}
    if request.get("ReturnValues") == "ALL_OLD" and write.old is not None:
        response["Attributes"] = write.old
    return _with_costs(context, request, write, response)


def _with_costs(context: OperationContext, request: Request, write: write_steps.Write, response: Response) -> Response:
    if _plain(request):
        return response
    if capacity_units.wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE" and write.table.has_local_indexes:
        response["ItemCollectionMetrics"] = collection_metrics(context, write.table, write.key_values)
    return response


def _plain(request: Request) -> bool:
    """Whether the call asks nothing about its costs."""
    return "ReturnConsumedCapacity" not in request and "ReturnItemCollectionMetrics" not in request
