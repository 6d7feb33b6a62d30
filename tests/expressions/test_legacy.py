"""The parameters that came before expressions."""

from __future__ import annotations

import pytest

from penstock.errors import ValidationException
from penstock.expressions.request import condition_of, projection_of, query_of, scan_of, update_of

INVALID = "One or more parameter values were invalid: "
ALL = {
    "S": {"S": "a"},
    "N": {"N": "1"},
    "B": {"B": "YQ=="},
    "BOOL": {"BOOL": True},
    "NULL": {"NULL": True},
    "SS": {"SS": ["a"]},
    "NS": {"NS": ["1"]},
    "BS": {"BS": ["YQ=="]},
    "M": {"M": {}},
    "L": {"L": []},
}


def condition(operator: str, *values: dict) -> dict:
    return {"ComparisonOperator": operator, "AttributeValueList": list(values)}


def refusal(call, **request: object) -> str:
    with pytest.raises(ValidationException) as refused:
        call(request)
    return refused.value.message


ITEM = {"s": {"S": "hello"}, "n": {"N": "10"}, "ss": {"SS": ["a", "b"]}, "l": {"L": [{"S": "x"}]}}


@pytest.mark.parametrize(
    ("name", "operator", "values", "expected"),
    [
        ("s", "EQ", [{"S": "hello"}], True),
        ("n", "EQ", [{"S": "10"}], False),
        ("ss", "EQ", [{"SS": ["b", "a"]}], True),
        ("nope", "EQ", [{"S": "x"}], False),
        ("s", "NE", [{"S": "x"}], True),
        ("nope", "NE", [{"S": "x"}], True),
        ("n", "LT", [{"N": "11"}], True),
        ("n", "LE", [{"N": "10"}], True),
        ("n", "GT", [{"N": "9"}], True),
        ("n", "GE", [{"N": "10.5"}], False),
        ("nope", "GT", [{"N": "9"}], False),
        ("n", "BETWEEN", [{"N": "9"}, {"N": "10"}], True),
        ("s", "BETWEEN", [{"N": "9"}, {"N": "10"}], False),
        ("s", "BEGINS_WITH", [{"S": "he"}], True),
        ("n", "IN", [{"N": "1"}, {"N": "10"}], True),
        ("nope", "IN", [{"N": "1"}], False),
        ("s", "CONTAINS", [{"S": "ell"}], True),
        ("ss", "CONTAINS", [{"S": "a"}], True),
        ("l", "CONTAINS", [{"S": "x"}], True),
        ("nope", "CONTAINS", [{"S": "x"}], False),
        ("s", "NOT_CONTAINS", [{"S": "ell"}], False),
        ("nope", "NOT_CONTAINS", [{"S": "x"}], False),
        ("s", "NULL", [], False),
        ("nope", "NULL", [], True),
        ("s", "NOT_NULL", [], True),
        ("nope", "NOT_NULL", [], False),
    ],
)
def test_a_legacy_condition_holds_as_it_does_in_dynamodb(
    name: str, operator: str, values: list, expected: bool
) -> None:
    asked = {name: condition(operator, *values)}
    for request, call in (("ScanFilter", scan_of), ("QueryFilter", query_of)):
        key = {"KeyConditions": {"pk": condition("EQ", {"S": "k"})}} if call is query_of else {}
        assert call({request: asked, **key}).filter(ITEM) is expected
    assert condition_of({"Expected": asked})(ITEM) is expected


def test_conditions_are_joined_by_and_unless_or_is_asked_for() -> None:
    both = {"s": condition("EQ", {"S": "hello"}), "n": condition("EQ", {"N": "0"})}
    assert condition_of({"Expected": both})(ITEM) is False
    assert condition_of({"Expected": both, "ConditionalOperator": "AND"})(ITEM) is False
    assert condition_of({"Expected": both, "ConditionalOperator": "OR"})(ITEM) is True
    assert scan_of({"ScanFilter": both, "ConditionalOperator": "OR"}).filter(ITEM) is True


