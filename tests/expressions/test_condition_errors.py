"""Every text with which DynamoDB refuses a condition, and which of two comes first."""

from __future__ import annotations

import pytest

from penstock.expressions import ExpressionError, compile_condition

VALUES = {
    "S": {"S": "a"},
    "N": {"N": "1"},
    "B": {"B": "YQ=="},
    "BOOL": {"BOOL": True},
    "NULL": {"NULL": True},
    "SS": {"SS": ["1"]},
    "NS": {"NS": ["1"]},
    "BS": {"BS": ["YQ=="]},
    "L": {"L": []},
    "M": {"M": {}},
}


def refusal(text: str, names: dict | None = None, values: dict | None = None) -> str:
    with pytest.raises(ExpressionError) as refused:
        compile_condition(text).bind(names or {}, values or {})
    return refused.value.message


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("things are not gonna be ok", "are", "things are not"),
        ("a > 4", "4", "> 4"),
        ("a >", "<EOF>", ">"),
        ("attribute_exists(Pictures-RearView)", "-", "Pictures-RearView"),
        ('attribute_exists("a")', '"', '("a'),
        ("attribute_exists(a..b)", ".", "..b"),
        ("attribute_exists(Pi#ctures.b)", "#ctures", "Pi#ctures."),
        ("attribute_exists(asdf[a])", "a", "[a]"),
        ("a in b, c", "b", "in b,"),
        ("a > between", "between", "> between"),
        ("a in (b,c,)", ")", ",)"),
        ("(a)between(b.(c.d))and(c)", "(", ".(c"),
        ("(a)between(b.c.d)and((c)", "<EOF>", ")"),
        ("#$.b > a", "#", "#$"),
        ("a > :things.stuff", ".", ":things.stuff"),
        ("b[:a] > a", ":a", "[:a]"),
        ("ü > a", "ü", "ü >"),
        ("b.c[4.5] > a", ".", "4.5"),
        ("size(a).b > a", ".", ").b"),
        ("(size(a)).b > a", ".", ").b"),
        ("(size(a))[0] > a", "[", ")[0"),
        ("_a = :v", "_", "_a"),
        ("a = :v AND", "<EOF>", "AND"),
        ("a = :v)", ")", ":v)"),
        ("(a) AND b = c", "AND", ") AND b"),
        ("(a = b) = c", "=", ") = c"),
        ("a[00] = :v", "0", "00]"),
        ("NOT", "<EOF>", "NOT"),
        ("  ", "<EOF>", ""),
    ],
)
def test_a_syntax_error_shows_its_token_between_its_neighbours(text: str, token: str, near: str) -> None:
    assert refusal(text) == f'Syntax error; token: "{token}", near: "{near}"'


@pytest.mark.parametrize(
    "text",
    [
        "a=b and a > ((views))",
        "(a)between(((b.c)).d)and(c)",
        "a > whatever((:things), ((a)))",
        "a=b AND ((a=b AND a=b)) AND a=b",
        "a=b OR ((a=b OR a=b)) OR a=b",
        "a=b AND ((a=b AND (a=b AND a=b)))",
        "((attribute_not_exists(pk)))",
        "((a = b))",
        "((a)) = b",
    ],
)
def test_two_brackets_around_one_thing_are_redundant(text: str) -> None:
    assert refusal(text) == "The expression has redundant parentheses;"


