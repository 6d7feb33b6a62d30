"""wire/numbers.py, invariants 1 to 4."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ValidationException
from penstock.wire import numbers
from penstock.wire.numbers import RefusedValue
from penstock.wire.values import measure_number

NOT_A_NUMBER = "The parameter cannot be converted to a numeric value"
TOO_LARGE = "Number overflow. Attempting to store a number with magnitude larger than supported range"
TOO_SMALL = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
TOO_PRECISE = "Attempting to store more than 38 significant digits in a Number"


@st.composite
def decimals(draw: st.DrawFn) -> str:
    digits = draw(st.integers(min_value=0, max_value=10**38 - 1))
    exponent = draw(st.integers(min_value=-120, max_value=80))
    sign = draw(st.sampled_from(["", "-", "+"]))
    return f"{sign}{digits}e{exponent}"


@pytest.mark.parametrize(
    ("given_text", "normal"),
    [
        ("00042", "42"),
        ("1e5", "100000"),
        ("-0", "0"),
        ("-0.00e7", "0"),
        ("+7.500", "7.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1E+3", "1000"),
        ("120e-2", "1.2"),
        ("1e125", "1" + "0" * 125),
        ("1e-130", "0." + "0" * 129 + "1"),
        ("9" * 38, "9" * 38),
        ("0" * 500 + "1", "1"),
        ("1" + "0" * 100, "1" + "0" * 100),
    ],
)
def test_one_text_for_each_value(given_text: str, normal: str) -> None:
    assert numbers.normalise(given_text) == normal


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", NOT_A_NUMBER),
        ("abc", f"{NOT_A_NUMBER}: abc"),
        ("NaN", f"{NOT_A_NUMBER}: NaN"),
        ("Infinity", f"{NOT_A_NUMBER}: Infinity"),
        ("1_000", f"{NOT_A_NUMBER}: 1_000"),
        ("0x10", f"{NOT_A_NUMBER}: 0x10"),
        ("٣", f"{NOT_A_NUMBER}: ٣"),
        (".", f"{NOT_A_NUMBER}: ."),
        ("1e", f"{NOT_A_NUMBER}: 1e"),
        ("1e126", TOO_LARGE),
        ("-1e126", TOO_LARGE),
        ("0e126", TOO_LARGE),
        ("0e-131", TOO_SMALL),
        ("1e" + "9" * 30, f"{NOT_A_NUMBER}: 1e{'9' * 30}"),
        ("1e-131", TOO_SMALL),
        ("1e-" + "9" * 30, f"{NOT_A_NUMBER}: 1e-{'9' * 30}"),
        ("1" * 39, TOO_PRECISE),
        ("1." + "1" * 38, TOO_PRECISE),
    ],
)
def test_what_is_no_number_of_dynamodbs_is_refused_in_its_words(text: str, message: str) -> None:
    with pytest.raises(ValidationException) as caught:
        numbers.normalise(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "older", "current"),
    [
        ("", NOT_A_NUMBER, f"{NOT_A_NUMBER}: "),
        ("1e2147483647", TOO_SMALL, TOO_LARGE),
        ("1e2147483648", f"{NOT_A_NUMBER}: 1e2147483648", TOO_LARGE),
        ("1e-2147483648", f"{NOT_A_NUMBER}: 1e-2147483648", TOO_SMALL),
        ("1e9223372036854775807", f"{NOT_A_NUMBER}: 1e9223372036854775807", TOO_LARGE),
        ("1e9223372036854775808", f"{NOT_A_NUMBER}: 1e9223372036854775808", f"{NOT_A_NUMBER}: 1e9223372036854775808"),
    ],
)
def test_exponents_have_32_bits_in_the_older_layer_and_64_in_the_current_one(
    text: str, older: str, current: str
) -> None:
    with pytest.raises(RefusedValue) as caught:
        numbers.normalise(text)
    assert (caught.value.message, caught.value.current) == (older, current)


@pytest.mark.parametrize("text", ["0e125", "0e-130", "-0", "0.000"])
def test_a_zero_with_an_exponent_in_range_is_zero(text: str) -> None:
    assert numbers.normalise(text) == "0"


def test_a_difference_of_nothing_is_zero_however_small_its_terms() -> None:
    assert numbers.subtract("1.2345e-130", "1.2345e-130") == "0"


@given(decimals())
def test_normalising_keeps_the_value_and_is_final(text: str) -> None:
    normal = numbers.normalise(text)
    assert Decimal(normal) == Decimal(text)
    assert numbers.normalise(normal) == normal


@given(decimals(), decimals())
def test_encodings_sort_as_numbers_do_and_none_is_a_prefix_of_another(left: str, right: str) -> None:
    one, other = numbers.normalise(left), numbers.normalise(right)
    first, second = numbers.encode(one), numbers.encode(other)
    assert (first < second) == (Decimal(one) < Decimal(other))
    assert (first == second) == (one == other)
    if first != second:
        assert not first.startswith(second)


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_sums_are_exact_whatever_the_callers_context(left: int, right: int) -> None:
    with localcontext() as context:
        context.prec = 3
        assert numbers.add(str(left), str(right)) == str(left + right)
        assert numbers.subtract(str(left), str(right)) == str(left - right)


def test_a_sum_that_no_number_can_hold_is_refused() -> None:
    with pytest.raises(ValidationException, match="Number overflow"):
        numbers.add("1e38", "0.1")
    with pytest.raises(ValidationException, match="Number overflow"):
        numbers.subtract("1e50", "1")
    with pytest.raises(ValidationException, match="Number overflow"):
        numbers.add("9" * 38 + "0" * 88, "9" * 38 + "0" * 88)
    assert numbers.subtract("1" + "0" * 38, "1") == "9" * 38


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 1),
        ("7", 2),
        ("42", 2),
        ("-42", 3),
        ("100", 2),
        ("1000", 2),
        ("123", 3),
        ("1.5", 3),
        ("1.05", 3),
        ("0.005", 2),
    ],
)
def test_two_digits_count_one_byte_and_the_exponent_and_the_sign_one_each(text: str, size: int) -> None:
    assert numbers.size(text) == size


@given(st.integers(0, 10**38 - 1))
def test_the_short_way_to_a_size_agrees_with_the_long_one(value: int) -> None:
    text = str(value)
    assert numbers.size(text) == numbers.size(f"{text}.0")


@given(decimals() | st.integers().map(str) | st.from_regex(r"-?[0-9]{0,9}(\.[0-9]{0,9})?", fullmatch=True))
def test_measured_is_the_normal_text_and_its_size(text: str) -> None:
    try:
        normal = numbers.normalise(text)
    except ValidationException as refused:
        with pytest.raises(type(refused)):
            measure_number(text)
    else:
        assert measure_number(text) == (normal, numbers.size(normal))
