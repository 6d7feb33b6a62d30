"""Work that nobody's call pays for: building indexes, ending delays, deleting what has expired.

1. `run_due` does one round of everything that is due by the engine's clock, in short transactions, and says when to
   look again. A test with a clock of its own calls it; otherwise one thread of the engine does.
2. The thread starts when there is first something to wait for, and holds nothing back: it is a daemon, and every step
   of its work can be cut off by `kill -9` and is taken up again by whoever opens the file next.
3. A step touches at most `MOST_ROWS` rows, and about `MOST_BYTES` of items. Within that, how many it touches follows
   the time that the last steps of its kind took: about `STEP_SECONDS` each.
4. Before a step, the work waits for the checkpoint that is under way, and holds no lock meanwhile: the log stays short,
   and no other write comes to wait for it.
5. What is small is done within the call that asks for it: nobody then has to wait for the background.
6. To drop a large SQL table takes SQLite seconds, in which nobody else can write. So it becomes garbage: it gets
   another name, in the transaction that ends its use; its rows are deleted in steps, and the empty table is dropped. A
   reader with an older catalog finds no table of the name that it knows, and looks again. The name alone says what is
   garbage, so that whoever opens the file next finds it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.storage import file_format
from penstock.engine.storage.database_file import Connection
from penstock.engine.storage.write_lock import is_busy
from penstock.errors import DatabaseLost

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.recovery.restores import Run

Chore = Callable[["Engine"], float | None]
"""Does what is due of one kind of work; seconds until there is more, or None if there is none to expect."""

CHORES: list[Chore] = []

# The files that register chores. They are imported by the first round: a database with no such work starts sooner.
_HOMES = (
    "items.index_backfill",
    "items.vector_rows",
    "ttl_sweeper",
    "streams",
    "items.pitr_journal",
    "recovery.backups",
    "recovery.restores",
    "operations.table_description",
    "transfers.runner",
)

_LOG = logging.getLogger(__name__)

# A round never waits longer than this: another process may have made work that nobody told us of.
_LONGEST_WAIT_SECONDS = 5.0
_SHORTEST_WAIT_SECONDS = 0.001
# What is found when a file is opened waits so long: a command that only reads is over by then, and has imported less.
_OPENING_SECONDS = 0.5

_REST: Final = 0.5
"""How long the thread rests after a round, in terms of the round: others write meanwhile, here or elsewhere."""

_LEFT = """
SELECT EXISTS (SELECT 1 FROM streams)
OR EXISTS (SELECT 1 FROM backups WHERE expires_at IS NOT NULL OR instr(record, '"copy":'))
OR EXISTS (SELECT 1 FROM sqlite_master WHERE name GLOB 'garbage_*')
"""
"""Whether there is work that no table speaks for: its table is gone, or it is a backup's."""


def chore(work: Chore) -> Chore:
    """Registers a kind of background work."""
    CHORES.append(work)
    return work


