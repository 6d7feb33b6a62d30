"""A table's definition, compiled: what the operations ask of a table, answered without looking anything up.

The persisted form is the *record*, a plain JSON object (see docs/file-format.md). A `TableInfo` is made from it
and never changes; a changed record makes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from penstock.engine.catalog import row_keys
from penstock.engine.settings import Scope
from penstock.wire.values import Item

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    """One attribute of a key schema and its type: S, N or B."""

    name: str
    kind: str


@dataclass(frozen=True)
class IndexInfo:
    """A secondary index. `storage` is the SQL table that holds its rows."""

    name: str
    storage: str
    local: bool
    hash: tuple[KeyAttribute, ...]
    range: tuple[KeyAttribute, ...]
    projection: str
    included: frozenset[str]
    record: Mapping[str, Any] = field(repr=False)
    table_key: tuple[KeyAttribute, ...] = field(repr=False)

    @cached_property
    def key(self) -> tuple[KeyAttribute, ...]:
        return self.hash + self.range

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The names of the index's key and then of the table's, each once: what a position in the index needs."""
        return tuple(dict.fromkeys(part.name for part in self.key + self.table_key))

    @cached_property
    def projected(self) -> frozenset[str] | None:
        """The attributes that the index holds; None for all."""
        if self.projection == "ALL":
            return None
        return frozenset(self.key_names) | self.included

    @cached_property
    def backfilling(self) -> bool:
        return self.record.get("backfill_cursor") is not None

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names of the index's own key: where the values of these stay, the item's row stays."""
        return frozenset(part.name for part in self.key)

    @cached_property
    def text_names(self) -> tuple[str, str | None] | None:
        """The names of a key of one text, or of one and another to sort by, as most are."""
        if len(self.hash) > 1 or len(self.range) > 1 or any(part.kind != "S" for part in self.key):
            return None
        return self.hash[0].name, self.range[0].name if self.range else None

    @cached_property
    def held_in_keys(self) -> Callable[[bytes, bytes], tuple[Item, int]] | None:
        """What the index holds of an item, and its size, given the key of its row and the item's.

        None where they do not tell it.
        An index of nothing but keys, all of them texts, is read without its items.
        """
        names = self.text_names
        if self.projection != "KEYS_ONLY" or names is None or any(part.kind != "S" for part in self.table_key):
            return None
        return row_keys.reader_of_keys(names, [part.name for part in self.table_key])

    # SQL texts, made once, as a table's are.

    @cached_property
    def sql_put(self) -> str:
        return f"INSERT OR REPLACE INTO {self.storage} (key, item_key) VALUES (?, ?)"  # noqa: S608

    @cached_property
    def sql_move(self) -> str:
        return f"UPDATE OR REPLACE {self.storage} SET key = ? WHERE key = ?"  # noqa: S608

    @cached_property
    def sql_delete(self) -> str:
        return f"DELETE FROM {self.storage} WHERE key = ?"  # noqa: S608

    def view(self, item: Item) -> Item:
        """The part of the item that the index holds."""
        wanted = self.projected
        if wanted is None:
            return item
        return {name: value for name, value in item.items() if name in wanted}


@dataclass(frozen=True)
class VectorIndexInfo:
    """A vector index. `storage` is the SQL table that holds the vectors of its items, and what they are chosen by."""

    name: str
    storage: str
    attribute: str
    dimensions: int
    function: str
    """COSINE, DOT_PRODUCT or EUCLIDEAN."""
    hash: KeyAttribute | None
    schema: tuple[KeyAttribute, ...]
    """What a search may choose items by: the HASH attribute, if there is one, and the inline filters."""
    projection: str
    included: frozenset[str]
    record: Mapping[str, Any] = field(repr=False)
    table_key: tuple[KeyAttribute, ...] = field(repr=False)

    @cached_property
    def projected(self) -> frozenset[str] | None:
        """The attributes that the index holds; None for all."""
        if self.projection == "ALL":
            return None
        own = {part.name for part in (*self.table_key, *self.schema)}
        return frozenset(own | self.included | {self.attribute})

    @cached_property
    def own_names(self) -> tuple[str, ...]:
        """The attributes that its row is made of: where these stay, the row stays."""
        return (self.attribute, *(part.name for part in self.schema))

    @cached_property
    def backfilling(self) -> bool:
        return self.record.get("backfill_cursor") is not None

    def view(self, item: Item) -> Item:
        """The part of the item that the index holds."""
        wanted = self.projected
        if wanted is None:
            return item
        return {name: value for name, value in item.items() if name in wanted}

    # SQL texts, made once, as a table's are.

    @cached_property
    def sql_put(self) -> str:
        return f"INSERT OR REPLACE INTO {self.storage} (key, vector, chosen_by, saved) VALUES (?, ?, ?, ?)"  # noqa: S608

    @cached_property
    def sql_remove(self) -> str:
        """Leaves a row without a vector: other processes learn by it that the item is gone."""
        there = f"SELECT 1 FROM {self.storage} WHERE key = ?1 AND vector IS NOT NULL"  # noqa: S608
        return f"INSERT OR REPLACE INTO {self.storage} (key) SELECT ?1 WHERE EXISTS ({there})"


class PutPlan(NamedTuple):
    """What a put to a table needs of it, where its key is of texts and its indexes' keys of texts and numbers."""

    hash_name: str
    range_name: str | None
    sql_get: str
    sql_put: str
    sql_insert: str
    indexes: tuple[IndexInfo, ...]
    index_kinds: tuple[tuple[str, str], ...]
    ttl_name: str | None
    ttl_storage: str


