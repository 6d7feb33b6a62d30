"""UpdateItems that arrived together: one statement reads their items, one writes them, one or two each index.

1. Each is decided as if it came alone after those before it: it sees what they leave.
2. All are decided before anything is written, and what is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from penstock.engine import requests
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import Call
from penstock.engine.items import bulk_rows, changes
from penstock.engine.items.write_steps import Update
from penstock.engine.operations import item_writes
from penstock.engine.registry import Request
from penstock.errors import DynamoDBError
from penstock.wire.values import Item

Answer = bytes | DynamoDBError
_Prepared = tuple[Request, Update]


def belongs(operation: str, request: Any) -> bool:
    """Whether a call can be one of a group: what it asks about its item's collection is known after its write."""
    return operation == "UpdateItem" and "ReturnItemCollectionMetrics" not in request


def answers(call: Call, given: Sequence[Request]) -> list[Answer]:
    """The answer of each, in their order. All are of the same scope."""
    prepared = [_prepared(call, request) for request in given]
    found = _items_of([one for one in prepared if not isinstance(one, DynamoDBError)], call)
    made: list[changes.Change] = []
    told = [one if isinstance(one, DynamoDBError) else _decided(call, *one, found, made) for one in prepared]
    changes.write_many(call, made)
    return told


def _prepared(call: Call, given: Request) -> _Prepared | DynamoDBError:
    try:
        request = requests.check("UpdateItem", given)
        return request, item_writes.resolved_update(call, request)
    except DynamoDBError as error:
        return error.as_answer()


_Found = dict[tuple[int, bytes], Item | None]


def _items_of(prepared: Sequence[_Prepared], call: Call) -> _Found:
    """The items as they are, by table and key."""
    keys: dict[int, tuple[TableInfo, set[bytes]]] = {}
    for _, write in prepared:
        keys.setdefault(write.table.id, (write.table, set()))[1].add(write.key)
    found: _Found = {}
    for number, (table, wanted) in keys.items():
        for key, data in bulk_rows.get_rows(call, table, wanted):
            call.db.refuse_long_work(data)
            found[number, key] = orjson.loads(data)
    return found


def _decided(call: Call, request: Request, write: Update, found: _Found, made: list[changes.Change]) -> Answer:
    place = write.table.id, write.key
    write.old = found.get(place)
    try:
        write.decide()
    except DynamoDBError as error:
        return error.as_answer()
    answer = orjson.dumps(item_writes.update_response(call, request, write))
    if write.new is not None:
        made.append(changes.Change(write.table, write.key, write.old, write.new, write.size))
        found[place] = write.new  # (1)
    return answer
