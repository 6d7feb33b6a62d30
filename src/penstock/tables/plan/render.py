"""A plan as a person reads it, and as a program does.

`lines` gives styled pieces: whoever prints them chooses the colours. `text` is the same without any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from penstock.tables.definitions.definition import Billing, Maximum, Throughput
from penstock.tables.plan.plan import (
    AddIndex,
    Blocks,
    Change,
    ClearStream,
    ClearTtl,
    Cost,
    CreateTable,
    DeleteTable,
    Destroys,
    DropIndex,
    Fills,
    Plan,
    Quick,
    Refused,
    RemoveTags,
    ReplaceTable,
    SetDeletionProtection,
    SetIndexMaximum,
    SetIndexWarm,
    SetMaximum,
    SetPitr,
    SetSse,
    SetStream,
    SetTableClass,
    SetTags,
    SetTtl,
    SetWarm,
    TablePlan,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    cost_text,
    count,
)

Style = Literal["plain", "create", "change", "delete", "replace", "cost", "danger"]

_GAP = "   "


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a line, and what it is."""

    text: str
    style: Style = "plain"


Line = tuple[Segment, ...]


def text(plan: Plan) -> str:
    """The plan as plain text, without an end of line after the last."""
    return "\n".join("".join(piece.text for piece in line) for line in lines(plan))


def lines(plan: Plan) -> tuple[Line, ...]:
    """One line a change, the tables' names in one column, and the sum below."""
    shown = [table for table in plan.tables if table.changes]
    names = max((len(table.name) for table in shown), default=0)
    deeds = max((len(describe(change)) for table in shown for change in table.changes), default=0)
    body = (line for table in shown for line in _table_lines(table, names, deeds))
    return (*body, (Segment(summary(plan)),))


def summary(plan: Plan) -> str:
    """`Plan: 1 to create, 1 to change, 1 refused.`"""
    counts = plan.counts
    parts = [f"{counts[fate]} to {fate}" for fate in ("create", "change", "delete") if counts[fate]]
    if counts["refused"]:
        parts.append(f"{counts['refused']} refused")
    if parts:
        return f"Plan: {', '.join(parts)}."
    return f"Nothing to do: {count(len(plan.tables), 'table')} as defined."


def _table_lines(table: TablePlan, names: int, deeds: int) -> Iterable[Line]:
    marker, style = _marker(table)
    for at, change in enumerate(table.changes):
        head = f"{marker:>3} {table.name}" if at == 0 else ""
        deed, cost = describe(change), table.cost(change)
        if not deed and not cost_text(cost):
            yield (Segment(head, style),)
            continue
        yield _line(Segment(head.ljust(4 + names), style), deed, deeds, cost, change)


def _line(head: Segment, deed: str, deeds: int, cost: Cost, change: Change) -> Line:
    costs = cost_text(cost)
    piece = Segment(_GAP + (deed.ljust(deeds) if costs else deed), _style(change))
    if not costs:
        return head, piece
    danger = isinstance(cost, Destroys | Refused)
    return head, piece, Segment(_GAP + costs, "danger" if danger else "cost")


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
        case DropIndex() | DeleteTable() | ClearTtl() | ClearStream() | RemoveTags():
            return "delete"
        case ReplaceTable():
            return "replace"
        case _:
            return "change"


def describe(change: Change) -> str:
    """What a change does, in a few words; '' where the table's own line says it."""
    match change:
        case CreateTable() | DeleteTable():
            return ""
        case ReplaceTable(live, wanted):
            return "replace: primary key changes" if live.key != wanted.key else "replace: local indexes change"
        case AddIndex(index):
            return f"+ index {index.name} ({index.key})"
        case DropIndex(index):
            return f"- index {index.name}"
        case UpdateBilling(billing, was):
            return f"~ capacity: {_capacity(was)} → {_capacity(billing)}"
        case UpdateThroughput(units, was):
            return f"~ capacity: {_capacity(was)} → {_capacity(units)}"
        case UpdateIndexThroughput(name, units, was):
            before = f"{_capacity(was)} → " if was is not None else ""
            return f"~ index {name}: {before}{_capacity(units)}"
        case SetMaximum(maximum):
            return f"~ on-demand maximum: {_maximum(maximum)}"
        case SetIndexMaximum(name, maximum):
            return f"~ index {name}, on-demand maximum: {_maximum(maximum)}"
        case SetWarm(warm):
            return f"~ warm throughput: {_capacity(warm)}"
        case SetIndexWarm(name, warm):
            return f"~ index {name}, warm throughput: {_capacity(warm)}"
        case _:
            return _describe_setting(change)


