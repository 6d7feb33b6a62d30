"""A worker of the fault lab: `python -m penstock.testing.lab_worker module:app '{"skew_seconds": 3}'`.

What `penstock worker` does, with a clock that is wrong and a database that fails, as told.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import Retrying
from penstock.clock import Clock
from penstock.jobs.app import App, load_app
from penstock.jobs.worker.worker import Worker
from penstock.records.forks import for_handlers, not_in_children


class SkewedClock:
    """A clock that goes wrong by a fixed number of seconds."""

    def __init__(self, clock: Clock, skew_seconds: float) -> None:
        self._clock = clock
        self._skew = skew_seconds

    def now(self) -> float:
        return self._clock.now() + self._skew


def hurt(app: App, *, skew_seconds: float = 0.0, faults: dict[str, float] | None = None, seed: int = 0) -> None:
    """Gives an app a wrong clock, and a database whose calls fail at these rates (and are retried, as everywhere)."""
    db = app.store.db
    if faults:
        db = Database(Retrying(Faults(db.transport, Rates(**faults), seed=seed)))
    app.use(db, clock=SkewedClock(app.store.clock, skew_seconds))


def main(place: str, told: str) -> None:
    orders: dict[str, Any] = orjson.loads(told)
    app = load_app(place)
    hurt(app, **orders.get("hurt", {}))
    worker = Worker(app, name=orders.get("name"), **orders.get("worker", {}))
    stop = for_handlers(worker.stop)
    signal.signal(signal.SIGTERM, not_in_children(lambda number, frame: stop()))
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
