"""ImportTable, DescribeImport, ListImports."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.operations.exports import PAGE, page, parse_arn, refuse_without_buckets, take_up
from penstock.engine.operations.table_description import find_table
from penstock.engine.operations.table_validation import check_creation
from penstock.engine.operations.tables import new_record
from penstock.engine.registry import Request, Response, operation
from penstock.engine.transfers import records
from penstock.engine.transfers.records import IN_PROGRESS, Record, Transfer
from penstock.errors import (
    ImportConflictException,
    ImportNotFoundException,
    ResourceInUseException,
    ValidationException,
)
from penstock.extras import missing

_INVALID: Final = "Invalid Request: "


@operation("ImportTable", kind="write")
def import_table(context: OperationContext, request: Request) -> Response:
    """The table is made later, by the import itself: imports into one name are all accepted while there is none."""
    _check_formats(request)
    wanted = request["TableCreationParameters"]
    check_creation(wanted)
    name = wanted["TableName"]
    token = request.get("ClientToken") or str(uuid4())
    begun = records.of_token(context, "import", token)
    if begun is not None and begun.table_name != name:
        raise ImportConflictException("Import conflict: Duplicate request detected with conflicting parameters")
    if begun is not None and begun.status == IN_PROGRESS:
        return {"ImportTableDescription": _description(begun)}
    if find_table(context, name) is not None:
        raise ResourceInUseException(f"Table already exists: {name}")
    if begun is not None:
        return {"ImportTableDescription": _description(begun)}
    refuse_without_buckets(context)
    transfer = records.begin(context, "import", name, token, _record(context, request, token))
    return {"ImportTableDescription": _description(transfer)}


def _check_formats(request: Request) -> None:
    format, options = request["InputFormat"], request.get("InputFormatOptions")
    if options and format != "CSV":
        raise ValidationException(f"{_INVALID}Unsupported InputFormatOptions for the given input format: {format}.")
    if request.get("InputCompressionType") == "ZSTD" and missing("zstandard"):
        raise ValidationException(
            f"{_INVALID}InputCompressionType ZSTD needs the library zstandard where the database runs: "
            "pip install 'penstock[zstd]'"
        )


def _record(context: OperationContext, request: Request, token: str) -> Record:
    table = new_record(context, request["TableCreationParameters"]["TableName"], request["TableCreationParameters"])
    source = {"S3BucketOwner": context.scope.account} | request["S3BucketSource"]
    asked = {"InputCompressionType": "NONE"} | request | {"S3BucketSource": source, "ClientToken": token}
    return {
        "request": asked,
        "table_id": table["TableId"],
        "new_table": table,
        "phase": "begin",
        "counts": {"processed": 0, "imported": 0, "errors": 0, "bytes": 0},
    }


@operation("DescribeImport", kind="read")
def describe_import(context: OperationContext, request: Request) -> Response:
    arn = request["ImportArn"]
    scope, table_name, name = parse_arn(context, "import", arn)
    found = records.find(context.db, scope, "import", table_name, name) if scope == context.scope else None
    if found is None:
        raise ImportNotFoundException(f"Import not found: {arn}")
    take_up(context, found)
    return {"ImportTableDescription": _description(found)}


@operation("ListImports", kind="read")
def list_imports(context: OperationContext, request: Request) -> Response:
    """The newest first, those of deleted tables too."""
    arn = request.get("TableArn")
    table_name = None if arn is None else _table_name(arn)
    found, token = page(context, "import", request.get("NextToken"), request.get("PageSize", PAGE), table_name, None)
    response: Response = {"ImportSummaryList": [_summary(one) for one in found]}
    return response | ({} if token is None else {"NextToken": token})


def _table_name(arn: str) -> str:
    start, _, name = arn.rpartition(":table/")
    if not start.startswith("arn:") or not name or "/" in name:
        raise ValidationException("One or more parameter values were invalid: tableArn is not a valid ARN")
    return name


def _summary(transfer: Transfer) -> Record:
    description = _description(transfer)
    members = (
        "ImportArn", "ImportStatus", "TableArn", "S3BucketSource", "CloudWatchLogGroupArn", "InputFormat", "StartTime",
        "EndTime",
    )  # fmt: skip
    return {name: description[name] for name in members if name in description}


def _description(transfer: Transfer) -> Record:
    record, request, scope = transfer.record, transfer.request, transfer.scope
    counts = record["counts"]
    description: Record = {
        "ImportArn": transfer.arn,
        "ImportStatus": transfer.status,
        "TableArn": transfer.table_arn,
        "TableId": record["table_id"],
        "CloudWatchLogGroupArn": f"arn:aws:logs:{scope.region}:{scope.account}:log-group:/aws-dynamodb/imports:*",
        "StartTime": transfer.started_at,
        "ErrorCount": counts["errors"],
        "ProcessedItemCount": counts["processed"],
        "ImportedItemCount": counts["imported"],
        "ProcessedSizeBytes": counts["bytes"],
    }
    for member in (
        "ClientToken", "S3BucketSource", "InputFormat", "InputFormatOptions", "InputCompressionType",
        "TableCreationParameters",
    ):  # fmt: skip
        if member in request:
            description[member] = request[member]
    if transfer.status != IN_PROGRESS:
        description["EndTime"] = record["ended_at"]
    if "failure" in record:
        description["FailureCode"], description["FailureMessage"] = record["failure"]
    return description
