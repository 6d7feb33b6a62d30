"""What would be done to tables: one class a change, the changes that turn one table into another, and what each costs.

A change says what, not how; `apply/change_requests.py` says how. Everything here is pure.

1. Quiet: things are compared by name and value, never by order; what a definition leaves out is left alone.
2. One legal order: protection before anything else, deletes before creates (a table at its limit has no room), capacity
   before the indexes that need it, one index a change.
3. What DynamoDB cannot alter is one change, `ReplaceTable`, and nothing else is proposed beside it.
4. Applied in order, the changes give a table that differs no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM
from penstock.tables.definitions.definition import Attribute, Billing, Index, Maximum, Table, Throughput
from penstock.tables.definitions.naming import MANAGER, STANDARD_TAGS


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
    index: Index
    replaced: bool = False
    """Another of the same name follows."""


@dataclass(frozen=True, slots=True)
class AddIndex:
    """`attributes` are the definitions that the request must carry: the index's own key."""

    index: Index
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
)


OTHER_KEY = "DynamoDB cannot alter a primary key"
OTHER_LOCAL_INDEXES = "DynamoDB makes local indexes with their table, and cannot alter them later"


def diff(live: Table | None, wanted: Table | None) -> tuple[Change, ...]:
    """The changes that turn `live` into `wanted`, in the order they must run."""
    if live is None:
        return () if wanted is None else (CreateTable(wanted),)
    if wanted is None:
        return (DeleteTable(live),)
    if live.key != wanted.key:
        return (ReplaceTable(live, wanted, OTHER_KEY),)
    if _shapes(live.local_indexes) != _shapes(wanted.local_indexes):
        return (ReplaceTable(live, wanted, OTHER_LOCAL_INDEXES),)
    return (*_safeguards(live, wanted), *_removed(live, wanted), *_changed(live, wanted), *_added(live, wanted))


def _safeguards(live: Table, wanted: Table) -> Iterator[Change]:
    """What protects the data goes before what might hurt it."""
    if wanted.deletion_protection and not live.deletion_protection:
        yield SetDeletionProtection(True)
    if wanted.pitr and wanted.pitr != live.pitr:
        yield SetPitr(wanted.pitr, live.pitr)


def _removed(live: Table, wanted: Table) -> Iterator[Change]:
    # TTL first: DynamoDB takes up to an hour to let go of an attribute, and the rest can be done meanwhile.
    if live.ttl is not None and live.ttl != wanted.ttl:
        yield ClearTtl(live.ttl, replaced=wanted.ttl is not None)
    if live.stream is not None and live.stream != wanted.stream:
        yield ClearStream(live.stream, replaced=wanted.stream is not None)
    gone = tuple(sorted(_own_tags(live).keys() - (wanted.tags or {}).keys()))
    if wanted.tags is not None and gone:
        yield RemoveTags(gone)
    for index in live.global_indexes:
        successor = wanted.index(index.name)
        if successor is None or successor.shape != index.shape:
            yield DropIndex(index, replaced=successor is not None)


def _changed(live: Table, wanted: Table) -> Iterator[Change]:
    yield from _capacity(live, wanted)
    on_demand = wanted.billing == "on-demand"
    stays_on_demand = on_demand and live.billing == "on-demand"
    if on_demand and _differs(live.on_demand_max if stays_on_demand else None, wanted.on_demand_max):
        yield SetMaximum(wanted.on_demand_max or Maximum())
    for before, after in kept_indexes(live, wanted):
        if on_demand and _differs(before.on_demand_max if stays_on_demand else None, after.on_demand_max):
            yield SetIndexMaximum(after.name, after.on_demand_max or Maximum())
    yield from _warmed(live, wanted)
    if wanted.table_class is not None and wanted.table_class != (live.table_class or "STANDARD"):
        yield SetTableClass(wanted.table_class)
    if wanted.sse is not None and not same_key(live.sse or False, wanted.sse):
        yield SetSse(wanted.sse)


def _capacity(live: Table, wanted: Table) -> Iterator[Change]:
    kept = kept_indexes(live, wanted)
    match live.billing, wanted.billing:
        case Throughput() as before, Throughput() as after:
            if before != after:
                yield UpdateThroughput(after, before)
            for old, new in kept:
                if new.throughput is not None and new.throughput != old.throughput:
                    yield UpdateIndexThroughput(new.name, new.throughput, old.throughput)
        case before, Throughput() as after:
            yield UpdateBilling(after, before, tuple((new.name, new.throughput or after) for _, new in kept))
        case Throughput() as before, after:
            yield UpdateBilling(after, before)
        case _:
            pass


