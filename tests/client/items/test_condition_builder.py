"""Conditions and updates from Python: how they are written, and that they mean what Python means."""

from __future__ import annotations

import operator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.items.expressions import Aliases, F, condition_text, projection_text, update_text
from penstock.client.items.values import InvalidValue, decode_item, encode_item
from penstock.expressions import compile_condition, compile_update


def rendered(condition, **given_aliases):
    aliases = Aliases(**given_aliases)
    return condition_text(condition, aliases), aliases.names, aliases.values


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (F("a") == 1, "#n0 = :v0"),
        (F("a") != 1, "#n0 <> :v0"),
        (F("a") < 1, "#n0 < :v0"),
        (F("a") <= 1, "#n0 <= :v0"),
        (F("a") > 1, "#n0 > :v0"),
        (F("a") >= 1, "#n0 >= :v0"),
        (F("a") > 1, "#n0 > :v0"),
        (F("a") == F("b"), "#n0 = #n1"),
        (F("a").between(1, 2), "#n0 BETWEEN :v0 AND :v1"),
        (F("a").between(F("low"), F("high")), "#n0 BETWEEN #n1 AND #n2"),
        (F("a").in_([1, 2, 1]), "#n0 IN (:v0, :v1, :v0)"),
        (F("a").exists(), "attribute_exists(#n0)"),
        (F("a").missing(), "attribute_not_exists(#n0)"),
        (F("a").type("SS"), "attribute_type(#n0, :v0)"),
        (F("a").begins_with("x"), "begins_with(#n0, :v0)"),
        (F("a").contains("x"), "contains(#n0, :v0)"),
        (F("a").size() > 3, "size(#n0) > :v0"),
        (F("a").size().between(1, 2), "size(#n0) BETWEEN :v0 AND :v1"),
        (F("a", "b", 0) == 1, "#n0.#n1[0] = :v0"),
        (F("a")["b"][0] == 1, "#n0.#n1[0] = :v0"),
        (F("a", "a", "a").exists(), "attribute_exists(#n0.#n0.#n0)"),
        ((F("a") == 1) & (F("b") == 2) & (F("c") == 3), "#n0 = :v0 AND #n1 = :v1 AND #n2 = :v2"),
        ((F("a") == 1) | (F("b") == 2) & (F("c") == 3), "#n0 = :v0 OR #n1 = :v1 AND #n2 = :v2"),
        (((F("a") == 1) | (F("b") == 2)) & (F("c") == 3), "(#n0 = :v0 OR #n1 = :v1) AND #n2 = :v2"),
        (~(F("a") == 1), "NOT (#n0 = :v0)"),
        (~((F("a") == 1) | ~(F("b") == 1)), "NOT (#n0 = :v0 OR NOT (#n1 = :v0))"),
    ],
)
def test_a_condition_is_written_with_aliases_only(condition, text):
    assert rendered(condition)[0] == text
    compile_condition(text)


def test_there_are_only_as_many_aliases_as_needed():
    text, names, values = rendered((F("a") == 1) | (F("a") == 1) | (F("b") == "1"))
    assert text == "#n0 = :v0 OR #n0 = :v0 OR #n1 = :v1"
    assert names == {"#n0": "a", "#n1": "b"}
    assert values == {":v0": {"N": "1"}, ":v1": {"S": "1"}}


def test_a_dot_in_a_name_is_part_of_the_name():
    assert rendered(F("a.b").exists())[1] == {"#n0": "a.b"}


def test_the_callers_own_aliases_are_left_alone():
    text, names, values = rendered(F("b") == 2, names={"#n0": "a", "#n1": "c"}, values={":v0": 1})
    assert text == "#n2 = :v1"
    assert names == {"#n0": "a", "#n1": "c", "#n2": "b"}
    assert values == {":v0": {"N": "1"}, ":v1": {"N": "2"}}


def test_a_condition_is_neither_true_nor_false():
    for misuse in (
        lambda: (F("a") == 1) and (F("b") == 2),
        lambda: (F("a") == 1) or (F("b") == 2),
        lambda: not (F("a") == 1),  # noqa: SIM201
        lambda: 1 < F("a") < 5,
    ):
        with pytest.raises(TypeError, match="Write & for `and`"):
            misuse()


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: F("a").in_([]), "at least one"),
        (lambda: F("a").in_(range(101)), "100 values"),
        (lambda: F("a").type("X"), "one of S, N"),
        (lambda: F(1), "name is a str"),
        (lambda: F("a", -1), "counts from 0"),
        (lambda: F("a", 1.5), "name or a place"),
        (lambda: F("a", True), "name or a place"),
        (lambda: list(F("a")), "has no elements"),
        (lambda: rendered(F("a") == F("b") + 1), "updates only"),
        (lambda: (F("a") == 1) & True, "unsupported operand"),
    ],
)
def test_misuse_is_told(misuse, message):
    with pytest.raises((TypeError, ValueError), match=message):
        misuse()


