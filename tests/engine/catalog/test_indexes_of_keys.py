"""An index of nothing but keys is read without its items, and answers as one whose items are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import index, make, pages, table
from sql_statements import statements

from penstock.engine import Engine

# "none" is an attribute that no item has: such an index holds the same, and is read with its items.
KEYS: dict[str, str] = {"both": "a:S / b:S", "hash": "a:S", "shared": "b:S / pk:S", "number": "n:N / a:S"}
INDEXES = tuple(
    one
    for name, key in KEYS.items()
    for one in (index(f"{name}_keys", key, "KEYS_ONLY"), index(f"{name}_items", key, "INCLUDE", ("none",)))
)
texts = st.text(st.sampled_from("a\0\x01\xffé€\U0001f600"), min_size=1, max_size=4) | st.sampled_from(["a", "b" * 900])
numbers = st.integers(-3, 3).map(str)


def filled(items: list[tuple[str, str, str, str, str]], key: str) -> Engine:
    engine = Engine()
    make(engine, table("Things", key, globals_=INDEXES))
    for pk, sk, a, b, n in items:
        item = {"pk": {"S": pk}, "sk": {"S": sk}, "a": {"S": a}, "b": {"S": b}, "n": {"N": n}, "more": {"S": "x" * 50}}
        engine.execute("PutItem", {"TableName": "Things", "Item": item})
    return engine


def told(engine: Engine, name: str, **more: Any) -> list[dict[str, Any]]:
    request = {"TableName": "Things", "IndexName": name, "ReturnConsumedCapacity": "INDEXES", "Limit": 2, **more}
    answers = list(pages(engine, "Scan", request))
    for answer in answers:
        on_index = answer["ConsumedCapacity"].pop("GlobalSecondaryIndexes")
        answer["ConsumedCapacity"]["index"] = on_index[name]
    return answers


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(texts, texts, texts, texts, numbers), max_size=6),
    st.sampled_from(["pk:S", "pk:S / sk:S"]),
    st.sampled_from(sorted(KEYS)),
)
def test_it_answers_as_an_index_whose_items_are_read(
    items: list[tuple[str, str, str, str, str]], key: str, name: str
) -> None:
    with filled(items, key) as engine:
        assert told(engine, f"{name}_keys") == told(engine, f"{name}_items")
        chosen = {"ProjectionExpression": "pk"}
        assert told(engine, f"{name}_keys", **chosen) == told(engine, f"{name}_items", **chosen)
        counted = {"Select": "COUNT", "FilterExpression": "attribute_not_exists(more)"}
        assert told(engine, f"{name}_keys", **counted) == told(engine, f"{name}_items", **counted)


@pytest.mark.parametrize(("name", "reads"), [("both_keys", False), ("both_items", True), ("number_keys", True)])
def test_only_where_keys_are_texts_are_its_items_left_alone(name: str, reads: bool) -> None:
    with filled([("1", "1", "a", "b", "1")], "pk:S / sk:S") as engine, statements(engine) as found:
        told(engine, name)
    assert any("CROSS JOIN" in statement for statement in found) is reads
