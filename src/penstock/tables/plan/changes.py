"""Changes of a table: one class a change, what each costs, and what each is called.

A change says what, not how; `apply/requests.py` says how. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM
from penstock.tables.definitions.definition import (
    AnyIndex,
    Attribute,
    Billing,
    Index,
    Maximum,
    Table,
    Throughput,
    VectorIndex,
)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table that is not there, with everything of its definition."""

    table: Table


@dataclass(frozen=True, slots=True)
class DeleteTable:
    """A table that is not wanted; `table` is what would be lost."""

    table: Table


@dataclass(frozen=True, slots=True)
class ReplaceTable:
    """What DynamoDB cannot alter: only another table with the data carried over will do."""

    live: Table
    table: Table
    because: str


@dataclass(frozen=True, slots=True)
class DropIndex:
    index: AnyIndex
    replaced: bool = False
    """Another of the same name follows."""


@dataclass(frozen=True, slots=True)
class AddIndex:
    """`attributes` are the definitions that the request must carry: the index's own key."""

    index: AnyIndex
    replaces: bool = False

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(sorted(set(self.index.key.attributes)))


@dataclass(frozen=True, slots=True)
class UpdateBilling:
    """Another capacity mode. A table that becomes provisioned needs units for each of its indexes in the same call."""

    billing: Billing
    was: Billing
    indexes: tuple[tuple[str, Throughput], ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateThroughput:
    """Other units for a table that stays provisioned."""

    throughput: Throughput
    was: Throughput


@dataclass(frozen=True, slots=True)
class UpdateIndexThroughput:
    index: str
    throughput: Throughput
    was: Throughput | None


@dataclass(frozen=True, slots=True)
class SetMaximum:
    maximum: Maximum


@dataclass(frozen=True, slots=True)
class SetIndexMaximum:
    index: str
    maximum: Maximum


@dataclass(frozen=True, slots=True)
class SetWarm:
    warm: Throughput


@dataclass(frozen=True, slots=True)
class SetIndexWarm:
    index: str
    warm: Throughput


@dataclass(frozen=True, slots=True)
class ClearTtl:
    attribute: str
    replaced: bool = False
    """Another attribute follows, once this one is really off."""


@dataclass(frozen=True, slots=True)
class SetTtl:
    attribute: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class ClearStream:
    view: str
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class SetStream:
    view: str
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class SetPitr:
    """Days that can be restored; 0 is off."""

    days: int
    was: int | None


@dataclass(frozen=True, slots=True)
class SetTags:
    tags: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class RemoveTags:
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetDeletionProtection:
    enabled: bool


@dataclass(frozen=True, slots=True)
class SetTableClass:
    table_class: str


@dataclass(frozen=True, slots=True)
class SetSse:
    sse: bool | str


@dataclass(frozen=True, slots=True)
class SetResourcePolicy:
    """`policy` is its JSON; `was` is '' for a table that has none."""

    policy: str
    was: str = ""


@dataclass(frozen=True, slots=True)
class RemoveResourcePolicy:
    pass


Change = (
    CreateTable
    | DeleteTable
    | ReplaceTable
    | DropIndex
    | AddIndex
    | UpdateBilling
    | UpdateThroughput
    | UpdateIndexThroughput
    | SetMaximum
    | SetIndexMaximum
    | SetWarm
    | SetIndexWarm
    | ClearTtl
    | SetTtl
    | ClearStream
    | SetStream
    | SetPitr
    | SetTags
    | RemoveTags
    | SetDeletionProtection
    | SetTableClass
    | SetSse
    | SetResourcePolicy
    | RemoveResourcePolicy
)


def setting_of(change: Change) -> str | None:
    """The one member of a description that a change is about, `by-due.warm` for that of an index; None for the rest."""
    match change:
        case SetTableClass():
            return "table_class"
        case SetSse():
            return "sse"
        case SetMaximum():
            return "on_demand_max"
        case SetWarm():
            return "warm"
        case SetIndexMaximum(index):
            return f"{index}.on_demand_max"
        case SetIndexWarm(index):
            return f"{index}.warm"
        case SetDeletionProtection():
            return "deletion_protection"
        case SetStream():
            return "stream"
        case _:
            return None


# ── what a change costs ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Quick:
    """Done in moments; nothing waits for it and nothing is lost."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Other changes of the table, or its readers, wait for it."""

    text: str


@dataclass(frozen=True, slots=True)
class Fills:
    """Goes on in the background while the table is in use."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Destroys:
    """Something that cannot be had back without making it again."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not done; `instead` is what to do."""

    instead: str


Cost = Quick | Blocks | Fills | Destroys | Refused


def cost_of(change: Change, items: int = 0) -> Cost:
    """What a change of a table with so many items costs."""
    match change:
        case DeleteTable(table):
            if table.deletion_protection:
                return Refused("it is protected from deletion: set deletion_protection=False first, and apply")
            return Destroys(f"destroys the table and its {count(items, 'item')}")
        case ReplaceTable():
            return Refused("use `penstock tables rekey`, which keeps the data")
        case DropIndex(VectorIndex(), replaced=True):
            return Destroys("searches of it fail until it is made again; a new one under another name leaves no gap")
        case DropIndex(replaced=True):
            return Destroys("queries on it fail until it is made again; `penstock tables change-index` leaves no gap")
        case DropIndex():
            return Destroys("destroys the index; queries on it fail from then on")
        case AddIndex(index):
            return Fills(fill_seconds(index, items))
        case UpdateBilling(billing):
            if isinstance(billing, Throughput):
                return Blocks("the table is UPDATING for some minutes; requests above its units are throttled")
            return Blocks("the table is UPDATING for some minutes; possible 4 times in 24 hours")
        case UpdateThroughput(units, was):
            return _decrease_cost(units, was)
        case UpdateIndexThroughput(_, units, was):
            return _decrease_cost(units, was)
        case ClearTtl(replaced=True):
            return Blocks("DynamoDB takes up to an hour to switch to another attribute; nothing expires meanwhile")
        case ClearTtl():
            return Quick()
        case SetTtl(replaces=None):
            return Destroys("items whose time has passed are deleted from then on")
        case SetTtl():
            return Blocks("waits until the old attribute is off, up to an hour")
        case ClearStream():
            return Destroys("its readers get no new records; the old ones stay readable for 24 hours")
        case SetPitr(0):
            return Destroys("destroys the history: no earlier moment can be restored")
        case SetPitr(days, was) if was and days < was:
            return Destroys(f"destroys the history older than {count(days, 'day')}")
        case SetTableClass():
            return Blocks("the table is UPDATING for some minutes; possible twice in 30 days")
        case SetSse():
            return Blocks("the table is UPDATING for some minutes")
        case SetDeletionProtection(False):
            return Destroys("the table can then be deleted")
        case RemoveResourcePolicy():
            return Destroys("those whom it lets in lose their access")
        case (
            CreateTable()
            | SetDeletionProtection()
            | SetIndexMaximum()
            | SetIndexWarm()
            | SetMaximum()
            | SetPitr()
            | SetResourcePolicy()
            | SetStream()
            | SetTags()
            | RemoveTags()
            | SetWarm()
        ):
            return Quick()
        case _:
            assert_never(change)


def is_destructive(change: Change, items: int = 0) -> bool:
    """Whether a change loses what nobody can bring back by undoing it: data, history, or an index that queries use.

    Such a change is made only if somebody has said so for it: `--allow-destroy`, or the table's name typed. TTL is one
    of them where there are items: those whose time has passed are deleted. The end of deletion protection is none: it
    loses nothing by itself.
    """
    match change:
        case DeleteTable() | DropIndex() | ClearStream():
            return True
        case SetPitr(days, was):
            return bool(was) and days < (was or 0)
        case SetTtl():
            return items > 0
        case _:
            return False


def fill_seconds(index: AnyIndex, items: int) -> float:
    """About how long an index takes to fill: at what it can write, one unit an item."""
    if not isinstance(index, Index):
        return items / ON_DEMAND_WARM.write
    rate = index.warm.write if index.warm else ON_DEMAND_WARM.write
    if index.throughput is not None:
        rate = index.throughput.write
    return items / rate


def _decrease_cost(units: Throughput, was: Throughput | None) -> Cost:
    if was is not None and (units.read < was.read or units.write < was.write):
        return Blocks("a decrease: possible 4 times in the first hour of a day, then once an hour")
    return Quick()


def cost_text(cost: Cost) -> str:
    """A cost in words; '' for one that is none."""
    match cost:
        case Quick():
            return ""
        case Fills(seconds):
            return f"fills in the background, {about(seconds)}"
        case Blocks(text) | Destroys(text) | Refused(text):
            return text
        case _:
            assert_never(cost)


def about(seconds: float) -> str:
    """A time that is an estimate, as one would say it."""
    if seconds < 5:
        return "a few seconds"
    if seconds < 100:
        return f"about {round(seconds)} s"
    if seconds < 100 * 60:
        return f"about {round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"about {round(seconds / 3600)} h"
    return f"about {round(seconds / 86400)} days"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# ── what a change is called ─────────────────────────────────────────────────────────────────────────


def describe(change: Change) -> str:
    """What a change does, in a few words; '' where the table's own line says it."""
    match change:
        case CreateTable() | DeleteTable():
            return ""
        case ReplaceTable(live, wanted):
            return "replace: primary key changes" if live.key != wanted.key else "replace: local indexes change"
        case AddIndex(index):
            return f"+ {index_text(index)}"
        case DropIndex(index):
            return f"- {'index' if isinstance(index, Index) else 'vector index'} {index.name}"
        case UpdateBilling(billing, was):
            return f"~ capacity: {capacity_text(was)} → {capacity_text(billing)}"
        case UpdateThroughput(units, was):
            return f"~ capacity: {capacity_text(was)} → {capacity_text(units)}"
        case UpdateIndexThroughput(name, units, was):
            before = f"{capacity_text(was)} → " if was is not None else ""
            return f"~ index {name}: {before}{capacity_text(units)}"
        case SetMaximum(maximum):
            return f"~ on-demand maximum: {maximum_text(maximum)}"
        case SetIndexMaximum(name, maximum):
            return f"~ index {name}, on-demand maximum: {maximum_text(maximum)}"
        case SetWarm(warm):
            return f"~ warm throughput: {capacity_text(warm)}"
        case SetIndexWarm(name, warm):
            return f"~ index {name}, warm throughput: {capacity_text(warm)}"
        case _:
            return _describe_setting(change)


Setting = (
    ClearStream
    | ClearTtl
    | RemoveResourcePolicy
    | RemoveTags
    | SetDeletionProtection
    | SetPitr
    | SetResourcePolicy
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
        case SetResourcePolicy(_, was):
            return f"{'~' if was else '+'} resource policy"
        case RemoveResourcePolicy():
            return "- resource policy"
        case _:
            assert_never(change)


def index_text(index: AnyIndex) -> str:
    if isinstance(index, Index):
        return f"index {index.name} ({index.key})"
    return f"vector index {index.name} ({index.attribute}, {index.dimensions} dimensions, {index.distance})"


def capacity_text(billing: Billing) -> str:
    return f"{billing.read:,} read, {billing.write:,} write" if isinstance(billing, Throughput) else "on demand"


def _encryption_key(sse: bool | str) -> str:
    if isinstance(sse, str):
        return f"key {sse}"
    return "the account's AWS-managed key" if sse else "DynamoDB's own key"


def maximum_text(maximum: Maximum) -> str:
    parts = [f"{units:,} {what}" for what, units in (("read", maximum.read), ("write", maximum.write)) if units]
    return ", ".join(parts) or "none"


def describe_whole(change: Change) -> str:
    """What happens to a table as a whole."""
    match change:
        case CreateTable(table):
            return f"+ table ({table.key}), indexes: {len(table.every_index)}"
        case DeleteTable(table):
            return f"- table ({table.key})"
        case _:
            return describe(change)
