"""Resources by their ARN: which table a tag or a policy is for, and how a wrong ARN is refused."""

from __future__ import annotations

import re

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.operations.table_states import find_table
from penstock.errors import (
    AccessDeniedException,
    DynamoDBError,
    ResourceNotFoundException,
    ValidationException,
)

# Five parts that end at a colon, one that ends at a slash, and the rest, none of them empty. Each ends as early as it
# can and is never tried again: `.+:` in their place would try every choice of five among the colons.
_ANY_ARN = re.compile(r"(?:.[^:\n]*+:){5}.[^/\n]*+/.+")
_TABLE = re.compile(r"arn:aws[a-z-]*:dynamodb:[^:/]+:\d+:table/[A-Za-z0-9_.-]{3,255}")
_PART = re.compile(r"arn:aws[a-z-]*:dynamodb:[^:/]+:\d+:table/[^/]+/.+")


def check_arn(context: OperationContext, operation: str, arn: str | None) -> None:
    """Refuses what does not even look like an ARN."""
    if arn is None:
        raise ValidationException("Invalid TableArn")
    if arn and ":" not in arn:
        raise ValidationException(f"One or more parameter values were invalid: ARNs must start with 'arn:': {arn}")
    if _ANY_ARN.fullmatch(arn) is None:
        raise access_denied(context, operation, arn)


def check_table_arn(arn: str) -> None:
    """Refuses the ARN of anything but a table."""
    if _TABLE.fullmatch(arn) is not None:
        return
    if _PART.fullmatch(arn) is not None:
        raise ValidationException(
            "One or more parameter values were invalid: Invalid resource arn provided, "
            f"only table or stream is accepted. Provided resource arn: {arn}"
        )
    raise ValidationException(f"Invalid TableArn: Invalid ResourceArn provided as input {arn}")


def tagged_table(context: OperationContext, arn: str) -> TableInfo | None:
    """The table of this ARN in whatever state; None if there is none."""
    try:
        return find_table(context, arn)
    except ResourceNotFoundException:
        return None


def not_found(arn: str) -> ResourceNotFoundException:
    return ResourceNotFoundException(f"Requested resource not found: ResourcArn: {arn} not found")


def access_denied(context: OperationContext, operation: str, arn: str) -> DynamoDBError:
    """DynamoDB's answer to an ARN that it takes for another account's."""
    user = f"arn:aws:iam::{context.scope.account}:user/penstock"
    return AccessDeniedException(
        f"User: {user} is not authorized to perform: dynamodb:{operation} on resource: {arn or '*'}"
    )
