"""DescribeLimits and DescribeEndpoints: what AWS answers for a new account."""

from __future__ import annotations

from penstock.engine.context import OperationContext
from penstock.engine.registry import Request, Response, operation


@operation("DescribeLimits", "read")
def describe_limits(context: OperationContext, request: Request) -> Response:
    return {
        "AccountMaxReadCapacityUnits": 80_000,
        "AccountMaxWriteCapacityUnits": 80_000,
        "TableMaxReadCapacityUnits": 40_000,
        "TableMaxWriteCapacityUnits": 40_000,
    }


@operation("DescribeEndpoints", "read")
def describe_endpoints(context: OperationContext, request: Request) -> Response:
    address = f"dynamodb.{context.scope.region}.amazonaws.com"
    return {"Endpoints": [{"Address": address, "CachePeriodInMinutes": 1440}]}
