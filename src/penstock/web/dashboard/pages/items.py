"""`/tables/{name}/items`: searching and exporting items. `/tables/{name}/item`: reading, editing and deleting one.

A save or delete is conditional on what the page has shown (items/conditional_writes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.client.reads.pages import InvalidToken
from penstock.errors import DynamoDBError
from penstock.tables.definitions.definition import Table
from penstock.web.dashboard import audit
from penstock.web.dashboard.items import conditional_writes, item_text
from penstock.web.dashboard.items import search as search_form
from penstock.web.dashboard.items.conditional_writes import EditConflict
from penstock.web.dashboard.items.export import MOST_ITEMS, Export
from penstock.web.dashboard.items.item_text import BadItem, cell, key_text
from penstock.web.dashboard.items.search import BadSearch, Filter, ItemPage, Search, find
from penstock.web.dashboard.pages.tables import TableView, read_table
from penstock.web.dashboard.site import Site, disposition
from penstock.web.dashboard.source import NoJobs
from penstock.web.problems import Problem
from penstock.wire.values import Item, item_size

_COLUMNS: Final = 8
_MOST_COLUMNS: Final = 60
_EMPTY_ROWS: Final = 2


def routes(site: Site) -> list[Route]:
    def listing(request: Request) -> Response:
        view = read_table(site.source.db, request.path_params["name"], ttl=False)
        search = Search.parse(request.query_params.multi_items())
        token = request.query_params.get("from") or None
        page, problem = _search(site, view.table, search, token)
        wanted = request.query_params.getlist("c")[:_MOST_COLUMNS]
        context = _list_context(view, search, token, page, problem, wanted)
        return site.page(request, "items.html", 200 if problem is None else 400, **context)

    def export(request: Request) -> Response:
        table = read_table(site.source.db, request.path_params["name"], ttl=False).table
        form = request.query_params.get("format", "json")
        if form not in ("csv", "json"):
            raise Problem(400, "Items are exported as csv or json.", "Choose one of them.")
        try:
            made = Export(site.source.db.execute, table, Search.parse(request.query_params.multi_items()))
        except BadSearch as error:
            raise Problem(400, str(error), "Mend the search, and export again.") from None
        except DynamoDBError as error:
            if error.retryable:
                raise
            raise Problem(400, error.message, "Mend the search, and export again.") from None
        headers = {"Content-Disposition": disposition(f"{table.name}.{form}")}
        kind = "text/csv; charset=utf-8" if form == "csv" else "application/json"
        return StreamingResponse(made.csv() if form == "csv" else made.json(), 200, headers, kind)

    items = [Route("/tables/{name}/items", listing), Route("/tables/{name}/export", export)]
    return [*items, *_item_routes(site), *_change_routes(site)]


def _search(site: Site, table: Table, search: Search, token: str | None) -> tuple[ItemPage, str | None]:
    """The items; or none, and the error in the search."""
    try:
        return find(site.source.db.execute, table, search, token), None
    except (BadSearch, InvalidToken) as error:
        return ItemPage([], None, 0, 0.0), str(error)
    except DynamoDBError as error:
        if error.retryable:
            raise
        return ItemPage([], None, 0, 0.0), error.message


def _list_context(
    view: TableView,
    search: Search,
    token: str | None,
    page: ItemPage,
    problem: str | None,
    wanted: Sequence[str],
) -> dict[str, Any]:
    table = view.table
    known = search.index == "" or table.index(search.index) is not None
    key = search_form.key_of(table, search.index if known else "")
    keys = list(dict.fromkeys([*table.key.names, *key.names]))
    columns, more = _columns(keys, page.items, wanted)
    names = sorted({name for item in page.items for name in item} | set(wanted) - set(keys))[:_MOST_COLUMNS]
    chosen = [("c", name) for name in wanted]
    rows = [
        (
            key_text({name: item[name] for name in table.key.names}),
            [cell(item[name]) if name in item else None for name in columns],
            sum(1 for name in item if name not in columns),
        )
        for item in page.items
    ]
    return {
        "here": "items",
        "view": view,
        "search": search,
        "key": key,
        "hash_texts": _pad(search.hash, len(key.hash)),
        "range_texts": _pad(search.range, len(key.range)),
        "filters": [*search.filters, *([Filter()] * _EMPTY_ROWS)],
        "sort_operators": search_form.SORT_OPERATORS,
        "filter_operators": search_form.FILTER_OPERATORS,
        "value_types": search_form.VALUE_TYPES,
        "columns": columns,
        "numbers": {one.name for one in table.attributes if one.type == "N"},
        "rows": rows,
        "more_columns": more,
        "page": page,
        "problem": problem,
        "is_first": token is None,
        "first": urlencode([*search.pairs(), *chosen]),
        "next": None if page.token is None else urlencode([*search.pairs(), *chosen, ("from", page.token)]),
        "names": [name for name in names if name not in keys],
        "operation": "Query" if search.is_query else "Scan",
        "similar": view.table.vector_indexes,
        "exports": [(form, search.query(format=form)) for form in ("csv", "json")],
        "most_exported": MOST_ITEMS,
    }


def _pad(texts: Sequence[str], count: int) -> list[str]:
    return [*texts[:count], *([""] * (count - len(texts)))]


def _columns(keys: list[str], items: Sequence[Item], wanted: Sequence[str]) -> tuple[list[str], int]:
    """The key, then what was chosen, or the most frequent attributes; and how many attributes have no column."""
    if wanted:
        shown = list(dict.fromkeys([*keys, *wanted]))
        return shown, len({name for item in items for name in item} - set(shown))
    counts = Counter(name for item in items for name in item if name not in keys)
    others = sorted(counts, key=lambda name: (-counts[name], name))
    room = max(2, _COLUMNS - len(keys))
    return [*keys, *others[:room]], max(0, len(others) - room)


# ── one item ─────────────────────────────────────────────────────────────────────────────────────

_SHOWN_CHARACTERS: Final = 20_000
_EDITABLE_BYTES: Final = 100_000
"""Of a form: it stays below the dashboard's limit on a request."""