@pytest.mark.parametrize(
    "text",
    [
        "(a = b)",
        "((a = b) AND (c = d))",
        "((a) = b)",
        "(a) = (b)",
        "(a = b OR (a = c))",
        "(NOT (a = b))",
        "NOT ((a = b) AND c = d)",
        "(attribute_exists(a)) AND (b = c)",
        "((size(a)) > b)",
        "(a)between(b)and(c)",
        "(a) in ((b), c)",
        "( ( ( size ( a )) < b ) AND ( c > d ) )",
        "attribute_exists((a.b))",
    ],
)
def test_brackets_that_hold_more_than_a_bracket_are_not(text: str) -> None:
    compile_condition(text).bind({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b and whatever((:things)) > a", "Invalid function name; function: whatever"),
        ("attRIbute_exIsts((views), #a)", "Invalid function name; function: attRIbute_exIsts"),
        (
            "if_not_exists(a, :b) = c",
            "The function is not allowed in a condition expression; function: if_not_exists",
        ),
    ],
)
def test_functions_are_known_by_name(text: str, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("a=b and attribute_exists((views), (#a)) > b", "attribute_exists"),
        ("attribute_not_exists(things) > b", "attribute_not_exists"),
        ("attribute_type(things, :a) > b", "attribute_type"),
        ("begins_with(things, a) > b", "begins_with"),
        ("contains(:things, c) > b", "contains"),
        ("size(contains(a, b)) > a", "contains"),
        ("size(things)", "size"),
        ("a between b and attribute_exists(things)", "attribute_exists"),
        ("a in (b, attribute_exists(things))", "attribute_exists"),
    ],
)
def test_functions_stand_where_they_may(text: str, function: str) -> None:
    assert refusal(text) == (f"The function is not allowed to be used this way in an expression; function: {function}")


@pytest.mark.parametrize(
    ("text", "word"),
    [("attribute_exists(views, #a)", "views"), (":a < abOrT", "abOrT"), ("a.status = :a", "status")],
)
def test_reserved_words_are_refused_before_placeholders_are_looked_at(text: str, word: str) -> None:
    assert refusal(text) == f"Attribute name is a reserved keyword; reserved keyword: {word}"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("attribute_exists(#Pictures.RearView, :a) and a=a", "#Pictures"),
        ("begins_with(Pictures.#RearView)", "#RearView"),
        ("(#P between :lo and :hi) and (#PC in (:cat1, :cat2))", "#P"),
        ("#4g > a", "#4g"),
        ("#_ > a", "#_"),
        ("(a)between(b.c[45].#d)and(:a)", "#d"),
    ],
)
def test_names_must_be_defined(text: str, name: str) -> None:
    assert refusal(text) == (
        f"An expression attribute name used in the document path is not defined; attribute name: {name}"
    )


@pytest.mark.parametrize(
    ("text", "value"), [("begins_with(:hello, #a, #b)", ":hello"), (":a < :b", ":a"), (":_ > a", ":_")]
)
def test_values_must_be_defined(text: str, value: str) -> None:
    assert refusal(text) == (
        f"An expression attribute value used in expression is not defined; attribute value: {value}"
    )


@pytest.mark.parametrize(
    ("text", "function", "count"),
    [
        ("attribute_exists(things, a) and a=a", "attribute_exists", 2),
        ("attribute_not_exists(things, b)", "attribute_not_exists", 2),
        ("attribute_type(things)", "attribute_type", 1),
        ("begins_with(things)", "begins_with", 1),
        ("begins_with(things, size(a), b)", "begins_with", 3),
        ("contains(things)", "contains", 1),
        ("size(things, a) > b", "size", 2),
    ],
)
def test_functions_take_so_many_operands(text: str, function: str, count: int) -> None:
    assert refusal(text) == (
        "Incorrect number of operands for operator or function; "
        f"operator or function: {function}, number of operands: {count}"
    )


