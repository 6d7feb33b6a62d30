"""`/tables`: the list of tables. `/tables/{name}`: one table, its indexes as they fill, its heat map and its drift."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.engine.items.expiry_rows import LONGEST_PAST_SECONDS
from penstock.errors import DynamoDBError, PenstockError, ResourceNotFoundException
from penstock.registry import system_tables
from penstock.tables.apply.table_changer import percent_of
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.aws_shapes import Facts
from penstock.tables.definitions.definition import PRODUCTION, Key, Naming, Table, Throughput
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.definitions.sources import Definitions, load
from penstock.tables.plan.changes import Destroys, Refused, cost_text, describe_whole
from penstock.tables.plan.plan import TablePlan
from penstock.tables.plan.render import render_summary
from penstock.tables.plan.survey import side_by_side, survey
from penstock.tables.state.second_look import forget_untold
from penstock.web.dashboard.charts import heat_map
from penstock.web.dashboard.poller import Feed, KeyedFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

Json = dict[str, Any]

PAGE_TABLES: Final = 50
_COUNTED_FREE: Final = 20_000
_COUNTED_PAID: Final = 2_000


@dataclass(frozen=True, slots=True)
class IndexLine:
    """An index; `percent` is the progress of one that is being created, None if unknown."""

    name: str
    key: Key
    kind: str
    projection: str
    status: str
    items: int
    bytes: int
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class VectorLine:
    """A vector index; those that are being deleted too, which the table's definition has no more."""

    name: str
    attribute: str
    dimensions: int
    distance: str
    projection: str
    status: str
    items: int
    bytes: int
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class TableView:
    table: Table
    facts: Facts
    indexes: tuple[IndexLine, ...]
    vectors: tuple[VectorLine, ...]
    created_at: float | None

    @property
    def capacity(self) -> str:
        billing = self.table.billing
        return f"{billing.read:,} read, {billing.write:,} write" if isinstance(billing, Throughput) else "on demand"

    @property
    def in_motion(self) -> bool:
        return self.facts.status != "ACTIVE" or bool(self.changing)

    @property
    def changing(self) -> tuple[IndexLine | VectorLine, ...]:
        """The indexes that are being created or deleted."""
        indexes: tuple[IndexLine | VectorLine, ...] = (*self.indexes, *self.vectors)
        return tuple(index for index in indexes if index.status != "ACTIVE")


def view_of(description: Json, ttl: Json | None = None) -> TableView:
    """From the answer of DescribeTable, and of DescribeTimeToLive if there is one."""
    table = aws_shapes.from_description(description, ttl=ttl)
    lines = [_index_line(description, one, local=True) for one in description.get("LocalSecondaryIndexes") or ()]
    lines += [_index_line(description, one, local=False) for one in description.get("GlobalSecondaryIndexes") or ()]
    vectors = tuple(_vector_line(description, one) for one in description.get("VectorIndexes") or ())
    created = description.get("CreationDateTime")
    return TableView(table, aws_shapes.facts_of(description), tuple(lines), vectors, _seconds(created))


def _index_line(description: Json, index: Json, *, local: bool) -> IndexLine:
    types = {one["AttributeName"]: one["AttributeType"] for one in description["AttributeDefinitions"]}
    # A deleted index's key may have no type any more.
    types |= {one["AttributeName"]: "S" for one in index["KeySchema"] if one["AttributeName"] not in types}
    key, kind = aws_shapes.key_of(index["KeySchema"], types), "local" if local else "global"
    return IndexLine(index["IndexName"], key, kind, *_progress(description, index))


def _vector_line(description: Json, index: Json) -> VectorLine:
    name, distance = index["VectorAttribute"]["AttributeName"], str(index["DistanceFunction"])
    return VectorLine(index["IndexName"], name, int(index["Dimensions"]), distance, *_progress(description, index))


