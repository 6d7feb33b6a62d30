"""What a call has spent, member by member, from its request and from the consumed capacity in its answer.

A batch and a transaction have one member for each of their requests, any other call is one member. DynamoDB reports
units by table: members of one table share them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo
from penstock.engine.registry import Request, Response
from penstock.errors import PenstockError
from penstock.expressions import compile_key_condition
from penstock.wire.throttles import Kind
from penstock.wire.values import AttributeValue, Item, check_value

READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"})
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
STATEMENTS = frozenset({"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"})
METERED = READS | WRITES | STATEMENTS
_ACTIONS = ("Put", "Update", "Delete", "ConditionCheck", "Get")


@dataclass(frozen=True, slots=True)
class Spend:
    """Units of one table or index. `hashed` and `label` are those of the partition key, where the call names one."""

    table: TableInfo
    index: IndexInfo | None
    kind: Kind
    units: float
    hashed: int | None = None
    label: str | None = None


Member = list[Spend]
OnIndexes = list[tuple[IndexInfo, float]]


def is_read(operation: str, request: Request) -> bool:
    """Whether it only reads; a statement goes by its first word."""
    if operation not in STATEMENTS:
        return operation in READS
    statements = request.get("Statements") or request.get("TransactStatements") or [request]
    return all(str(one.get("Statement", "")).lstrip()[:6].upper() == "SELECT" for one in statements)


def members_of(context: OperationContext, operation: str, request: Request, response: Response) -> list[Member]:
    """What each member of the call has spent."""
    kind: Kind = "Read" if is_read(operation, request) else "Write"
    named = list(_named_keys(context, operation, request))
    reports = response.get("ConsumedCapacity") or []
    by_table = {report["TableName"]: report for report in (reports if isinstance(reports, list) else [reports])}
    tables = [context.table(name) for name, _ in named]
    shares = {name: 1.0 / max(1, sum(table.name == name for table in tables)) for name in by_table}
    return [
        _member(context, operation, table, given, by_table.get(table.name), kind, shares.get(table.name, 0.0))
        for table, (_, given) in zip(tables, named, strict=True)
    ]


def failed_write(context: OperationContext, operation: str, request: Request) -> list[Member]:
    """What a refused condition costs: one unit, as far as the request alone can tell."""
    (name, given), *_ = _named_keys(context, operation, request)
    table = context.table(name)
    return [[Spend(table, None, "Write", 1.0, *_place((table.hash,), given))]]


def _named_keys(context: OperationContext, operation: str, request: Request) -> Iterator[tuple[str, Item]]:
    """(table, item or key) of each member; a Scan has no key, nor has a statement that does not name one."""
    if operation in STATEMENTS:
        for one in request.get("Statements") or request.get("TransactStatements") or [request]:
            yield from _keys_of_statement(context, one)
    elif operation == "PutItem":
        yield request["TableName"], request["Item"]
    elif operation in ("GetItem", "UpdateItem", "DeleteItem"):
        yield request["TableName"], request["Key"]
    elif operation in ("Query", "Scan"):
        yield request["TableName"], _query_key(request) if operation == "Query" else {}
    elif operation == "BatchWriteItem":
        for name, many in request["RequestItems"].items():
            for one in many:
                yield name, (one.get("PutRequest") or {}).get("Item") or one["DeleteRequest"]["Key"]
    elif operation == "BatchGetItem":
        for name, part in request["RequestItems"].items():
            for key in part["Keys"]:
                yield name, key
    elif operation in ("TransactWriteItems", "TransactGetItems"):
        for action in request["TransactItems"]:
            fields = next(action[kind] for kind in _ACTIONS if action.get(kind))
            yield fields["TableName"], fields.get("Item") or fields["Key"]


def _keys_of_statement(context: OperationContext, request: Request) -> Iterator[tuple[str, Item]]:
    from penstock.engine.operations import partiql_statements
    from penstock.engine.operations.partiql import read_statement
    from penstock.expressions.partiql.translation import pinned
    from penstock.expressions.partiql.tree import Select

    try:
        statement, parameters = read_statement(request)
        if isinstance(statement, Select):
            table = context.table(statement.source.table)
            index = table.indexes.get(statement.source.index or "")
            names = table.key_names if index is None else tuple(part.name for part in index.key)
            yield table.name, pinned(statement.where, names, parameters).key
        else:
            write = partiql_statements.prepare(statement, parameters, None)
            write.resolve(context)
            yield write.table.name, write.key_values
    except PenstockError:
        return  # A statement of a batch that was refused by itself: it has cost nothing.


def _member(
    context: OperationContext,
    operation: str,
    table: TableInfo,
    given: Item,
    report: Response | None,
    kind: Kind,
    share: float,
) -> Member:
    if report is None:
        return []
    on_table, on_indexes = _units(table, report)
    if "ReadCapacityUnits" in report:
        kind = "Read"  # a transaction that was repeated with its token is answered, not done again
    if kind == "Read" and (operation in ("Query", "Scan") or operation in STATEMENTS):
        return _walked(table, given, on_table * share, [(index, units * share) for index, units in on_indexes])
    spends = [Spend(table, None, kind, on_table * share, *_place((table.hash,), given))]
    if on_indexes:
        item = _stored_item(context, table, given) or given
        for index, units in on_indexes:
            spends.append(Spend(table, index, kind, units * share, *_place(index.hash, item)))
    return spends


def _walked(table: TableInfo, key: Item, on_table: float, on_indexes: OnIndexes) -> Member:
    """What a Query, by its key, or a Scan, without one, has spent."""
    spends = [Spend(table, None, "Read", on_table, *_place((table.hash,), key))] if on_table else []
    return spends + [Spend(table, index, "Read", units, *_place(index.hash, key)) for index, units in on_indexes]


def _units(table: TableInfo, report: Response) -> tuple[float, OnIndexes]:
    """The units of the table, its local indexes included, and of each global index."""
    on_table = report["Table"]["CapacityUnits"]
    on_table += sum(part["CapacityUnits"] for part in (report.get("LocalSecondaryIndexes") or {}).values())
    on_indexes = report.get("GlobalSecondaryIndexes") or {}
    return on_table, [(table.indexes[name], part["CapacityUnits"]) for name, part in on_indexes.items()]


def _stored_item(context: OperationContext, table: TableInfo, given: Item) -> Item | None:
    """The item as it is after the call: an update's request does not show the attributes that an index goes by."""
    key = {part.name: check_value(given[part.name]) for part in table.key}
    row = context.db.execute(table.sql_get, (row_keys.row_key(table, key),)).fetchone()
    return orjson.loads(row[0]) if row else None


