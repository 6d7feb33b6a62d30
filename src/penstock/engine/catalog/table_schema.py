"""A table's definition, compiled: what the operations ask of a table, answered without looking anything up.

The persisted form is the *record*, a plain JSON object (see docs/file-format.md). A `TableInfo` is made from it
and never changes; a changed record makes a new one. Keys in requests are checked against it, with DynamoDB's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.engine.settings import Scope
from penstock.errors import ValidationException
from penstock.wire import keys, limits
from penstock.wire.values import AttributeValue, Item, type_of

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

    @property
    def backfilling(self) -> bool:
        return self.record.get("backfill_cursor") is not None

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names of the index's own key: where the values of these stay, the item's row stays."""
        return frozenset(part.name for part in self.key)

    @cached_property
    def _text_names(self) -> tuple[str, str | None] | None:
        """The names of a key of one text, or of one and another to sort by, as most are."""
        if len(self.hash) > 1 or len(self.range) > 1 or any(part.kind != "S" for part in self.key):
            return None
        return self.hash[0].name, self.range[0].name if self.range else None

    @cached_property
    def held_in_keys(self) -> Callable[[bytes, bytes], Item] | None:
        """What the index holds of an item, given the key of its row and the item's; None where they do not tell it.

        An index of nothing but keys, all of them texts, is read without its items.
        """
        names = self._text_names
        if self.projection != "KEYS_ONLY" or names is None or any(part.kind != "S" for part in self.table_key):
            return None
        return _reader_of_keys(names, [part.name for part in self.table_key])

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

    def entry(self, item: Item, row_key: bytes) -> bytes | None:
        """The key of the item's row in this index.

        None where the item has no row in it: a key attribute is missing (sparse), or has a value that the index
        cannot hold. The latter is refused in writes, and found only in items that are older than the index.
        """
        start = self.start(item)
        return None if start is None else start + index_tail(self.table_key, item, row_key)

    def start(self, item: Item) -> bytes | None:
        """What the key of the item's row begins with: its values for the index's key. None as in `entry`."""
        names = self._text_names
        if names is None:
            return self._start(item)
        hashed = item.get(names[0])
        text = None if hashed is None else hashed.get("S")
        if not text or len(text) > keys.SHORT_TEXT:
            return None if hashed is None else self._start(item)
        if names[1] is None:
            return keys.partition_of_text(text)
        ranged = item.get(names[1])
        tail = None if ranged is None else ranged.get("S")
        if not tail or len(tail) > keys.SHORT_TEXT:
            return None if ranged is None else self._start(item)
        return keys.partition_of_text(text) + keys.escape(tail.encode()) + b"\0\0"

    def _start(self, item: Item) -> bytes | None:
        hashes = []
        for part in self.hash:
            value = item.get(part.name)
            if value is None or not fits(value, part, limits.PARTITION_KEY_BYTES):
                return None
            hashes.append(value)
        tail = b""
        for part in self.range:
            value = item.get(part.name)
            if value is None or not fits(value, part, limits.SORT_KEY_BYTES):
                return None
            tail += keys.escaped(value)
        return keys.partition_of_many(hashes) + tail

    def view(self, item: Item) -> Item:
        """The part of the item that the index holds."""
        wanted = self.projected
        if wanted is None:
            return item
        return {name: value for name, value in item.items() if name in wanted}


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
        return bool(self.indexes or record.get("stream") or record.get("ttl") or record.get("pitr"))

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

    def row_key(self, values: Item) -> bytes:
        """The key of the row of the item with these key values, which must be of the right types."""
        start = keys.partition(values[self.hash.name])
        return start if self.range is None else start + keys.data_of(values[self.range.name])

    def key_of(self, item: Item) -> Item:
        """The item's primary key."""
        return {name: item[name] for name in self.key_names}


def index_tail(table_key: tuple[KeyAttribute, ...], item: Item, row_key: bytes) -> bytes:
    """What the keys of an item's rows in indexes end with, the same in all of them."""
    return keys.tie([item[part.name] for part in table_key]) + row_key


def _reader_of_keys(own: tuple[str, str | None], of_table: list[str]) -> Callable[[bytes, bytes], Item]:
    (hashed, ranged), (table_hash, *table_range) = own, of_table

    def read(key: bytes, item_key: bytes) -> Item:
        text, end = keys.partition_text(key)
        item: Item = {hashed: {"S": text}}
        if ranged is not None:
            # Two zeros end it; the tie and the item's key follow.
            sort = key[end : len(key) - len(item_key) - keys.TIE_BYTES - 2]
            item[ranged] = {"S": keys.unescape(sort).decode()}
        text, end = keys.partition_text(item_key)
        item[table_hash] = {"S": text}
        if table_range:
            item[table_range[0]] = {"S": item_key[end:].decode()}
        return item

    return read


def fits(value: AttributeValue, part: KeyAttribute, most_bytes: int) -> bool:
    """Whether the value has the key's type, is not empty, and is not too long."""
    data = value.get(part.kind)
    if not data:
        return False
    # A character is at most four bytes: a short text needs no measuring.
    return part.kind == "N" or len(data) * 4 <= most_bytes or keys.length_of(value) <= most_bytes


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
    return TableInfo(table_id, scope, record["TableName"], record, table_hash, table_range, indexes)


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


# ── keys in requests ──────────────────────────────────────────────────────────────────────────────


_INVALID = "One or more parameter values were invalid: "
_MISMATCH = "The provided key element does not match the schema"
_NAMES = {"S": "string", "B": "binary"}
SHORT_KEY = keys.SHORT_TEXT


