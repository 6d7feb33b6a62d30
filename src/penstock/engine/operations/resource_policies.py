"""PutResourcePolicy, GetResourcePolicy, DeleteResourcePolicy: kept and given back, never enforced."""

from __future__ import annotations

import re
from typing import Any

import orjson

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.operations.table_states import changed, existing_table
from penstock.engine.operations.table_validation import invalid
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import stream_records
from penstock.errors import PolicyNotFoundException, ResourceNotFoundException, ValidationException

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
    _check_revision(request, current)
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
    _check_revision(request, current)
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
    try:
        policy = orjson.loads(text)
    except orjson.JSONDecodeError:
        policy = None
    if not isinstance(policy, dict):
        raise invalid("Invalid policy document: This policy contains invalid Json")
    if not policy.get("Statement"):
        raise invalid("Invalid policy document: Could not parse the policy: Statement is empty!")


def _check_revision(request: Request, current: dict[str, Any] | None) -> None:
    expected = request.get("ExpectedRevisionId")
    if expected is None:
        return
    found = NO_POLICY if current is None else current["RevisionId"]
    if expected != found:
        raise _no_policy(request["ResourceArn"])


def _resource(context: OperationContext, arn: str) -> tuple[TableInfo, str]:
    """The table of a table's or stream's ARN, and where in its record the resource's policy is."""
    if not arn.startswith("arn:"):
        raise invalid(f"ARNs must start with 'arn:': {arn}")
    match = _RESOURCE.fullmatch(arn)
    if match is None:
        raise _wrong(arn)
    table = existing_table(context, match[1])
    label = match[2]
    if label is None:
        return table, "ResourcePolicy"
    if stream_records.find(context.db, table.scope, table.name, label) is None:
        raise ResourceNotFoundException(f"Requested resource not found: Stream: {arn} not found")
    return table, f"StreamPolicy {label}"


def _wrong(arn: str) -> ValidationException:
    if ":dynamodb:" in arn:
        return invalid(f"Invalid resource arn provided, only table or stream is accepted. Provided resource arn: {arn}")
    return invalid(f"Provided Arn is not a DynamoDB resource arn: {arn}")


def _no_policy(arn: str) -> PolicyNotFoundException:
    return PolicyNotFoundException(f"Resource-based policy not found for the provided ResourceArn: {arn}")
