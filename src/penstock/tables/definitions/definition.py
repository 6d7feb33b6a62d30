"""A table as it should be, written down; and what it is called: its prefix, its environment and its suffix.

1. A `Table` that was written down is one that DynamoDB would accept: the constructor refuses everything else, all
   problems at once.
2. Spelling does not matter: equal tables are equal values, whatever the order of their indexes and tags.
3. Keys, indexes, capacity, TTL and stream are always the definition's. What is None in it (PITR, tags, encryption,
   table class, deletion protection, on-demand maximum, warm throughput, resource policy) is left as it is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from penstock.tables.definitions.arguments import calling_line, checked_arguments
from penstock.tables.definitions.problems import (
    NAME_CHARACTERS,
    NAME_MEND,
    SHORTEST_NAME,
    DefinitionError,
    Problem,
    check,
    has_name_characters,
)
from penstock.tables.definitions.resource_policy import policy_text

PITR_DAYS = 35
"""How far back point-in-time recovery reaches unless told otherwise, and at most."""


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """A key attribute: its name and its type (S, N or B)."""

    name: str
    type: str

    @classmethod
    def parse(cls, text: str | Attribute) -> Attribute:
        """`email:S`. The type is what follows the last colon; a text without one has the type ''."""
        if isinstance(text, Attribute) or not isinstance(text, str):
            return text  # what is no text is left as it is: `check` refuses it
        name, colon, kind = text.rpartition(":")
        return cls(name, kind) if colon else cls(kind, "")

    def __str__(self) -> str:
        return f"{self.name}:{self.type}"


@dataclass(frozen=True, slots=True)
class Key:
    """The attributes of a table's or an index's key: HASH parts, then RANGE parts."""

    hash: tuple[Attribute, ...]
    range: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.hash + self.range

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.attributes)

    def __str__(self) -> str:
        return ", ".join(self.names)


@checked_arguments
@dataclass(frozen=True, slots=True)
class Throughput:
    """Capacity units, or units a second, for reads and for writes."""

    read: int
    write: int


@checked_arguments
@dataclass(frozen=True, slots=True)
class Maximum:
    """The most that an on-demand table or index may use a second; None is no limit."""

    read: int | None = None
    write: int | None = None


Billing = Literal["on-demand"] | Throughput
ON_DEMAND: Billing = "on-demand"


@checked_arguments
@dataclass(frozen=True, slots=True, init=False)
class Index:
    """A global index (or, with `local`, a local one).

        Index("email-index", "email:S")
        Index("by-company", "companyId:S", "createdAt:S", projection="KEYS_ONLY")
        Index("by-place", ("country:S", "city:S"), ("street:S", "number:N"), projection=["name"])

    It is checked with the table that it belongs to.
    """

    name: str
    key: Key
    projection: str | tuple[str, ...]
    local: bool
    throughput: Throughput | None
    on_demand_max: Maximum | None
    warm: Throughput | None

    def __init__(
        self,
        name: str,
        hash: str | Attribute | Sequence[str | Attribute] = (),
        range: str | Attribute | Sequence[str | Attribute] = (),
        *,
        key: Key | None = None,
        projection: str | Iterable[str] = "ALL",
        local: bool = False,
        throughput: Throughput | None = None,
        on_demand_max: Maximum | None = None,
        warm: Throughput | None = None,
    ) -> None:
        kept = tuple(sorted(projection, key=str)) if _is_several(projection) else projection
        _set(
            self,
            name=name,
            key=Key(attributes_of(hash), attributes_of(range)) if key is None else key,
            projection=kept,
            local=local,
            throughput=throughput,
            on_demand_max=on_demand_max,
            warm=warm,
        )

    @property
    def shape(self) -> tuple[Key, str | tuple[str, ...], bool]:
        """What DynamoDB cannot alter in an index that exists."""
        return self.key, self.projection, self.local


@checked_arguments
@dataclass(frozen=True, slots=True, init=False)
class VectorIndex:
    """An index that finds the items whose vectors are nearest to one: `table.search(vector)`.

        VectorIndex("by-meaning", "embedding", dimensions=256, distance="cosine", filters=["kind:S"])

    `distance` is "cosine", "dot_product" or "euclidean". `partition` is an attribute whose value every search must
    name, `filters` are those that a search may name. It is checked with the table that it belongs to.
    """

    name: str
    attribute: str
    dimensions: int
    distance: str
    partition: Attribute | None
    filters: tuple[Attribute, ...]
    projection: str | tuple[str, ...]

    def __init__(
        self,
        name: str,
        attribute: str,
        *,
        dimensions: int,
        distance: str = "cosine",
        partition: str | Attribute | None = None,
        filters: str | Attribute | Sequence[str | Attribute] = (),
        projection: str | Iterable[str] = "ALL",
    ) -> None:
        _set(
            self,
            name=name,
            attribute=attribute,
            dimensions=dimensions,
            distance=distance.lower() if isinstance(distance, str) else distance,
            partition=None if partition is None else Attribute.parse(partition),
            filters=attributes_of(filters),
            projection=tuple(sorted(projection, key=str)) if _is_several(projection) else projection,
        )

    @property
    def key(self) -> Key:
        """What a search chooses items by."""
        return Key(() if self.partition is None else (self.partition,), self.filters)

    @property
    def shape(self) -> tuple[object, ...]:
        """What DynamoDB cannot alter in an index that exists: everything but its name."""
        return self.attribute, self.dimensions, self.distance, self.key, self.projection


AnyIndex = Index | VectorIndex


@checked_arguments
@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table's definition; see the invariants at the top of this file.

        Table("companies", key="companyId:S", indexes=[Index("email-index", "email:S")], ttl="expiresAt", pitr=True)

    `name` is the table's suffix; `Naming` makes the full name of it. `pitr` is True, False or a number of days.
    `sse` is True for the account's AWS-managed key, False for DynamoDB's own, or the KMS key to use.
    `resource_policy` is an IAM policy, as a mapping or as JSON; {} for a table that is to have none.
    `ignore` names members that something else owns once the table is there: `ignore=["billing"]` with autoscaling.
    `allow` switches rules of `penstock tables doctor` off, each with a reason: `allow={"no-pitr": "a cache"}`.
    """

    name: str
    key: Key
    indexes: tuple[Index, ...]
    vector_indexes: tuple[VectorIndex, ...]
    ttl: str | None
    stream: str | None
    pitr: int | None
    """Days that can be restored; 0 is off."""
    tags: Mapping[str, str] | None = field(hash=False)
    billing: Billing
    on_demand_max: Maximum | None
    warm: Throughput | None
    table_class: str | None
    deletion_protection: bool | None
    sse: bool | str | None
    ignore: tuple[str, ...]
    """Members that a new table gets, and that are not compared afterwards."""
    resource_policy: str | None
    """Its JSON; '' for no policy."""
    allow: Mapping[str, str] = field(hash=False)
    """Rules of doctor that are switched off, and why. It is no part of the table."""

    def __init__(
        self,
        name: str,
        key: str | Attribute | Key | Sequence[str | Attribute],
        *,
        indexes: Iterable[Index] = (),
        vector_indexes: Iterable[VectorIndex] = (),
        ttl: str | None = None,
        stream: str | None = None,
        pitr: bool | int | None = None,
        tags: Mapping[str, str] | None = None,
        billing: Billing = ON_DEMAND,
        on_demand_max: Maximum | None = None,
        warm: Throughput | None = None,
        table_class: str | None = None,
        deletion_protection: bool | None = None,
        sse: bool | str | None = None,
        ignore: Iterable[str] = (),
        resource_policy: Mapping[str, Any] | str | None = None,
        allow: Mapping[str, str] | None = None,
    ) -> None:
        _set(
            self,
            name=name,
            key=_table_key(key),
            indexes=_sorted_indexes(indexes, billing),
            vector_indexes=_sorted_vector_indexes(vector_indexes),
            ttl=ttl,
            stream=stream,
            pitr=_days(pitr),
            tags=_sorted_mapping(tags),
            billing=billing,
            on_demand_max=on_demand_max,
            warm=warm,
            table_class=table_class,
            deletion_protection=deletion_protection,
            sse=sse,
            ignore=_sorted_texts(ignore),
            resource_policy=policy_text(resource_policy),
            allow=_sorted_mapping(allow) or {},
        )
        check(self, calling_line)

    @classmethod
    def of(cls, *models: type, name: str | None = None, **options: Any) -> Table:
        """The table of a class that `@penstock.item` made, or of several: `Table.of(User, pitr=True)`.

        Raises BadModel if the classes disagree about the key, an index, the TTL or the type of a key attribute.
        """
        from penstock.client.models.model import models_of, table_of

        table, found = models_of(models, name)
        first = found[0]
        indexes, ttl = table_of(table, found)
        made = [
            Index(
                one.name,
                [f"{part.attribute}:{part.type}" for part in one.hash],
                [f"{part.attribute}:{part.type}" for part in one.sort],
                local=one.local,
            )
            for one in indexes
        ]
        key = [f"{part.attribute}:{part.type}" for part in first.key]
        return cls(table, key, indexes=made, ttl=ttl, **options)

    @classmethod
    def unchecked(cls, **members: Any) -> Table:
        """A table as it was found: what exists is not refused, whatever quotas its account has."""
        table = object.__new__(cls)
        _set(table, **(_ABSENT | members))
        return table

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Every key attribute of the table and its indexes, and what vectors are chosen by, once, by name."""
        every = {one for index in self.every_index for one in index.key.attributes} | set(self.key.attributes)
        return tuple(sorted(every))

    @property
    def every_index(self) -> tuple[AnyIndex, ...]:
        """Its indexes and its vector indexes."""
        return (*self.indexes, *self.vector_indexes)

    @property
    def global_indexes(self) -> tuple[Index, ...]:
        """Those that have a partition key of their own."""
        return tuple(index for index in self.indexes if not index.local)

    @property
    def local_indexes(self) -> tuple[Index, ...]:
        """Those that share the table's partition key."""
        return tuple(index for index in self.indexes if index.local)

    def index(self, name: str) -> Index | None:
        """The index of this name; None if there is none."""
        return next((index for index in self.indexes if index.name == name), None)

    def vector_index(self, name: str) -> VectorIndex | None:
        """The vector index of this name; None if there is none."""
        return next((index for index in self.vector_indexes if index.name == name), None)

    def replace(self, **members: Any) -> Table:
        """The same table but for these members, spelled as in `Table(…)`. They are checked where they are loaded."""
        kept = {one.name: getattr(self, one.name) for one in fields(self)} | members
        for name in members.keys() & _SPELLED.keys():
            kept[name] = _SPELLED[name](members[name])
        if "indexes" in members:
            kept["indexes"] = _sorted_indexes(members["indexes"], kept["billing"])
        return Table.unchecked(**kept)


