"""What a call says about itself: its tables, whether it reads or writes, what it may report."""

from __future__ import annotations

import re

from penstock.client.transports.base import Request
from penstock.wire.throttles import Kind

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"})
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
STATEMENTS = frozenset({"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"})
METERED = READS | WRITES | STATEMENTS
"""Those that take ReturnConsumedCapacity: the data plane."""

_SOURCE = re.compile(r"""\b(?:FROM|INTO|UPDATE)\s+(?:"([^"]+)"|([\w.-]+))""", re.IGNORECASE)
_ACTIONS = ("Put", "Update", "Delete", "ConditionCheck", "Get")


def kind_of(operation: str, request: Request) -> Kind | None:
    """Whether it uses read or write capacity; None for the control plane. Statements go by their first word."""
    if operation in READS:
        return "Read"
    if operation in WRITES:
        return "Write"
    if operation in STATEMENTS:
        texts = _statements(operation, request)
        return "Read" if all(text.lstrip()[:6].upper() == "SELECT" for text in texts) else "Write"
    return None


def tables_of(operation: str, request: Request) -> list[str]:
    """The tables that it names, each once, without the rest of an ARN."""
    if operation in STATEMENTS:
        found = (_SOURCE.search(text) for text in _statements(operation, request))
        names = [match[1] or match[2] for match in found if match]
    elif isinstance(items := request.get("RequestItems"), dict):
        names = list(items)
    elif isinstance(actions := request.get("TransactItems"), list):
        names = [str(action[kind]["TableName"]) for action in actions for kind in _ACTIONS if action.get(kind)]
    else:
        names = [str(request["TableName"])] if "TableName" in request else []
    return list(dict.fromkeys(map(short_name, names)))


def short_name(name_or_arn: str) -> str:
    """`jobs` of `arn:aws:dynamodb:us-east-1:000000000000:table/jobs` and of `jobs`."""
    return name_or_arn.split(":table/", 1)[1].split("/", 1)[0] if ":table/" in name_or_arn else name_or_arn


def index_of_arn(arn: str) -> str | None:
    """`by-date` of `…:table/jobs/index/by-date`; None for a table's."""
    return arn.split("/index/", 1)[1] if "/index/" in arn else None


def _statements(operation: str, request: Request) -> list[str]:
    if operation == "ExecuteStatement":
        return [str(request.get("Statement", ""))]
    members = request.get("Statements" if operation == "BatchExecuteStatement" else "TransactStatements")
    return [str(member.get("Statement", "")) for member in members or ()]
