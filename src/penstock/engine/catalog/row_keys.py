"""Keys as bytes, in an order that SQLite can walk; keys of requests, checked against the table's schema.

A table's row key:  hash(8) · length(2) · partition key · sort key
An index's row key: hash(8) · (length(2) · value)* for its partition attributes · (escaped value)* for its sort
                    attributes · hash of the item's primary key(4) · the table's row key, which makes it unique

1. Rows of one partition are neighbours, in the order of their sort keys.
2. Partitions follow each other in the order of a hash of their key, as DynamoDB's do, so that a Scan's segments
   are ranges of hashes.
3. Within one partition, byte order is DynamoDB's order: S by UTF-8 bytes, B by bytes, N by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

from penstock.errors import ValidationException
from penstock.wire import limits, numbers
from penstock.wire.values import AttributeValue, Item, binary, item_size, type_of

if TYPE_CHECKING:
    from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo

HASH_BYTES = 8
LENGTH_BYTES = 2
TIE_BYTES = 4

SHORT_TEXT = limits.SORT_KEY_BYTES // 4
"""A character is at most four bytes: a text of so many needs no measuring."""

# DynamoDB's own hash of a partition key, as far as the order of its scans shows it: MD5 of this word and the key.
_SALT = b"Outliers"


class _Hash(Protocol):
    def digest(self) -> bytes: ...


def _quickest_md5() -> Callable[[bytes], _Hash]:
    """Python's own where there is one: for a key, OpenSSL's takes more than twice as long."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import md5

        return partial(md5, usedforsecurity=False)
    own: Callable[[bytes], _Hash] = md5
    return own


_md5 = _quickest_md5()


def data_of(value: AttributeValue) -> bytes:
    """A key attribute's value as bytes that keep its order."""
    ((kind, data),) = value.items()
    if kind == "S":
        encoded: bytes = data.encode()
        return encoded
    if kind == "N":
        return numbers.encode(data)
    return binary(data)


def length_of(value: AttributeValue) -> int:
    """Bytes that a key value counts against the limits of keys."""
    ((kind, data),) = value.items()
    if kind == "S":
        return len(data.encode())
    return numbers.size(data) if kind == "N" else len(binary(data))


