"""The fault lab: workers as real processes, hurt in every way that workers are, and the jobs checked at the end.

    def test_a_killed_report_is_finished(fault_lab):
        lab = fault_lab("reports:app", url="reports.db")
        first = lab.start()
        job = monthly_report.enqueue(project="x")
        lab.wait_for_entries(job.id, 3)
        first.kill()
        lab.start()
        lab.wait(job.id)

Beside `kill`, a worker can be frozen and thawed (a zombie that wakes up after its lease), started beside another
(overlap), with a clock that is wrong (`skew_seconds`), and with a database that throttles, times out or loses answers
(`faults`, the rates of penstock.client.wrappers.faults). `with lab.outage():` lets nobody write to the database file,
as a hung program does. When the test ends, all workers are ended and the rules of penstock.testing.invariants are
checked for every job that the lab has seen.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.client.wrappers.faults import Rates
from penstock.jobs.app import App, load_app
from penstock.jobs.model.job import Job
from penstock.jobs.worker.worker import Worker
from penstock.testing.invariants import check

_LOOK_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 60.0
"""How long the lab waits for anything: long, because machines that run tests are busy."""


_HOLD: Final = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
file.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def held_file(path: str | Path) -> Iterator[None]:
    """Another program holds the write lock of this database file."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        assert process.stdout is not None
        if not process.stdout.readline():
            raise TimeoutError(f"{path} could not be locked: another program holds it.")
        yield  # it ends, and the kernel frees the lock, when its input is closed


class LabWorker:
    """A worker process."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self._process = process
        self.name = name

    def kill(self) -> None:
        """As the kernel does when memory is short: nothing more is written."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It stands still, and does not know; its lease runs out meanwhile."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """As a deployment does: tasks finish, or are requeued."""
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None


class FaultLab:
    """An app under test, and its workers."""

    def __init__(self, place: str, *, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._place = place
        self._folder = folder
        self._environment = {**os.environ, **(environment or {})}
        self._workers: list[LabWorker] = []
        self.app: App = load_app(place)

    def start(
        self,
        *,
        name: str | None = None,
        skew_seconds: float = 0.0,
        faults: Mapping[str, float] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> LabWorker:
        """Starts a worker process; `options` are those of Worker (concurrency, burst, queues, idle_seconds, …).

        Options and rates that there are not are refused here: the process would die of them, unseen.
        """
        inspect.signature(Worker).bind(self.app, name=name, **options)
        Rates(**(faults or {}))
        name = name or f"lab-{len(self._workers) + 1}"
        hurt = {"skew_seconds": skew_seconds, "faults": dict(faults or {}), "seed": seed}
        orders = orjson.dumps({"name": name, "hurt": hurt, "worker": options}).decode()
        command = [sys.executable, "-m", "penstock.testing.lab_worker", self._place, orders]
        process = subprocess.Popen(command, cwd=self._folder, env=self._environment)  # noqa: S603
        worker = LabWorker(process, name)
        self._workers.append(worker)
        return worker

    def outage(self) -> AbstractContextManager[None]:
        """While it lasts nobody can write to the database, which is a file."""
        return held_file(self._environment["PENSTOCK_DB"])

    def wait(self, *job_ids: str, timeout_seconds: float = PATIENCE_SECONDS) -> list[Job]:
        """The jobs when they have ended."""
        end = time.monotonic() + timeout_seconds
        return [self.app.wait(one, timeout_seconds=max(1.0, end - time.monotonic())) for one in job_ids]

    def wait_for_entries(self, job_id: str, number: int) -> Job:
        """The job when it has written so many entries of its log."""
        end = time.monotonic() + PATIENCE_SECONDS
        while (job := self.app.get(job_id)).entries < number:
            if time.monotonic() > end:
                raise TimeoutError(f"{job_id} has {job.entries} entries after {PATIENCE_SECONDS:g} s, not {number}.")
            time.sleep(_LOOK_SECONDS)
        return job

    def check(self, *, ended: bool = True) -> None:
        """Checks the rules of every job there is."""
        check(self.app.store, self._job_ids(), ended=ended)

    def _job_ids(self) -> list[str]:
        found: list[str] = []
        token: str | None = None
        while True:
            page = self.app.store.find(limit=1_000, token=token)
            found += [job.id for job in page.jobs]
            token = page.token
            if token is None:
                return found

    def close(self) -> None:
        """Ends every worker, frozen ones too."""
        for worker in self._workers:
            if worker.is_alive:
                worker.kill()

    def __enter__(self) -> FaultLab:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            self.check(ended=False)
        self.app.close()
