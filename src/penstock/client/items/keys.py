"""A table's key: which attributes it has and of which type, and the checks that this allows before a call."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.items.values import InvalidValue, encode
from penstock.wire import numbers
from penstock.wire import values as wire
from penstock.wire.limits import PARTITION_KEY_BYTES, SORT_KEY_BYTES

Key = Mapping[str, Any]
"""A primary key in Python's values: {"companyId": "c1", "expenseId": "e7"}."""

Identity = tuple[tuple[str, str], ...]
"""A key as something to compare and look up: two keys of one item have the same."""

KeyDeclaration = str | tuple[str, ...] | list[str]
"""How people write a key: "companyId:S", or ("companyId:S", "expenseId:S")."""

_TYPES = {"S": "a str", "N": "a number", "B": "bytes"}


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    name: str
    type: str
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class TableKey:
    """The key attributes of a table, and the names of those of its indexes where they are known."""

    attributes: tuple[KeyAttribute, ...]
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = field(init=False)
    _in_order: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(attribute.name for attribute in self.attributes))
        object.__setattr__(self, "_in_order", tuple(sorted(self.names)))

    @classmethod
    def parse(cls, key: KeyDeclaration) -> TableKey:
        """A key as people write it."""
        parts = (key,) if isinstance(key, str) else tuple(key)
        if not 1 <= len(parts) <= 2:
            raise ValueError(f"a key has a partition attribute and at most a sort attribute, not {parts!r}")
        return cls(tuple(_parse_attribute(part, limit) for part, limit in zip(parts, _LIMITS, strict=False)))

    @classmethod
    def from_description(cls, table: Mapping[str, Any]) -> TableKey:
        """The key that DescribeTable tells."""
        types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
        names = _names(table["KeySchema"])
        attributes = tuple(KeyAttribute(name, types[name], limit) for name, limit in zip(names, _LIMITS, strict=False))
        indexes = [*table.get("GlobalSecondaryIndexes", ()), *table.get("LocalSecondaryIndexes", ())]
        return cls(attributes, {index["IndexName"]: _names(index["KeySchema"]) for index in indexes})

    def start_names(self, index: str | None) -> tuple[str, ...] | None:
        """The attributes that say where in the table, or in the index, an item stands; None if not known."""
        if index is None:
            return self.names
        if index not in self.indexes:
            return None
        return tuple(dict.fromkeys((*self.names, *self.indexes[index])))

    def check_item(self, item: wire.Item) -> None:
        """Refuses an item whose key is missing, empty, too long or of another type."""
        for attribute in self.attributes:
            value = item.get(attribute.name)
            content = None if value is None else value.get(attribute.type)
            # An ordinary one is neither empty nor, at four bytes a character, too long: no need to look closer.
            if not content or len(content) > attribute.limit_bytes // 4:
                _check(attribute, item)

    def check_key(self, key: wire.Item) -> None:
        """Refuses a key that is not exactly this table's."""
        self.check_item(key)
        for name in key:
            if name not in self.names:
                raise InvalidValue(f"not an attribute of the key, which is {' and '.join(self.names)}", name)

    def key_of(self, item: wire.Item) -> wire.Item:
        """The key of an item."""
        return {name: item[name] for name in self.names}

    def identity_of(self, item: wire.Item) -> Identity:
        """`identity(key_of(item))`, sooner."""
        pairs = [(name, item[name]) for name in self._in_order]
        return tuple([(name, value["S"] if "S" in value else _canonical(value)) for name, value in pairs])


_LIMITS = (PARTITION_KEY_BYTES, SORT_KEY_BYTES)


def _parse_attribute(text: str, limit: int) -> KeyAttribute:
    name, colon, kind = text.rpartition(":")
    if not colon or not name or kind not in _TYPES:
        raise ValueError(f"a key attribute is written name:type with the type S, N or B, such as 'id:S'; not {text!r}")
    return KeyAttribute(name, kind, limit)


def _names(schema: list[dict[str, str]]) -> tuple[str, ...]:
    """Partition attributes first, as in the schema otherwise."""
    parts = sorted(schema, key=lambda part: part["KeyType"] != "HASH")
    return tuple(part["AttributeName"] for part in parts)


def encode_key(key: Key, schema: TableKey | None) -> wire.Item:
    """A key for the wire, checked as far as the table's key is known: its values are never empty."""
    if not isinstance(key, Mapping):
        raise TypeError(f'a key is a dict such as {{"id": "1"}}, not {key!r}')
    encoded = {name: encode(value, name) for name, value in key.items()}
    if schema is not None:
        schema.check_key(encoded)
    else:
        for name, value in encoded.items():
            _check_content(name, value)
    return encoded


def identity(key: wire.Item) -> Identity:
    """The same for two keys if and only if they are one item's."""
    parts = [(name, value["S"] if "S" in value else _canonical(value)) for name, value in key.items()]
    if len(parts) > 1:
        parts.sort()
    return tuple(parts)


def _canonical(value: wire.AttributeValue) -> str:
    ((kind, content),) = value.items()
    return numbers.normalise(content) if kind == "N" else str(content)


def _check(attribute: KeyAttribute, item: wire.Item) -> None:
    name = attribute.name
    value = item.get(name)
    if value is None:
        raise InvalidValue("the key attribute is missing", name)
    if attribute.type not in value:
        raise InvalidValue(
            f"the key attribute is {_TYPES[attribute.type]}, type {attribute.type}; given {_kind(value)}", name
        )
    size = _check_content(name, value)
    if size > attribute.limit_bytes:
        raise InvalidValue(f"a key attribute of {size:,} bytes; it has at most {attribute.limit_bytes:,}", name)


def _check_content(name: str, value: wire.AttributeValue) -> int:
    """The bytes that a key's value has, of a text and of bytes: DynamoDB takes none that is empty."""
    ((kind, content),) = value.items()
    if kind not in _TYPES:
        raise InvalidValue(f"a key attribute is a str, a number or bytes; given {_kind(value)}", name)
    if kind == "N":
        return 0
    if not content:
        raise InvalidValue("a key attribute must not be empty", name)
    if kind == "B":
        return len(a2b_base64(content))
    return len(content) if content.isascii() else len(content.encode())


def _kind(value: wire.AttributeValue) -> str:
    return f"type {wire.type_of(value)}"
