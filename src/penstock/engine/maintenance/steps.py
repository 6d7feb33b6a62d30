"""Steps: background work on many rows, in transactions that hold up other writers for some milliseconds each.

1. A step touches at most `MOST_ROWS` rows, and about `MOST_BYTES` of items.
2. Within that, how many it touches follows the time that the last steps of its kind took: about `STEP_SECONDS` each.
3. Before a step, the work waits for the checkpoint that is under way, and holds no lock meanwhile: the log stays short,
   and no other write comes to wait for it.
4. What is small is done within the call that asks for it: nobody then has to wait for the background.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.context import OperationContext
from penstock.engine.storage.database_file import Connection

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

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
