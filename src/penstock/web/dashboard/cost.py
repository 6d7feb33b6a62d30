"""What a job has cost in capacity units, as far as its records tell.

DynamoDB reports what each call consumed to whoever made it, and nobody keeps that by job. But all of a job's writes can
be read from its records: `version` says how often its main record was written, and each record was written once, those
of a report in a transaction with the main record (which costs twice). So the figure is an estimate, and is called one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.jobs.model.job import History
from penstock.jobs.store.store import JobStore
from penstock.wire.values import item_size

_UNIT_BYTES: Final = 1024
_INDEXES: Final = 4
_SAMPLE: Final = 100
"""Entries that are measured: a log may be long, and its lines are much alike."""
_MOVES: Final = 2
"""An index's row that moves is deleted and written."""


@dataclass(frozen=True, slots=True)
class Cost:
    main: int
    """Writes of the main record."""
    records: int
    """Log entries, checkpoints, files."""
    indexes: int

    @property
    def write_units(self) -> int:
        return self.main + self.records + self.indexes


def cost_of(store: JobStore, history: History) -> Cost:
    """An estimate, in write units."""
    job, layout = history.job, store.layout
    each = _units(item_size(layout.main(job)))
    reports = len(history.entries)
    newest = [layout.entry(job, entry).item for entry in history.entries[-_SAMPLE:]]
    others = [layout.checkpoint(job, point).item for point in history.checkpoints]
    others += [layout.file(job, file).item for file in history.files]
    entry_units = sum(_units(item_size(item)) for item in newest) * reports // max(1, len(newest))
    records = 2 * (entry_units + sum(_units(item_size(item)) for item in others))
    # Made: a row in each index. A change of state moves it in two of them; a report moves the end of its lease in one.
    moves = _MOVES * (2 * max(0, len(history.events) - 1) + reports)
    return Cost(each * (job.version + reports), records, _INDEXES + moves)


def _units(size: int) -> int:
    return max(1, -(-size // _UNIT_BYTES))
