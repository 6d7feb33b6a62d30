"""Throttles as DynamoDB words them: the exception, its text, and the reason that programs read.

A reason is the resource's type, the kind of capacity and the limit: `TableWriteKeyRangeThroughputExceeded`.
"""

from __future__ import annotations

from typing import Any, Literal

from penstock.errors import (
    DynamoDBError,
    ProvisionedThroughputExceededException,
    RequestLimitExceeded,
    ThrottlingException,
)

Kind = Literal["Read", "Write"]
Limit = Literal["ProvisionedThroughput", "KeyRangeThroughput", "MaxOnDemandThroughput", "AccountLimit"]

_TABLE = (
    "The level of configured provisioned throughput for the table was exceeded. "
    "Consider increasing your provisioning level with the UpdateTable API."
)
_INDEX = (
    "The level of configured provisioned throughput for one or more global secondary indexes of the table was "
    "exceeded. Consider increasing your provisioning level for the under-provisioned global secondary indexes with "
    "the UpdateTable API"
)
_HOT = (
    "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or "
    "index so please try again shortly. If exceptions persist, check if you have a hot key: "
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"
)
_MAXIMUM = "Throughput exceeds the maximum OnDemandThroughput configured on table or index"
_ACCOUNT = (
    "Throughput exceeds the current throughput limit for your account. Please contact AWS Support at "
    "https://aws.amazon.com/support request a limit increase"
)


def reason(kind: Kind, limit: Limit, arn: str) -> dict[str, str]:
    """One entry of an exception's list of reasons."""
    resource = "Index" if "/index/" in arn else "Table"
    return {"reason": f"{resource}{kind}{limit}Exceeded", "resource": arn}


def throttled(kind: Kind, limit: Limit, arn: str, *, provisioned: bool) -> DynamoDBError:
    """The exception: provisioned tables and on-demand ones are throttled with different ones."""
    reasons = [reason(kind, limit, arn)]
    if limit == "AccountLimit":
        return RequestLimitExceeded(_ACCOUNT, ThrottlingReasons=reasons)
    if provisioned:
        text = _INDEX if "/index/" in arn else _TABLE
        return ProvisionedThroughputExceededException(text, ThrottlingReasons=reasons)
    return ThrottlingException(_MAXIMUM if limit == "MaxOnDemandThroughput" else _HOT, throttlingReasons=reasons)


def reasons_of(error: DynamoDBError) -> list[dict[str, Any]]:
    """The reasons of a throttle, whichever way its exception spells the member."""
    found: list[dict[str, Any]] = error.fields.get("ThrottlingReasons") or error.fields.get("throttlingReasons") or []
    return found
