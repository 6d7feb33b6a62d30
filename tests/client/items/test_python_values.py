"""Python's values to DynamoDB's and back."""

from __future__ import annotations

import datetime
import decimal
import enum
import pickle
import uuid
from collections import OrderedDict, defaultdict
from decimal import Decimal

import pytest
from expenses import EXPENSES
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.client.items.values import InvalidValue, decode, decode_item, encode, encode_item, encode_sized
from penstock.errors import ValidationException
from penstock.wire.values import check_item, item_size


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("", {"S": ""}),
        ("é", {"S": "é"}),
        (0, {"N": "0"}),
        (-7, {"N": "-7"}),
        (10**37, {"N": "1" + "0" * 37}),
        (Decimal("0.10"), {"N": "0.10"}),
        (Decimal("1E+3"), {"N": "1000"}),
        (0.1, {"N": "0.1"}),
        (1e22, {"N": "1" + "0" * 22}),
        (5e-7, {"N": "0.0000005"}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        (b"hi", {"B": "aGk="}),
        (bytearray(b"hi"), {"B": "aGk="}),
        (memoryview(b"hi"), {"B": "aGk="}),
        ({"b", "a"}, {"SS": ["a", "b"]}),
        (frozenset({1, 2}), {"NS": ["1", "2"]}),
        ({b"x"}, {"BS": ["eA=="]}),
        ([], {"L": []}),
        ((1, "a"), {"L": [{"N": "1"}, {"S": "a"}]}),
        ({}, {"M": {}}),
        ({"a": {"b": [None]}}, {"M": {"a": {"M": {"b": {"L": [{"NULL": True}]}}}}}),
    ],
)
def test_each_kind_has_its_place(value, wire):
    assert encode(value) == wire


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (Colour.RED, {"S": "red"}),
        (Level.HIGH, {"N": "3"}),
        (OrderedDict(a=1), {"M": {"a": {"N": "1"}}}),
        (defaultdict(int, a=1), {"M": {"a": {"N": "1"}}}),
    ],
)
def test_subclasses_are_what_they_derive_from(value, wire):
    assert encode(value) == wire
    assert type(next(iter(wire.values()))) is type(next(iter(encode(value).values())))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("1" + "0" * 100, 10**100),
        ("0.5", Decimal("0.5")),
        ("1E+2", Decimal(100)),
        ("-0.001", Decimal("-0.001")),
    ],
)
def test_a_number_comes_back_as_int_or_decimal_never_as_float(text, number):
    back = decode({"N": text})
    assert back == number
    assert type(back) is type(number)


def test_no_decimal_context_changes_a_number():
    exact = Decimal("1.2345678901234567890123456789012345678")
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.Inexact, decimal.Rounded], capitals=0)):
        assert encode(exact) == {"N": str(exact)}
        assert encode(Decimal("1e-10")) == {"N": "0.0000000001"}
        assert decode({"N": "1.2345678901234567890123456789012345678"}) == exact


def test_two_numbers_that_dynamodb_takes_for_one_are_one_in_a_set():
    assert encode({0.1, Decimal("0.1"), 1e-05, Decimal("0.00001")}) == {"NS": ["0.00001", "0.1"]}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"order": {"lines": [0, 1, 2, {"price": float("nan")}]}}, "order.lines[3].price", "NaN is not a number"),
        ({"a": float("-inf")}, "a", "-Infinity is not a number"),
        ({"a": Decimal("sNaN")}, "a", "NaN is not a number"),
        ({"a": Decimal("Infinity")}, "a", "Infinity is not a number"),
        ({"a": 10**38 + 1}, "a", "38 significant digits"),
        ({"a": 10**5000}, "a", "beyond"),
        ({"a": 1e126}, "a", "overflow"),
        ({"a": Decimal("1e-131")}, "a", "underflow"),
        ({"a": [set()]}, "a[0]", "a set must not be empty"),
        ({"a": {1, "x"}}, "a", "numbers and strings together"),
        ({"a": {True}}, "a", "not booleans"),
        ({"a": {(1, 2)}}, "a", "not tuples"),
        ({"a": {None}}, "a", "not None"),
        ({"a": {"b": {1: 2}}}, "a.b.1", "a name is a str, not int"),
        ({"a": datetime.datetime(2026, 1, 1)}, "a", "isoformat"),
        ({"a": uuid.UUID(int=1)}, "a", "str(value)"),
        ({"a": object()}, "a", "DynamoDB has no object"),
        ({"a": iter([1])}, "a", "DynamoDB has no list_iterator"),
        ({"a": {"b": ["\ud800"]}}, "a.b[0]", "surrogate"),
        ({"a": {"\ud800": 1}}, r"a.\ud800", "surrogate"),
        ({"id": "1", "text": "x" * 410_000}, "text", "409,600"),
        ({"id": "1", "blob": b"x" * 410_000}, "blob", "409,600"),
    ],
)
def test_what_dynamodb_cannot_hold_is_refused_with_its_path(value, path, reason):
    with pytest.raises(InvalidValue) as refused:
        encode_item(value)
    assert refused.value.path == path
    assert reason in refused.value.reason
    assert str(refused.value) == f"{path}: {refused.value.reason}"
    assert isinstance(refused.value, ValueError)


