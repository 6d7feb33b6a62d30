"""engine/catalog/row_keys.py, invariants 1 to 3."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.catalog import row_keys
from penstock.wire.values import base64_text

TEXTS = st.text(min_size=1, max_size=20)
BYTES = st.binary(min_size=1, max_size=20)


@given(BYTES, BYTES, BYTES, BYTES)
def test_escaped_values_keep_their_order_although_more_follows(
    one: bytes, other: bytes, tail: bytes, rest: bytes
) -> None:
    first = row_keys.escape_value({"B": base64_text(one)}) + tail
    second = row_keys.escape_value({"B": base64_text(other)}) + rest
    if one != other:
        assert (first < second) == (one < other)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_two_partitions_never_overlap(one: str, sort: str, other: str, other_sort: str) -> None:
    first = row_keys.partition({"S": one})
    if one != other:
        assert not (row_keys.partition({"S": other}) + row_keys.data_of({"S": other_sort})).startswith(first)
    row = first + row_keys.data_of({"S": sort})
    after = row_keys.after(first)
    assert first <= row
    assert after is not None and row < after


@given(TEXTS, TEXTS)
def test_strings_sort_by_their_utf8_bytes(one: str, other: str) -> None:
    first, second = row_keys.data_of({"S": one}), row_keys.data_of({"S": other})
    assert (first < second) == (one.encode() < other.encode())


@given(st.integers(1, 1_000_000), st.data())
def test_segments_follow_each_other_and_cover_everything(total: int, data: st.DataObject) -> None:
    segment = data.draw(st.integers(0, total - 1))
    start = row_keys.segment_start(segment, total)
    assert len(start) == row_keys.HASH_BYTES
    assert row_keys.segment_start(0, total) == bytes(row_keys.HASH_BYTES)
    if segment:
        assert row_keys.segment_start(segment - 1, total) <= start


def test_partitions_are_walked_in_the_order_that_dynamodbs_scans_show() -> None:
    # MD5 of "Outliers" and the key: known from scans of real tables.
    from hashlib import md5

    assert row_keys.partition({"S": "a"})[:8] == md5(b"Outliersa", usedforsecurity=False).digest()[:8]


def test_after_the_last_bytes_there_is_nothing() -> None:
    assert row_keys.after(b"\xff\xff") is None
    assert row_keys.after(b"a\xff") == b"b"
