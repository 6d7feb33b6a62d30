"""What the soak is made of: a database, workers as processes, a producer, and the harm that is done to them."""

from __future__ import annotations

import argparse
import heapq
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

import penstock
from penstock.client.database import connect
from penstock.client.wrappers.retries import RequestRetries
from penstock.errors import PenstockError
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS
from penstock.jobs.store.store import JobStore
from penstock.testing.invariants import broken_rules
from trust.ledger import Account, Ledger, StoredJob
from trust.soak_producer import Producer
from trust.soak_worker import failing

_PAUSE: Final = (0.2, 1.2)
"""Between two harms."""
_SLOTS: Final = 4
_LOOK_SECONDS: Final = 0.3
_PATIENT: Final = RequestRetries(attempts=50, cap_seconds=1.0)
_GOOD_ENDS: Final = (0, -signal.SIGTERM)
"""Of a worker that was asked to stop; the second if it had only just been started."""
_ROOT: Final = Path(__file__).parent.parent


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


class World:
    """See above; `with World(…) as world`. `troubles` is what went wrong outside of the database."""

    def __init__(self, folder: Path, way: str, options: argparse.Namespace, draw: random.Random) -> None:
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
        self._producer = Producer(app, self.ledger, random.Random(draw.random()), rate=options.rate)
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
        self._app.close()
        self._db.close()
        if self._served is not None:
            self._served.kill()

    def _start(self, what: str) -> Process:
        self._started += 1
        name = f"{what}-{self._started}"
        orders = {
            "name": name,
            "slots": _SLOTS,
            "clock": str(self._clock_of(name)),
            "faults": self._options.faults,
            "seed": self._options.seed + self._started,
        }
        command = [sys.executable, "-m", "trust.soak_worker", what, orjson.dumps(orders).decode()]
        return Process(name, command, self._environment)

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
                harm_at = time.monotonic() + self._draw.uniform(*_PAUSE)
            if now >= look_at:
                self._look()
                look_at = time.monotonic() + _LOOK_SECONDS
            self._do_due(now)
            time.sleep(0.02)

    def _hurt(self) -> None:
        harms: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._freeze),
            (3, self._jump),
            (1, self._replace),
            (1 if self._served else 0, self._kill_server),
        ]
        (_, harm), *_ = self._draw.choices(harms, [weight for weight, _ in harms])
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
        self.ledger.note("hurt", how="freeze", worker=worker.name)
        worker.signal(signal.SIGSTOP)
        self._after(self._draw.uniform(0.5, 3.5), lambda: self._thaw(worker))

    def _thaw(self, worker: Process) -> None:
        if worker.ended_with is None:
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

    def _kill_server(self) -> None:
        assert self._served is not None
        self.ledger.note("hurt", how="server")
        self._served.kill()
        time.sleep(self._draw.uniform(0, 1.0))
        self._served.start()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, len(self._later), action))

    def _do_due(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            heapq.heappop(self._later)[2]()

    def _look(self) -> None:
        """Who holds the limits' slots, and which workers have ended by themselves."""
        from trust.soak_producer import _KEYS, LIMIT

        for key in range(_KEYS):
            holders = self.store.side_items.slot_holders(f"limit{key}")
            self.ledger.note("slots", limit_key=f"limit{key}", limit=LIMIT, holders=holders)
        for place, worker in enumerate(self._workers):
            if worker.ended_with is not None:
                self.troubles.append(f"{worker.name} ended by itself, with {worker.ended_with}")
                self._workers[place] = self._start(worker.name.partition("-")[0])

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────

    def calm_down(self) -> None:
        """No more harm: all wake up, and clocks are right again."""
        for worker in self._workers:
            self._thaw(worker)
            self._set_clock(worker.name, 0.0)
        self._producer.finish(60.0)
        self.troubles += self._producer.undone

    def wait_for_ends(self, timeout_seconds: float) -> list[str]:
        """Waits until nothing is left to do, as an operator who retries what has failed; what never ended."""
        end = time.monotonic() + timeout_seconds
        while True:
            self._retry_failed()
            waiting = [job.id for state in (State.QUEUED, State.PROCESSING) for job in self._found(state)]
            failed = [job.id for job in self._found(State.FAILED) if _has_killed_workers(job)]
            pending = [one for one, record in records_of(self.store).items() if record.get("done") == 0]
            if not waiting and not failed and not pending:
                return []
            if time.monotonic() > end:
                return [
                    f"{one} has not ended after {timeout_seconds:g} s of calm" for one in waiting + failed + pending
                ]
            self._look()
            self._do_due(time.monotonic())
            time.sleep(0.3)

    def _retry_failed(self) -> None:
        for job in self._found(State.FAILED):
            if _has_killed_workers(job):
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


def _has_killed_workers(job: Any) -> bool:
    return job.error is not None and job.error.kind == KILLED_WORKERS


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
    return Account({job.id: _stored(store, job.id) for job in jobs_of(store)}, records_of(store))


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
    )