def _progress(description: Json, index: Json) -> tuple[str, str, int, int, int | None]:
    """The projection, the status, the items, the bytes, and how much is filled."""
    kept, status = index["Projection"], str(index.get("IndexStatus", "ACTIVE"))
    kind = str(kept["ProjectionType"])
    return (
        ", ".join(kept.get("NonKeyAttributes", ())) if kind == "INCLUDE" else kind.lower().replace("_", " "),
        status,
        int(index.get("ItemCount") or 0),
        int(index.get("IndexSizeBytes") or 0),
        percent_of(description, index, 0.0, None) if status == "CREATING" else None,
    )


def _seconds(moment: Any) -> float | None:
    """A description has a number; boto3 makes a datetime of it."""
    if moment is None:
        return None
    return float(moment.timestamp()) if hasattr(moment, "timestamp") else float(moment)


def read_table(db: Database, name: str, *, ttl: bool = True) -> TableView:
    """The table of that name. Raises Problem 404, with similar names."""
    try:
        description = db.execute("DescribeTable", {"TableName": name})["Table"]
        answer = time_to_live(db, name) if ttl else None
        return view_of(description, answer)
    except ResourceNotFoundException:
        raise _unknown(db, name) from None
    except DynamoDBError as error:
        if error.retryable or error.code != "ValidationException":
            raise
        raise _unknown(db, name) from None  # no table can have such a name


def time_to_live(db: Database, name: str) -> Json | None:
    """None where this endpoint does not support it."""
    try:
        return db.execute("DescribeTimeToLive", {"TableName": name})
    except ResourceNotFoundException:
        return {}
    except DynamoDBError as error:
        if error.retryable:
            raise
        return None


def _unknown(db: Database, name: str) -> Problem:
    names: list[str] = []
    with suppress(PenstockError):
        names = db.tables()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}? All of them are at /tables." if near else "All tables are at /tables."
    return Problem(404, f"There is no table {name[:100]} in {db.name}.", hint)


# ── expired items ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Backlog:
    """Items that have expired and are not deleted yet, of `looked_at` items."""

    count: int
    looked_at: int
    whole: bool


def is_free(db: Database) -> bool:
    """Whether reading costs nothing."""
    return not db.capabilities.metered


def count_backlog(db: Database, name: str, attribute: str, now: float) -> Backlog:
    """Counts among the first items of the table; `whole` says whether those are all."""
    most = _COUNTED_FREE if is_free(db) else _COUNTED_PAID
    request: Json = {
        "TableName": name,
        "Select": "COUNT",
        "FilterExpression": "#ttl BETWEEN :low AND :now",
        "ExpressionAttributeNames": {"#ttl": attribute},
        "ExpressionAttributeValues": {
            ":low": {"N": str(int(now) - LONGEST_PAST_SECONDS)},
            ":now": {"N": str(int(now))},
        },
        "Limit": most,
    }
    count = looked_at = 0
    for answer in read_pages(db.execute, "Scan", request):
        count += answer["Count"]
        looked_at += answer["ScannedCount"]
        if looked_at >= most and answer.get("LastEvaluatedKey"):
            return Backlog(count, looked_at, False)
        request["Limit"] = most - looked_at
    return Backlog(count, looked_at, True)


# ── drift ────────────────────────────────────────────────────────────────────────────────────────

# A form may name one of the systems that ship with Penstock, and nothing else: other definitions are Python modules or
# files, and only whoever starts the dashboard names those (`penstock up --definitions`).
OWN: Final = "own"
"""The form's name for the definitions of the command line."""
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9_.-]{0,50}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Definitions that the form may name."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class DriftLine:
    """One change that would make a table what its definition says."""

    table: str
    there: bool
    fate: str
    what: str
    cost: str
    danger: bool


@dataclass(frozen=True, slots=True)
class Drift:
    chosen: str
    """The form's name for them."""
    source: str
    environment: str
    lines: tuple[DriftLine, ...]
    same: tuple[str, ...]
    """Tables that match their definitions."""
    not_compared: tuple[str, ...]
    summary: str

    def of(self, table: str) -> Drift | None:
        """The part of one table; None where the definitions do not have it."""
        lines = tuple(line for line in self.lines if line.table == table)
        same = tuple(name for name in self.same if name == table)
        if not lines and not same:
            return None
        return Drift(self.chosen, self.source, self.environment, lines, same, self.not_compared, self.summary)


