"""What the soak is made of: a database, workers as processes, a producer, and the harm that is done to them."""

from __future__ import annotations

import argparse
import heapq
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

import penstock
from penstock.client.database import connect
from penstock.client.wrappers.retries import RequestRetries
from penstock.errors import PenstockError
from penstock.jobs.model.job import History, Job
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS
from penstock.jobs.store.store import JobStore
from penstock.testing.fault_lab import held_file
from penstock.testing.invariants import broken_rules
from trust.ledger import POISONED, Account, Ledger, StoredJob
from trust.soak_producer import LIMITS, SIDE_QUEUE, Producer
from trust.soak_worker import failing

_SLOTS: Final = 4
_LOOK_SECONDS: Final = 0.3
_PATIENT: Final = RequestRetries(attempts=50, cap_seconds=1.0)
_GOOD_ENDS: Final = (0, -signal.SIGTERM, POISONED)
"""Of a worker that was asked to stop; the second if it had only just been started."""
_ROOT: Final = Path(__file__).parent.parent
_LONGEST_FREEZE: Final = 3.5
"""In leases."""
_OUTAGE_SECONDS: Final = (0.5, 10.0)
_PAUSED_SECONDS: Final = (4.0, 8.0)
_HARM_CHANCE: Final = 0.75
"""That a run has a harm: where one is left out, what the others do is not excused by it."""


class Process:
    """A worker process; `name` is what its leases say."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self.is_frozen = False
        self._process = subprocess.Popen(command, env=environment, cwd=_ROOT)

    def signal(self, number: int) -> None:
        self.is_frozen = number == signal.SIGSTOP
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_seconds: float = 60.0) -> int:
        """As a deployment does; what it ended with."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    @property
    def ended_with(self) -> int | None:
        return self._process.poll()


class Served:
    """`penstock serve` on a file, which can be killed and comes back on the same port."""

    def __init__(self, file: Path, *more: str) -> None:
        self._file = file
        self._more = more
        self._port = "0"
        self.url = ""
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "penstock", "serve", "--db", str(self._file), "--port", self._port, "--json"]
        self._process = subprocess.Popen([*command, *self._more], stdout=subprocess.PIPE, cwd=_ROOT)
        assert self._process.stdout is not None
        self.url = orjson.loads(self._process.stdout.readline())["url"]
        self._port = self.url.rpartition(":")[2]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)


