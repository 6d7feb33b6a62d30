"""PutItem, UpdateItem, DeleteItem."""

from __future__ import annotations

from typing import Any

from penstock.engine import capacity, changes, envelope, requests, writes
from penstock.engine.call import Call
from penstock.engine.collections import collection_metrics
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ValidationException


def _prepare_put(request: Request) -> tuple[Request, writes.Put]:
    """The write, and the request as it is to be read."""
    try:
        return request, _put_of(request)
    except Exception as error:
        if isinstance(error, ValidationException) and error.message == writes.ITEM_TOO_LARGE:
            raise  # all of it was looked at, and a second look would take as much memory again
        looked_at = requests.look_closely("PutItem", request)
        if looked_at == request:
            raise
        return looked_at, _put_of(looked_at)


def _put_of(request: Request) -> writes.Put:
    try:
        return writes.prepare_put(request)
    except ValidationException as error:
        raise envelope.of_write(error, request) from None


def _prepare_delete(request: Request) -> writes.Delete:
    try:
        return writes.prepare_delete(request)
    except ValidationException as error:
        raise envelope.of_write(error, request) from None


def _prepare_update(request: Request) -> writes.Update:
    try:
        return writes.prepare_update(request)
    except ValidationException as error:
        raise envelope.of_write(error, request) from None


@operation("PutItem", kind="write", prepare=_prepare_put)
def put_item(call: Call, request: Request) -> Response:
    request, write = call.prepared or _prepare_put(request)
    write.resolve(call)
    table = write.table
    if write.condition is None and not table.watched and "ReturnValues" not in request and _plain(request):
        changes.put_unwatched(call, table, write.key, write.item, write.size)
        return {}
    if write.put_new(call):
        return _with_costs(call, request, write, {})
    return _carry_out(call, request, write)


@operation("DeleteItem", kind="write", prepare=_prepare_delete)
def delete_item(call: Call, request: Request) -> Response:
    write = call.prepared or _prepare_delete(request)
    write.resolve(call)
    return _carry_out(call, request, write)


@operation("UpdateItem", kind="write", prepare=_prepare_update)
def update_item(call: Call, request: Request) -> Response:
    write = resolved_update(call, request)
    write.read(call)
    write.decide()
    write.apply(call)
    return update_response(call, request, write)


def resolved_update(call: Call, request: Request) -> writes.Update:
    """All of an UpdateItem that can be told without its item."""
    write: writes.Update = call.prepared or _prepare_update(request)
    write.resolve(call)
    write.refuse_charge()
    return write


def update_response(call: Call, request: Request, write: writes.Update) -> Response:
    """The answer to an UpdateItem that was decided."""
    response: dict[str, Any] = {}
    attributes = write.returned(request.get("ReturnValues", "NONE")) if "ReturnValues" in request else None
    if attributes is not None:
        response["Attributes"] = attributes
    return _with_costs(call, request, write, response)


def _carry_out(call: Call, request: Request, write: writes.Write) -> Response:
    write.read(call)
    write.decide()
    write.apply(call)
    response: dict[str, Any] = {}
    if request.get("ReturnValues") == "ALL_OLD" and write.old is not None:
        response["Attributes"] = write.old
    return _with_costs(call, request, write, response)


def _with_costs(call: Call, request: Request, write: writes.Write, response: Response) -> Response:
    if _plain(request):
        return response
    if capacity.wanted(request):
        units = capacity.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity.report(write.table, units, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE" and write.table.has_local_indexes:
        response["ItemCollectionMetrics"] = collection_metrics(call, write.table, write.key_values)
    return response


def _plain(request: Request) -> bool:
    """Whether the call asks nothing about its costs."""
    return "ReturnConsumedCapacity" not in request and "ReturnItemCollectionMetrics" not in request
