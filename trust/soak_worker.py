"""A worker of the soak: `python -m trust.soak_worker jobs '{"name": …}'`, or `records`.

What `penstock worker` and `penstock records process` do, with a clock that jumps while they run and a database that
fails. Its clock is wrong by the number in a file, which whoever hurts it rewrites.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson

import penstock
from penstock.client.database import Database
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.jobs.worker.worker import Worker
from penstock.records import ProcessingStopped

T = TypeVar("T")

_LOOK_SECONDS = 0.1
FEW_RETRIES = RequestRetries(attempts=4, base_seconds=0.02, cap_seconds=0.5)
"""So few that at 20 % one call in six hundred fails for good, and whatever made it must live with that."""


class JumpingClock:
    """The machine's clock, and as many seconds as the file says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wrong_by = 0.0
        self._look_at = 0.0

    def now(self) -> float:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            self._wrong_by = float(self._path.read_text() or 0) if self._path.exists() else 0.0
        return time.time() + self._wrong_by


def failing(db: Database, rate: float, seed: int) -> Database:
    """The same database, of whose calls so many fail, in every way; latency too."""
    if not rate:
        return db
    kinds = Rates.every_kind(rate)
    rates = Rates(**{kind: getattr(kinds, kind) for kind in kinds.__slots__} | {"latency": rate / 4})
    return Database(Retrying(Faults(db.transport, rates, seed=seed), FEW_RETRIES))


def main(what: str, told: str) -> None:
    orders: dict[str, Any] = orjson.loads(told)
    # What a worker warns of is what it is made to suffer; a program that ends by an exception still shows it.
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    from trust.soak_tasks import app

    clock = JumpingClock(Path(orders["clock"]))
    app.use(failing(_patiently(lambda: app.store).db, orders["faults"], orders["seed"]), clock=clock)
    {"jobs": _work, "records": _process}[what](app, clock, orders)


def _patiently(make: Callable[[], T]) -> T:
    """What it makes; a worker that cannot start while the database is away starts again, as by a supervisor."""
    while True:
        try:
            return make()
        except PenstockError as error:
            if not error.retryable:
                raise
            time.sleep(0.2)


def _work(app: penstock.App, clock: Clock, orders: dict[str, Any]) -> None:
    from trust.soak_tasks import ledger

    for task in orders["lacks"]:
        del app.tasks[task]
    worker = Worker(
        app,
        queues=("default", "side"),
        name=orders["name"],
        concurrency=orders["slots"],
        idle_seconds=0.2,
        grace_seconds=10,
    )
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    ledger.note("works", worker=orders["name"])
    worker.run()


def _process(app: penstock.App, clock: Clock, orders: dict[str, Any]) -> None:
    from trust.soak_tasks import LEASE_SECONDS, RECORDS, handle

    processor = _patiently(
        lambda: penstock.RecordProcessor(
            app.store.db.table(RECORDS),
            index="by-done",
            value=0,
            set={"done": 1, "marks": lambda record: record.get("marks", 0) + 1},
            max_workers=2,
            max_retries=1_000,
            max_crashes=1_000,
            backoff_cap_ms=500,
            lease_seconds=LEASE_SECONDS,
            clock=clock,
        )
    )
    asked = threading.Event()

    def stop(number: int, frame: object) -> None:
        asked.set()
        processor.stop()

    signal.signal(signal.SIGTERM, stop)
    while not asked.wait(0.2):
        with suppress(PenstockError, ProcessingStopped):  # the database is away: the next round goes on
            processor.process_all(handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
