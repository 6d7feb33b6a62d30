"""TagResource, UntagResource, ListTagsOfResource."""

from __future__ import annotations

import re
from typing import Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.operations.resources import (
    access_denied,
    check_arn,
    check_table_arn,
    not_found,
    tagged_table,
)
from penstock.engine.operations.table_states import changed, refuse_unless_active
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ResourceNotFoundException, ValidationException

MOST_TAGS = 50
_KEY_CHARACTERS = 128
_VALUE_CHARACTERS = 256

# DynamoDB's: letters, digits and white space of any language, and these.
_ALLOWED = re.compile(r"[\w\s+\-=._:/@]*")

Tags = dict[str, str]


@operation("TagResource", "write")
def tag_resource(context: OperationContext, request: Request) -> Response:
    arn = _arn(context, "TagResource", request)
    if "Tags" not in request:
        raise _null("tags")
    check_table_arn(arn)
    if not request["Tags"]:
        raise ValidationException("Atleast one Tag needs to be provided as Input.")
    added = checked_tags(request["Tags"])
    table = _table(context, arn, not_found(arn))
    _save(context, table, _limited(table.record.get("tags", {}) | added))
    return {}


@operation("UntagResource", "write")
def untag_resource(context: OperationContext, request: Request) -> Response:
    arn = _arn(context, "UntagResource", request)
    if "TagKeys" not in request:
        raise _null("tagKeys")
    check_table_arn(arn)
    if not request["TagKeys"]:
        raise ValidationException("Atleast one Tag Key needs to be provided as Input.")
    for key in request["TagKeys"]:
        _check_key(key)
    keys = frozenset(request["TagKeys"])
    table = _table(context, arn, ResourceNotFoundException("Requested resource not found"))
    tags = {key: value for key, value in table.record.get("tags", {}).items() if key not in keys}
    _save(context, table, tags)
    return {}


@operation("ListTagsOfResource", "read")
def list_tags_of_resource(context: OperationContext, request: Request) -> Response:
    """All of them: fifty fit into one page."""
    arn = _arn(context, "ListTagsOfResource", request)
    check_table_arn(arn)
    table = tagged_table(context, arn)
    if table is None:
        raise access_denied(context, "ListTagsOfResource", arn)
    tags = sorted(table.record.get("tags", {}).items())
    return {"Tags": [{"Key": key, "Value": value} for key, value in tags]}


def checked_tags(given: list[dict[str, Any]]) -> Tags:
    """Tags by their keys; refused where a key or value is wrong, or a key is there twice."""
    tags: Tags = {}
    for tag in given:
        key, value = tag["Key"], tag["Value"]
        _check_key(key)
        if len(value) > _VALUE_CHARACTERS or _ALLOWED.fullmatch(value) is None:
            raise ValidationException(f"The Tag Value provided is invalid, Value: {value}")
        if key in tags:
            raise ValidationException(f"Duplicate Tag Keys provided as input: Duplicate Tag Key found {key}")
        tags[key] = value
    return _limited(tags)


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= _KEY_CHARACTERS or _ALLOWED.fullmatch(key) is None:
        raise ValidationException(f"The Tag Key provided is invalid, Key: {key}")
    if key.lower().startswith("aws:"):
        raise ValidationException(f"Tag Key cannot be prefixed with aws:, Key: {key}")


def _limited(tags: Tags) -> Tags:
    if len(tags) > MOST_TAGS:
        raise ValidationException("Number of Tags exceed the current limit for the provided ResourceArn")
    return tags


def _arn(context: OperationContext, operation: str, request: Request) -> str:
    arn: str | None = request.get("ResourceArn")
    check_arn(context, operation, arn)
    return arn or ""


def _table(context: OperationContext, arn: str, missing: ResourceNotFoundException) -> TableInfo:
    table = tagged_table(context, arn)
    if table is None:
        raise missing
    refuse_unless_active(table, context.now)
    return table


def _save(context: OperationContext, table: TableInfo, tags: Tags) -> None:
    record = changed(table)
    record["tags"] = tags
    context.engine.catalog.save(context.db, table, record)


def _null(member: str) -> ValidationException:
    return ValidationException(
        f"1 validation error detected: Value null at '{member}' failed to satisfy constraint: Member must not be null"
    )
