"""The search of linearizability.py, on the operations of one partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple

from penstock.testing.histories import C, Linearizable, Model, Operation, R, State, Undecided, Violation

WINDOW_EVENTS: Final = 48
"""How far back an explanation looks."""
MOST_BESIDE: Final = 3
EXPLAINING_STEPS: Final = 20_000
"""For each try to do without some operations: an explanation is worth a few seconds, not minutes."""


class _Standing(NamedTuple):
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
    standings: tuple[_Standing, ...]
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
        start = _Snapshot(0, (_Standing(self.model.initial(), frozenset(), frozenset()),), (), ())
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
        standings: Iterable[_Standing] = {_relaxed(one, relaxed) for one in start.standings}
        open_ = {number: None for number in start.open if number not in relaxed}
        lost = sorted({*start.lost, *(number for number in start.open if number in relaxed)})
        for position in range(start.position, stop):
            if recent is not None:
                recent.append(_Snapshot(position, tuple(standings), tuple(open_), tuple(lost)))
            number, ends = self.events[position]
            if number in relaxed or (not ends and self.operations[number].ended is None):
                if not ends:
                    lost.append(number)
            elif not ends:
                open_[number] = None
            else:
                standings = self._ended(number, standings, open_, lost)
                if not standings:
                    return position
                del open_[number]
                standings = _forgotten(standings, lost) if lost else standings
        return None

    def _ended(
        self, number: int, standings: Iterable[_Standing], open_: Iterable[int], lost: Sequence[int]
    ) -> list[_Standing]:
        """What can be once operation `number` has taken effect, the others when they had to."""
        met, found = _Met(), _Met()
        todo = [self._calmed(one, open_) for one in standings]
        while todo:
            # In the order they were met: a standing that uses fewer lost operations comes first.
            following: list[_Standing] = []
            for one in todo:
                if not met.is_new(one):
                    continue
                if number in one.done:
                    found.is_new(one._replace(done=one.done - {number}))
                    continue
                following += (self._calmed(after, open_) for after in self._steps_from(one, open_, lost))
            todo = following
        return found.minimal()

    def _steps_from(self, one: _Standing, open_: Iterable[int], lost: Sequence[int]) -> Iterator[_Standing]:
        for number in open_:
            # A quiet one that does not fit here was left by _calmed; one that fits is done.
            if number in one.done or self.quiet[number]:
                continue
            operation = self.operations[number]
            state, answer = self._step(one.state, operation.call)
            if self.model.fits(answer, operation.result):  # type: ignore[arg-type]
                yield _Standing(state, one.done | {number}, one.used)
        tried: set[C] = set()
        for number in lost:
            call = self.operations[number].call
            # Of equal calls the one that began first goes first: it could go wherever the other could.
            if number in one.used or call in tried:
                continue
            tried.add(call)
            state, _ = self._step(one.state, call)
            if state != one.state:
                yield _Standing(state, one.done, one.used | {number})

    def _calmed(self, one: _Standing, open_: Iterable[int]) -> _Standing:
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
        states = sorted({self.model.describe(one.state) for one in start.standings})
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

    def is_new(self, one: _Standing) -> bool:
        """Whether no standing was met that is as good; from now on it is met."""
        others = self._used.setdefault((one.state, one.done), [])
        if any(used <= one.used for used in others):
            return False
        others[:] = [used for used in others if not one.used <= used]
        others.append(one.used)
        return True

    def minimal(self) -> list[_Standing]:
        return [_Standing(state, done, used) for (state, done), sets in self._used.items() for used in sets]


def _relaxed(one: _Standing, relaxed: frozenset[int]) -> _Standing:
    moved = one.done & relaxed
    return _Standing(one.state, one.done - moved, one.used | moved) if moved else one


def _forgotten(standings: Iterable[_Standing], lost: list[int]) -> list[_Standing]:
    """Without the lost operations that have taken effect whatever happened: they are settled."""
    standings = list(standings)
    settled = frozenset.intersection(*(one.used for one in standings))
    if not settled:
        return standings
    lost[:] = [number for number in lost if number not in settled]
    return [one._replace(used=one.used - settled) for one in standings]