def partition(value: AttributeValue) -> bytes:
    """What every row key of the partition of this value begins with."""
    ((kind, data),) = value.items()
    if kind == "S":
        return text_partition(data)
    if kind == "N":
        return number_partition(data)
    raw = binary(data)
    return _md5(_SALT + raw).digest()[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


@lru_cache(maxsize=1024)
def number_partition(text: str) -> bytes:
    """The same for a number; remembered, because those that are partition keys are often flags or states."""
    raw = numbers.encode(text)
    return _md5(_SALT + numbers.hash_bytes(text)).digest()[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def text_partition(text: str) -> bytes:
    """The same for a text."""
    raw = text.encode()
    digest = _md5(_SALT + raw).digest()
    return digest[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


@lru_cache(maxsize=1024)
def partition_of_text(text: str) -> bytes:
    """The same, remembered, because an index has few partitions that are written to at a time."""
    return text_partition(text)


@lru_cache(maxsize=1024)
def text_keys(hashed: str, ranged: str) -> tuple[bytes, bytes]:
    """The row key of a primary key of texts, and what the keys of the item's rows in indexes end with.

    Remembered, because an item is often written a few times in a row. `ranged` is empty where the key has one part.
    """
    tail = ranged.encode()
    key = text_partition(hashed) + tail
    return key, _md5(_SALT + hashed.encode() + tail).digest()[:TIE_BYTES] + key


def partition_of_many(values: list[AttributeValue]) -> bytes:
    """The same for an index whose partition key has several attributes."""
    if len(values) == 1:
        return partition(values[0])
    raws = [data_of(value) for value in values]
    framed = b"".join(len(raw).to_bytes(LENGTH_BYTES, "big") + raw for raw in raws)
    return _md5(_SALT + framed).digest()[:HASH_BYTES] + framed


def tie(primary_key: list[AttributeValue]) -> bytes:
    """What orders items of equal index keys: a hash of their primary keys, as DynamoDB's queries show it."""
    hashed = b""
    for value in primary_key:
        if "S" in value:
            hashed += value["S"].encode()
        else:
            hashed += numbers.hash_bytes(value["N"]) if "N" in value else data_of(value)
    return _md5(_SALT + hashed).digest()[:TIE_BYTES]


def escape_value(value: AttributeValue) -> bytes:
    """A sort attribute inside an index's key: keeps order although more bytes follow."""
    ((kind, data),) = value.items()
    if kind == "N":
        return numbers.encode(data)
    return escape(data.encode() if kind == "S" else binary(data)) + b"\0\0"


def escape(raw: bytes) -> bytes:
    """Bytes in which no zero stands before anything but 0xFF, so that two zeros can end them."""
    return raw.replace(b"\0", b"\0\xff")


def unescape(raw: bytes) -> bytes:
    """What `escape` was given."""
    return raw.replace(b"\0\xff", b"\0")


def partition_text(row_key: bytes) -> tuple[str, int]:
    """The text of the partition key that a row key begins with, and where it ends."""
    start = HASH_BYTES + LENGTH_BYTES
    end = start + int.from_bytes(row_key[HASH_BYTES:start], "big")
    return row_key[start:end].decode(), end


def partition_range(values: list[AttributeValue]) -> tuple[bytes, bytes | None]:
    """What the row keys of a partition begin with, and what is above all of them."""
    start = partition_of_many(values)
    return start, after(start)


def after(prefix: bytes) -> bytes | None:
    """The least bytes above everything that begins with `prefix`; None where there are none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def segment_start(segment: int, total: int) -> bytes:
    """The least row key of a parallel Scan's segment."""
    # DynamoDB's own segments begin at multiples of 1/4096 of the hash space, as far as its scans show it.
    grain = max(total, 4096)
    return (-(-grain * segment // total) * ((1 << 64) // grain)).to_bytes(9, "big")[1:]


# ── keys of a table's rows and of its indexes' ─────────────────────────────────────────────────────


def row_key(table: TableInfo, values: Item) -> bytes:
    """The key of the row of the item with these key values, which must be of the right types."""
    start = partition(values[table.hash.name])
    return start if table.range is None else start + data_of(values[table.range.name])


def index_key(index: IndexInfo, item: Item, row_key: bytes) -> bytes | None:
    """The key of the item's row in this index.

    None where the item has no row in it: a key attribute is missing (sparse), or has a value that the index
    cannot hold. The latter is refused in writes, and found only in items that are older than the index.
    """
    start = index_start(index, item)
    return None if start is None else start + index_tail(index.table_key, item, row_key)


def index_start(index: IndexInfo, item: Item) -> bytes | None:
    """What the key of the item's row begins with: its values for the index's key. None as in `index_key`."""
    names = index.text_names
    if names is None:
        return _index_start(index, item)
    hashed = item.get(names[0])
    text = None if hashed is None else hashed.get("S")
    if not text or len(text) > SHORT_TEXT:
        return None if hashed is None else _index_start(index, item)
    if names[1] is None:
        return partition_of_text(text)
    ranged = item.get(names[1])
    tail = None if ranged is None else ranged.get("S")
    if not tail or len(tail) > SHORT_TEXT:
        return None if ranged is None else _index_start(index, item)
    return partition_of_text(text) + escape(tail.encode()) + b"\0\0"


def fitting_index_starts(indexes: Iterable[IndexInfo], item: Item) -> list[bytes | None]:
    """`index_start` of each, for an item whose values for their keys, as far as it has them, are short and fit."""
    starts: list[bytes | None] = []
    for index in indexes:
        names = index.text_names
        if names is None:
            starts.append(index_start(index, item))
            continue
        hashed, range_name = item.get(names[0]), names[1]
        start: bytes | None = None if hashed is None else partition_of_text(hashed["S"])
        if start is not None and range_name is not None:
            ranged = item.get(range_name)
            start = None if ranged is None else start + ranged["S"].encode().replace(b"\0", b"\0\xff") + b"\0\0"
        starts.append(start)
    return starts


def _index_start(index: IndexInfo, item: Item) -> bytes | None:
    hashes = []
    for part in index.hash:
        value = item.get(part.name)
        if value is None or not fits(value, part, limits.PARTITION_KEY_BYTES):
            return None
        hashes.append(value)
    tail = b""
    for part in index.range:
        value = item.get(part.name)
        if value is None or not fits(value, part, limits.SORT_KEY_BYTES):
            return None
        tail += escape_value(value)
    return partition_of_many(hashes) + tail


def index_tail(table_key: tuple[KeyAttribute, ...], item: Item, row_key: bytes) -> bytes:
    """What the keys of an item's rows in indexes end with, the same in all of them."""
    return tie([item[part.name] for part in table_key]) + row_key


def reader_of_keys(own: tuple[str, str | None], of_table: list[str]) -> Callable[[bytes, bytes], tuple[Item, int]]:
    """What reads an item of nothing but keys, all of them texts, out of its row in an index; and the item's size."""
    (hashed, ranged), (table_hash, *table_range) = own, of_table
    names = [hashed, *([] if ranged is None else [ranged]), *of_table]
    names_bytes = sum(len(name.encode()) for name in names) if len({*names}) == len(names) else None
    before_texts = HASH_BYTES + LENGTH_BYTES

    def read(key: bytes, item_key: bytes) -> tuple[Item, int]:
        text, end = partition_text(key)
        item: Item = {hashed: {"S": text}}
        size = end - before_texts
        if ranged is not None:
            # Two zeros end it; the tie and the item's key follow.
            sort = unescape(key[end : len(key) - len(item_key) - TIE_BYTES - 2])
            item[ranged] = {"S": sort.decode()}
            size += len(sort)
        text, end = partition_text(item_key)
        item[table_hash] = {"S": text}
        if table_range:
            item[table_range[0]] = {"S": item_key[end:].decode()}
        if names_bytes is None:  # an attribute of both keys is there once
            return item, item_size(item)
        return item, size + len(item_key) - before_texts + names_bytes

    return read


def fits(value: AttributeValue, part: KeyAttribute, most_bytes: int) -> bool:
    """Whether the value has the key's type, is not empty, and is not too long."""
    data = value.get(part.kind)
    if not data:
        return False
    # A character is at most four bytes: a short text needs no measuring.
    return part.kind == "N" or len(data) * 4 <= most_bytes or length_of(value) <= most_bytes


# ── keys in requests ──────────────────────────────────────────────────────────────────────────────


_INVALID = "One or more parameter values were invalid: "
_MISMATCH = "The provided key element does not match the schema"
_NAMES = {"S": "string", "B": "binary"}


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
        if not 0 < len(value[part.kind]) <= SHORT_TEXT:
            check_key_value(part, value, part is table.hash)
    return row_key(table, key)


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
        if not 0 < len(value[part.kind]) <= SHORT_TEXT:
            check_key_value(part, value, part is table.hash)
    if table.indexes:
        check_index_keys(table, item)
    return row_key(table, item)


def _fits_indexes(table: TableInfo, item: Item) -> bool:
    """Whether every index key in the item has its type, is not empty, and is so short that it cannot be too long."""
    for name, kind in table.index_kinds.items():
        value = item.get(name)
        if value is not None and not 0 < len(value.get(kind, "")) <= SHORT_TEXT:
            return False
    return True


def check_index_keys(table: TableInfo, item: Item) -> None:
    """Refuses an item that an index of the table could not hold."""
    if _fits_indexes(table, item):
        return
    for index in _by_name(table):
        for part in index.key:
            value = item.get(part.name)
            if value is not None:
                _check_index_value(index, part, value)


def _by_name(table: TableInfo) -> list[IndexInfo]:
    """The indexes as DynamoDB looks at them: of several that a value does not suit, it names the first by name."""
    return sorted(table.index_list, key=lambda index: index.name)


def check_index_types(table: TableInfo, types: Mapping[str, str]) -> None:
    """Refuses an update of index keys to these types, which it will write whatever the item is."""
    if all(types.get(name, kind) == kind for name, kind in table.index_kinds.items()):
        return
    for index in _by_name(table):
        for part in index.key:
            kind = types.get(part.name, part.kind)
            if kind != part.kind:
                raise _mismatch(index, part, kind)


def check_updated_index_keys(table: TableInfo, written: frozenset[str], item: Item) -> None:
    """Refuses an item whose index keys an update has made unfit; types known beforehand have been checked."""
    if _fits_indexes(table, item):
        return
    for index in _by_name(table):
        for part in index.key:
            value = item.get(part.name)
            if value is None:
                continue
            if part.kind not in value and part.name in written:
                raise ValidationException(
                    "The update expression attempted to update the secondary index key to unsupported type"
                )
            if part.name in written and not value.get(part.kind, "-"):
                raise ValidationException(
                    "One or more parameter values are not valid. The update expression attempted to update a secondary "
                    "index key to a value that is not supported. The AttributeValue for a key attribute cannot contain "
                    f"an empty {_NAMES[part.kind]} value."
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
    if part.kind != "N" and len(data) > SHORT_TEXT:
        _check_length(value, is_hash)


def _check_length(value: AttributeValue, is_hash: bool) -> None:
    length = length_of(value)
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
    check_index_value(index.name, part, value, is_hash=part in index.hash)


def check_index_value(index: str, part: KeyAttribute, value: AttributeValue, *, is_hash: bool) -> None:
    """Refuses a value, of the right type, that is empty or too long for the key of the index of this name."""
    if not value[part.kind]:
        raise ValidationException(
            "One or more parameter values are not valid. A value specified for a secondary index key is not "
            "supported. The AttributeValue for a key attribute cannot contain an empty "
            f"{_NAMES[part.kind]} value. IndexName: {index}, IndexKey: {part.name}"
        )
    if part.kind != "N" and len(value[part.kind]) > SHORT_TEXT:
        _check_length(value, is_hash)
