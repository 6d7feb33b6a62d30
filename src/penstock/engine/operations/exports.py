"""ExportTableToPointInTime, DescribeExport, ListExports; and what imports share with them."""

from __future__ import annotations

import hashlib
import re
from math import floor
from typing import Any, Final
from uuid import uuid4

from penstock.clock import utc_text
from penstock.engine.catalog.catalog import OperationContext, parse_table_arn
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.items import pitr_journal
from penstock.engine.operations.query_scan import walk_of
from penstock.engine.operations.table_description import find_table
from penstock.engine.registry import Request, Response, operation
from penstock.engine.settings import Scope
from penstock.engine.transfers import records
from penstock.engine.transfers.buckets import NO_BUCKETS
from penstock.engine.transfers.export_files import JSON
from penstock.engine.transfers.export_run import INCREMENTAL, filter_parts
from penstock.engine.transfers.records import IN_PROGRESS, Kind, Record, Transfer
from penstock.errors import (
    AccessDeniedException,
    DynamoDBError,
    ExportConflictException,
    ExportNotFoundException,
    InvalidExportTimeException,
    PointInTimeRecoveryUnavailableException,
    ResourceNotFoundException,
    TableNotFoundException,
    ValidationException,
)
from penstock.wire.values import base64_text

_INVALID: Final = "Invalid Request: "
_INVALID_FILTER: Final = f"{_INVALID}Invalid FilterSpecification: "
_SHORTEST_SECONDS: Final = 15 * 60
_LONGEST_SECONDS: Final = 24 * 3600
_BOTH_IMAGES: Final = "NEW_AND_OLD_IMAGES"
PAGE: Final = 10
"""Transfers in a list, unless the caller asks for another number."""


@operation("ExportTableToPointInTime", kind="write")
def export_table(context: OperationContext, request: Request) -> Response:
    """Checks in DynamoDB's order: the request's parts among each other, the table, the window, recovery, the time."""
    _check_parts(request)
    table = _table(context, request["TableArn"])
    token = request.get("ClientToken") or str(uuid4())
    begun = records.of_token(context, "export", token)
    if begun is not None:
        if begun.record["digest"] != records.digest(request):
            raise ExportConflictException("Export conflict: Duplicate request detected with conflicting parameters")
        return {"ExportDescription": _description(begun)}
    record = _record(context, table, request) | {"digest": records.digest(request)}
    record["request"]["ClientToken"] = token
    refuse_without_buckets(context)
    since, _ = record["since"]
    transfer = records.begin(context, "export", table.name, token, record, (table.id, since))
    return {"ExportDescription": _description(transfer)}


@operation("DescribeExport", kind="read")
def describe_export(context: OperationContext, request: Request) -> Response:
    arn = request["ExportArn"]
    scope, table_name, name = parse_arn(context, "export", arn)
    if scope.region != context.scope.region:
        raise ExportNotFoundException("Export not found: Invalid export arn")
    found = records.find(context.db, scope, "export", table_name, name)
    if found is None:
        raise ExportNotFoundException(f"Export not found: Export not found: {arn}")
    take_up(context, found)
    return {"ExportDescription": _description(found)}


@operation("ListExports", kind="read")
def list_exports(context: OperationContext, request: Request) -> Response:
    """The newest first. Those of a table that is deleted, or whose name another table has, are not its own."""
    arn, table_id = request.get("TableArn"), None
    if arn is not None:
        table = find_table(context, _checked_arn(context, arn)[1])
        if table is None:
            return {"ExportSummaries": []}
        table_id = table.record["TableId"]
    found, token = page(context, "export", request.get("NextToken"), request.get("MaxResults", PAGE), None, table_id)
    response: Response = {"ExportSummaries": [_summary(one) for one in found]}
    return response | ({} if token is None else {"NextToken": token})


def _summary(transfer: Transfer) -> Record:
    kind = transfer.request.get("ExportType", "FULL_EXPORT")
    return {"ExportArn": transfer.arn, "ExportStatus": transfer.status, "ExportType": kind}


