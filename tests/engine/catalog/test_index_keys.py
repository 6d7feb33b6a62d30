"""Keys of index rows: the short way for texts gives the bytes of the general way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import index, table

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.table_schema import IndexInfo, compile_table
from penstock.engine.settings import DEFAULT_SCOPE

texts = st.text("a\0\xffé€😀", max_size=6) | st.sampled_from(["a" * 256, "a" * 257, "€" * 400, "a" * 1024, "a" * 2049])
values = texts.map(lambda text: {"S": text}) | st.sampled_from([{"N": "1"}, {"B": "eA=="}, {"NULL": True}, {"M": {}}])
items = st.dictionaries(st.sampled_from(["a", "b"]), values)


def one_index(key: str) -> IndexInfo:
    record: dict[str, Any] = table("t", "id:S", globals_=(index("i", key),))
    record["GlobalSecondaryIndexes"][0]["id"] = 0
    return compile_table(1, DEFAULT_SCOPE, record).indexes["i"]


def general(one: IndexInfo, item: dict[str, Any]) -> bytes | None:
    """A partition, then the values to sort by, each ended by two zeros; nothing where one is missing or unfit."""
    found = [item.get(part.name, {}).get("S") for part in one.key]
    most = [2048, 1024]
    if any(not text or len(text.encode()) > limit for text, limit in zip(found, most, strict=False)):
        return None
    tail = b"".join(row_keys.escape_value({"S": text}) for text in found[1:])
    return row_keys.partition({"S": found[0]}) + tail


@pytest.mark.parametrize("one", [one_index("a:S"), one_index("a:S / b:S")], ids=["hash", "hash and range"])
@settings(max_examples=200, deadline=None)
@given(item=items)
def test_the_start_of_a_row_of_texts_is_that_of_any_row(one: IndexInfo, item: dict[str, Any]) -> None:
    assert row_keys.index_start(one, item) == general(one, item)


@pytest.mark.parametrize("key", ["a:N / b:S", "a:S b:S", "a:S / b:N", "a:S / b:B"])
def test_an_item_without_one_of_the_attributes_has_no_row(key: str) -> None:
    one = one_index(key)
    assert row_keys.index_start(one, {}) is None
    assert row_keys.index_start(one, {"a": {one.key[0].kind: "7"}}) is None
    whole = {"a": {one.key[0].kind: "7"}, "b": {one.key[1].kind: "eA==" if one.key[1].kind == "B" else "7"}}
    assert row_keys.index_start(one, whole) is not None
    assert (
        row_keys.index_key(one, {**whole, "id": {"S": "x"}}, b"row")
        == (row_keys.index_start(one, whole) or b"") + row_keys.tie([{"S": "x"}]) + b"row"
    )
