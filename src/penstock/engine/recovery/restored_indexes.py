"""Indexes of a table that is being restored, filled in the order of their own keys.

1. Nobody writes to the table yet, so that what was read of it stays true. Entries are therefore gathered from many
   items, a *run*, put in order, and only then written: neighbours lie on the same pages, and a page is written for
   several rows, where an index that is filled beside writers (index_backfill.py) writes one for each.
2. A run lies in memory, and is bounded. The place in the index's record moves on when all of the run is written: a run
   that was cut off is begun anew, and writes the same rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Final

import orjson

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.maintenance import steps
from penstock.wire.values import base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

RUN_ROWS = 50_000
RUN_BYTES: Final = 16 * 1024 * 1024
"""Of keys in a run: with what Python needs for them it takes about twice as much."""


class Run:
    """What has been gathered from the place that the filling of an index has reached."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.end = binary(place)
        self.is_last = False
        self.is_gathered = False
        self.pieces: list[list[tuple[bytes, bytes]]] = []
        """Each in order. To sort all of a run at once would keep other threads waiting for tens of milliseconds."""
        self.in_order: Iterator[tuple[bytes, bytes]] = iter(())
        self.rows = 0
        """That are not written yet."""
        self.bytes = 0


def fill_on(engine: Engine, table: TableInfo, index: IndexInfo) -> None:
    """One step of filling an index of a table that nobody writes to."""
    runs = engine.maintenance.index_runs
    run, place = runs.get(index.storage), index.record["backfill_cursor"]
    if run is None or run.place != place:
        run = runs[index.storage] = Run(place)
    if not run.is_gathered:
        _gather(engine, table, index, run)
        return
    del runs[index.storage]  # unless all goes well: rows that were taken and not written are gathered again
    if _write(engine, table, index, run):
        runs[index.storage] = run


def _gather(engine: Engine, table: TableInfo, index: IndexInfo, run: Run) -> None:
    """Reads some items more. It needs no lock but Python's own, for which other threads wait: so it takes steps too."""
    sizes, began = engine.maintenance.step_sizes, perf_counter()
    with engine.reading() as context:
        end = steps.range_end(context.db, table.storage, run.end, sizes.rows("gather"))
        found = context.db.execute(
            f"SELECT key, item FROM {table.storage} WHERE key > ? AND key <= ?",  # noqa: S608
            (run.end, end or b""),
        ).fetchall()
    entries = ((index.entry(orjson.loads(item), key), key) for key, item in found)
    piece = sorted((entry, key) for entry, key in entries if entry is not None)
    run.pieces.append(piece)
    run.rows += len(piece)
    run.bytes += sum(len(entry) + len(key) for entry, key in piece)
    run.is_last = end is None
    run.end = end or run.end
    if run.is_last or run.rows >= RUN_ROWS or run.bytes >= RUN_BYTES:
        run.in_order = heapq.merge(*run.pieces)
        run.is_gathered = True
    sizes.note("gather", perf_counter() - began)


def _write(engine: Engine, stale: TableInfo, index: IndexInfo, run: Run) -> bool:
    """Writes some rows of the run; whether there are more, and they are still wanted."""
    with steps.step(engine, "run") as (context, rows):
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        now = table.indexes.get(index.name) if table is not None and table.id == stale.id else None
        if table is None or now is None or now.record.get("backfill_cursor") != run.place:
            return False  # another process was first
        some = list(islice(run.in_order, rows))
        run.rows -= len(some)
        context.db.executemany(index.sql_put, some)
        if not run.rows:
            index_backfill.save_place(context, table, index.name, None if run.is_last else base64_text(run.end))
    return bool(run.rows)
