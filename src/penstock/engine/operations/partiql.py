"""ExecuteStatement, BatchExecuteStatement and ExecuteTransaction.

A batch has up to 25 statements, each on one item, each with its own answer or error. A transaction has up to 100, all
reads or all writes, done together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import refuse_key_type, row_key_of_key
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import capacity_units, transactions
from penstock.engine.operations import partiql_statements
from penstock.engine.operations.partiql_statements import Reading
from penstock.engine.registry import Request, Response, operation
from penstock.errors import (
    DynamoDBError,
    ResourceNotFoundException,
    ValidationException,
)
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.translation import Parameters, checked_parameters, pinned
from penstock.expressions.partiql.tree import Delete, Exists, Select, Statement, Update
from penstock.wire.values import AttributeValue, Item, item_size

# ── ExecuteStatement ──────────────────────────────────────────────────────────────────────────────


Answer = TypeVar("Answer")


def read_statement(request: Request) -> tuple[Statement, list[AttributeValue]]:
    """A request's Statement and Parameters; the parameters are looked at first."""
    parameters = checked_parameters(request.get("Parameters"))
    parsed = parse(request["Statement"])
    if parsed.parameters != len(parameters):
        raise ValidationException(tokens.PARAMETER_COUNT)
    return parsed.statement, parameters


def in_write(context: OperationContext, work: Callable[[OperationContext], Answer]) -> Answer:
    """Does `work` in a write transaction: the one that is open, or one of its own.

    Whether a statement writes is known when it has been read, so its operation begins as one that only reads.
    """
    if context.db.in_transaction:
        return work(context)
    with context.engine.writing() as own:
        return work(OperationContext(context.engine, own.db, context.scope, own.now))


@operation("ExecuteStatement", kind="read")
def execute_statement(context: OperationContext, request: Request) -> Response:
    statement, parameters = read_statement(request)
    if isinstance(statement, Exists):
        raise ValidationException(tokens.EXISTS_OUTSIDE)
    if isinstance(statement, Select):
        return _select(context, request, Reading(statement, parameters))
    on_failure = request.get("ReturnValuesOnConditionCheckFailure")
    write = partiql_statements.prepare(statement, parameters, on_failure)
    return in_write(context, lambda inside: _write(inside, request, write))


def _select(context: OperationContext, request: Request, reading: Reading) -> Response:
    result = reading.run(
        context,
        consistent=bool(request.get("ConsistentRead")),
        limit=request.get("Limit"),
        token=request.get("NextToken"),
    )
    response: dict[str, Any] = {"Items": result.items}
    if result.next_token is not None:
        response["NextToken"] = result.next_token
    if result.last is not None:
        response["LastEvaluatedKey"] = result.last
    if capacity_units.is_wanted(request):
        table = context.table(reading.select.source.table)
        response["ConsumedCapacity"] = capacity_units.report(table, result.units, request["ReturnConsumedCapacity"])
    return response


def _write(context: OperationContext, request: Request, write: partiql_statements.Prepared) -> Response:
    write.resolve(context)
    write.execute(context)
    response: dict[str, Any] = {"Items": write.returned()}
    if capacity_units.is_wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    return response


# ── BatchExecuteStatement ─────────────────────────────────────────────────────────────────────────


_MEMBER_NEEDS_KEY = "Select statements within BatchExecuteStatement must specify the primary key in the where clause."

# Only what the batch's own list of codes names differently from the exception; others lose their last word.
_CODES = {"ValidationException": "ValidationError", "ThrottlingException": "ThrottlingError"}


@dataclass(slots=True)
class Member:
    """One statement of the batch, as far as it has come."""

    request: Request
    statement: Statement | None = None
    parameters: list[AttributeValue] = field(default_factory=list)
    action: Reading | partiql_statements.Prepared | None = None
    place: tuple[int, bytes] | None = None
    error: DynamoDBError | None = None

    @property
    def table_name(self) -> str:
        statement = self.statement
        assert statement is not None
        return statement.select.source.table if isinstance(statement, Exists) else statement.source.table