Fields = dict[str, list[str]]


def _item_routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        table, key, item = _requested_item(site, request)
        if item is None:
            raise Problem(404, f"{table.name} has no item {key_text(key)[:200]}.", "It may have been deleted.")
        return site.page(request, "item.html", **_item_context(table, key, item, saved="saved" in request.query_params))

    def download(request: Request) -> Response:
        table, key, item = _requested_item(site, request)
        if item is None:
            raise Problem(404, f"{table.name} has no item {key_text(key)[:200]}.", "It may have been deleted.")
        headers = {"Content-Disposition": disposition(f"{table.name}-item.json")}
        return Response(item_text.item_text(item), 200, headers, "application/json")

    def new(request: Request) -> Response:
        table = read_table(site.source.db, request.path_params["name"], ttl=False).table
        example: Item = {one.name: {one.type: ""} for one in table.key.attributes}
        return site.page(request, "item_new.html", table=table, text=item_text.item_text(example), problem=None)

    return [
        Route("/tables/{name}/item", show),
        Route("/tables/{name}/item.json", download),
        Route("/tables/{name}/new", new),
    ]


def _requested_item(site: Site, request: Request) -> tuple[Table, Item, Item | None]:
    table = read_table(site.source.db, request.path_params["name"], ttl=False).table
    key = read_key_of(table, request.query_params.get("key", ""))
    return table, key, _get(site, table, key)


def read_key_of(table: Table, text: str) -> Item:
    try:
        key = item_text.read_key(text)
        if set(key) != set(table.key.names):
            raise BadItem(f"the key of {table.name} is {table.key}")
        return conditional_writes.key_of(table, key)
    except BadItem as error:
        raise Problem(404, f"That is no key: {error}.", "Find the item in the list of items.") from None


def _get(site: Site, table: Table, key: Item) -> Item | None:
    try:
        return conditional_writes.get(site.source.db, table, key)
    except DynamoDBError as error:
        if error.retryable:
            raise
        raise Problem(400, error.message, "Find the item in the list of items.") from None


