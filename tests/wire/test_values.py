"""Attribute values: checked, normalised and measured in one walk."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SerializationException, ValidationException
from penstock.wire import values
from penstock.wire.numbers import RefusedValue

SCALARS = st.one_of(
    st.text(max_size=20).map(lambda text: {"S": text}),
    st.integers(-(10**20), 10**20).map(lambda number: {"N": str(number)}),
    st.binary(max_size=20).map(lambda raw: {"B": values.base64_text(raw)}),
    st.booleans().map(lambda flag: {"BOOL": flag}),
    st.just({"NULL": True}),
    st.sets(st.text(max_size=5), min_size=1, max_size=5).map(lambda many: {"SS": sorted(many)}),
    st.sets(st.integers(), min_size=1, max_size=5)
    .map(lambda many: {"NS": [str(one) for one in many]})
    .filter(lambda value: all(len(one.lstrip("-")) <= 38 for one in value["NS"])),
)
VALUES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda many: {"L": many}),
        st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=4).map(lambda many: {"M": many}),
    ),
    max_leaves=10,
)


@given(VALUES)
def test_a_checked_value_needs_no_further_change_and_the_input_is_left_alone(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    checked = values.check_value(value)
    assert value == before
    assert values.check_value(checked) is checked
    assert values.equal(checked, values.check_value(copy.deepcopy(before)))


def test_numbers_are_normalised_however_deep_they_lie() -> None:
    item = {"a": {"M": {"b": {"L": [{"N": "007"}, {"NS": ["1.0", "2"]}]}}}}
    checked, _ = values.check_item(item)
    assert checked == {"a": {"M": {"b": {"L": [{"N": "7"}, {"NS": ["1", "2"]}]}}}}
    assert item["a"]["M"]["b"]["L"][0] == {"N": "007"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"),
        ({"X": 1}, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"),
        (
            {"S": "a", "N": "1"},
            "Supplied AttributeValue has more than one datatypes set, "
            "must contain exactly one of the supported datatypes",
        ),
        ({"SS": []}, "One or more parameter values were invalid: An string set  may not be empty"),
        ({"NS": []}, "One or more parameter values were invalid: An number set  may not be empty"),
        ({"BS": []}, "One or more parameter values were invalid: Binary sets should not be empty"),
        (
            {"SS": ["a", "a"]},
            "One or more parameter values were invalid: Input collection [a, a] contains duplicates.",
        ),
        ({"NS": ["1", "1.0"]}, "Input collection contains duplicates"),
        (
            {"BS": ["Yg==", "Yg=="]},
            "One or more parameter values were invalid: Input collection [Yg==, Yg==]of type BS contains duplicates.",
        ),
    ],
)
def test_bad_values_are_refused_in_dynamodbs_words(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationException) as caught:
        values.check_item({"name": value})
    assert caught.value.message == message


@pytest.mark.parametrize("text", ["a", "a===", "!!!!", "YQ=a"])
def test_bad_base64_is_refused(text: str) -> None:
    with pytest.raises(SerializationException):
        values.check_value({"B": text})


def test_thirty_two_levels_are_allowed_and_no_more_the_item_being_the_first() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {"S": "x"}
        for _ in range(levels):
            value = {"L": [value]}
        return value

    values.check_value(nested(31))
    with pytest.raises(ValidationException, match="Nesting Levels have exceeded supported limits"):
        values.check_value(nested(32))
    with pytest.raises(ValidationException, match="Nesting Levels"):
        values.check_value(nested(5000))


@pytest.mark.parametrize(
    ("item", "size"),
    [
        ({}, 0),
        ({"pk": {"S": "abc"}}, 5),
        ({"é": {"S": "é"}}, 4),
        ({"n": {"N": "123"}}, 4),
        ({"b": {"B": "YWJj"}}, 4),
        ({"t": {"BOOL": True}}, 2),
        ({"z": {"NULL": True}}, 2),
        ({"l": {"L": [{"S": "a"}, {"S": "b"}]}}, 1 + 3 + 2 + 2),
        ({"m": {"M": {"k": {"S": "a"}}}}, 1 + 3 + 1 + 1 + 1),
        ({"s": {"SS": ["ab", "c"]}}, 4),
    ],
)
def test_sizes_are_counted_as_dynamodb_counts_them(item: dict[str, Any], size: int) -> None:
    assert values.item_size(item) == size


def test_sets_have_no_order() -> None:
    assert values.equal({"SS": ["a", "b"]}, {"SS": ["b", "a"]})
    assert values.equal({"L": [{"NS": ["1", "2"]}]}, {"L": [{"NS": ["2", "1"]}]})
    assert not values.equal({"L": [{"S": "a"}, {"S": "b"}]}, {"L": [{"S": "b"}, {"S": "a"}]})
    assert not values.equal({"S": "1"}, {"N": "1"})


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"SS": ["b", "", "é", "a", "😀", "\uffff"]}, {"SS": ["", "a", "b", "é", "\uffff", "😀"]}),
        ({"NS": ["10", "9", "-1", "0.5"]}, {"NS": ["-1", "0.5", "9", "10"]}),
        ({"BS": ["/w==", "AA==", "AAA="]}, {"BS": ["AA==", "AAA=", "/w=="]}),
    ],
)
def test_sets_are_put_in_order_wherever_they_lie(given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert values.check_value(given) == stored
    assert values.check_item({"a": {"M": {"b": {"L": [given]}}}})[0] == {"a": {"M": {"b": {"L": [stored]}}}}


@pytest.mark.parametrize("value", [{"SS": ["a", "b"]}, {"NS": ["9", "10"]}, {"BS": ["AA==", "/w=="]}])
def test_a_set_that_is_in_order_stays_the_same_object(value: dict[str, Any]) -> None:
    assert values.check_value(value) is value


@pytest.mark.parametrize(
    ("value", "older", "current"),
    [
        (
            {"SS": ["c", "a", "c", "b", "a"]},
            "One or more parameter values were invalid: Input collection [c, a, c, b, a] contains duplicates.",
            "One or more parameter values were invalid: "
            'Input collection ["a", "c", "c", "b", "a"] contains duplicates.',
        ),
        (
            {"BS": ["/w==", "AA==", "/w=="]},
            "One or more parameter values were invalid: "
            "Input collection [/w==, AA==, /w==]of type BS contains duplicates.",
            "One or more parameter values were invalid: "
            'Input collection ["AA==","/w==","/w=="]of type BS contains duplicates.',
        ),
        (
            {"NS": ["1", "2", "1.0"]},
            "Input collection contains duplicates",
            "One or more parameter values were invalid: Input collection contains duplicates.",
        ),
    ],
)
def test_duplicates_are_refused_in_the_words_of_both_layers(value: dict[str, Any], older: str, current: str) -> None:
    with pytest.raises(RefusedValue) as caught:
        values.check_value(value)
    assert (caught.value.message, caught.value.current) == (older, current)
    assert caught.value.code == "ValidationException"


def test_an_empty_name_is_told_before_nesting_at_the_top_and_after_it_inside() -> None:
    deep: dict[str, Any] = {"S": "x"}
    for _ in range(40):
        deep = {"M": {"n": deep}}
    with pytest.raises(ValidationException, match="Empty attribute name"):
        values.check_item({"d": deep, "": {"S": "x"}})
    with pytest.raises(ValidationException, match="Nesting Levels"):
        values.check_item({"m": {"L": [{"M": {"": {"S": "x"}}}]}, "d": deep})
    with pytest.raises(ValidationException, match="Empty attribute name"):
        values.check_item({"m": {"L": [{"M": {"": {"S": "x"}}}]}})