BAD_OPERANDS = [
    ("attribute_type(a, size(a)) and a=:a", "attribute_type", ["N"]),
    ("attribute_type(a, :a)", "attribute_type", ["N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"]),
    ("begins_with(a, size(a)) and a=:a", "begins_with", ["N"]),
    ("begins_with(a, :a)", "begins_with", ["N", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"]),
    ("begins_with(:a, a)", "begins_with", ["N", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"]),
    ("size(size(a)) > :a", "size", ["N"]),
    ("attribute_not_exists(size(:a))", "size", ["N"]),
    ("size(:a) > a", "size", ["N", "BOOL", "NULL"]),
    *[
        (text.format(operator), operator, ["BOOL", "NULL", "L", "M", "SS", "NS", "BS"])
        for operator in ("<", "<=", ">", ">=")
        for text in ("a {} :a", ":a {} a")
    ],
    ("a between :a and b", "BETWEEN", ["BOOL", "NULL", "L", "M", "SS", "NS", "BS"]),
    ("a between b and :a", "BETWEEN", ["BOOL", "NULL", "L", "M", "SS", "NS", "BS"]),
]


@pytest.mark.parametrize(
    ("text", "operator", "kind"),
    [(text, operator, kind) for text, operator, kinds in BAD_OPERANDS for kind in kinds],
)
def test_operand_types_are_checked_before_any_item_is_seen(text: str, operator: str, kind: str) -> None:
    assert refusal(text, values={":a": VALUES[kind]}) == (
        f"Incorrect operand type for operator or function; operator or function: {operator}, operand type: {kind}"
    )


@pytest.mark.parametrize("kind", VALUES)
def test_equality_and_membership_take_any_type(kind: str) -> None:
    for text in ("a = :a", "a <> :a", "a in (:a)", "contains(a, :a)"):
        assert compile_condition(text).bind({}, {":a": VALUES[kind]})({}) is (text == "a <> :a")


def test_a_type_has_a_name_that_dynamodb_knows() -> None:
    assert refusal("attribute_type(a, :a)", values={":a": {"S": "1"}}) == (
        "Invalid attribute type name found; type: 1, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
    )


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("attribute_exists(:a) and a=a", "attribute_exists"),
        ("attribute_not_exists(size(:a))", "attribute_not_exists"),
    ],
)
def test_some_functions_need_a_path(text: str, function: str) -> None:
    assert refusal(text, values={":a": {"S": "1"}}) == (
        f"Operator or function requires a document path; operator or function: {function}"
    )


@pytest.mark.parametrize(
    ("text", "operator", "path"),
    [
        ("a = a AND #a = b AND :views > a", "=", "[a]"),
        ("#a <> a", "<>", "[a]"),
        ("a > #a", ">", "[a]"),
        ("((a=a) OR (a=a))", "=", "[a]"),
        ("((a=a) AND (a=a))", "=", "[a]"),
        ("contains(ab.bc[1].a, ab.bc[1].#a)", "contains", "[ab, bc, [1], a]"),
        ("attribute_type(ab.bc[1].#a, ab.bc[1].a)", "attribute_type", "[ab, bc, [1], a]"),
        ("begins_with(ab.bc[1].a, ab.bc[1].#a)", "begins_with", "[ab, bc, [1], a]"),
        ("a in (b, a)", "IN", "[a]"),
        ("a between b and a", "BETWEEN", "[a]"),
    ],
)
def test_an_operand_is_not_compared_with_itself(text: str, operator: str, path: str) -> None:
    assert refusal(text, names={"#a": "a"}) == (
        "The first operand must be distinct from the remaining operands for this operator or function; "
        f"operator: {operator}, first operand: {path}"
    )


def test_the_bounds_of_between_have_one_type() -> None:
    assert refusal("a between :b and :a", values={":a": {"S": "a"}, ":b": {"N": "1"}}) == (
        "The BETWEEN operator requires same data type for lower and upper bounds; "
        "lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}"
    )


def test_the_bounds_of_between_are_in_order() -> None:
    assert refusal("a between :b and :a", values={":a": {"N": "9"}, ":b": {"N": "10"}}) == (
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
        "lower bound operand: AttributeValue: {N:10}, upper bound operand: AttributeValue: {N:9}"
    )


def test_a_path_has_32_elements_at_most() -> None:
    compile_condition("a" + ".b" * 31 + " = :v").bind({}, {":v": {"S": ""}})
    assert refusal("a" + ".b" * 32 + " = :v", values={":v": {"S": ""}}) == (
        "The document path has too many nesting levels; nesting levels: 33"
    )


def test_a_list_index_is_an_int() -> None:
    assert refusal("a[2147483648] = :v") == ("List index is not within the allowable range; index: [2147483648]")
