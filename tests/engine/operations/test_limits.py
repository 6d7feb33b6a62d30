"""DescribeLimits and DescribeEndpoints."""

from __future__ import annotations

from penstock.engine import Engine, Scope


def test_limits_are_those_of_a_new_account(engine: Engine) -> None:
    assert engine.execute("DescribeLimits", {}) == {
        "AccountMaxReadCapacityUnits": 80_000,
        "AccountMaxWriteCapacityUnits": 80_000,
        "TableMaxReadCapacityUnits": 40_000,
        "TableMaxWriteCapacityUnits": 40_000,
    }


def test_the_endpoint_is_the_regions(engine: Engine) -> None:
    (endpoint,) = engine.execute("DescribeEndpoints", {}, Scope(region="eu-west-2"))["Endpoints"]
    assert endpoint == {"Address": "dynamodb.eu-west-2.amazonaws.com", "CachePeriodInMinutes": 1440}