def _item_context(
    table: Table,
    key: Item,
    item: Item,
    *,
    text: str | None = None,
    problem: str | None = None,
    conflict: EditConflict | None = None,
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
        "plain": item_text.plain_text(item),
        "similar": [one.name for one in table.vector_indexes if one.attribute in item],
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


def _differences(conflict: EditConflict, text: str | None) -> list[tuple[item_text.AttributeChange, str, str]]:
    """Each changed attribute, with its present value and its value in the form's text."""
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


def _change_routes(site: Site) -> list[Route]:
    def form_handler(handle: Callable[[Site, Request, Fields], Response]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            fields = await site.access.read_form(request)
            return await run_in_threadpool(handle, site, request, fields)

        return answer

    return [
        Route("/tables/{name}/item", form_handler(_save), methods=["POST"]),
        Route("/tables/{name}/new", form_handler(_create), methods=["POST"]),
        Route("/tables/{name}/item/delete", form_handler(_ask), methods=["POST"]),
        Route("/tables/{name}/item/deleted", form_handler(_delete), methods=["POST"]),
    ]


def _form(site: Site, request: Request, fields: Fields) -> tuple[Table, Item, dict[str, str]]:
    """The table, the key and the hashes of what the form showed."""
    table = read_table(site.source.db, request.path_params["name"], ttl=False).table
    key = read_key_of(table, fields.get("key", [""])[0])
    try:
        return table, key, item_text.read_seen(fields.get("seen", [""])[0])
    except BadItem as error:
        raise Problem(400, f"{error}.".capitalize(), "Load the item's page again.") from None


def _save(site: Site, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(site, request, fields)
    text = fields.get("item", [""])[0]
    try:
        conditional_writes.save(site.source.db, table, key, item_text.read_item(text), seen)
    except EditConflict as conflict:
        return _conflict(site, request, table, key, conflict, text)
    except (BadItem, DynamoDBError) as error:
        if isinstance(error, DynamoDBError) and error.retryable:
            raise
        problem = error.message if isinstance(error, DynamoDBError) else f"{error}."
        return _form_again(site, request, table, key, text, seen, f"Nothing was saved. {problem}")
    write_down(site, request, "changed", table, key)
    return _to_item(table, key)


def _form_again(
    site: Site, request: Request, table: Table, key: Item, text: str, seen: dict[str, str], problem: str
) -> Response:
    """The form as it was sent, with its error; it keeps the hashes that it had."""
    item = _get(site, table, key)
    if item is None:
        return _conflict(site, request, table, key, EditConflict(item_text.changes_since(seen, None), None), text)
    context = _item_context(table, key, item, text=text, problem=problem)
    context["seen"] = item_text.seen_text(seen)
    return site.page(request, "item.html", 400, **context)


def _conflict(
    site: Site, request: Request, table: Table, key: Item, conflict: EditConflict, text: str | None
) -> Response:
    if conflict.now is None:
        return site.page(request, "item_gone.html", 409, table=table, text=text, key_text=key_text(key))
    context = _item_context(table, key, conflict.now, text=text, conflict=conflict)
    return site.page(request, "item.html", 409, **context)


def _create(site: Site, request: Request, fields: Fields) -> Response:
    table = read_table(site.source.db, request.path_params["name"], ttl=False).table
    text = fields.get("item", [""])[0]
    try:
        item = item_text.read_item(text)
        conditional_writes.create(site.source.db, table, item)
        key = {name: item[name] for name in table.key.names}
        write_down(site, request, "created", table, key)
        return _to_item(table, key)
    except EditConflict:
        problem = "There is an item with this key already. Nothing was saved."
    except (BadItem, DynamoDBError) as error:
        if isinstance(error, DynamoDBError) and error.retryable:
            raise
        problem = f"Nothing was saved. {error.message if isinstance(error, DynamoDBError) else f'{error}.'}"
    return site.page(request, "item_new.html", 400, table=table, text=text, problem=problem)


def _ask(site: Site, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(site, request, fields)
    item = _get(site, table, key)
    changes = item_text.changes_since(seen, item)
    if item is None or changes:
        return _conflict(site, request, table, key, EditConflict(changes, item), None)
    return site.page(request, "item_delete.html", **_item_context(table, key, item))


def _delete(site: Site, request: Request, fields: Fields) -> Response:
    table, key, seen = _form(site, request, fields)
    try:
        conditional_writes.delete(site.source.db, table, key, seen)
    except EditConflict as conflict:
        return _conflict(site, request, table, key, conflict, None)
    write_down(site, request, "deleted", table, key)
    return RedirectResponse(f"/tables/{quote(table.name, safe='')}/items", 303)


def write_down(site: Site, request: Request, what: str, table: Table, key: Item) -> None:
    """In the activity log, which is in the table of jobs: without one there is no log."""
    try:
        store = site.source.store()
    except NoJobs:
        return
    audit.record(store, site.access.visitor(request), what, f"item {table.name} {key_text(key)}")


def _to_item(table: Table, key: Item) -> Response:
    return RedirectResponse(
        f"/tables/{quote(table.name, safe='')}/item?{urlencode({'key': key_text(key), 'saved': '1'})}", 303
    )