Setting = (
    ClearStream
    | ClearTtl
    | RemoveTags
    | SetDeletionProtection
    | SetPitr
    | SetSse
    | SetStream
    | SetTableClass
    | SetTags
    | SetTtl
)


def _describe_setting(change: Setting) -> str:
    match change:
        case SetTtl(attribute):
            return f"+ ttl {attribute}"
        case ClearTtl(attribute):
            return f"- ttl {attribute}"
        case SetStream(view):
            return f"+ stream {view}"
        case ClearStream(view):
            return f"- stream {view}"
        case SetPitr(0):
            return "- point-in-time recovery"
        case SetPitr(days, was):
            return f"{'~' if was else '+'} point-in-time recovery, {count(days, 'day')}"
        case SetTags(tags):
            return f"+ tags {', '.join(f'{key}={value}' for key, value in tags.items())}"
        case RemoveTags(keys):
            return f"- tags {', '.join(keys)}"
        case SetDeletionProtection(enabled):
            return f"{'+' if enabled else '-'} deletion protection"
        case SetTableClass(table_class):
            return f"~ table class {table_class}"
        case SetSse(sse):
            return f"~ encryption with {_encryption_key(sse)}"
        case _:
            assert_never(change)


def _capacity(billing: Billing) -> str:
    return f"{billing.read:,} read, {billing.write:,} write" if isinstance(billing, Throughput) else "on demand"


def _encryption_key(sse: bool | str) -> str:
    if isinstance(sse, str):
        return f"key {sse}"
    return "the account's AWS-managed key" if sse else "DynamoDB's own key"


def _maximum(maximum: Maximum) -> str:
    parts = [f"{units:,} {what}" for what, units in (("read", maximum.read), ("write", maximum.write)) if units]
    return ", ".join(parts) or "none"


# ── as JSON ──────────────────────────────────────────────────────────────────────────────────────


def as_json(plan: Plan) -> dict[str, Any]:
    """The plan for a program: every table with its fate, its changes and their costs, and the sums."""
    return {"tables": [_table_json(table) for table in plan.tables], "counts": dict(plan.counts)}


def _table_json(table: TablePlan) -> dict[str, Any]:
    changes = [_change_json(table, change) for change in table.changes]
    return {"table": table.name, "fate": table.fate, "items": table.items, "changes": changes}


def _change_json(table: TablePlan, change: Change) -> dict[str, Any]:
    cost = table.cost(change)
    form: dict[str, Any] = {"change": type(change).__name__, "text": describe(change) or describe_whole(change)}
    index = getattr(change, "index", None)
    if index is not None:
        form["index"] = index if isinstance(index, str) else index.name
    if isinstance(change, ReplaceTable):
        form["because"] = change.because
    return form | {"cost": _cost_json(cost)}


def describe_whole(change: Change) -> str:
    """What happens to a table as a whole."""
    match change:
        case CreateTable(table):
            return f"+ table ({table.key}), indexes: {len(table.indexes)}"
        case DeleteTable(table):
            return f"- table ({table.key})"
        case _:
            return describe(change)


def _cost_json(cost: Cost) -> dict[str, Any]:
    match cost:
        case Quick():
            return {"kind": "quick"}
        case Fills(seconds):
            return {"kind": "fills", "seconds": round(seconds, 1), "text": cost_text(cost)}
        case Blocks(words):
            return {"kind": "blocks", "text": words}
        case Destroys(words):
            return {"kind": "destroys", "text": words}
        case Refused(words):
            return {"kind": "refused", "text": words}
        case _:
            assert_never(cost)
