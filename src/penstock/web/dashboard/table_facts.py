"""What the pages about tables tell of a table beside its definition."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database, embedded_engine
from penstock.engine.items.expiry_rows import LONGEST_PAST_SECONDS
from penstock.errors import DynamoDBError, PenstockError, ResourceNotFoundException
from penstock.tables.apply.table_states import percent_of
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import Key, Table, Throughput
from penstock.web.problems import Problem

Json = dict[str, Any]

PAGE_TABLES: Final = 50
_LOOKED_AT: Final = 20_000
_LOOKED_AT_ELSEWHERE: Final = 2_000
"""Of a table that is paid for."""


@dataclass(frozen=True, slots=True)
class IndexLine:
    """An index as the page shows it; `percent` is how far one is that is being made, None where nobody knows."""

    name: str
    key: Key
    kind: str
    projection: str
    status: str
    items: int
    bytes: int
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    table: Table
    facts: Facts
    indexes: tuple[IndexLine, ...]
    created_at: float | None

    @property
    def capacity(self) -> str:
        billing = self.table.billing
        return f"{billing.read:,} read, {billing.write:,} write" if isinstance(billing, Throughput) else "on demand"

    @property
    def in_motion(self) -> bool:
        return self.facts.status != "ACTIVE" or any(index.status != "ACTIVE" for index in self.indexes)


def view_of(description: Json, ttl: Json | None = None) -> TableView:
    """From DescribeTable's answer, and DescribeTimeToLive's where it was asked."""
    table = aws_shapes.from_description(description, ttl=ttl)
    lines = [_index_line(description, one, local=True) for one in description.get("LocalSecondaryIndexes") or ()]
    lines += [_index_line(description, one, local=False) for one in description.get("GlobalSecondaryIndexes") or ()]
    created = description.get("CreationDateTime")
    return TableView(table, aws_shapes.facts_of(description), tuple(lines), _seconds(created))


def _index_line(description: Json, index: Json, *, local: bool) -> IndexLine:
    types = {one["AttributeName"]: one["AttributeType"] for one in description["AttributeDefinitions"]}
    # A deleted index's key may have no type any more.
    types |= {one["AttributeName"]: "S" for one in index["KeySchema"] if one["AttributeName"] not in types}
    kept = index["Projection"]
    status = str(index.get("IndexStatus", "ACTIVE"))
    return IndexLine(
        index["IndexName"],
        aws_shapes.key_of(index["KeySchema"], types),
        "local" if local else "global",
        ", ".join(kept.get("NonKeyAttributes", ())) if kept["ProjectionType"] == "INCLUDE" else kept["ProjectionType"],
        status,
        int(index.get("ItemCount") or 0),
        int(index.get("IndexSizeBytes") or 0),
        percent_of(description, index, 0.0, None) if status == "CREATING" else None,
    )


def _seconds(told: Any) -> float | None:
    """A description has a number; boto3 makes a datetime of it."""
    if told is None:
        return None
    return float(told.timestamp()) if hasattr(told, "timestamp") else float(told)


def look(db: Database, name: str, *, ttl: bool = True) -> TableView:
    """The table of that name. Raises Problem 404, with names that are near."""
    try:
        description = db.execute("DescribeTable", {"TableName": name})["Table"]
        answer = time_to_live(db, name) if ttl else None
        return view_of(description, answer)
    except ResourceNotFoundException:
        raise _unknown(db, name) from None
    except DynamoDBError as error:
        if error.retryable or error.code != "ValidationException":
            raise
        raise _unknown(db, name) from None  # no table can have such a name


def time_to_live(db: Database, name: str) -> Json | None:
    """None where this endpoint does not tell."""
    try:
        return db.execute("DescribeTimeToLive", {"TableName": name})
    except ResourceNotFoundException:
        return {}
    except DynamoDBError as error:
        if error.retryable:
            raise
        return None


def _unknown(db: Database, name: str) -> Problem:
    names: list[str] = []
    with suppress(PenstockError):
        names = db.tables()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    told = f"Did you mean {', '.join(near)}? All of them are at /tables." if near else "All tables are at /tables."
    return Problem(404, f"There is no table {name[:100]} in {db.name}.", told)


# ── past their time ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Backlog:
    """Items that are past their time and not deleted yet, of so many that were looked at."""

    count: int
    looked_at: int
    whole: bool


def is_free(db: Database) -> bool:
    """Whether reading costs nothing: the engine is in this process."""
    return embedded_engine(db.transport) is not None


def backlog(db: Database, name: str, attribute: str, now: float) -> Backlog:
    """Counted among the first of the table's items only: it says so if there are more."""
    most = _LOOKED_AT if is_free(db) else _LOOKED_AT_ELSEWHERE
    request: Json = {
        "TableName": name,
        "Select": "COUNT",
        "FilterExpression": "#ttl BETWEEN :low AND :now",
        "ExpressionAttributeNames": {"#ttl": attribute},
        "ExpressionAttributeValues": {
            ":low": {"N": str(int(now) - LONGEST_PAST_SECONDS)},
            ":now": {"N": str(int(now))},
        },
    }
    count = looked_at = 0
    start: Mapping[str, Any] | None = None
    while looked_at < most:
        more = {} if start is None else {"ExclusiveStartKey": start}
        answer = db.execute("Scan", {**request, **more, "Limit": most - looked_at})
        count += answer["Count"]
        looked_at += answer["ScannedCount"]
        start = answer.get("LastEvaluatedKey")
        if start is None:
            return Backlog(count, looked_at, True)
    return Backlog(count, looked_at, False)
