"""Numbers of 32 bits, against struct and NumPy, and against the decimals that lie between two of them."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import float32, numbers
from penstock.wire.values import check_item

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FLOATS)
def test_the_shortest_decimal_means_the_same_number(value: float) -> None:
    text = float32.shortest_text(value)
    assert float32.to_floats(float32.from_texts([text])) == (value,)
    digits = len(text.partition("e")[0].replace("-", "").replace(".", "").strip("0"))
    assert digits <= 9


@pytest.mark.parametrize(
    ("value", "text"),
    [("1", "1.0"), ("0.1", "0.1"), ("16777217", "16777216.0"), ("-0.5", "-0.5"), ("0.00001", "1e-5"), ("0", "0.0")],
)
def test_a_number_comes_back_as_dynamodb_writes_it(value: str, text: str) -> None:
    assert float32.shortest_text(*float32.to_floats(float32.from_texts([value]))) == text


@given(FLOATS, st.integers(-3, 3))
def test_a_decimal_is_rounded_once_to_the_nearest_number_of_32_bits(value: float, beside: int) -> None:
    """Decimals at and next to the middle of two neighbours, where a way by 64 bits would round twice."""
    upper = _next(value)
    if math.isinf(upper):
        return
    middle = (Fraction(value) + Fraction(upper)) / 2 + Fraction(beside, 10**60)
    text = _decimal(middle)
    (got,) = float32.to_floats(float32.from_texts([text]))
    low, high = abs(Fraction(text) - Fraction(value)), abs(Fraction(text) - Fraction(upper))
    even = value if struct.unpack("<I", struct.pack("<f", value))[0] % 2 == 0 else upper
    assert got == (value if low < high else upper if high < low else even)


def _next(value: float) -> float:
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    if value == 0:
        bits = 0
    return float(struct.unpack("<f", struct.pack("<i", bits + 1 if value >= 0 else bits - 1))[0])


def _decimal(value: Fraction) -> str:
    """Exact: the denominators are powers of two and ten."""
    scale = 400
    whole = value * 10**scale
    assert whole.denominator == 1
    sign, digits = ("-" if value < 0 else ""), str(abs(whole.numerator)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


@pytest.mark.parametrize("text", ["3.4028236e38", "-1e39", "1e125"])
def test_what_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(OverflowError):
        float32.from_texts(["1", text])


def test_the_largest_number_and_the_smallest_are_kept() -> None:
    assert float32.to_floats(float32.from_texts(["3.4028235e38", "1e-45", "1e-130"])) == (
        float(struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]),
        2.0**-149,
        0.0,
    )


NUMBERS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=7, min_value=-100, max_value=100).map(str),
    st.floats(min_value=-10, max_value=10).filter(lambda value: not 0 < abs(value) < 1e-100).map(repr),
    st.floats(min_value=-1e9, max_value=1e9).map(lambda value: f"{value:.6f}"),
    st.sampled_from(["0", "-0", "0.0", "1", "-1", "10", "1e-5", "0.001", "-0.0005", "9.9", "00.5", "+1", ".5", "5."]),
)


@given(st.lists(NUMBERS, min_size=8, max_size=40))
def test_a_list_of_numbers_counts_as_its_numbers_do_one_by_one(texts: list[str]) -> None:
    checked, size = numbers.measure_all(texts)
    one_by_one = [numbers.normalise(text) for text in texts]
    assert list(checked) == one_by_one
    assert size == sum(map(numbers.size, one_by_one))
    item, total = check_item({"v": {"L": [{"N": text} for text in texts]}})
    assert [one["N"] for one in item["v"]["L"]] == one_by_one
    assert total == 1 + 3 + len(texts) + size
