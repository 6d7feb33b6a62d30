"""The calls of a table as values: an operation, its request, and how to read the answer. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

from penstock.client.items.expressions import (
    Aliases,
    Attribute,
    Where,
    condition_text,
    projection_text,
    update_text,
)
from penstock.client.items.keys import Key, TableKey, encode_key
from penstock.client.items.values import Item, decode_item, encode, encode_item
from penstock.wire import values as wire

T = TypeVar("T")
Request = dict[str, Any]
Names = Mapping[str, str] | None
Values = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call, and what of its answer the caller wants."""

    operation: str
    request: Request
    read: Callable[[dict[str, Any]], T]
    key: wire.Item | None = None


def item_of(answer: dict[str, Any]) -> Item | None:
    found = answer.get("Item")
    return None if found is None else decode_item(found)


def attributes_of(answer: dict[str, Any]) -> Item | None:
    found = answer.get("Attributes")
    return decode_item(found) if found else None


# ── requests, shared by single calls and the actions of a transaction ────────────────────────────


def get_request(table: str, schema: TableKey | None, key: Key, select: Iterable[Attribute] | None = None) -> Request:
    request: Request = {"TableName": table, "Key": encode_key(key, schema)}
    if select is not None:
        aliases = Aliases()
        request["ProjectionExpression"] = projection_text(select, aliases)
        aliases.into(request)
    return request


def put_request(
    table: str, schema: TableKey | None, item: Mapping[str, Any], if_: Where, names: Names, values: Values
) -> Request:
    encoded = encode_item(item)
    if schema is not None:
        schema.check_item(encoded)
    return _conditional({"TableName": table, "Item": encoded}, if_, Aliases(names, values))


def delete_request(table: str, schema: TableKey | None, key: Key, if_: Where, names: Names, values: Values) -> Request:
    return _conditional({"TableName": table, "Key": encode_key(key, schema)}, if_, Aliases(names, values))


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update does: from Python's values, or as an expression of DynamoDB's."""

    set: Mapping[Any, Any] | None = None
    remove: Iterable[Attribute] | None = None
    add: Mapping[Any, Any] | None = None
    delete: Mapping[Any, Any] | None = None
    expression: str | None = None

    def text(self, aliases: Aliases) -> str:
        made = update_text(aliases, self.set, self.remove, self.add, self.delete)
        if self.expression is None:
            return made
        if made:
            raise ValueError("an update is either an expression or made of set, remove, add and delete; not both")
        return self.expression


def update_request(
    table: str, schema: TableKey | None, key: Key, changes: Changes, if_: Where, names: Names, values: Values
) -> Request:
    aliases = Aliases(names, values)
    request: Request = {"TableName": table, "Key": encode_key(key, schema)}
    text = changes.text(aliases)
    if text:  # without one, UpdateItem makes the item if it is not there
        request["UpdateExpression"] = text
    return _conditional(request, if_, aliases)


def check_request(table: str, schema: TableKey | None, key: Key, if_: Where, names: Names, values: Values) -> Request:
    if if_ is None:
        raise ValueError("a check needs a condition")
    return delete_request(table, schema, key, if_, names, values)


def _conditional(request: Request, if_: Where, aliases: Aliases) -> Request:
    if if_ is not None:
        request["ConditionExpression"] = condition_text(if_, aliases)
        # Costs no capacity, and says what stood in the way.
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return aliases.into(request)


# ── single calls ─────────────────────────────────────────────────────────────────────────────────


def get(request: Request, consistent: bool) -> Call[Item | None]:
    if consistent:
        request["ConsistentRead"] = True
    return Call("GetItem", request, item_of, request["Key"])


def put(request: Request, schema: TableKey | None, return_old: bool) -> Call[Item | None]:
    key = None if schema is None else schema.key_of(request["Item"])
    return _write("PutItem", request, "ALL_OLD" if return_old else None, key)


def delete(request: Request, return_old: bool) -> Call[Item | None]:
    return _write("DeleteItem", request, "ALL_OLD" if return_old else None, request["Key"])


def update(request: Request, return_old: bool, return_new: bool) -> Call[Item | None]:
    if return_old and return_new:
        raise ValueError("DynamoDB returns the item before an update or after it, not both")
    wanted = "ALL_OLD" if return_old else "ALL_NEW" if return_new else None
    return _write("UpdateItem", request, wanted, request["Key"])


def _write(operation: str, request: Request, wanted: str | None, key: wire.Item | None) -> Call[Item | None]:
    if wanted is not None:
        request["ReturnValues"] = wanted
    return Call(operation, request, attributes_of, key)


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────

_NUMBERS = (int, float, Decimal)


@dataclass(frozen=True, slots=True)
class Match:
    """An item that a vector search found, and its score.

    The nearest come first: for COSINE and EUCLIDEAN those with small scores, for DOT_PRODUCT those with large ones.
    """

    item: Item
    score: float


def search_request(
    table: str,
    index: str,
    vector: Iterable[Any],
    top: int,
    where: Where,
    select: Iterable[Attribute] | None,
    names: Names,
    values: Values,
) -> Request:
    aliases = Aliases(names, values)
    numbers = [encode(one if type(one) in _NUMBERS else float(one)) for one in vector]
    request: Request = {"TableName": table, "IndexName": index, "SearchVector": numbers, "TopK": top}
    if where is not None:
        request["SearchConditionExpression"] = condition_text(where, aliases)
    if select is not None:
        request["ProjectionExpression"] = projection_text(select, aliases)
    return aliases.into(request)


def matches_of(answer: dict[str, Any]) -> list[Match]:
    return [Match(decode_item(one["Item"]), one["Score"]) for one in answer["SearchResults"]]


def only_vector_index(table: Mapping[str, Any]) -> str:
    """The name of the table's one vector index, by its description."""
    names = [one["IndexName"] for one in table.get("VectorIndexes", ())]
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise ValueError(f"table {table['TableName']!r} has no vector index; define one with VectorIndex(…)")
    raise ValueError(
        f"table {table['TableName']!r} has {len(names)} vector indexes ({', '.join(names)}); "
        f"name one: search(vector, index={names[0]!r})"
    )