@operation("BatchExecuteStatement", kind="read")
def batch_execute_statement(context: OperationContext, request: Request) -> Response:
    members = [_member(one) for one in request["Statements"]]
    readable = [member.statement for member in members if member.statement is not None]
    reads = sum(isinstance(statement, Select) for statement in readable)
    if 0 < reads < len(readable):
        raise ValidationException("Read and write requests together in the same batch is not supported.")
    if reads:
        return _run(context, request, members)
    return in_write(context, lambda inside: _run(inside, request, members))


def _member(request: Request) -> Member:
    member = Member(request)
    try:
        member.statement, member.parameters = read_statement(request)
        if isinstance(member.statement, Exists):
            raise ValidationException(tokens.EXISTS_OUTSIDE)
        if isinstance(member.statement, Select):
            member.action = Reading(member.statement, member.parameters)
        else:
            member.action = partiql_statements.prepare(member.statement, member.parameters, None)
    except ValidationException as error:
        member.error = error
    return member


def _run(context: OperationContext, request: Request, members: list[Member]) -> Response:
    for member in members:
        _resolve_members(context, member)
    places = [member.place for member in members if member.place is not None]
    if len(set(places)) != len(places):
        raise ValidationException("Provided list of item keys contains duplicates")
    costs = _Costs(context, request)
    responses = [_answer(context, member, costs) for member in members]
    response: dict[str, Any] = {"Responses": responses}
    consumed = costs.report()
    if consumed:
        response["ConsumedCapacity"] = consumed
    return response


def _resolve_members(context: OperationContext, member: Member) -> None:
    """Finds the item that the statement means."""
    if member.error is not None or member.action is None:
        return
    try:
        if isinstance(member.action, Reading):
            member.place = _place_of_read(context, member.action, member)
        else:
            member.action.resolve(context)
            member.place = (member.action.table.id, member.action.key)
    except (ValidationException, ResourceNotFoundException) as error:
        member.error = error


def _place_of_read(context: OperationContext, reading: Reading, member: Member) -> tuple[int, bytes]:
    table, index = reading.resolve(context)
    if index is not None:
        raise ValidationException(_MEMBER_NEEDS_KEY)
    found = pinned(reading.select.where, table.key_names, member.parameters)
    if found.rest or len(found.key) != len(table.key_names):
        raise ValidationException(_MEMBER_NEEDS_KEY)
    for part in table.key:
        refuse_key_type(part, found.key[part.name])
    return table.id, row_key_of_key(table, found.key)


def _answer(context: OperationContext, member: Member, costs: _Costs) -> dict[str, Any]:
    if member.error is not None:
        return _failure(member, member.error)
    try:
        items = _items(context, member, costs)
    except DynamoDBError as error:
        costs.add_failure(member)
        return _failure(member, error)
    return {**({"Item": items[0]} if items else {}), "TableName": member.table_name}


def _items(context: OperationContext, member: Member, costs: _Costs) -> list[Any]:
    if isinstance(member.action, Reading):
        result = member.action.run(context, consistent=bool(member.request.get("ConsistentRead")))
        costs.add(context.table(member.table_name), result.units)
        return result.items
    write = member.action
    assert write is not None
    write.execute(context)
    costs.add(write.table, capacity_units.units_of_write(write.table, write.old, write.new))
    items: list[Any] = write.returned()
    return items


def _failure(member: Member, error: DynamoDBError) -> dict[str, Any]:
    """A statement that ran and failed names its table; one that was refused does not."""
    code = _CODES.get(error.code, error.code.removesuffix("Exception"))
    failure: dict[str, Any] = {"Error": {"Code": code, "Message": error.message}}
    if code != "ValidationError":
        failure["TableName"] = member.table_name
    return failure