def row_key_of_key(table: TableInfo, key: Item) -> bytes:
    """The row key that a request's `Key` means; it must hold the key's attributes and nothing else.

    Its values must have been through `check_item`.
    """
    parts = table.key
    if len(key) != len(parts):
        raise ValidationException(_MISMATCH)
    for part in parts:
        value = key.get(part.name)
        if value is None or part.kind not in value:
            raise ValidationException(_MISMATCH)
        if not 0 < len(value[part.kind]) <= SHORT_KEY:
            check_key_value(part, value, part is table.hash)
    return table.row_key(key)


def row_key_of_item(table: TableInfo, item: Item) -> bytes:
    """The row key of an item to be put; its index keys are checked too."""
    for part in table.key:
        value = item.get(part.name)
        if value is None:
            raise ValidationException(f"{_INVALID}Missing the key {part.name} in the item")
        if part.kind not in value:
            raise ValidationException(
                f"{_INVALID}Type mismatch for key {part.name} expected: {part.kind} actual: {type_of(value)}"
            )
        if not 0 < len(value[part.kind]) <= SHORT_KEY:
            check_key_value(part, value, part is table.hash)
    if table.indexes:
        check_index_keys(table, item)
    return table.row_key(item)


def _fits_indexes(table: TableInfo, item: Item) -> bool:
    """Whether every index key in the item has its type, is not empty, and is so short that it cannot be too long."""
    for name, kind in table.index_kinds.items():
        value = item.get(name)
        if value is not None and not 0 < len(value.get(kind, "")) <= SHORT_KEY:
            return False
    return True


def check_index_keys(table: TableInfo, item: Item) -> None:
    """Refuses an item that an index of the table could not hold."""
    if _fits_indexes(table, item):
        return
    for index in table.index_list:
        for part in index.key:
            value = item.get(part.name)
            if value is not None:
                _check_index_value(index, part, value)


def check_index_types(table: TableInfo, types: Mapping[str, str]) -> None:
    """Refuses an update of index keys to these types, which it will write whatever the item is."""
    if all(types.get(name, kind) == kind for name, kind in table.index_kinds.items()):
        return
    for index in table.index_list:
        for part in index.key:
            kind = types.get(part.name, part.kind)
            if kind != part.kind:
                raise _mismatch(index, part, kind)


def check_updated_index_keys(table: TableInfo, written: frozenset[str], item: Item) -> None:
    """Refuses an item whose index keys an update has made unfit; types known beforehand have been checked."""
    if _fits_indexes(table, item):
        return
    for index in table.index_list:
        for part in index.key:
            value = item.get(part.name)
            if value is None:
                continue
            if part.kind not in value and part.name in written:
                raise ValidationException(
                    "The update expression attempted to update the secondary index key to unsupported type"
                )
            _check_index_value(index, part, value)


def refuse_nested_keys(table: TableInfo, nested: frozenset[str]) -> None:
    """Refuses an expression that looks into a key attribute: keys are scalars."""
    if not nested:
        return
    scalars = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
    for name in table.key_names:
        if name in nested:
            raise ValidationException(f"{scalars}Key: {name}")
    for index in table.index_list:
        for part in index.key:
            if part.name in nested:
                raise ValidationException(f"{scalars}IndexKey: {part.name}")


def refuse_key_type(part: KeyAttribute, value: AttributeValue) -> None:
    """Refuses a PartiQL statement's value for a key attribute that has another type than the attribute."""
    if part.kind in value:
        return
    kind = type_of(value)
    if kind not in _NAMES and kind != "N":
        raise ValidationException(f"Key value must be of type S, N, or B. Key name: {part.name}, Key type: {kind}")
    raise ValidationException(
        f"Key attribute's data type should match its data type in table's schema: Key {part.name}"
    )


def check_key_value(part: KeyAttribute, value: AttributeValue, is_hash: bool) -> None:
    """Refuses a key value, of the right type, that is empty or too long."""
    data = value[part.kind]
    if not data:
        raise ValidationException(
            "One or more parameter values are not valid. The AttributeValue for a key attribute "
            f"cannot contain an empty {_NAMES[part.kind]} value. Key: {part.name}"
        )
    if part.kind != "N" and len(data) > SHORT_KEY:
        _check_length(value, is_hash)


def _check_length(value: AttributeValue, is_hash: bool) -> None:
    length = keys.length_of(value)
    if is_hash and length > limits.PARTITION_KEY_BYTES:
        raise ValidationException(f"{_INVALID}Size of hashkey has exceeded the maximum size limit of2048 bytes")
    if not is_hash and length > limits.SORT_KEY_BYTES:
        raise ValidationException(
            f"{_INVALID}Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
        )


def _mismatch(index: IndexInfo, part: KeyAttribute, kind: str) -> ValidationException:
    return ValidationException(
        f"{_INVALID}Type mismatch for Index Key {part.name} Expected: {part.kind} "
        f"Actual: {kind} IndexName: {index.name}"
    )


def _check_index_value(index: IndexInfo, part: KeyAttribute, value: AttributeValue) -> None:
    if part.kind not in value:
        raise _mismatch(index, part, type_of(value))
    if not value[part.kind]:
        raise ValidationException(
            "One or more parameter values are not valid. A value specified for a secondary index key is not "
            "supported. The AttributeValue for a key attribute cannot contain an empty "
            f"{_NAMES[part.kind]} value. IndexName: {index.name}, IndexKey: {part.name}"
        )
    if part.kind != "N" and len(value[part.kind]) > SHORT_KEY:
        _check_length(value, part in index.hash)