@pytest.mark.parametrize(
    ("expected", "holds"),
    [
        ({"s": {"Exists": False}}, False),
        ({"nope": {"Exists": False}}, True),
        ({"s": {"Value": {"S": "hello"}}}, True),
        ({"s": {"Exists": True, "Value": {"S": "hello"}}}, True),
        ({"s": {"Exists": True, "Value": {"S": "x"}}}, False),
        ({"n": {"ComparisonOperator": "GT", "Value": {"N": "9.0"}}}, True),
    ],
)
def test_expected(expected: dict, holds: bool) -> None:
    assert condition_of({"Expected": expected})(ITEM) is holds


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({}, "Value must be provided when Exists is null for Attribute: a"),
        ({"Exists": True}, "Value must be provided when Exists is true for Attribute: a"),
        ({"Exists": False, "Value": {"S": "a"}}, "Value cannot be used when Exists is false for Attribute: a"),
        (
            {"Value": {"S": "a"}, "AttributeValueList": []},
            "Value and AttributeValueList cannot be used together for Attribute: a",
        ),
        (
            {"AttributeValueList": []},
            "AttributeValueList can only be used with a ComparisonOperator for Attribute: a",
        ),
        (
            {"ComparisonOperator": "EQ", "Exists": True},
            "Exists and ComparisonOperator cannot be used together for Attribute: a",
        ),
        (
            {"ComparisonOperator": "EQ"},
            "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a",
        ),
        (
            {"ComparisonOperator": "BETWEEN", "Value": {"S": "a"}},
            "Invalid number of argument(s) for the BETWEEN ComparisonOperator",
        ),
        (
            {"ComparisonOperator": "IN", "AttributeValueList": [{"S": "a"}, {"N": "1"}]},
            "AttributeValues inside AttributeValueList must be of same type",
        ),
    ],
)
def test_malformed_expectations(expected: dict, message: str) -> None:
    assert refusal(condition_of, Expected={"a": expected}) == INVALID + message


COUNTS = {
    **dict.fromkeys(["EQ", "NE", "LE", "LT", "GE", "GT", "CONTAINS", "NOT_CONTAINS", "BEGINS_WITH"], (1,)),
    "IN": (1, 2, 3),
    "BETWEEN": (2,),
    "NULL": (0,),
    "NOT_NULL": (0,),
}


@pytest.mark.parametrize(("operator", "allowed"), COUNTS.items())
@pytest.mark.parametrize("count", range(4))
def test_operators_take_so_many_arguments(operator: str, allowed: tuple, count: int) -> None:
    request = {"ScanFilter": {"a": condition(operator, *[{"S": "a"}] * count)}}
    if count in allowed:
        assert scan_of(request).filter is not None
    else:
        assert refusal(scan_of, **request) == (
            f"{INVALID}Invalid number of argument(s) for the {operator} ComparisonOperator"
        )


BAD_TYPES = {
    **{key: ["BOOL", "NULL", "SS", "NS", "BS", "M", "L"] for key in ["LT", "LE", "GT", "GE", "IN", "BETWEEN"]},
    **{key: ["SS", "NS", "BS", "M", "L"] for key in ["CONTAINS", "NOT_CONTAINS"]},
    "BEGINS_WITH": ["N", "BOOL", "NULL", "SS", "NS", "BS", "M", "L"],
    "EQ": [],
    "NE": [],
}


@pytest.mark.parametrize(("operator", "bad"), BAD_TYPES.items())
@pytest.mark.parametrize("kind", ALL)
def test_operators_take_values_of_some_types(operator: str, bad: list, kind: str) -> None:
    asked = {"a": condition(operator, *[ALL[kind]] * (2 if operator == "BETWEEN" else 1))}
    if kind not in bad:
        assert scan_of({"ScanFilter": asked}).filter is not None
        return
    message = f"{INVALID}ComparisonOperator {operator} is not valid for {kind} AttributeValue type"
    assert refusal(scan_of, ScanFilter=asked) == message
    assert refusal(query_of, QueryFilter=asked) == message
    assert refusal(query_of, KeyConditions=asked) == message


def test_the_bounds_of_between_are_in_order() -> None:
    asked = {"a": condition("BETWEEN", {"S": "b"}, {"S": "a"})}
    assert refusal(query_of, KeyConditions=asked) == (
        "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"
    )


def test_values_are_checked_before_they_are_counted() -> None:
    asked = {"a": condition("EQ", {"N": "1"}, {"N": "b"})}
    assert refusal(scan_of, ScanFilter=asked) == "The parameter cannot be converted to a numeric value: b"