_ABSENT: dict[str, Any] = {
    "indexes": (),
    "vector_indexes": (),
    "ttl": None,
    "stream": None,
    "pitr": None,
    "tags": None,
    "billing": ON_DEMAND,
    "on_demand_max": None,
    "warm": None,
    "table_class": None,
    "deletion_protection": None,
    "sse": None,
    "ignore": (),
    "resource_policy": None,
    "allow": {},
}


def attributes_of(part: str | Attribute | Sequence[str | Attribute]) -> tuple[Attribute, ...]:
    """One attribute or several, as they are spelled in a definition."""
    several = part if isinstance(part, Sequence) and not isinstance(part, str | bytes) else (part,)
    return tuple(Attribute.parse(one) for one in several)


def _table_key(key: str | Attribute | Key | Sequence[str | Attribute]) -> Key:
    if isinstance(key, Key):
        return key
    attributes = attributes_of(key)
    return Key(attributes[:1], attributes[1:])


def _sorted_indexes(indexes: Iterable[Index], billing: Billing) -> Iterable[Index]:
    """By name; a global index of a provisioned table has the table's throughput unless it says otherwise.

    What are no indexes is left as it is: `check` refuses it.
    """
    several = tuple(indexes) if _is_several(indexes) else indexes
    if not isinstance(several, tuple) or not all(isinstance(one, Index) for one in several):
        return several
    units = billing if isinstance(billing, Throughput) else None
    filled = (
        replace(one, throughput=units) if one.throughput is None and units is not None and not one.local else one
        for one in several
    )
    return tuple(sorted(filled, key=lambda one: str(one.name)))