@dataclass(frozen=True)
class TableInfo:
    """A table. `storage` is the SQL table that holds its items."""

    id: int
    scope: Scope
    name: str
    record: Mapping[str, Any] = field(repr=False)
    hash: KeyAttribute
    range: KeyAttribute | None
    indexes: Mapping[str, IndexInfo] = field(repr=False)
    vectors: Mapping[str, VectorIndexInfo] = field(repr=False, default_factory=dict)
    """In the order of their names: of several that refuse an item, DynamoDB names the first."""

    @cached_property
    def storage(self) -> str:
        return f"t{self.id}"

    @cached_property
    def arn(self) -> str:
        return self.scope.arn(f"table/{self.name}")

    @cached_property
    def key(self) -> tuple[KeyAttribute, ...]:
        return (self.hash,) if self.range is None else (self.hash, self.range)

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.key)

    @cached_property
    def plain_read(self) -> tuple[str, str, str | None] | None:
        """The statement that reads an item, and its key's names; None where a key is no text, or the state changes."""
        if "unsettled" in self.record or any(part.kind != "S" for part in self.key):
            return None
        return self.sql_get, self.hash.name, None if self.range is None else self.range.name

    @cached_property
    def query_forms(self) -> dict[Any, Any]:
        """The key conditions of its usual Queries (operations/usual_queries.py)."""
        return {}

    @cached_property
    def put_plan(self) -> PutPlan | None:
        """None where a key is no text or an index's is bytes, changes are told to others, or the state changes."""
        record = self.record
        if self.plain_read is None or record.get("stream") or record.get("pitr") or self.vectors:
            return None
        if "B" in self.index_kinds.values():
            return None
        return PutPlan(
            self.hash.name,
            None if self.range is None else self.range.name,
            self.sql_get,
            self.sql_put,
            self.sql_insert,
            self.index_list,
            tuple(self.index_kinds.items()),
            self.ttl_attribute,
            f"{self.storage}_ttl",
        )

    @cached_property
    def index_list(self) -> tuple[IndexInfo, ...]:
        """Every index that writes must keep, those being built included."""
        return tuple(self.indexes.values())

    @cached_property
    def index_kinds(self) -> Mapping[str, str]:
        """Each attribute of an index's key and its type."""
        return {part.name: part.kind for index in self.index_list for part in index.key}

    @cached_property
    def has_local_indexes(self) -> bool:
        return any(index.local for index in self.index_list)

    @cached_property
    def watched(self) -> bool:
        """Whether a write must see the old item: something beside the item itself is kept in step with it."""
        record = self.record
        return bool(self.indexes or self.vectors or record.get("stream") or record.get("ttl") or record.get("pitr"))

    @cached_property
    def ttl_attribute(self) -> str | None:
        """The attribute that says when an item expires, while TTL is enabled."""
        ttl = self.record.get("ttl")
        return ttl["AttributeName"] if ttl else None

    # SQL texts, made once: sqlite3 finds its prepared statement by the text.

    @cached_property
    def sql_get(self) -> str:
        return f"SELECT item FROM {self.storage} WHERE key = ?"  # noqa: S608

    @cached_property
    def sql_get_sized(self) -> str:
        return f"SELECT item, size FROM {self.storage} WHERE key = ?"  # noqa: S608

    @cached_property
    def sql_put(self) -> str:
        return (
            f"INSERT INTO {self.storage} (key, size, item) VALUES (?, ?, ?) "  # noqa: S608
            "ON CONFLICT (key) DO UPDATE SET size = excluded.size, item = excluded.item"
        )

    @cached_property
    def sql_insert(self) -> str:
        return f"INSERT INTO {self.storage} (key, size, item) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"  # noqa: S608

    @cached_property
    def sql_delete(self) -> str:
        return f"DELETE FROM {self.storage} WHERE key = ?"  # noqa: S608

    def key_of(self, item: Item) -> Item:
        """The item's primary key."""
        return {name: item[name] for name in self.key_names}


