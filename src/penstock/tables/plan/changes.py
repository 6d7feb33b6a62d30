"""What can be done to a table: one class a change. A change says what, not how; `requests` says how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.tables.definitions.definition import Attribute, Billing, Index, Maximum, Table, Throughput


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
