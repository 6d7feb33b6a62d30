"""The checker of concurrent histories: what it accepts, what it finds, and how it tells of it."""

from __future__ import annotations

import re
from itertools import chain, combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.testing.item_model import ANY, Add, Call, Change, Check, Delete, Get, ItemModel, Put, Result
from penstock.testing.linearizability import Linearizable, Operation, Undecided, Violation, check, partitions

MS = 1_000_000
History = list[Operation[Call, Result]]


def done(*values, refused=False):
    return Result(not refused, values)


def op(who: str, call, began: int, ended: int | None, result=None) -> Operation[Call, Result]:
    call = call if isinstance(call, Get | Change) else Change((call,))
    if result is None and isinstance(call, Change):
        result = done(*[ANY] * len(call.actions))
    return Operation(who, call, began * MS, None if ended is None else ended * MS, result)


def get(who: str, key: str, value, began: int, ended: int) -> Operation[Call, Result]:
    return op(who, Get((key,)), began, ended, done(value))


GOOD: dict[str, History] = {
    "nothing at all": [],
    "a read during a write sees the old value or the new one": [
        op("a", Put("x", 1), 0, 10),
        get("b", "x", None, 1, 3),
        get("c", "x", 1, 4, 6),
    ],
    "of two writes at once either may be the last": [
        op("a", Put("x", 1), 0, 10),
        op("b", Put("x", 2), 0, 10),
        get("c", "x", 1, 11, 12),
    ],
    "a write whose answer was lost is seen much later": [
        op("a", Put("x", 1), 0, None),
        get("b", "x", None, 100, 101),
        get("b", "x", 1, 102, 103),
    ],
    "a write whose answer was lost is never seen": [op("a", Put("x", 1), 0, None), get("b", "x", None, 100, 101)],
    "one of two conditional writes is refused and told the other's value": [
        op("a", Put("x", 1, expected=None), 0, 5),
        op("b", Put("x", 2, expected=None), 0, 5, done(1, refused=True)),
    ],
    "a counter's answers are one order, whoever is answered first": [
        op("a", Add("n", 1), 0, 9, done(1)),
        op("b", Add("n", 1), 0, 5, done(None)),
        get("c", "n", 2, 10, 11),
    ],
    "an add whose answer was lost made room in the count": [
        op("a", Add("n", 1), 0, None),
        op("a", Add("n", 1), 0, None),
        op("b", Add("n", 1), 5, 6, done(1)),
        op("b", Add("n", 1), 7, 8, done(3)),
    ],
    "that ended in the nanosecond in which the other began counts as concurrent": [
        op("a", Put("x", 1), 0, 5),
        get("b", "x", None, 5, 6),
    ],
    "a transaction is seen whole": [
        op("a", Change((Put("x", 1), Put("y", 1))), 0, 5),
        op("b", Get(("x", "y")), 1, 3, done(None, None)),
        op("b", Get(("x", "y")), 3, 5, done(1, 1)),
    ],
}

