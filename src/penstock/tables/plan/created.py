"""A new table in full, as a plan shows it: a line for its key, for each index and for each setting. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.tables.definitions.definition import (
    AnyIndex,
    Attribute,
    Index,
    Key,
    Maximum,
    Table,
    Throughput,
    VectorIndex,
)
from penstock.tables.plan.changes import (
    Change,
    SetDeletionProtection,
    SetPitr,
    SetResourcePolicy,
    SetSse,
    SetStream,
    SetTableClass,
    SetTags,
    SetTtl,
    capacity_text,
    describe,
    maximum_text,
)


def created_lines(table: Table) -> tuple[str, ...]:
    """`key id (S)`, `index by-email: email (S), all attributes`, `on demand`, `ttl expires`, …"""
    settings = (describe(one)[2:] for one in _settings(table))  # without the sign of a change
    return (
        f"key {_key(table.key)}",
        *map(_index, table.indexes),
        *map(_vector_index, table.vector_indexes),
        _capacity(table),
        *settings,
    )


def _key(key: Key) -> str:
    parts = [", ".join(map(_attribute, key.hash))]
    if key.range:
        parts.append(f"sort key {', '.join(map(_attribute, key.range))}")
    return ", ".join(parts)


def _attribute(attribute: Attribute) -> str:
    return f"{attribute.name} ({attribute.type})"


def _index(index: Index) -> str:
    words = [_key(index.key), _projection(index)]
    if index.throughput is not None:
        words.append(capacity_text(index.throughput))
    words += _bounds(index.on_demand_max, index.warm)
    return f"{'local ' if index.local else ''}index {index.name}: {', '.join(words)}"


def _vector_index(index: VectorIndex) -> str:
    words = [index.attribute, f"{index.dimensions} dimensions", index.distance]
    if index.partition is not None:
        words.append(f"partition {_attribute(index.partition)}")
    if index.filters:
        words.append(f"filters {', '.join(map(_attribute, index.filters))}")
    return f"vector index {index.name}: {', '.join([*words, _projection(index)])}"


def _projection(index: AnyIndex) -> str:
    if not isinstance(index.projection, str):
        return f"with {', '.join(index.projection)}"
    return {"ALL": "all attributes", "KEYS_ONLY": "keys only"}.get(index.projection, index.projection)


def _capacity(table: Table) -> str:
    return ", ".join([capacity_text(table.billing), *_bounds(table.on_demand_max, table.warm)])


def _bounds(maximum: Maximum | None, warm: Throughput | None) -> Iterator[str]:
    if maximum is not None:
        yield f"at most {maximum_text(maximum)}"
    if warm is not None:
        yield f"warm for {capacity_text(warm)}"


def _settings(table: Table) -> Iterator[Change]:
    """What is set with the table; what is off, or not said, has no line."""
    if table.ttl is not None:
        yield SetTtl(table.ttl)
    if table.stream is not None:
        yield SetStream(table.stream)
    if table.pitr:
        yield SetPitr(table.pitr, None)
    if table.table_class is not None:
        yield SetTableClass(table.table_class)
    if table.sse is not None:
        yield SetSse(table.sse)
    if table.deletion_protection:
        yield SetDeletionProtection(True)
    if table.resource_policy:
        yield SetResourcePolicy(table.resource_policy)
    if table.tags:
        yield SetTags(table.tags)
