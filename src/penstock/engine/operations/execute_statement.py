"""ExecuteStatement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.engine.capacity import capacity_units
from penstock.engine.context import OperationContext
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
        raise ValidationException(wording.EXISTS_OUTSIDE)
    if isinstance(statement, Select):
        return _select(context, request, Reading(statement, parameters))
    on_failure = request.get("ReturnValuesOnConditionCheckFailure")
    write = partiql_writes.prepare(statement, parameters, on_failure)
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
    if capacity_units.wanted(request):
        table = context.table(reading.select.source.table)
        response["ConsumedCapacity"] = capacity_units.report(table, result.units, request["ReturnConsumedCapacity"])
    return response


def _write(context: OperationContext, request: Request, write: partiql_writes.Prepared) -> Response:
    write.resolve(context)
    write.read(context)
    write.decide()
    write.apply(context)
    response: dict[str, Any] = {"Items": write.returned()}
    if capacity_units.wanted(request):
        units = capacity_units.units_of_write(write.table, write.old, write.new)
        response["ConsumedCapacity"] = capacity_units.report(write.table, units, request["ReturnConsumedCapacity"])
    return response