def compile_table(table_id: int, scope: Scope, record: Record) -> TableInfo:
    """The compiled form of a persisted record."""
    kinds = {one["AttributeName"]: one["AttributeType"] for one in record["AttributeDefinitions"]}

    def parts(schema: list[dict[str, str]], role: str) -> tuple[KeyAttribute, ...]:
        return tuple(
            KeyAttribute(one["AttributeName"], kinds[one["AttributeName"]]) for one in schema if one["KeyType"] == role
        )

    table_hash = parts(record["KeySchema"], "HASH")[0]
    table_range = next(iter(parts(record["KeySchema"], "RANGE")), None)
    table_key = (table_hash,) if table_range is None else (table_hash, table_range)
    make = _index_maker(table_id, parts, table_key)
    indexes: dict[str, IndexInfo] = {}
    for one in record.get("LocalSecondaryIndexes", ()):
        indexes[one["IndexName"]] = make(one, True)
    for one in record.get("GlobalSecondaryIndexes", ()):
        indexes[one["IndexName"]] = make(one, False)
    vectors = {
        one["IndexName"]: _vector_index(table_id, one, kinds, table_key)
        for one in sorted(record.get("VectorIndexes", ()), key=lambda one: str(one["IndexName"]))
    }
    return TableInfo(table_id, scope, record["TableName"], record, table_hash, table_range, indexes, vectors)


def _vector_index(
    table_id: int, one: Record, kinds: Mapping[str, str], table_key: tuple[KeyAttribute, ...]
) -> VectorIndexInfo:
    schema = one.get("SearchSchema", ())
    parts = tuple(KeyAttribute(part["AttributeName"], kinds[part["AttributeName"]]) for part in schema)
    roles = [part["SearchSchemaElementType"] for part in schema]
    return VectorIndexInfo(
        name=one["IndexName"],
        storage=f"t{table_id}_i{one['id']}",
        attribute=one["VectorAttribute"]["AttributeName"],
        dimensions=one["Dimensions"],
        function=one["DistanceFunction"],
        hash=parts[roles.index("HASH")] if "HASH" in roles else None,
        schema=parts,
        projection=one["Projection"]["ProjectionType"],
        included=frozenset(one["Projection"].get("NonKeyAttributes", ())),
        record=one,
        table_key=table_key,
    )


def _index_maker(
    table_id: int,
    parts: Callable[[list[dict[str, str]], str], tuple[KeyAttribute, ...]],
    table_key: tuple[KeyAttribute, ...],
) -> Callable[[Record, bool], IndexInfo]:
    def make(one: Record, local: bool) -> IndexInfo:
        projection = one.get("Projection") or {}
        return IndexInfo(
            name=one["IndexName"],
            storage=f"t{table_id}_i{one['id']}",
            local=local,
            hash=parts(one["KeySchema"], "HASH"),
            range=parts(one["KeySchema"], "RANGE"),
            projection=projection.get("ProjectionType", "ALL"),
            included=frozenset(projection.get("NonKeyAttributes", ())),
            record=one,
            table_key=table_key,
        )

    return make