def choices(own: Definitions | None) -> list[Choice]:
    choices_of_systems = [Choice(name, name) for name in system_tables()]
    return choices_of_systems if own is None else [Choice(OWN, own.source), *choices_of_systems]


def read_drift(db: Database, own: Definitions | None, chosen: str, environment: str, layout: str) -> Drift:
    """Compares every defined table with its definition: what `penstock tables plan` would do. Changes nothing.

    Raises Problem for definitions that the form may not name.
    """
    if not _ENVIRONMENT.fullmatch(environment):
        raise Problem(400, "An environment is a word such as staging.", "Go back and mend it.")
    definitions = _definitions(own, chosen, layout)
    naming = Naming(definitions.prefix, environment or PRODUCTION)
    try:
        surveyed = forget_untold(db, survey(db, definitions.tables, naming))
    except DefinitionError as error:
        raise Problem(400, str(error), "Choose another environment.") from None
    there = {one.name: one.live is not None for one in surveyed.tables}
    lines = [line for one in surveyed.plan.tables for line in _lines(one, there[one.name])]
    same = tuple(one.name for one in surveyed.plan.tables if not one.changes)
    source, environment = definitions.source, naming.environment
    return Drift(chosen, source, environment, tuple(lines), same, surveyed.not_compared, render_summary(surveyed.plan))


def _definitions(own: Definitions | None, chosen: str, layout: str) -> Definitions:
    if chosen == OWN and own is not None:
        return own
    if chosen not in system_tables():
        raise Problem(
            400,
            "These definitions may not be named here.",
            f"Choose one of {', '.join(system_tables())}, or start with `penstock up --definitions MODULE:NAME`.",
        )
    variables: Mapping[str, str] = os.environ
    try:
        return load(chosen, system_tables(), layout="compat" if layout == "compat" else "safe", variables=variables)
    except (PenstockError, ValueError) as error:
        raise Problem(400, str(error), "Choose another layout.") from None


def _lines(plan: TablePlan, there: bool) -> list[DriftLine]:
    return [
        DriftLine(
            plan.name,
            there,
            plan.fate,
            describe_whole(change),
            cost_text(cost),
            isinstance(cost, Destroys | Refused),
        )
        for change, cost in plan.priced
    ]


def guess_definitions(table: str, own: Definitions | None) -> tuple[str, str]:
    """The definitions and the environment that a table's name suggests; ("", "") if none."""
    for choice in choices(own):
        definitions = _definitions(own, choice.value, "safe")
        for suffix in sorted((one.name for one in definitions.tables), key=len, reverse=True):
            prefix = f"{definitions.prefix}-" if definitions.prefix else ""
            if table.startswith(prefix) and table.endswith(suffix):
                middle = table.removeprefix(prefix).removesuffix(suffix).strip("-")
                if middle and not prefix:
                    continue  # any table's name may end like this
                naming = Naming(definitions.prefix, middle or PRODUCTION)
                if naming.full_name(suffix) == table:
                    return choice.value, naming.environment
    return "", ""


# ── the pages ────────────────────────────────────────────────────────────────────────────────────

_PARALLEL_READS: Final = 8


