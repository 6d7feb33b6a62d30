"""Transactions: all of a list of writes, or none; TransactWriteItems and PartiQL's ExecuteTransaction share it.

1. What a request alone shows to be wrong is refused as a ValidationException. What only the table or the item can show
   (a key that does not fit, a condition that does not hold, an update that cannot be made) cancels the transaction,
   with a reason for each action.
2. A transaction repeated with its idempotency token within ten minutes is answered, not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import capacity_units
from penstock.engine.items.write_steps import Check, Put, Write
from penstock.engine.registry import Request, Response
from penstock.errors import (
    ConditionalCheckFailedException,
    DuplicateItemException,
    DynamoDBError,
    IdempotentParameterMismatchException,
    TransactionCanceledException,
    ValidationException,
)
from penstock.wire.limits import IDEMPOTENCY_SECONDS, TRANSACTION_BYTES
from penstock.wire.values import Item, item_size

Reason = dict[str, Any]
_FINE: Reason = {"Code": "None"}


def carry_out(context: OperationContext, actions: Sequence[Write]) -> None:
    """Makes every write, or raises and makes none."""
    reasons = [_reason(context, action) for action in actions]
    for reason in reasons:
        if reason is not _FINE:
            raise cancellation(reasons)
    for action in actions:
        action.apply(context)


def resolve(context: OperationContext, actions: Sequence[Write]) -> None:
    """Finds tables and keys; refuses two actions on one item, and more than 4 MB."""
    reasons = [_attempt(action, context) for action in actions]
    found = [action for action, reason in zip(actions, reasons, strict=True) if reason is _FINE]
    if len({(action.table.id, action.key) for action in found}) < len(found):
        raise ValidationException("Transaction request cannot include multiple operations on one item")
    if sum(map(_payload_at_most, actions)) > TRANSACTION_BYTES and sum(map(_payload, actions)) > TRANSACTION_BYTES:
        raise ValidationException(f"Transaction payload size cannot exceed {TRANSACTION_BYTES} bytes")
    if len(found) < len(actions):
        raise cancellation(first_problem(reasons))


def _payload(action: Write) -> int:
    """What an action brings, not what it finds: to delete a large item is little."""
    return item_size(action.key_values) + item_size(action.request.get("ExpressionAttributeValues") or {})


def _payload_at_most(action: Write) -> int:
    """No less than `_payload`, and quick: nothing counts for more bytes than its JSON has."""
    values = action.request.get("ExpressionAttributeValues")
    brought = action.size or len(orjson.dumps(action.key_values))  # of a Put, the size is known by now
    return brought + len(orjson.dumps(values)) if values else brought


def first_problem(reasons: Sequence[Reason]) -> list[Reason]:
    """The same with the first problem only: DynamoDB looks no further than the first key that does not fit."""
    place = next(place for place, reason in enumerate(reasons) if reason["Code"] != "None")
    return [reason if here == place else _FINE for here, reason in enumerate(reasons)]


def cancellation(reasons: Sequence[Reason]) -> TransactionCanceledException:
    codes = ", ".join(reason["Code"] for reason in reasons)
    return TransactionCanceledException(
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        CancellationReasons=list(reasons),
    )


def reason_of(error: DynamoDBError) -> Reason:
    """The cancellation reason that an error of one action becomes."""
    if isinstance(error, ConditionalCheckFailedException):
        return {"Code": "ConditionalCheckFailed", "Message": error.message, **error.fields}
    if isinstance(error, ValidationException):
        return {"Code": "ValidationError", "Message": error.message}
    if isinstance(error, DuplicateItemException):  # of PartiQL's INSERT
        return {"Code": "DuplicateItem", "Message": error.message}
    raise error


def _attempt(action: Write, context: OperationContext) -> Reason:
    try:
        action.resolve(context)
    except ValidationException as error:
        return _reason_or_raise(error)
    return _FINE


def _reason_or_raise(error: DynamoDBError) -> Reason:
    """DynamoDB refuses the whole request for an empty key, of the table or of an index."""
    if isinstance(error, ValidationException) and "cannot contain an empty" in error.message:
        raise error
    return reason_of(error)


def _reason(context: OperationContext, action: Write) -> Reason:
    if type(action) is Put and action.condition is None:
        action.leave_unread()  # it is likely to be new: nothing is gained by looking
        return _FINE
    try:
        action.read(context)
        action.decide()
    except (ConditionalCheckFailedException, DuplicateItemException, ValidationException) as error:
        return _reason_or_raise(error)
    return _FINE


def consumed_capacity(actions: Sequence[Write], mode: str) -> list[dict[str, Any]]:
    """What a transaction costs: twice the table's units, once the indexes'."""
    by_table: dict[int, tuple[TableInfo, capacity_units.Units]] = {}
    for action in actions:
        _, units = by_table.setdefault(action.table.id, (action.table, capacity_units.Units()))
        if isinstance(action, Check):
            units.table += 2 * capacity_units.write_units(item_size(action.old or {}))
            continue
        spent = capacity_units.units_of_write(action.table, action.old, action.new)
        spent.table *= 2
        units.add(spent)
    return [capacity_units.report(table, units, mode, "Write") for table, units in by_table.values()]


Read = tuple[TableInfo, bytes, Callable[[Item], Item] | None]
"""A table, the key of a row, and what is wanted of its item: None for all of it."""


def read_items(context: OperationContext, request: Request, reads: Iterable[Read]) -> Response:
    """The answer to a transaction that reads."""
    responses: list[dict[str, Any]] = []
    costs: _Costs = {}
    for table, row_key, project in reads:
        row = context.db.execute(table.sql_get_sized, (row_key,)).fetchone()
        _add_read(costs, table, row[1] if row else 0)
        if row is None:
            responses.append({})
        else:
            responses.append({"Item": orjson.Fragment(row[0]) if project is None else project(orjson.loads(row[0]))})
    return _with_costs(request, {"Responses": responses}, costs)


_Costs = dict[int, tuple[TableInfo, capacity_units.Units]]


def _add_read(costs: _Costs, table: TableInfo, size: int) -> None:
    _, units = costs.setdefault(table.id, (table, capacity_units.Units()))
    units.table += 2 * capacity_units.read_units(size, consistent=True)


def _with_costs(request: Request, response: Response, costs: _Costs) -> Response:
    if capacity_units.is_wanted(request):
        mode = request["ReturnConsumedCapacity"]
        response["ConsumedCapacity"] = [
            capacity_units.report(table, units, mode, "Read") for table, units in costs.values()
        ]
    return response


# ── idempotency tokens ────────────────────────────────────────────────────────────────────────────


def digest_of(request: Any) -> bytes:
    """What makes two requests the same."""
    from hashlib import sha256

    return sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).digest()


def earlier_answer(context: OperationContext, token: str, digest: bytes) -> dict[str, Any] | None:
    """What was remembered with this token; refused if it was with another request."""
    row = context.db.execute(
        "SELECT digest, answer FROM idempotency WHERE account = ? AND region = ? AND token = ? AND expires_at > ?",
        (context.scope.account, context.scope.region, token, context.now),
    ).fetchone()
    if row is None:
        return None
    if row[0] != digest:
        raise IdempotentParameterMismatchException(
            "The request uses the same client token as a previous, but non-identical request. "
            "Try again with a new client token, or make sure that the requests are identical."
        )
    answer: dict[str, Any] = orjson.loads(row[1])
    return answer


def replay(context: OperationContext, request: Request, earlier: dict[str, Any], response: Response) -> Response:
    """The answer to a repeated request: nothing is done again, and it costs as a transactional read."""
    costs: _Costs = {}
    if capacity_units.is_wanted(request):
        for name, size in earlier["sizes"]:
            _add_read(costs, context.table(name), size)
    return _with_costs(request, response, costs)


def remember(context: OperationContext, token: str, digest: bytes, actions: Sequence[Write]) -> None:
    """Remembers what the answer to a repetition needs: the sizes of the items."""
    sizes = [(action.table.name, max(item_size(action.old or {}), item_size(action.new or {}))) for action in actions]
    context.db.execute("DELETE FROM idempotency WHERE expires_at <= ?", (context.now,))
    context.db.execute(
        "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)",
        (
            context.scope.account,
            context.scope.region,
            token,
            digest,
            orjson.dumps({"sizes": sizes}),
            context.now + IDEMPOTENCY_SECONDS,
        ),
    )
