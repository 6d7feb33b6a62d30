"""The threads that run the function: DirectWorkers claim and mark by themselves, those of a GroupWriter only run it.

A remote database takes many requests at once: there each worker writes for itself. The embedded one writes one commit
at a time, and the pages that a thread has read are stale after another's commit: one thread that writes for eight costs
half of what eight do. So there a GroupWriter claims and marks for all, as much as there is in one commit. So that
nobody waits for it, records are claimed a moment ahead; and while there are such records, what has ended waits for
company.

Python's interpreter is one thread's at a time. A thread that computes gives it away after a switch interval (5 ms), to
any of those who wait; one that writes asks for it anew after each SQL statement: beside eight threads that computed, a
transaction of 6 ms took 80, with the file's lock in its hands, for which other processes waited. So where functions
compute, the group writer takes back what no worker has begun, writes when those that run have finished, and hands it
out again:

1. It does so only where it has been kept waiting for the interpreter: where functions sleep, or compute outside of it,
   nobody waits for them. A wait in which this process did not compute was for a core: other processes keep the machine
   busy, and no function is to blame.
2. It waits only while this process computes, and no longer than functions usually take: no core is idle for it.
3. Where it waited in vain, because nothing computed, it does not wait again for a while.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from penstock.records.executors import Ended, Overran
from penstock.records.record_state import Claim, ClaimAnswer, MarkAnswer, Written
from penstock.records.run.run_context import End, RunContext, Running
from penstock.records.run.schedule import QueuedRecord
from penstock.records.store import Steps, drive_together


class DirectWorkers:
    """Each `work` is one of them, in a thread of its own."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._schedule = context.schedule

    def work(self) -> None:
        while (task := self._schedule.take()) is not None:
            mine = True
            try:
                mine = self._handle(task)
            except BaseException as error:
                self._context.handle_error(task, error)
            if not mine:
                return  # written off: another thread has this one's place
            self._schedule.tasks_done()
        self._context.worker_left()

    def _handle(self, task: QueuedRecord) -> bool:
        """Looks at a record, and runs it if it may be. False if this thread was written off meanwhile."""
        context = self._context
        reread = context.reread(task)
        if reread is None:
            return True
        answer = context.store.claim(reread.candidate)
        if not isinstance(answer, Claim):
            context.outcomes.on_not_claimed(reread, answer)
            return True
        (running,) = context.take_in([answer])
        end = context.end_of(running)
        if not context.take_out(running):
            return False
        context.settle(running.claim, end)
        return True

    def on_overrun(self, running: Running) -> None:
        """One that hangs has been taken out of hand."""
        self._context.safely(None, self._context.outcomes.on_overrun, running.claim)
        self._schedule.tasks_done()


_LOOK_SECONDS: Final = 0.05
"""How often the group writer looks whether it is kept waiting."""

_SLEEP_SECONDS: Final = 0.0001
_WAIT_WEIGHT: Final = 1 / 4  # of the last one among the usual waits
_STEP_SECONDS: Final = 0.02
_COMPUTES: Final = 0.25
"""The part of a core that is computing: of four processes on two cores, each has a half."""

_LONGEST_SECONDS: Final = 0.5
_REST_SECONDS: Final = 2.0


