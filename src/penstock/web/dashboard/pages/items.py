"""`/tables/{name}/items`: looking for items, and taking them away as a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.client.reads.pages import InvalidToken
from penstock.errors import DynamoDBError
from penstock.tables.definitions.definition import Table
from penstock.web.dashboard import searches
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.item_exports import MOST_ITEMS, Export
from penstock.web.dashboard.item_text import cell, key_text
from penstock.web.dashboard.pages.job import disposition
from penstock.web.dashboard.searches import BadSearch, Filter, Found, Search, find
from penstock.web.dashboard.table_facts import TableView, look
from penstock.web.problems import Problem
from penstock.wire.values import Item

_COLUMNS: Final = 8
_EMPTY_ROWS: Final = 2


def routes(desk: Desk) -> list[Route]:
    def listing(request: Request) -> Response:
        view = look(desk.source.db, request.path_params["name"], ttl=False)
        search = Search.parse(request.query_params.multi_items())
        token = request.query_params.get("from") or None
        found, problem = _found(desk, view.table, search, token)
        return desk.page(
            request, "items.html", 200 if problem is None else 400, **_listing(view, search, token, found, problem)
        )

    def export(request: Request) -> Response:
        table = look(desk.source.db, request.path_params["name"], ttl=False).table
        form = request.query_params.get("format", "json")
        if form not in ("csv", "json"):
            raise Problem(400, "Items are exported as csv or json.", "Choose one of them.")
        try:
            made = Export(desk.source.db.execute, table, Search.parse(request.query_params.multi_items()))
        except BadSearch as error:
            raise Problem(400, str(error), "Mend the search, and export again.") from None
        except DynamoDBError as error:
            if error.retryable:
                raise
            raise Problem(400, error.message, "Mend the search, and export again.") from None
        headers = {"Content-Disposition": disposition(f"{table.name}.{form}")}
        kind = "text/csv; charset=utf-8" if form == "csv" else "application/json"
        return StreamingResponse(made.csv() if form == "csv" else made.json(), 200, headers, kind)

    return [Route("/tables/{name}/items", listing), Route("/tables/{name}/export", export)]


def _found(desk: Desk, table: Table, search: Search, token: str | None) -> tuple[Found, str | None]:
    """The items; or none, and what is wrong with the search."""
    try:
        return find(desk.source.db.execute, table, search, token), None
    except (BadSearch, InvalidToken) as error:
        return Found([], None, 0), str(error)
    except DynamoDBError as error:
        if error.retryable:
            raise
        return Found([], None, 0), error.message


def _listing(view: TableView, search: Search, token: str | None, found: Found, problem: str | None) -> dict[str, Any]:
    table = view.table
    known = search.index == "" or table.index(search.index) is not None
    key = searches.key_of(table, search.index if known else "")
    columns, more = _columns(list(dict.fromkeys([*table.key.names, *key.names])), found.items)
    rows = [
        (
            urlencode({"key": key_text({name: item[name] for name in table.key.names})}),
            [cell(item[name]) if name in item else None for name in columns],
            sum(1 for name in item if name not in columns),
        )
        for item in found.items
    ]
    return {
        "here": "items",
        "view": view,
        "search": search,
        "key": key,
        "hash_texts": _padded(search.hash, len(key.hash)),
        "range_texts": _padded(search.range, len(key.range)),
        "filters": [*search.filters, *([Filter()] * _EMPTY_ROWS)],
        "sort_operators": searches.SORT_OPERATORS,
        "filter_operators": searches.FILTER_OPERATORS,
        "value_types": searches.VALUE_TYPES,
        "columns": columns,
        "numbers": {one.name for one in table.attributes if one.type == "N"},
        "rows": rows,
        "more_columns": more,
        "found": found,
        "problem": problem,
        "is_first": token is None,
        "first": search.query(),
        "next": None if found.token is None else search.query(**{"from": found.token}),
        "exports": [(form, search.query(format=form)) for form in ("csv", "json")],
        "most_exported": MOST_ITEMS,
    }


def _padded(texts: Sequence[str], count: int) -> list[str]:
    return [*texts[:count], *([""] * (count - len(texts)))]


def _columns(keys: list[str], items: Sequence[Item]) -> tuple[list[str], int]:
    """The key, then what most items have; and how many attributes have no column."""
    counts = Counter(name for item in items for name in item if name not in keys)
    others = sorted(counts, key=lambda name: (-counts[name], name))
    room = max(2, _COLUMNS - len(keys))
    return [*keys, *others[:room]], max(0, len(others) - room)
