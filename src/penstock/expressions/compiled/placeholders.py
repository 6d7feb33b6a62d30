"""ExpressionAttributeNames and ExpressionAttributeValues: well formed, all defined, all used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from penstock.errors import ValidationException
from penstock.wire.limits import ATTRIBUTE_NAME_BYTES, EXPRESSION_VALUES_BYTES, PLACEHOLDER_BYTES
from penstock.wire.refusals import RefusedValue
from penstock.wire.values import AttributeValue, Item, check_item, check_value

_NAME = re.compile(r"#[0-9a-zA-Z_]+")
_VALUE = re.compile(r":[0-9a-zA-Z_]+")


class Placeholders:
    """What a request's placeholders stand for, and which of them its expressions have used."""

    __slots__ = ("_used_names", "_used_values", "names", "size", "values")

    def __init__(self, names: Mapping[str, str], values: Mapping[str, AttributeValue], size: int = 0) -> None:
        self.names = names
        self.values = values
        self.size = size
        self._used_names: frozenset[str] = frozenset()
        self._used_values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Placeholders:
        """The request's names and values, checked; its values are normalised."""
        names = request.get("ExpressionAttributeNames")
        values = request.get("ExpressionAttributeValues")
        names_size = 0 if names is None else size_of_names(names)
        checked, values_size = ({}, 0) if values is None else _checked_values(values)
        if names_size + values_size > EXPRESSION_VALUES_BYTES:
            _refuse_size(names_size, values_size)
        return cls(names or {}, checked, names_size + values_size)

    def use(self, names: frozenset[str], values: frozenset[str]) -> None:
        """Notes what an expression uses."""
        self._used_names = self._used_names | names if self._used_names else names
        self._used_values = self._used_values | values if self._used_values else values

    def refuse_unused(self) -> None:
        """Refuses what no expression uses."""
        _refuse_unused("ExpressionAttributeNames", self.names, self._used_names)
        _refuse_unused("ExpressionAttributeValues", self.values, self._used_values)


def size_of_names(names: Mapping[str, str]) -> int:
    """The size of all keys and names, which are refused where they are not well formed."""
    if not names:
        raise ValidationException("ExpressionAttributeNames must not be empty")
    size = 0
    for key, name in names.items():
        _check_key("ExpressionAttributeNames", key, _NAME)
        length = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
        if not 0 < length <= ATTRIBUTE_NAME_BYTES:
            why = "Attribute name is too large, must be less than 65536 bytes" if length else "Empty attribute name"
            raise ValidationException(f"ExpressionAttributeNames contains invalid value: {why} for key {key}")
        size += len(key) + length
    return size


def check_value_keys(keys: Iterable[str]) -> None:
    """Refuses :placeholders that are not well formed."""
    for key in keys:
        _check_key("ExpressionAttributeValues", key, _VALUE)


def _checked_values(values: Item) -> tuple[Item, int]:
    """The values, normalised, and the size of all keys and values."""
    if not values:
        raise ValidationException("ExpressionAttributeValues must not be empty")
    check_value_keys(values)
    try:
        return check_item(values)
    except ValidationException:
        for key, value in values.items():
            _refuse_value(key, value)
        raise


def _refuse_value(key: str, value: AttributeValue) -> None:
    try:
        check_value(value)
    except ValidationException as problem:
        older = f"ExpressionAttributeValues contains invalid value: {problem.message} for key {key}"
        if isinstance(problem, RefusedValue):
            raise RefusedValue(older, problem.current) from None
        raise ValidationException(older) from None


def _refuse_size(names: int, values: int) -> None:
    if names > EXPRESSION_VALUES_BYTES:
        raise ValidationException("ExpressionAttributeNames exceeds max size")
    if values > EXPRESSION_VALUES_BYTES:
        raise ValidationException("ExpressionAttributeValues exceeds max size")
    raise ValidationException(
        "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size"
    )


@lru_cache(maxsize=4096)
def _is_placeholder(key: str, form: re.Pattern[str]) -> bool:
    return len(key) <= PLACEHOLDER_BYTES and form.fullmatch(key) is not None


def _check_key(parameter: str, key: str, form: re.Pattern[str]) -> None:
    if _is_placeholder(key, form):
        return
    if form.fullmatch(key) is None:
        raise ValidationException(f'{parameter} contains invalid key: Syntax error; key: "{key}"')
    raise ValidationException(
        f"{parameter} contains invalid key: "
        f"The expression attribute map contains a key that is too long; size of key: {len(key)}"
    )


def _refuse_unused(parameter: str, given: Mapping[str, Any], used: frozenset[str]) -> None:
    if given.keys() <= used:
        return
    unused = in_java_order([key for key in given if key not in used], len(given))
    raise ValidationException(f"Value provided in {parameter} unused in expressions: keys: {{{', '.join(unused)}}}")


def in_java_order(keys: Iterable[str], total: int) -> list[str]:
    """Keys in the order of a Java HashSet that was made for `total` of them: so DynamoDB lists them."""
    capacity = 16
    while capacity < total / 0.75 + 1:
        capacity *= 2

    def slot(key: str) -> int:
        hashed = 0
        for character in key:
            hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
        return (hashed ^ (hashed >> 16)) & (capacity - 1)

    return sorted(keys, key=slot)
