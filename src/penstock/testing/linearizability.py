"""Is there an order of these operations, one at a time, that explains every answer?

A history says who called what, when the call began, when it ended, and with what result. It is linearizable if each
operation can be given one moment between its beginning and its end at which all of it took effect, so that every
result is what a single-threaded database would have given.

1. An operation that never ended (a timeout, a killed client) took effect at any moment after its beginning, or never.
   One that is known to have had no effect (a throttled write) does not belong into the history.
2. Two operations of which one ended in the nanosecond in which the other began count as concurrent.
3. Operations that touch no common key, directly or through others, are checked apart.
4. The search is exhaustive within `steps`; past them the verdict is Undecided, never a guess.
5. A Violation names operations of which nothing can be dropped: the others may have had any outcome at all, and there
   is still no order.

The search is Wing and Gong's with Lowe's memory of the configurations that were met, done at the end of each
operation: a configuration is what the state can be, and which open operations it contains.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

__all__ = ["Linearizable", "Operation", "Undecided", "Verdict", "Violation", "check", "partitions"]

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


WINDOW_EVENTS: Final = 48
"""How far back an explanation looks."""
MOST_BESIDE: Final = 3
EXPLAINING_STEPS: Final = 20_000
"""For each try to do without some operations: an explanation is worth a few seconds, not minutes."""


class _Configuration(NamedTuple):
    """The state as it can be, and which open operations it contains: those that will end, and those that never did."""

    state: State
    done: frozenset[int]
    used: frozenset[int]


class _Event(NamedTuple):
    number: int
    """Of the operation."""
    ends: bool


class _Snapshot(NamedTuple):
    """How things stood before an event."""

    position: int
    configurations: tuple[_Configuration, ...]
    open: tuple[int, ...]
    lost: tuple[int, ...]


class _OutOfSteps(Exception):
    pass


@dataclass
class Search(Generic[C, R]):
    keys: tuple[str, ...]
    operations: Sequence[Operation[C, R]]
    model: Model[C, R]
    limit: int
    steps: int = 0
    events: list[_Event] = field(default_factory=list)
    quiet: list[bool] = field(default_factory=list)
    recent: deque[_Snapshot] = field(default_factory=lambda: deque(maxlen=WINDOW_EVENTS))

    def verdict(self) -> Linearizable | Undecided | Violation[C, R]:
        times = [(one.began, False, number) for number, one in enumerate(self.operations)]
        times += [(one.ended, True, number) for number, one in enumerate(self.operations) if one.ended is not None]
        self.events = [_Event(number, ends) for _, ends, number in sorted(times)]  # beginnings first (2)
        self.quiet = [
            one.ended is not None and self.model.is_quiet(one.call, one.result)  # type: ignore[arg-type]
            for one in self.operations
        ]
        start = _Snapshot(0, (_Configuration(self.model.initial(), frozenset(), frozenset()),), (), ())
        try:
            failed = self._walk(start, len(self.events), frozenset(), self.recent)
        except _OutOfSteps:
            checked = sum(event.ends for event in self.events[: self.recent[-1].position])
            return Undecided(self.keys, len(self.operations), checked, self.steps)
        if failed is None:
            return Linearizable(len(self.operations), self.steps)
        return self._explained(failed)

    def _walk(
        self, start: _Snapshot, stop: int, relaxed: frozenset[int], recent: deque[_Snapshot] | None = None
    ) -> int | None:
        """The position of the first end before `stop` that nothing explains. Nothing is expected of `relaxed` ones."""
        configurations: Iterable[_Configuration] = {_relaxed(one, relaxed) for one in start.configurations}
        open_ = {number: None for number in start.open if number not in relaxed}
        lost = sorted({*start.lost, *(number for number in start.open if number in relaxed)})
        for position in range(start.position, stop):
            if recent is not None:
                recent.append(_Snapshot(position, tuple(configurations), tuple(open_), tuple(lost)))
            number, ends = self.events[position]
            if number in relaxed or (not ends and self.operations[number].ended is None):
                if not ends:
                    lost.append(number)
            elif not ends:
                open_[number] = None
            else:
                configurations = self._ended(number, configurations, open_, lost)
                if not configurations:
                    return position
                del open_[number]
                configurations = _forgotten(configurations, lost) if lost else configurations
        return None

    def _ended(
        self, number: int, configurations: Iterable[_Configuration], open_: Iterable[int], lost: Sequence[int]
    ) -> list[_Configuration]:
        """What can be once operation `number` has taken effect, the others when they had to."""
        met, found = _Met(), _Met()
        todo = [self._calmed(one, open_) for one in configurations]
        while todo:
            # In the order they were met: a configuration that uses fewer lost operations comes first.
            following: list[_Configuration] = []
            for one in todo:
                if not met.is_new(one):
                    continue
                if number in one.done:
                    found.is_new(one._replace(done=one.done - {number}))
                    continue
                following += (self._calmed(after, open_) for after in self._steps_from(one, open_, lost))
            todo = following
        return found.minimal()

    def _steps_from(self, one: _Configuration, open_: Iterable[int], lost: Sequence[int]) -> Iterator[_Configuration]:
        for number in open_:
            # A quiet one that does not fit here was left by _calmed; one that fits is done.
            if number in one.done or self.quiet[number]:
                continue
            operation = self.operations[number]
            state, answer = self._step(one.state, operation.call)
            if self.model.fits(answer, operation.result):  # type: ignore[arg-type]
                yield _Configuration(state, one.done | {number}, one.used)
        tried: set[C] = set()
        for number in lost:
            call = self.operations[number].call
            # Of equal calls the one that began first goes first: it could go wherever the other could.
            if number in one.used or call in tried:
                continue
            tried.add(call)
            state, _ = self._step(one.state, call)
            if state != one.state:
                yield _Configuration(state, one.done, one.used | {number})

    def _calmed(self, one: _Configuration, open_: Iterable[int]) -> _Configuration:
        """With every open operation that changes nothing and fits: that it is done takes no freedom away."""
        for number in open_:
            if self.quiet[number] and number not in one.done:
                operation = self.operations[number]
                _, answer = self._step(one.state, operation.call)
                if self.model.fits(answer, operation.result):  # type: ignore[arg-type]
                    one = one._replace(done=one.done | {number})
        return one

    def _step(self, state: State, call: C) -> tuple[State, R]:
        self.steps += 1
        if self.steps > self.limit:
            raise _OutOfSteps
        return self.model.step(state, call)

    # ── explaining ───────────────────────────────────────────────────────────────────────────────

    def _explained(self, failed: int) -> Violation[C, R]:
        """The violation with as few operations as contradict each other (5)."""
        start = self.recent[0]
        culprit = self.events[failed].number
        within = {event.number for event in self.events[start.position : failed]} | {*start.open, culprit}
        exact = sorted(number for number in within if self.operations[number].ended is not None)
        relaxed = self._relaxed_as_far_as_fails(start, failed, [one for one in exact if one != culprit])
        kept = sorted((one for one in exact if one not in relaxed), key=lambda one: self.operations[one].began)
        changing = sorted(one for one in relaxed if not self.quiet[one])
        states = sorted({self.model.describe(one.state) for one in start.configurations})
        return Violation(
            keys=self.keys,
            operations=tuple(self.operations[one] for one in kept),
            unexplained=self.operations[culprit],
            before=tuple(states),
            others=len(relaxed),
            beside=tuple(self.operations[one] for one in changing[-MOST_BESIDE:]),
            steps=self.steps,
        )

    def _relaxed_as_far_as_fails(self, start: _Snapshot, failed: int, candidates: list[int]) -> frozenset[int]:
        relaxed: frozenset[int] = frozenset()
        size = max(1, len(candidates) // 2)
        while True:
            left = [one for one in candidates if one not in relaxed]
            for chunk in (left[at : at + size] for at in range(0, len(left), size)):
                self.limit = self.steps + EXPLAINING_STEPS
                with suppress(_OutOfSteps):
                    if self._walk(start, failed + 1, relaxed.union(chunk)) is not None:
                        relaxed = relaxed.union(chunk)
            if size == 1:
                return relaxed
            size = max(1, size // 2)


class _Met:
    """Standings, without those that another one is as good as: the same, with fewer lost operations used."""

    def __init__(self) -> None:
        self._used: dict[tuple[State, frozenset[int]], list[frozenset[int]]] = {}

    def is_new(self, one: _Configuration) -> bool:
        """Whether no configuration was met that is as good; from now on it is met."""
        others = self._used.setdefault((one.state, one.done), [])
        if any(used <= one.used for used in others):
            return False
        others[:] = [used for used in others if not one.used <= used]
        others.append(one.used)
        return True

    def minimal(self) -> list[_Configuration]:
        return [_Configuration(state, done, used) for (state, done), sets in self._used.items() for used in sets]


def _relaxed(one: _Configuration, relaxed: frozenset[int]) -> _Configuration:
    moved = one.done & relaxed
    return _Configuration(one.state, one.done - moved, one.used | moved) if moved else one


def _forgotten(configurations: Iterable[_Configuration], lost: list[int]) -> list[_Configuration]:
    """Without the lost operations that have taken effect whatever happened: they are settled."""
    configurations = list(configurations)
    settled = frozenset.intersection(*(one.used for one in configurations))
    if not settled:
        return configurations
    lost[:] = [number for number in lost if number not in settled]
    return [one._replace(used=one.used - settled) for one in configurations]


DEFAULT_STEPS: Final = 20_000_000

Verdict = Linearizable | Undecided | Violation[Any, Any]


def check(
    history: Iterable[Operation[C, R]],
    model: Callable[[tuple[str, ...]], Model[C, R]],
    *,
    steps: int = DEFAULT_STEPS,
) -> Verdict:
    """Linearizable, or the first Violation that is found, or else Undecided. `steps` are for the whole history."""
    undecided: Undecided | None = None
    operations, spent = 0, 0
    for keys, part in partitions(history):
        verdict = Search(keys, part, model(keys), steps - spent).verdict()
        match verdict:
            case Violation():
                return verdict
            case Undecided():
                undecided = undecided or verdict
        operations += len(part)
        spent += verdict.steps
    return undecided or Linearizable(operations, spent)


def partitions(history: Iterable[Operation[C, R]]) -> Iterator[tuple[tuple[str, ...], list[Operation[C, R]]]]:
    """The history apart (3), each part with its keys, in the order of their first operation."""
    history = sorted(history, key=lambda one: one.began)
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]
        return key

    for one in history:
        first, *rest = one.call.keys
        for key in rest:
            leader[find(key)] = find(first)
        find(first)
    parts: dict[str, list[Operation[C, R]]] = defaultdict(list)
    for one in history:
        parts[find(one.call.keys[0])].append(one)
    for part in parts.values():
        yield tuple(sorted({key for one in part for key in one.call.keys})), part
