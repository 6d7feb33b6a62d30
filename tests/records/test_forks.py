"""A function that forks: only the process that called it comes back, and it alone stops calmly."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import pytest

from penstock.jobs.worker.invocation import protect
from penstock.records.executors import attempt
from penstock.records.forks import for_handlers, not_in_children
from penstock.retry import RetryPolicy

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def forks(in_child: Callable[[], Any], ends: list[int | str]) -> Callable[..., None]:
    """A function whose child does this and comes back; how the child ends is appended."""

    def function(*_: Any) -> None:
        child = os.fork()
        if child == 0:
            in_child()
            return
        ends.append(_end_of(child))

    return function


def _end_of(child: int) -> int | str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it lived on"


def fail() -> None:
    raise ValueError("in the child")


@pytest.mark.parametrize(
    ("in_child", "code"), [(lambda: None, 0), (fail, 1), (lambda: sys.exit(7), 7), (lambda: sys.exit("no"), 1)]
)
def test_a_child_that_comes_back_ends_there(in_child: Callable[[], Any], code: int) -> None:
    ends: list[int | str] = []
    protect(forks(in_child, ends))()
    assert ends == [code]


def test_a_child_of_a_coroutine_ends_there_too() -> None:
    ends: list[int | str] = []

    async def function() -> None:
        forks(lambda: None, ends)()

    asyncio.run(protect(function)())
    assert ends == [0]


def test_a_records_function_may_fork() -> None:
    ends: list[int | str] = []
    ended = attempt(forks(lambda: None, ends), {"id": "r1"}, RetryPolicy())
    assert ended.failure is None
    assert ends == [0]


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """A handler of SIGTERM and SIGINT for this process; what it was called with."""
    found: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, not_in_children(lambda number, frame: found.append(number))) for number in numbers]
    yield found
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_pool_of_processes_ends_although_its_parent_stops_calmly(calls: list[int]) -> None:
    context = get_context("fork")
    begun = context.Event()

    def wait_long() -> None:
        begun.set()
        time.sleep(60)

    child = context.Process(target=wait_long)
    child.start()
    assert begun.wait(30)
    child.terminate()
    child.join(30)
    assert child.exitcode == -signal.SIGTERM
    os.kill(os.getpid(), signal.SIGTERM)
    until = time.monotonic() + 60
    while not calls and time.monotonic() < until:  # where there are other threads, it is heard a little later
        time.sleep(0.01)
    assert calls == [signal.SIGTERM]


def test_sigterm_ends_a_child_also_just_before_a_call_that_blocks(calls: list[int]) -> None:
    """Python calls a handler of its own only after that call, so there is none."""
    child = os.fork()
    if not child:
        os._exit(7 if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL


def interrupted(times: int) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        while signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
            time.sleep(0.01)  # it is heard


def test_the_first_interrupt_is_left_to_the_parent(calls: list[int]) -> None:
    ends: list[int | str] = []
    protect(forks(lambda: interrupted(1), ends))()
    protect(forks(lambda: interrupted(2), ends))()
    assert ends == [0, -signal.SIGINT]
    assert calls == []


def test_a_signal_that_comes_while_a_lock_is_held_is_heard_when_it_is_free() -> None:
    lock, stopped = threading.Lock(), threading.Event()

    def stop() -> None:
        with lock:
            stopped.set()

    ask = for_handlers(stop)
    before = signal.signal(signal.SIGTERM, lambda number, frame: ask())
    with lock:
        os.kill(os.getpid(), signal.SIGTERM)
        assert not stopped.is_set()
    assert stopped.wait(30)
    signal.signal(signal.SIGTERM, before)