def routes(site: Site) -> list[Route]:
    def listing(request: Request) -> Response:
        start = request.query_params.get("from", "")
        names, following = _names(site, start)
        views = side_by_side(lambda name: _read_view(site, name), names, _PARALLEL_READS)
        return site.page(
            request,
            "tables.html",
            tables=[view for view in views if view is not None],
            next=following,
            is_first=not start,
            compared=_chosen_drift(site, request),
            **_choices(site, request),
        )

    def show(request: Request) -> Response:
        view = read_table(site.source.db, request.path_params["name"])
        attribute = view.table.ttl
        count = attribute is not None and (is_free(site.source.db) or "backlog" in request.query_params)
        backlog = None
        if count and attribute is not None:
            backlog = count_backlog(site.source.db, view.facts.name, attribute, site.clock.now())
        live = f"table?key={view.facts.name}"
        return site.page(request, "table.html", live=live, here="", view=view, backlog=backlog)

    def heat(request: Request) -> Response:
        view = read_table(site.source.db, request.path_params["name"], ttl=False)
        live = f"heat?key={view.facts.name}"
        return site.page(request, "table_heat.html", live=live, here="heat", view=view, **_heat(site, view.facts.name))

    def drift(request: Request) -> Response:
        view = read_table(site.source.db, request.path_params["name"], ttl=False)
        name = view.facts.name
        chosen = _choices(site, request)
        if not chosen["chosen"]:
            chosen["chosen"], chosen["environment"] = guess_definitions(name, site.source.definitions)
        found = _drift(site, chosen) if chosen["chosen"] else None
        ours = None if found is None else found.of(name)
        return site.page(request, "table_drift.html", here="drift", view=view, compared=ours, whole=found, **chosen)

    return [
        Route("/tables", listing),
        Route("/tables/{name}", show),
        Route("/tables/{name}/heat", heat),
        Route("/tables/{name}/drift", drift),
    ]


def _heat(site: Site, name: str) -> dict[str, Any]:
    counted = heat_map.read_counters(site.source.db)
    resources = [] if counted is None else heat_map.resources_of(counted, name)
    return {
        "counted": counted,
        "resources": resources,
        "drawing": heat_map.draw_heat_map(resources),
        "shades": range(heat_map.SHADES),
        "throttled": sum(one.throttled for one in resources),
    }


# ── the list ─────────────────────────────────────────────────────────────────────────────────────


def _names(site: Site, start: str) -> tuple[list[str], str | None]:
    """A page of names, and where the next one begins."""
    request: dict[str, Any] = {"Limit": PAGE_TABLES}
    if start:
        request["ExclusiveStartTableName"] = start
    try:
        answer = site.source.db.execute("ListTables", request)
    except DynamoDBError as error:
        if error.retryable or not start:
            raise
        raise Problem(400, f"The list cannot begin after {start[:100]}.", "Begin at /tables.") from None
    return list(answer["TableNames"]), answer.get("LastEvaluatedTableName")


def _read_view(site: Site, name: str) -> TableView | None:
    """None for a table that was deleted meanwhile."""
    db = site.source.db
    try:
        return view_of(db.execute("DescribeTable", {"TableName": name})["Table"], time_to_live(db, name))
    except ResourceNotFoundException:
        return None


# ── drift ────────────────────────────────────────────────────────────────────────────────────────


def _choices(site: Site, request: Request) -> dict[str, Any]:
    return {
        "choices": choices(site.source.definitions),
        "chosen": request.query_params.get("definitions", ""),
        "environment": request.query_params.get("env", ""),
        "layout": request.query_params.get("layout", "safe"),
    }


def _chosen_drift(site: Site, request: Request) -> Drift | None:
    chosen = _choices(site, request)
    return _drift(site, chosen) if chosen["chosen"] else None


def _drift(site: Site, chosen: Mapping[str, Any]) -> Drift:
    source = site.source
    return read_drift(source.db, source.definitions, chosen["chosen"], chosen["environment"], chosen["layout"])


# ── live ─────────────────────────────────────────────────────────────────────────────────────────


def feeds(site: Site) -> dict[str, Feed]:
    def draw(name: str) -> str:
        """States, sizes and the progress of indexes."""
        try:
            view = view_of(site.source.db.execute("DescribeTable", {"TableName": name})["Table"])
        except PenstockError as error:
            if error.retryable:
                raise
            view = None  # the table was deleted, or the key is no name of a table
        return site.live_fragment("table_live.html", view=view)

    def draw_heat(name: str) -> str:
        return site.live_fragment("table_heat_live.html", **_heat(site, name))

    return {"table": KeyedFeed("table", draw), "heat": KeyedFeed("heat", draw_heat)}
