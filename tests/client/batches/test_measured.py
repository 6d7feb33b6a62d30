"""client/batches/local_writes.py: one walk gives what two gave."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.batches.local_writes import measured_item
from penstock.client.items.values import encode_item
from penstock.errors import PenstockError
from penstock.wire.values import check_item

SCALARS = (
    st.text()
    | st.text(alphabet=st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010))
    | st.integers()
    | st.decimals()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.binary()
    | st.datetimes()
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(st.dictionaries(st.text(), VALUES | st.frozensets(st.integers() | st.text()), max_size=6))
def test_it_is_what_encoding_and_then_checking_gives(item: dict[str, Any]) -> None:
    found = measured_item(item)
    try:
        expected = check_item(encode_item(item))
    except PenstockError:
        assert found is None
    else:
        assert found == expected


@pytest.mark.parametrize(
    "item",
    [
        {"": "x"},
        {"x": ""},
        {"n": Decimal("1.50")},
        {"n": Decimal("NaN")},
        {"n": Decimal("-Infinity")},
        {"n": Decimal("1E+3")},
        {"n": Decimal("-0")},
        {"n": 10**38},
        {"n": 0},
        {"n": -5},
        {"n": True},
        {"l": ["é", ""]},
        {"l": []},
        {"l": ["x", 1]},
        {"l": ["\ud800"]},
        {"text": "\ud800"},
        {"\ud800": 1},
        {1: "x"},
        {"x" * 70_000: 1},
    ],
)
def test_what_is_unusual_is_told_by_the_usual_way(item: dict[str, Any]) -> None:
    found = measured_item(item)
    try:
        expected = check_item(encode_item(item))
    except PenstockError:
        assert found is None
    else:
        assert found == expected


def test_what_is_no_dict_is_left_alone() -> None:
    assert measured_item([("x", 1)]) is None  # type: ignore[arg-type]
