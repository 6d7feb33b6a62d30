"""DescribeTable."""

from __future__ import annotations

from penstock.engine.context import OperationContext
from penstock.engine.operations.table_description import describe
from penstock.engine.operations.table_states import existing_table
from penstock.engine.registry import Request, Response, operation


@operation("DescribeTable", "snapshot")
def describe_table(context: OperationContext, request: Request) -> Response:
    return {"Table": describe(context, existing_table(context, request["TableName"]))}
