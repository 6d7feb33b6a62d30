"""What a projection keeps of an item, and how DynamoDB refuses one."""

from __future__ import annotations

import pytest

from penstock.expressions import ExpressionError, compile_projection

ITEM = {
    "a": {"S": "k"},
    "b": {"M": {"a": {"S": "a"}, "b": {"S": "b"}, "c": {"S": "c"}}},
    "c": {"L": [{"S": "a"}, {"S": "b"}, {"S": "c"}]},
    "d": {"L": [{"M": {"x": {"N": "1"}, "y": {"N": "2"}}}, {"L": [{"N": "3"}, {"N": "4"}]}]},
}


def refusal(text: str, names: dict | None = None) -> str:
    with pytest.raises(ExpressionError) as refused:
        compile_projection(text).bind(names or {})
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a", {"a": ITEM["a"]}),
        ("a, nope", {"a": ITEM["a"]}),
        ("nope", {}),
        (
            "b.c,c[2],b.b,c[1],c[0].a",
            {"b": {"M": {"b": {"S": "b"}, "c": {"S": "c"}}}, "c": {"L": [{"S": "b"}, {"S": "c"}]}},
        ),
        ("c[9], b.z, a.b", {}),
        ("d[0].y, d[1][1]", {"d": {"L": [{"M": {"y": {"N": "2"}}}, {"L": [{"N": "4"}]}]}}),
        ("d[1][1]", {"d": {"L": [{"L": [{"N": "4"}]}]}}),
        ("b[0], c.a", {}),
    ],
)
def test_it_keeps_leaves_inside_their_parents_and_closes_lists_up(text: str, kept: dict) -> None:
    assert compile_projection(text).bind({})(ITEM) == kept


def test_it_says_what_it_keeps() -> None:
    projection = compile_projection("#a.b, c, d[1]")
    projector = projection.bind({"#a": "x"})
    assert projector.attributes == ("x", "c", "d")
    assert projector.nested == {"x", "d"}
    assert projection.names == {"#a"}
    assert projection.values == frozenset()


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("!!", "!", "!!"),
        ("whatever(stuff)", "(", "whatever(stuff"),
        (":a", ":a", ":a"),
        ("abort,", "<EOF>", ","),
        ("a,,b", ",", ",,b"),
        ("a..b", ".", "..b"),
        ("a[b]", "b", "[b]"),
        ("(a.b).c", "(", "(a"),
        ("a-b", "-", "a-b"),
    ],
)
def test_syntax_errors(text: str, token: str, near: str) -> None:
    assert refusal(text) == f'Syntax error; token: "{token}", near: "{near}"'


@pytest.mark.parametrize(("text", "word"), [("a.abORt", "abORt"), ("#a,ABSoLUTE", "ABSoLUTE")])
def test_reserved_words(text: str, word: str) -> None:
    assert refusal(text) == f"Attribute name is a reserved keyword; reserved keyword: {word}"


def test_names_are_looked_up_before_paths_are_compared() -> None:
    assert refusal("a,b,a,#a").endswith("is not defined; attribute name: #a")


@pytest.mark.parametrize(
    ("text", "how", "one", "two"),
    [
        ("a, a", "overlap", "[a]", "[a]"),
        ("a, a.b", "overlap", "[a]", "[a, b]"),
        ("b[1], b.a, #a.b, a", "overlap", "[a, b]", "[a]"),
        ("a, #a[1]", "overlap", "[a]", "[a, [1]]"),
        ("a.b, #a[1], #b", "conflict", "[a, b]", "[a, [1]]"),
        ("a.b[1], #a[1], #b", "conflict", "[a, b, [1]]", "[a, [1]]"),
        ("a[3].b, #a.#b.b", "conflict", "[a, [3], b]", "[a, [3], b]"),
    ],
)
def test_paths_that_clash(text: str, how: str, one: str, two: str) -> None:
    assert refusal(text, {"#a": "a", "#b": "[3]"}) == (
        f"Two document paths {how} with each other; must remove or rewrite one of these paths; "
        f"path one: {one}, path two: {two}"
    )
