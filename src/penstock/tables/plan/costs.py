"""What a change costs: whether it blocks, fills in the background, destroys something or cannot be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM
from penstock.tables.definitions.definition import Index, Throughput
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    CreateTable,
    DeleteTable,
    DropIndex,
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
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
)


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
            return _lowered(units, was)
        case UpdateIndexThroughput(_, units, was):
            return _lowered(units, was)
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
        case (
            CreateTable()
            | SetDeletionProtection()
            | SetIndexMaximum()
            | SetIndexWarm()
            | SetMaximum()
            | SetPitr()
            | SetStream()
            | SetTags()
            | RemoveTags()
            | SetWarm()
        ):
            return Quick()
        case _:
            assert_never(change)


def fill_seconds(index: Index, items: int) -> float:
    """About how long an index takes to fill: at what it can write, one unit an item."""
    rate = index.warm.write if index.warm else ON_DEMAND_WARM.write
    if index.throughput is not None:
        rate = index.throughput.write
    return items / rate


def _lowered(units: Throughput, was: Throughput | None) -> Cost:
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
