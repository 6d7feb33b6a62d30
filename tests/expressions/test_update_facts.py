"""What an update's text shows without an item."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.expressions.compiled.updates import charge_of, looked_into, written_types

UPDATE, CLAUSE = 3, 19
ONE = {":one": {"N": "1"}}


@pytest.mark.parametrize(
    ("text", "values", "charge"),
    [
        ("SET c = :c", {":c": {"S": "y" * 50}}, CLAUSE + 1 + 50),
        ("SET #c = :c", {":c": {"S": "é"}}, CLAUSE + len("curious") + 2),
        ("SET c = spare", {}, CLAUSE + 1 + 1 + 14 + 5),
        ("SET c = m.deep", {}, CLAUSE + 1 + 1 + 14 + 1 + 14 + 4),
        ("SET c = m[10]", {}, CLAUSE + 1 + 1 + 14 + 1 + 14 + 2),
        ("SET n = n + :one", ONE, CLAUSE + 1 + 34 + 16 + 2),
        ("SET n = n - :one", ONE, CLAUSE + 1 + 37 + 16 + 2),
        ("SET c = if_not_exists(c, :c)", {":c": {"S": "y" * 9}}, CLAUSE + 1 + 39 + 16 + 9),
        ("SET m = list_append(m, :m)", {":m": {"L": [{"S": "e"}]}}, CLAUSE + 1 + 37 + 16 + 3 + 1 + 1),
        ("SET m.z = :one", ONE, CLAUSE + 1 + 4 + 1 + 2),
        ("SET m[12] = :one", ONE, CLAUSE + 1 + 4 + 2 + 2),
        ("ADD n :one", ONE, CLAUSE + 1 + 2),
        ("REMOVE spare", {}, 1 + 5),
        ("REMOVE m.deep, m[1]", {}, 1 + 1 + 4 + 4 + 1 + 1 + 4 + 1),
        ("DELETE t :t", {":t": {"SS": ["p" * 30]}}, 1 + 1),
        ("SET c = :one, d = :one REMOVE e", ONE, 2 * (CLAUSE + 1 + 2) + 1 + 1),
    ],
)
def test_each_kind_of_clause_has_its_charge(text: str, values: dict[str, Any], charge: int) -> None:
    assert charge_of(text, {"#c": "curious"}, values) == UPDATE + charge


def test_the_types_of_values_sums_and_lists_are_known_beforehand() -> None:
    request = {
        "UpdateExpression": "SET #a = :one, b = c + :one, d = list_append(d, e), f = g, h.i = :one ADD j :one REMOVE k",
        "ExpressionAttributeNames": {"#a": "a"},
        "ExpressionAttributeValues": ONE,
    }
    assert dict(written_types(request)) == {"a": "N", "b": "N", "d": "L", "j": "N"}
    updates = {"a": {"Value": {"S": "x"}}, "b": {"Action": "DELETE"}}
    assert dict(written_types({"AttributeUpdates": updates})) == {"a": "S"}


def test_attributes_are_looked_into_on_either_side() -> None:
    request = {"UpdateExpression": "SET a.b = c, d = e[1] REMOVE f.g, h"}
    assert looked_into(request) == {"a", "e", "f"}
    assert looked_into({}) == frozenset()
