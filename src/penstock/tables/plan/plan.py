"""What would be done to tables: the changes that turn one table into another, and the plan of a fleet.

Everything here is pure.

1. Quiet: things are compared by name and value, never by order; what a definition leaves out is left alone.
2. One legal order: protection before anything else, deletes before creates (a table at its limit has no room), capacity
   before the indexes that need it, one index a change.
3. What DynamoDB cannot alter is one change, `ReplaceTable`, and nothing else is proposed beside it.
4. Applied in order, the changes give a table that differs no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM
from penstock.tables.definitions.definition import MANAGER, STANDARD_TAGS, Billing, Index, Maximum, Table, Throughput
from penstock.tables.definitions.resource_policy import same_policy
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    Cost,
    CreateTable,
    DeleteTable,
    DropIndex,
    Refused,
    RemoveResourcePolicy,
    RemoveTags,
    ReplaceTable,
    SetDeletionProtection,
    SetIndexMaximum,
    SetIndexWarm,
    SetMaximum,
    SetPitr,
    SetResourcePolicy,
    SetSse,
    SetStream,
    SetTableClass,
    SetTags,
    SetTtl,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    cost_of,
    is_destructive,
)

OTHER_KEY = "DynamoDB cannot alter a primary key"
OTHER_LOCAL_INDEXES = "DynamoDB makes local indexes with their table, and cannot alter them later"


Kept = tuple[tuple[Index, Index], ...]
"""The global indexes that stay, as they are and as they should be."""


def diff(live: Table | None, wanted: Table | None) -> tuple[Change, ...]:
    """The changes that turn `live` into `wanted`, in the order they must run."""
    if live is None:
        return () if wanted is None else (CreateTable(wanted),)
    if wanted is None:
        return (DeleteTable(live),)
    wanted = without_ignored(live, wanted)
    if live.key != wanted.key:
        return (ReplaceTable(live, wanted, OTHER_KEY),)
    if _shapes(live.local_indexes) != _shapes(wanted.local_indexes):
        return (ReplaceTable(live, wanted, OTHER_LOCAL_INDEXES),)
    return (*_safeguards(live, wanted), *_removals(live, wanted), *_updates(live, wanted), *_additions(live, wanted))


def without_ignored(live: Table, wanted: Table) -> Table:
    """The definition, with what it leaves to others as it was found."""
    if not wanted.ignore:
        return wanted
    found = wanted.replace(**{name: getattr(live, name) for name in wanted.ignore})
    return found.replace(indexes=tuple(_index_without_ignored(live, index, wanted.ignore) for index in found.indexes))


def _index_without_ignored(live: Table, index: Index, ignored: tuple[str, ...]) -> Index:
    if index.local:
        return index
    before = live.index(index.name)
    if "billing" in ignored:
        provisioned = live.billing if isinstance(live.billing, Throughput) else None
        own = index.throughput if before is None else before.throughput
        index = replace(index, throughput=provisioned and (own or provisioned))
        if provisioned is not None:
            index = replace(index, on_demand_max=None)
    if before is not None and "on_demand_max" in ignored:
        index = replace(index, on_demand_max=None)
    if before is not None and "warm" in ignored:
        index = replace(index, warm=None)
    return index


def _safeguards(live: Table, wanted: Table) -> Iterator[Change]:
    """What protects the data goes before what might hurt it."""
    if wanted.deletion_protection and not live.deletion_protection:
        yield SetDeletionProtection(True)
    if wanted.pitr and wanted.pitr != live.pitr:
        yield SetPitr(wanted.pitr, live.pitr)


def _removals(live: Table, wanted: Table) -> Iterator[Change]:
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
    for vectors in live.vector_indexes:
        other = wanted.vector_index(vectors.name)
        if other is None or other.shape != vectors.shape:
            yield DropIndex(vectors, replaced=other is not None)


def _updates(live: Table, wanted: Table) -> Iterator[Change]:
    kept = _kept_indexes(live, wanted)
    yield from _capacity(live, wanted, kept)
    on_demand = wanted.billing == "on-demand"
    stays_on_demand = on_demand and live.billing == "on-demand"
    if on_demand and _differs(live.on_demand_max if stays_on_demand else None, wanted.on_demand_max):
        yield SetMaximum(wanted.on_demand_max or Maximum())
    for before, after in kept:
        if on_demand and _differs(before.on_demand_max if stays_on_demand else None, after.on_demand_max):
            yield SetIndexMaximum(after.name, after.on_demand_max or Maximum())
    yield from _warm_changes(live, wanted, kept)
    if wanted.table_class is not None and wanted.table_class != (live.table_class or "STANDARD"):
        yield SetTableClass(wanted.table_class)
    if wanted.sse is not None and not same_key(live.sse or False, wanted.sse):
        yield SetSse(wanted.sse)


def _capacity(live: Table, wanted: Table, kept: Kept) -> Iterator[Change]:
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


def _additions(live: Table, wanted: Table) -> Iterator[Change]:
    for index in wanted.global_indexes:
        before = live.index(index.name)
        if before is None or before.shape != index.shape:
            yield AddIndex(index, replaces=before is not None)
    for vectors in wanted.vector_indexes:
        there = live.vector_index(vectors.name)
        if there is None or there.shape != vectors.shape:
            yield AddIndex(vectors, replaces=there is not None)
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
    yield from _policy_changes(live, wanted)


def _policy_changes(live: Table, wanted: Table) -> Iterator[Change]:
    """Last of all: a policy may be what lets the caller make the other changes."""
    before, after = live.resource_policy or "", wanted.resource_policy
    if after is not None and not same_policy(before, after):
        yield SetResourcePolicy(after, before) if after else RemoveResourcePolicy()


def _kept_indexes(live: Table, wanted: Table) -> Kept:
    """The global indexes that stay, as they are and as they should be."""
    pairs = ((live.index(after.name), after) for after in wanted.global_indexes)
    return tuple((before, after) for before, after in pairs if before is not None and before.shape == after.shape)


def _warm_changes(live: Table, wanted: Table, kept: Kept) -> Iterator[Change]:
    if wanted.warm is not None:
        risen = _raise_capacity(live.warm, live.billing, wanted.warm)
        if risen is not None:
            yield SetWarm(risen)
    for before, after in kept:
        if after.warm is not None:
            risen = _raise_capacity(before.warm, before.throughput or live.billing, after.warm)
            if risen is not None:
                yield SetIndexWarm(after.name, risen)


def _raise_capacity(now: Throughput | None, billing: Billing, wanted: Throughput) -> Throughput | None:
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


Fate = Literal["create", "change", "delete", "refused", "keep"]


@dataclass(frozen=True)
class TablePlan:
    """One table under its full name: its changes, in their order, and how many items they concern."""

    name: str
    changes: tuple[Change, ...] = ()
    items: int = 0

    @cached_property
    def priced(self) -> tuple[tuple[Change, Cost], ...]:
        """Each change with what it costs."""
        return tuple([(change, cost_of(change, self.items)) for change in self.changes])

    @property
    def refusal(self) -> tuple[Change, Refused] | None:
        """The first change that is never made; nothing of the table is changed then."""
        return next(((change, cost) for change, cost in self.priced if isinstance(cost, Refused)), None)

    @property
    def destructive(self) -> tuple[Change, ...]:
        """The changes that would be made and that lose something: see `is_destructive`."""
        if self.refusal is not None:
            return ()  # nothing of it is made
        return tuple(change for change in self.changes if is_destructive(change, self.items))

    @property
    def fate(self) -> Fate:
        if not self.changes:
            return "keep"
        if self.refusal is not None:
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
