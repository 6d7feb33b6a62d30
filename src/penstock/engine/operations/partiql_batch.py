"""BatchExecuteStatement: up to 25 statements, each on one item, each with its own answer or error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.engine.capacity import capacity_units
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items.item_keys import refuse_key_type, row_key_of_key
from penstock.engine.operations import partiql_writes
from penstock.engine.operations.execute_statement import in_write, read_statement
from penstock.engine.operations.partiql_reads import Reading
from penstock.engine.registry import Request, Response, operation
from penstock.errors import DynamoDBError, ResourceNotFoundException, ValidationException
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.keys import pinned
from penstock.expressions.partiql.tree import Exists, Select, Statement
from penstock.wire.values import AttributeValue, item_size

_NEEDS_KEY = "Select statements within BatchExecuteStatement must specify the primary key in the where clause."

# Only what the batch's own list of codes names differently from the exception; others lose their last word.
_CODES = {"ValidationException": "ValidationError", "ThrottlingException": "ThrottlingError"}


@dataclass(slots=True)
class Member:
    """One statement of the batch, as far as it has come."""

    request: Request
    statement: Statement | None = None
    parameters: list[AttributeValue] = field(default_factory=list)
    action: Reading | partiql_writes.Prepared | None = None
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
            raise ValidationException(wording.EXISTS_OUTSIDE)
        if isinstance(member.statement, Select):
            member.action = Reading(member.statement, member.parameters)
        else:
            member.action = partiql_writes.prepare(member.statement, member.parameters, None)
    except ValidationException as error:
        member.error = error
    return member


def _run(context: OperationContext, request: Request, members: list[Member]) -> Response:
    for member in members:
        _resolve(context, member)
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


def _resolve(context: OperationContext, member: Member) -> None:
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
        raise ValidationException(_NEEDS_KEY)
    found = pinned(reading.select.where, table.key_names, member.parameters)
    if found.rest or len(found.key) != len(table.key_names):
        raise ValidationException(_NEEDS_KEY)
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
    write.read(context)
    write.decide()
    write.apply(context)
    costs.add(write.table, capacity_units.units_of_write(write.table, write.old, write.new))
    shown: list[Any] = write.returned()
    return shown


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
        intended = write.item if isinstance(write, partiql_writes.Put) else {}
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
