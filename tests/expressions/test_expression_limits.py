"""DynamoDB's limits on expressions, and that no text can hurt: not by its size, nor by its depth."""

from __future__ import annotations

import sys

import pytest

from penstock.expressions import (
    ExpressionError,
    compile_condition,
    compile_key_condition,
    compile_projection,
    compile_update,
)

TOO_LARGE = "Expression size has exceeded the maximum allowed size;"


def refusal(compile_, text: str) -> str:
    with pytest.raises(ExpressionError) as refused:
        compile_(text).bind({}, {})
    return refused.value.message


@pytest.mark.parametrize("compile_", [compile_condition, compile_key_condition, compile_projection, compile_update])
def test_an_expression_may_not_be_empty(compile_) -> None:
    assert refusal(compile_, "") == "The expression can not be empty;"


@pytest.mark.parametrize(
    ("compile_", "start", "end"),
    [
        (compile_condition, "attribute_exists(", ")"),
        (compile_key_condition, "begins_with(", ", :v)"),
        (compile_projection, "", ""),
        (compile_update, "REMOVE ", ""),
    ],
)
def test_an_expression_has_4096_bytes_at_most(compile_, start: str, end: str) -> None:
    room = 4096 - len(start) - len(end)
    assert compile_(start + "a" * room + end)
    tail = " expression size: 4097" if compile_ is compile_condition else ""
    assert refusal(compile_, start + "a" * (room + 1) + end) == TOO_LARGE + tail


def test_bytes_are_counted_not_characters() -> None:
    assert refusal(compile_projection, "ü" * 2049) == TOO_LARGE


def test_there_are_300_operators_at_most() -> None:
    assert compile_condition("a<b " + "or (a<b " * 149 + ")" * 149)
    too_many = "The expression contains too many operators; operator count: 301"
    assert refusal(compile_condition, "a<b " + "or (a<b " * 454 + ")" * 454) == too_many
    assert refusal(compile_condition, "a<b" + " or a<b" * 454) == too_many
    assert refusal(compile_condition, "not " * 1000 + "a<b") == too_many


def test_functions_count_as_operators() -> None:
    call = "attribute_exists(a)"
    assert compile_condition(" AND ".join([call] * 150))
    assert refusal(compile_condition, " AND ".join([call] * 151)).startswith("The expression contains too many")


def test_in_takes_100_candidates_at_most() -> None:
    assert compile_condition(f"a IN ({', '.join(['b'] * 100)})").bind({}, {})
    assert refusal(compile_condition, f"a IN ({', '.join(['b'] * 101)})") == (
        "The IN operator is provided with too many operands; number of operands: 101"
    )


DEEP = [
    ("(" * 4096, 'Syntax error; token: "<EOF>", near: "("'),
    (")" * 4096, 'Syntax error; token: ")", near: "))"'),
    ("(" * 2046 + "a<b" + ")" * 2046, "The expression has redundant parentheses;"),
    ("(" * 2047 + "a" + ")" * 2047, "The expression has redundant parentheses;"),
    ("a < " + "f(" * 1355 + "b" + ")" * 1355, "Invalid function name; function: f"),
    ("NOT (" * 800 + "a<b" + ")" * 800 + "x", None),
    ("a < " + "size(" * 680 + "b" + ")" * 680, None),
    ("a = " + "(" * 4000, None),
    ("f(" * 2000, None),
    ("a IN " + "(" * 4000, None),
    ("a" + "[0]" * 1300 + " = b", None),
    ("a" + ".b" * 2000 + " = b", None),
]


@pytest.mark.parametrize(("text", "message"), DEEP)
def test_depth_is_an_error_like_any_other(text: str, message: str | None) -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        said = refusal(compile_condition, text)
    finally:
        sys.setprofile(None)
    assert message is None or said == message
    assert calls < 100 * len(text), f"{calls} for {len(text)}: the work grows faster than the text"


@pytest.mark.parametrize(
    "text", ["SET a = " + "(" * 4000, "SET a = " + "list_append(" * 300, "SET a = " + "(" * 2000 + "b" + ")" * 2000]
)
def test_deep_updates_are_refused(text: str) -> None:
    refusal(compile_update, text)


def test_the_deepest_condition_that_dynamodb_takes_works_near_the_end_of_the_stack() -> None:
    text = "a<b " + "or (a<b " * 149 + ")" * 149

    def at_depth(depth: int) -> bool:
        if depth:
            return at_depth(depth - 1)
        predicate = compile_condition.__wrapped__(text).bind({}, {})
        return predicate({"a": {"N": "1"}, "b": {"N": "0"}})

    assert at_depth(sys.getrecursionlimit() // 4) is False


def test_an_index_of_four_thousand_digits_is_read_and_refused() -> None:
    assert refusal(compile_projection, f"a[{'9' * 4000}]").startswith("List index is not within")
