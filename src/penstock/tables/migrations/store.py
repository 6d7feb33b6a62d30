"""What is stored of a migration in `penstock-state`: how far it is on a table, the items that failed, the history.

1. One record for each migration and physical table. It is there from the moment a run begins, and is deleted when the
   migration has been undone.
2. Every write is under the lease ("migration", table): of two processes one works, and the other is told who does.
3. A checkpoint is written after the items that it tells of. A run that was killed does a little again, which changes
   nothing.
4. A failed item is a record of its own, with its key and its error, until it has been migrated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal

import orjson

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.tables.migrations.transform import Failed
from penstock.tables.state.state_table import Entry, Record, StateLease, StateTable
from penstock.wire.values import Item

MOST_FAILED: Final = 1_000
"""Failed items that are kept; a run that has more stops, because `up` is wrong for them."""

_MESSAGE_CHARACTERS: Final = 500

Phase = Literal["running", "applied", "reverting"]


@dataclass(slots=True)
class Counts:
    """Of a run, as far as its last checkpoint told: what was done in the second before a kill is not in it."""

    scanned: int = 0
    changed: int = 0
    deleted: int = 0
    conflicts: int = 0
    """Items that a live writer had changed meanwhile, and that were computed again."""
    failed: int = 0


@dataclass(slots=True)
class Progress:
    """A migration on one table."""

    id: str
    number: int
    checksum: str
    phase: Phase
    places: dict[str, Any] | None = None
    """Where the scan stands; None at its beginning."""
    counts: Counts = field(default_factory=Counts)
    mark: str = ""
    """The backup, or the point in time, from before."""
    started_at: float = 0.0
    ended_at: float = 0.0
    runs: int = 0

    @classmethod
    def parse(cls, form: dict[str, Any]) -> Progress:
        return cls(**{**form, "counts": Counts(**form["counts"])})


@dataclass(frozen=True, slots=True)
class FailedItem:
    record: Record
    key: Item
    error: Failed
    at: float

    @property
    def form(self) -> dict[str, Any]:
        return {"key": self.key, "kind": self.error.kind, "message": self.error.message, "at": self.at}


class MigrationStore:
    """The migrations of one physical table."""

    def __init__(self, db: Database, table: str, *, clock: Clock | None = None, lease_seconds: float = 30.0) -> None:
        self.table = table
        self.clock = clock or SystemClock()
        self.state = StateTable(db, lease_seconds=lease_seconds, clock=self.clock)
        self.thing = ("migration", table)

    def progress(self) -> dict[str, Progress]:
        """What has been begun on the table, by id."""
        return {one.key: Progress.parse(one.value) for one in self.state.records(self.thing)}

    def write(self, progress: Progress, lease: StateLease) -> None:
        record = self.state.record(self.thing, progress.id)
        self.state.put(record, asdict(progress), lease=lease)

    def forget(self, progress: Progress, lease: StateLease) -> None:
        """It is undone (1)."""
        self.clear_failed(progress.id, lease)
        self.state.delete(self.state.record(self.thing, progress.id), lease=lease)

    def append(self, text: str, progress: Progress) -> None:
        details = {"id": progress.id, "phase": progress.phase, "mark": progress.mark, **asdict(progress.counts)}
        self.state.append(Entry("migration", self.table, text, details))

    # ── failed items ─────────────────────────────────────────────────────────────────────────────

    def _failed_thing(self, id: str) -> tuple[str, str]:
        return "migration-failed", f"{self.table}#{id}"

    def failed(self, id: str) -> Iterator[FailedItem]:
        for one in self.state.records(self._failed_thing(id)):
            error = Failed(one.value["kind"], one.value["message"])
            yield FailedItem(one, one.value["key"], error, one.value["at"])

    def add_failed(self, id: str, key: Item, error: Failed, lease: StateLease) -> bool:
        """Keeps a failed item; False if it was known."""
        name = sha256(orjson.dumps(key, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
        record = self.state.record(self._failed_thing(id), name)
        message = error.message[:_MESSAGE_CHARACTERS]
        form = {"key": key, "kind": error.kind, "message": message, "at": round(self.clock.now(), 3)}
        self.state.put(record, form, lease=lease)
        return not record.version

    def remove_failed(self, failed: FailedItem, lease: StateLease) -> None:
        self.state.delete(self.state.record(failed.record.thing, failed.record.key), lease=lease)

    def clear_failed(self, id: str, lease: StateLease) -> None:
        for one in list(self.failed(id)):
            self.remove_failed(one, lease)
