"""What several tests of tables hold requests and definitions against."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from penstock.tables.definitions.definition import Maximum, Table


def check_request(operation: str, body: Mapping[str, Any]) -> None:
    """Fails unless botocore's model of DynamoDB has such a request."""
    report = ParamValidator().validate(dict(body), _model().operation_model(operation).input_shape)
    assert not report.has_errors(), report.generate_report()


@cache
def _model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("dynamodb")


def without_empty_maximums(table: Table) -> Table:
    """A maximum of nothing, and none: a template cannot tell them apart."""
    indexes = tuple(
        type(one)(
            one.name,
            key=one.key,
            projection=one.projection,
            local=one.local,
            throughput=one.throughput,
            on_demand_max=_some(one.on_demand_max),
            warm=one.warm,
        )
        for one in table.indexes
    )
    return table.replace(indexes=indexes, on_demand_max=_some(table.on_demand_max))


def _some(maximum: Maximum | None) -> Maximum | None:
    return None if maximum == Maximum() else maximum
