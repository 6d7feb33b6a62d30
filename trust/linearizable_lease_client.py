"""A worker of `trust.linearizable_leases`: claims, reports, sleeps, gives back, and writes down what was granted.

The arguments and the conversation are those of `trust.linearizable_client`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import penstock
from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import Peers, WorkerInfo, WorkerRegistry, is_abandoned
from penstock.processes import this_process
from trust.linearizable_leases import LEASE_SECONDS

JOBS_AT_ONCE = 3


class LeaseClient:
    """One thread's claims."""

    def __init__(self, name: str, db: Database, file: int, draw: random.Random) -> None:
        self.name = name
        self._store = JobStore(db)
        registry = WorkerRegistry(db, self._store.layout)
        now = self._store.clock.now()
        registry.beat(WorkerInfo(name, now, now, ("default",), ("hot",), 1, 0, 0, 0.0, this_process()))
        self._peers = Peers(self._store, registry, wants=lambda job: True)
        self._file = file
        self._draw = draw

    def run(self, until: int) -> None:
        while time.monotonic_ns() < until:
            # Lost leases, lost answers, a server that was killed: all of it is expected here.
            with suppress(PenstockError):
                self._fight()

    def _fight(self) -> None:
        found = self._store.claimable("default", JOBS_AT_ONCE).jobs
        if self._draw.random() < 0.1:
            running = self._store.find(state=State.PROCESSING, limit=100).jobs
            found = (*(job for job in self._peers.judge(running) if is_abandoned(job)), *found)
        if len(found) < JOBS_AT_ONCE and self._draw.random() < 0.02:
            self._store.create(NewJob("hot", {}))
        if not found:
            time.sleep(0.005)
            return
        wanted = self._draw.choice(found)
        began = time.monotonic_ns()
        job = self._store.claim(wanted, self.name, LEASE_SECONDS)
        if job is not None:
            self._note("grant", job, began)
            self._hold(job)

    def _hold(self, job: Job) -> None:
        for _ in range(self._draw.randrange(1, 6)):
            job = self._noted(job, lambda held: self._store.report(held, message="still here"))
            if self._draw.random() < 0.03:
                time.sleep(LEASE_SECONDS * 1.6)  # as if it were frozen: somebody may have the job now
        if self._draw.random() < 0.95:
            self._note("return", job, time.monotonic_ns())
            self._store.requeue(job, "enough")

    def _noted(self, job: Job, write: Callable[[Job], Job]) -> Job:
        began = time.monotonic_ns()
        after = write(job)
        self._note("write", after, began)
        return after

    def _note(self, what: str, job: Job, began: int) -> None:
        number = job.entries if what == "write" else 0
        fact = [what, job.id, job.token, self.name, began, time.monotonic_ns(), number]
        os.write(self._file, json.dumps(fact).encode() + b"\n")


def main() -> None:
    url, path, name, threads, _, seed, _, _ = sys.argv[1:]
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    with penstock.connect(url) as db:
        JobStore(db).ensure_tables()
        clients = [
            LeaseClient(f"{name}{chr(ord('a') + n)}", db, file, random.Random(f"{seed}:{name}:{n}"))
            for n in range(int(threads))
        ]
        print("ready", flush=True)
        until = int(sys.stdin.readline())
        running = [threading.Thread(target=client.run, args=(until,)) for client in clients]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


if __name__ == "__main__":
    main()
