"""Expressions whose names are put in once: they mean, and are refused, as on the full path."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ValidationException
from penstock.expressions import compile_condition, compile_update, render
from penstock.expressions import request as request_expressions
from penstock.expressions.request import PlainUpdate, condition_of, named_expressions, named_query, query_of, update_of
from penstock.expressions.syntax.tree import And, Call, Comparison, Not, Or, Path, Term, Value

NAMES = {"#a": "a", "#b": "b"}

scalars = st.sampled_from(
    [{"S": "x"}, {"S": "y"}, {"N": "1"}, {"N": "2"}, {"BOOL": True}, {"NULL": True}, {"B": "eA=="}]
)
sets = st.sampled_from([{"SS": ["x", "y"]}, {"SS": ["y", "x"]}, {"L": [{"N": "1"}]}, {"M": {"b": {"N": "1"}}}])
ordered = st.sampled_from([{"S": "x"}, {"S": "y"}, {"N": "1"}, {"N": "2"}, {"B": "eA=="}])
scalars = ordered | st.sampled_from([{"BOOL": True}, {"NULL": True}])
items = st.dictionaries(st.sampled_from(["a", "b"]), scalars | sets)
paths = st.sampled_from([Path(("#a",)), Path(("b",)), Path(("#a", "#b")), Path(("b", 0))])
leaves = (
    st.builds(Comparison, st.sampled_from(["=", "<>"]), paths, st.just(Value(":any")))
    | st.builds(Comparison, st.sampled_from(["<", "<=", ">", ">="]), paths, st.just(Value(":ordered")))
    | st.builds(Call, st.sampled_from(["attribute_exists", "attribute_not_exists"]), paths.map(lambda path: (path,)))
)
terms = st.recursive(
    leaves,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple))
    ),
    max_leaves=6,
)


def without_named() -> Any:
    """For the length of a block, every expression takes the full path."""
    return patch.multiple(request_expressions, named_expressions=lambda *_: None, named_query=lambda *_: None)


@settings(max_examples=300, deadline=None)
@given(terms, items, scalars | sets, ordered)
def test_a_named_condition_holds_where_that_of_the_full_path_does(
    term: Term, item: dict[str, Any], value: dict[str, Any], bound: dict[str, Any]
) -> None:
    text = render(term)
    used = compile_condition(text)
    given = {
        "ConditionExpression": text,
        "ExpressionAttributeNames": {name: NAMES[name] for name in used.names} or None,
        "ExpressionAttributeValues": {
            name: one for name, one in {":any": value, ":ordered": bound}.items() if name in used.values
        }
        or None,
    }
    asked = {name: one for name, one in given.items() if one is not None}
    assert named_expressions(None, text, asked.get("ExpressionAttributeNames")) is not None
    fast = condition_of(asked)
    with without_named():
        full = condition_of(asked)
    assert fast is not None and full is not None
    assert fast(item) is full(item)


attributes = st.sampled_from(["a", "#b", "c", "d", "a.x", "#b[0]"])
actions = st.one_of(
    attributes.map(lambda name: ("SET", f"{name} = :v")),
    attributes.map(lambda name: ("SET", f"{name} = :w")),
    attributes.map(lambda name: ("SET", f"{name} = if_not_exists(c, :v)")),
    attributes.map(lambda name: ("REMOVE", name)),
    attributes.map(lambda name: ("ADD", f"{name} :w")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(actions, min_size=1, max_size=4), items, scalars | sets)
def test_a_named_update_leaves_or_refuses_what_the_full_path_does(
    chosen: list[tuple[str, str]], item: dict[str, Any], value: dict[str, Any]
) -> None:
    clauses = {word: ", ".join(action for kind, action in chosen if kind == word) for word in ("SET", "REMOVE", "ADD")}
    text = " ".join(f"{word} {actions}" for word, actions in clauses.items() if actions)
    given = {"UpdateExpression": text, "ExpressionAttributeNames": {"#b": "b"}, "ExpressionAttributeValues": {}}
    given["ExpressionAttributeValues"] = {
        name: one for name, one in {":v": value, ":w": {"N": "2"}}.items() if name in text
    }
    if "#b" not in text:
        del given["ExpressionAttributeNames"]
    if not given["ExpressionAttributeValues"]:
        del given["ExpressionAttributeValues"]
    fast = outcome_of(given, item)
    with without_named():
        assert outcome_of(given, item) == fast


def outcome_of(given: dict[str, Any], item: dict[str, Any]) -> Any:
    """The item that the update leaves, in the order of its attributes, or the refusal."""
    try:
        update, _ = update_of(given)
        assert update is not None
        return list(update.apply(item).items()), update.attributes, update.creates
    except ValidationException as refused:
        return str(refused)


key_texts = st.sampled_from(
    [
        "#a = :v",
        ":v = a",
        "a = :v AND #b < :w",
        "#a = :v AND #b BETWEEN :v AND :w",
        "(a = :v) AND begins_with(b, :w)",
        "a = :v AND a = :w",
        "#a = :v AND b <> :w",
        "#a.b = :v",
        "size(a) = :v",
        "a = :v OR b = :w",
        "#missing = :v",
    ]
)
filter_texts = st.sampled_from([None, "c = :w", "#b.c < :v", "attribute_exists(#b)", "c[0] IN (:v, :w)"])
projection_texts = st.sampled_from([None, "c", "#b, c.d", "c, c.d"])


@settings(max_examples=400, deadline=None)
@given(
    key_texts,
    filter_texts,
    projection_texts,
    st.none() | st.sets(st.sampled_from(["#a", "#b", ":v", ":w"])),
    scalars | sets,
    scalars | sets,
    items,
)
def test_a_named_query_means_or_is_refused_as_on_the_full_path(
    key: str,
    condition: str | None,
    projection: str | None,
    chosen: set[str] | None,
    first: dict[str, Any],
    second: dict[str, Any],
    item: dict[str, Any],
) -> None:
    """With the placeholders that the texts use where none are chosen, as most requests have them."""
    text = f"{key} {condition} {projection}"
    placeholders = {one for one in ("#a", "#b", ":v", ":w") if one in text} if chosen is None else chosen
    values = {name: one for name, one in {":v": first, ":w": second}.items() if name in placeholders}
    given = {
        "KeyConditionExpression": key,
        "FilterExpression": condition,
        "ProjectionExpression": projection,
        "ExpressionAttributeNames": {name: NAMES[name] for name in NAMES if name in placeholders} or None,
        "ExpressionAttributeValues": values or None,
    }
    asked = {name: one for name, one in given.items() if one is not None}
    fast = query_outcome(asked, item)
    with without_named():
        assert query_outcome(asked, item) == fast


def query_outcome(asked: dict[str, Any], item: dict[str, Any]) -> Any:
    """What the query asks for, what it keeps and shows of the item; or the refusal."""
    try:
        parts = query_of(asked)
    except ValidationException as refused:
        return str(refused)
    kept = None if parts.filter is None else parts.filter(item)
    shown = None if parts.projector is None else parts.projector(item)
    return parts._replace(filter=None, projector=None), kept, shown


def test_a_usual_query_is_named() -> None:
    assert named_query("#a = :v AND b < :w", "c = :w", "c, #b.d", {"#a": "a", "#b": "b"}) is not None


def test_a_value_without_an_order_is_left_to_the_full_path() -> None:
    request = {
        "ConditionExpression": "#a < :v",
        "ExpressionAttributeNames": {"#a": "a"},
        "ExpressionAttributeValues": {":v": {"BOOL": True}},
    }
    with pytest.raises(ValidationException, match="Incorrect operand type for operator or function; operator or"):
        condition_of(request)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("SET a = :v, #b = :w REMOVE c", True),
        ("REMOVE a", True),
        ("SET a = :v, #b.c = :w", False),
        ("SET a = :v, #b = a", False),
        ("SET a = :v, #b = if_not_exists(c, :w)", False),
        ("ADD a :v, #b :w", False),
        ("DELETE a :v", False),
        ("SET a = :v REMOVE b[0]", False),
    ],
)
def test_which_updates_are_plain(text: str, plain: bool) -> None:
    update = compile_update(text)
    values = {name: {"SS": ["x"]} for name in update.values}
    known = named_expressions(text, None, {name: name[1:] for name in update.names} or None)
    assert known is not None
    assert isinstance(known.update(values), PlainUpdate) is plain


UPDATES = ["SET a = :v, #b = :w, d = :v REMOVE c", "REMOVE a, c", "SET c = :v", "SET #b = :v REMOVE a"]


@pytest.mark.parametrize("text", UPDATES)
@pytest.mark.parametrize("item", [{}, {"a": {"S": "x"}, "b": {"N": "1"}}, {"c": {"L": []}, "a": {"N": "1"}}])
def test_a_plain_update_leaves_what_the_bound_one_does(text: str, item: dict[str, Any]) -> None:
    compiled = compile_update(text)
    names = {name: name[1:] for name in compiled.names}
    values = {name: {"S": name} for name in compiled.values}
    known = named_expressions(text, None, names or None)
    assert known is not None
    plain, bound = known.update(values), compiled.bind(names, values)
    assert isinstance(plain, PlainUpdate)
    assert list(plain.apply(item).items()) == list(bound.apply(item).items()), "the order of attributes too"
    assert plain.project(item) == bound.project(item)
    assert (plain.attributes, plain.nested, plain.creates) == (bound.attributes, bound.nested, bound.creates)
    assert plain.types(["a", "c"]) == {name: "S" for name in ("a", "c") if f"{name} = " in text}


def request(**parts: Any) -> dict[str, Any]:
    usual = {
        "UpdateExpression": "SET #a = :v",
        "ConditionExpression": "#a = :w",
        "ExpressionAttributeNames": {"#a": "a"},
        "ExpressionAttributeValues": {":v": {"N": "1"}, ":w": {"N": "2"}},
    }
    return {name: value for name, value in {**usual, **parts}.items() if value is not None}


@pytest.mark.parametrize(
    ("parts", "refusal"),
    [
        ({"ExpressionAttributeNames": None}, "An expression attribute name used in the document path is not defined"),
        ({"ExpressionAttributeNames": {}}, "ExpressionAttributeNames must not be empty"),
        ({"ExpressionAttributeNames": {"#a": "a", "#b": "b"}}, "unused in expressions: keys: {#b}"),
        ({"ExpressionAttributeNames": {"#a": ""}}, "Empty attribute name for key #a"),
        ({"ExpressionAttributeNames": {"#a": "a", "b": "b"}}, 'Syntax error; key: "b"'),
        ({"ExpressionAttributeValues": None}, "An expression attribute value used in expression is not defined"),
        ({"ExpressionAttributeValues": {}}, "ExpressionAttributeValues must not be empty"),
        ({"ExpressionAttributeValues": {":v": {"N": "1"}}}, "is not defined; attribute value: :w"),
        ({"ExpressionAttributeValues": {":v": {"N": "x"}, ":w": {"N": "2"}}}, "for key :v"),
        ({"ConditionExpression": "#a ="}, "Invalid ConditionExpression: Syntax error"),
        ({"UpdateExpression": "SET #a = :v, a = :w"}, "Two document paths overlap"),
    ],
)
@pytest.mark.parametrize("transaction", [False, True])
def test_what_is_wrong_is_refused_however_often_its_like_was_right(
    parts: dict[str, Any], refusal: str, transaction: bool
) -> None:
    for _ in range(2):
        update_of(request(), transaction=transaction)
        with pytest.raises(ValidationException) as refused:
            update_of(request(**parts), transaction=transaction)
        assert refusal in str(refused.value)


def test_a_placeholder_too_long_for_the_map_is_refused_although_the_text_has_it() -> None:
    long = ":" + "v" * 300
    values = {long: {"N": "1"}, ":w": {"N": "2"}}
    with pytest.raises(ValidationException, match="a key that is too long; size of key: 301"):
        update_of(request(UpdateExpression=f"SET #a = {long}", ExpressionAttributeValues=values))


def test_values_are_normalised_for_each_call() -> None:
    for number in ("1.0", "1", "01"):
        values = {":v": {"N": number}, ":w": {"N": "2e0"}}
        update, condition = update_of(request(ExpressionAttributeValues=values))
        assert update is not None and condition is not None
        assert update.apply({"a": {"N": "2"}}) == {"a": {"N": "1"}}
        assert condition({"a": {"N": "2"}}) and not condition({"a": {"N": "1"}})


def test_names_are_part_of_what_is_remembered() -> None:
    for name in ("a", "b", "a"):
        update, _ = update_of(request(ExpressionAttributeNames={"#a": name}))
        assert update is not None and update.attributes == {name}
