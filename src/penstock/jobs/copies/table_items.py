"""Items that a job needs, by key: named on a command line, read from one database, and written into another.

orders:id=o-17                  one item; of a table with a sort key, all items of the partition
orders:customer=c1,number=17    one item; a value is text, a number or base64, as the table's key says
orders:{"id": "a,b=c"}          the same as JSON, for values with a comma
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.client.reads.pages import read_pages
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.layouts.layout import Item
from penstock.tables.data.transfers import ItemTable

MOST_ITEMS: Final = 1_000
"""Of one key: they are held in memory, and a partition may have any number."""
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")


@dataclass(frozen=True, slots=True)
class ItemKey:
    """The key of an item, or of a partition: its values as text."""

    table: str
    values: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> ItemKey:
        table, colon, key = text.partition(":")
        if not colon or not key or not _TABLE.fullmatch(table):
            raise _bad(text)
        if key.startswith("{"):
            try:
                values = orjson.loads(key)
            except orjson.JSONDecodeError:
                raise _bad(text) from None
        else:
            pairs = [part.partition("=") for part in key.split(",")]
            if not all(name and equals and value for name, equals, value in pairs):
                raise _bad(text)
            values = {name: value for name, _, value in pairs}
        return cls(table, {str(name): str(value) for name, value in values.items()})

    def __str__(self) -> str:
        return f"{self.table}:" + ",".join(f"{name}={value}" for name, value in self.values.items())


def _bad(text: str) -> PenstockError:
    return PenstockError(
        f"{text!r} names no item: it is TABLE:NAME=VALUE, such as orders:id=o-17 or orders:customer=c1,number=17; "
        'or TABLE:{"NAME": "VALUE"} for a value with a comma.'
    )


@dataclass(frozen=True, slots=True)
class ReadItems:
    """Items of a table, with what the table is."""

    description: dict[str, Any]
    items: list[Item]


def read_items(db: Database, keys: Sequence[ItemKey]) -> list[ReadItems]:
    """The items, consistently read. Raises PenstockError for a key that no item has."""
    return [_read(db, one) for one in keys]


def _read(db: Database, wanted: ItemKey) -> ReadItems:
    try:
        description = db.execute("DescribeTable", {"TableName": wanted.table})["Table"]
    except ResourceNotFoundException as error:
        raise PenstockError(f"{db.name} has no table {wanted.table}, which --items names.") from error
    key = _encode(wanted, TableKey.from_description(description))
    if len(key) == len(description["KeySchema"]):
        request: dict[str, Any] = {"TableName": wanted.table, "Key": key, "ConsistentRead": True}
        found = db.execute("GetItem", request).get("Item")
        items = [] if found is None else [found]
    else:
        items = _partition(db, wanted, key)
    if not items:
        raise PenstockError(f"{db.name} has no item {wanted}.")
    return ReadItems(description, items)


def _encode(wanted: ItemKey, schema: TableKey) -> Item:
    """The key in DynamoDB's JSON, with the types that the table has."""
    names = set(wanted.values)
    if names not in ({schema.names[0]}, set(schema.names)):
        alone = f", or {schema.names[0]} alone for all of its items" if len(schema.names) > 1 else ""
        raise PenstockError(f"{wanted}: the key of {wanted.table} is {' and '.join(schema.names)}{alone}.")
    types = {attribute.name: attribute.type for attribute in schema.attributes}
    key = {name: {types[name]: value} for name, value in wanted.values.items()}
    if len(names) == len(schema.names):
        schema.check_key(key)
    return key


def _partition(db: Database, wanted: ItemKey, key: Item) -> list[Item]:
    (name, value), *_ = key.items()
    request = {
        "TableName": wanted.table,
        "KeyConditionExpression": "#key = :key",
        "ExpressionAttributeNames": {"#key": name},
        "ExpressionAttributeValues": {":key": value},
        "ConsistentRead": True,
    }
    items: list[Item] = []
    for page in read_pages(db.execute, "Query", request):
        items += page["Items"]
        if len(items) > MOST_ITEMS:
            raise PenstockError(f"{wanted} has more than {MOST_ITEMS:,} items: name those that the job needs.")
    return items


def write_items(db: Database, read: ReadItems) -> None:
    """Puts them into a table with the same key and indexes, which is made if it is absent.

    It has no time to live: an item that has just expired may be why the job failed.
    """
    name = read.description["TableName"]
    try:
        there = db.execute("DescribeTable", {"TableName": name})["Table"]
    except ResourceNotFoundException:
        db.execute("CreateTable", _create_request(read.description))
    else:
        if TableKey.from_description(there).attributes != TableKey.from_description(read.description).attributes:
            raise PenstockError(f"The table {name} of {db.name} has another key: pull into another file.")
    ItemTable.of(db, name).write(read.items)


def _create_request(description: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = {
        "TableName": description["TableName"],
        "KeySchema": description["KeySchema"],
        "AttributeDefinitions": description["AttributeDefinitions"],
        "BillingMode": "PAY_PER_REQUEST",
    }
    for member in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        indexes = description.get(member) or ()
        if indexes:
            parts = ("IndexName", "KeySchema", "Projection")
            request[member] = [{part: index[part] for part in parts} for index in indexes]
    return request
