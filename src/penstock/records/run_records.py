"""What is known of a run while it goes on and after it: an item of `penstock-record-runs`, in the same database.

1. It is written when the run begins, about once a second while it goes on, and when it ends.
2. Every write but the first is conditional: a run changes its own item alone, and none that has ended.
3. It is for people who look on. A run that cannot write it goes on without.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.values import Item
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.records.executors import Function
from penstock.records.processor import RecordProcessor, new_run_id
from penstock.records.run.report import Progress, Report
from penstock.records.run.run import Interrupted, ProcessingStopped
from penstock.records.runs_table import KEPT_SECONDS, RUNS_TABLE
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table

_EVERY_SECONDS: Final = 1.0
_MOST_KINDS: Final = 50
_DEFINITION: Final = Table(RUNS_TABLE, key="run_id:S", ttl="expires_at", tags={"ManagedBy": "penstock"})

State = Literal["running", "completed", "failed", "interrupted"]
"""`failed` could not go on; a run some of whose records failed has `completed`."""

Tell = Callable[[Progress, Report], object]

_log = logging.getLogger(__name__)


class RunLog:
    """One run's item. `tell` is for `process_all(progress=…)`."""

    def __init__(self, db: Database, run_id: str, table: str, *, clock: Clock | None = None) -> None:
        self._table = db.table(RUNS_TABLE, key="run_id:S")
        self._db = db
        self.run_id = run_id
        self._clock = clock or SystemClock()
        self._about = {"table": table, "host": socket.gethostname(), "pid": os.getpid()}
        self._written_at = 0.0
        self._works = True

    def begin(self, **about: Any) -> None:
        """The run has begun; `about` says what it does."""
        now = round(self._clock.now(), 3)
        item = {"run_id": self.run_id, "state": "running", "started_at": now, "updated_at": now}
        item |= {"expires_at": int(now) + KEPT_SECONDS, **self._about}
        item |= {name: value for name, value in about.items() if value not in (None, (), [], "")}

        def write() -> None:
            make(self._db, _DEFINITION, RUNS_TABLE)
            self._table.put(item, if_=F("run_id").missing())

        self._try(write)

    def tell(self, progress: Progress, report: Report) -> None:
        """How far it is; written once a second."""
        now = time.monotonic()
        if now - self._written_at >= _EVERY_SECONDS:
            self._written_at = now
            facts = {"running": progress.running, "waiting": progress.waiting, "rate": round(progress.rate, 1)}
            self._write(facts | _counts(report) | ({} if progress.total is None else {"total": progress.total}))

    def end(self, state: State, report: Report) -> None:
        ended = {"state": state, "ended_at": round(self._clock.now(), 3), "running": 0, "waiting": 0}
        self._write(ended | _counts(report))

    def _write(self, facts: Mapping[str, Any]) -> None:
        changes = {**facts, "updated_at": round(self._clock.now(), 3)}
        key = {"run_id": self.run_id}
        self._try(lambda: self._table.update(key, set=changes, if_=F("state") == "running"))

    def _try(self, write: Any) -> None:
        if not self._works:
            return
        try:
            write()
        except PenstockError as error:
            self._works = False  # (3)
            _log.warning("The run is not recorded in %s: %s", RUNS_TABLE, error)


def process_recorded(
    processor: RecordProcessor,
    function: Function,
    db: Database,
    table: str,
    *,
    name: str = "",
    index: str | None = None,
    total: int | None = None,
    tell: Tell = lambda progress, report: None,
) -> Report:
    """`process_all`, with its item in the table of runs; `name` is the function's. Raises what that raises."""
    log = RunLog(db, new_run_id(), table)
    log.begin(function=name or getattr(function, "__name__", ""), index=index, total=total)

    def progress(now: Progress, report: Report) -> None:
        tell(now, report)
        log.tell(now, report)

    try:
        report = processor.process_all(function, progress=progress, total=total, run_id=log.run_id)
    except Interrupted as stopped:
        log.end("interrupted", stopped.report)
        raise
    except ProcessingStopped as stopped:
        log.end("failed", stopped.report)
        raise
    log.end("interrupted" if report.interrupted else "completed", report)
    return report


def runs(db: Database) -> Iterator[Item]:
    """The runs that are known, in no order."""
    try:
        yield from db.table(RUNS_TABLE, key="run_id:S").scan()
    except ResourceNotFoundException:
        return


def _counts(report: Report) -> dict[str, Any]:
    form = report.form()
    kinds = dict(report.failures_by_kind.most_common(_MOST_KINDS))
    unwanted = ("run_id", "interrupted", "seconds", "success_rate")
    return {name: value for name, value in form.items() if name not in unwanted} | {"failures_by_kind": kinds}
