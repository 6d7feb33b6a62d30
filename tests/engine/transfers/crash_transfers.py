"""Processes that die in the middle of an export or import: kill -9 by their own hand, after so many events.

    python crash_transfers.py FILE BUCKETS EVENTS

An event is an object that was put, or is about to be, and a transaction that was committed, or is about to be. Says
"dead" by dying, "done" when the work ended before that.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock.client.database import Database, connect
from penstock.engine import maintenance
from penstock.engine.items import index_backfill
from penstock.engine.maintenance import Maintenance
from penstock.engine.recovery import restores
from penstock.engine.storage.database_file import Store
from penstock.engine.transfers import export_files, import_run, item_images, records
from penstock.engine.transfers.runner import Runner
from penstock.files.buckets import FolderBucket


def small_steps() -> None:
    """Makes a small table's work what it is for a large one."""
    setattr(export_files, "FILE_BYTES", 2_000)  # noqa: B010
    setattr(item_images, "ROWS", 7)  # noqa: B010
    setattr(import_run, "_BATCH_RECORDS", 40)  # noqa: B010
    index_backfill.FILL_AT_ONCE = 20
    maintenance.AT_ONCE_ROWS = 20
    maintenance.MOST_ROWS = 60
    restores.RUN_ROWS = 20


class Countdown:
    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def die_after(events: int) -> None:
    count = Countdown(events)
    commit, put = Store.commit, FolderBucket.put

    def counted_commit(self: Store, connection: Any) -> None:
        count()
        commit(self, connection)
        count()

    def counted_put(self: FolderBucket, *given: Any) -> str:
        count()
        etag = put(self, *given)
        count()
        return etag

    Store.commit = counted_commit  # type: ignore[method-assign]
    FolderBucket.put = counted_put  # type: ignore[method-assign]


def finish(db: Database) -> None:
    """Does all that is left, in this thread."""
    engine = db.engine
    engine.maintenance.stop()
    runner = engine.transfers = Runner(engine)
    while True:
        with engine.reading() as context:
            if not records.in_progress(context.db):
                return
        runner.run_step()
        engine.maintenance.run_due()


def main(path: str, buckets: str, events: int) -> None:
    small_steps()
    die_after(events)
    Maintenance.wake = lambda self: None  # type: ignore[method-assign]
    Runner.wake = lambda self: None  # type: ignore[method-assign]
    with connect(Path(path), buckets=buckets) as db:
        finish(db)
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
