"""One migration on one table: its segments are read side by side, changed, and written conditionally.

1. An item is written only as it was read (transform.py). A refused write brings the item as it is then, and `up` is
   given that one; so what a live writer wrote is never lost, and never overwritten.
2. An item that cannot be migrated is kept with its key and its error, and the others go on.
3. The place of each segment is stored about once a second, after the items before it. Killed at any moment, the next
   run continues there.
4. Before the writes of each round the lease is checked: a run that has lost it writes nothing more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from penstock.errors import ConditionalCheckFailedException, PenstockError, ValidationException
from penstock.optimistic import Contended, Contention
from penstock.tables.data.transfers import Call, ItemTable, Places
from penstock.tables.migrations.store import MOST_FAILED, MigrationStore, Progress
from penstock.tables.migrations.transform import (
    BadResult,
    Changed,
    Failed,
    Transform,
    Unchanged,
    changed_names,
    write_call,
)
from penstock.tables.state.state_table import StateLease
from penstock.wire.limits import WRITE_UNIT_BYTES
from penstock.wire.values import Item, item_size

SEGMENTS: Final = 16
PAGE_ITEMS: Final = 500
"""Items of a page: what a run that is killed does again is at most a second of them."""

PACED_PAGE_ITEMS: Final = 100
"""Where writes are paced or paid for, a page takes longer."""

_CHECKPOINT_SECONDS: Final = 1.0

Tell = Callable[[Progress], object]


class TooManyFailed(PenstockError):
    """The run has stopped: `up` does not fit the items."""

    def __init__(self, migration: str) -> None:
        super().__init__(
            f"{migration}: more than {MOST_FAILED:,} items failed, so it stopped. `penstock tables migrate status` "
            "lists them. Mend the file, and run it again: it starts over with the new one."
        )


class MigrationRun:
    """A migration that this process holds the lease of."""

    def __init__(
        self,
        table: ItemTable,
        transform: Transform,
        store: MigrationStore,
        progress: Progress,
        lease: StateLease,
        *,
        workers: int | None = None,
        tell: Tell = lambda progress: None,
    ) -> None:
        self._table = table
        self._transform = transform
        self._store = store
        self._progress = progress
        self._lease = lease
        self._workers = workers or table.workers
        self._tell = tell
        self._written_at = time.monotonic()

    def run(self, segments: int) -> None:
        """All items that are not done yet. What was done is stored, however it ends."""
        progress = self._progress
        places = Places(segments) if progress.places is None else Places.parse(progress.places)
        limit = PAGE_ITEMS if self._table.pacer is None else PACED_PAGE_ITEMS
        try:
            for pages in self._table.rounds(places, limit=limit, at_once=self._workers):
                self._checkpoint(places)
                self._lease.check(self._lease.seconds / 4)  # (4)
                self.migrate([item for page in pages for item in page.items])
                progress.counts.scanned += sum(page.scanned or len(page.items) for page in pages)
                self._tell(progress)
        finally:
            # A round that was broken off has not moved the places.
            if self._lease.lost is None:
                progress.places = places.form()
                self._store.write(progress, self._lease)

    def retry_failed(self) -> None:
        """The failed items once more, as they are now."""
        failed = {self._table.text_of(one.key): one for one in self._store.failed(self._progress.id)}
        found = self._table.get([one.key for one in failed.values()])
        self._lease.check(self._lease.seconds / 4)
        still = self.migrate(found.values())
        for text, one in failed.items():
            if text not in still:
                self._store.remove_failed(one, self._lease)
        self._progress.counts.failed = len(still)

    def migrate(self, items: Iterable[Item]) -> set[tuple[str, ...]]:
        """Changes these items; those that failed, by their keys."""
        failed: set[tuple[str, ...]] = set()
        contention = Contention(self._table.name)
        left = list(items)
        while left:
            changes = self._changes(left, failed)
            left = self._write(changes, failed)
            if left:
                try:
                    contention.wait()
                except Contended as error:
                    for item in left:
                        self._fail(item, Failed("Contended", str(error)), failed)
                    return failed
        return failed

    def _changes(self, items: list[Item], failed: set[tuple[str, ...]]) -> list[tuple[Changed, Call]]:
        changes: list[tuple[Changed, Call]] = []
        for item in items:
            outcome = self._transform(item)
            if isinstance(outcome, Unchanged):
                continue
            if isinstance(outcome, Failed):
                self._fail(item, outcome, failed)
                continue
            try:
                operation, request = write_call(self._table.name, self._table.key, outcome, self._transform.guard)
            except BadResult as error:
                self._fail(item, Failed("BadResult", str(error)), failed)
                continue
            changes.append((outcome, (operation, request, self._units(outcome))))
        return changes

    def _units(self, change: Changed) -> float:
        """A guess is needed only where somebody counts."""
        if self._table.pacer is None:
            return 1.0
        larger = max(item_size(change.before), 0 if change.after is None else item_size(change.after))
        return float(math.ceil(larger / WRITE_UNIT_BYTES))

    def _write(self, changes: list[tuple[Changed, Call]], failed: set[tuple[str, ...]]) -> list[Item]:
        """Writes them; the items that others have changed meanwhile, as they are now (1)."""
        counts, again = self._progress.counts, []
        answers = self._table.write_each([call for _, call in changes], workers=self._workers)
        for (change, _), answer in zip(changes, answers, strict=True):
            if not isinstance(answer, PenstockError):
                if change.after is None:
                    counts.deleted += 1
                else:
                    counts.changed += 1
            elif isinstance(answer, ConditionalCheckFailedException):
                if (
                    answer.item is not None
                    and change.after is not None
                    and not changed_names(answer.item, change.after)
                ):
                    counts.changed += 1  # our own write, whose answer was lost, was sent again
                    continue
                counts.conflicts += 1
                if answer.item is not None:  # else it was deleted
                    again.append(answer.item)
            elif isinstance(answer, ValidationException):
                self._fail(change.before, Failed(answer.code, answer.message), failed)
            else:
                raise answer
        return again

    def _fail(self, item: Item, error: Failed, failed: set[tuple[str, ...]]) -> None:
        key = self._table.key_of(item)
        failed.add(self._table.text_of(key))
        if self._store.add_failed(self._progress.id, key, error, self._lease):
            self._progress.counts.failed += 1
        if self._progress.counts.failed > MOST_FAILED:
            raise TooManyFailed(self._progress.id)

    def _checkpoint(self, places: Places) -> None:
        if time.monotonic() - self._written_at >= _CHECKPOINT_SECONDS:
            self._progress.places = places.form()
            self._store.write(self._progress, self._lease)
            self._written_at = time.monotonic()
