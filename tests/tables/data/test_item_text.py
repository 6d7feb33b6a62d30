"""Items as text: what is exact is read back as the same item."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moving_samples import order

from penstock.tables.data.item_text import BadItemText, csv_lines, line_of, read_csv, read_items
from penstock.wire.values import check_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(10**20), 10**20).map(str)
VALUES: Any = st.recursive(
    st.one_of(
        TEXTS.map(lambda text: {"S": text}),
        NUMBERS.map(lambda text: {"N": text}),
        st.booleans().map(lambda flag: {"BOOL": flag}),
        st.just({"NULL": True}),
        st.sampled_from(["", "AAEC", "/w=="]).map(lambda text: {"B": text}),
        st.sets(TEXTS, min_size=1, max_size=3).map(lambda texts: {"SS": sorted(texts)}),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda members: {"L": members}),
        st.dictionaries(TEXTS.filter(bool), inner, max_size=2).map(lambda members: {"M": members}),
    ),
    max_leaves=4,
)
ITEMS = st.lists(
    st.dictionaries(st.sampled_from(["id", "a", "b:N", "*", "ü,\n"]), VALUES, min_size=1).map(
        lambda item: {name: check_value(value) for name, value in item.items()}
    ),
    max_size=5,
)


@given(ITEMS)
@settings(max_examples=60, deadline=None)
def test_csv_is_read_back_as_the_same_items(items: list[dict[str, Any]]) -> None:
    text = "".join(csv_lines(items, ["id"]))
    assert [item for _, item in read_csv(io.StringIO(text, newline=""), {}, name="x.csv")] == items


@pytest.mark.parametrize("text", ["a\rb", "\r", "a\r\nb", "a\nb", "\n", 'a"b', "a,b", " a", "\x0b\x0c\x1c\x85\u2028"])
def test_csv_keeps_every_kind_of_line_break_in_a_text(text: str) -> None:
    item = {"id": {"S": "1"}, "text": {"S": text}, "z": {"S": "end"}}
    lines = io.StringIO("".join(csv_lines([item, item], ["id"])), newline="")
    assert [one for _, one in read_csv(lines, {}, name="x.csv")] == [item, item]


def test_blank_lines_before_the_header_of_csv_are_passed_over() -> None:
    assert list(read_csv(["\n", "\r\n", "id\n", "7\n"], {}, name="x")) == [(4, {"id": {"S": "7"}})]
    assert list(read_csv(["\n", "\n"], {}, name="x")) == []


def test_dynamodb_json_is_read_back_as_the_same_item() -> None:
    line = line_of(order(3), exact=True)
    assert [item for _, item in read_items([line, "", f'{{"Item": {line}}}'], exact=True, name="x")] == [order(3)] * 2


def test_plain_json_keeps_every_digit_of_a_number() -> None:
    line = line_of({"exact": {"N": "0.1234567890123456789012345678901234567"}}, exact=False)
    assert line == '{"exact":0.1234567890123456789012345678901234567}'
    assert next(read_items([line], exact=False, name="x")) == (
        1,
        {"exact": {"N": "0.1234567890123456789012345678901234567"}},
    )


@pytest.mark.parametrize(
    ("line", "exact", "said"),
    [
        ("{", False, "x, line 1: no JSON object"),
        ('{"a": 1e99999999999999999999}', False, "1e99999999999999999999 is no number that DynamoDB has"),
        ('{"\\ud800": {"S": "a"}}', True, "x, line 1: no JSON object on one line.*surrogates"),
        ('{"a": "\\uD800"}', False, "surrogates"),
        (b'{"a": "\xe9"}', False, "x, line 1: it is not in UTF-8"),
        ("5", False, "an item is a JSON object"),
        ('{"a": NaN}', False, "no JSON object"),
        ('{"a": 1}', True, "DynamoDB's JSON"),
        ('{"Item": 5}', True, "DynamoDB's JSON"),
        ('{"id": "1"}', True, r"DynamoDB's JSON.*\(id is '1'\)"),
    ],
)
def test_a_text_that_is_no_item_is_told_with_its_line(line: str | bytes, exact: bool, said: str) -> None:
    with pytest.raises(BadItemText, match=said):
        list(read_items([line], exact=exact, name="x"))


def test_a_csv_header_without_types_takes_those_of_the_key() -> None:
    rows = ["id,name\n", "7,Ada\n", "8,\n"]
    assert [item for _, item in read_csv(rows, {"id": "N"}, name="x")] == [
        {"id": {"N": "7"}, "name": {"S": "Ada"}},
        {"id": {"N": "8"}},
    ]
