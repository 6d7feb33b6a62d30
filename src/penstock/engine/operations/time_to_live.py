"""UpdateTimeToLive and DescribeTimeToLive."""

from __future__ import annotations

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.items import expiry_rows
from penstock.engine.operations.table_description import changed, existing_table, refuse_unless_active, table_status
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ValidationException


@operation("UpdateTimeToLive", "write")
def update_time_to_live(context: OperationContext, request: Request) -> Response:
    specification = request["TimeToLiveSpecification"]
    table = existing_table(context, request["TableName"])
    refuse_unless_active(table, context.now)
    _check_change(table.ttl_attribute, specification["AttributeName"], specification["Enabled"])
    if specification["Enabled"]:
        expiry_rows.enable(context, table, changed(table), specification["AttributeName"])
    else:
        expiry_rows.disable(context, table, changed(table))
    return {"TimeToLiveSpecification": specification}


@operation("DescribeTimeToLive", "read")
def describe_time_to_live(context: OperationContext, request: Request) -> Response:
    table = existing_table(context, request["TableName"])
    status = table_status(table.record, context.now)
    if status in ("CREATING", "DELETING"):
        raise ValidationException(
            f"Cannot describe time to live while table is in {status} state: Current table state is {status}"
        )
    if table.ttl_attribute is None:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": table.ttl_attribute}}


def _check_change(current: str | None, attribute: str, enable: bool) -> None:
    """TTL is on for one attribute at a time, and each change must be one."""
    if current is None and not enable:
        raise ValidationException("TimeToLive is already disabled")
    if current is not None and current != attribute:
        raise ValidationException(
            f"TimeToLive is active on a different AttributeName: current AttributeName is {current}"
        )
    if current is not None and enable:
        raise ValidationException("TimeToLive is already enabled")
