"""A plan as people read it (text, styled lines) and as programs do (JSON). Everything here is pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from penstock.tables.definitions.export_file import export_form
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    Cost,
    CreateTable,
    DeleteTable,
    Destroys,
    DropIndex,
    Fills,
    Quick,
    Refused,
    RemoveResourcePolicy,
    RemoveTags,
    ReplaceTable,
    cost_text,
    count,
    describe,
    describe_whole,
)
from penstock.tables.plan.created import created_lines
from penstock.tables.plan.plan import Plan, TablePlan

# ── for people ──────────────────────────────────────────────────────────────────────────────────────


Style = Literal["plain", "create", "change", "delete", "replace", "cost", "danger"]

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a line, and what it is."""

    text: str
    style: Style = "plain"


Line = tuple[Segment, ...]


def render_text(plan: Plan) -> str:
    """The plan as plain text, without an end of line after the last."""
    return "\n".join("".join(piece.text for piece in line) for line in render_lines(plan))


def render_lines(plan: Plan) -> tuple[Line, ...]:
    """One line a change, a new table in full, the tables' names in one column, and the sum below."""
    with_changes = [table for table in plan.tables if table.changes]
    texts = [[(describe(change), cost_text(cost)) for change, cost in table.priced] for table in with_changes]
    name_width = max((len(table.name) for table in with_changes), default=0)
    change_width = max((len(change) for rows in texts for change, _ in rows), default=0)
    lines = [
        line
        for table, rows in zip(with_changes, texts, strict=True)
        for line in _table_lines(table, rows, name_width, change_width)
    ]
    return (*lines, (Segment(render_summary(plan)),))


def render_summary(plan: Plan) -> str:
    """`Plan: 1 to create, 1 to change, 1 refused.`"""
    counts = plan.counts
    parts = [f"{counts[fate]} to {fate}" for fate in ("create", "change", "delete") if counts[fate]]
    if counts["refused"]:
        parts.append(f"{counts['refused']} refused")
    if parts:
        return f"Plan: {', '.join(parts)}."
    return f"Nothing to do: {count(len(plan.tables), 'table')} as defined."


def _table_lines(table: TablePlan, texts: list[tuple[str, str]], name_width: int, change_width: int) -> Iterator[Line]:
    head, style = _marker(table)
    name = f"{head:>3} {table.name}"
    if isinstance(table.changes[0], CreateTable):
        for text in created_lines(table.changes[0].table):
            yield Segment(name.ljust(4 + name_width), style), Segment(_GAP + text, "create")
            name = ""
        return
    for (change, cost), (change_text, price) in zip(table.priced, texts, strict=True):
        pieces = [Segment(name.ljust(4 + name_width) if change_text or price else name, style)]
        if change_text or price:
            pieces.append(Segment(_GAP + (change_text.ljust(change_width) if price else change_text), _style(change)))
        if price:
            pieces.append(Segment(_GAP + price, "danger" if isinstance(cost, Destroys | Refused) else "cost"))
        yield tuple(pieces)
        name = ""


def _marker(table: TablePlan) -> tuple[str, Style]:
    match table.changes[0]:
        case CreateTable():
            return "+", "create"
        case DeleteTable():
            return "-", "delete"
        case ReplaceTable():
            return "-/+", "replace"
        case _:
            return "~", "change"


def _style(change: Change) -> Style:
    match change:
        case AddIndex():
            return "create"
        case DropIndex() | DeleteTable() | ClearTtl() | ClearStream() | RemoveTags() | RemoveResourcePolicy():
            return "delete"
        case ReplaceTable():
            return "replace"
        case _:
            return "change"


# ── for programs ──────────────────────────────────────────────────────────────────────────────────────


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan for a program: every table with its fate, its changes and their costs, and the sums."""
    return {"tables": [_table_json(table) for table in plan.tables], "counts": dict(plan.counts)}


def _table_json(table: TablePlan) -> dict[str, Any]:
    changes = [_change_json(change, cost, table) for change, cost in table.priced]
    return {"table": table.name, "fate": table.fate, "items": table.items, "changes": changes}


def _change_json(change: Change, cost: Cost, table: TablePlan) -> dict[str, Any]:
    form: dict[str, Any] = {"change": type(change).__name__, "text": describe_whole(change)}
    index = getattr(change, "index", None)
    if index is not None:
        form["index"] = index if isinstance(index, str) else index.name
    if isinstance(change, ReplaceTable):
        form["because"] = change.because
    if isinstance(change, CreateTable):
        form["definition"] = export_form(change.table, warm=True)
    if change in table.destructive:
        form["destructive"] = True
    return form | {"cost": _cost_json(cost)}


def _cost_json(cost: Cost) -> dict[str, Any]:
    form: dict[str, Any] = {"kind": type(cost).__name__.lower()}
    if isinstance(cost, Quick):
        return form
    if isinstance(cost, Fills):
        form["seconds"] = round(cost.seconds, 1)
    return form | {"text": cost_text(cost)}
