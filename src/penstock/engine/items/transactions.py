"""Transactions: all of a list of writes, or none; TransactWriteItems and PartiQL's ExecuteTransaction share it.

1. What a request alone shows to be wrong is refused as a ValidationException. What only the table or the item can show
   (a key that does not fit, a condition that does not hold, an update that cannot be made) cancels the transaction,
   with a reason for each action.
2. A transaction repeated with its idempotency token within ten minutes is answered, not done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import capacity_units
from penstock.engine.items.write_steps import Check, Put, Write
from penstock.errors import (
    ConditionalCheckFailedException,
    DynamoDBError,
    IdempotentParameterMismatchException,
    TransactionCanceledException,
    ValidationException,
)
from penstock.wire.limits import IDEMPOTENCY_SECONDS, TRANSACTION_BYTES
from penstock.wire.values import item_size

Reason = dict[str, Any]
_FINE: Reason = {"Code": "None"}


def carry_out(context: OperationContext, actions: Sequence[Write]) -> None:
    """Makes every write, or raises and makes none."""
    reasons = [_reason(context, action) for action in actions]
    for reason in reasons:
        if reason is not _FINE:
            raise cancelled(reasons)
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
        raise cancelled(first_problem(reasons))


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


def cancelled(reasons: Sequence[Reason]) -> TransactionCanceledException:
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
    raise error


def _attempt(action: Write, context: OperationContext) -> Reason:
    try:
        action.resolve(context)
    except ValidationException as error:
        if "cannot contain an empty" in error.message:
            raise  # DynamoDB refuses the whole request for an empty key
        return reason_of(error)
    return _FINE


def _reason(context: OperationContext, action: Write) -> Reason:
    if type(action) is Put and action.condition is None:
        action.leave_unread()  # it is likely to be new: nothing is gained by looking
        return _FINE
    try:
        action.read(context)
        action.decide()
    except (ConditionalCheckFailedException, ValidationException) as error:
        return reason_of(error)
    return _FINE


def consumed(actions: Sequence[Write], mode: str) -> list[dict[str, Any]]:
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


# ── idempotency tokens ────────────────────────────────────────────────────────────────────────────


def digest_of(request: Any) -> bytes:
    """What makes two requests the same."""
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


def remember(context: OperationContext, token: str, digest: bytes, answer: dict[str, Any]) -> None:
    context.db.execute("DELETE FROM idempotency WHERE expires_at <= ?", (context.now,))
    context.db.execute(
        "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)",
        (
            context.scope.account,
            context.scope.region,
            token,
            digest,
            orjson.dumps(answer),
            context.now + IDEMPOTENCY_SECONDS,
        ),
    )