def _description(transfer: Transfer) -> Record:
    record, request = transfer.record, transfer.request
    description: Record = {
        "ExportArn": transfer.arn,
        "ExportStatus": transfer.status,
        "StartTime": transfer.started_at,
        "TableArn": transfer.table_arn,
        "TableId": record["table_id"],
    }
    for member in (
        "ClientToken", "ExportTime", "S3Bucket", "S3BucketOwner", "S3Prefix", "S3SseAlgorithm", "S3SseKmsKeyId",
        "ExportFormat", "IncrementalExportSpecification", "FilterSpecification",
    ):  # fmt: skip
        if member in request:
            description[member] = request[member]
    if request.get("ExportType") == INCREMENTAL:
        description["ExportType"] = INCREMENTAL
    if transfer.status != IN_PROGRESS:
        description["EndTime"] = record["ended_at"]
    if "failure" in record:
        description["FailureCode"], description["FailureMessage"] = record["failure"]
    elif transfer.status != IN_PROGRESS:
        description |= {
            "ItemCount": record["items"],
            "BilledSizeBytes": record["billed"],
            "ExportManifest": record["manifest"],
        }
    return description


# ── checks ───────────────────────────────────────────────────────────────────────────────────────


def _check_parts(request: Request) -> None:
    kind, window = request.get("ExportType"), request.get("IncrementalExportSpecification")
    if window is not None and kind is None:
        raise ValidationException(
            _INVALID + "Export Type expected to be Incremental Export when incremental export specification is provided"
        )
    if window is not None and kind != INCREMENTAL:
        raise ValidationException(
            _INVALID + "When Export Type is Full Export , Incremental Export Specification should not be provided"
        )
    if window is None and kind == INCREMENTAL:
        raise ValidationException(
            _INVALID + "Incremental Export Specification expected when export type is set as Incremental Export"
        )
    if window is not None and "ExportFromTime" not in window:
        raise ValidationException(_INVALID + "ExportFromTime must be provided in IncrementalExportSpecification")
    if "S3SseKmsKeyId" in request and request.get("S3SseAlgorithm") != "KMS":
        raise ValidationException(_INVALID + "KMS Key Id is not supported for this encryption type")
    if "FilterSpecification" in request:
        _checked_filter(request["FilterSpecification"])


def _checked_filter(specification: Request) -> Any:
    expressions = ("FilterExpression", "ProjectionExpression", "KeyConditionExpression")
    if not any(name in specification for name in expressions):
        raise ValidationException(_INVALID_FILTER + "The specification can not be empty")
    try:
        return filter_parts(specification)
    except ValidationException as error:
        raise ValidationException(_INVALID_FILTER + error.message) from None


def _checked_arn(context: OperationContext, arn: str) -> tuple[Scope, str]:
    if not arn.startswith("arn:"):
        raise ValidationException("One or more parameter values were invalid: tableArn is not a valid ARN")
    try:
        scope, name = parse_table_arn(arn)
    except ResourceNotFoundException:
        raise ValidationException(_INVALID + "Table ARN is invalid.") from None
    if scope.account != context.scope.account:
        raise AccessDeniedException("Access is denied")
    return scope, name


def _table(context: OperationContext, arn: str) -> TableInfo:
    scope, name = _checked_arn(context, arn)
    table = find_table(context, name) if scope == context.scope else None
    if table is None or not context.is_ready(table):
        raise TableNotFoundException(f"Table not found: {arn}")
    return table


def refuse_without_buckets(context: OperationContext) -> None:
    """Without buckets nothing could ever be written or read: better said than FAILED later."""
    if context.engine.buckets is None:
        raise ValidationException(f"{_INVALID}{NO_BUCKETS}")


def take_up(context: OperationContext, transfer: Transfer) -> None:
    """The process that did it may have gone."""
    if transfer.status == IN_PROGRESS:
        context.engine.maintenance.take_up()


# ── times ────────────────────────────────────────────────────────────────────────────────────────


def _record(context: OperationContext, table: TableInfo, request: Request) -> Record:
    """What the export's record begins with: the request with its defaults, and which part of the journal it reads."""
    asked: Record = {"ExportFormat": JSON, "S3SseAlgorithm": "AES256"} | request
    record: Record = {"request": asked, "table": table.id, "table_id": table.record["TableId"]}
    if request.get("ExportType") == INCREMENTAL:
        window = _window(context, table, request["IncrementalExportSpecification"])
        _refuse_without_recovery(table)
        _refuse_before_recovery(context, table, window["ExportFromTime"])
        asked["IncrementalExportSpecification"] = window
        asked.pop("ExportTime", None)
        record |= {
            "since": [window["ExportFromTime"], -1],
            "until": window["ExportToTime"],
            "key_names": list(table.key_names),
        }
    else:
        _refuse_without_recovery(table)
        record["since"] = _moment(context, table, request.get("ExportTime"))
        asked["ExportTime"] = request.get("ExportTime", round(context.now, 3))
    return record | _bounds(table, request.get("FilterSpecification"))