class _Costs:
    """Units by table. A write that failed is paid for too, but only where another statement succeeded."""

    def __init__(self, context: OperationContext, request: Request) -> None:
        self._mode = request.get("ReturnConsumedCapacity", "NONE")
        self._spent: dict[int, tuple[TableInfo, capacity_units.Units]] = {}
        self._failed: dict[int, float] = {}

    def add(self, table: TableInfo, units: capacity_units.Units) -> None:
        _, spent = self._spent.setdefault(table.id, (table, capacity_units.Units()))
        spent.add(units)

    def add_failure(self, member: Member) -> None:
        write = member.action
        if self._mode == "NONE" or write is None or isinstance(write, Reading):
            return
        intended = write.item if isinstance(write, partiql_statements.Put) else {}
        size = max(item_size(write.old or {}), item_size(intended))
        failed = self._failed.get(write.table.id, 0.0)
        self._failed[write.table.id] = failed + capacity_units.write_units(size)

    def report(self) -> list[dict[str, Any]]:
        if self._mode == "NONE":
            return []
        reports = []
        for table, units in self._spent.values():
            report = capacity_units.report(table, units, self._mode)
            report["CapacityUnits"] += self._failed.get(table.id, 0.0)
            reports.append(report)
        return reports


# ── ExecuteTransaction ────────────────────────────────────────────────────────────────────────────


_ACTION_NEEDS_KEY = "Select statements within ExecuteTransaction must specify the primary key in the where clause."
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
    return _write_together(context, request, given)


def _statement(number: int, text: str, parameters: Parameters) -> Statement:
    try:
        parsed = parse(text)
        if parsed.parameters != len(parameters):
            raise ValidationException(tokens.PARAMETER_COUNT)
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
            raise _in_member(number, ValidationException(_ACTION_NEEDS_KEY))
        found.append((table, where.key))
    places = _row_keys(found)
    reads_of_rows = (
        (table, place, one.project) for one, (table, _), place in zip(readings, found, places, strict=True)
    )
    return transactions.read_items(context, request, reads_of_rows)


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
        raise transactions.cancellation(reasons)
    places = {(table.id, row_key) for (table, _), row_key in zip(found, row_keys, strict=True)}
    if len(places) != len(found):
        raise ValidationException(_TWICE)
    return row_keys


# ── writes ───────────────────────────────────────────────────────────────────────────────────────


def _write_together(context: OperationContext, request: Request, given: Sequence[Given]) -> Response:
    actions = [_action(number, one) for number, one in enumerate(given)]
    token = request.get("ClientRequestToken")
    digest = transactions.digest_of(request["TransactStatements"])
    if token is not None:
        token = f"ExecuteTransaction:{token}"  # TransactWriteItems has its own tokens
        earlier = transactions.earlier_answer(context, token, digest)
        if earlier is not None:
            return transactions.replay(context, request, earlier, {"Responses": []})
    _resolve_actions(context, actions)
    transactions.carry_out(context, actions)
    if token is not None:
        transactions.remember(context, token, digest, actions)
    response: dict[str, Any] = {"Responses": []}
    if capacity_units.is_wanted(request):
        response["ConsumedCapacity"] = transactions.consumed_capacity(actions, request["ReturnConsumedCapacity"])
    return response


def _action(number: int, given: Given) -> partiql_statements.Prepared:
    statement, parameters, member = given
    assert not isinstance(statement, Select)
    try:
        on_failure = member.get("ReturnValuesOnConditionCheckFailure")
        return partiql_statements.prepare(statement, parameters, on_failure, transaction=True)
    except ValidationException as error:
        raise _in_member(number, error) from None


def _resolve_actions(context: OperationContext, actions: Sequence[partiql_statements.Prepared]) -> None:
    """Finds tables and keys; a WHERE that names no whole key is refused before anything is cancelled."""
    for number, action in enumerate(actions):
        if isinstance(action, partiql_statements.StatementWrite):
            try:
                action.find_key(context)
            except ValidationException as error:
                raise _in_member(number, error) from None
    transactions.resolve(context, actions)
