"""Several migrations, in their order: what is pending, up, down, verify.

1. Migrations of a table are applied by their numbers. One that comes before an applied one is refused: nobody knows
   whether its items still have the shape that it expects.
2. A file that was changed after it was applied is told, and nothing runs until it is put back or accepted.
3. A migration with failed items is not over: the next one waits until they are migrated (`retry_failed`).
4. Before the first write to a table there is a backup, or a point in time where the table has that, unless it is
   declined.
5. A run that was stopped continues. If its file has changed meanwhile, it starts over: `up` is idempotent, or the
   version attribute says what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.tables.data import backups
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.definition import Naming
from penstock.tables.migrations.migration import BadMigration, Migration, find
from penstock.tables.migrations.preview import SAMPLE, Preview, key_text, preview
from penstock.tables.migrations.run import SEGMENTS, MigrationRun
from penstock.tables.migrations.store import Counts, FailedItem, MigrationStore, Progress
from penstock.tables.migrations.transform import Direction, Failed, Transform, Unchanged
from penstock.tables.plan.changes import count
from penstock.tables.plan.survey import require_table
from penstock.tables.state.state_table import Holder, StateLease
from penstock.wire.values import Item

State = Literal["pending", "running", "applied", "reverting"]


def _quiet(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Options:
    """How a run goes about it."""

    segments: int = SEGMENTS
    workers: int | None = None
    pacer: Pacer | None = None
    backup: bool = True
    sample: int = SAMPLE
    accept_changed: bool = False
    lease_seconds: float = 30.0
    tell: Callable[[Progress], object] = _quiet
    say: Callable[[str], object] = _quiet


@dataclass(frozen=True, slots=True)
class Status:
    """A migration on its table. `migration` is None where the file of an applied one is not there."""

    id: str
    number: int
    table: str
    state: State
    migration: Migration | None
    progress: Progress | None = None
    changed_file: bool = False
    failed: tuple[FailedItem, ...] = ()
    holder: Holder | None = None

    @property
    def form(self) -> dict[str, Any]:
        progress = self.progress
        return {
            "id": self.id,
            "table": self.table,
            "state": self.state,
            "file": None if self.migration is None else str(self.migration.path),
            "changed_file": self.changed_file,
            "counts": None if progress is None else asdict(progress.counts),
            "mark": None if progress is None else progress.mark,
            "started_at": None if progress is None else progress.started_at,
            "ended_at": None if progress is None else progress.ended_at or None,
            "failed": [one.form for one in self.failed],
            "held_by": None if self.holder is None else str(self.holder),
        }


@dataclass(slots=True)
class Verified:
    """How many items of the old shape a table has, though the migration was applied."""

    id: str
    table: str
    scanned: int = 0
    old: int = 0
    failing: int = 0
    """Items that `up` fails for."""
    keys: list[Item] = field(default_factory=list)
    """The first ones."""

    @property
    def form(self) -> dict[str, Any]:
        return asdict(self)


class NotIdempotent(PenstockError):
    """A second `up` changes an item again."""

    def __init__(self, found: Preview) -> None:
        super().__init__(
            f"{found.migration.path}: up() is not idempotent: a second time changes {len(found.unstable)} of "
            f"{found.changed} sampled items again, such as {key_text(found.unstable[0])}. A killed run does "
            "some items twice. Let up() leave items of the new shape as they are, select the old shape with where = …, "
            'or name an attribute for it: version = "schema_version".'
        )


class Migrator:
    """The migrations of a folder on the tables of a database."""

    def __init__(
        self,
        db: Database,
        migrations: tuple[Migration, ...],
        naming: Naming | None = None,
        options: Options | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._db = db
        self._naming = naming or Naming()
        self._migrations = migrations
        self._options = options or Options()
        self._clock = clock
        self._backed_up: dict[str, str] = {}

    # ── looking ──────────────────────────────────────────────────────────────────────────────────

    def statuses(self) -> list[Status]:
        """Every migration that has a file, or was applied to one of their tables; by number."""
        found: list[Status] = []
        for table in dict.fromkeys(one.table for one in self._migrations):
            found += self._table_statuses(table)
        return sorted(found, key=lambda one: (one.number, one.table))

    def _table_statuses(self, table: str) -> Iterator[Status]:
        store = self._store(table)
        known = store.progress()
        holder = store.state.holder(store.thing) if known else None
        for migration in self._migrations:
            if migration.table == table:
                progress = known.pop(migration.id, None)
                state: State = "pending" if progress is None else progress.phase
                changed = progress is not None and progress.checksum != migration.checksum
                failed = () if progress is None else tuple(store.failed(migration.id))
                held = holder if state in ("running", "reverting") else None
                yield Status(
                    migration.id, migration.number, store.table, state, migration, progress, changed, failed, held
                )
        for progress in known.values():
            failed = tuple(store.failed(progress.id))
            yield Status(progress.id, progress.number, store.table, progress.phase, None, progress, failed=failed)

    def to_apply(self, to: str | None = None) -> list[Status]:
        """What `up` would run, in order. Raises for what is in the way (1, 2, 3)."""
        statuses = self.statuses()
        last = None if to is None else find(self._migrations, to).number
        for one in statuses:
            self._refuse_changed(one)
            if one.state == "reverting":
                raise PenstockError(
                    f"{one.id} is being undone on {one.table}. Continue: `penstock tables migrate down`."
                )
        chosen = [
            one for one in statuses if one.state in ("pending", "running") and (last is None or one.number <= last)
        ]
        for one in chosen:
            later = [other for other in statuses if other.table == one.table and other.number > one.number]
            applied = next((other for other in later if other.state != "pending"), None)
            if applied is not None and one.state == "pending":
                raise BadMigration(
                    f"{one.id} comes before {applied.id}, which was applied to {one.table} already. Give it a number "
                    "after it."
                )
        return chosen

    def _refuse_changed(self, one: Status) -> None:
        """(2) A run that is not over starts over with the new file (5); one with failed items may be mended."""
        if one.state == "applied" and one.changed_file and not one.failed and not self._options.accept_changed:
            assert one.migration is not None
            raise BadMigration(
                f"{one.migration.path} has changed since it was applied to {one.table}. Put it back and write a new "
                "migration for what is still to do; or accept it as it is with --accept-changed."
            )

    def preview(self, migration: Migration, direction: Direction = "up") -> Preview:
        """A sample before and after, and the cost."""
        name = self._naming.full_name(migration.table)
        live = require_table(self._db, name, settings=False)
        table, transform = self._table(migration, direction)
        return preview(migration, table, transform, live, sample=self._options.sample)

    def verify(self, ids: tuple[str, ...] = ()) -> list[Verified]:
        """Counts the items of the old shape: for the last applied migration of each table, or for those named."""
        found = []
        for status in self._applied(ids):
            assert status.migration is not None
            table, transform = self._table(status.migration, "up")
            result = Verified(status.id, table.name)
            for pages in table.rounds(Places(self._options.segments), at_once=self._options.workers):
                for page in pages:
                    result.scanned += page.scanned or len(page.items)
                    for item in page.items:
                        self._look(item, table, transform, result)
            found.append(result)
        return found

    def _look(self, item: Item, table: ItemTable, transform: Transform, result: Verified) -> None:
        outcome = transform(item)
        if isinstance(outcome, Unchanged):
            return
        if isinstance(outcome, Failed):
            result.failing += 1
        else:
            result.old += 1
        if len(result.keys) < 5:
            result.keys.append(table.key_of(item))

    def _applied(self, ids: tuple[str, ...]) -> list[Status]:
        """Those named; else the last one of each table: earlier ones know nothing of the shapes that came later."""
        applied = [one for one in self.statuses() if one.state == "applied"]
        if ids:
            wanted = {find(self._migrations, one).id for one in ids}
            missing = wanted - {one.id for one in applied}
            if missing:
                raise PenstockError(
                    f"{', '.join(sorted(missing))} is not applied. `penstock tables migrate up` does it."
                )
            return [one for one in applied if one.id in wanted]
        last = {one.table: one for one in applied if one.migration is not None}
        return list(last.values())

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    def up(self, to: str | None = None) -> Iterator[Status]:
        """Applies what is pending, one after the other; each as it is then. Ends after one with failed items (3)."""
        chosen = self.to_apply(to)
        self._accept_changed()
        self._refuse_failed()
        for one in chosen:
            assert one.migration is not None
            done = self._run(one.migration, "up")
            yield done
            if done.failed:
                return

    def again(self, ids: tuple[str, ...] = ()) -> Iterator[Status]:
        """Applied migrations once more, for items of the old shape that live writers have added."""
        for one in self._applied(ids):
            assert one.migration is not None
            yield self._run(one.migration, "up", again=True)

    def retry_failed(self) -> Iterator[Status]:
        """The failed items once more, with the files as they are now."""
        for one in self.statuses():
            if one.failed and one.migration is not None and one.state == "applied":
                yield self._retry(one.migration)

    def to_revert(self, to: str | None = None) -> list[Migration]:
        """What `down` would undo, the latest first: the last one, or all after `to` (0: all)."""
        done = [one for one in self.statuses() if one.state != "pending"]
        if to is None:
            chosen = done[-1:]
        else:
            last = 0 if to in ("0", "0000") else find(self._migrations, to).number
            chosen = [one for one in done if one.number > last]
        for one in chosen:
            if one.migration is None:
                raise BadMigration(f"{one.id} was applied to {one.table}, and its file is not there. Put it back.")
            if one.migration.down is None:
                self._table(one.migration, "down")  # says why not
        return [one.migration for one in reversed(chosen) if one.migration is not None]

    def down(self, to: str | None = None) -> Iterator[Status]:
        """Undoes them, one after the other."""
        for one in self.to_revert(to):
            done = self._run(one, "down")
            yield done
            if done.failed:
                return

    def _accept_changed(self) -> None:
        for one in self.statuses():
            if one.state == "applied" and one.changed_file and self._options.accept_changed:
                assert one.migration is not None
                assert one.progress is not None
                store = self._store(one.migration.table)
                with store.state.lease(store.thing, purpose="migrate up --accept-changed") as lease:
                    store.write(replace(one.progress, checksum=one.migration.checksum), lease)

    def _refuse_failed(self) -> None:
        for one in self.statuses():
            if one.failed and one.state == "applied":
                raise PenstockError(
                    f"{one.id} has failed for {count(len(one.failed), 'item')} of {one.table}. Mend them, or the file, and run "
                    "`penstock tables migrate up --retry-failed`."
                )

    # ── one of them ──────────────────────────────────────────────────────────────────────────────

    def _run(self, migration: Migration, direction: Direction, *, again: bool = False) -> Status:
        store = self._store(migration.table)
        live = require_table(self._db, store.table)
        with store.state.lease(store.thing, purpose=f"migrate {direction} {migration.id}") as lease:
            found = store.progress().get(migration.id)
            if direction == "up" and found is not None and found.phase == "applied" and not again:
                return self._status(store, migration)  # another process was faster
            if direction == "down" and found is None:
                return self._status(store, migration)
            progress = self._begin(store, migration, direction, found)
            table, transform = self._table(migration, direction)
            if progress.places is None:
                looked = preview(migration, table, transform, live, sample=self._options.sample)
                if looked.is_refused:
                    raise NotIdempotent(looked)
            if found is None or found.phase == "applied":
                progress.mark = self._mark(store.table, pitr=bool(live.table.pitr))
            self._work(store, migration, direction, progress, table, transform, lease)
            return self._status(store, migration)

    def _begin(
        self, store: MigrationStore, migration: Migration, direction: Direction, found: Progress | None
    ) -> Progress:
        """Where to continue; from the beginning if another file, or the other direction, has begun (5)."""
        phase: Literal["running", "reverting"] = "running" if direction == "up" else "reverting"
        if found is not None and found.phase == phase and found.checksum == migration.checksum:
            return replace(found, runs=found.runs + 1)
        if found is not None and found.phase == phase:
            self._options.say(f"{migration.path} has changed since the run began: it starts over.")
        mark = found.mark if found is not None else ""
        return Progress(
            migration.id, migration.number, migration.checksum, phase, mark=mark, started_at=store.clock.now(), runs=1
        )

    def _work(
        self,
        store: MigrationStore,
        migration: Migration,
        direction: Direction,
        progress: Progress,
        table: ItemTable,
        transform: Transform,
        lease: StateLease,
    ) -> None:
        options = self._options
        if progress.places is None:
            store.clear_failed(migration.id, lease)
        store.write(progress, lease)
        run = MigrationRun(table, transform, store, progress, lease, workers=options.workers, tell=options.tell)
        run.run(options.segments)
        self._finish(store, direction, progress, lease)

    def _finish(self, store: MigrationStore, direction: Direction, progress: Progress, lease: StateLease) -> None:
        progress.places, progress.ended_at = None, store.clock.now()
        if direction == "down" and not progress.counts.failed:
            store.append(f"{progress.id} undone: {counts_text(progress.counts)}", progress)
            store.forget(progress, lease)
            return
        if direction == "up":
            progress.phase = "applied"
        store.write(progress, lease)
        store.append(f"{progress.id} {progress.phase}: {counts_text(progress.counts)}", progress)

    def _retry(self, migration: Migration) -> Status:
        store = self._store(migration.table)
        with store.state.lease(store.thing, purpose=f"migrate up --retry-failed {migration.id}") as lease:
            progress = store.progress()[migration.id]
            progress.checksum = migration.checksum
            table, transform = self._table(migration, "up")
            MigrationRun(table, transform, store, progress, lease, workers=self._options.workers).retry_failed()
            store.write(progress, lease)
            store.append(f"{progress.id} failed items again: {counts_text(progress.counts)}", progress)
            return self._status(store, migration)

    def _mark(self, table: str, *, pitr: bool) -> str:
        """(4) One for all migrations of a table that are run together."""
        if not self._options.backup:
            return ""
        if table not in self._backed_up:
            now = (self._clock or SystemClock()).now()
            if pitr:
                self._backed_up[table] = f"point in time {utc_text(now)}"
            else:
                self._options.say(
                    f"{table} has no point-in-time recovery: it is backed up first (--no-backup: it is not)"
                )
                made = backups.back_up(self._db, table, backups.default_name(table, now), tell=_quiet)
                self._backed_up[table] = f"backup {made['BackupDetails']['BackupArn']}"
        return self._backed_up[table]

    def _status(self, store: MigrationStore, migration: Migration) -> Status:
        progress = store.progress().get(migration.id)
        state: State = "pending" if progress is None else progress.phase
        failed = tuple(store.failed(migration.id))
        return Status(migration.id, migration.number, store.table, state, migration, progress, failed=failed)

    def _store(self, table: str) -> MigrationStore:
        name = self._naming.full_name(table)
        return MigrationStore(self._db, name, clock=self._clock, lease_seconds=self._options.lease_seconds)

    def _table(self, migration: Migration, direction: Direction) -> tuple[ItemTable, Transform]:
        name = self._naming.full_name(migration.table)
        table = ItemTable.of(self._db, name, self._options.pacer)
        transform = Transform(migration, table.key, direction)
        return replace(table, filter=transform.filter), transform


def counts_text(counts: Counts) -> str:
    """`1,204 changed, 2 deleted of 5,000 items, 1 failed`."""
    deleted = f", {counts.deleted:,} deleted" if counts.deleted else ""
    conflicts = f", {counts.conflicts:,} written by others meanwhile" if counts.conflicts else ""
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    return f"{counts.changed:,} changed{deleted} of {counts.scanned:,} items{conflicts}{failed}"