def _refuse_without_recovery(table: TableInfo) -> None:
    if not table.record.get("pitr"):
        raise PointInTimeRecoveryUnavailableException(f"Point in time recovery is not enabled for table '{table.name}'")


def _moment(context: OperationContext, table: TableInfo, asked: float | None) -> list[float]:
    """The time, and the number of its last change: what is changed after this call is not in it."""
    latest = pitr_journal.time_of(context, table.id, table.record)
    if asked is None:
        newest = context.db.execute(
            "SELECT max(sequence) FROM journal WHERE table_id = ? AND at >= ?", (table.id, latest)
        ).fetchone()[0]
        return [latest, newest or 0]
    if asked > latest or asked < floor(pitr_journal.earliest(table.record, latest)):
        raise InvalidExportTimeException("Export Time is invalid")
    if asked > floor(latest):
        raise InvalidExportTimeException("Point in Time Recovery is not available for specified export time")
    return [float(asked), 2**62]


def _window(context: OperationContext, table: TableInfo, given: Request) -> Record:
    now = pitr_journal.time_of(context, table.id, table.record)
    start, end = given["ExportFromTime"], given.get("ExportToTime", floor(now))
    if start < floor(table.record["created_at"]):
        raise InvalidExportTimeException(
            f"Incremental export period from time cannot be less than the table creation time : {_second(start)}"
        )
    if end > now:
        raise InvalidExportTimeException(
            f"Incremental export period to time cannot be greater than the current time : {_second(end)}"
        )
    between = "Difference between export period from time and export period to time is"
    if end - start < _SHORTEST_SECONDS:
        raise InvalidExportTimeException(f"{between} less than 15 minutes")
    if end - start > _LONGEST_SECONDS:
        raise InvalidExportTimeException(f"{between} more than 24 hours")
    view = given.get("ExportViewType", _BOTH_IMAGES)
    return {"ExportFromTime": start, "ExportToTime": end, "ExportViewType": view}


def _refuse_before_recovery(context: OperationContext, table: TableInfo, start: float) -> None:
    now = pitr_journal.time_of(context, table.id, table.record)
    if start < floor(pitr_journal.earliest(table.record, now)):
        raise InvalidExportTimeException("Point in Time Recovery is not available for specified export time")


def _second(at: float) -> str:
    return f"{utc_text(floor(at))[:-5]}Z"


def _bounds(table: TableInfo, specification: Request | None) -> Record:
    """The range of row keys that a KeyConditionExpression leaves."""
    if specification is None or "KeyConditionExpression" not in specification:
        return {}
    try:
        walk = walk_of(table, None, filter_parts(specification).key_terms, None)
    except DynamoDBError as error:
        raise ValidationException(_INVALID_FILTER + error.message) from None
    low = b"" if walk.low is None else walk.low
    high = None if walk.high is None else base64_text(walk.high)
    return {"bounds": [base64_text(low), walk.low_open, high, walk.high_open]}


# ── ARNs and pages ───────────────────────────────────────────────────────────────────────────────

_ARN = re.compile(
    r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]+):table/([A-Za-z0-9_.-]+)/(export|import)/([0-9A-Za-z-]+)"
)
_TOKEN_DIGITS: Final = 128


def parse_arn(context: OperationContext, kind: Kind, arn: str) -> tuple[Scope, str, str]:
    """The scope, table name and name that the ARN of an export or import means."""
    match = _ARN.fullmatch(arn)
    if match is None or match[4] != kind:
        raise ValidationException(f"Invalid {kind.capitalize()} ARN")
    region, account, table_name, _, name = match.groups()
    if account != context.scope.account:
        raise AccessDeniedException("Access is denied")
    return Scope(account, region), table_name, name


def page(
    context: OperationContext, kind: Kind, token: str | None, limit: int, table_name: str | None, table_id: str | None
) -> tuple[list[Transfer], str | None]:
    """A page of transfers, newest first, and the token of the next one."""
    before = None if token is None else _place_of(kind, token)
    found = records.page(context, kind, before, limit + 1, table_name, table_id)
    return found[:limit], _token_of(kind, found[limit - 1].id) if len(found) > limit else None


def _token_of(kind: Kind, number: int) -> str:
    place = f"{number:016x}"
    mark = hashlib.sha512(f"penstock/{kind}/{place}".encode()).hexdigest()
    return (place + mark)[:_TOKEN_DIGITS]


def _place_of(kind: Kind, token: str) -> int:
    try:
        number = int(token[:16], 16)
    except ValueError:
        number = -1
    if number < 0 or _token_of(kind, number) != token:
        raise ValidationException(f"{_INVALID}Provided nextToken is invalid: {token}")
    return number
