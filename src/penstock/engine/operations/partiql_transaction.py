"""ExecuteTransaction: up to 100 statements, all reads or all writes, done together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from penstock.engine.capacity import capacity_units
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import idempotency_tokens, transactions
from penstock.engine.items.item_keys import row_key_of_key
from penstock.engine.operations import partiql_writes
from penstock.engine.operations.partiql_reads import Reading
from penstock.engine.registry import Request, Response, operation
from penstock.errors import (
    ConditionalCheckFailedException,
    DuplicateItemException,
    ValidationException,
)
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.keys import pinned
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.tree import Delete, Select, Statement, Update
from penstock.expressions.partiql.values import Parameters, checked_parameters
from penstock.wire.values import AttributeValue, Item, item_size

_NEEDS_KEY = "Select statements within ExecuteTransaction must specify the primary key in the where clause."
_MIXED = "ExecuteTransaction API does not support both read and write operations in the same request."
_TWICE = "Transaction request cannot include multiple operations on one item"

Given = tuple[Statement, list[AttributeValue], Request]


@operation("ExecuteTransaction", kind="write")
def execute_transaction(context: OperationContext, request: Request) -> Response:
    members = request["TransactStatements"]
    parameters = [checked_parameters(member.get("Parameters")) for member in members]
    given = [
        (_statement(number, member["Statement"], values), values, member)
        for number, (member, values) in enumerate(zip(members, parameters, strict=True))
    ]
    reads = [(statement, values) for statement, values, _ in given if isinstance(statement, Select)]
    if reads and len(reads) < len(given):
        raise ValidationException(_MIXED)
    if reads:
        return _read(context, request, reads)
    return _write(context, request, given)


def _statement(number: int, text: str, parameters: Parameters) -> Statement:
    try:
        parsed = parse(text)
        if parsed.parameters != len(parameters):
            raise ValidationException(wording.PARAMETER_COUNT)
        statement = parsed.statement
        if isinstance(statement, Update | Delete) and statement.returning is not None:
            raise ValidationException("RETURNING clause is not supported in ExecuteTransaction.")
        if isinstance(statement, Select) and statement.source.index is not None:
            raise ValidationException("Reads on indices are not supported within transactions.")
    except ValidationException as error:
        raise _in_member(number, error) from None
    return statement


def _in_member(number: int, error: ValidationException) -> ValidationException:
    return ValidationException(f"Validation failed in TransactStatements[{number}]: {error.message}")


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


def _read(context: OperationContext, request: Request, reads: Sequence[tuple[Select, Parameters]]) -> Response:
    readings = [_reading(number, select, values) for number, (select, values) in enumerate(reads)]
    found: list[tuple[TableInfo, Item]] = []
    for number, (select, values) in enumerate(reads):
        table = _table_of(context, number, readings[number])
        where = pinned(select.where, table.key_names, values)
        if where.rest or len(where.key) != len(table.key_names):
            raise _in_member(number, ValidationException(_NEEDS_KEY))
        found.append((table, where.key))
    places = _row_keys(found)
    by_table: dict[int, tuple[TableInfo, capacity_units.Units]] = {}
    responses: list[dict[str, Any]] = []
    for reading, (table, _), row_key in zip(readings, found, places, strict=True):
        row = context.db.execute(table.sql_get_sized, (row_key,)).fetchone()
        _, units = by_table.setdefault(table.id, (table, capacity_units.Units()))
        units.table += 2 * capacity_units.read_units(row[1] if row else 0, consistent=True)
        responses.append({} if row is None else {"Item": _shown(reading, row[0])})
    return _with_costs(request, {"Responses": responses}, by_table)


def _reading(number: int, select: Select, parameters: Parameters) -> Reading:
    try:
        return Reading(select, parameters)
    except ValidationException as error:
        raise _in_member(number, error) from None


def _table_of(context: OperationContext, number: int, reading: Reading) -> TableInfo:
    try:
        table, _ = reading.resolve(context)
    except ValidationException as error:
        raise _in_member(number, error) from None
    return table


def _row_keys(found: Sequence[tuple[TableInfo, Item]]) -> list[bytes]:
    """The rows that are meant; a key that does not fit its table cancels the transaction."""
    row_keys: list[bytes] = []
    reasons: list[transactions.Reason] = []
    for table, key in found:
        try:
            row_keys.append(row_key_of_key(table, key))
            reasons.append({"Code": "None"})
        except ValidationException as error:
            reasons.append(transactions.reason_of(error))
    if len(row_keys) != len(found):
        raise transactions.cancelled(reasons)
    places = {(table.id, row_key) for (table, _), row_key in zip(found, row_keys, strict=True)}
    if len(places) != len(found):
        raise ValidationException(_TWICE)
    return row_keys


def _shown(reading: Reading, blob: bytes) -> Any:
    return orjson.Fragment(blob) if reading.project is None else reading.project(orjson.loads(blob))


def _with_costs(
    request: Request, response: dict[str, Any], by_table: dict[int, tuple[TableInfo, capacity_units.Units]]
) -> Response:
    if capacity_units.wanted(request):
        mode = request["ReturnConsumedCapacity"]
        response["ConsumedCapacity"] = [
            capacity_units.report(table, units, mode, "Read") for table, units in by_table.values()
        ]
    return response


# ── writes ───────────────────────────────────────────────────────────────────────────────────────


def _write(context: OperationContext, request: Request, given: Sequence[Given]) -> Response:
    actions = [_action(number, one) for number, one in enumerate(given)]
    token = request.get("ClientRequestToken")
    digest = idempotency_tokens.digest_of(request["TransactStatements"])
    if token is not None:
        token = f"ExecuteTransaction:{token}"  # TransactWriteItems has its own tokens
        earlier = idempotency_tokens.earlier_answer(context, token, digest)
        if earlier is not None:
            return _replayed(context, request, earlier)
    _resolve(context, actions)
    _carry_out(context, actions)
    if token is not None:
        sizes = [(action.table.name, _size(action)) for action in actions]
        idempotency_tokens.remember(context, token, digest, {"sizes": sizes})
    response: dict[str, Any] = {"Responses": []}
    if capacity_units.wanted(request):
        response["ConsumedCapacity"] = transactions.consumed(actions, request["ReturnConsumedCapacity"])
    return response


def _action(number: int, given: Given) -> partiql_writes.Prepared:
    statement, parameters, member = given
    assert not isinstance(statement, Select)
    try:
        on_failure = member.get("ReturnValuesOnConditionCheckFailure")
        return partiql_writes.prepare(statement, parameters, on_failure, transaction=True)
    except ValidationException as error:
        raise _in_member(number, error) from None


def _resolve(context: OperationContext, actions: Sequence[partiql_writes.Prepared]) -> None:
    """Finds tables and keys; a WHERE that names no whole key is refused before anything is cancelled."""
    for number, action in enumerate(actions):
        if isinstance(action, partiql_writes.StatementWrite):
            try:
                action.find_key(context)
            except ValidationException as error:
                raise _in_member(number, error) from None
    transactions.resolve(context, actions)


def _carry_out(context: OperationContext, actions: Sequence[partiql_writes.Prepared]) -> None:
    reasons = [_reason(context, action) for action in actions]
    if any(reason["Code"] != "None" for reason in reasons):
        raise transactions.cancelled(reasons)
    for action in actions:
        action.apply(context)


def _reason(context: OperationContext, action: partiql_writes.Prepared) -> transactions.Reason:
    try:
        action.read(context)
        action.decide()
    except DuplicateItemException as error:
        return {"Code": "DuplicateItem", "Message": error.message}
    except (ConditionalCheckFailedException, ValidationException) as error:
        return transactions.reason_of(error)
    return {"Code": "None"}


def _size(action: partiql_writes.Prepared) -> int:
    return max(item_size(action.old or {}), item_size(action.new or {}))


def _replayed(context: OperationContext, request: Request, earlier: dict[str, Any]) -> Response:
    """The answer to a repeated request: nothing is done again, and it costs as a transactional read."""
    by_table: dict[int, tuple[TableInfo, capacity_units.Units]] = {}
    for name, size in earlier["sizes"]:
        table = context.table(name)
        _, units = by_table.setdefault(table.id, (table, capacity_units.Units()))
        units.table += 2 * capacity_units.read_units(size, consistent=True)
    return _with_costs(request, {"Responses": []}, by_table)
