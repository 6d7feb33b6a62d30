"""Functions that compute, and the group writer: when it lets them finish, and that nobody else waits for it.

The numbers are the invariants of records/run/workers.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from record_worlds import filled, processed, processor

from penstock.client.database import Database
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.clock import ManualClock
from penstock.records.run import workers
from penstock.records.run.schedule import RecordQueue
from penstock.records.run.workers import Interpreter
from penstock.records.source import Candidate

LONG = 60.0  # nothing here takes so long


class Machine:
    """A clock, the CPU time of a process, and for how long another thread has the interpreter, or others the cores."""

    def __init__(self) -> None:
        self.now = 100.0
        self.used = 0.0
        self.kept = 0.0
        self.core_kept = 0.0
        self.interpreter = Interpreter(lambda: self.now, lambda: self.used, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self.kept + self.core_kept
        self.used += self.kept

    def crowd(self) -> None:
        self.kept = 0.02
        while not self.interpreter.is_crowded():
            self.now += 1.0

    def steps_until_finished(self, usual_seconds: float, *, computes: float, steps: int = 1_000) -> int:
        """How many steps it waits for functions that take so many, and use this part of a core."""
        waited = 0

        def finished(seconds: float) -> bool:
            nonlocal waited
            waited += 1
            self.now += seconds
            self.used += seconds * computes
            return waited >= steps

        self.interpreter.let_finish(usual_seconds, finished)
        return waited


@pytest.fixture
def machine() -> Machine:
    return Machine()


# ── when it lets them finish ─────────────────────────────────────────────────────────────────────


def test_who_gets_the_interpreter_at_once_waits_for_nobody(machine: Machine) -> None:
    for _ in range(100):
        machine.now += 1.0
        assert not machine.interpreter.is_crowded()  # (1)


def test_who_is_kept_waiting_for_the_interpreter_lets_others_finish_until_it_is_not(machine: Machine) -> None:
    machine.crowd()
    machine.kept = 0.0
    looks = 0
    while machine.interpreter.is_crowded():
        machine.now += 1.0
        looks += 1
    assert looks <= 20  # (1)


def test_who_is_kept_waiting_by_other_processes_waits_for_nobody_here(machine: Machine) -> None:
    machine.core_kept = 0.02
    for _ in range(100):
        machine.now += 1.0
        assert not machine.interpreter.is_crowded()  # (1)


def test_it_looks_seldom(machine: Machine) -> None:
    before = machine.now
    for _ in range(100):
        machine.interpreter.is_crowded()
    assert machine.now - before < 0.001


def test_it_waits_until_they_have_finished_while_they_compute(machine: Machine) -> None:
    assert machine.steps_until_finished(1.0, computes=1.0, steps=7) == 7


def test_it_waits_no_longer_than_functions_usually_take(machine: Machine) -> None:
    assert machine.steps_until_finished(0.1, computes=1.0) <= 12  # (2)
    assert machine.steps_until_finished(100.0, computes=1.0) <= 30


def test_who_waited_for_what_did_not_compute_does_not_wait_again_for_a_while(machine: Machine) -> None:
    machine.crowd()
    assert machine.steps_until_finished(1.0, computes=0.01) == 1  # (2)
    assert not machine.interpreter.is_crowded()  # (3)
    machine.now += 10.0
    assert machine.interpreter.is_crowded()


# ── a group writer that does ────────────────────────────────────────────────────────────────────────────


class Crowded(Interpreter):
    """Always, and it waits until all have finished."""

    def is_crowded(self) -> bool:
        return True

    def let_finish(self, usual_seconds: float, finished: Callable[[float], bool]) -> None:
        assert finished(LONG)


class Impatient(Crowded):
    """It waits for a moment."""

    def let_finish(self, usual_seconds: float, finished: Callable[[float], bool]) -> None:
        finished(0.001)


def test_no_function_runs_while_a_crowded_group_writer_writes(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, running, at_writes = threading.Lock(), 0, list[int]()
    together = EmbeddedTransport.execute_together

    def watched(self: EmbeddedTransport, calls: Sequence[tuple[str, Any]]) -> Any:
        at_writes.append(running)
        return together(self, calls)

    def handle(record: dict[str, Any]) -> None:
        nonlocal running
        with lock:
            running += 1
        time.sleep(0.001)
        with lock:
            running -= 1

    monkeypatch.setattr(workers, "Interpreter", Crowded)
    monkeypatch.setattr(EmbeddedTransport, "execute_together", watched)
    table = filled(db, 300)
    assert processor(table).process_all(handle).processed == 300
    assert processed(table) == set(range(300))
    assert set(at_writes) == {0}
    assert len(at_writes) <= 150


def test_a_function_that_takes_long_holds_up_nobody(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Interpreter", Impatient)
    others, all_others = set[int](), threading.Event()

    def handle(record: dict[str, Any]) -> None:
        if record["Number"] == 0:
            assert all_others.wait(LONG)
            return
        others.add(int(record["Number"]))
        if len(others) == 99:
            all_others.set()

    assert processor(filled(db, 100)).process_all(handle).processed == 100


def test_what_was_claimed_and_not_begun_is_given_back_at_a_stop(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "Interpreter", Crowded)
    table = filled(db, 200)
    records = processor(table)

    def handle(record: dict[str, Any]) -> None:
        if len(done) >= 50:
            records.stop()
        done.add(int(record["Number"]))

    done = set[int]()
    report = records.process_all(handle)
    assert report.interrupted
    assert report.left == 0
    assert processed(table) == done
    assert records.process_all(lambda record: None).processed == 200 - len(done)


# ── what it waits for ────────────────────────────────────────────────────────────────────────────


def test_who_is_hungry_takes_what_is_ready_with_the_ends_so_far() -> None:
    schedule = RecordQueue(ManualClock())
    schedule.feed([Candidate({"pk": {"S": str(number)}}) for number in range(5)])
    schedule.report("end")
    batch = schedule.batch(3, 9, 8, LONG, hungry=True)
    assert batch is not None
    assert batch[0] == ["end"]
    assert len(batch[1]) == 4


def test_for_each_that_ends_late_there_is_one_more_record() -> None:
    schedule = RecordQueue(ManualClock())
    schedule.feed([Candidate({"pk": {"S": str(number)}}) for number in range(5)])
    for _ in range(2):
        schedule.report("end")
    ends, tasks = schedule.gather_more(2, LONG)
    assert (ends, len(tasks)) == (["end", "end"], 2)
    schedule.stop()
    assert schedule.gather_more(2, LONG) == ([], [])
