"""Keys in requests, checked against a table's schema, with DynamoDB's texts."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.catalog.table_schema import IndexInfo, KeyAttribute, TableInfo
from penstock.errors import ValidationException
from penstock.wire import keys, limits
from penstock.wire.values import AttributeValue, Item, type_of

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
