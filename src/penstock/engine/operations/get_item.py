"""GetItem: one statement, and the answer is the bytes that lie in the file."""

from __future__ import annotations

from sqlite3 import Cursor

import orjson

from penstock.engine.capacity import capacity_units
from penstock.engine.context import Call
from penstock.engine.items.item_keys import refuse_nested_keys, row_key_of_key
from penstock.engine.registry import Request, Response, operation
from penstock.engine.requests import error_wording
from penstock.errors import ValidationException
from penstock.expressions.compiled.projections import Projector
from penstock.expressions.request import projection_of
from penstock.wire.keys import SHORT_TEXT, text_partition
from penstock.wire.values import Item, check_item


def quick_get(call: Call, cursor: Cursor, request: Request) -> bytes | None:
    """The answer to a request of a table and a key of short texts, and nothing else: most of a server's reads.

    It takes half the time of the whole way, and gives the same bytes or None (a test tries).
    """
    if type(request) is not dict or len(request) != 2:
        return None
    try:
        key = request["Key"]
        table = call.engine.catalog.cached(call.scope, request["TableName"])
        if table is None or table.plain_read is None or type(key) is not dict:
            return None
        sql, hash_name, range_name = table.plain_read
        value = key[hash_name]
        text = value["S"]
        if type(text) is not str or len(value) != 1 or not 0 < len(text) <= SHORT_TEXT:
            return None
        row_key = text_partition(text)
        if range_name is not None:
            value = key[range_name]
            text = value["S"]
            if type(text) is not str or len(value) != 1 or not 0 < len(text) <= SHORT_TEXT or len(key) != 2:
                return None
            row_key += text.encode()
        elif len(key) != 1:
            return None
    except (KeyError, TypeError, UnicodeError):
        return None  # a name or a type that the whole way refuses, in DynamoDB's words
    row = cursor.execute(sql, (row_key,)).fetchone()
    return b"{}" if row is None else b'{"Item":%b}' % row


@operation("GetItem", kind="read", quick=quick_get)
def get_item(call: Call, request: Request) -> Response:
    key, projector = _asked(request)
    table = call.table(request["TableName"])
    row_key = row_key_of_key(table, key)
    if projector is not None:
        refuse_nested_keys(table, projector.nested)
    row = call.db.execute(table.sql_get_sized, (row_key,)).fetchone()
    response: Response = {}
    if row is not None:
        response["Item"] = orjson.Fragment(row[0]) if projector is None else projector(orjson.loads(row[0]))
    if "ReturnConsumedCapacity" in request and capacity_units.wanted(request):
        units = capacity_units.read_units(row[1] if row else 0, bool(request.get("ConsistentRead")))
        response["ConsumedCapacity"] = capacity_units.report(
            table, capacity_units.Units(units), request["ReturnConsumedCapacity"]
        )
    return response


def _asked(request: Request) -> tuple[Item, Projector | None]:
    """The key and what is wanted of the item, checked in DynamoDB's order."""
    key: Item = {}

    def check() -> None:
        nonlocal key
        key = check_item(request["Key"])[0]

    try:
        if "ProjectionExpression" in request or "AttributesToGet" in request or "ExpressionAttributeNames" in request:
            projector = projection_of(request, check)
            return key, projector
        return check_item(request["Key"])[0], None
    except ValidationException as error:
        raise error_wording.of_read(error) from None
