"""A function that forks: only the process that called it comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.records.attempts import RetryRules, attempt
from penstock.records.forks import without_children

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
    until = time.monotonic() + 20
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
    without_children(forks(in_child, ends))()
    assert ends == [code]


def test_a_child_of_a_coroutine_ends_there_too() -> None:
    ends: list[int | str] = []

    async def function() -> None:
        forks(lambda: None, ends)()

    asyncio.run(without_children(function)())
    assert ends == [0]


def test_a_records_function_may_fork() -> None:
    ends: list[int | str] = []
    ended = attempt(forks(lambda: None, ends), {"id": "r1"}, RetryRules())
    assert ended.failure is None
    assert ends == [0]
