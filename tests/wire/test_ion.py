"""Ion text: what DynamoDB writes is read, what is written is read again, and the rest is an error."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import ion
from penstock.wire.values import check_item

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.one_of(
    st.integers(-(10**30), 10**30).map(str), st.sampled_from(["0", "1E+100", "-1.5E-30", "0.001", "12345.678900"])
)
blobs = st.binary(max_size=9).map(lambda raw: b64encode(raw).decode())
scalars = st.one_of(
    st.fixed_dictionaries({"S": texts}),
    st.fixed_dictionaries({"N": numbers}),
    st.fixed_dictionaries({"B": blobs}),
    st.fixed_dictionaries({"BOOL": st.booleans()}),
    st.just({"NULL": True}),
    st.fixed_dictionaries({"SS": st.lists(texts.filter(bool), min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"BS": st.lists(blobs.filter(bool), min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"NS": st.just(["1", "2.5", "-3"])}),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"M": st.dictionaries(texts.filter(bool), inner, max_size=3)}),
    ),
    max_leaves=8,
)
items = st.dictionaries(texts.filter(bool), values, max_size=5).map(lambda item: check_item(item)[0])


@given(items)
def test_what_is_written_is_read_again(item: dict[str, Any]):
    (value,) = ion.read_values(ion.line({"Item": ion.item_text(item)}))
    assert check_item(ion.item_of(value["Item"]))[0] == item


@given(items, st.data())
def test_a_text_that_is_cut_is_incomplete_and_goes_on(item: dict[str, Any], data: st.DataObject):
    whole = ion.line({"Item": ion.item_text(item)}) + "\n"
    cut = data.draw(st.integers(0, len(whole) - 1))
    reader = ion.Text(whole[:cut], is_whole=False)
    try:
        found = list(reader)
    except ion.Incomplete:
        found = []
    found += list(ion.Text(whole[reader.place :]))
    assert [ion.item_of(one["Item"]) for one in found] == [ion.item_of(ion.read_values(whole)[0]["Item"])]


CUT_ANYWHERE = (
    '{Item:{a:"x"}} // the end\n{Item:{a:"y"}} /* more */ // again\n',
    "{Item:{a:1 /* b */, // c\n b:2}}\n",
    '{Item:{a:"one\\\r\n line", b:"\\\n", c:"\\"" }} {Item:{}}\n',
    '{Item:{a : $dynamodb_SS :: ["x"], b:null.int, c:null.struct, d:null}}\n',
    "a :: b ::{Item:{c:'''x''' '''y''' // z\n}}\n",
    '{Item:{a:[{{//8=}}\n, {{ //8=\n}}\n,"b"], e:{{//8=}},\n"f":1}}\n',
)


@pytest.mark.parametrize("whole", CUT_ANYWHERE)
def test_wherever_a_text_is_cut_its_values_are_the_same(whole: str):
    told = ion.read_values(whole)
    for cut in range(len(whole)):
        reader = ion.Text(whole[:cut], is_whole=False)
        found = []
        with suppress(ion.Incomplete):
            found.extend(reader)
        assert [*found, *ion.Text(whole[reader.place :])] == told, whole[:cut]


def test_a_blob_may_begin_as_a_comment_does():
    assert ion.read_values("{{//8=}}") == [b"\xff\xff"]
    assert ion.read_values('{{//8=\n}}\n"x"') == [b"\xff\xff", "x"]


@given(st.text(st.sampled_from("{}[]()'\"\\:,/* \n$ab_01.-+dexnull\u00e9"), max_size=40))
def test_any_text_is_read_or_refused(text: str):
    try:
        for value in ion.read_values(text):
            ion.value_of(value)
    except ion.IonError:
        pass


@pytest.mark.parametrize(
    ("text", "item"),
    [
        (
            '$ion_1_0 {Item:{Authors:$dynamodb_SS::["Author1","Author2"],Id:103.,InPublication:false,PageCount:6d2,'
            'Price:2d3,Title:"Book 103 Title"}}',
            {
                "Authors": {"SS": ["Author1", "Author2"]},
                "Id": {"N": "103"},
                "InPublication": {"BOOL": False},
                "PageCount": {"N": "6E2"},
                "Price": {"N": "2E3"},
                "Title": {"S": "Book 103 Title"},
            },
        ),
        ("{Item:{a:null.string,'b c':0x1F,c:-0b11,d:1_000.5_0,e:5e3,}} // end", {
            "a": {"NULL": True}, "b c": {"N": "31"}, "c": {"N": "-3"}, "d": {"N": "1000.50"}, "e": {"N": "5E3"},
        }),
        ("/* x */ {Item : { \"n\" : '''a''' '''b\\\nc''', l:[1,2,], b:{{ AA == }} }}", {
            "n": {"S": "abc"}, "l": {"L": [{"N": "1"}, {"N": "2"}]}, "b": {"B": "AA=="},
        }),
        ('{Item:{u:"\\u00e9\\U0001F600\\uD83D\\uDE00\\x41\\t"}}', {"u": {"S": "é😀😀A\t"}}),
        ("{Item:{x:note::$dynamodb_NS::[1.,2.5]}}", {"x": {"NS": ["1", "2.5"]}}),
    ],
)  # fmt: skip
def test_texts_and_what_they_mean(text: str, item: dict[str, Any]):
    (value,) = ion.read_values(text)
    assert ion.item_of(value["Item"]) == item


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{a:(1 2)}", "S-expression"),
        ('{a:{{"clob"}}}', "CLOB"),
        ("{a:$10}", "number of a symbol"),
        ("$ion_symbol_table::{symbols:[]}", "symbol table"),
        ("{a:1 b:2}", "is expected"),
        ("{a:{{A}}}", "base64"),
        ('"\\q"', "no escape"),
        ('"\\ud800"', "stands alone"),
        ('"\\UFFFFFFFF"', "no character"),
        ('"a\nb"', "closing"),
        ("[" * 50, "nested"),
        ("1__0", "no value"),
        ("0x" + "f" * 300, "too many digits"),
        ("{", "ends inside"),
        ("}", "begins no value"),
    ],
)
def test_what_is_no_ion_of_an_item_is_refused_by_name(text: str, reason: str):
    with pytest.raises(ion.IonError, match=reason):
        ion.read_values(text)


@pytest.mark.parametrize("text", ["2026-01-01T", "nan", "+inf", "a_symbol", "$dynamodb_SS::[1]", "$dynamodb_NS::1"])
def test_values_that_no_item_can_hold_are_refused_one_by_one(text: str):
    (value,) = ion.read_values(text)
    with pytest.raises(ion.IonError):
        ion.value_of(value)


def test_a_value_has_a_hundred_annotations_at_the_most():
    assert ion.item_of({"tags": ion.read_values("x::" * 99 + '$dynamodb_SS::["a"]')[0]}) == {"tags": {"SS": ["a"]}}
    with pytest.raises(ion.IonError, match="more than 100 annotations"):
        ion.read_values("x::" * 101 + "1")
