"""`/tables/{name}/item`: an item, to read, edit and delete. `/tables/{name}/new`: another one.

What is saved or deleted is conditional on what the page has shown (item_changes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.errors import DynamoDBError
from penstock.tables.definitions.definition import Table
from penstock.web.dashboard import item_changes, item_text
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.item_changes import NotAsSeen
from penstock.web.dashboard.item_text import BadItem, cell, key_text
from penstock.web.dashboard.pages.job import disposition
from penstock.web.dashboard.table_facts import look
from penstock.web.problems import Problem
from penstock.wire.values import Item, item_size

_SHOWN_CHARACTERS: Final = 20_000
_EDITABLE_BYTES: Final = 100_000
"""Of a form: a page stays small, and what is sent stays below what the dashboard takes."""

Fields = dict[str, list[str]]


def routes(desk: Desk) -> list[Route]:
    return [*_reading(desk), *_writing(desk)]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def _reading(desk: Desk) -> list[Route]:
    def show(request: Request) -> Response:
        table, key, item = _asked(desk, request)
        if item is None:
            raise Problem(404, f"{table.name} has no item {key_text(key)[:200]}.", "It may have been deleted.")
        return desk.page(request, "item.html", **_shown(table, key, item, saved="saved" in request.query_params))

    def download(request: Request) -> Response:
        table, key, item = _asked(desk, request)
        if item is None:
            raise Problem(404, f"{table.name} has no item {key_text(key)[:200]}.", "It may have been deleted.")
        headers = {"Content-Disposition": disposition(f"{table.name}-item.json")}
        return Response(item_text.item_text(item), 200, headers, "application/json")

    def new(request: Request) -> Response:
        table = look(desk.source.db, request.path_params["name"], ttl=False).table
        example: Item = {one.name: {one.type: ""} for one in table.key.attributes}
        return desk.page(request, "item_new.html", table=table, text=item_text.item_text(example), problem=None)

    return [
        Route("/tables/{name}/item", show),
        Route("/tables/{name}/item.json", download),
        Route("/tables/{name}/new", new),
    ]


def _asked(desk: Desk, request: Request) -> tuple[Table, Item, Item | None]:
    table = look(desk.source.db, request.path_params["name"], ttl=False).table
    key = _key(table, request.query_params.get("key", ""))
    return table, key, _get(desk, table, key)


def _key(table: Table, text: str) -> Item:
    try:
        key = item_text.read_key(text)
        if set(key) != set(table.key.names):
            raise BadItem(f"the key of {table.name} is {table.key}")
        return item_changes.key_of(table, key)
    except BadItem as error:
        raise Problem(404, f"That is no key: {error}.", "Find the item in the list of items.") from None


def _get(desk: Desk, table: Table, key: Item) -> Item | None:
    try:
        return item_changes.get(desk.source.db, table, key)
    except DynamoDBError as error:
        if error.retryable:
            raise
        raise Problem(400, error.message, "Find the item in the list of items.") from None


def _shown(
    table: Table,
    key: Item,
    item: Item,
    *,
    text: str | None = None,
    problem: str | None = None,
    conflict: NotAsSeen | None = None,
    saved: bool = False,
) -> dict[str, Any]:
    whole = item_text.item_text(item)
    seen = item_text.seen_text(item_text.seen_of(item))
    attributes = [(name, next(iter(item[name])), cell(item[name])) for name in _in_order(table, item)]
    return {
        "table": table,
        "key": key,
        "title": " / ".join(cell(key[name]) for name in table.key.names),
        "query": urlencode({"key": key_text(key)}),
        "key_text": key_text(key),
        "size": item_size(item),
        "attributes": attributes,
        "whole": whole if len(whole) <= _SHOWN_CHARACTERS else whole[:_SHOWN_CHARACTERS],
        "is_cut": len(whole) > _SHOWN_CHARACTERS,
        "characters": len(whole),
        "text": whole if text is None else text,
        "seen": seen,
        "is_editable": len(quote_plus(whole)) + len(quote_plus(seen)) <= _EDITABLE_BYTES,
        "problem": problem,
        "changes": [] if conflict is None else _differences(conflict, text),
        "saved": saved,
    }


def _differences(conflict: NotAsSeen, text: str | None) -> list[tuple[item_text.Moved, str, str]]:
    """What has changed, with what it is now and what it is in the text that somebody has typed."""
    try:
        typed = {} if text is None else item_text.read_item(text)
    except BadItem:
        typed = {}
    return [
        (one, "" if one.now is None else cell(one.now), cell(typed[one.name]) if one.name in typed else "")
        for one in conflict.changes
    ]


def _in_order(table: Table, item: Item) -> list[str]:
    return [*table.key.names, *sorted(name for name in item if name not in table.key.names)]


# ── changing ─────────────────────────────────────────────────────────────────────────────────────


def _writing(desk: Desk) -> list[Route]:
    def posted(handle: Callable[[Desk, Request, Fields], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            fields = await desk.keeper.form_of(request)
            return await run_in_threadpool(handle, desk, request, fields)

        return answer

    return [
        Route("/tables/{name}/item", posted(_save), methods=["POST"]),
        Route("/tables/{name}/new", posted(_create), methods=["POST"]),
        Route("/tables/{name}/item/delete", posted(_ask), methods=["POST"]),
        Route("/tables/{name}/item/deleted", posted(_delete), methods=["POST"]),
    ]


def _form(desk: Desk, request: Request, fields: Fields) -> tuple[Table, Item, dict[str, str]]:
    """The table, the key and what was seen, of a form about an item."""
    table = look(desk.source.db, request.path_params["name"], ttl=False).table
    key = _key(table, fields.get("key", [""])[0])
    try:
        return table, key, item_text.read_seen(fields.get("seen", [""])[0])
    except BadItem as error:
        raise Problem(400, f"{error}.".capitalize(), "Load the item's page again.") from None


def _save(desk: Desk, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(desk, request, fields)
    text = fields.get("item", [""])[0]
    try:
        item_changes.save(desk.source.db, table, key, item_text.read_item(text), seen)
    except NotAsSeen as conflict:
        return _conflict(desk, request, table, key, conflict, text)
    except (BadItem, DynamoDBError) as error:
        if isinstance(error, DynamoDBError) and error.retryable:
            raise
        problem = error.message if isinstance(error, DynamoDBError) else f"{error}."
        return _again(desk, request, table, key, text, seen, f"Nothing was saved. {problem}")
    return _to_item(table, key)


def _again(
    desk: Desk, request: Request, table: Table, key: Item, text: str, seen: dict[str, str], problem: str
) -> Response:
    """The form as it was sent, with what is wrong with it; what was seen is what was seen before."""
    item = _get(desk, table, key)
    if item is None:
        return _conflict(desk, request, table, key, NotAsSeen(item_text.moved(seen, None), None), text)
    context = _shown(table, key, item, text=text, problem=problem)
    context["seen"] = item_text.seen_text(seen)
    return desk.page(request, "item.html", 400, **context)


def _conflict(desk: Desk, request: Request, table: Table, key: Item, conflict: NotAsSeen, text: str | None) -> Response:
    if conflict.now is None:
        return desk.page(request, "item_gone.html", 409, table=table, text=text, key_text=key_text(key))
    context = _shown(table, key, conflict.now, text=text, conflict=conflict)
    return desk.page(request, "item.html", 409, **context)


def _create(desk: Desk, request: Request, fields: Fields) -> Response:
    table = look(desk.source.db, request.path_params["name"], ttl=False).table
    text = fields.get("item", [""])[0]
    try:
        item = item_text.read_item(text)
        item_changes.create(desk.source.db, table, item)
        return _to_item(table, {name: item[name] for name in table.key.names})
    except NotAsSeen:
        problem = "There is an item with this key already. Nothing was saved."
    except (BadItem, DynamoDBError) as error:
        if isinstance(error, DynamoDBError) and error.retryable:
            raise
        problem = f"Nothing was saved. {error.message if isinstance(error, DynamoDBError) else f'{error}.'}"
    return desk.page(request, "item_new.html", 400, table=table, text=text, problem=problem)


def _ask(desk: Desk, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(desk, request, fields)
    item = _get(desk, table, key)
    changes = item_text.moved(seen, item)
    if item is None or changes:
        return _conflict(desk, request, table, key, NotAsSeen(changes, item), None)
    return desk.page(request, "item_delete.html", **_shown(table, key, item))


def _delete(desk: Desk, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(desk, request, fields)
    try:
        item_changes.delete(desk.source.db, table, key, seen)
    except NotAsSeen as conflict:
        return _conflict(desk, request, table, key, conflict, None)
    return RedirectResponse(f"/tables/{quote(table.name, safe='')}/items", 303)


def _to_item(table: Table, key: Item) -> Response:
    return RedirectResponse(
        f"/tables/{quote(table.name, safe='')}/item?{urlencode({'key': key_text(key), 'saved': '1'})}", 303
    )
