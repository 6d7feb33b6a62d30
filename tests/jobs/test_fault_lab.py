"""Workers that are killed, frozen, doubled, throttled and live by wrong clocks: their jobs complete once."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS
from penstock.testing.fault_lab import FaultLab

HERE = Path(__file__).parent


@pytest.fixture
def lab(fault_lab: Callable[..., FaultLab], monkeypatch: pytest.MonkeyPatch) -> FaultLab:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])))
    sys.modules.pop("lab_tasks", None)  # its app belongs to one test's database
    return fault_lab("lab_tasks:app", folder=HERE)


def tasks() -> Any:
    return importlib.import_module("lab_tasks")


def test_a_job_whose_worker_is_killed_goes_on_at_its_last_checkpoint(lab: FaultLab) -> None:
    job = tasks().count.enqueue(steps=6, seconds=0.1)
    first = lab.start()
    lab.wait_for_entries(job.id, 3)
    first.kill()
    lab.start()
    (ended,) = lab.wait(job.id)
    assert ended.state is State.COMPLETED
    done = lab.app.result(job.id)
    assert done == sorted(done), "attempts follow each other"
    assert done.count(1) >= 3, "what the first attempt had kept was not done again"
    assert 2 in done
    assert "taken_over" in [event.type for event in lab.app.store.history(job.id).events]
    assert (ended.crashes, ended.suspect, ended.failures) == (0, False, 0), "it has made progress since"


def test_a_frozen_workers_writes_are_refused_when_it_wakes_up(lab: FaultLab) -> None:
    job = tasks().count.enqueue(steps=8, seconds=0.1)
    zombie = lab.start(name="zombie")
    lab.wait_for_entries(job.id, 2)
    zombie.freeze()
    lab.start(name="second")
    lab.wait(job.id)
    before = lab.app.store.history(job.id)
    zombie.thaw()
    # The zombie does its step, and is refused. It may have been frozen between a step and the step's line.
    again = [tasks().count.enqueue(steps=1, seconds=0) for _ in range(3)]
    lab.wait(*(one.id for one in again))
    deadline = time.monotonic() + 30
    while sum(job.id in line for line in tasks().traced()) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    after = lab.app.store.history(job.id)
    assert after == before
    types = [event.type for event in after.events]
    assert (types[:2], types[-1], types.count("completed")) == (["created", "started"], "completed", 1)
    assert "taken_over" in types
    steps = [line for line in tasks().traced() if job.id in line]
    assert sorted(int(line.split()[2]) for line in steps) == list(range(8)), "each step was kept once"


def test_an_outage_of_the_database_uses_up_no_retry(lab: FaultLab) -> None:
    job = tasks().count.enqueue(steps=6, seconds=0.1)
    lab.start()
    lab.wait_for_entries(job.id, 2)
    with lab.outage():
        before = lab.app.get(job.id).entries
        time.sleep(1.5)  # longer than its lease
        assert lab.app.get(job.id).entries == before
    (ended,) = lab.wait(job.id)
    assert (ended.state, ended.failures, ended.crashes) == (State.COMPLETED, 0, 0)


def test_two_workers_side_by_side_run_each_job_once(lab: FaultLab) -> None:
    jobs = [tasks().steady.enqueue(steps=2, seconds=0.01) for _ in range(20)]
    lab.start(concurrency=4, idle_seconds=0.05)
    lab.start(concurrency=4, idle_seconds=0.05)
    ended = lab.wait(*(job.id for job in jobs))
    assert {job.state for job in ended} == {State.COMPLETED}
    assert all(job.attempt == 1 for job in ended)
    assert len(tasks().traced()) == 40


def test_throttled_and_lost_answers_lose_no_job(lab: FaultLab) -> None:
    jobs = [tasks().count.enqueue(steps=2, seconds=0) for _ in range(10)]
    faults = {"throttle": 0.1, "internal_error_after": 0.05, "reset_before": 0.05, "timeout_after": 0.05}
    lab.start(faults=faults, seed=5, concurrency=4)
    ended = lab.wait(*(job.id for job in jobs))
    assert {job.state for job in ended} == {State.COMPLETED}
    lab.check()


def test_workflows_go_on_when_their_workers_are_killed(lab: FaultLab) -> None:
    jobs = [tasks().flow.enqueue(parts=3) for _ in range(4)]
    worker = lab.start(concurrency=4)
    for number, job in enumerate(jobs):
        time.sleep(0.2)
        lab.app.send_event(job.id, "word", number)
        worker.kill()
        worker = lab.start(concurrency=4)
    ended = lab.wait(*(job.id for job in jobs))
    assert {job.state for job in ended} == {State.COMPLETED}
    assert [lab.app.result(job.id) for job in jobs] == [[number, [0, 1, 2]] for number in range(4)]
    assert all(len(list(lab.app.children(job.id))) == 3 for job in jobs)
    lab.check()


def test_throttled_and_lost_answers_make_no_child_twice_and_lose_no_event(lab: FaultLab) -> None:
    jobs = [tasks().flow.enqueue(parts=3) for _ in range(4)]
    faults = {"throttle": 0.05, "internal_error_after": 0.05, "reset_before": 0.03, "timeout_after": 0.03}
    lab.start(faults=faults, seed=7, concurrency=4)
    for job in jobs:
        lab.app.send_event(job.id, "word", "go", event_id="1")
    ended = lab.wait(*(job.id for job in jobs))
    assert {job.state for job in ended} == {State.COMPLETED}
    assert [lab.app.result(job.id) for job in jobs] == [["go", [0, 1, 2]]] * 4
    assert {(job.sent, job.unread, job.child_count) for job in ended} == {(1, 0, 3)}
    lab.check()


@pytest.mark.parametrize("skew", [-0.05, 0.05])
def test_clocks_that_differ_by_less_than_the_allowance_take_nothing_early(lab: FaultLab, skew: float) -> None:
    job = tasks().steady.enqueue(steps=12, seconds=0.3)  # longer than its lease of 3 s
    lab.start(name="right")
    lab.wait_for_entries(job.id, 1)
    lab.start(name="wrong", skew_seconds=skew)
    (ended,) = lab.wait(job.id)
    assert ended.attempt == 1
    assert lab.app.result(job.id) == [1] * 12


def test_a_job_that_kills_its_workers_has_failed(lab: FaultLab) -> None:
    job = tasks().deadly.enqueue()
    end = time.monotonic() + 60
    worker = lab.start()
    while not lab.app.get(job.id).is_terminal and time.monotonic() < end:
        if not worker.is_alive:
            worker = lab.start()
        time.sleep(0.05)
    failed = lab.app.get(job.id)
    assert failed.state is State.FAILED
    assert failed.crashes == 3
    assert failed.error is not None
    assert failed.error.kind == KILLED_WORKERS
    assert "penstock jobs retry" in failed.error.message


def test_a_stopped_worker_hands_over_and_the_next_one_goes_on(lab: FaultLab) -> None:
    job = tasks().count.enqueue(steps=6, seconds=0.1)
    first = lab.start()
    lab.wait_for_entries(job.id, 2)
    first.stop()
    handed = lab.app.get(job.id)
    assert handed.state is State.QUEUED
    assert handed.crashes == 0
    lab.start()
    (ended,) = lab.wait(job.id)
    assert ended.crashes == 0
    assert "handed_over" in [event.type for event in lab.app.store.history(job.id).events]


def test_a_running_job_is_cancelled_at_its_next_report(lab: FaultLab) -> None:
    job = tasks().endless.enqueue()
    lab.start()
    lab.wait_for_entries(job.id, 2)
    lab.app.cancel(job.id, "enough")
    (ended,) = lab.wait(job.id)
    assert ended.state is State.CANCELLED
    assert ended.cancel_reason == "enough"


def test_the_lab_finds_a_broken_rule(lab: FaultLab) -> None:
    job = tasks().shaky.enqueue(failures=0)
    lab.start(burst=True)
    lab.wait(job.id)
    store = lab.app.store
    request = {"TableName": store.layout.table, "Key": store.layout.main_key(job.id)}
    main = store.db.execute("GetItem", request)["Item"]
    del main["events"]["L"][1]
    store.db.execute("PutItem", {"TableName": store.layout.table, "Item": main})
    with pytest.raises(AssertionError, match="completed happened while it was queued"):
        lab.check()
    store.db.execute("DeleteItem", request)


def test_the_lab_refuses_options_that_there_are_not(lab: FaultLab) -> None:
    with pytest.raises(TypeError, match="concurency"):
        lab.start(concurency=2)
    with pytest.raises(TypeError, match="throttles"):
        lab.start(faults={"throttles": 0.1})


def test_a_database_that_mostly_fails_delays_jobs_and_fails_none(lab: FaultLab) -> None:
    jobs = [tasks().steady.enqueue(steps=2, seconds=0) for _ in range(2)]
    faults = {"throttle": 0.4, "reset_before": 0.2, "timeout_after": 0.1}  # the client gives up one call in twenty
    lab.start(faults=faults, seed=7, concurrency=2)
    ended = lab.wait(*(job.id for job in jobs))
    assert [(job.state, job.failures) for job in ended] == [(State.COMPLETED, 0)] * 2
    lab.check()