def test_a_value_that_cannot_be_compared_is_refused_with_its_attribute():
    with pytest.raises(InvalidValue, match=r"^order\.price: NaN"):
        rendered(F("order", "price") > float("nan"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"assigned": {"a": 1, F("b", "c"): 2}}, "SET #n0 = :v0, #n1.#n2 = :v1"),
        ({"assigned": {"n": F("n") + 1}}, "SET #n0 = #n0 + :v0"),
        ({"assigned": {"n": 10 - F("n")}}, "SET #n0 = :v0 - #n0"),
        ({"assigned": {"n": F("n").if_missing(0) + 1}}, "SET #n0 = if_not_exists(#n0, :v0) + :v1"),
        ({"assigned": {"l": F("l").append([1])}}, "SET #n0 = list_append(#n0, :v0)"),
        ({"assigned": {"l": F("l").prepend([1])}}, "SET #n0 = list_append(:v0, #n0)"),
        ({"assigned": {"l": F("l").if_missing([]).append([1])}}, "SET #n0 = list_append(if_not_exists(#n0, :v0), :v1)"),
        ({"assigned": {"a": F("b")}}, "SET #n0 = #n1"),
        ({"removed": ["a", F("b", 0)]}, "REMOVE #n0, #n1[0]"),
        ({"added": {"n": 1}, "deleted": {"t": {"x"}}}, "ADD #n0 :v0 DELETE #n1 :v1"),
        ({"assigned": {"a": 1}, "removed": ["b"]}, "SET #n0 = :v0 REMOVE #n1"),
        ({}, ""),
    ],
)
def test_an_update_is_written_with_aliases_only(changes, text):
    assert update_text(Aliases(), **changes) == text
    if text:
        compile_update(text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"assigned": {"n": F("n") + 1 + 2}}, "two operands"),
        ({"assigned": {"n": F("n") == 1}}, "sets no Comparison"),
        ({"assigned": {"n": F("n").size()}}, "sets no Size"),
        ({"added": {"n": F("m")}}, "plain value"),
        ({"removed": "name"}, "a list of attributes"),
        ({"removed": [3]}, "a str or F"),
    ],
)
def test_an_update_that_dynamodb_has_not_is_refused(changes, message):
    with pytest.raises(TypeError, match=message):
        update_text(Aliases(), **changes)


def test_a_selection_names_its_attributes():
    aliases = Aliases()
    assert projection_text(["a", F("b", 0, "a")], aliases) == "#n0, #n1[0].#n0"
    with pytest.raises(ValueError, match="at least one"):
        projection_text([], aliases)


# ── the engine and Python agree ──────────────────────────────────────────────────────────────────

NAMES = ("a", "b", "size", "order")  # the last two are words of DynamoDB's language
values = st.integers(-3, 3) | st.sampled_from(["", "x", "xy"]) | st.booleans() | st.none()
items = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def same_kind(left, right):
    return type(left) is type(right)


def ordered(value):
    return isinstance(value, int | str | Decimal) and not isinstance(value, bool)


def holds(item, name, symbol, value):
    """What DynamoDB means: unequal kinds are unequal, and never in order; a missing attribute is only unequal."""
    if name not in item:
        return symbol == "<>"
    if not same_kind(item[name], value):
        return symbol == "<>"
    if symbol in ("=", "<>"):
        return COMPARISONS[symbol](item[name], value)
    return ordered(value) and COMPARISONS[symbol](item[name], value)


@st.composite
def leaves(draw):
    name = draw(st.sampled_from(NAMES))
    kind = draw(st.sampled_from(["compare", "in", "exists", "missing", "begins", "type", "between"]))
    if kind == "compare":
        symbol = draw(st.sampled_from(list(COMPARISONS)))
        value = draw(values if symbol in ("=", "<>") else st.integers(-3, 3) | st.sampled_from(["", "x", "xy"]))
        return COMPARISONS[symbol](F(name), value), lambda item: holds(item, name, symbol, value)
    if kind == "in":
        some = draw(st.lists(values, min_size=1, max_size=3))
        return F(name).in_(some), lambda item: any(holds(item, name, "=", each) for each in some)
    if kind == "between":
        low, high = sorted(draw(st.tuples(st.integers(-3, 3), st.integers(-3, 3))))
        return (
            F(name).between(low, high),
            lambda item: holds(item, name, ">=", low) and holds(item, name, "<=", high),
        )
    if kind == "begins":
        start = draw(st.sampled_from(["x", "xy"]))
        return F(name).begins_with(start), lambda item: isinstance(item.get(name), str) and item[name].startswith(start)
    if kind == "type":
        return F(name).type("BOOL"), lambda item: isinstance(item.get(name), bool)
    if kind == "exists":
        return F(name).exists(), lambda item: name in item
    return F(name).missing(), lambda item: name not in item


def combined(inner):
    return (
        st.tuples(inner, inner).map(lambda two: (two[0][0] & two[1][0], lambda i: two[0][1](i) and two[1][1](i)))
        | st.tuples(inner, inner).map(lambda two: (two[0][0] | two[1][0], lambda i: two[0][1](i) or two[1][1](i)))
        | inner.map(lambda one: (~one[0], lambda i: not one[1](i)))
    )


@given(st.recursive(leaves(), combined, max_leaves=8), items)
def test_a_rendered_condition_means_what_python_means(pair, item):
    condition, meaning = pair
    text, names, wire_values = rendered(condition)
    evaluate = compile_condition(text).bind(names, wire_values)
    assert evaluate(encode_item(item)) == bool(meaning(item))


@given(st.integers(-100, 100), st.integers(-100, 100), st.lists(st.integers(), max_size=3))
def test_a_rendered_update_does_what_python_does(before, by, more):
    aliases = Aliases()
    text = update_text(
        aliases,
        assigned={
            "sum": F("n") + by,
            "difference": by - F("n"),
            "list": F("list").append(more),
            "new": F("new").if_missing(by) + 1,
        },
        removed=["old"],
        added={"n": by},
        deleted={"tags": {"x"}},
    )
    item = {"n": before, "list": [1], "old": 1, "tags": {"x", "y"}}
    after = compile_update(text).bind(aliases.names, aliases.values).apply(encode_item(item))
    assert decode_item(after) == {
        "n": before + by,
        "sum": before + by,
        "difference": by - before,
        "list": [1, *more],
        "new": by + 1,
        "tags": {"y"},
    }