class Maintenance:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._passed_over: set[str] = set()
        self.step_sizes = StepSizes()
        self.index_runs: dict[str, Run] = {}

    def run_due(self) -> float | None:
        """One round; seconds until the next one is due, or None if there is nothing to wait for.

        Where a kind of work fails, the others are done before its error is raised.
        """
        for home in _HOMES:
            import_module(f"penstock.engine.{home}")
        waits: list[float] = []
        failures: list[Exception] = []
        for work in CHORES:
            try:
                wait = work(self._engine)
            except Exception as error:  # the others' work is not to wait for it: one damaged table concerns only itself
                failures.append(error)
            else:
                waits += [] if wait is None else [wait]
        if failures:
            raise failures[0]
        return min(waits) if waits else None

    def pass_over(self, table: str, error: sqlite3.DatabaseError) -> None:
        """Says, once, that a table's work cannot be done; anything that is not damage is raised again."""
        if "malformed" not in str(error):
            raise error
        if table not in self._passed_over:
            self._passed_over.add(table)
            _LOG.error("Background work of a table cannot be done: %s", self._engine.store.trouble(error, table))

    def is_passed_over(self, table: str) -> bool:
        return table in self._passed_over

    def wake(self) -> None:
        """Says that there may be work now; starts the thread if it does not run yet."""
        self._start()
        self._wake.set()

    def _start(self) -> None:
        """Starts the thread, if it does not run yet. Its first round is when it is woken, or a moment later."""
        with self._starting:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._loop, name="penstock-maintenance", daemon=True)
                self._thread.start()

    def wake_if_due(self) -> None:
        """When a file is opened: takes up what another process left."""
        if self._engine.store.memory:
            return
        db = self._engine.store.connection()
        left = db.execute(_LEFT).fetchone()[0] or _has_transfers(db)
        if left or any(_has_work(table.record) for table in self._engine.catalog.all(db)):
            self._start()

    def notice(self, record: object) -> None:
        """When a table's record has been read: the process that did its work may have gone since this one began."""
        if _has_work(record):
            self.take_up()

    def take_up(self) -> None:
        """When work was seen that another process has begun, and may have left."""
        if self._thread is None and not self._stopping:
            self._start()

    def stop(self) -> None:
        """Ends the thread after the step it is at."""
        with self._starting:
            self._stopping = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        self._wake.wait(_OPENING_SECONDS)
        while not self._stopping and not self._engine.store.watch.failure:
            self._wake.clear()
            with self._engine.store.lock:
                pass  # who woke us may still be in the transaction that has made the work
            began = perf_counter()
            wait = self._round()
            if self._stopping:
                return
            if wait is None:
                self._wake.wait(_LONGEST_WAIT_SECONDS)
            else:
                rest = max((perf_counter() - began) * _REST, _SHORTEST_WAIT_SECONDS)
                self._wake.wait(min(max(wait, rest), _LONGEST_WAIT_SECONDS))

    def _round(self) -> float | None:
        try:
            return self.run_due()
        except DatabaseLost as lost:
            _LOG.error("Background work has ended: %s", lost)
            return None
        except Exception as error:
            if isinstance(error, sqlite3.Error) and is_busy(error):
                return _SHORTEST_WAIT_SECONDS  # another process reads the log anew, which is soon done
            # A full disk, or a file that another process holds: the work is still there when that is over.
            _LOG.exception("Background work failed; it is tried again in %s s.", _LONGEST_WAIT_SECONDS)
            return _LONGEST_WAIT_SECONDS


def _has_transfers(db: Connection) -> bool:
    """Whether there are exports or imports that are not over; their table is made by the first one."""
    if not is_there(db, "transfers"):
        return False
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM transfers WHERE status = 'IN_PROGRESS')").fetchone()[0])


def _has_work(record: object) -> bool:
    if not isinstance(record, dict):
        return False
    building = any("backfill_cursor" in index for index in record.get("GlobalSecondaryIndexes", ()))
    members = ("ttl", "stream", "pitr", "unsettled", "VectorIndexes")
    return bool(building or any(record.get(member) for member in members))


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────


STEP_SECONDS: Final = 0.005
MOST_ROWS = 2_000
MOST_BYTES = 1024 * 1024
AT_ONCE_ROWS = 5_000
AT_ONCE_BYTES = 4 * 1024 * 1024
"""What a call does itself of copying or dropping: it takes some tens of milliseconds."""

_FIRST_ROWS: Final = 200
_LEAST_ROWS: Final = 10
_MOST_GROWTH: Final = 1.25  # slowly, because the next step may be a slower one; and back at once
_MOST_CUT: Final = 0.25


class Step(NamedTuple):
    """The transaction of a step, and how many rows it may touch."""

    context: OperationContext
    rows: int


class StepSizes:
    """How many rows an engine's next step of each kind of work may touch."""

    def __init__(self) -> None:
        self._rows: dict[str, float] = {}

    def rows(self, kind: str) -> int:
        return min(max(round(self._rows.get(kind, _FIRST_ROWS)), 1), MOST_ROWS)

    def note(self, kind: str, seconds: float) -> None:
        """Takes notice of how long a step took."""
        change = min(max(STEP_SECONDS / max(seconds, 1e-6), _MOST_CUT), _MOST_GROWTH)
        wanted = self._rows.get(kind, _FIRST_ROWS) * change
        self._rows[kind] = min(max(wanted, _LEAST_ROWS), MOST_ROWS)