class Interpreter:
    """As one thread, a group writer's, finds it. `now` and `used` tell the time, and the CPU time of the process."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now = now
        self._used = used
        self._sleep = sleep
        self._usual_wait = 0.0
        self._next_look = 0.0
        self._rests_until = 0.0

    def is_crowded(self) -> bool:
        """Whether it is worth while to let functions finish (1, 3)."""
        now = self._now()
        if now >= self._next_look:
            self._look(now)
        return self._usual_wait >= sys.getswitchinterval() / 2 and now >= self._rests_until

    def _look(self, now: float) -> None:
        """Gives the interpreter away, and sees when it is back."""
        used = self._used()
        self._sleep(_SLEEP_SECONDS)
        back = self._now()
        waited = back - now if self._used() - used >= (back - now) * _COMPUTES else 0.0  # (1)
        self._usual_wait += (waited - self._usual_wait) * _WAIT_WEIGHT
        self._next_look = back + _LOOK_SECONDS

    def let_finish(self, usual_seconds: float, finished: Callable[[float], bool]) -> None:
        """Waits for functions (2). `finished` waits for them, so many seconds at most, and says whether they are."""
        end = self._now() + min(2 * usual_seconds, _LONGEST_SECONDS)
        while (began := self._now()) < end:
            used = self._used()
            if finished(_STEP_SECONDS):
                return
            if self._used() - used < (self._now() - began) * _COMPUTES:
                self._rests_until = self._now() + _REST_SECONDS  # (3)
                return


_AHEAD_SECONDS: Final = 0.04
"""Work that is claimed ahead of the workers, at the least. Long functions have none."""

_AHEAD_CROWDED_SECONDS: Final = 0.3
"""The same where functions compute: all of them finish before a write (workers.py), so writes are few."""

_WRITES_AHEAD: Final = 3
"""As many of the group writer's own are covered by it: they take long where other processes write too."""

_MOST_AHEAD: Final = 64  # twice the workers where they are more
_GATHERED: Final = 8  # ends that wait for company; as many as there are workers where these are more
_WEIGHT: Final = 1 / 16  # of the last one among the usual times

AttemptEnd = tuple[Running, End | BaseException]


