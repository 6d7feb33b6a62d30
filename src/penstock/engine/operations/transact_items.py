"""TransactWriteItems and TransactGetItems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from penstock.engine.capacity import capacity_units
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import idempotency_tokens, transactions, write_steps
from penstock.engine.items.item_collections import collection_metrics
from penstock.engine.items.item_keys import refuse_nested_keys, row_key_of_key
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ValidationException
from penstock.expressions.request import projection_of
from penstock.wire.values import check_item

_PREPARE: dict[str, Callable[..., write_steps.Write]] = {
    "Put": write_steps.prepare_put,
    "Update": write_steps.prepare_update,
    "Delete": write_steps.prepare_delete,
    "ConditionCheck": write_steps.prepare_check,
}


def _prepare(request: Request) -> list[write_steps.Write]:
    return [_action(one) for one in request["TransactItems"]]


def _action(one: dict[str, Any]) -> write_steps.Write:
    named = [name for name in one if name in _PREPARE]
    if len(named) != 1:
        raise ValidationException("TransactItems can only contain one of Check, Put, Update or Delete")
    return _PREPARE[named[0]](one[named[0]], transaction=True)


@operation("TransactWriteItems", kind="write", prepare=_prepare)
def transact_write_items(context: OperationContext, request: Request) -> Response:
    actions = context.prepared or _prepare(request)
    token = request.get("ClientRequestToken")
    if token is not None:
        digest = idempotency_tokens.digest_of(request["TransactItems"])
        earlier = idempotency_tokens.earlier_answer(context, token, digest)
        if earlier is not None:
            return _replayed(context, request, earlier)
    transactions.resolve(context, actions)
    transactions.carry_out(context, actions)
    if token is not None:
        sizes = [(action.table.name, max(_size(action.old), _size(action.new))) for action in actions]
        idempotency_tokens.remember(context, token, digest, {"sizes": sizes})
    return _with_costs(context, request, actions)


def _size(item: dict[str, Any] | None) -> int:
    return 0 if item is None else check_item(item)[1]


def _with_costs(context: OperationContext, request: Request, actions: list[write_steps.Write]) -> Response:
    response: dict[str, Any] = {}
    if capacity_units.wanted(request):
        response["ConsumedCapacity"] = transactions.consumed(actions, request["ReturnConsumedCapacity"])
    if request.get("ReturnItemCollectionMetrics") == "SIZE":
        metrics: dict[str, list[Any]] = {}
        for action in actions:
            if action.table.has_local_indexes:
                one = collection_metrics(context, action.table, action.key_values)
                metrics.setdefault(action.table.name, []).append(one)
        if metrics:
            response["ItemCollectionMetrics"] = metrics
    return response


def _replayed(context: OperationContext, request: Request, earlier: dict[str, Any]) -> Response:
    """The answer to a repeated request: nothing is done again, and it costs as a transactional read."""
    if not capacity_units.wanted(request):
        return {}
    by_table: dict[str, tuple[TableInfo, capacity_units.Units]] = {}
    for name, size in earlier["sizes"]:
        _, units = by_table.setdefault(name, (context.table(name), capacity_units.Units()))
        units.table += 2 * capacity_units.read_units(size, consistent=True)
    mode = request["ReturnConsumedCapacity"]
    return {
        "ConsumedCapacity": [capacity_units.report(table, units, mode, "Read") for table, units in by_table.values()]
    }


@operation("TransactGetItems", kind="snapshot")
def transact_get_items(context: OperationContext, request: Request) -> Response:
    wanted = [_get(one) for one in request["TransactItems"]]
    found = _resolved(context, wanted)
    responses: list[dict[str, Any]] = []
    by_table: dict[int, tuple[TableInfo, capacity_units.Units]] = {}
    for (_, projector, _), (table, row_key) in zip(wanted, found, strict=True):
        row = context.db.execute(table.sql_get_sized, (row_key,)).fetchone()
        _, units = by_table.setdefault(table.id, (table, capacity_units.Units()))
        units.table += 2 * capacity_units.read_units(row[1] if row else 0, consistent=True)
        if row is None:
            responses.append({})
        else:
            item = orjson.Fragment(row[0]) if projector is None else projector(orjson.loads(row[0]))
            responses.append({"Item": item})
    response: dict[str, Any] = {"Responses": responses}
    if capacity_units.wanted(request):
        mode = request["ReturnConsumedCapacity"]
        response["ConsumedCapacity"] = [
            capacity_units.report(table, units, mode, "Read") for table, units in by_table.values()
        ]
    return response


def _get(one: dict[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    asked = one["Get"]
    return asked, projection_of(asked, transaction=True), check_item(asked["Key"])[0]


def _resolved(
    context: OperationContext, wanted: list[tuple[dict[str, Any], Any, dict[str, Any]]]
) -> list[tuple[TableInfo, bytes]]:
    found: list[tuple[TableInfo, bytes]] = []
    reasons: list[transactions.Reason] = []
    for asked, projector, key in wanted:
        table = context.table(asked["TableName"])
        try:
            row_key = row_key_of_key(table, key)
            if projector is not None:
                refuse_nested_keys(table, projector.nested)
            found.append((table, row_key))
            reasons.append({"Code": "None"})
        except ValidationException as error:
            if "cannot contain an empty" in error.message:
                raise
            reasons.append(transactions.reason_of(error))
    if len({(table.id, row_key) for table, row_key in found}) != len(found):
        raise ValidationException("Transaction request cannot include multiple operations on one item")
    if len(found) != len(wanted):
        raise transactions.cancelled(transactions.first_problem(reasons))
    return found