@contextmanager
def step(engine: Engine, kind: str) -> Iterator[Step]:
    """The write transaction of one step."""
    sizes = engine.maintenance.step_sizes
    engine.store.await_checkpoint()
    with engine.writing() as context:
        began = perf_counter()  # the turn at the lock is not the step's
        yield Step(context, sizes.rows(kind))
    sizes.note(kind, perf_counter() - began)


def is_small(db: Connection, items: str) -> bool:
    """Whether an SQL table of items is so small that a call may copy or drop all of it."""
    rows, size = db.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM {items} LIMIT ?)",  # noqa: S608
        (AT_ONCE_ROWS + 1,),
    ).fetchone()
    return bool(rows <= AT_ONCE_ROWS and size <= AT_ONCE_BYTES)


def range_end(db: Connection, items: str, after: bytes, rows: int) -> bytes | None:
    """The last key of the next rows of an SQL table of items, so many or so large; None where there are no more."""
    end, size = None, 0
    found = db.execute(
        f"SELECT key, size FROM {items} WHERE key > ? ORDER BY key LIMIT ?",  # noqa: S608
        (after, rows),
    )
    with closing(found):
        for key, item_bytes in found:
            end = key
            size += item_bytes
            if size >= MOST_BYTES:
                break
    return end


# ── garbage: dropped tables ───────────────────────────────────────────────────────────────────────


PATTERN: Final = "garbage_*"
_NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?"


def discard_items(context: OperationContext, name: str) -> None:
    """Takes an SQL table of items out of use, if it is there."""
    if is_there(context.db, name):
        _discard(context, name, is_small(context.db, name))


def discard(context: OperationContext, name: str) -> None:
    """The same for an SQL table of small rows: an index's, a TTL's."""
    if is_there(context.db, name):
        rows = context.db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT ?)",  # noqa: S608
            (AT_ONCE_ROWS + 1,),
        ).fetchone()[0]
        _discard(context, name, rows <= AT_ONCE_ROWS)


def is_there(db: Connection, name: str) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


def _discard(context: OperationContext, name: str, is_small: bool) -> None:
    if is_small:
        file_format.drop(context.db, name)
        return
    # A TTL that is switched off, on and off again leaves garbage of the same name.
    file_format.rename(context.db, name, f"{PATTERN[:-1]}{name}_{os.urandom(4).hex()}")
    context.engine.maintenance.wake()


@chore
def sweep_garbage(engine: Engine) -> float | None:
    """One step: deletes some rows of a table, or drops one that has few left."""
    with engine.reading() as context:
        names = [name for (name,) in context.db.execute(_NAMES, (PATTERN,)).fetchall()]
    name = next((name for name in names if not engine.maintenance.is_passed_over(name)), None)
    if name is None:
        return None
    try:
        with step(engine, "garbage") as (context, rows):
            if is_there(context.db, name):  # or another process was first
                _sweep(context.db, name, rows)
    except sqlite3.DatabaseError as error:
        engine.maintenance.pass_over(name, error)
    return 0.0


def _sweep(db: Connection, name: str, rows: int) -> None:
    columns = db.execute(f"PRAGMA table_info({name})").fetchall()
    key = ", ".join(column[1] for column in sorted(columns, key=lambda column: column[5]) if column[5])
    has_sizes = any(column[1] == "size" for column in columns)
    end: tuple[object, ...] | None
    if has_sizes:
        last = range_end(db, name, b"", rows)
        end = None if last is None else (last,)
    else:
        end = db.execute(f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1 OFFSET ?", (rows - 1,)).fetchone()  # noqa: S608
    if end is None:  # what is left is less than a step
        file_format.drop(db, name)
        return
    marks = ", ".join("?" * len(end))
    db.execute(f"DELETE FROM {name} WHERE ({key}) <= ({marks})", end)  # noqa: S608
