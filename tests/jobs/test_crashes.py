"""Workers that are killed, frozen or told to stop, as real processes, with leases of an hour."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine import Engine
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.processes import this_process
from penstock.server.server import running_server
from penstock.testing.fault_lab import PATIENCE_SECONDS, FaultLab, LabWorker

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not this_process(), reason="there is no /proc here: leases decide")


@pytest.fixture
def make_lab(fault_lab: Callable[..., FaultLab], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("CRASH_TRACE", str(tmp_path / "trace"))
    sys.modules.pop("crash_tasks", None)  # its app belongs to one test's database
    return lambda **options: fault_lab("crash_tasks:app", folder=HERE, **options)


@pytest.fixture
def lab(make_lab: Callable[..., FaultLab]) -> FaultLab:
    return make_lab()


def tasks() -> Any:
    return importlib.import_module("crash_tasks")


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def wait_for_owner(lab: FaultLab, job: Job, owner: str) -> None:
    def is_held() -> bool:
        lease = lab.app.get(job.id).lease
        return lease is not None and lease.owner == owner

    wait_until(is_held, f"{owner} should have {job.id}")


def keep_one_running(lab: FaultLab, worker: LabWorker, *jobs: Job, **options: Any) -> list[Job]:
    """Starts a worker for each that dies, as a supervisor does, until the jobs have ended."""
    end = time.monotonic() + 2 * PATIENCE_SECONDS
    while not all(lab.app.get(job.id).is_terminal for job in jobs):
        assert time.monotonic() < end, [str(lab.app.get(job.id)) for job in jobs]
        if not worker.is_alive:
            worker = lab.start(**options)
        time.sleep(0.02)
    return [lab.app.get(job.id) for job in jobs]


# ── suspects ─────────────────────────────────────────────────────────────────────────────────────


def test_only_the_job_that_kills_is_failed_and_those_beside_it_complete(lab: FaultLab) -> None:
    innocent = [tasks().good.enqueue() for _ in range(3)]
    culprit = tasks().deadly.enqueue(beside=3)
    worker = lab.start(concurrency=4)
    *good, failed = keep_one_running(lab, worker, *innocent, culprit, concurrency=4)
    assert [(job.state, job.crashes, job.attempt) for job in good] == [(State.COMPLETED, 0, 2)] * 3
    assert (failed.state, failed.crashes, failed.attempt) == (State.FAILED, 3, 4)
    assert [event.detail.partition(": ")[2] for event in failed.events if event.type == "taken_over"] == [
        "it runs alone now",
        "crash 1 of 3",
        "crash 2 of 3",
    ]


@pytest.mark.parametrize("kinds", [("good",) * 4, ("good_async",) * 4, ("good", "good_async") * 2], ids="-".join)
def test_suspects_run_one_by_one(lab: FaultLab, kinds: tuple[str, ...]) -> None:
    jobs = [getattr(tasks(), kind).enqueue() for kind in kinds]
    first = lab.start(concurrency=4)
    wait_until(lambda: len(tasks().traced()) == 4, "all of them run at once")
    first.kill()
    later = tasks().quick.enqueue()
    lab.start(concurrency=4)
    lab.wait(later.id, *(job.id for job in jobs))
    alone = [f"{word} {job.id}" for job in jobs for word in ("began", "ended")]
    assert tasks().traced()[4:] == alone, "the oldest first, nothing beside it"


def test_suspects_that_write_checkpoints_soon_run_side_by_side_and_others_need_not_wait_for_their_ends(
    lab: FaultLab,
) -> None:
    jobs = [tasks().stepping.enqueue() for _ in range(3)]

    def all_run() -> bool:
        current = [lab.app.get(job.id) for job in jobs]
        return all(job.state is State.PROCESSING and job.entries and not job.suspect for job in current)

    first = lab.start(concurrency=4)
    wait_until(all_run, "all of them run at once")
    first.kill()
    second = lab.start(concurrency=4, name="second")
    lab.wait(tasks().quick.enqueue().id)
    for job in jobs:
        wait_for_owner(lab, job, "second")
    wait_until(all_run, "they run side by side again")
    tasks().trace("end")
    ended = lab.wait(*(job.id for job in jobs))
    assert second.is_alive
    assert [(job.state, job.crashes, job.failures, job.requeues) for job in ended] == [(State.COMPLETED, 0, 0, 0)] * 3
    requeues = [event.detail for job in ended for event in job.events if event.label == "requeued"]
    assert set(requeues) == {"a job that may have killed its worker runs alone first"}
    for job in jobs:
        steps = [line.split() for line in tasks().traced() if line.startswith(f"step {job.id} ")]
        of_second = [int(step) for _, _, step, attempt in steps if int(attempt) > 1]
        assert of_second == list(range(of_second[0], of_second[0] + len(of_second))), "none is done twice"


def test_suspects_go_first_also_in_a_worker_that_has_just_started(lab: FaultLab) -> None:
    suspect = tasks().good.enqueue()
    first = lab.start()
    wait_until(lambda: len(tasks().traced()) == 1, "it runs")
    first.kill()
    other = tasks().noted.enqueue()
    lab.start()
    lab.wait(suspect.id, other.id)
    assert tasks().traced()[1:] == [f"began {suspect.id}", f"ended {suspect.id}", f"began {other.id}"]


def test_a_job_that_makes_progress_survives_more_crashes_than_it_may_have(lab: FaultLab) -> None:
    job = tasks().progressing.enqueue(steps=5)
    (ended,) = keep_one_running(lab, lab.start(), job)
    assert (ended.state, ended.attempt, ended.crashes) == (State.COMPLETED, 6, 0)


# ── taken over at once ───────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["file", "server"])
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "file":
        yield None
        return
    with Engine() as engine, running_server(engine) as server:
        yield server.url


@pytest.fixture
def any_lab(url: str | None, make_lab: Callable[..., FaultLab]) -> FaultLab:
    """On a file, and over a server."""
    return make_lab(url=url)


def test_a_killed_workers_job_is_taken_over_though_its_lease_lasts_an_hour(any_lab: FaultLab) -> None:
    job = tasks().good.enqueue()
    first = any_lab.start(name="first")
    wait_for_owner(any_lab, job, "first")
    any_lab.start(name="second")
    first.kill()
    (ended,) = any_lab.wait(job.id)
    assert (ended.state, ended.attempt) == (State.COMPLETED, 2)
    (taken,) = [event for event in ended.events if event.type == "taken_over"]
    assert (taken.owner, taken.detail) == ("second", "from first, whose process has ended: it runs alone now")


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_worker_that_is_started_later_takes_it_over_also_under_the_same_name(lab: FaultLab, name: str) -> None:
    job = tasks().good.enqueue()
    first = lab.start(name="first")
    wait_for_owner(lab, job, "first")
    first.kill()
    lab.start(name=name)
    (ended,) = lab.wait(job.id)
    assert (ended.state, ended.attempt) == (State.COMPLETED, 2)


def test_a_frozen_workers_job_is_not_taken_before_its_lease_ends(lab: FaultLab) -> None:
    of_frozen = tasks().good.enqueue()
    frozen = lab.start(name="frozen")
    wait_for_owner(lab, of_frozen, "frozen")
    frozen.freeze()
    of_killed = tasks().good.enqueue()
    killed = lab.start(name="killed")
    wait_for_owner(lab, of_killed, "killed")
    killed.kill()
    lab.start(name="third")
    (ended,) = lab.wait(of_killed.id)
    assert ended.state is State.COMPLETED, "the third one sees who has ended"
    lab.wait(tasks().quick.enqueue().id)
    held = lab.app.get(of_frozen.id)
    assert held.lease is not None
    assert (held.lease.owner, held.attempt) == ("frozen", 1)


def test_a_child_of_a_killed_worker_that_lives_on_keeps_nothing(lab: FaultLab) -> None:
    job = tasks().forking.enqueue()
    first = lab.start(name="first")
    wait_until(lambda: bool(tasks().traced()), "it forks")
    lab.start(name="second")
    first.kill()
    child = int(tasks().traced()[0].split()[1])
    try:
        (ended,) = lab.wait(job.id)
        assert (ended.state, ended.attempt) == (State.COMPLETED, 2)
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_worker_that_is_killed_while_it_stops_is_no_crash(lab: FaultLab) -> None:
    job = tasks().good.enqueue()
    first = lab.start(name="first")
    wait_for_owner(lab, job, "first")
    first._process.terminate()
    registry = WorkerRegistry(lab.app.store.db, lab.app.store.layout)
    wait_until(lambda: any(line.stopping for line in registry.lines()), "it writes down that it stops")
    first.kill()
    lab.start(name="second")
    (ended,) = lab.wait(job.id)
    assert ended.state is State.COMPLETED
    (taken,) = [event for event in ended.events if event.type == "taken_over"]
    assert taken.detail == "from first: no crash, it was told to stop"
    assert not ended.suspect


def test_the_line_of_a_worker_that_has_ended_goes_when_its_jobs_are_taken_over(lab: FaultLab) -> None:
    first = lab.start(name="first")
    registry = WorkerRegistry(lab.app.store.db, lab.app.store.layout)
    wait_until(lambda: [line.name for line in registry.lines()] == ["first"], "it signs on")
    first.kill()
    lab.start(name="second")
    wait_until(lambda: [line.name for line in registry.lines()] == ["second"], "the line of the first one goes")