class GroupWriter:
    """Claims and marks for all workers: `write_groups` is its own thread, each `work` a worker's."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._schedule = context.schedule
        self._db = context.store.source.db
        self._claimed: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._usual_seconds: float | None = None  # of a function
        self._usual_write = 0.0
        self._interpreter = Interpreter()

    # ── a worker ─────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        while (running := self._claimed.get()) is not None:
            end = self._context.end_of(running)
            running.ended_at = time.monotonic()
            if not self._context.take_out(running):
                return  # written off: another thread has this one's place
            self._schedule.report((running, end))
        self._context.worker_left()

    def on_overrun(self, running: Running) -> None:
        """A worker that hangs: its record has been taken out of hand."""
        self._schedule.report((running, Overran()))

    # ── the writer ───────────────────────────────────────────────────────────────────────────────

    def write_groups(self) -> None:
        in_hand, workers = 0, self._context.rules.max_workers
        while True:
            crowded = self._interpreter.is_crowded()
            batch = self._batch(in_hand, workers, crowded=crowded)
            if batch is None:
                break
            ends, tasks = batch
            withheld: list[Running | None] = []
            if crowded:
                withheld = self._take_back()
                self._let_finish(in_hand - len(ends) - len(withheld), ends, tasks)
            in_hand -= len(ends)
            began = time.monotonic()
            try:
                in_hand += self._write(ends, tasks, withheld)
            except BaseException as error:
                self._context.handle_error(None, error)
                self._schedule.tasks_done(len(ends) + len(tasks))
            self._usual_write += (time.monotonic() - began - self._usual_write) * _WEIGHT
        for _ in range(workers):
            self._claimed.put(None)

    def _batch(
        self, in_hand: int, workers: int, *, crowded: bool
    ) -> tuple[list[AttemptEnd], list[QueuedRecord]] | None:
        seconds = max(_AHEAD_CROWDED_SECONDS if crowded else _AHEAD_SECONDS, _WRITES_AHEAD * self._usual_write)
        ahead = self._ahead(workers, seconds)
        room, few = workers + ahead - in_hand, in_hand < workers + ahead // 2
        if crowded:
            gather = max(min(ahead // 2, in_hand), 1)
            return self._schedule.batch(room, in_hand, gather, linger=seconds / 2, hungry=few)
        # No more than that: while the group writer is at it, workers that wake up wait for the interpreter.
        gather = 1 if few else min(max(ahead // 2, 1), max(workers, _GATHERED))
        return self._schedule.batch(room, in_hand, gather, linger=seconds / 3)

    def _take_back(self) -> list[Running | None]:
        """What no worker has begun: it is taken back."""
        taken: list[Running | None] = []
        with contextlib.suppress(queue.Empty):
            while True:
                taken.append(self._claimed.get_nowait())
        return taken

    def _let_finish(self, number: int, ends: list[AttemptEnd], tasks: list[QueuedRecord]) -> None:
        """Waits for those that run; they, and what is to be claimed in their places, come to the others."""
        wanted = len(ends) + number

        def finished(seconds: float) -> bool:
            more_ends, more_tasks = self._schedule.gather_more(wanted - len(ends), seconds)
            ends.extend(more_ends)
            tasks.extend(more_tasks)
            return len(ends) >= wanted or self._schedule.stopping

        self._interpreter.let_finish(self._usual_seconds or 0.0, finished)

    def _ahead(self, workers: int, seconds: float) -> int:
        """How many records are claimed beyond those that run: as much as the workers do in so many seconds."""
        if self._usual_seconds is None:
            return 0
        return int(min(workers * seconds / max(self._usual_seconds, 1e-6), max(_MOST_AHEAD, 2 * workers)))

    def _write(self, ends: list[AttemptEnd], tasks: list[QueuedRecord], withheld: list[Running | None]) -> int:
        """What ended and what is next, in one commit; how many were claimed. Then `withheld` is handed out again."""
        context = self._context
        good = [(running, end) for running, end in ends if isinstance(end, Ended) and end.failure is None]
        try:
            reread = [one for task in tasks if (one := context.reread(task)) is not None]
            answers = self._answers(good, reread)
        finally:
            for begun_later in withheld:
                self._claimed.put(begun_later)
        claims = self._claims(reread, answers[len(good) :])
        self._on_marked(good, answers)
        for running, end in ends:
            if not isinstance(end, Ended) or end.failure is not None:
                context.safely(None, context.settle, running.claim, end)
        self._schedule.tasks_done(len(ends) + len(tasks) - claims)
        return claims

    def _answers(self, good: list[tuple[Running, Ended]], tasks: list[QueuedRecord]) -> list[Any]:
        conversations = list[Steps[MarkAnswer | ClaimAnswer]]()
        conversations += [self._mark_steps(running.claim, end) for running, end in good]
        conversations += [self._context.store.claim_steps(task.candidate) for task in tasks]
        return drive_together(conversations, self._db)

    def _mark_steps(self, claim: Claim, end: Ended) -> Steps[MarkAnswer | ClaimAnswer]:
        self._context.outcomes.check_result(end.result)
        return (yield from self._context.store.mark_steps(claim, end.result))

    def _claims(self, tasks: list[QueuedRecord], answers: list[Any]) -> int:
        """Gives the workers what was claimed; how many these are."""
        context = self._context
        claims = context.take_in([answer for answer in answers if isinstance(answer, Claim)])
        for running in claims:
            self._claimed.put(running)
        if len(claims) < len(answers):
            for task, answer in zip(tasks, answers, strict=True):
                if isinstance(answer, Exception):
                    context.handle_error(task, answer)
                elif not isinstance(answer, Claim):
                    context.safely(task, context.outcomes.on_not_claimed, task, answer)
        return len(claims)

    def _on_marked(self, good: list[tuple[Running, Ended]], answers: list[Any]) -> None:
        for (running, _), answer in zip(good, answers, strict=False):
            self._learn_duration(running.ended_at - running.began_at)
            if not isinstance(answer, Written):
                self._context.safely(None, self._context.outcomes.on_marked, running.claim, answer)
        self._context.outcomes.count("processed", sum(isinstance(one, Written) for one in answers))

    def _learn_duration(self, seconds: float) -> None:
        usual = self._usual_seconds
        self._usual_seconds = seconds if usual is None else usual + (seconds - usual) * _WEIGHT