def _place(parts: Sequence[KeyAttribute], item: Item) -> tuple[int | None, str | None]:
    """The hash of a partition key and what to call it; nothing where the item does not have it whole."""
    values = [check_value(item[part.name]) for part in parts if part.kind in (item.get(part.name) or {})]
    if len(values) != len(parts):
        return None, None
    hashed = row_keys.partition_of_many(values)[: row_keys.HASH_BYTES]
    return int.from_bytes(hashed, "big"), " · ".join(map(_label, values))


def _label(value: AttributeValue) -> str:
    ((_, data),) = value.items()
    return str(data)


def _query_key(request: Request) -> Item:
    """The values that a Query's key condition gives by equality."""
    legacy: dict[str, Any] = request.get("KeyConditions") or {}
    found = {
        name: condition["AttributeValueList"][0]
        for name, condition in legacy.items()
        if condition.get("ComparisonOperator") == "EQ" and condition.get("AttributeValueList")
    }
    text = request.get("KeyConditionExpression")
    if not text:
        return found
    names, values = request.get("ExpressionAttributeNames") or {}, request.get("ExpressionAttributeValues") or {}
    try:
        terms = compile_key_condition(text).bind(names, values)
    except PenstockError:
        return found
    return {term.attribute: term.operands[0] for term in terms if term.operator == "="}
