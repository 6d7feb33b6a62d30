"""Definitions as a CloudFormation template, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.definitions.export_file import ExportError
from penstock.tables.definitions.readers import cloudformation as reader
from penstock.tables.definitions.readers import documents
from penstock.tables.definitions.resource_policy import policy_document

TYPE = reader.TABLE

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
    for member in ("ResourcePolicy", "SSESpecification", "StreamSpecification", "Tags"):
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
    if table.resource_policy:
        shape["ResourcePolicy"] = {"PolicyDocument": policy_document(table.resource_policy)}
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
    """The tables that a JSON template declares, under the names that it gives them.

    Raises ExportError for what is no such template.
    """
    document = documents.parse_json(text, file)
    if not reader.is_template(document):
        raise ExportError(file, "it is no template of tables: it has no Resources")
    return reader.read_template(document, file).tables
