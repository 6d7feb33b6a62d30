"""Laws that hold of every item and key, found by hypothesis rather than by a list of cases."""

from __future__ import annotations

from base64 import b64encode
from decimal import Decimal
from typing import Any

from dictionary_model import comparable, normal, same
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import assert_indexes_agree, every_item, index, make, table

from penstock.engine import Engine

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
binaries = st.binary(max_size=30).map(lambda raw: b64encode(raw).decode())
numbers = st.builds(
    lambda digits, exponent, sign: f"{sign}{digits}e{exponent}",
    st.integers(0, 10**38 - 1),
    st.integers(-130, 80),
    st.sampled_from(["", "-"]),
).filter(lambda text: Decimal(text) == 0 or Decimal("1e-130") <= abs(Decimal(text)) < Decimal("1e126"))

scalars = st.one_of(
    st.builds(lambda one: {"S": one}, texts),
    st.builds(lambda one: {"N": one}, numbers),
    st.builds(lambda one: {"B": one}, binaries),
    st.sampled_from([{"BOOL": True}, {"BOOL": False}, {"NULL": True}]),
    st.builds(lambda one: {"SS": sorted(one)}, st.sets(texts, min_size=1, max_size=4)),
    st.builds(lambda one: {"BS": sorted(one)}, st.sets(binaries, min_size=1, max_size=4)),
    st.builds(lambda one: {"NS": one}, st.lists(numbers, min_size=1, max_size=4, unique_by=Decimal)),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda one: {"L": one}, st.lists(inner, max_size=4)),
        st.builds(lambda one: {"M": one}, st.dictionaries(texts.filter(bool), inner, max_size=4)),
    ),
    max_leaves=12,
)
items = st.dictionaries(texts.filter(bool), values, max_size=6)

KINDS = {
    "S": st.builds(lambda one: {"S": one}, texts.filter(bool)),
    "N": st.builds(lambda one: {"N": one}, numbers),
    "B": st.builds(lambda one: {"B": one}, binaries.filter(bool)),
}


@given(items)
@settings(max_examples=150)
def test_what_is_put_is_got(item: dict[str, Any]) -> None:
    item = {**item, "pk": {"S": "key"}}
    with Engine() as engine:
        make(engine, table("plain", "pk:S"))
        engine.execute("PutItem", {"TableName": "plain", "Item": item})
        key = {"TableName": "plain", "Key": {"pk": {"S": "key"}}}
        expected = same({name: normal(value) for name, value in item.items()})
        assert same(engine.execute("GetItem", key)["Item"]) == expected
        again = engine.execute("GetItem", key)["Item"]
        engine.execute("PutItem", {"TableName": "plain", "Item": again})
        assert engine.execute("GetItem", key)["Item"] == again, "an answer that is put back stays as it is"


@given(st.data(), st.sampled_from("SNB"), st.sampled_from("SNB"))
@settings(max_examples=80)
def test_items_lie_in_the_order_of_their_sort_keys(data: st.DataObject, kind: str, other: str) -> None:
    sorts = data.draw(st.lists(KINDS[kind], min_size=2, max_size=12, unique_by=comparable))
    marks = data.draw(st.lists(KINDS[other], min_size=len(sorts), max_size=len(sorts)))
    definition = table(
        "ordered",
        f"pk:S / sk:{kind}",
        globals_=(index("global", f"pk:S / mark:{other} sk:{kind}"),),
        locals_=(index("local", f"pk:S / mark:{other}"),),
    )
    with Engine() as engine:
        make(engine, definition)
        for sort, mark in zip(sorts, marks, strict=True):
            engine.execute("PutItem", {"TableName": "ordered", "Item": {"pk": {"S": "p"}, "sk": sort, "mark": mark}})
        query = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}, "Limit": 3}
        base = {"TableName": "ordered", **query}
        found = [comparable(item["sk"]) for item in every_item(engine, "Query", base)]
        assert found == sorted(map(comparable, sorts))
        marked = [comparable(item["mark"]) for item in every_item(engine, "Query", base | {"IndexName": "local"})]
        assert marked == sorted(map(comparable, marks))
        both = every_item(engine, "Query", base | {"IndexName": "global", "ScanIndexForward": False})
        pairs = [(comparable(item["mark"]), comparable(item["sk"])) for item in both]
        assert pairs == sorted(pairs, reverse=True) and len(pairs) == len(sorts)
        assert_indexes_agree(engine, "ordered")


@given(st.data(), st.sampled_from("SNB"))
@settings(max_examples=80)
def test_a_range_is_what_its_bounds_say(data: st.DataObject, kind: str) -> None:
    sorts = data.draw(st.lists(KINDS[kind], min_size=1, max_size=10, unique_by=comparable))
    bound = data.draw(st.one_of(st.sampled_from(sorts), KINDS[kind]))
    with Engine() as engine:
        make(engine, table("ranges", f"pk:S / sk:{kind}", globals_=(index("global", f"g:S / sk:{kind}"),)))
        for sort in sorts:
            item = {"pk": {"S": "p"}, "g": {"S": "p"}, "sk": sort}
            engine.execute("PutItem", {"TableName": "ranges", "Item": item})
        limit = comparable(bound)
        for operator, test in (
            ("=", limit.__eq__),
            ("<", limit.__gt__),
            ("<=", limit.__ge__),
            (">", limit.__lt__),
            (">=", limit.__le__),
        ):
            for name, hash_ in ((None, "pk"), ("global", "g")):
                request = {
                    "TableName": "ranges",
                    "KeyConditionExpression": f"{hash_} = :p AND sk {operator} :b",
                    "ExpressionAttributeValues": {":p": {"S": "p"}, ":b": bound},
                    **({"IndexName": name} if name else {}),
                }
                found = [comparable(item["sk"]) for item in engine.execute("Query", request)["Items"]]
                assert found == sorted(one for one in map(comparable, sorts) if test(one))
