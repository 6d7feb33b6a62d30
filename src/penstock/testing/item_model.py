"""A database of items that does one thing at a time: what linearizability.py compares DynamoDB's answers with.

An item is one value, or None where there is none. A call either reads some items at one moment (GetItem,
TransactGetItems) or changes some at one moment, if their conditions hold (PutItem, UpdateItem, DeleteItem,
TransactWriteItems). Of a change that was made, the values before it are the answer; of one that was refused, the values
that did not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from penstock.testing.linearizability import State


class Anything(Enum):
    ANY = "anything"


ANY: Final = Anything.ANY
"""As a condition: there is none. As a result: the answer did not tell."""

Value = str | int | None
Wanted = Value | Anything


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: Value
    expected: Wanted = ANY

    def __str__(self) -> str:
        return f"put {self.key} = {self.value!r}{_condition(self.expected)}"


@dataclass(frozen=True, slots=True)
class Delete:
    key: str
    expected: Wanted = ANY

    def __str__(self) -> str:
        return f"delete {self.key}{_condition(self.expected)}"


@dataclass(frozen=True, slots=True)
class Add:
    """A missing item counts as 0."""

    key: str
    amount: int
    expected: Wanted = ANY

    def __str__(self) -> str:
        return f"add {self.amount} to {self.key}{_condition(self.expected)}"


@dataclass(frozen=True, slots=True)
class Check:
    key: str
    expected: Wanted

    def __str__(self) -> str:
        return f"check {self.key}{_condition(self.expected)}"


Action = Put | Delete | Add | Check


@dataclass(frozen=True, slots=True)
class Get:
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"get {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class Change:
    actions: tuple[Action, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(action.key for action in self.actions)

    def __str__(self) -> str:
        return "; ".join(map(str, self.actions))


Call = Get | Change


@dataclass(frozen=True, slots=True)
class Result:
    """`values` are those before the call, in the order of its keys; ANY where the answer did not tell."""

    done: bool
    values: tuple[Wanted, ...]

    def __str__(self) -> str:
        told = ", ".join("…" if value is ANY else repr(value) for value in self.values)
        return told if self.done else f"refused, because of {told}"


class ItemModel:
    """The items `keys`, all missing at first."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._places = {key: place for place, key in enumerate(keys)}

    def initial(self) -> State:
        return (None,) * len(self._keys)

    def step(self, state: State, call: Call) -> tuple[State, Result]:
        assert isinstance(state, tuple)
        before = tuple(state[self._places[key]] for key in call.keys)
        if isinstance(call, Get):
            return state, Result(True, before)
        refused = [
            action.expected is not ANY and action.expected != value
            for action, value in zip(call.actions, before, strict=True)
        ]
        if any(refused):
            told = (value if bad else ANY for value, bad in zip(before, refused, strict=True))
            return state, Result(False, tuple(told))
        after = list(state)
        for action, value in zip(call.actions, before, strict=True):
            after[self._places[action.key]] = _after(action, value)
        return tuple(after), Result(True, before)

    def fits(self, answer: Result, seen: Result) -> bool:
        return answer.done == seen.done and all(
            value is ANY or value == given for given, value in zip(answer.values, seen.values, strict=True)
        )

    def is_quiet(self, call: Call, seen: Result) -> bool:
        return isinstance(call, Get) or not seen.done

    def describe(self, state: State) -> str:
        assert isinstance(state, tuple)
        return ", ".join(f"{key} = {value!r}" for key, value in zip(self._keys, state, strict=True))


def _after(action: Action, value: Value) -> Value:
    match action:
        case Put():
            return action.value
        case Delete():
            return None
        case Add():
            return int(value or 0) + action.amount
        case Check():
            return value
        case _:
            assert_never(action)


def _condition(expected: Wanted) -> str:
    return "" if expected is ANY else f" if {expected!r}"
