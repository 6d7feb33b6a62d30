"""Definitions as a CloudFormation template, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import PITR_DAYS, Naming, Table
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.problems import check

TYPE = "AWS::DynamoDB::Table"

Json = dict[str, Any]


def template_text(tables: Iterable[Table], naming: Naming) -> str:
    return json.dumps(template(tables, naming), indent=2, ensure_ascii=False) + "\n"


def template(tables: Iterable[Table], naming: Naming) -> Json:
    """A template of these tables under their full names. A table that leaves the template stays: data is not deleted
    by an edit.
    """
    resources: Json = {}
    for table in tables:
        resources[logical_id(table.name, resources)] = {
            "Type": TYPE,
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": properties(table, naming.full_name(table.name)),
        }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"DynamoDB tables of {naming.start.rstrip('-') or 'Penstock'}",
        "Resources": resources,
    }


def properties(table: Table, name: str) -> Json:
    """The Properties of one table: mostly CreateTable's members, some under other names."""
    shape = aws_shapes.create_request(table, name)
    for member in ("SSESpecification", "StreamSpecification", "Tags"):
        shape.pop(member, None)
    if table.stream is not None:
        shape["StreamSpecification"] = {"StreamViewType": table.stream}
    if table.ttl is not None:
        shape["TimeToLiveSpecification"] = {"AttributeName": table.ttl, "Enabled": True}
    if table.pitr is not None:
        shape["PointInTimeRecoverySpecification"] = aws_shapes.recovery(table.pitr)
    if table.sse is not None:
        shape["SSESpecification"] = _encryption(table.sse)
    if table.tags is not None:
        shape["Tags"] = aws_shapes.tag_list(table.tags)
    return shape


def _encryption(sse: bool | str) -> Json:
    shape = aws_shapes.encryption(sse)
    return {"SSEEnabled": shape.pop("Enabled"), **shape}


def logical_id(name: str, taken: Iterable[str] = ()) -> str:
    """`company-users` → `CompanyUsersTable`: letters and digits only, and no other table's."""
    words = re.findall(r"[a-zA-Z0-9]+", name)
    base = "".join(word[0].upper() + word[1:] for word in words) + "Table"
    used, number, found = set(taken), 2, base
    while found in used:
        found, number = f"{base}{number}", number + 1
    return found


def read_template(text: str, file: str = "template.json") -> tuple[Table, ...]:
    """The tables that a JSON template declares, under the names that it gives them. No parameters, no functions.

    Raises ExportError for what is no such template.
    """
    try:
        document = json.loads(text)
        resources = document["Resources"].values()
        found = [_read(one["Properties"]) for one in resources if one["Type"] == TYPE]
    except json.JSONDecodeError as error:
        raise ExportError(file, f"broken JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise ExportError(file, "it is no template of tables: it is nested too deep") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # a number of thousands of digits, too
        raise ExportError(file, f"it is no template of tables ({error!r})") from error
    try:
        for table in found:
            check(table)
    except UnicodeEncodeError:
        raise ExportError(file, "it has half of a surrogate pair, which is no text") from None
    return tuple(found)


def _read(shape: Mapping[str, Any]) -> Table:
    description = {
        **shape,
        "BillingModeSummary": {"BillingMode": shape.get("BillingMode", "PROVISIONED")},
        "StreamSpecification": {
            "StreamEnabled": "StreamSpecification" in shape,
            **shape.get("StreamSpecification", {}),
        },
    }
    table = aws_shapes.from_description(description, tags=shape.get("Tags"))
    ttl = shape.get("TimeToLiveSpecification") or {}
    return table.replace(
        ttl=ttl.get("AttributeName") if ttl.get("Enabled") else None,
        pitr=_read_recovery(shape.get("PointInTimeRecoverySpecification")),
        table_class=shape.get("TableClass"),
        deletion_protection=shape.get("DeletionProtectionEnabled"),
        sse=_read_encryption(shape.get("SSESpecification")),
    )


def _read_recovery(shape: Mapping[str, Any] | None) -> int | None:
    if shape is None:
        return None
    return int(shape.get("RecoveryPeriodInDays", PITR_DAYS)) if shape["PointInTimeRecoveryEnabled"] else 0


def _read_encryption(shape: Mapping[str, Any] | None) -> bool | str | None:
    if shape is None:
        return None
    key: bool | str = shape.get("KMSMasterKeyId", True)
    return key if shape["SSEEnabled"] else False
