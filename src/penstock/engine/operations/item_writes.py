"""PutItem, UpdateItem, DeleteItem."""

from __future__ import annotations

from typing import Any

from penstock.engine import requests
from penstock.engine.capacity import capacity_units
from penstock.engine.context import Call
from penstock.engine.items import changes, write_steps
from penstock.engine.items.item_collections import collection_metrics
from penstock.engine.registry import Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import ValidationException


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


def resolved_update(call: Call, request: Request) -> write_steps.Update:
    """All of an UpdateItem that can be told without its item."""
    write: write_steps.Update = call.prepared or _prepare_update(request)
    write.resolve(call)
    write.refuse_charge()
    return write


def update_response(call: Call, request: Request, write: write_steps.Update) -> Response:
    """The answer to an UpdateItem that was decided."""
    response: dict[str, Any] = {}
    attributes = write.returned(request.get("ReturnValues", "NONE")) if "ReturnValues" in request else None
    if attributes is not None:
        response["Attributes"] = attributes
    return _with_costs(call, request, write, response)


def _carry_out(call: Call, request: Request, write: write_steps.Write) -> Response:
    write.read(call)
    write.decide()
    write.apply(call)
    response: dict[str, Any] = {}
    if request.get("ReturnValues") == "ALL_OLD" and write.old is not None:
        response["Attributes"] = write.old
    return _with_costs(call, request, write, response)


def _with_costs(call: Call, request: Request, write: write_steps.Write, response: Response) -> Response:
    if _plain(request):
        return response
    if capacity_units.wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE" and write.table.has_local_indexes:
        response["ItemCollectionMetrics"] = collection_metrics(call, write.table, write.key_values)
    return response


def _plain(request: Request) -> bool:
    """Whether the call asks nothing about its costs."""
    return "ReturnConsumedCapacity" not in request and "ReturnItemCollectionMetrics" not in request
