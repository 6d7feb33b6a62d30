"""What is wrong with a definition: every problem, with its place and what to do about it."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.tables.definitions.doctor_rules import allow_problems
from penstock.tables.definitions.resource_policy import MOST_BYTES, policy_problem
from penstock.wire.limits import (
    GLOBAL_INDEXES,
    INDEX_HASH_ATTRIBUTES,
    INDEX_RANGE_ATTRIBUTES,
    LOCAL_INDEXES,
    PROJECTED_ATTRIBUTES,
    VECTOR_DIMENSIONS,
    VECTOR_INDEXES,
    VECTOR_INLINE_FILTERS,
)

if TYPE_CHECKING:
    from penstock.tables.definitions.definition import AnyIndex, Attribute, Index, Key, Table, VectorIndex

NAME_CHARACTERS = 255
SHORTEST_NAME = 3
LIST_ATTRIBUTES = 20  # in one index's INCLUDE list; PROJECTED_ATTRIBUTES in all
ATTRIBUTE_NAME_BYTES = 255
TAGS = 50
TAG_KEY_CHARACTERS = 128
TAG_VALUE_CHARACTERS = 256
LONGEST_PITR_DAYS = 35
LEAST_WARM = (12_000, 4_000)  # reads and writes a second that every new on-demand table can take

TYPES = ("S", "N", "B")
DISTANCES = ("cosine", "dot_product", "euclidean")
VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
IGNORABLE = (
    "billing",
    "deletion_protection",
    "on_demand_max",
    "pitr",
    "resource_policy",
    "sse",
    "stream",
    "table_class",
    "tags",
    "ttl",
    "warm",
)
CLASSES = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")

_NO_KEYS = frozenset({"AES256", "AES-256", "AWS:KMS", "KMS", "ENABLED", "DISABLED", "TRUE", "FALSE"})
"""Values of SSEType and of other services' settings. As the name of a key, DynamoDB would refuse them too late."""

NAME_MEND = "Use a-z, A-Z, 0-9, _, - and . only"

_NAME = re.compile(r"[a-zA-Z0-9_.-]+")
_TAG = re.compile(r"[\w\s+\-=._:/@]*")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what, and what to do."""

    place: str
    text: str
    mend: str
    source: str = ""
    """`mytables.py:12`: the file and the line of the definition, where they are known."""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}. {self.mend}{'' if self.mend.endswith('?') else '.'}"

    @property
    def located(self) -> str:
        """The same after its source, as compilers write it."""
        return f"{self.source}: {self}" if self.source else str(self)

    def at(self, source: str) -> Problem:
        """The same problem, found there."""
        return replace(self, source=source)


class DefinitionError(PenstockError):
    """Definitions that no table can be made of; `problems` has all that was found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0].located
        return "\n".join([f"{len(self.problems)} problems:", *(f"  {one.located}" for one in self.problems)])


def check(table: Table, source: Callable[[], str] | str = "") -> None:
    """Raises DefinitionError unless a table can be made of it; `source` is where it is defined, or finds it."""
    problems = tuple(problems_of(table))
    if problems:
        place = source if isinstance(source, str) else source()
        raise DefinitionError([one.at(place) for one in problems])


def problems_of(table: Table) -> Iterator[Problem]:
    """Everything that is wrong with a definition, in the order in which one reads it."""
    where = f"table {table.name!r}"
    yield from _name_problems(where, table.name, shortest=1)
    wrong_types = tuple(_type_problems(table, where))
    if wrong_types:
        yield from wrong_types
        return  # the rest reads these members
    yield from _key_problems(where, table.key, most_hash=1, most_range=1)
    yield from _type_conflicts(table, where)
    yield from _count_problems(table, where)
    for index in table.indexes:
        yield from _index_problems(table, index, f"{where}, index {index.name!r}")
    yield from _vector_table_problems(table, where)
    for vectors in table.vector_indexes:
        yield from _vector_problems(table, vectors, f"{where}, vector index {vectors.name!r}")
    yield from _ttl_problems(table, where)
    yield from _capacity_problems(table, where)
    yield from _setting_problems(table, where)
    yield from _tag_problems(table, where)
    yield from _policy_problems(table, where)
    yield from _ignore_problems(table, where)
    yield from (Problem(where, text, mend) for text, mend in allow_problems(dict(table.allow)))