def test_key_conditions_become_key_terms() -> None:
    parts = query_of(
        {
            "KeyConditions": {
                "pk": condition("EQ", {"N": "07"}),
                "sk": condition("BEGINS_WITH", {"S": "a"}),
            }
        }
    )
    assert [tuple(term) for term in parts.key_terms] == [
        ("pk", "=", ({"N": "7"},)),
        ("sk", "begins_with", ({"S": "a"},)),
    ]
    odd = query_of({"KeyConditions": {"pk": condition("NOT_NULL")}})
    assert odd.key_terms[0].operator == "NOT_NULL"


def test_attributes_to_get() -> None:
    projector = projection_of({"AttributesToGet": ["a", "b.c"]})
    assert projector({"a": {"N": "1"}, "b.c": {"N": "2"}, "d": {"N": "3"}}) == {"a": {"N": "1"}, "b.c": {"N": "2"}}


# ── AttributeUpdates ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("update", "before", "after"),
    [
        ({"Value": {"S": "x"}}, None, {"S": "x"}),
        ({"Action": "PUT", "Value": {"S": "x"}}, {"N": "1"}, {"S": "x"}),
        ({"Action": "DELETE"}, {"N": "1"}, None),
        ({"Action": "DELETE"}, None, None),
        ({"Action": "DELETE", "Value": {"SS": ["a"]}}, {"SS": ["a", "b"]}, {"SS": ["b"]}),
        ({"Action": "DELETE", "Value": {"SS": ["a"]}}, {"SS": ["a"]}, None),
        ({"Action": "DELETE", "Value": {"SS": ["a"]}}, None, None),
        ({"Action": "ADD", "Value": {"N": "5"}}, None, {"N": "5"}),
        ({"Action": "ADD", "Value": {"N": "5"}}, {"N": "10"}, {"N": "15"}),
        ({"Action": "ADD", "Value": {"SS": ["a", "b"]}}, {"SS": ["b"]}, {"SS": ["b", "a"]}),
        ({"Action": "ADD", "Value": {"L": [{"N": "1"}]}}, {"L": [{"N": "0"}]}, {"L": [{"N": "0"}, {"N": "1"}]}),
    ],
)
def test_an_attribute_update_writes_what_dynamodb_writes(update: dict, before, after) -> None:
    bound, nothing = update_of({"AttributeUpdates": {"a": update}})
    assert nothing is None
    item = {} if before is None else {"a": before}
    written = bound.apply(item)
    assert written == ({} if after is None else {"a": after})
    assert bound.project(written) == written
    assert bound.attributes == {"a"}


@pytest.mark.parametrize(
    ("update", "before"),
    [
        ({"Action": "DELETE", "Value": {"NS": ["1"]}}, {"SS": ["1"]}),
        ({"Action": "DELETE", "Value": {"NS": ["1"]}}, {"N": "1"}),
        ({"Action": "ADD", "Value": {"NS": ["1"]}}, {"SS": ["1"]}),
        ({"Action": "ADD", "Value": {"N": "1"}}, {"NS": ["1"]}),
    ],
)
def test_a_type_that_does_not_match(update: dict, before: dict) -> None:
    bound, _ = update_of({"AttributeUpdates": {"a": update}})
    with pytest.raises(ValidationException) as failed:
        bound.apply({"a": before})
    assert failed.value.message == "Type mismatch for attribute to update"


@pytest.mark.parametrize("kind", ALL)
def test_actions_take_values_of_some_types(kind: str) -> None:
    add = {"AttributeUpdates": {"a": {"Action": "ADD", "Value": ALL[kind]}}}
    delete = {"AttributeUpdates": {"a": {"Action": "DELETE", "Value": ALL[kind]}}}
    if kind in ("N", "SS", "NS", "BS", "L"):
        assert update_of(add)[0]
    else:
        assert refusal(update_of, **add) == f"{INVALID}ADD action is not supported for the type {kind}"
    if kind in ("SS", "NS", "BS"):
        assert update_of(delete)[0]
    else:
        assert refusal(update_of, **delete) == (
            f"{INVALID}DELETE action with value is not supported for the type {kind}"
        )


def test_only_delete_needs_no_value() -> None:
    assert refusal(update_of, AttributeUpdates={"a": {}}) == (
        f"{INVALID}Only DELETE action is allowed when no attribute value is specified"
    )
