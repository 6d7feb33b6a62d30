"""Optimistic concurrency (optimistic.py, 1-3)."""

from __future__ import annotations

import threading

import pytest

from penstock import optimistic
from penstock.optimistic import Conflict, Contended, Contention


class Cell:
    """A number with a version, written on the condition that the version is the one that was read."""

    def __init__(self) -> None:
        self.value = (0, 0)
        self._lock = threading.Lock()

    def write(self, before: tuple[int, int], number: int) -> None:
        with self._lock:
            if self.value != before:
                raise Conflict("the cell", self.value)
            self.value = (before[0] + 1, number)


def test_1_no_change_is_lost_however_many_write_at_once() -> None:
    cell = Cell()

    def add() -> None:
        for _ in range(50):
            current, contention = cell.value, Contention("the cell")
            while True:
                try:
                    cell.write(current, current[1] + 1)
                    break
                except Conflict as conflict:
                    current = conflict.current
                    contention.wait()

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cell.value == (400, 400)


def test_3_the_first_attempts_follow_at_once_then_writers_wait_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(optimistic.time, "sleep", waits.append)
    monkeypatch.setattr(optimistic.random, "random", lambda: 1.0)
    contention = Contention("it", most_attempts=1_000)
    for _ in range(3):
        contention.wait()
    assert waits == []
    for _ in range(600):
        contention.wait()
    assert waits == sorted(waits)
    assert 0 < waits[0] < waits[-1] == 0.1


def test_3_there_is_an_end_to_it_that_may_be_tried_again() -> None:
    contention = Contention("job_1", most_attempts=2)
    contention.wait()
    with pytest.raises(Contended, match="job_1: others wrote it first, 2 times") as caught:
        contention.wait()
    assert caught.value.retryable
