"""ExecuteStatement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.engine.capacity import capacity_units
from penstock.engine.context import Call
from penstock.engine.operations import partiql_writes
from penstock.engine.operations.partiql_reads import Reading
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ValidationException
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.parser import parse
from penstock.expressions.partiql.tree import Exists, Select, Statement
from penstock.expressions.partiql.values import checked_parameters
from penstock.wire.values import AttributeValue

Answer = TypeVar("Answer")


def read_statement(request: Request) -> tuple[Statement, list[AttributeValue]]:
    """A request's Statement and Parameters; the parameters are looked at first."""
    parameters = checked_parameters(request.get("Parameters"))
    parsed = parse(request["Statement"])
    if parsed.parameters != len(parameters):
        raise ValidationException(wording.PARAMETER_COUNT)
    return parsed.statement, parameters


def in_write(call: Call, work: Callable[[Call], Answer]) -> Answer:
    """Does `work` in a write transaction: the one that is open, or one of its own.

    Whether a statement writes is known when it has been read, so its operation begins as one that only reads.
    """
    if call.db.in_transaction:
        return work(call)
    with call.engine.writing() as own:
        return work(Call(call.engine, own.db, call.scope, own.now))


@operation("ExecuteStatement", kind="read")
def execute_statement(call: Call, request: Request) -> Response:
    statement, parameters = read_statement(request)
    if isinstance(statement, Exists):
        raise ValidationException(wording.EXISTS_OUTSIDE)
    if isinstance(statement, Select):
        return _select(call, request, Reading(statement, parameters))
    on_failure = request.get("ReturnValuesOnConditionCheckFailure")
    write = partiql_writes.prepare(statement, parameters, on_failure)
    return in_write(call, lambda inside: _write(inside, request, write))


def _select(call: Call, request: Request, reading: Reading) -> Response:
    result = reading.run(
        call,
        consistent=bool(request.get("ConsistentRead")),
        limit=request.get("Limit"),
        token=request.get("NextToken"),
    )
    response: dict[str, Any] = {"Items": result.items}
    if result.next_token is not None:
        response["NextToken"] = result.next_token
    if result.last is not None:
        response["LastEvaluatedKey"] = result.last
    if capacity_units.wanted(request):
        table = call.table(reading.select.source.table)
        response["ConsumedCapacity"] = capacity_units.report(table, result.units, request["ReturnConsumedCapacity"])
    return response


def _write(call: Call, request: Request, write: partiql_writes.Prepared) -> Response:
    write.resolve(call)
    write.read(call)
    write.decide()
    write.apply(call)
    response: dict[str, Any] = {"Items": write.returned()}
    if capacity_units.wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    return response
