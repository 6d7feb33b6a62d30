"""Many calls within a step: in order, bounded, isolated, and none of them twice (fanout.py, 1 to 4)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import killed_map
import pytest
from mapped_functions import dies_at_three, doubled

from penstock.errors import PenstockError
from penstock.jobs.context import attempt_of
from penstock.jobs.model.json_text import NotJson
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.pipelines import (
    ExecutorDied,
    ItemFailure,
    ItemsFailed,
    Pipeline,
    PipelineFile,
    PipelineReport,
    StepContext,
)

JOB = "fan_1"
FLIGHT = 5


def mapped(store: JobStore, function: Callable[[Any], Any], items: Any, **options: Any) -> PipelineReport:
    """One step that maps; `items` is the pipeline's input."""
    pipeline = Pipeline("fan", inputs=("items",))

    @pipeline.step(inputs=("items",), outputs=("results",))
    def each(context: StepContext, items: list[Any]) -> list[Any]:
        return context.map(function, items, **options)

    return pipeline.run(store, job_id=JOB, inputs={"items": list(items)})


def batches(store: JobStore) -> int:
    points = store.history(JOB).checkpoints
    return sum(1 for point in points if point.name.startswith("items "))


@pytest.mark.parametrize("threads", [0, 1, 8])
def test_results_come_in_the_order_of_their_items(any_store: JobStore, threads: int) -> None:
    if not threads:
        assert mapped(any_store, doubled, range(20))["results"] == list(range(0, 40, 2))
        return
    with ThreadPoolExecutor(threads) as executor:
        report = mapped(any_store, doubled, range(20), executor=executor)
    assert report["results"] == list(range(0, 40, 2))


def test_processes_call_it_too(store: JobStore) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert mapped(store, doubled, range(10), executor=executor)["results"] == list(range(0, 20, 2))


def test_no_item_and_one_item(store: JobStore) -> None:
    assert mapped(store, doubled, [])["results"] == []
    assert mapped(store, doubled, [4])["results"] == [8]


def test_at_most_so_many_are_in_flight(store: JobStore) -> None:
    """fanout.py, 4"""
    counting = CountingExecutor()
    mapped(store, doubled, range(200), executor=counting, in_flight=FLIGHT)
    assert counting.most == FLIGHT
    with pytest.raises(ValueError, match="in_flight is 1 to"):
        mapped(store, doubled, range(3), executor=counting, in_flight=0)


