"""Where a worker's threads get jobs from: when a burst is over."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from penstock.clock import SystemClock
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.queries import Claimable
from penstock.jobs.store.side_items import Queue
from penstock.jobs.worker.fetcher import Fetcher, _Drain
from penstock.retry import Backoff


class Scripted:
    """A store whose looks find what they are told to."""

    clock = SystemClock()
    layout = CollectionLayout(shards=1)

    def __init__(self, looks: list[list[Job]]) -> None:
        self.looks = looks
        self.looked = threading.Semaphore(0)
        self.next_at: float | None = None
        self.side_items = self
        self.failures = 0

    def queue(self, name: str) -> Queue:
        return Queue(name)

    def claimable(self, *_: Any, **__: Any) -> Claimable:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        found = self.looks.pop(0) if self.looks else []
        self.looked.release()
        return Claimable(tuple(found), self.next_at, False)


def test_a_burst_is_not_over_while_a_thread_here_has_a_job_that_it_may_requeue() -> None:
    """The look that runs while a job moves from one pool to the other finds it in neither."""
    job = Job("job_1", "task", State.QUEUED, 0, 0, 0, 10)
    store = Scripted([[job], []])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", burst=True)  # type: ignore[arg-type]
    assert fetcher.fetch() is job
    fetcher.end_claim(job.id)
    others: list[Job | None] = []
    other = threading.Thread(target=lambda: others.append(fetcher.fetch()))
    other.start()
    for _ in range(2):  # the first of the job, and one by the other thread
        assert store.looked.acquire(timeout=60)
    store.looks.append([job])  # it has been requeued
    fetcher.release_thread()
    other.join(60)
    assert others == [job]


def test_a_burst_is_over_when_nobody_has_a_job_and_none_is_found() -> None:
    fetcher = Fetcher(Scripted([]), ("default",), verdict=lambda _: "take", burst=True)  # type: ignore[arg-type]
    assert fetcher.fetch() is None


def test_a_burst_does_not_wait_for_what_is_due_later() -> None:
    store = Scripted([])
    store.next_at = store.clock.now() + 3_600
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", burst=True)  # type: ignore[arg-type]
    assert fetcher.fetch() is None


def test_until_empty_waits_for_what_is_due_later() -> None:
    store = Scripted([])
    store.next_at = store.clock.now() + 3_600
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", until_empty=True)  # type: ignore[arg-type]
    fetched: list[object] = []
    thread = threading.Thread(target=lambda: fetched.append(fetcher.fetch()))
    thread.start()
    for _ in range(3):  # it looks, finds nothing, and looks again
        assert store.looked.acquire(timeout=60)
    assert thread.is_alive()
    store.next_at = None
    thread.join(60)
    assert fetched == [None]


def candidates(count: int, *, priority: int = 5) -> list[Job]:
    return [Job(f"job_{priority}_{n}", "task", State.QUEUED, 0, 0, 0, 10, priority=priority) for n in range(count)]


def test_candidates_that_are_100_ms_old_are_dropped_and_read_again() -> None:
    low, urgent = candidates(3), candidates(1, priority=9)
    fetcher = Fetcher(Scripted([low, [*urgent, *low[1:]]]), ("default",), verdict=lambda _: "take")  # type: ignore[arg-type]
    assert fetcher.fetch() is low[0]
    assert fetcher.pop_candidate() is low[1]
    fetcher._read_at -= 0.2
    assert fetcher.pop_candidate() is None
    assert fetcher.fetch() is urgent[0]


def test_as_many_candidates_are_read_as_are_used_while_they_are_fresh() -> None:
    store = Scripted([])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take")  # type: ignore[arg-type]
    assert fetcher._likely_used() == 16
    fetcher._read_at, fetcher._popped = time.monotonic(), 96
    assert fetcher._likely_used() == 96
    fetcher._read_at -= 3600
    assert fetcher._likely_used() == 16


def test_a_worker_that_does_not_become_empty_for_a_suspect_goes_on_with_others() -> None:
    suspect, (first, second, third) = Job("job_s", "task", State.QUEUED, 0, 0, 0, 10, suspect=True), candidates(3)
    store = Scripted([[first], [second, suspect], [third, suspect]])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take")  # type: ignore[arg-type]
    assert fetcher.fetch() is first
    fetcher.end_claim(first.id)
    fetcher._poll()
    assert fetcher.pop_candidate() is None, "the suspect is next, and the first job runs"
    fetcher._drain._until = 0.0
    fetcher._drain._asked_at = fetcher._read_at = time.monotonic()
    assert fetcher.pop_candidate() is second
    fetcher.end_claim(second.id)
    fetcher.release_thread()
    fetcher._candidates.clear()
    fetcher._poll()
    assert fetcher.pop_candidate() is suspect, "whenever the worker is empty"
    assert fetcher.alone == suspect.id


def test_a_suspect_that_is_claimed_while_it_is_read_again_is_not_waited_for() -> None:
    """The attempt that runs would be requeued for itself."""
    suspect, (other,) = Job("job_s", "task", State.QUEUED, 0, 0, 0, 10, suspect=True), candidates(1)
    running: list[Any] = []
    store = Scripted([[suspect], [suspect, other]])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", attempts=lambda: running)  # type: ignore[arg-type]
    assert fetcher.fetch() is suspect
    fetcher.end_claim(suspect.id)
    read_again = fetcher._poll_queues()
    attempt = SimpleNamespace(id=suspect.id, job=replace(suspect, suspect=False), was_suspect=True, requeue_reason=None)
    running.append(attempt)  # it has written a newer checkpoint
    fetcher._end_poll(read_again, is_sure=False)
    assert fetcher.pop_candidate() is other
    assert attempt.requeue_reason is None


def test_a_worker_tries_less_and_less_often_to_become_empty_for_a_suspect() -> None:
    drain = _Drain()
    drains = [drain.goes_on(float(second)) for second in range(1_000, 1_000 + 3_600)]
    changes = [second for second in range(1, 3_600) if drains[second] != drains[second - 1]]
    assert drains[0]
    assert changes[:7] == [30, 90, 120, 240, 270, 510, 540]
    assert max(end - begin for begin, end in itertools.pairwise(changes)) == 600


def test_another_workers_claims_leave_the_order_of_priorities() -> None:
    jobs = [job for priority in (9, 5, 1) for job in candidates(8, priority=priority)]
    fetcher = Fetcher(Scripted([jobs]), ("default",), verdict=lambda _: "take")  # type: ignore[arg-type]
    fetcher.fetch()
    fetcher.note_refused(1)
    rest = [job.priority for job in iter(fetcher.pop_candidate, None)]
    assert rest == sorted(rest, reverse=True)


def test_what_happens_elsewhere_wakes_the_thread_that_polls_and_no_other() -> None:
    """(5) Eight threads that wake each other for nothing were a quarter of what an idle worker takes beside writes."""
    store = Scripted([])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", idle_seconds=3_600)  # type: ignore[arg-type]
    fetcher._polls_pause = Backoff(3_600, 1.0, 3_600)
    woken: list[bool] = []
    wait = fetcher._changed.wait
    fetcher._changed.wait = lambda seconds=None: woken.append(wait(seconds)) or True  # type: ignore[method-assign,func-returns-value]
    fetched: list[object] = []
    threads = [threading.Thread(target=lambda: fetched.append(fetcher.fetch())) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert store.looked.acquire(timeout=60)
    for call in [fetcher.poll_soon, fetcher.wake] * 10:
        until(lambda: len(waiting(fetcher._changed)) == 7 and len(waiting(fetcher._poll_is_due)) == 1)
        call()
        assert store.looked.acquire(timeout=60)
    assert woken == []
    for number in range(1, 4):  # whoever goes with a job leaves one who sleeps until the next poll
        until(lambda: len(waiting(fetcher._poll_is_due)) == 1)
        store.looks.append(candidates(1, priority=number))
        fetcher.poll_soon()
        until(lambda number=number: len(fetched) == number)  # type: ignore[misc]
    assert len(woken) <= 3
    fetcher.stop()
    for thread in threads:
        thread.join(60)
    assert fetched.count(None) == 5


def waiting(condition: threading.Condition) -> Any:
    return condition._waiters  # type: ignore[attr-defined]


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_thread_whose_poll_fails_leaves_one_that_polls() -> None:
    store = Scripted([])
    fetcher = Fetcher(store, ("default",), verdict=lambda _: "take", idle_seconds=3_600)  # type: ignore[arg-type]
    fetcher._polls_pause = Backoff(3_600, 1.0, 3_600)
    failed: list[BaseException] = []

    def fetch() -> None:
        try:
            fetcher.fetch()
        except ConnectionError as error:
            failed.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(waiting(fetcher._changed)) == 2 and len(waiting(fetcher._poll_is_due)) == 1)
    store.failures = 1
    fetcher.poll_soon()
    until(lambda: len(failed) == 1 and len(waiting(fetcher._poll_is_due)) == 1)
    fetcher.stop()
    for thread in threads:
        thread.join(60)