# ── types ────────────────────────────────────────────────────────────────────────────────────────


def _attribute_name_problems(where: str, what: str, name: str) -> Iterator[Problem]:
    """What is wrong with the name of an attribute."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        yield Problem(where, f"the name of {what} ({name!r}) has half of a surrogate pair", "Write whole characters")
        return
    if not 1 <= size <= ATTRIBUTE_NAME_BYTES:
        yield Problem(where, f"the name of {what} has {size} bytes", f"Use 1 to {ATTRIBUTE_NAME_BYTES}")


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_indexes(value: object) -> bool:
    # A VectorIndex has a projection too, and belongs to vector_indexes.
    return isinstance(value, tuple) and all(hasattr(one, "projection") and hasattr(one, "local") for one in value)


def _are_vector_indexes(value: object) -> bool:
    return isinstance(value, tuple) and all(hasattr(one, "dimensions") for one in value)


def _is_key(value: object) -> bool:
    parts = [getattr(value, role, None) for role in ("hash", "range")]
    attributes = [one for part in parts if isinstance(part, tuple) for one in part]
    texts = [getattr(one, member, None) for one in attributes for member in ("name", "type")]
    return all(isinstance(part, tuple) for part in parts) and all(isinstance(text, str) for text in texts)


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, str) for one in value)


def _is_projection(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, tuple) and all(isinstance(one, str) for one in value))


def _are_units(value: object) -> bool:
    return all(type(getattr(value, one, None)) is int for one in ("read", "write"))  # True is an int, and no number


def _is_maximum(value: object) -> bool:
    return all(type(getattr(value, one, "")) in (int, type(None)) for one in ("read", "write"))


_WARM = (_are_units, "Use Throughput(read, write), with whole numbers, or None")
_MAXIMUM = (_is_maximum, "Use Maximum(read, write), with whole numbers, or None")
_KEY = (_is_key, 'Use "id:S", or ("id:S", "at:N") with a sort key')
_TABLE_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "key": _KEY,
    "indexes": (
        _are_indexes,
        'Use a list of Index(…), such as [Index("by-state", "state:S")]; a VectorIndex belongs to vector_indexes',
    ),
    "vector_indexes": (
        _are_vector_indexes,
        'Use a list of VectorIndex(…), such as [VectorIndex("near", "embedding", dimensions=256)]',
    ),
    "ttl": (_is_text, "Use the name of an attribute in quotes, or None"),
    "pitr": (lambda value: isinstance(value, int), "Use True, False, a whole number of days, or None"),
    "tags": (lambda value: isinstance(value, Mapping), 'Use a mapping, such as {"team": "billing"}, or None'),
    "on_demand_max": _MAXIMUM,
    "warm": _WARM,
    "deletion_protection": (_is_bool, "Use True, False or None"),
    "sse": (lambda value: isinstance(value, bool | str), "Use True, False, the name of a KMS key, or None"),
    "allow": (lambda value: isinstance(value, Mapping), 'Use a mapping, such as {"no-pitr": "a cache"}'),
    "ignore": (_is_texts, 'Use a list of members, such as ["billing"]'),
}
_INDEX_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_text, 'Write its name first, as in Index("by-state", "state:S")'),
    "key": (_is_key, 'Write Index("by-state", "state:S"), or Index("by-state", "state:S", "at:N") with a sort key'),
    "projection": (_is_projection, 'Use "ALL", "KEYS_ONLY" or a list of attributes'),
    "local": (_is_bool, "Use True or False"),
    "throughput": _WARM,
    "on_demand_max": _MAXIMUM,
    "warm": _WARM,
}
_VECTOR_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_text, 'Write its name first, as in VectorIndex("near", "embedding", dimensions=256)'),
    "attribute": (_is_text, "Use the name of the attribute that has the vector, in quotes"),
    "dimensions": (lambda value: type(value) is int, "Use a whole number: how many numbers a vector has"),
    "distance": (_is_text, 'Use "cosine", "dot_product" or "euclidean"'),
    "key": (_is_key, 'Write partition="tenant:S" and filters=["kind:S", "year:N"]'),
    "projection": (_is_projection, 'Use "ALL", "KEYS_ONLY" or a list of attributes'),
}
_NEVER_NONE = (
    *("name", "key", "ignore", "indexes", "projection", "local"),
    *("vector_indexes", "attribute", "dimensions", "distance"),
)


def _type_problems(table: Table, where: str) -> Iterator[Problem]:
    """Members that are of another type than they are declared: Python lets everything through."""
    yield from _wrong_members(table, _TABLE_TYPES, where)
    if _are_indexes(table.indexes):
        for index in table.indexes:
            yield from _wrong_members(index, _INDEX_TYPES, f"{where}, index {index.name!r}")
    if _are_vector_indexes(table.vector_indexes):
        for vectors in table.vector_indexes:
            yield from _wrong_members(vectors, _VECTOR_TYPES, f"{where}, vector index {vectors.name!r}")


def _wrong_members(
    holder: object, types: Mapping[str, tuple[Callable[[object], bool], str]], where: str
) -> Iterator[Problem]:
    for member, (is_right, mend) in types.items():
        value = getattr(holder, member)
        if (value is not None or member in _NEVER_NONE) and not is_right(value):
            yield Problem(where, f"{member} is {reprlib.repr(value)}", mend)


# ── names, keys and indexes ──────────────────────────────────────────────────────────────────────


def has_name_characters(name: str) -> bool:
    """Whether a name, or a part of one, has only characters that DynamoDB takes in names of tables and indexes."""
    return _NAME.fullmatch(name) is not None


def _name_problems(where: str, name: object, *, shortest: int) -> Iterator[Problem]:
    if not isinstance(name, str):
        yield Problem(where, "its name is not a text", "Write its name first")
        return
    if name and not has_name_characters(name):
        yield Problem(where, "its name has a character that DynamoDB refuses", NAME_MEND)
    if not shortest <= len(name) <= NAME_CHARACTERS:
        text = f"its name has {len(name)} characters"
        yield Problem(where, text, f"Use {shortest} to {NAME_CHARACTERS}")


def _key_problems(where: str, key: Key, *, most_hash: int, most_range: int) -> Iterator[Problem]:
    if not key.hash:
        yield Problem(where, "it has no partition key", 'Name one, for example "id:S"')
    for role, part, most in (("partition", key.hash, most_hash), ("sort", key.range, most_range)):
        if len(part) > most:
            names = ", ".join(one.name for one in part)
            yield Problem(where, f"its {role} key has {len(part)} attributes ({names})", f"Use at most {most}")
    for name, times in Counter(key.names).items():
        if times > 1:
            yield Problem(where, f"{name!r} is in its key {times} times", "Use another attribute as sort key")
    for attribute in dict.fromkeys(key.attributes):
        yield from _attribute_problems(where, attribute)


def _attribute_problems(where: str, attribute: Attribute) -> Iterator[Problem]:
    name, kind = attribute.name, attribute.type
    if kind == "":
        choices = ", ".join(f'"{name}:{one}"' for one in TYPES)
        yield Problem(where, f"key attribute {name!r} has no type", f"Write one of {choices}")
    elif kind not in TYPES:
        yield Problem(where, f"key attribute {name!r} has the type {kind!r}", "Keys are S, N or B")
    yield from _attribute_name_problems(where, "a key attribute", name)


def _type_conflicts(table: Table, where: str) -> Iterator[Problem]:
    types: dict[str, dict[str, str]] = {}
    parts = [("its key", table.key), *((f"index {index.name}", index.key) for index in table.indexes)]
    parts += [(f"vector index {index.name}", index.key) for index in table.vector_indexes]
    for place, key in parts:
        for attribute in key.attributes:
            if attribute.type in TYPES:
                types.setdefault(attribute.name, {}).setdefault(attribute.type, place)
    for name, places in types.items():
        if len(places) > 1:
            kinds = " and ".join(f"{kind} in {place}" for kind, place in places.items())
            yield Problem(where, f"attribute {name!r} is {kinds}", "An attribute has one type in all keys of a table")


def _count_problems(table: Table, where: str) -> Iterator[Problem]:
    every, local = table.every_index, sum(index.local for index in table.indexes)
    for kind, number, most in (
        ("global", len(table.indexes) - local, GLOBAL_INDEXES),
        ("local", local, LOCAL_INDEXES),
        ("vector", len(table.vector_indexes), VECTOR_INDEXES),
    ):
        if number > most:
            yield Problem(where, f"it has {number} {kind} indexes", f"DynamoDB allows {most}; remove some")
    for name, times in Counter(index.name for index in every).items():
        if times > 1:
            yield Problem(where, f"{times} of its indexes are called {name!r}", "Give each its own name")
    listed = sum(len(index.projection) for index in every if isinstance(index.projection, tuple))
    listed += sum(1 + len(index.filters) for index in table.vector_indexes)  # its vector and its filters count too
    if listed > PROJECTED_ATTRIBUTES:
        text = f"its indexes list {listed} projected attributes in all"
        yield Problem(where, text, f'DynamoDB allows {PROJECTED_ATTRIBUTES}; use projection="ALL" for some')


def _vector_table_problems(table: Table, where: str) -> Iterator[Problem]:
    if not table.vector_indexes:
        return
    if table.billing != "on-demand":
        yield Problem(where, "it is provisioned and has vector indexes", 'They need billing="on-demand"')
    lengths: dict[str, int] = {}
    for index in table.vector_indexes:
        first = lengths.setdefault(index.attribute, index.dimensions)
        if first != index.dimensions:
            text = f"{index.attribute!r} has {first} dimensions in one vector index and {index.dimensions} in another"
            yield Problem(where, text, "All vector indexes on one attribute have the same dimensions")
    for name in sorted({one.name for one in table.attributes} & lengths.keys()):
        yield Problem(where, f"{name!r} is a vector and a part of a key", "Use another attribute for one of them")


def _vector_problems(table: Table, index: VectorIndex, where: str) -> Iterator[Problem]:
    yield from _name_problems(where, index.name, shortest=SHORTEST_NAME)
    yield from _attribute_name_problems(where, "its vector", index.attribute)
    if not 1 <= index.dimensions <= VECTOR_DIMENSIONS:
        yield Problem(where, f"it has {index.dimensions} dimensions", f"Use 1 to {VECTOR_DIMENSIONS}")
    if index.distance not in DISTANCES:
        yield Problem(where, f"its distance is {index.distance!r}", f"Use one of {', '.join(DISTANCES)}")
    if len(index.filters) > VECTOR_INLINE_FILTERS:
        yield Problem(where, f"it has {len(index.filters)} filters", f"Use at most {VECTOR_INLINE_FILTERS}")
    for name, times in Counter(index.key.names).items():
        if times > 1:
            yield Problem(where, f"{name!r} is {times} times among its partition and filters", "Name it once")
    for attribute in dict.fromkeys(index.key.attributes):
        yield from _attribute_problems(where, attribute)
    yield from _projection_problems(index, where)


def _index_problems(table: Table, index: Index, where: str) -> Iterator[Problem]:
    yield from _name_problems(where, index.name, shortest=SHORTEST_NAME)
    if index.local:
        yield from _key_problems(where, index.key, most_hash=1, most_range=1)
        yield from _local_problems(table, index, where)
    else:
        yield from _key_problems(where, index.key, most_hash=INDEX_HASH_ATTRIBUTES, most_range=INDEX_RANGE_ATTRIBUTES)
    yield from _projection_problems(index, where)


def _local_problems(table: Table, index: Index, where: str) -> Iterator[Problem]:
    if not table.key.range:
        yield Problem(where, "a local index needs a table with a sort key", "Make it a global index, or add a sort key")
    if not index.key.range:
        yield Problem(where, "a local index has no sort key of its own", "Name the attribute to sort by")
    if index.key.hash and index.key.hash != table.key.hash:
        theirs = ", ".join(str(one) for one in table.key.hash)
        yield Problem(where, "a local index has another partition key than its table", f"Use {theirs}")
    if index.throughput is not None or index.on_demand_max is not None or index.warm is not None:
        yield Problem(where, "a local index has capacity of its own", "It uses its table's; leave it out")


def _projection_problems(index: AnyIndex, where: str) -> Iterator[Problem]:
    projection = index.projection
    if isinstance(projection, str):
        if projection not in ("ALL", "KEYS_ONLY"):
            text = f"projection: {projection!r} is no projection"
            yield Problem(where, text, 'Use "ALL", "KEYS_ONLY" or a list of attributes')
        return
    if not projection:
        yield Problem(where, "its list of projected attributes is empty", 'Use "KEYS_ONLY"')
    if len(projection) > LIST_ATTRIBUTES:
        text = f"it lists {len(projection)} projected attributes"
        yield Problem(where, text, f'DynamoDB allows {LIST_ATTRIBUTES} for one index; use "ALL"')
    for name, times in Counter(projection).items():
        if times > 1:
            yield Problem(where, f"projected attribute {name!r} is listed {times} times", "List it once")
    for name in projection:
        yield from _attribute_name_problems(where, "a projected attribute", name)


def _ttl_problems(table: Table, where: str) -> Iterator[Problem]:
    ttl = table.ttl
    if ttl is None:
        return
    yield from _attribute_name_problems(where, "its TTL attribute", ttl)
    if ttl in table.key.names:
        yield Problem(where, f"its TTL attribute {ttl!r} is a part of its key", "Use an attribute of its own")
    for attribute in table.attributes:
        if attribute.name == ttl and attribute.type != "N" and ttl not in table.key.names:
            text = f"its TTL attribute {ttl!r} is of type {attribute.type} in an index"
            yield Problem(where, text, "TTL reads numbers (seconds since 1970) only; make it N")


def _capacity_problems(table: Table, where: str) -> Iterator[Problem]:
    indexes = table.global_indexes
    parts = [(where, table.on_demand_max, table.warm)]
    parts += [(f"{where}, index {one.name!r}", one.on_demand_max, one.warm) for one in indexes]
    for place, maximum, warm in parts:
        yield from _maximum_problems(table, place, maximum)
        read, write = LEAST_WARM if table.billing == "on-demand" else (1, 1)
        if warm is not None and (warm.read < read or warm.write < write):
            text = f"its warm throughput is below {read:,} reads or {write:,} writes, which it has anyway"
            yield Problem(place, text, "Raise it, or leave it out")
    if table.billing == "on-demand":
        for index in indexes:
            if index.throughput is not None:
                place = f"{where}, index {index.name!r}"
                yield Problem(place, "it has a throughput, and its table is on demand", "Leave it out")
        return
    yield from _unit_problems(table, where)


def _maximum_problems(table: Table, place: str, maximum: object) -> Iterator[Problem]:
    if maximum is None:
        return
    if table.billing != "on-demand":
        yield Problem(place, "it has an on-demand maximum, and its table is provisioned", "Leave it out")
    units = [getattr(maximum, one, 0) for one in ("read", "write")]
    if any(one is not None and one < 1 for one in units):
        yield Problem(place, "its on-demand maximum is below 1", "Use whole numbers from 1 up, or None for no limit")


def _unit_problems(table: Table, where: str) -> Iterator[Problem]:
    parts: list[tuple[str, object]] = [(where, table.billing)]
    if hasattr(table.billing, "read"):
        parts += [(f"{where}, index {one.name!r}", one.throughput) for one in table.global_indexes]
    for place, units in parts:
        read, write = getattr(units, "read", None), getattr(units, "write", None)
        if type(read) is not int or type(write) is not int:
            text = f"{'billing' if place == where else 'throughput'}: {reprlib.repr(units)} is no capacity"
            yield Problem(place, text, 'Use billing="on-demand" or Throughput(read, write)')
        elif min(read, write) < 1:
            yield Problem(place, "its throughput is below 1", "Use whole numbers from 1 up")


def _setting_problems(table: Table, where: str) -> Iterator[Problem]:
    if table.stream is not None and table.stream not in VIEWS:
        yield Problem(
            where, f"stream: {reprlib.repr(table.stream)} is no stream view", f"Use one of {', '.join(VIEWS)}"
        )
    if table.table_class is not None and table.table_class not in CLASSES:
        yield Problem(
            where,
            f"table_class: {reprlib.repr(table.table_class)} is no table class",
            f"Use one of {', '.join(CLASSES)}",
        )
    if table.pitr is not None and not 0 <= table.pitr <= LONGEST_PITR_DAYS:
        text = f"point-in-time recovery of {table.pitr} days"
        yield Problem(where, text, f"Use 1 to {LONGEST_PITR_DAYS} days, True or False")
    if table.sse == "":
        yield Problem(where, "its KMS key has no name", "Use sse=True for the account's AWS-managed key")
    if isinstance(table.sse, str) and table.sse.upper() in _NO_KEYS:
        mend = "Use True for the account's AWS-managed key, False for DynamoDB's own, or the id, ARN or alias of a key"
        yield Problem(where, f"sse is {table.sse!r}, which is the name of a method and of no KMS key", mend)


def _tag_problems(table: Table, where: str) -> Iterator[Problem]:
    tags = table.tags or {}
    if len(tags) > TAGS:
        yield Problem(where, f"it has {len(tags)} tags", f"DynamoDB allows {TAGS}")
    for key, value in tags.items():
        if not isinstance(key, str) or not isinstance(value, str):
            yield Problem(where, f"tag {key!r} = {value!r} is no text", "Put it in quotes")
            continue
        if not 1 <= len(key) <= TAG_KEY_CHARACTERS or _TAG.fullmatch(key) is None:
            yield Problem(
                where, f"tag key {key!r} is refused", f"Use 1 to {TAG_KEY_CHARACTERS} letters, digits, +-=._:/@"
            )
        if key.lower().startswith("aws:"):
            yield Problem(where, f"tag key {key!r} is AWS's own", "Take another prefix than aws:")
        if len(value) > TAG_VALUE_CHARACTERS or _TAG.fullmatch(value) is None:
            text = f"the value of tag {key!r} is refused"
            yield Problem(where, text, f"Use up to {TAG_VALUE_CHARACTERS} letters, digits, +-=._:/@")


def _policy_problems(table: Table, where: str) -> Iterator[Problem]:
    reason = None if table.resource_policy is None else policy_problem(table.resource_policy)
    if reason is not None:
        text = f"resource_policy is {reprlib.repr(table.resource_policy)}: {reason}"
        mend = (
            f'Use {{"Version": "2012-10-17", "Statement": […]}} of up to {MOST_BYTES:,} bytes, {{}} for none, or None'
        )
        yield Problem(where, text, mend)


def _ignore_problems(table: Table, where: str) -> Iterator[Problem]:
    for name in table.ignore:
        if name not in IGNORABLE:
            near = difflib.get_close_matches(name, IGNORABLE, n=1)
            mend = f"Did you mean {near[0]!r}?" if near else f"It may name {', '.join(IGNORABLE)}"
            yield Problem(where, f"ignore names {name!r}, which is no member that can be left to others", mend)
