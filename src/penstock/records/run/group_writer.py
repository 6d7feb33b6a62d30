"""A clerk who claims and marks for all workers, as much as there is in one commit; they only run the function.

The embedded database writes one commit at a time, and the pages that a thread has read are stale after another's
commit: one thread that writes for eight costs half of what eight do. So that nobody waits for it, records are claimed
a moment ahead; and while there are such records, what has ended waits for company.

Functions that compute keep the clerk from the interpreter, also in the middle of a transaction (interpreter.py). Where
they do, it takes back what no worker has begun, writes when those that run have finished, and hands it out again.
"""

from __future__ import annotations

import contextlib
import queue
import time
from typing import Any, Final

from penstock.records.executors.attempts import Ended
from penstock.records.executors.executors import Overran
from penstock.records.executors.interpreter import Interpreter
from penstock.records.run.outcomes import End
from penstock.records.run.run_context import Running, Shift
from penstock.records.run.schedule import Task
from penstock.records.state.answers import Claim, ClaimAnswer, MarkAnswer, Written
from penstock.records.state.steps import Steps, drive_together

_AHEAD_SECONDS: Final = 0.04
"""Work that is claimed ahead of the workers, at the least. Long functions have none."""

_AHEAD_CROWDED_SECONDS: Final = 0.3
"""The same where functions compute: all of them finish before a write (interpreter.py), so writes are few."""

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
        self._interpreter = Interpreter()

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
            crowded = self._interpreter.is_crowded()
            batch = self._batch(in_hand, workers, crowded=crowded)
            if batch is None:
                break
            ends, tasks = batch
            withheld: list[Running | None] = []
            if crowded:
                withheld = self._not_begun()
                self._let_finish(in_hand - len(ends) - len(withheld), ends, tasks)
            in_hand -= len(ends)
            began = time.monotonic()
            try:
                in_hand += self._write(ends, tasks, withheld)
            except BaseException as error:
                self._shift.trouble(None, error)
                self._schedule.ended(len(ends) + len(tasks))
            self._usual_write += (time.monotonic() - began - self._usual_write) * _WEIGHT
        for _ in range(workers):
            self._claimed.put(None)

    def _batch(self, in_hand: int, workers: int, *, crowded: bool) -> tuple[list[AttemptEnd], list[Task]] | None:
        seconds = max(_AHEAD_CROWDED_SECONDS if crowded else _AHEAD_SECONDS, _WRITES_AHEAD * self._usual_write)
        ahead = self._ahead(workers, seconds)
        room, few = workers + ahead - in_hand, in_hand < workers + ahead // 2
        if crowded:
            gather = max(min(ahead // 2, in_hand), 1)
            return self._schedule.batch(room, in_hand, gather, linger=seconds / 2, hungry=few)
        # No more than that: while the clerk is at it, workers that wake up wait for the interpreter.
        gather = 1 if few else min(max(ahead // 2, 1), max(workers, _GATHERED))
        return self._schedule.batch(room, in_hand, gather, linger=seconds / 3)

    def _not_begun(self) -> list[Running | None]:
        """What no worker has begun: it is taken back."""
        taken: list[Running | None] = []
        with contextlib.suppress(queue.Empty):
            while True:
                taken.append(self._claimed.get_nowait())
        return taken

    def _let_finish(self, number: int, ends: list[AttemptEnd], tasks: list[Task]) -> None:
        """Waits for those that run; they, and what is to be claimed in their places, come to the others."""
        wanted = len(ends) + number

        def finished(seconds: float) -> bool:
            more_ends, more_tasks = self._schedule.more(wanted - len(ends), seconds)
            ends.extend(more_ends)
            tasks.extend(more_tasks)
            return len(ends) >= wanted or self._schedule.stopping

        self._interpreter.let_finish(self._usual_seconds or 0.0, finished)

    def _ahead(self, workers: int, seconds: float) -> int:
        """How many records are claimed beyond those that run: as much as the workers do in so many seconds."""
        if self._usual_seconds is None:
            return 0
        return int(min(workers * seconds / max(self._usual_seconds, 1e-6), max(_MOST_AHEAD, 2 * workers)))

    def _write(self, ends: list[AttemptEnd], tasks: list[Task], withheld: list[Running | None]) -> int:
        """What ended and what is next, in one commit; how many were claimed. Then `withheld` is handed out again."""
        shift = self._shift
        good = [(running, end) for running, end in ends if isinstance(end, Ended) and end.failure is None]
        try:
            looked = [one for task in tasks if (one := shift.looked(task)) is not None]
            answers = self._answers(good, looked)
        finally:
            for begun_later in withheld:
                self._claimed.put(begun_later)
        claims = self._claims(looked, answers[len(good) :])
        self._marked(good, answers)
        for running, end in ends:
            if not isinstance(end, Ended) or end.failure is not None:
                shift.safely(None, shift.settle, running.claim, end)
        self._schedule.ended(len(ends) + len(tasks) - claims)
        return claims

    def _answers(self, good: list[tuple[Running, Ended]], tasks: list[Task]) -> list[Any]:
        conversations = list[Steps[MarkAnswer | ClaimAnswer]]()
        conversations += [self._marking(running.claim, end) for running, end in good]
        conversations += [self._shift.store.claiming(task.found) for task in tasks]
        return drive_together(conversations, self._db)

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
