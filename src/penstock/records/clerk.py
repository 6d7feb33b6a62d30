"""A clerk who claims and marks for all workers, as much as there is in one commit; they only run the function.

The embedded database writes one commit at a time, and the pages that a thread has read are stale after another's
commit: one thread that writes for eight costs half of what eight do. So that nobody waits for it, records are claimed
a moment ahead; and while there are such records, what has ended waits for company.
"""

from __future__ import annotations

import queue
import time
from typing import Any, Final

from penstock.records.answers import Claim, ClaimAnswer, MarkAnswer, Written
from penstock.records.attempts import Ended
from penstock.records.executors import Overran
from penstock.records.outcomes import End
from penstock.records.schedule import Task
from penstock.records.shift import Running, Shift
from penstock.records.steps import Steps, drive_together

_AHEAD_SECONDS: Final = 0.04
"""Work that is claimed ahead of the workers, at the least. Long functions have none."""

_WRITES_AHEAD: Final = 3
"""As many of the clerk's own writes are covered by it: they take long where other processes write too."""

_MOST_AHEAD: Final = 64  # twice the workers where they are more
_GATHERED: Final = 8  # ends that wait for company; as many as there are workers where these are more
_WEIGHT: Final = 1 / 16  # of the last one among the usual times

AttemptEnd = tuple[Running, End | BaseException]


class Clerk:
    """`keep_books` is the clerk's thread, each `work` a worker's."""

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self._schedule = shift.schedule
        self._db = shift.store.source.db
        self._claimed: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._usual_seconds: float | None = None  # of a function
        self._usual_write = 0.0

    # ── a worker ─────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        while (running := self._claimed.get()) is not None:
            end = self._shift.end_of(running)
            running.ended_at = time.monotonic()
            if not self._shift.take_out(running):
                return  # written off: another thread has this one's place
            self._schedule.report((running, end))
        self._shift.gone()

    def overran(self, running: Running) -> None:
        """A worker that hangs: its record has been taken out of hand."""
        self._schedule.report((running, Overran()))

    # ── the clerk ────────────────────────────────────────────────────────────────────────────────

    def keep_books(self) -> None:
        in_hand, workers = 0, self._shift.rules.max_workers
        while True:
            seconds = max(_AHEAD_SECONDS, _WRITES_AHEAD * self._usual_write)
            ahead = self._ahead(workers, seconds)
            # No more than that: while the clerk is at it, workers that wake up wait for the interpreter.
            gather = min(max(ahead // 2, 1), max(workers, _GATHERED)) if in_hand >= workers + ahead // 2 else 1
            batch = self._schedule.batch(workers + ahead - in_hand, in_hand, gather, linger=seconds / 3)
            if batch is None:
                break
            ends, tasks = batch
            in_hand -= len(ends)
            began = time.monotonic()
            try:
                in_hand += self._write(ends, tasks)
            except BaseException as error:
                self._shift.trouble(None, error)
                self._schedule.ended(len(ends) + len(tasks))
            self._usual_write += (time.monotonic() - began - self._usual_write) * _WEIGHT
        for _ in range(workers):
            self._claimed.put(None)

    def _ahead(self, workers: int, seconds: float) -> int:
        """How many records are claimed beyond those that run: as much as the workers do in so many seconds."""
        if self._usual_seconds is None:
            return 0
        return int(min(workers * seconds / max(self._usual_seconds, 1e-6), max(_MOST_AHEAD, 2 * workers)))

    def _write(self, ends: list[AttemptEnd], tasks: list[Task]) -> int:
        """What ended and what is next, in one commit; how many were claimed."""
        shift, conversations = self._shift, list[Steps[MarkAnswer | ClaimAnswer]]()
        good = [(running, end) for running, end in ends if isinstance(end, Ended) and end.failure is None]
        looked = [one for task in tasks if (one := shift.looked(task)) is not None]
        conversations += [self._marking(running.claim, end) for running, end in good]
        conversations += [shift.store.claiming(task.found) for task in looked]
        answers: list[Any] = drive_together(conversations, self._db)
        claims = self._claims(looked, answers[len(good) :])
        self._marked(good, answers)
        for running, end in ends:
            if not isinstance(end, Ended) or end.failure is not None:
                shift.safely(None, shift.settle, running.claim, end)
        self._schedule.ended(len(ends) + len(tasks) - claims)
        return claims

    def _marking(self, claim: Claim, end: Ended) -> Steps[MarkAnswer | ClaimAnswer]:
        self._shift.outcomes.check_result(end.result)
        return (yield from self._shift.store.marking(claim, end.result))

    def _claims(self, tasks: list[Task], answers: list[Any]) -> int:
        """Gives the workers what was claimed; how many these are."""
        shift = self._shift
        claims = shift.take_in([answer for answer in answers if isinstance(answer, Claim)])
        for running in claims:
            self._claimed.put(running)
        if len(claims) < len(answers):
            for task, answer in zip(tasks, answers, strict=True):
                if isinstance(answer, Exception):
                    shift.trouble(task, answer)
                elif not isinstance(answer, Claim):
                    shift.safely(task, shift.outcomes.not_claimed, task, answer)
        return len(claims)

    def _marked(self, good: list[tuple[Running, Ended]], answers: list[Any]) -> None:
        for (running, _), answer in zip(good, answers, strict=False):
            self._took(running.ended_at - running.began_at)
            if not isinstance(answer, Written):
                self._shift.safely(None, self._shift.outcomes.marked, running.claim, answer)
        self._shift.outcomes.count("processed", sum(isinstance(one, Written) for one in answers))

    def _took(self, seconds: float) -> None:
        usual = self._usual_seconds
        self._usual_seconds = seconds if usual is None else usual + (seconds - usual) * _WEIGHT
