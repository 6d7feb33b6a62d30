"""Garbage: SQL tables that nothing means any more, and whose rows are still to be deleted.

1. To drop a large SQL table takes SQLite seconds, in which nobody else can write. So it gets another name, in the
   transaction that ends its use; its rows are then deleted in steps, and the empty table is dropped.
2. From that transaction on nobody can reach the rows: a reader with an older catalog finds no table of the name that it
   knows, and looks again.
3. The name alone says what is garbage, so that whoever opens the file next finds it.
"""

from __future__ import annotations

import secrets
import sqlite3
from typing import TYPE_CHECKING, Final

from penstock.engine.context import OperationContext
from penstock.engine.maintenance import steps
from penstock.engine.maintenance.maintenance import chore
from penstock.engine.storage import database_file
from penstock.engine.storage.database_file import Connection

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

PATTERN: Final = "garbage_*"
_NAMES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?"


def discard_items(context: OperationContext, name: str) -> None:
    """Takes an SQL table of items out of use, if it is there."""
    if is_there(context.db, name):
        _discard(context, name, steps.is_small(context.db, name))


def discard(context: OperationContext, name: str) -> None:
    """The same for an SQL table of small rows: an index's, a TTL's."""
    if is_there(context.db, name):
        rows = context.db.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT ?)",  # noqa: S608
            (steps.AT_ONCE_ROWS + 1,),
        ).fetchone()[0]
        _discard(context, name, rows <= steps.AT_ONCE_ROWS)


def is_there(db: Connection, name: str) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


def _discard(context: OperationContext, name: str, is_small: bool) -> None:
    if is_small:
        database_file.drop(context.db, name)
        return
    # A TTL that is switched off, on and off again leaves garbage of the same name.
    database_file.rename(context.db, name, f"{PATTERN[:-1]}{name}_{secrets.token_hex(4)}")
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
        with steps.step(engine, "garbage") as (context, rows):
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
        last = steps.range_end(db, name, b"", rows)
        end = None if last is None else (last,)
    else:
        end = db.execute(f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1 OFFSET ?", (rows - 1,)).fetchone()  # noqa: S608
    if end is None:  # what is left is less than a step
        database_file.drop(db, name)
        return
    marks = ", ".join("?" * len(end))
    db.execute(f"DELETE FROM {name} WHERE ({key}) <= ({marks})", end)  # noqa: S608
