"""`/tables/{name}/items/chosen`: several items, deleted or duplicated together; `/tables/{name}/similar`: by vectors.

1. Nothing is done before a page has shown what it will be. A delete is conditional on what that page showed, item by
   item; a duplicate is written only where its key is free.
2. A request is about at most `MOST_ITEMS` items.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.client.items.expressions import Comparison, Condition, F
from penstock.client.items.values import decode
from penstock.client.tables import requests
from penstock.errors import DynamoDBError, PenstockError
from penstock.tables.definitions.definition import Table, VectorIndex
from penstock.web.dashboard.items import conditional_writes, item_text
from penstock.web.dashboard.items.conditional_writes import EditConflict
from penstock.web.dashboard.items.item_text import BadItem, cell, key_text
from penstock.web.dashboard.items.search import BadSearch, typed_value
from penstock.web.dashboard.pages.items import Fields, read_key_of, write_down
from penstock.web.dashboard.pages.tables import read_table
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem
from penstock.wire.values import Item

MOST_ITEMS: Final = 50
_COPIED_CHARACTERS: Final = 100_000
"""Of all items of a form together: it stays below the dashboard's limit on a request."""


def routes(site: Site) -> list[Route]:
    def form_handler(handle: Callable[[Site, Request, Fields], Response]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            fields = await site.access.read_form(request)
            return await run_in_threadpool(handle, site, request, fields)

        return answer

    return [
        Route("/tables/{name}/items/chosen", form_handler(_ask), methods=["POST"]),
        Route("/tables/{name}/items/deleted", form_handler(_delete), methods=["POST"]),
        Route("/tables/{name}/items/duplicated", form_handler(_duplicate), methods=["POST"]),
        Route("/tables/{name}/similar", lambda request: _similar(site, request)),
    ]


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    key: str
    title: str
    query: str
    done: bool
    what: str


def _table(site: Site, request: Request) -> Table:
    return read_table(site.source.db, request.path_params["name"], ttl=False).table


def _title(table: Table, key: Item) -> str:
    return " / ".join(cell(key[name]) for name in table.key.names)


def _query(key: Item) -> str:
    return urlencode({"key": key_text(key)})


def _ask(site: Site, request: Request, fields: Fields) -> Response:
    """What will be deleted, or the copies to be edited (1)."""
    table = _table(site, request)
    texts = list(dict.fromkeys(fields.get("key", [])))[:MOST_ITEMS]
    if not texts:
        raise Problem(400, "No item was chosen.", "Go back and tick some.")
    keys = [read_key_of(table, text) for text in texts]
    items = [item for item in (conditional_writes.get(site.source.db, table, key) for key in keys) if item is not None]
    if fields.get("do") == ["duplicate"]:
        text = json.dumps([json.loads(item_text.item_text(item)) for item in items], indent=2, ensure_ascii=False)
        if len(text) > _COPIED_CHARACTERS:
            raise Problem(400, "These items are too large to be edited together.", "Choose fewer.")
        return site.page(request, "items_duplicate.html", table=table, text=text, problem="")
    lines = [
        (_title(table, item), key_text(key), item_text.seen_text(item_text.seen_of(item)), _query(key))
        for item in items
        for key in [{name: item[name] for name in table.key.names}]
    ]
    return site.page(request, "items_delete.html", table=table, lines=lines)


def _delete(site: Site, request: Request, fields: Fields) -> Response:
    table = _table(site, request)
    outcomes = []
    for text, seen in list(zip(fields.get("key", []), fields.get("seen", []), strict=False))[:MOST_ITEMS]:
        key = read_key_of(table, text)
        try:
            conditional_writes.delete(site.source.db, table, key, item_text.read_seen(seen))
        except EditConflict:
            what, done = "has changed since you looked: it was left alone", False
        except (BadItem, PenstockError) as error:
            what, done = str(error), False
        else:
            what, done = "is gone", True
            write_down(site, request, "deleted", table, key)
        outcomes.append(ItemOutcome(text, _title(table, key), _query(key), done, what))
    return site.page(request, "items_outcome.html", table=table, outcomes=outcomes, verb="deleted")


def _duplicate(site: Site, request: Request, fields: Fields) -> Response:
    table = _table(site, request)
    text = fields.get("items", [""])[0]
    try:
        items = _read_items(table, text)
    except BadItem as error:
        shown = {"table": table, "text": text, "problem": f"Nothing was saved. {error}."}
        return site.page(request, "items_duplicate.html", 400, **shown)
    outcomes = []
    for item in items:
        key = {name: item[name] for name in table.key.names}
        try:
            conditional_writes.create(site.source.db, table, item)
        except EditConflict:
            what, done = "There is an item with this key already", False
        except DynamoDBError as error:
            what, done = error.message, False
        else:
            what, done = "is made", True
            write_down(site, request, "created", table, key)
        outcomes.append(ItemOutcome(key_text(key), _title(table, key), _query(key), done, what))
    return site.page(request, "items_outcome.html", table=table, outcomes=outcomes, verb="made")


def _read_items(table: Table, text: str) -> list[Item]:
    """Raises BadItem."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadItem(f"This is no JSON: {error}") from None
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_ITEMS:
        raise BadItem(f"This is no list of 1 to {MOST_ITEMS} items")
    items = [item_text.read_item(orjson.dumps(one).decode()) for one in listed]
    for item in items:
        conditional_writes.key_of(table, item)
    return items


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────

_TOP: Final = 10
_MOST_TOP: Final = 100
_LONGEST_VECTOR: Final = 100_000
_LONGEST_PARTITION: Final = 2_048
_SHOWN_ATTRIBUTES: Final = 5


def _similar(site: Site, request: Request) -> Response:
    """The items whose vectors are nearest to one that was typed, or to that of an item."""
    view = read_table(site.source.db, request.path_params["name"], ttl=False)
    table, query = view.table, request.query_params
    if not table.vector_indexes:
        raise Problem(404, f"{table.name} has no vector index.", "docs/vectors.md says how to make one.")
    index = table.vector_index(query.get("index", "")) or table.vector_indexes[0]
    partition = ""
    text, problem, matches = query.get("vector", "")[:_LONGEST_VECTOR], "", []
    top = int(query["top"]) if query.get("top", "").isascii() and query.get("top", "").isdigit() else _TOP
    top = min(max(1, top), _MOST_TOP) if len(query.get("top", "")) < 5 else _TOP
    try:
        if query.get("key"):
            vector, partition = _vector_of(site, table, index, query["key"])
        else:
            vector, partition = _typed_vector(text), query.get("partition", "")[:_LONGEST_PARTITION]
        if vector:
            text = json.dumps(vector)
            where = _partition_condition(index, partition)
            asked = requests.search_request(table.name, index.name, vector, top, where, None, None, None)
            answer = site.source.db.execute("SearchVectors", asked)
            matches = [_match(table, index, one) for one in answer["SearchResults"]]
    except (BadItem, BadSearch, ValueError, OverflowError) as error:
        problem = f"{error}."
    except DynamoDBError as error:
        if error.retryable:
            raise
        problem = error.message
    shown = {"view": view, "here": "similar", "index": index, "text": text, "top": top, "problem": problem}
    shown["partition"] = partition
    return site.page(request, "similar.html", 400 if problem else 200, matches=matches, **shown)


def _typed_vector(text: str) -> list[float]:
    if not text.strip():
        return []
    try:
        vector = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BadItem("A vector is a JSON list of numbers, such as [0.1, 0.7, 0.2]") from None
    if not isinstance(vector, list) or not all(type(one) in (int, float) for one in vector):
        raise BadItem("A vector is a JSON list of numbers, such as [0.1, 0.7, 0.2]")
    return [float(one) for one in vector]


def _partition_condition(index: VectorIndex, text: str) -> Condition | None:
    """Raises BadSearch."""
    if index.partition is None:
        return None
    return Comparison("=", F(index.partition.name), typed_value(index.partition.type, text, index.partition.name))


def _vector_of(site: Site, table: Table, index: VectorIndex, text: str) -> tuple[list[float], str]:
    """An item's vector, and its value of the index's partition."""
    item = conditional_writes.get(site.source.db, table, read_key_of(table, text))
    value = None if item is None else item.get(index.attribute)
    if value is None or "L" not in value:
        raise BadItem(f"This item has no vector in {index.attribute}")
    assert item is not None
    partition = "" if index.partition is None else item.get(index.partition.name, {}).get(index.partition.type, "")
    return [float(one) for one in decode(value)], str(partition)


def _match(table: Table, index: VectorIndex, result: dict[str, Any]) -> tuple[float, str, str, list[tuple[str, str]]]:
    item: Item = result["Item"]
    key = {name: item[name] for name in table.key.names}
    others = [name for name in sorted(item) if name not in key and name != index.attribute][:_SHOWN_ATTRIBUTES]
    return float(result["Score"]), _title(table, key), _query(key), [(name, cell(item[name])) for name in others]