# ── reading many ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Reading:
    """What a query and a scan have in common."""

    index: str | None = None
    filter: Where = None
    select: Iterable[Attribute] | None = None
    consistent: bool = False
    names: Names = None
    values: Values = None


def query_request(table: str, key: Mapping[str, Any], sort: Where, newest_first: bool, reading: Reading) -> Request:
    if not key and not isinstance(sort, str):
        raise ValueError('query needs the partition key: query(companyId="c1"), or query(key={"companyId": "c1"})')
    encode_key(key, None)  # refuses what no key is
    aliases = Aliases(reading.names, reading.values)
    terms = [f"{aliases.name(name)} = {aliases.value(value, name)}" for name, value in key.items()]
    if sort is not None:
        terms.append(condition_text(sort, aliases))
    request = _reading(table, reading, aliases)
    request["KeyConditionExpression"] = " AND ".join(terms)
    if newest_first:
        request["ScanIndexForward"] = False
    return aliases.into(request)


def scan_request(table: str, segment: int | None, segments: int | None, reading: Reading) -> Request:
    aliases = Aliases(reading.names, reading.values)
    request = _reading(table, reading, aliases)
    if (segment is None) != (segments is None):
        raise ValueError("segment and segments go together: scan(segment=0, segments=8)")
    if segment is not None:
        request["Segment"], request["TotalSegments"] = segment, segments
    return aliases.into(request)


def _reading(table: str, reading: Reading, aliases: Aliases) -> Request:
    request: Request = {"TableName": table}
    if reading.index is not None:
        request["IndexName"] = reading.index
    if reading.filter is not None:
        request["FilterExpression"] = condition_text(reading.filter, aliases)
    if reading.select is not None:
        request["ProjectionExpression"] = projection_text(reading.select, aliases)
    if reading.consistent:
        request["ConsistentRead"] = True
    return request
