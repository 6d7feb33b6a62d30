"""A table in memory that changes as DynamoDB's would, and refuses what DynamoDB refuses."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, assert_never

from penstock.tables.definitions.aws_shapes import ON_DEMAND_WARM
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.plan import changes as c
from penstock.wire.limits import GLOBAL_INDEXES


class Refusal(Exception):
    """DynamoDB would not have it."""


def apply_all(table: Table | None, changes: tuple[c.Change, ...]) -> Table | None:
    for change in changes:
        table = apply(table, change)
    return table


def apply(table: Table | None, change: c.Change) -> Table | None:
    """The table after one change."""
    if table is None:
        _need(isinstance(change, c.CreateTable), "no such table")
        assert isinstance(change, c.CreateTable)
        return created(change.table)
    match change:
        case c.CreateTable():
            raise Refusal("the table exists")
        case c.DeleteTable():
            _need(not table.deletion_protection, "protected")
            return None
        case c.ReplaceTable(_, wanted):
            return created(wanted)
        case c.DropIndex(index):
            _need(table.index(index.name) is not None, "no such index")
            return _with(table, indexes=tuple(one for one in table.indexes if one.name != index.name))
        case c.AddIndex(index):
            return _index_added(table, index)
        case c.UpdateBilling(billing, _, indexes):
            return _billed(table, billing, dict(indexes))
        case c.UpdateThroughput(units):
            _need(isinstance(table.billing, Throughput) and table.billing != units, "no change of units")
            return _with(table, billing=units)
        case c.UpdateIndexThroughput(name, units):
            _need(isinstance(table.billing, Throughput), "on demand")
            return _with_index(table, name, throughput=units)
        case c.SetMaximum(maximum):
            _need(table.billing == "on-demand", "provisioned")
            return _with(table, on_demand_max=maximum)
        case c.SetIndexMaximum(name, maximum):
            _need(table.billing == "on-demand", "provisioned")
            return _with_index(table, name, on_demand_max=maximum)
        case c.SetWarm(warm):
            _need(_not_falling(_warm(table.warm, table.billing), warm), "warm throughput never falls")
            return _with(table, warm=warm)
        case c.SetIndexWarm(name, warm):
            index = table.index(name)
            assert index is not None
            _need(_not_falling(_warm(index.warm, index.throughput), warm), "warm throughput never falls")
            return _with_index(table, name, warm=warm)
        case c.ClearTtl(attribute):
            _need(table.ttl == attribute, "TTL is not on for it")
            return _with(table, ttl=None)
        case c.SetTtl(attribute):
            _need(table.ttl is None, "TTL is on for another attribute")
            return _with(table, ttl=attribute)
        case c.ClearStream():
            _need(table.stream is not None, "no stream")
            return _with(table, stream=None)
        case c.SetStream(view):
            _need(table.stream is None, "there is a stream")
            return _with(table, stream=view)
        case c.SetPitr(days):
            return _with(table, pitr=days)
        case c.SetTags(tags):
            return _with(table, tags={**(table.tags or {}), **tags})
        case c.RemoveTags(keys):
            return _with(table, tags={key: value for key, value in (table.tags or {}).items() if key not in keys})
        case c.SetDeletionProtection(enabled):
            return _with(table, deletion_protection=enabled)
        case c.SetTableClass(table_class):
            return _with(table, table_class=table_class)
        case c.SetSse(sse):
            return _with(table, sse=sse)
        case _:
            assert_never(change)


def created(wanted: Table) -> Table:
    """What the service answers is concrete, also where the definition says nothing."""
    return _with(
        wanted,
        pitr=wanted.pitr or 0,
        tags=wanted.tags or {},
        table_class=wanted.table_class or "STANDARD",
        deletion_protection=bool(wanted.deletion_protection),
        sse=wanted.sse or False,
    )


def _index_added(table: Table, index: Index) -> Table:
    _need(table.index(index.name) is None, "the index exists")
    _need(len(table.global_indexes) < GLOBAL_INDEXES, "no room")
    _need((index.throughput is not None) == isinstance(table.billing, Throughput), "units do not fit the capacity mode")
    types = {one.name: one.type for one in table.attributes}
    _need(all(types.get(one.name, one.type) == one.type for one in index.key.attributes), "another type")
    return _with(table, indexes=tuple(sorted((*table.indexes, index), key=lambda one: one.name)))


def _billed(table: Table, billing: Any, units: dict[str, Throughput]) -> Table:
    """Becoming provisioned needs units for every index, and forgets maximums; warm throughput stays."""
    _need(isinstance(billing, Throughput) != isinstance(table.billing, Throughput), "no change of mode")
    if isinstance(billing, Throughput):
        _need({one.name for one in table.global_indexes} == set(units), "units for every index")
    indexes = tuple(
        one
        if one.local
        else replace(
            one,
            throughput=units.get(one.name),
            on_demand_max=None,
            warm=_warm(one.warm, one.throughput),
        )
        for one in table.indexes
    )
    warm = _warm(table.warm, table.billing)
    return _with(table, billing=billing, on_demand_max=None, indexes=indexes, warm=warm)


def _warm(warm: Throughput | None, billing: Any) -> Throughput:
    return warm or (billing if isinstance(billing, Throughput) else ON_DEMAND_WARM)


def _not_falling(before: Throughput, after: Throughput) -> bool:
    return after != before and after.read >= before.read and after.write >= before.write


def _with(table: Table, **members: Any) -> Table:
    return Table.unchecked(**{one.name: getattr(table, one.name) for one in fields(table)} | members)


def _with_index(table: Table, name: str, **members: Any) -> Table:
    _need(table.index(name) is not None, "no such index")
    indexes = tuple(replace(one, **members) if one.name == name else one for one in table.indexes)
    return _with(table, indexes=indexes)


def _need(condition: bool, why: str) -> None:
    if not condition:
        raise Refusal(why)