BAD: dict[str, tuple[History, int]] = {
    "a stale read": ([op("a", Put("x", 1), 0, 1), op("a", Put("x", 2), 2, 3), get("b", "x", 1, 4, 5)], 3),
    "two reads during one write go back in time": (
        [op("a", Put("x", 1), 0, 10), get("b", "x", 1, 1, 2), get("c", "x", None, 3, 4)],
        2,
    ),
    "a lost update": (
        [
            op("a", Put("x", 1), 0, 1),
            op("a", Put("x", 2, expected=1), 2, 6),
            op("b", Put("x", 3, expected=1), 2, 6),
        ],
        2,  # whenever 1 was written, it was written once
    ),
    "a lost count": ([op("a", Add("n", 1), 0, 5, done(None)), op("b", Add("n", 1), 0, 5, done(None))], 2),
    "a write that was refused is seen": (
        [op("a", Put("x", 9, expected=5), 0, 1, done(None, refused=True)), get("b", "x", 9, 2, 3)],
        1,
    ),
    "a refusal for a value that the item did not have": (
        [op("a", Put("x", 1), 0, 1), op("b", Put("x", 2, expected=1), 2, 3, done(7, refused=True))],
        1,
    ),
    "a torn transaction": (
        [op("a", Change((Put("x", 1), Put("y", 1))), 0, 9), op("b", Get(("x", "y")), 1, 2, done(1, None))],
        1,
    ),
    "the value of an aborted transaction": (
        [
            op("a", Change((Put("x", 1), Check("y", 5))), 0, 1, done(ANY, None, refused=True)),
            get("b", "x", 1, 2, 3),
        ],
        1,
    ),
    "a value that nobody wrote": ([op("a", Put("x", 1), 0, 9), get("b", "x", 3, 1, 2)], 1),
    "a deleted item comes back": (
        [op("a", Put("x", 1), 0, 1), op("a", Delete("x", expected=1), 2, 3), get("b", "x", 1, 4, 5)],
        2,
    ),
    "a write whose answer was lost takes effect before it began": (
        [get("b", "x", 1, 0, 1), op("a", Put("x", 1), 2, None)],
        1,
    ),
    "a write whose answer was lost takes effect twice": (
        [
            op("a", Put("x", 1), 0, None),
            get("b", "x", 1, 1, 2),
            op("b", Delete("x"), 3, 4),
            get("b", "x", 1, 5, 6),
        ],
        3,
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_history_that_can_be_is_accepted(name: str) -> None:
    assert isinstance(check(GOOD[name], ItemModel), Linearizable)


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_cannot_be_is_found_and_told_by_the_fewest_operations(name: str) -> None:
    history, contradicting = BAD[name]
    verdict = check(history, ItemModel)
    assert isinstance(verdict, Violation)
    assert len(verdict.operations) == contradicting
    assert verdict.unexplained in verdict.operations


def test_operations_that_share_no_key_are_checked_apart() -> None:
    history = [
        get("a", "x", None, 0, 1),
        get("a", "y", None, 2, 3),
        op("a", Get(("y", "z")), 4, 5, done(None, None)),
        op("a", Get(("z", "w")), 6, 7, done(None, None)),
    ]
    assert [(keys, len(part)) for keys, part in partitions(history)] == [(("x",), 1), (("w", "y", "z"), 3)]


def test_a_search_that_is_too_long_says_so_and_accuses_nobody() -> None:
    history = [op(f"c{n}", Put("x", n), 0, 100) for n in range(12)] + [get("r", "x", 99, 101, 102)]
    verdict = check(history, ItemModel, steps=1_000)
    assert isinstance(verdict, Undecided)
    assert verdict.operations == 13


def test_lost_answers_do_not_multiply() -> None:
    lost = [op("k", Put("x", f"lost{n}"), n, None) for n in range(40)]
    lost += [op("k", Add("n", 1), n, None) for n in range(60)]
    told = [get("a", "x", f"lost{n}", 200 + 2 * n, 201 + 2 * n) for n in range(0, 40, 7)]
    counted = [op("a", Add("n", 1), 500 + 2 * n, 501 + 2 * n, done(3 * n + 4)) for n in range(20)]
    assert isinstance(check([*lost, *told, *counted], ItemModel, steps=300_000), Linearizable)
    assert isinstance(check([*lost, *told, get("a", "x", "lost0", 900, 901)], ItemModel, steps=300_000), Violation)


def test_ten_thousand_operations_take_steps_in_proportion() -> None:
    history: History = []
    for turn in range(2_500):
        at = turn * 10
        history += [op(f"w{n}", Put("x", f"{turn}.{n}"), at, at + 8) for n in range(3)]
        history += [get("r", "x", f"{turn}.1", at + 9, at + 9)]
    verdict = check(history, ItemModel)
    assert isinstance(verdict, Linearizable)
    assert verdict.steps < 40 * len(history)


def test_an_account_shows_who_did_what_when_and_leaves_out_what_does_not_matter() -> None:
    noise = [get("noise", "x", None, n, n + 3) for n in range(12)]
    noise += [op("noise", Put("x", "other", expected="never"), 60 + n, 61 + n, done(2, refused=True)) for n in range(3)]
    history = [
        *noise,
        op("a", Put("x", 1), 50, 51),
        op("b", Put("x", 2, expected=1), 52, 54, done(1)),
        get("c", "x", 1, 55, 56),
    ]
    verdict = check(history, ItemModel)
    assert isinstance(verdict, Violation)
    assert str(verdict) == (
        "no order explains these operations on x (milliseconds):\n"
        "    before: x = None\n"
        "      0.000 –      1.000  a  put x = 1  ->  …    (whatever came of it)\n"
        "      2.000 –      4.000  b  put x = 2 if 1  ->  1\n"
        "      5.000 –      6.000  c  get x  ->  1    <- nothing explains this\n"
        "    12 more ran then: whatever came of them, it does not help"
    )


def test_the_page_about_consistency_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "consistency.md").read_text()
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == printed


# ── against every order there is ─────────────────────────────────────────────────────────────────

actions = st.one_of(
    st.builds(Put, st.sampled_from("xy"), st.integers(0, 2), st.sampled_from([ANY, None, 0, 1])),
    st.builds(Delete, st.sampled_from("xy"), st.sampled_from([ANY, 0, 1])),
    st.builds(Add, st.sampled_from("xy"), st.integers(1, 2)),
    st.builds(Check, st.just("x"), st.sampled_from([None, 0, 1])),
)
calls: st.SearchStrategy[Call] = st.one_of(
    st.builds(Get, st.sampled_from([("x",), ("y",), ("x", "y")])),
    st.builds(lambda one: Change((one,)), actions),
    st.builds(lambda one, two: Change((one, two)), actions, actions).filter(lambda one: len(set(one.keys)) == 2),
)
told = st.sampled_from([ANY, ANY, None, 0, 1, 2, 3])


@st.composite
def histories(draw) -> History:
    history: History = []
    for number in range(draw(st.integers(1, 5))):
        call, began = draw(calls), draw(st.integers(0, 12))
        ended = None if draw(st.integers(0, 4)) == 0 else began + draw(st.integers(0, 8))
        result = Result(draw(st.integers(0, 3)) > 0 or isinstance(call, Get), tuple(draw(told) for _ in call.keys))
        history.append(Operation(f"c{number}", call, began, ended, result))
    return history


def is_explained(order: tuple[Operation[Call, Result], ...]) -> bool:
    if any(b.ended is not None and b.ended < a.began for a, b in combinations(order, 2)):
        return False
    model = ItemModel(("x", "y"))
    state = model.initial()
    for one in order:
        state, answer = model.step(state, one.call)
        if one.ended is not None and (one.result is None or not model.fits(answer, one.result)):
            return False
    return True


def has_an_order(history: History) -> bool:
    ended = [one for one in history if one.ended is not None]
    lost = [one for one in history if one.ended is None]
    choices = chain.from_iterable(combinations(lost, count) for count in range(len(lost) + 1))
    return any(is_explained(order) for chosen in choices for order in permutations([*ended, *chosen]))


@given(histories())
@settings(max_examples=250, deadline=None)
def test_the_search_says_what_trying_every_order_says(history: History) -> None:
    verdict = check(history, ItemModel)
    assert isinstance(verdict, Linearizable if has_an_order(history) else Violation)


@given(histories())
@settings(max_examples=60, deadline=None)
def test_what_is_named_contradicts_itself_whatever_came_of_the_others(history: History) -> None:
    verdict = check(history, ItemModel)
    if isinstance(verdict, Violation):
        others = [
            Operation(one.who, one.call, one.began)
            for one in history
            if all(one is not it for it in verdict.operations)
        ]
        assert not has_an_order([*verdict.operations, *others])
