"""Laws: rendering is undone by parsing, and no text does worse than being refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expressions import (
    ExpressionError,
    compile_condition,
    compile_key_condition,
    compile_projection,
    compile_update,
)
from penstock.expressions.syntax.parser import parse_condition, parse_projection, parse_update
from penstock.expressions.syntax.tree import (
    AddAction,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    DeleteAction,
    In,
    Not,
    Or,
    Path,
    ProjectionTree,
    RemoveAction,
    Section,
    SetAction,
    UpdateTree,
    Value,
    render,
)

# Enough to find what is wrong, few enough to be run at every change.
few = settings(max_examples=60, deadline=None)

words = st.text("aBcSe1_", min_size=1, max_size=4).map("x{}".format) | st.sampled_from(["a", "andy", "sets", "Not1"])
names = words | words.map("#{}".format)
paths = st.builds(lambda head, rest: Path((head, *rest)), names, st.lists(names | st.integers(0, 99), max_size=3))
values = words.map(lambda word: Value(f":{word}"))
functions = st.sampled_from(["size", "contains", "if_not_exists", "f"])
operands = st.recursive(
    paths | values,
    lambda inner: st.builds(Call, functions, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=5,
)
comparisons = (
    st.builds(Comparison, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands, operands)
    | st.builds(Between, operands, operands, operands)
    | st.builds(In, operands, st.lists(operands, min_size=1, max_size=4).map(tuple))
    | st.builds(Call, functions, st.lists(operands, min_size=1, max_size=3).map(tuple))
)
terms = st.recursive(
    comparisons,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple))
    ),
    max_leaves=12,
)
sums = st.builds(Arithmetic, st.sampled_from(["+", "-"]), operands, operands)
actions = {
    "SET": st.builds(SetAction, paths, operands | sums | st.builds(Arithmetic, st.just("+"), sums, operands)),
    "REMOVE": st.builds(RemoveAction, paths),
    "ADD": st.builds(AddAction, paths, values),
    "DELETE": st.builds(DeleteAction, paths, values),
}
sections = st.sampled_from(list(actions)).flatmap(
    lambda keyword: st.lists(actions[keyword], min_size=1, max_size=3).map(lambda found: Section(keyword, tuple(found)))
)
updates = st.lists(sections, min_size=1, max_size=4).map(lambda found: UpdateTree(tuple(found)))
projections = st.lists(paths, min_size=1, max_size=5).map(lambda found: ProjectionTree(tuple(found)))


@few
@given(terms)
def test_a_condition_is_read_back_as_it_was(tree) -> None:
    assert parse_condition(render(tree)) == tree


@few
@given(updates)
def test_an_update_is_read_back_as_it_was(tree) -> None:
    assert parse_update(render(tree)) == tree


@few
@given(projections)
def test_a_projection_is_read_back_as_it_was(tree) -> None:
    assert parse_projection(render(tree)) == tree


PIECES = """
( ) [ ] , . + - = <> < <= > >= AND or NOT between IN SET remove ADD delete a b.c #n :v size contains
attribute_exists if_not_exists list_append begins_with f 0 12 007 _ ü ! " 𝄞 status
"""
pieces = st.sampled_from(PIECES.split())
texts = st.text(max_size=40) | st.lists(pieces, max_size=30).map(" ".join) | st.lists(pieces, max_size=30).map("".join)
item = {"a": {"N": "1"}, "b": {"M": {"c": {"L": [{"S": "x"}]}}}, "n": {"SS": ["x"]}}


@pytest.mark.parametrize("compile_", [compile_condition, compile_key_condition, compile_update, compile_projection])
@few
@given(text=texts, value=st.sampled_from([{"S": "x"}, {"N": "1"}, {"L": []}, {"SS": ["x"]}]))
def test_no_text_does_worse_than_being_refused(compile_, text: str, value: dict) -> None:
    try:
        compiled = compile_.__wrapped__(text)
        if compile_ is compile_projection:
            compiled.bind({"#n": "n"})(item)
        elif compile_ is compile_condition:
            compiled.bind({"#n": "n"}, {":v": value})(item)
        else:
            compiled.bind({"#n": "n"}, {":v": value})
    except ExpressionError as refused:
        assert refused.message


@few
@given(terms)
def test_a_condition_holds_the_same_however_its_brackets_are_written(tree) -> None:
    text = render(tree)
    try:
        compiled = compile_condition.__wrapped__(text)
        bound = compiled.bind(dict.fromkeys(compiled.names, "a"), {v: {"N": "1"} for v in compiled.values})
    except ExpressionError:
        return
    again = compile_condition.__wrapped__(f"({text})")
    rebound = again.bind(dict.fromkeys(again.names, "a"), {v: {"N": "1"} for v in again.values})
    assert bound(item) == rebound(item)


def test_nodes_are_values_of_their_class_and_never_change():
    one, same = Path(("a", 1)), Path(("a", 1))
    assert one == same and hash(one) == hash(same)
    assert And((Not(one),)) != Or((Not(one),)), "the same fields in another class"
    assert repr(one) == "Path(parts=('a', 1))"
    with pytest.raises(AttributeError, match="parts"):
        one.parts = ()  # type: ignore[misc]
    with pytest.raises(AttributeError, match="parts"):
        del one.parts
    with pytest.raises(ValueError, match="argument"):
        And()  # type: ignore[call-arg]
