"""A table's definition as a file: AWS's own DescribeTable shape, without what changes by itself.

1. Two exports of the same table are the same bytes: one fixed order, and no ARNs, account ids, TableIds, dates or
   sizes.
2. What is exported and read again is the same definition.
3. The plain output of `aws dynamodb describe-table` can be read too. What it does not tell is not compared.
4. A member that is not known is refused, at every level.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import PenstockError
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import MANAGER, STANDARD_TAGS, Index, Maximum, Table, Throughput
from penstock.tables.definitions.export_members import WrongMember, line_of, wrong_members
from penstock.tables.definitions.problems import check
from penstock.tables.definitions.resource_policy import policy_document

SUMMARY_FILE = "table-summary.txt"

Json = dict[str, Any]


class ExportError(PenstockError):
    """A file that is no definition: which, where and why."""

    next_step = "Export the table again, or mend the file"

    def __init__(self, file: str, reason: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(file, reason, line, column)
        self.file = file
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = ":".join(str(one) for one in (self.file, self.line, self.column) if one is not None)
        return f"{place}: {self.reason}. {self.next_step}".rstrip() + ("." if self.next_step else "")


class TemplateError(ExportError):
    """A template of another tool, which is not exported again."""

    next_step = "Mend the template"


class NeedsStep(ExportError):
    """A file that is right, and of no use before something is done that `reason` names."""

    next_step = ""


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def export_text(table: Table, *, warm: bool = False) -> str:
    """The file's text. Warm throughput grows by itself with the traffic, so it is left out unless asked for."""
    return json.dumps(export_form(table, warm=warm), indent=2, ensure_ascii=False) + "\n"


def export_form(table: Table, *, warm: bool = False) -> Json:
    """The members of DescribeTable that belong to a definition, with those of its companions beside them."""
    form: Json = {"Table": _table_form(table, warm=warm), "TimeToLiveDescription": _ttl_form(table.ttl)}
    if table.pitr is not None:
        form["ContinuousBackupsDescription"] = {"PointInTimeRecoveryDescription": _pitr_form(table.pitr)}
    if table.tags is not None:
        form["Tags"] = aws_shapes.tag_list(exported_tags(table.tags))
    if table.resource_policy is not None:
        form["ResourcePolicy"] = policy_document(table.resource_policy)
    if table.ignore:
        form["Ignore"] = list(table.ignore)
    if table.allow:
        form["Allow"] = dict(table.allow)
    if "ttl" in table.ignore and table.ttl is None:
        del form["TimeToLiveDescription"]  # as it was not told
    return form


def exported_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Without those that Penstock puts on what it makes: they are of one environment and one moment."""
    ours = tags.get("ManagedBy") == MANAGER
    return {key: value for key, value in tags.items() if not (ours and key in STANDARD_TAGS)}


def _table_form(table: Table, *, warm: bool) -> Json:
    form: Json = {
        "TableName": table.name,
        "AttributeDefinitions": aws_shapes.attribute_definitions(table.attributes),
        "KeySchema": aws_shapes.key_schema(table.key),
        **_capacity_form(table),
    }
    if table.on_demand_max is not None and table.on_demand_max != Maximum():
        form["OnDemandThroughput"] = aws_shapes.new_maximum(table.on_demand_max)
    if warm and table.warm is not None:
        form["WarmThroughput"] = aws_shapes.warm(table.warm)
    for member, indexes in (
        ("LocalSecondaryIndexes", table.local_indexes),
        ("GlobalSecondaryIndexes", table.global_indexes),
    ):
        if indexes:
            form[member] = [_index_form(one, warm=warm) for one in indexes]
    if table.vector_indexes:
        form["VectorIndexes"] = [aws_shapes.vector_index_shape(one) for one in table.vector_indexes]
    if table.stream is not None:
        form["StreamSpecification"] = aws_shapes.stream(table.stream)
    return form | _settings_form(table)


def _capacity_form(table: Table) -> Json:
    if isinstance(table.billing, Throughput):
        summary = {"BillingModeSummary": {"BillingMode": "PROVISIONED"}}
        return summary | {"ProvisionedThroughput": aws_shapes.units(table.billing)}
    return {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}}


def _index_form(index: Index, *, warm: bool) -> Json:
    form = aws_shapes.index_shape(index)
    if not warm:
        form.pop("WarmThroughput", None)
    return form


def _settings_form(table: Table) -> Json:
    form: Json = {}
    if table.table_class is not None:
        form["TableClassSummary"] = {"TableClass": table.table_class}
    if table.deletion_protection is not None:
        form["DeletionProtectionEnabled"] = table.deletion_protection
    if table.sse is not None:
        form["SSEDescription"] = _encryption_form(table.sse)
    return form


def _encryption_form(sse: bool | str) -> Json:
    """A key's ARN has its account in it and is not written; an alias is."""
    if sse is False:
        return {"Status": "DISABLED"}
    form: Json = {"Status": "ENABLED", "SSEType": "KMS"}
    if isinstance(sse, str) and sse.startswith("alias/"):
        form["KMSMasterKeyId"] = sse
    return form


