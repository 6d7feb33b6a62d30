"""Key conditions: the terms they come to, and how DynamoDB refuses the rest."""

from __future__ import annotations

import pytest

from penstock.expressions import ExpressionError, KeyTerm, compile_key_condition

A, B = {"S": "a"}, {"S": "b"}
VALUES = {":a": A, ":b": B}


def refusal(text: str, values: dict | None = None) -> str:
    with pytest.raises(ExpressionError) as refused:
        compile_key_condition(text).bind({}, values or {})
    return refused.value.text("KeyConditionExpression")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("pk = :a", [KeyTerm("pk", "=", (A,))]),
        (":a = pk", [KeyTerm("pk", "=", (A,))]),
        ("#k = :a AND sk < :b", [KeyTerm("key", "=", (A,)), KeyTerm("sk", "<", (B,))]),
        ("sk >= :b and pk = :a", [KeyTerm("sk", ">=", (B,)), KeyTerm("pk", "=", (A,))]),
        (":b >= sk", [KeyTerm("sk", "<=", (B,))]),
        (":b < sk", [KeyTerm("sk", ">", (B,))]),
        ("sk BETWEEN :a AND :b", [KeyTerm("sk", "BETWEEN", (A, B))]),
        ("begins_with(sk, :a)", [KeyTerm("sk", "begins_with", (A,))]),
        ("(pk = :a) AND (sk = :b)", [KeyTerm("pk", "=", (A,)), KeyTerm("sk", "=", (B,))]),
        ("(pk = :a AND (sk = :b))", [KeyTerm("pk", "=", (A,)), KeyTerm("sk", "=", (B,))]),
        ("a = :a AND (b = :a AND (c = :a AND d > :b))", None),
    ],
)
def test_it_comes_to_one_term_for_each_key_attribute(text: str, terms: list | None) -> None:
    bound = compile_key_condition(text).bind({"#k": "key"}, VALUES)
    assert list(bound) == terms if terms is not None else len(bound) == 4


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("a > b and size(b) > c or a > c", "OR"),
        ("a in (b, size(c), d)", "IN"),
        ("attribute_exists(a)", "attribute_exists"),
        ("attribute_not_exists(a)", "attribute_not_exists"),
        ("contains(a.d, b)", "contains"),
        ("not a > b", "NOT"),
        ("a <> b", "<>"),
    ],
)
def test_operators_that_no_key_condition_may_have(text: str, operator: str) -> None:
    assert refusal(text) == f"Invalid operator used in KeyConditionExpression: {operator}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ":a between size(b) and size(a) and b > :b",
            "Invalid condition in KeyConditionExpression: "
            "BETWEEN operator must have the key attribute as its first operand",
        ),
        (
            "begins_with(:a, b) and a > :b",
            "Invalid condition in KeyConditionExpression: "
            "begins_with operator must have the key attribute as its first operand",
        ),
        *[
            (text, "KeyConditionExpressions cannot contain nested operations")
            for text in ("size(b) > a AND a.b > b AND b > c", "a > size(b.d)", "a between size(b) and size(a)")
        ],
        *[
            (
                text,
                "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
            )
            for text in ("b > a.b", "b between c[1] and d", "a between b and size(a)", "begins_with(a, b)")
        ],
        *[
            (text, "KeyConditionExpressions cannot have conditions on nested attributes")
            for text in ("b.d > a AND c.d > e.f", "a.d > c", "b[0] > a", "a.b = :a")
        ],
        *[
            (text, "Invalid condition in KeyConditionExpression: No key attribute specified")
            for text in (":b > :a AND a < :b", ":a > b AND :a < :b")
        ],
        *[
            (text, "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key")
            for text in (
                "b > :a AND b < :a and c = :a and d = :a",
                "(a > :a and b > :a) and (b > :a and c > :a)",
            )
        ],
    ],
)
def test_forms_that_no_key_condition_may_have(text: str, message: str) -> None:
    assert refusal(text, VALUES) == message


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("pk = :p AND begins_with(sk, :v)", "begins_with", {"N": "1"}),
        ("pk = :p AND begins_with(sk, :v)", "begins_with", {"BOOL": True}),
        ("pk = :p AND sk < :v", "<", {"BOOL": True}),
        ("pk = :p AND :v >= sk", ">=", {"BOOL": True}),
        ("pk = :p AND sk BETWEEN :v AND :v", "BETWEEN", {"BOOL": True}),
        ("begins_with(sk, :v) AND pk = :missing", "begins_with", {"N": "1"}),
        ("attribute_type(a, :v)", "attribute_type", {"N": "1"}),
    ],
)
def test_operand_types(text: str, operator: str, value: dict) -> None:
    (kind,) = value
    assert refusal(text, {":p": A, ":v": value}) == (
        "Invalid KeyConditionExpression: Incorrect operand type for operator or function; "
        f"operator or function: {operator}, operand type: {kind}"
    )


def test_clauses_are_checked_in_the_order_in_which_they_are_written() -> None:
    text = "pk = :missing AND begins_with(sk, :n)"
    assert refusal(text, {":n": {"N": "1"}}).endswith("is not defined; attribute value: :missing")


def test_the_bounds_of_between() -> None:
    assert "requires same data type" in refusal("a between :b and :a", {":a": A, ":b": {"N": "1"}})
    assert "requires upper bound to be greater" in refusal("a between :b and :a", {":a": A, ":b": B})