class CountingExecutor(Executor):
    """`most` is how many calls it had at once."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self._lock = threading.Lock()
        self._full = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            if self.waiting == FLIGHT:
                self._full.set()
        return self._pool.submit(self._ended, function, *args, **kwargs)

    def _ended(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        assert self._full.wait(60)  # nothing ends before as many are in flight as may be
        value = function(*args, **kwargs)
        with self._lock:
            self.waiting -= 1
        return value


def test_there_are_few_batches_whatever_the_number_of_items(store: JobStore) -> None:
    """fanout.py, 2: the five-second batches are those of slow items, and of slow machines."""
    mapped(store, doubled, range(5_000))
    assert 1 <= batches(store) <= 120


def test_long_results_make_batches_of_their_own_and_need_no_file(store: JobStore, tmp_path: Path) -> None:
    pipeline = Pipeline("long")

    @pipeline.step(outputs=("count",))
    def each(context: StepContext) -> int:
        return len(context.map(lambda number: str(number) * 3_000, range(1_000)))

    pipeline.run(store, job_id=JOB)
    assert batches(store) > 20
    assert not (tmp_path / "files" / JOB / "payloads").exists()


@pytest.mark.parametrize("threads", [0, 4])
def test_failures_name_their_items_and_only_they_are_tried_again(store: JobStore, threads: int) -> None:
    calls: list[str] = []
    bad = {"c", "e"}

    def upper(name: str) -> str:
        calls.append(name)
        if name in bad:
            raise ValueError(f"no {name}") if name == "c" else SystemExit(3)
        return name.upper()

    with ThreadPoolExecutor(4) as pool:
        executor = pool if threads else None
        with pytest.raises(ItemsFailed) as told:
            mapped(store, upper, "abcdef", executor=executor)
        assert [(one.index, one.key, type(one.error)) for one in told.value.failures] == [
            (2, '"c"', ValueError),
            (4, '"e"', SystemExit),
        ]
        assert "2 of 6 items of each failed" in str(told.value)
        assert 'item 2 ("c"): ValueError: no c' in str(told.value)
        assert store.get(JOB).state is State.FAILED
        assert sorted(calls) == list("abcdef")
        calls.clear()
        bad.clear()
        assert mapped(store, upper, "abcdef", executor=executor)["results"] == list("ABCDEF")
    assert sorted(calls) == ["c", "e"]


def test_failures_may_be_kept_in_their_places(store: JobStore) -> None:
    pipeline = Pipeline("kept")

    @pipeline.step(outputs=("told",))
    def each(context: StepContext) -> list[str]:
        results = context.map(lambda number: 6 // number, [1, 0, 3], keep_failures=True)
        return [str(one) if isinstance(one, ItemFailure) else f"{one}" for one in results]

    told = pipeline.run(store, job_id=JOB)["told"]
    assert told[0] == "6"
    assert told[1].startswith("item 1 (0): ZeroDivisionError: ")
    assert told[2] == "2"


def test_a_result_that_is_not_json_is_its_items_failure(store: JobStore) -> None:
    with pytest.raises(ItemsFailed, match=r"the result of 2\.when is a object"):
        mapped(store, lambda number: number if number < 2 else {"when": object()}, range(3))


def test_items_are_named_by_their_key_or_are_json(store: JobStore) -> None:
    class Page:
        def __init__(self, number: int) -> None:
            self.number = number

    def run(numbers: list[int], **options: Any) -> list[Any]:
        pipeline = Pipeline("pages")

        @pipeline.step(outputs=("numbers",))
        def each(context: StepContext) -> list[int]:
            return context.map(lambda page: page.number, [Page(number) for number in numbers], **options)

        return list(pipeline.run(store, job_id=JOB)["numbers"])

    with pytest.raises(NotJson, match=r"each: item 0 is a Page.* Or give map\(…, key=…\)"):
        run([1, 2])
    with pytest.raises(PenstockError, match="two items have the key '1'"):
        run([1, 1], key=lambda page: str(page.number))
    assert run([1, 2], key=lambda page: str(page.number)) == [1, 2]


def test_equal_items_are_one_call_but_two_of_one_key_that_differ_are_refused(store: JobStore) -> None:
    calls: list[int] = []
    report = mapped(store, lambda number: calls.append(number) or number, [7, 7, 8])
    assert report["results"] == [7, 7, 8]
    assert calls == [7, 8]
    with pytest.raises(PenstockError, match="two items have the key 'x'"):
        mapped(store, doubled, [1, 2], key=lambda number: "x")


def test_a_result_may_be_a_file_and_one_that_is_lost_is_made_again(store: JobStore, tmp_path: Path) -> None:
    pipeline = Pipeline("files", parameters={"fail": True})
    drawn: list[str] = []

    @pipeline.step(outputs=("sizes",))
    def draw(context: StepContext) -> list[int]:
        def one(name: str) -> PipelineFile:
            drawn.append(name)
            return context.save(f"{name}.svg", name.encode() * 10)

        with ThreadPoolExecutor(2) as executor:
            files = context.map(one, ["a", "b", "c"], executor=executor)
        if not (tmp_path / "go").exists():
            raise ValueError("not yet")
        return [len(file.read()) for file in files]

    @pipeline.step(inputs=("fail",))
    def end(context: StepContext, fail: bool) -> None:
        pass

    with pytest.raises(ValueError, match="not yet"):
        pipeline.run(store, job_id=JOB)
    (tmp_path / "files" / JOB / "draw" / "b.svg").unlink()
    (tmp_path / "go").touch()
    assert pipeline.run(store, job_id=JOB)["sizes"] == [10, 10, 10]
    assert sorted(drawn) == ["a", "b", "b", "c"]


def test_another_call_of_the_step_does_not_see_the_batches(store: JobStore) -> None:
    """fanout.py, 3: the function may use what changed."""
    pipeline = Pipeline("factor", parameters={"factor": 2})
    fail = [True]

    @pipeline.step(inputs=("factor",), outputs=("results",))
    def each(context: StepContext, factor: int) -> list[int]:
        results = context.map(lambda number: number * factor, range(4))
        if fail:
            raise ValueError(fail.pop())
        return results

    with pytest.raises(ValueError, match="True"):
        pipeline.run(store, job_id=JOB)
    assert pipeline.run(store, job_id=JOB, inputs={"factor": 3})["results"] == [0, 3, 6, 9]
    assert pipeline.run(store, job_id=JOB, inputs={"factor": 2})["results"] == [0, 2, 4, 6]


def test_another_function_is_not_given_the_results_of_the_first(store: JobStore) -> None:
    """fanout.py, 3: a step that is not the same in its second attempt."""
    pipeline = Pipeline("choice")
    functions: list[Callable[[int], int]] = [abs, doubled]

    @pipeline.step(outputs=("results",))
    def each(context: StepContext) -> list[int]:
        results = context.map(functions.pop(0), range(3))
        if functions:
            raise ValueError("again")
        return results

    with pytest.raises(ValueError, match="again"):
        pipeline.run(store, job_id=JOB)
    assert pipeline.run(store, job_id=JOB)["results"] == [0, 2, 4]


@pytest.mark.crash
def test_an_executor_whose_workers_die_is_told_and_what_was_done_is_kept(store: JobStore) -> None:
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    with pool as executor, pytest.raises(ExecutorDied, match="with a new executor"):
        mapped(store, dies_at_three, range(6), executor=executor, in_flight=1)
    again: list[int] = []

    def lives(number: int) -> int:
        again.append(number)
        return number

    lives.__qualname__ = dies_at_three.__qualname__  # the same function, mended
    mapped(store, lives, range(6))
    assert again == [3, 4, 5]


def test_an_item_that_somebody_cancelled_has_failed(store: JobStore) -> None:
    class Cancelling(Executor):
        def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(ItemsFailed, match=r"item 1 \(1\): CancelledError"):
        mapped(store, doubled, range(2), executor=Cancelling())


def test_an_executor_that_was_shut_down_is_told(store: JobStore) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ExecutorDied, match="after shutdown"):
        mapped(store, doubled, range(3), executor=executor)


@pytest.mark.parametrize("threads", [0, 3])
def test_a_run_stops_between_two_items_and_goes_on_there(store: JobStore, threads: int) -> None:
    """Somebody cancels nothing, and the clock is not waited for: the run is asked to stop as a worker would."""
    pipeline = Pipeline("stops")
    calls: list[int] = []

    @pipeline.step(outputs=("results",))
    def each(context: StepContext) -> list[int]:
        def one(number: int) -> int:
            calls.append(number)
            if number == 4 and calls.count(4) == 1:
                attempt_of(context._ctx).stop("its worker stops")
            return number

        with ThreadPoolExecutor(3) as pool:
            return context.map(one, range(40), executor=pool if threads else None, in_flight=3)

    stopped = pipeline.run(store, job_id=JOB)
    assert stopped.stopped == "its worker stops"
    assert 5 <= len(calls) <= 10
    assert store.get(JOB).state is State.QUEUED
    assert pipeline.run(store, job_id=JOB)["results"] == list(range(40))
    assert sorted(calls) == list(range(40))


def test_items_that_have_begun_may_end_when_the_run_is_asked_to_stop(store: JobStore) -> None:
    """All are in flight when it is asked: what ends while it winds down is kept."""
    pipeline = Pipeline("winds down")
    calls: list[int] = []
    asked = threading.Event()

    @pipeline.step(outputs=("results",))
    def each(context: StepContext) -> list[int]:
        def one(number: int) -> int:
            calls.append(number)
            if number == 1 and not asked.is_set():
                attempt_of(context._ctx).stop("its worker stops")
                asked.set()
            assert asked.wait(60)
            return number

        with ThreadPoolExecutor(2) as pool:
            return context.map(one, range(2), executor=pool)

    report = pipeline.run(store, job_id=JOB)
    report = pipeline.run(store, job_id=JOB) if report.stopped else report
    assert report["results"] == [0, 1]
    assert sorted(calls) == [0, 1]


@pytest.mark.crash
def test_killed_at_an_item_only_what_is_left_is_done(tmp_path: Path) -> None:
    """fanout.py, 1"""
    command = [sys.executable, killed_map.__file__, str(tmp_path), "3", "11"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.stdout.split() == ["-9", "-9"], told.stderr
    report = killed_map.run(tmp_path, -1, 120.0)
    assert report["squares"] == [number * number for number in range(killed_map.ITEMS)]
    called = [int(line) for line in (tmp_path / "items.txt").read_text().split()]
    assert sorted(called) == sorted([*range(killed_map.ITEMS), 3, 11])  # those in which it was killed, twice