def test_the_message_is_the_one_in_the_documentation():
    with pytest.raises(InvalidValue) as refused:
        encode_item({"order": {"lines": [1, 2, 3, {"price": float("nan")}]}})
    assert str(refused.value) == "order.lines[3].price: NaN is not a number DynamoDB has"


def test_nesting_ends_at_dynamodbs_limit():
    def nested(levels):
        value = "deep"
        for _ in range(levels):
            value = [value]
        return value

    check_item(encode_item({"a": nested(31)}))  # the item itself is the first level
    with pytest.raises(InvalidValue, match="32 levels"):
        encode_item({"a": nested(32)})
    with pytest.raises(InvalidValue, match="32 levels"):
        encode_item({"a": {"b": nested(31)}})
    with pytest.raises(ValidationException, match="Nesting Levels"):
        check_item({"a": {"L": [encode_item({"a": nested(31)})["a"]]}})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(InvalidValue, match="32 levels"):
        encode_item({"a": endless})


def test_an_item_at_the_limit_is_taken():
    item = {"id": "x" * (409_600 - 2)}
    assert item_size(encode_item(item)) == 409_600
    # Its JSON is far longer than what DynamoDB counts.
    assert encode_sized({"id": "1", "n": [1] * 100_000})[1] > 409_600


def test_later_changes_of_the_value_are_not_followed():
    given_list, given_map = [1], {"a": 1}
    encoded = encode_item({"l": given_list, "m": given_map})
    given_list.append(2)
    given_map["b"] = 2
    assert decode_item(encoded) == {"l": [1], "m": {"a": 1}}


def test_an_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(InvalidValue("is bad", "a[0]")))
    assert (str(error), error.path, error.reason) == ("a[0]: is bad", "a[0]", "is bad")


numbers = st.integers(-(10**38) + 1, 10**38 - 1) | st.decimals(
    allow_nan=False, allow_infinity=False, places=5, min_value=-(10**30), max_value=10**30
)
scalars = st.none() | st.booleans() | st.text(max_size=20) | st.binary(max_size=20) | numbers
sets = (
    st.sets(st.text(max_size=5), min_size=1, max_size=5)
    | st.sets(numbers, min_size=1, max_size=5)
    | st.sets(st.binary(max_size=5), min_size=1, max_size=5)
)
values = st.recursive(
    scalars | sets,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4),
    max_leaves=12,
)
items = st.dictionaries(st.text(min_size=1, max_size=6), values, max_size=6)


@given(items)
def test_what_goes_in_comes_out(item):
    assert decode_item(encode_item(item)) == item


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e125, max_value=1e125))
def test_a_float_is_stored_as_its_shortest_text(number):
    if number and abs(number) < 1e-130:
        return
    assert float(decode(encode(number))) == number
    assert decode(encode(number)) == Decimal(repr(number))


@settings(max_examples=50)
@given(items, st.text(min_size=1, max_size=6), st.integers(-(10**20), 10**20))
def test_what_is_put_is_what_is_got(item, company, number):
    with penstock.connect() as db:
        db.execute("CreateTable", EXPENSES)
        whole = {**item, "company": company, "number": number}
        whole.pop("email", None)  # an index's key has its own rules
        table = db.table("expenses")
        table.put(whole)
        assert table.get({"company": company, "number": number}) == whole


@pytest.mark.parametrize("item", [None, "text", [("a", 1)], 3])
def test_an_item_is_a_dict(item):
    with pytest.raises(TypeError, match="an item is a dict"):
        encode_item(item)
