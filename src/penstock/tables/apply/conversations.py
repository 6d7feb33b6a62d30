"""Conversations with the database, run side by side in one thread.

1. A conversation is a generator: it asks (`Request`) and is sent the answer, or the error is thrown into it; it pauses
   (`Pause`); it tells how far it is (anything else), and that is reported. It does no I/O and never sleeps.
2. `run_together` does both: the asks of one round go out side by side, and it sleeps only when every conversation
   pauses, until the first of them wants to go on.
3. Ctrl-C, wherever it arrives, leaves at once: nothing is waited for but the calls in flight.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError
from penstock.tables.apply.requests import Json, Request

T = TypeVar("T")

SIDE_BY_SIDE = 10
"""Tables worked on at once: AWS lets 50 to 500 be in motion, and throttles a burst of control-plane calls."""

FIRST_POLL_SECONDS = 0.1
LONGEST_POLL_SECONDS = 5.0
POLL_GROWTH = 1.2
"""So that a wait is noticed to be over after at most a fifth of it more."""

MAX_WAIT_SECONDS = 3_600.0
"""How long one run waits for what is under way; it goes on without us, and the next run joins it."""


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Steps = Generator[Any, Json, T]
"""A conversation that ends with a T."""

Report = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and chance, passed in; and how much is done at once."""

    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    max_wait_seconds: float = MAX_WAIT_SECONDS
    side_by_side: int = SIDE_BY_SIDE
    waits_for_others: bool = True
    """Whether a run waits for what it has not begun itself; for its own changes it always does."""


def poll_seconds(attempt: int) -> float:
    """How long to wait before the look after this one, counted from 0: short at first, then ever longer."""
    # The cap is reached before attempt 40; the power of a large one would overflow.
    return min(LONGEST_POLL_SECONDS, FIRST_POLL_SECONDS * POLL_GROWTH ** min(attempt, 40))


def run_together(db: Database, conversations: Iterable[Steps[Any]], pace: Pace, report: Report) -> None:
    """Runs each conversation to its end, `pace.side_by_side` of them at a time.

    An error that a conversation does not catch ends the run.
    """
    with ThreadPoolExecutor(pace.side_by_side, thread_name_prefix="penstock-tables") as pool:
        _Runner(db, pace, report, pool).run(deque(conversations))


class _Conversation:
    """A conversation that is under way: when it may go on, and what it has asked."""

    __slots__ = ("ask", "due_at", "steps")

    def __init__(self, steps: Steps[Any]) -> None:
        self.steps = steps
        self.due_at = float("-inf")
        self.ask: Request | None = None


class _Runner:
    def __init__(self, db: Database, pace: Pace, report: Report, pool: ThreadPoolExecutor) -> None:
        self._db, self._pace, self._report, self._pool = db, pace, report, pool

    def run(self, queue: deque[Steps[Any]]) -> None:
        running: list[_Conversation] = []
        while queue or running:
            while queue and len(running) < self._pace.side_by_side:
                running.append(_Conversation(queue.popleft()))
            now = self._pace.clock.now()
            due = [one for one in running if one.due_at <= now]
            if not due:
                self._pace.sleep(min(one.due_at for one in running) - now)
                continue
            ended = self._round(due)
            running = [one for one in running if one not in ended]

    def _round(self, due: list[_Conversation]) -> list[_Conversation]:
        """One ask of each conversation that has one, all at once; gives those that have ended."""
        asking = [one for one in due if one.ask is not None]
        # One alone needs no thread, and an embedded database is asked in this one.
        answers = map(self._answer, asking) if len(asking) == 1 else self._pool.map(self._answer, asking)
        ended = [one for one in due if one.ask is None and not self._advance(one, None)]
        return ended + [one for one, answer in zip(asking, answers, strict=True) if not self._advance(one, answer)]

    def _answer(self, one: _Conversation) -> Json | PenstockError:
        assert one.ask is not None
        try:
            return self._db.execute(one.ask.operation, dict(one.ask.body))
        except PenstockError as error:
            return error

    def _advance(self, one: _Conversation, answer: Json | PenstockError | None) -> bool:
        """Takes a conversation to its next ask or pause; false if it has ended."""
        one.ask = None
        try:
            step = one.steps.throw(answer) if isinstance(answer, PenstockError) else _send(one.steps, answer)
            while not isinstance(step, Request | Pause):
                self._report(step)
                step = next(one.steps)
        except StopIteration:
            return False
        if isinstance(step, Request):
            one.ask = step
        else:
            one.due_at = self._pace.clock.now() + step.seconds
        return True


def _send(steps: Steps[Any], answer: Json | None) -> Any:
    return next(steps) if answer is None else steps.send(answer)
