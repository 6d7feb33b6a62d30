"""`/tables`: what tables there are. `/tables/{name}`: one of them, its indexes as they are filled, heat and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import DynamoDBError, PenstockError, ResourceNotFoundException
from penstock.tables.plan.inspect import side_by_side
from penstock.web.dashboard import drift, heat_map, table_facts
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.drift import Drift
from penstock.web.dashboard.live import Feed, Message, fragment
from penstock.web.dashboard.table_facts import TableView, look, time_to_live, view_of
from penstock.web.problems import Problem

_LOOKS: Final = 8
"""Tables that are looked at side by side."""
_DRAWN_A_POLL: Final = 4
"""Tables that are looked at in one poll of all open pages; more of them take turns."""


def routes(desk: Desk) -> list[Route]:
    def listing(request: Request) -> Response:
        start = request.query_params.get("from", "")
        names, following = _names(desk, start)
        views = side_by_side(lambda name: _looked(desk, name), names, _LOOKS)
        return desk.page(
            request,
            "tables.html",
            tables=[view for view in views if view is not None],
            next=following,
            is_first=not start,
            compared=_compared(desk, request),
            **_choices(desk, request),
        )

    def show(request: Request) -> Response:
        view = look(desk.source.db, request.path_params["name"])
        attribute = view.table.ttl
        count = attribute is not None and (table_facts.is_free(desk.source.db) or "backlog" in request.query_params)
        backlog = None
        if count and attribute is not None:
            backlog = table_facts.backlog(desk.source.db, view.facts.name, attribute, desk.clock.now())
        live = f"table?key={view.facts.name}"
        return desk.page(request, "table.html", live=live, here="", view=view, backlog=backlog)

    def heat(request: Request) -> Response:
        view = look(desk.source.db, request.path_params["name"], ttl=False)
        counted = heat_map.told(desk.source.db)
        resources = [] if counted is None else heat_map.resources_of(counted, view.facts.name)
        return desk.page(
            request,
            "table_heat.html",
            here="heat",
            view=view,
            counted=counted,
            resources=resources,
            drawing=heat_map.drawn(resources),
            shades=range(heat_map.SHADES),
            throttled=sum(one.throttled for one in resources),
        )

    def differing(request: Request) -> Response:
        view = look(desk.source.db, request.path_params["name"], ttl=False)
        name = view.facts.name
        chosen = _choices(desk, request)
        if not chosen["chosen"]:
            chosen["chosen"], chosen["environment"] = drift.guessed(name, desk.source.definitions)
        found = _drift(desk, chosen) if chosen["chosen"] else None
        ours = None if found is None else found.of(name)
        return desk.page(request, "table_drift.html", here="drift", view=view, compared=ours, whole=found, **chosen)

    return [
        Route("/tables", listing),
        Route("/tables/{name}", show),
        Route("/tables/{name}/heat", heat),
        Route("/tables/{name}/drift", differing),
    ]


# ── the list ─────────────────────────────────────────────────────────────────────────────────────


def _names(desk: Desk, start: str) -> tuple[list[str], str | None]:
    """A page of names, and where the next one begins."""
    request: dict[str, Any] = {"Limit": table_facts.PAGE_TABLES}
    if start:
        request["ExclusiveStartTableName"] = start
    try:
        answer = desk.source.db.execute("ListTables", request)
    except DynamoDBError as error:
        if error.retryable or not start:
            raise
        raise Problem(400, f"The list cannot begin after {start[:100]}.", "Begin at /tables.") from None
    return list(answer["TableNames"]), answer.get("LastEvaluatedTableName")


def _looked(desk: Desk, name: str) -> TableView | None:
    """None for a table that is gone by now."""
    db = desk.source.db
    try:
        return view_of(db.execute("DescribeTable", {"TableName": name})["Table"], time_to_live(db, name))
    except ResourceNotFoundException:
        return None


# ── drift ────────────────────────────────────────────────────────────────────────────────────────


def _choices(desk: Desk, request: Request) -> dict[str, Any]:
    return {
        "choices": drift.choices(desk.source.definitions),
        "chosen": request.query_params.get("definitions", ""),
        "environment": request.query_params.get("env", ""),
        "layout": request.query_params.get("layout", "safe"),
    }


def _compared(desk: Desk, request: Request) -> Drift | None:
    chosen = _choices(desk, request)
    return _drift(desk, chosen) if chosen["chosen"] else None


def _drift(desk: Desk, chosen: Mapping[str, Any]) -> Drift:
    source = desk.source
    return drift.compared(source.db, source.definitions, chosen["chosen"], chosen["environment"], chosen["layout"])


# ── live ─────────────────────────────────────────────────────────────────────────────────────────


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"table": _TableFeed(desk)}


class _TableFeed:
    """States, sizes and how far indexes are; a few tables a poll, in turn."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._turn = 0

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        start = self._turn % max(1, len(keys))
        self._turn += _DRAWN_A_POLL
        return {key: [self._drawn(key)] for key in [*keys[start:], *keys[:start]][:_DRAWN_A_POLL]}

    def _drawn(self, name: str) -> Message:
        db = self._desk.source.db
        try:
            view = view_of(db.execute("DescribeTable", {"TableName": name})["Table"])
        except ResourceNotFoundException:
            view = None
        except PenstockError as error:
            if error.retryable:
                raise
            view = None  # no name of a table: somebody has made up the key
        return fragment("table", self._desk.fragment("table_live.html", view=view))

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()