def _sorted_vector_indexes(indexes: Iterable[VectorIndex]) -> Iterable[VectorIndex]:
    several = tuple(indexes) if _is_several(indexes) else indexes
    if not isinstance(several, tuple) or not all(isinstance(one, VectorIndex) for one in several):
        return several  # `check` refuses it
    return tuple(sorted(several, key=lambda one: str(one.name)))


def _is_several(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _sorted_texts(names: Iterable[str]) -> Iterable[str]:
    """What are no texts is left as it is: `check` refuses it."""
    several = tuple(names) if _is_several(names) else names
    is_texts = isinstance(several, tuple) and all(isinstance(one, str) for one in several)
    return tuple(sorted(set(several))) if is_texts else several


def _sorted_mapping(given: Any) -> Any:
    return dict(sorted(given.items(), key=str)) if isinstance(given, Mapping) else given


def _days(pitr: bool | int | None) -> int | None:
    # True is equal to 1 in Python, and one day is not what is meant by it.
    if pitr is True:
        return PITR_DAYS
    return 0 if pitr is False else pitr


_SPELLED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "key": _table_key,
    "vector_indexes": _sorted_vector_indexes,
    "pitr": _days,
    "tags": _sorted_mapping,
    "ignore": _sorted_texts,
    "resource_policy": policy_text,
    "allow": _sorted_mapping,
}
"""Members that a definition may spell in several ways, and how they are kept."""


