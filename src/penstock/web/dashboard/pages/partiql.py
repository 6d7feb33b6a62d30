"""`/partiql`: a box for a SELECT. Nothing is changed here: a statement that would is refused."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import DynamoDBError
from penstock.web.dashboard.items.item_text import cell, plain_text
from penstock.web.dashboard.site import Site

_PAGE_ITEMS: Final = 50
_MOST_COLUMNS: Final = 12
_LONGEST_STATEMENT: Final = 8_192


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        text = request.query_params.get("statement", "")[:_LONGEST_STATEMENT]
        form = "json" if request.query_params.get("as") == "json" else "table"
        context = _run(site, text, request.query_params.get("from") or None) if text.strip() else _EMPTY
        following = context["token"] and urlencode({"statement": text, "as": form, "from": context["token"]})
        status = 400 if context["problem"] else 200
        return site.page(request, "partiql.html", status, text=text, form=form, next=following, **context)

    return [Route("/partiql", show)]


_EMPTY: Final[dict[str, Any]] = {"columns": [], "rows": [], "json": [], "token": None, "units": None, "problem": ""}


def _run(site: Site, text: str, token: str | None) -> dict[str, Any]:
    if not text.lstrip().lower().startswith("select"):
        told = "Only SELECT is run here. Change items on their pages, or with `penstock sql`."
        return {**_EMPTY, "problem": told}
    call: dict[str, Any] = {"Statement": text, "Limit": _PAGE_ITEMS, "ReturnConsumedCapacity": "TOTAL"}
    try:
        answer = site.source.db.execute("ExecuteStatement", call if token is None else {**call, "NextToken": token})
    except DynamoDBError as error:
        if error.retryable:
            raise
        return {**_EMPTY, "problem": error.message}
    items = answer.get("Items", [])
    columns = list(dict.fromkeys(name for item in items for name in item))[:_MOST_COLUMNS]
    return {
        **_EMPTY,
        "columns": columns,
        "rows": [[cell(item[name]) if name in item else None for name in columns] for item in items],
        "json": [plain_text(item) for item in items],
        "token": answer.get("NextToken"),
        "units": (answer.get("ConsumedCapacity") or {}).get("CapacityUnits"),
    }