def _ttl_form(attribute: str | None) -> Json:
    if attribute is None:
        return {"TimeToLiveStatus": "DISABLED"}
    return {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}


def _pitr_form(days: int) -> Json:
    if days == 0:
        return {"PointInTimeRecoveryStatus": "DISABLED"}
    return {"PointInTimeRecoveryStatus": "ENABLED", "RecoveryPeriodInDays": days}


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_export(text: str | bytes, file: str, name: str | None = None) -> Table:
    """The definition in a file's text; `name` is the table's suffix, by default what the file says.

    Raises ExportError for what is no export, and DefinitionError for one that no table can be made of.
    """
    return read_description(_parse_json(text, file), file, name, text=text)


def read_description(
    document: Any, file: str, name: str | None = None, *, text: str | bytes = "", pointer: str = ""
) -> Table:
    """The same for the values of a file; `text` is what they were read from, if that is JSON, and `pointer` their place
    in it: with them, an error has its line.
    """
    if not isinstance(document, dict) or not isinstance(document.get("Table", document), dict):
        raise ExportError(file, "it is no description of a table")
    read = text.decode("utf-8-sig", "replace") if isinstance(text, bytes) else text
    described = document.get("Table", document)
    named = name if name is not None else described.get("TableName")
    wrong = wrong_members(document)
    if name is None and named is None and not wrong:
        wrong = (WrongMember("/Table/TableName" if "Table" in document else "/TableName", "is missing"),)
    if wrong:
        line = line_of(read, pointer + wrong[0].pointer) if read else None
        whose = f"table {named!r}: " if isinstance(named, str) else ""
        raise ExportError(file, whose + "; ".join(map(str, wrong)), line=line)
    try:
        table = _read(document, name)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ExportError(file, _missing(error)) from error
    line = line_of(read, pointer) if read else None
    check(table, file if line is None else f"{file}:{line}")
    return table


def _parse_json(text: str | bytes, file: str) -> Any:
    try:
        read = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise ExportError(file, f"it is no JSON text ({error})") from None
    try:
        return json.loads(read)
    except json.JSONDecodeError as error:
        half = not read.rstrip().endswith(("}", "]")) or error.pos >= len(read.rstrip())
        reason = "it ends too early" if half else f"broken JSON: {error.msg}"
        raise ExportError(file, reason, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise ExportError(file, "it is no JSON text of ours: it is nested too deep") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ExportError(file, f"it is no JSON text of ours: {error}") from None


def _read(document: Mapping[str, Any], name: str | None) -> Table:
    described = document.get("Table", document)
    bare = "Table" not in document or set(document) == {"Table"}
    table = aws_shapes.from_description(
        document,
        ttl=document.get("TimeToLiveDescription", {}),
        pitr=document.get("ContinuousBackupsDescription"),
        tags=document.get("Tags"),
        policy=document.get("ResourcePolicy"),
        name=name,
    )
    absent = {
        "table_class": "TableClassSummary",
        "deletion_protection": "DeletionProtectionEnabled",
        "sse": "SSEDescription",
    }
    # A description that leaves something out means the service's default; an export that does says nothing of it.
    unsaid = {} if bare else {ours: None for ours, theirs in absent.items() if theirs not in described}
    key_id = (described.get("SSEDescription") or {}).get("KMSMasterKeyId")
    told = {"sse": key_id} if key_id else {}
    ignored = document.get("Ignore") or []
    allowed = document.get("Allow") or {}
    # DescribeTable knows of no TTL: without its companion, nobody has said that there is none.
    untold = () if "TimeToLiveDescription" in document else ("ttl",)
    return table.replace(**(unsaid | told), ignore=tuple(sorted({*ignored, *untold})), allow=allowed)


def _missing(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the member {error.args[0]} is missing"
    return f"it is no description of a table ({error})"


# ── the summary ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A table of the summary; `facts` is None for one that is missing."""

    table: Table
    facts: Facts | None
    file: str


def summary_text(rows: Iterable[SummaryRow]) -> str:
    """`table-summary.txt`: name, keys, index count, billing, item count, size and file of each table."""
    header = ("TABLE", "KEYS", "INDEXES", "BILLING", "ITEMS", "BYTES", "FILE")
    lines = [header, *(_summary_line(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def _summary_line(row: SummaryRow) -> tuple[str, ...]:
    table, facts = row.table, row.facts
    billing = table.billing
    told = f"{billing.read} read, {billing.write} write" if isinstance(billing, Throughput) else "on demand"
    items, size = ("missing", "") if facts is None else (f"{facts.items:,}", f"{facts.bytes:,}")
    name = table.name if facts is None else facts.name
    return name, str(table.key), str(len(table.every_index)), told, items, size, row.file