def _set(target: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


# ── names ───────────────────────────────────────────────────────────────────────────────────────────

PRODUCTION = "production"
DEFAULT_REGION = "us-east-1"

MANAGER = "penstock"
STANDARD_TAGS = ("Application", "CreatedAt", "Environment", "ManagedBy")
"""Put on a table when it is made, and never compared: they say where and when, not what."""


@dataclass(frozen=True, slots=True)
class Naming:
    """`{prefix}-{suffix}` in production, `{prefix}-{environment}-{suffix}` elsewhere.

    An empty prefix, which is the default, leaves no dash: a table has its own name.
    """

    prefix: str = ""
    environment: str = PRODUCTION
    region: str = DEFAULT_REGION

    @property
    def start(self) -> str:
        """What every full name begins with."""
        place = "" if self.environment == PRODUCTION else self.environment
        return "".join(f"{part}-" for part in (self.prefix, place) if part)

    def full_name(self, suffix: str) -> str:
        """The name of the table in the database."""
        return self.start + suffix

    def suffix(self, full_name: str) -> str | None:
        """The suffix of a table of this environment; None for a table of another environment."""
        start = self.start
        return full_name[len(start) :] if full_name.startswith(start) and full_name != start else None

    def with_full_name(self, table: Table) -> Table:
        """The definition under its full name."""
        return table.replace(name=self.full_name(table.name))

    def tags(self, created_at: str) -> dict[str, str]:
        """What a new table is tagged with beside its own tags."""
        return {
            "Application": self.prefix or MANAGER,
            "CreatedAt": created_at,
            "Environment": self.environment,
            "ManagedBy": MANAGER,
        }


def check_names(tables: Iterable[Table], naming: Naming) -> None:
    """Raises DefinitionError if DynamoDB refuses a full name: its length or a character; for every one that it does."""
    problems = [one for table in tables for one in _name_problems(naming.full_name(table.name), table.name, naming)]
    if problems:
        raise DefinitionError(problems)


def _name_problems(name: str, suffix: str, naming: Naming) -> tuple[Problem, ...]:
    parts = f", with prefix {naming.prefix!r} and environment {naming.environment!r}," if naming.start else ""
    if not has_name_characters(name):
        text = f"its full name{parts} has a character that DynamoDB refuses"
        return (Problem(f"table {suffix!r}", text, NAME_MEND),)
    if SHORTEST_NAME <= len(name) <= NAME_CHARACTERS:
        return ()
    size = "long" if len(name) > NAME_CHARACTERS else "short"
    text = f"its full name{parts} has {len(name)} characters"
    mend = f"DynamoDB allows {SHORTEST_NAME} to {NAME_CHARACTERS}: it is too {size}; take another prefix or name"
    return (Problem(f"table {suffix!r}", text, mend),)
