"""What workers of one machine know of each other (registry.py, 1-4), and suspects in a worker of this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from worker_worlds import work

import penstock
from penstock.cli.jobs import supervisor as supervisor_module
from penstock.cli.jobs.supervisor import Supervisor
from penstock.client.database import Database
from penstock.client.transports.base import Capabilities
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import ChangedJob, copy_with
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker import registry as registry_module
from penstock.jobs.worker.registry import (
    NameTaken,
    Peers,
    WorkerInfo,
    WorkerRegistry,
    abandoned,
    is_abandoned,
    runs_alone,
)
from penstock.jobs.worker.worker import Worker
from penstock.leases import Lease
from penstock.processes import has_ended, this_process
from penstock.retry import Backoff

NOW = 1_900_000_000.0
LEASE = Lease("w1", 1, NOW + 30, 30.0)
LIVING = WorkerInfo("w1", NOW, NOW, ("default",), ("noop",), 1, 0, 0, 0.0, this_process())

needs_proof = pytest.mark.skipif(not this_process(), reason="there is no /proc here: leases decide")


@pytest.fixture(scope="module")
def ended_process() -> str:
    """The name of a process that has ended."""
    code = "from penstock.processes import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


# ── what a line tells of a lease that is not renewed ─────────────────────────────────────────────


@needs_proof
def test_only_the_end_of_its_process_is_proof(ended_process: str) -> None:
    assert has_ended(ended_process)
    assert abandoned(LEASE, replace(LIVING, process=ended_process)).takeable_at == 0
    for line in (None, LIVING, replace(LIVING, process=""), replace(LIVING, process="elsewhere:1:1")):
        assert abandoned(LEASE, line).takeable_at == LEASE.takeable_at


@needs_proof
def test_a_frozen_holder_keeps_its_lease_to_its_end_and_one_whose_pid_another_has_loses_it_at_once() -> None:
    code = "from penstock.processes import this_process; print(this_process(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        line = replace(LIVING, process=process.stdout.readline().strip())
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert abandoned(LEASE, line).takeable_at == LEASE.takeable_at  # it may go on, and then it holds it
        process.send_signal(signal.SIGCONT)
        assert abandoned(LEASE, line).takeable_at == LEASE.takeable_at
        place, pid, began = line.process.split(":")
        before = replace(line, process=f"{place}:{pid}:{int(began) - 1}")  # who had this pid before it
        assert abandoned(LEASE, before).takeable_at == 0
        process.kill()


@pytest.mark.parametrize(
    ("changes", "excuse"),
    [
        ({}, ""),
        ({"stopping": True}, "it was told to stop"),
        ({"killed": "ended by SIGHUP"}, "it was ended by SIGHUP"),
        ({"seen_at": NOW + 31}, "it lives, and could not renew its lease"),
    ],
)
def test_a_holder_that_stops_was_killed_on_purpose_or_lives_has_not_crashed(
    changes: dict[str, object], excuse: str
) -> None:
    lease = abandoned(LEASE, replace(LIVING, **changes))  # type: ignore[arg-type]
    assert lease.excuse == excuse
    job = Job("job_1", "noop", State.PROCESSING, NOW, NOW, NOW, 0, lease=lease)
    assert runs_alone(job) == (not excuse)


@needs_proof
def test_a_worker_that_beat_after_its_lease_and_has_ended_since_may_have_crashed(ended_process: str) -> None:
    assert abandoned(LEASE, replace(LIVING, process=ended_process, seen_at=NOW + 31)).excuse == ""


# ── the registry ─────────────────────────────────────────────────────────────────────────────────


def test_a_line_keeps_what_it_says_and_a_heartbeat_gives_all_lines(app: penstock.App) -> None:
    registry = WorkerRegistry(app.store.db, app.store.layout)
    app.store.create_tables()
    assert registry.beat(LIVING) == [LIVING]
    other = replace(LIVING, name="w2", process="", stopping=True)
    assert sorted(registry.beat(other), key=lambda line: line.name) == [LIVING, other]


@needs_proof
def test_a_supervisors_report_is_of_the_process_with_that_pid_on_this_machine(app: penstock.App) -> None:
    registry = WorkerRegistry(app.store.db, app.store.layout)
    app.store.create_tables()
    pid = int(this_process().split(":")[1])
    registry.beat(LIVING)
    registry.beat(replace(LIVING, name="elsewhere", process=f"elsewhere:{pid}:1"))
    registry.report_killed(pid, "ended by SIGTERM")
    registry.report_killed(pid + 1, "ended by SIGHUP")
    assert {line.name: line.killed for line in registry.lines()} == {"w1": "ended by SIGTERM", "elsewhere": ""}


@needs_proof
def test_two_living_workers_never_have_one_name(app: penstock.App, ended_process: str) -> None:
    """Else the end of one would be taken for the end of the other."""
    registry = WorkerRegistry(app.store.db, app.store.layout)
    app.store.create_tables()
    registry.beat(LIVING, replaces="")
    registry.beat(LIVING, replaces="")
    with pytest.raises(NameTaken):
        registry.beat(replace(LIVING, process="another:1:1"), replaces="")
    registry.beat(replace(LIVING, name="w2", process=ended_process))
    assert len(registry.beat(replace(LIVING, name="w2"), replaces=ended_process)) == 2

    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    registry.beat(replace(LIVING, name="w3", process="another:1:1"))
    worker = Worker(app, name="w3", burst=True)
    worker.run()
    assert worker.name.startswith("w3:")
    assert [line.process for line in registry.lines() if line.name == "w3"] == ["another:1:1"]


def test_a_line_is_removed_only_while_it_is_that_process_s(app: penstock.App) -> None:
    registry = WorkerRegistry(app.store.db, app.store.layout)
    app.store.create_tables()
    registry.beat(replace(LIVING, process="new"))
    registry.leave("w1", "old")
    assert [line.name for line in registry.lines()] == ["w1"]
    registry.leave("w1", "new")
    assert registry.lines() == []


class Counting:
    """The transport of a database somewhere else, that counts what is read."""

    def __init__(self, db: Database) -> None:
        self._transport = db.transport
        self.name = db.transport.name
        self.capabilities = Capabilities()
        self.reads = 0

    def execute(self, operation: str, request: dict[str, object]) -> dict[str, object]:
        self.reads += operation in ("GetItem", "BatchGetItem", "Query", "Scan")
        return self._transport.execute(operation, request)


def test_on_a_metered_database_looking_at_peers_reads_nothing(app: penstock.App) -> None:
    app.store.create_tables()
    counting: Any = Counting(app.store.db)
    db = Database(counting)
    registry = WorkerRegistry(db, app.store.layout)
    peers = Peers(JobStore(db, app.store.layout), registry, wants=lambda job: True)
    peers.update(registry.beat(LIVING))
    for _ in range(10):
        peers._lines_at = 0.0
        assert not peers.look()
        assert peers.find_abandoned() == []
    assert counting.reads == 0


def test_a_worker_knows_its_place_among_those_that_serve_its_queues(app: penstock.App) -> None:
    now = app.store.clock.now()
    living = replace(LIVING, started_at=now, seen_at=now)
    peers = Peers(app.store, WorkerRegistry(app.store.db, app.store.layout), wants=lambda job: True)
    assert peers.place_of("w3", ("default",)) == (0, 1)
    others = {"queues": ("mail",)}, {"stopping": True}, {"seen_at": now - 999}
    peers.update([replace(living, name=name) for name in ("w5", "w1", "w3")])
    assert peers.place_of("w3", ("default",)) == (1, 3)
    peers.update([replace(living, name=f"w{number}", **facts) for number, facts in enumerate(others)])
    assert peers.place_of("w3", ("default",)) == (0, 1)
    assert peers.place_of("w3", ("default", "mail")) == (1, 2)


# ── after an outage, and after a sleep ───────────────────────────────────────────────────────────


def test_after_an_outage_or_a_sleep_the_others_may_renew_first(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch, ended_process: str
) -> None:
    steady = [1_000.0]
    monkeypatch.setattr(registry_module.time, "monotonic", lambda: steady[0])
    peers = Peers(app.store, WorkerRegistry(app.store.db, app.store.layout), wants=lambda job: True)
    awake = [float("inf")]
    monkeypatch.setattr(peers._sleep, "awake_seconds", lambda: awake[0])
    expired = Job("job_1", "noop", State.PROCESSING, NOW, NOW, NOW, 0, lease=abandoned(LEASE, LIVING))
    assert peers.may_take(expired)
    peers.note_outage()
    assert not peers.may_take(expired)
    steady[0] += 60
    assert peers.may_take(expired)
    awake[0] = 9.0
    assert not peers.may_take(expired), "a lease of 30 s is renewed after 10"
    if has_ended(ended_process):
        dead = replace(expired, lease=abandoned(LEASE, replace(LIVING, process=ended_process)))
        assert is_abandoned(dead)
        assert peers.may_take(dead), "who has ended renews nothing"
    awake[0] = 13.0
    assert peers.may_take(expired)


# ── suspects ─────────────────────────────────────────────────────────────────────────────────────


class Company:
    """Which jobs ran while others did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self.order: list[str] = []
        self.beside: dict[str, set[str]] = {}

    def run(self, job_id: str, seconds: float) -> None:
        with self._lock:
            self.order.append(job_id)
            self._running.add(job_id)
            for one in self._running:
                self.beside.setdefault(one, set()).update(self._running - {one})
        time.sleep(seconds)
        with self._lock:
            self._running.discard(job_id)