def _added(live: Table, wanted: Table) -> Iterator[Change]:
    for index in wanted.global_indexes:
        before = live.index(index.name)
        if before is None or before.shape != index.shape:
            yield AddIndex(index, replaces=before is not None)
    if wanted.stream is not None and wanted.stream != live.stream:
        yield SetStream(wanted.stream, replaces=live.stream)
    new_tags = {key: value for key, value in (wanted.tags or {}).items() if (live.tags or {}).get(key) != value}
    if new_tags:
        yield SetTags(new_tags)
    if wanted.ttl is not None and wanted.ttl != live.ttl:
        yield SetTtl(wanted.ttl, replaces=live.ttl)
    # What protects the data is given up last.
    if wanted.pitr == 0 and live.pitr:
        yield SetPitr(0, live.pitr)
    if wanted.deletion_protection is False and live.deletion_protection:
        yield SetDeletionProtection(False)


def kept_indexes(live: Table, wanted: Table) -> tuple[tuple[Index, Index], ...]:
    """The global indexes that stay, as they are and as they should be."""
    pairs = ((live.index(after.name), after) for after in wanted.global_indexes)
    return tuple((before, after) for before, after in pairs if before is not None and before.shape == after.shape)


def _warmed(live: Table, wanted: Table) -> Iterator[Change]:
    if wanted.warm is not None:
        risen = _risen(live.warm, live.billing, wanted.warm)
        if risen is not None:
            yield SetWarm(risen)
    for before, after in kept_indexes(live, wanted):
        if after.warm is not None:
            risen = _risen(before.warm, before.throughput or live.billing, after.warm)
            if risen is not None:
                yield SetIndexWarm(after.name, risen)


def _risen(now: Throughput | None, billing: Billing, wanted: Throughput) -> Throughput | None:
    """What to ask for: it can rise and never fall, and it grows by itself; None if it is enough already."""
    base = billing if isinstance(billing, Throughput) else ON_DEMAND_WARM
    now = now or base
    risen = Throughput(max(now.read, wanted.read), max(now.write, wanted.write))
    return None if risen == now else risen


def _differs(live: Maximum | None, wanted: Maximum | None) -> bool:
    return wanted is not None and wanted != (live or Maximum())


def _own_tags(live: Table) -> Mapping[str, str]:
    """The live tags that a definition may remove: not those that Penstock puts on what it makes."""
    tags = dict(live.tags or {})
    if tags.get("ManagedBy") == MANAGER:
        return {key: value for key, value in tags.items() if key not in STANDARD_TAGS}
    return tags


def same_key(live: bool | str, wanted: bool | str) -> bool:
    """Whether a table is encrypted as wanted, as far as its description tells.

    DynamoDB tells the ARN of a key, also of the account's AWS-managed one, and never an alias: where the two cannot be
    compared, the table is taken to be right.
    """
    if isinstance(live, str) and isinstance(wanted, str):
        if wanted.startswith("alias/") or ":alias/" in wanted:
            return True if ":alias/" not in live else live.endswith(wanted.rpartition(":")[2])
        return live == wanted or live.endswith(f"/{wanted}")
    if isinstance(live, str):
        return wanted is True
    return live == wanted


def _shapes(indexes: tuple[Index, ...]) -> dict[str, object]:
    return {index.name: index.shape for index in indexes}


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


Fate = Literal["create", "change", "delete", "refused", "keep"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table under its full name: its changes, in their order, and how many items they concern."""

    name: str
    changes: tuple[Change, ...] = ()
    items: int = 0

    @property
    def fate(self) -> Fate:
        if not self.changes:
            return "keep"
        if any(isinstance(self.cost(change), Refused) for change in self.changes):
            return "refused"
        match self.changes[0]:
            case CreateTable():
                return "create"
            case DeleteTable():
                return "delete"
            case _:
                return "change"

    @property
    def replaces(self) -> bool:
        return any(isinstance(change, ReplaceTable) for change in self.changes)

    def cost(self, change: Change) -> Cost:
        return cost_of(change, self.items)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every table that was looked at, also those with nothing to do."""

    tables: tuple[TablePlan, ...]

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it should be."""
        return all(not table.changes for table in self.tables)

    @property
    def counts(self) -> dict[Fate, int]:
        """How many tables meet each fate; those that none meets are 0."""
        found = Counter(table.fate for table in self.tables)
        fates: tuple[Fate, ...] = ("create", "change", "delete", "refused", "keep")
        return {fate: found[fate] for fate in fates}


def plan_table(name: str, live: Table | None, wanted: Table | None, items: int = 0) -> TablePlan:
    """The plan of one table under its full name."""
    return TablePlan(name, diff(live, wanted), items)


def plan_of(tables: Iterable[TablePlan]) -> Plan:
    """The plan of several tables."""
    return Plan(tuple(tables))