class World:
    """See above; `with World(…) as world`. `troubles` is what went wrong outside of the database."""

    def __init__(
        self, folder: Path, way: str, options: argparse.Namespace, draw: random.Random, seconds: float
    ) -> None:
        self._folder = folder
        self._options = options
        self._draw = draw
        limits = ["--throttle"] if draw.random() < 0.5 else []  # each call by itself, and limits of throughput
        self._served = Served(folder / "soak.db", *limits) if way == "http" else None
        url = options.url or (self._served.url if self._served else str(folder / "soak.db"))
        self.ledger_path = folder / "ledger.jsonl"
        self._environment = os.environ | {
            "PENSTOCK_DB": url,
            "PENSTOCK_FILES": str(folder / "files"),
            "SOAK_LEDGER": str(self.ledger_path),
            "SOAK_LEASE": str(options.lease),
        }
        os.environ.update(self._environment)
        sys.modules.pop("trust.soak_tasks", None)  # its app belongs to one world's database
        from trust import soak_tasks

        self.ledger = Ledger(self.ledger_path)
        self._db = connect(url) if self._served is None and not options.url else connect(url, retries=_PATIENT)
        self.store = JobStore(self._db)
        self.store.create_tables()
        self._db.execute("CreateTable", soak_tasks.RECORDS_TABLE)
        app: penstock.App = soak_tasks.app
        app.use(failing(app.store.db, options.faults, options.seed))
        self._app = app
        self._harms = self._chosen_harms()
        self._producer = Producer(
            app,
            self.ledger,
            random.Random(draw.random()),
            rate=options.rate,
            seconds=seconds,
            poisons=not options.calm and draw.random() < _HARM_CHANCE,
        )
        self._is_away = self._is_paused = False
        self._held = ExitStack()
        self._rare_from = time.monotonic() + seconds / 2
        self._workers: list[Process] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._started = 0
        self.troubles: list[str] = []

    def __enter__(self) -> World:
        if self._options.faults:
            self.ledger.note("hurt", how="faults")
        for _ in range(self._options.workers):
            self._workers.append(self._start("jobs"))
        self._workers.append(self._start("records"))
        self._producer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            if worker.ended_with is None:
                worker.kill()
        self._held.close()
        self._app.close()
        self._db.close()
        if self._served is not None:
            self._served.kill()

    def _start(self, what: str, *, lacks: list[str] | None = None) -> Process:
        """`lacks`: tasks that it does not have; later in a run, some workers have all."""
        self._started += 1
        if lacks is None:
            lacks = ["rare"] if time.monotonic() < self._rare_from or self._draw.random() < 0.5 else []
        name = f"{what}-{self._started}"
        orders = {
            "name": name,
            "slots": _SLOTS,
            "clock": str(self._clock_of(name)),
            "faults": self._options.faults,
            "seed": self._options.seed + self._started,
            "lacks": lacks,
        }
        command = [sys.executable, "-m", "trust.soak_worker", what, orjson.dumps(orders).decode()]
        return Process(name, command, self._environment | {"SOAK_WORKER": name})

    def _clock_of(self, name: str) -> Path:
        return self._folder / f"{name}.clock"

    # ── harm ─────────────────────────────────────────────────────────────────────────────────────────

    def live_through(self, seconds: float) -> None:
        """Does harm at random, and looks at what the store says meanwhile."""
        end = time.monotonic() + seconds
        harm_at = look_at = time.monotonic() + 0.5
        while (now := time.monotonic()) < end:
            if now >= harm_at and not self._options.calm:
                self._hurt()
                harm_at = time.monotonic() + self._options.pace * self._draw.uniform(0.3, 1.7)
            if now >= look_at:
                self._look()
                look_at = time.monotonic() + _LOOK_SECONDS
            self._do_due(now)
            time.sleep(0.02)

    def _chosen_harms(self) -> list[tuple[int, Callable[[], None]]]:
        """With their weights; some of all, so that runs differ. The others do not come more often instead."""
        harms: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._freeze),
            (3, self._jump),
            (1, self._replace),
            (0 if self._options.url else 1, self._stop_database),
            (1, self._pause_queue),
        ]
        return [(weight, do if self._draw.random() < _HARM_CHANCE else _do_nothing) for weight, do in harms]

    def _hurt(self) -> None:
        (_, harm), *_ = self._draw.choices(self._harms, [weight for weight, _ in self._harms])
        harm()

    def _kill(self) -> None:
        place = self._draw.randrange(len(self._workers))
        worker = self._workers[place]
        self.ledger.note("hurt", how="kill", worker=worker.name)
        worker.kill()
        self._workers[place] = self._start(worker.name.partition("-")[0])

    def _freeze(self) -> None:
        """For longer than its leases, mostly; it does not know of it when it wakes up."""
        worker = self._draw.choice(self._workers)
        if worker.is_frozen:
            return
        # On a file, it may be in the middle of a write, which nobody else can do then.
        self.ledger.note("hurt", how="freeze", worker=worker.name, locks=self._served is None)
        worker.signal(signal.SIGSTOP)
        self._after(self._draw.uniform(0.5, _LONGEST_FREEZE * self._options.lease), lambda: self._thaw(worker))

    def _thaw(self, worker: Process) -> None:
        if worker.ended_with is None and worker.is_frozen:
            self.ledger.note("thawed", worker=worker.name)
            worker.signal(signal.SIGCONT)

    def _jump(self) -> None:
        worker = self._draw.choice(self._workers)
        seconds = self._draw.choice([0.0, self._draw.uniform(-1, 1) * self._options.jump])
        self.ledger.note("hurt", how="jump", worker=worker.name, seconds=round(seconds, 3))
        self._set_clock(worker.name, seconds)

    def _set_clock(self, name: str, seconds: float) -> None:
        """Whole or not at all: a worker reads it at any time."""
        new = self._folder / "new.clock"
        new.write_text(str(seconds))
        new.replace(self._clock_of(name))

    def _replace(self) -> None:
        """As a deployment does: the old one finishes or hands over while the new one works."""
        place = self._draw.randrange(len(self._workers))
        worker = self._workers[place]
        if worker.is_frozen:
            return
        self.ledger.note("hurt", how="stop", worker=worker.name)
        self._workers[place] = self._start(worker.name.partition("-")[0])
        worker.signal(signal.SIGTERM)
        self._after(15.0, lambda: self._has_ended(worker))

    def _has_ended(self, worker: Process) -> None:
        if worker.ended_with is None:
            worker.kill()
            self.troubles.append(f"{worker.name} was asked to stop, and had not after 15 s")
        elif worker.ended_with not in _GOOD_ENDS:
            self.troubles.append(f"{worker.name} was asked to stop, and ended with {worker.ended_with}")

    def _stop_database(self) -> None:
        """The server is killed or hangs; on a file, somebody else holds its lock. Most are as short as a restart."""
        if self._is_away or (self._served is None and any(worker.is_frozen for worker in self._workers)):
            return  # a frozen worker may hold the file's lock already
        self._is_away = True
        least, most = _OUTAGE_SECONDS
        seconds = self._draw.uniform(least, self._draw.choice([2 * least, 2 * least, most]))
        hangs = self._draw.random() < 0.3
        how = "lock" if self._served is None else "hang" if hangs else "server"
        self.ledger.note("hurt", how=how, seconds=round(seconds, 3))
        self.ledger.note("away")
        if self._served is None:
            self._held.enter_context(held_file(self._folder / "soak.db"))
        elif hangs:
            self._served.signal(signal.SIGSTOP)
        else:
            self._served.kill()
        self._after(seconds, lambda: self._start_database(was_killed=not hangs))

    def _start_database(self, *, was_killed: bool) -> None:
        self._held.close()
        if self._served is not None and was_killed:
            self._served.start()
        elif self._served is not None:
            self._served.signal(signal.SIGCONT)
        self._is_away = False
        self.ledger.note("back")

    def _pause_queue(self) -> None:
        if not self._is_away and not self._is_paused:
            self._is_paused = True
            self.store.pause(SIDE_QUEUE, "soaked")
            self.ledger.note("hurt", how="pause")
            self.ledger.note("paused", queue=SIDE_QUEUE)
            self._after(self._draw.uniform(*_PAUSED_SECONDS), self._resume_queue)

    def _resume_queue(self) -> None:
        if self._is_away:
            self._after(0.5, self._resume_queue)
        elif self._is_paused:
            self.ledger.note("resuming", queue=SIDE_QUEUE)
            self.store.resume(SIDE_QUEUE)
            self._is_paused = False

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, len(self._later), action))

    def _do_due(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            heapq.heappop(self._later)[2]()

    def _look(self) -> None:
        """Who holds the limits' slots, and which workers have ended by themselves."""
        for key, limit in {} if self._is_away else LIMITS.items():
            self.ledger.note("slots", limit_key=key, limit=limit, holders=self.store.side_items.slot_holders(key))
        for place, worker in enumerate(self._workers):
            if worker.ended_with is not None:
                if worker.ended_with != POISONED:
                    self.troubles.append(f"{worker.name} ended by itself, with {worker.ended_with}")
                self._workers[place] = self._start(worker.name.partition("-")[0])

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────

    def calm_down(self) -> None:
        """No more harm: the database is there, all wake up, and clocks are right again."""
        while self._is_away or self._is_paused:
            self._do_due(time.monotonic())
            time.sleep(0.02)
        self._workers.append(self._start("jobs", lacks=[]))
        for worker in self._workers:
            self._thaw(worker)
            self._set_clock(worker.name, 0.0)
        self._producer.finish(180.0, self._look_and_do_due)
        self.troubles += self._producer.undone

    def wait_for_ends(self, timeout_seconds: float) -> list[str]:
        """Waits until nothing is left to do, as an operator who retries what has failed; what never ended."""
        end = time.monotonic() + timeout_seconds
        while True:
            self._retry_failed()
            waiting = [job.id for state in (State.QUEUED, State.PROCESSING) for job in self._found(state)]
            if not waiting:  # a job that goes to and fro between these two may be in neither list
                waiting = [job.id for job in self._found(None) if not job.is_terminal]
            failed = [job.id for job in self._found(State.FAILED) if _has_killed_workers(job)]
            pending = [one for one, record in records_of(self.store).items() if record.get("done") == 0]
            if not waiting and not failed and not pending:
                return []
            if time.monotonic() > end:
                return [
                    f"{one} has not ended after {timeout_seconds:g} s of calm" for one in waiting + failed + pending
                ]
            self._look_and_do_due()
            time.sleep(0.3)

    def _look_and_do_due(self) -> None:
        """Poison ends workers also after the last harm: they are replaced to the end."""
        self._look()
        self._do_due(time.monotonic())

    def _retry_failed(self) -> None:
        for job in self._found(State.FAILED):
            if _has_killed_workers(job) or job.task == "second_chance":
                try:
                    self.store.retry(job.id)
                    self.ledger.note("retried", job=job.id)
                except PenstockError:
                    continue  # another job has its unique key now: later

    def _found(self, state: State | None) -> list[Any]:
        return jobs_of(self.store, state)

    def stop_workers(self) -> None:
        while self._later:  # those that were asked to stop before
            heapq.heappop(self._later)[2]()
        for worker in self._workers:
            code = worker.stop()
            if code not in _GOOD_ENDS:
                self.troubles.append(f"{worker.name} was asked to stop, and ended with {code}")


def _do_nothing() -> None:
    """In place of a harm that a run does not have."""


def _has_killed_workers(job: Any) -> bool:
    """Whether the harm of the soak has made an innocent job fail, which an operator would retry."""
    is_given_up = job.task == "endless" and job.parent_id  # or who has made it would have cancelled it
    is_innocent = job.task != "poison" and not is_given_up
    return is_innocent and job.error is not None and job.error.kind == KILLED_WORKERS


def jobs_of(store: JobStore, state: State | None = None) -> list[Any]:
    found: list[Any] = []
    token: str | None = None
    while True:
        page = store.find(state=state, limit=1_000, token=token)
        found += page.jobs
        token = page.token
        if token is None:
            return found


def records_of(store: JobStore) -> dict[str, dict[str, Any]]:
    from trust.soak_tasks import RECORDS

    return {record["id"]: record for record in store.db.table(RECORDS).scan()}


def account_of(store: JobStore) -> Account:
    """All that the store says."""
    return Account({job.id: _stored(store, job.id) for job in jobs_of(store) if not _came_late(job)}, records_of(store))


def _came_late(job: Job) -> bool:
    """Whether its schedule enqueued it when all had ended, and the workers were told to stop."""
    return job.id.startswith("cron_") and job.state is State.QUEUED and job.attempt == 0


def _stored(store: JobStore, job_id: str) -> StoredJob:
    history = store.history(job_id)
    job = history.job
    return StoredJob(
        id=job.id,
        task=job.task,
        state=job.state.value,
        attempt=job.attempt,
        result=store.load(job, job.result),
        checkpoints={point.name: store.load(job, point.data) for point in history.checkpoints},
        entries=[(entry.number, entry.attempt, entry.message, entry.progress) for entry in history.entries],
        events=[(event.type, event.attempt) for event in history.events],
        broken=broken_rules(history),
        failures=[
            (event.attempt, event.detail.partition(":")[0])
            for event in history.events
            if event.type in ("retrying", "failed")
        ],
        charged=list(_charged(history)),
        error_kind=None if job.error is None else job.error.kind,
        parent=job.parent_id or "",
    )


def _charged(history: History) -> Iterator[str]:
    """The workers whose ends the job was charged with, by its events."""
    for event in history.events:
        found = re.match(r"from (\S+), .*: crash \d+ of", event.detail) if event.type == "taken_over" else None
        name = event.owner if event.type == "parked" else found[1] if found is not None else ""
        if name:
            yield name.partition(":")[0]
