"""What a table has beside its definition: tags; resource policies, which are kept but never enforced; time to live."""

from __future__ import annotations

import re
from typing import Any

import orjson

from penstock.engine import streams
from penstock.engine.catalog.catalog import RESOURCE_POLICY, OperationContext
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import expiry_rows
from penstock.engine.operations.table_description import (
    changed,
    existing_table,
    find_table,
    refuse_unless_active,
    table_status,
)
from penstock.engine.operations.table_validation import invalid
from penstock.engine.registry import Request, Response, operation
from penstock.errors import (
    AccessDeniedException,
    DynamoDBError,
    PolicyNotFoundException,
    ResourceNotFoundException,
    ValidationException,
)

# ── ARNs: which table is meant, and how a wrong one is refused ────────────────────────────────────

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


# ── TagResource, UntagResource, ListTagsOfResource ────────────────────────────────────────────────


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
        _checked_key(key)
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
        key, value = _checked_key(tag.get("Key")), tag.get("Value")
        if value is None:
            raise ValidationException("The Tag Value provided is invalid, Value: null")
        if len(value) > _VALUE_CHARACTERS or _ALLOWED.fullmatch(value) is None:
            raise ValidationException(f"The Tag Value provided is invalid, Value: {value}")
        if key in tags:
            raise ValidationException(f"Duplicate Tag Keys provided as input: Duplicate Tag Key found {key}")
        tags[key] = value
    return _limited(tags)


def _checked_key(key: str | None) -> str:
    if key is None:
        raise ValidationException("The Tag Key provided is invalid, Key: null")
    if not 1 <= len(key) <= _KEY_CHARACTERS or _ALLOWED.fullmatch(key) is None:
        raise ValidationException(f"The Tag Key provided is invalid, Key: {key}")
    if key.lower().startswith("aws:"):
        raise ValidationException(f"Tag Key cannot be prefixed with aws:, Key: {key}")
    return key


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


# ── PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy ────────────────────────────────────


MOST_POLICY_BYTES = 20 * 1024
NO_POLICY = "NO_POLICY"
"""As an ExpectedRevisionId: only if there is no policy yet."""

_RESOURCE = re.compile(r"(arn:aws[a-z-]*:dynamodb:[^:/]+:\d+:table/[A-Za-z0-9_.-]+)(?:/stream/([0-9T:.-]+))?")


@operation("PutResourcePolicy", "write")
def put_resource_policy(context: OperationContext, request: Request) -> Response:
    """The same policy put twice keeps its revision."""
    _check_policy(request["Policy"])
    table, member = _resource(context, request["ResourceArn"])
    current = table.record.get(member)
    _check_revision(request, table, current)
    if current is not None and current["Policy"] == request["Policy"]:
        return {"RevisionId": current["RevisionId"]}
    record = changed(table)
    record[member] = _policy(context, request["Policy"], current)
    context.engine.catalog.save(context.db, table, record)
    return {"RevisionId": record[member]["RevisionId"]}


@operation("GetResourcePolicy", "read")
def get_resource_policy(context: OperationContext, request: Request) -> Response:
    table, member = _resource(context, request["ResourceArn"])
    policy = table.record.get(member)
    if policy is None:
        raise _no_policy(request["ResourceArn"])
    return {"Policy": policy["Policy"], "RevisionId": policy["RevisionId"]}


@operation("DeleteResourcePolicy", "write")
def delete_resource_policy(context: OperationContext, request: Request) -> Response:
    """A policy that is not there is deleted without complaint, unless a revision was expected."""
    table, member = _resource(context, request["ResourceArn"])
    current = table.record.get(member)
    _check_revision(request, table, current)
    if current is None:
        return {}
    record = changed(table)
    del record[member]
    context.engine.catalog.save(context.db, table, record)
    return {"RevisionId": current["RevisionId"]}


def new_policy(context: OperationContext, text: str) -> dict[str, Any]:
    """The policy of a table that is being made."""
    _check_policy(text)
    return _policy(context, text, None)


def _policy(context: OperationContext, text: str, current: dict[str, Any] | None) -> dict[str, Any]:
    """Revisions are times in milliseconds, and always grow."""
    revision = round(context.now * 1000)
    if current is not None:
        revision = max(revision, int(current["RevisionId"]) + 1)
    return {"Policy": text, "RevisionId": str(revision)}


def _check_policy(text: str) -> None:
    if len(text.encode()) > MOST_POLICY_BYTES:
        raise invalid(f"Maximum policy size of {MOST_POLICY_BYTES} bytes exceeded")
    wrong = "Invalid policy document: "
    try:
        policy = orjson.loads(text)
    except orjson.JSONDecodeError:
        policy = []
    if policy is None:
        raise invalid(f"{wrong}This text appears not to be a policy")
    if not isinstance(policy, dict):
        raise invalid(f"{wrong}This policy contains invalid Json")
    if not policy:
        raise invalid(f"{wrong}Syntax error at position (1,3)")
    statements = policy.get("Statement")
    if not statements:
        raise invalid(f"{wrong}Could not parse the policy: Statement is empty!")
    for statement in statements if isinstance(statements, list) else [statements]:
        if not isinstance(statement, dict) or "Effect" not in statement:
            raise invalid(f"{wrong}Missing required field Effect")


def _check_revision(request: Request, table: TableInfo, current: dict[str, Any] | None) -> None:
    expected = request.get("ExpectedRevisionId")
    if expected is None:
        return
    if current is None:
        if expected != NO_POLICY:
            raise _no_policy(request["ResourceArn"])
        return
    found = current["RevisionId"]
    if expected == NO_POLICY:
        raise _no_policy(
            f"Requested policy update expecting none to be present for table {table.name}, "
            f"but a policy exists with revision id {found}."
        )
    if expected != found:
        raise _no_policy(
            f"Requested update for policy with revision id {expected}, "
            f"but the policy associated to target table {table.name} has revision id {found}."
        )


def _resource(context: OperationContext, arn: str) -> tuple[TableInfo, str]:
    """The table of a table's or stream's ARN, and where in its record the resource's policy is."""
    if not arn.startswith("arn:"):
        raise invalid(f"ARNs must start with 'arn:': {arn}")
    match = _RESOURCE.fullmatch(arn)
    if match is None:
        raise _wrong(arn)
    table = tagged_table(context, match[1])
    name = match[1].rpartition("/")[2]
    if table is None:
        raise ResourceNotFoundException(f"Requested resource not found: Table: {name} not found")
    label = match[2]
    if label is None:
        return table, RESOURCE_POLICY
    if streams.find(context.db, table.scope, table.name, label) is None:
        raise ResourceNotFoundException(f"Requested resource not found: Stream: {label} not found for Table: {name}")
    return table, f"StreamPolicy {label}"


def _wrong(arn: str) -> ValidationException:
    if ":dynamodb:" in arn and "/backup/" not in arn:
        return invalid(f"Invalid resource arn provided, only table or stream is accepted. Provided resource arn: {arn}")
    return invalid(f"Provided Arn is not a DynamoDB resource arn: {arn}")


def _no_policy(why: str) -> PolicyNotFoundException:
    return PolicyNotFoundException(f"Resource-based policy not found for the provided ResourceArn: {why}")


# ── time to live ───────────────────────────────────────────────────────────────────────────────────


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
