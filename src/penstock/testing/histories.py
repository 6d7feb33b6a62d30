"""What a history of concurrent calls is, and what can be said of it (linearizability.py)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

R = TypeVar("R")
C_co = TypeVar("C_co", bound="Touching", covariant=True)
R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound="Touching")
C_contra = TypeVar("C_contra", bound="Touching", contravariant=True)
State = Hashable

MOST_STATES: Final = 4
"""That an account lists."""


class Touching(Protocol):
    """What a call must say of itself."""

    @property
    def keys(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Operation(Generic[C_co, R_co]):
    """One call of one client. Times are nanoseconds of a clock that all clients share."""

    who: str
    call: C_co
    began: int
    ended: int | None = None
    """None: nobody knows whether it took effect (1); `result` then means nothing."""
    result: R_co | None = None


class Model(Protocol[C_contra, R]):
    """A database that does one thing at a time. States are values."""

    def initial(self) -> State: ...

    def step(self, state: State, call: C_contra) -> tuple[State, R]:
        """The state afterwards, and the answer."""
        ...

    def fits(self, answer: R, seen: R) -> bool:
        """Whether a client that was given `answer` would have noted `seen`."""
        ...

    def is_quiet(self, call: C_contra, seen: R) -> bool:
        """Whether a call that had this result has changed nothing, whatever the state was."""
        ...

    def describe(self, state: State) -> str: ...


@dataclass(frozen=True)
class Linearizable:
    operations: int
    steps: int


@dataclass(frozen=True)
class Undecided:
    """The search was given up after `steps`, when `checked` of the partition's `operations` were explained."""

    keys: tuple[str, ...]
    operations: int
    checked: int
    steps: int


@dataclass(frozen=True)
class Violation(Generic[C_co, R_co]):
    """`operations` contradict each other, given that the state before them was one of `before`."""

    keys: tuple[str, ...]
    operations: tuple[Operation[C_co, R_co], ...]
    unexplained: Operation[C_co, R_co]
    before: tuple[str, ...]
    others: int
    """How many more ran then; no outcome of theirs would help."""
    beside: tuple[Operation[C_co, R_co], ...] = ()
    """The last few of these others that may have changed something."""
    steps: int = 0

    def __str__(self) -> str:
        """The account for people: who did what, when, and which answer nothing explains."""
        shown = sorted({*self.operations, *self.beside}, key=lambda one: one.began)
        start, wide = shown[0].began, max(len(one.who) for one in shown)
        lines = [f"no order explains these operations on {', '.join(self.keys)} (milliseconds):"]
        more = " or …" if len(self.before) > MOST_STATES else ""
        lines += [f"    before: {' or '.join(self.before[:MOST_STATES])}{more}"]
        for one in shown:
            until = "      never" if one.ended is None else f"{(one.ended - start) / 1e6:11.3f}"
            answer = "?" if one.ended is None else str(one.result)
            lines += [
                f"{(one.began - start) / 1e6:11.3f} –{until}  {one.who:{wide}}  "
                f"{one.call}  ->  {answer}{self._mark(one)}"
            ]
        if self.others > len(self.beside):
            lines += [f"    {self.others - len(self.beside)} more ran then: whatever came of them, it does not help"]
        return "\n".join(lines)

    def _mark(self, one: Operation[Touching, object]) -> str:
        if one is self.unexplained:
            return "    <- nothing explains this"
        return "    (whatever came of it)" if one in self.beside else ""