@pytest.fixture
def company() -> Iterator[Company]:
    yield Company()


def make_suspect(app: penstock.App, job: Job) -> None:
    app.store.change(
        app.get(job.id), lambda one: ChangedJob(copy_with(one, {"suspect": True, "version": one.version + 1}))
    )


def test_a_suspect_behind_a_backlog_runs_next_and_alone_and_then_the_others_together(
    app: penstock.App, company: Company
) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None:
        company.run(ctx.id, 0.02)

    backlog = [noop.enqueue() for _ in range(30)]
    suspects = [noop.enqueue() for _ in range(2)]
    for suspect in suspects:
        make_suspect(app, suspect)
    assert work(app, concurrency=4).completed == 32
    assert [company.beside[job.id] for job in suspects] == [set(), set()]
    assert company.order[:2] == [job.id for job in suspects], "the oldest first"
    assert any(company.beside[job.id] for job in backlog)


def test_a_suspect_waits_for_the_jobs_that_run_and_nothing_more_begins(app: penstock.App, company: Company) -> None:
    begun = threading.Event()

    @app.task()
    def noop(ctx: penstock.JobContext, seconds: float) -> None:
        begun.set()
        company.run(ctx.id, seconds)

    first = noop.enqueue(seconds=1.5)
    worker = Worker(app, concurrency=4, idle_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert begun.wait(60)
        suspect = noop.options(delay=0.3).enqueue(seconds=0.05)
        make_suspect(app, suspect)
        time.sleep(0.6)
        later = noop.enqueue(seconds=0.05)
        for job in (first, suspect, later):
            app.wait(job.id, timeout_seconds=60)
    finally:
        worker.stop()
        thread.join(60)
    assert company.beside[suspect.id] == set()
    assert company.order.index(suspect.id) < company.order.index(later.id) or company.beside[later.id] == {first.id}


def test_a_suspect_that_writes_a_checkpoint_is_none_any_more_and_others_begin(app: penstock.App) -> None:
    beside = threading.Event()

    @app.task()
    def long(ctx: penstock.JobContext) -> bool:
        ctx.checkpoint("rows", 1)
        return beside.wait(60)

    @app.task()
    def other(ctx: penstock.JobContext) -> None:
        beside.set()

    job = long.enqueue()
    make_suspect(app, job)
    other.enqueue()
    assert work(app, concurrency=2).completed == 2
    assert app.result(job.id) is True


@pytest.mark.parametrize("max_crashes", [0, -1, 1.5, True, "3", 1_001])
def test_max_crashes_is_a_whole_number(app: penstock.App, max_crashes: int) -> None:
    with pytest.raises(ValueError, match="max_crashes is a whole number"):
        app.task(max_crashes=max_crashes)(lambda ctx: None)


# ── the supervisor of several processes ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", ["ended by SIGTERM"]),
        (
            "signal.signal(1, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGHUP)",
            ["ended by SIGHUP"],
        ),  # nohup ignores it
        ("os.kill(os.getpid(), signal.SIGKILL)", []),
        ("os._exit(9)", []),
    ],
)
def test_a_supervisor_reports_who_was_ended_on_purpose(
    end: str, how: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    monkeypatch.setattr(supervisor_module, "_RESTART", Backoff(0.0))
    supervisor = Supervisor([], 1, 0.0, on_killed=lambda pid, how: reports.append(how))
    monkeypatch.setattr(supervisor, "_start", lambda: subprocess.Popen([sys.executable, "-c", ""]))
    child = subprocess.Popen([sys.executable, "-c", f"import os, signal; {end}"])
    child.wait()
    supervisor._children = [child]
    supervisor._replace_dead(time.monotonic())
    (following,) = supervisor._children
    following.wait()
    assert reports == how


def test_a_supervisor_reports_a_process_before_it_kills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[tuple[bool, str]] = []
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    monkeypatch.setattr(supervisor_module, "_KILL_SECONDS", 0.1)
    supervisor = Supervisor([], 1, 0.0, on_killed=lambda pid, how: reports.append((child.poll() is None, how)))
    supervisor._children = [child]
    supervisor._end()
    child.stdout.close()
    assert reports == [(True, "killed by its supervisor, because it did not stop in time")]


# ── `penstock jobs why` ──────────────────────────────────────────────────────────────────────────


@needs_proof
def test_why_tells_of_an_ended_process_and_of_a_suspect(app: penstock.App, ended_process: str) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    registry = WorkerRegistry(app.store.db, app.store.layout)
    now = app.store.clock.now()
    registry.beat(replace(LIVING, seen_at=now))
    job = noop.enqueue()
    make_suspect(app, job)
    assert "waits for a worker that runs nothing else, because a worker died while it ran" in why(app, job)
    assert app.store.claim(app.get(job.id), "dead", 3_600) is not None
    assert "is running on dead, alone because a worker died while it ran, whose lease ends in" in why(app, job)
    registry.beat(replace(LIVING, name="dead", seen_at=now, process=ended_process))
    assert "was running on dead, whose process has ended; the next worker takes it over" in why(app, job)


def why(app: penstock.App, job: Job) -> str:
    current = app.get(job.id)
    return explain(current, gather(app.store, current))
