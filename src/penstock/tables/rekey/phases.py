"""A table's primary key changed with its data: another table, filled and kept up until the users have moved over.

    preparing → copying → following → summing → comparing → clearing → ready → (confirm) → confirmed

1. Copying reads pages of the old table and settles them (catch_up.py); between two rounds of pages the stream's
   changes are settled. One thread does both in turn: that order is what keeps old values from newer ones.
2. Places in scans and stream are kept after what they stand for was written. Killed anywhere, a run that follows does
   the last round again, which changes nothing.
3. `ready` is reached only if every old item is in the new table as mapped, and nothing else is in it: by the sums of
   all items (checksums.py), and where those leave a doubt, item by item.
4. The old table is never written to. Until `confirm`, `rollback` leaves everything as it was.
5. What acts on its own (TTL, the stream, deletion protection) comes to the new table when it is confirmed.
6. That a rekey has begun, was confirmed or rolled back is in the history of both tables (penstock-state), once. It is
   written before the state that follows from it: killed in between, the next run finds it there.
"""

from __future__ import annotations

import shlex
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError, TrimmedDataAccessException
from penstock.tables.apply.apply import change, delete, make, reconcile
from penstock.tables.data.transfers import ItemTable, KeyText, Page, Places, fresh_key
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import export_text, read_export
from penstock.tables.plan.changes import ClearStream, SetStream
from penstock.tables.plan.survey import inspect, require_table
from penstock.tables.rekey.catch_up import CatchUpWriter, TooManyProblems
from penstock.tables.rekey.checksums import Changed, Doubts, Sums
from penstock.tables.rekey.item_mapping import Problem, parse_mapping
from penstock.tables.rekey.new_table import TableOptions, differing_options, key_text, new_definition, option_words
from penstock.tables.rekey.state import Phase, RekeyRun, RekeyStore
from penstock.tables.rekey.stream import StreamReader
from penstock.tables.state.state_table import Entry, StateTable
from penstock.wire.values import Item

VIEW = "NEW_AND_OLD_IMAGES"
SEGMENTS = 8
MAX_LAG_SECONDS = 5.0

_SWEEPS = 8  # of the stream between two rounds of the scan: a busy table must not keep it from ending
_LOOKS = 5  # at keys that differ, with the stream followed in between, before they count as wrong
_SORTED_PAGES = 4  # are written together, in the order of their new keys: of one page, few items are neighbours
_SHOWN_PROBLEMS = 20

Tell = Callable[[RekeyRun], object]
CommandLine = Callable[[str, str], str]
"""A complete command for an action ("", "confirm", "rollback") and a table: what an error says to run next."""


class NoRekey(PenstockError):
    """There is no rekey of this table."""


class NotReady(PenstockError):
    """The rekey has to go on before it can be confirmed."""


class OtherOptions(PenstockError):
    """A rekey that has begun keeps its options."""


class Unmapped(PenstockError):
    """Items that have no place in the new table."""

    def __init__(self, run: RekeyRun, problems: Iterable[Problem], next_step: str = "") -> None:
        self.source = run.source
        self.problems = list(problems)
        self.next_step = next_step
        super().__init__(self.problems)

    @property
    def form(self) -> dict[str, Any]:
        """The facts, for --json."""
        shown = self.problems[:_SHOWN_PROBLEMS]
        return {
            "problem_count": len(self.problems),
            "problems": [{"key": one.key, "text": one.text} for one in shown],
        }

    def __str__(self) -> str:
        shown = "".join(f"\n  {one}" for one in self.problems[:_SHOWN_PROBLEMS])
        rest = len(self.problems) - _SHOWN_PROBLEMS
        more = f"\n  … and {rest:,} more" if rest > 0 else ""
        again = f": `{self.next_step}`" if self.next_step else ""
        return (
            f"{len(self.problems):,} items of {self.source} cannot be moved:{shown}{more}\n"
            f"Mend the items or the mapping, and run it again: it continues{again}."
        )


def _short_command(action: str, source: str) -> str:
    return " ".join(["penstock tables rekey", *filter(None, [action]), source])


@dataclass(frozen=True, slots=True)
class Options:
    """How a run works; none of it changes the result."""

    segments: int = SEGMENTS
    page_items: int | None = None
    max_lag_seconds: float = MAX_LAG_SECONDS
    save_seconds: float = 0.5
    """Between two places that are kept: what a killed run did since is done again."""
    pacer: Pacer | None = None
    clock: Clock = field(default_factory=SystemClock)
    sleep: Callable[[float], object] = time.sleep
    tell: Tell = lambda run: None
    command: CommandLine = _short_command
    warn: Callable[[str], object] = lambda text: None
    """Told of what keeps no rekey from going on: a history that cannot be written."""
    purpose: str = ""
    """The command, for the history."""


def plan_rekey(
    db: Database,
    source: str,
    into: str,
    key: str = "",
    *,
    map: str = "",
    indexes: Iterable[str] = (),
    local_indexes: Iterable[str] = (),
    drop_indexes: Iterable[str] = (),
    command: CommandLine = _short_command,
) -> RekeyRun:
    """The rekey, checked as far as it can be before anything is done; new_table.py has the spelling of its options."""
    options = TableOptions(key, tuple(indexes), tuple(local_indexes), tuple(drop_indexes))
    table = require_table(db, source).table
    if source == into:
        raise PenstockError("DynamoDB cannot alter a key or a local index in place: give --into another name.")
    if inspect(db, into, settings=False) is not None:
        raise PenstockError(f"There is a table {into} already. Give another name with --into, or delete that one.")
    _refuse_unfinished(db, source, into, command)
    if table.stream not in (None, VIEW):
        raise PenstockError(
            f"The stream of {source} shows {table.stream}; a rekey needs {VIEW}. Its readers would lose it: "
            f"set the definition's stream to {VIEW} and apply it when they can bear that."
        )
    wanted = new_definition(table, into, options)
    parse_mapping(
        map, TableKey.from_description(_create_request(table)), TableKey.from_description(_create_request(wanted))
    )
    return RekeyRun(
        source,
        into,
        key_text(wanted.key),
        map,
        list(options.indexes),
        export_text(wanted),
        stream_is_ours=table.stream is None,
        local_indexes=list(options.local_indexes),
        drop_indexes=list(options.drop_indexes),
    )


def _refuse_unfinished(db: Database, source: str, into: str, command: CommandLine) -> None:
    """A table that a rekey still fills has not all items yet, and its rollback would delete it."""
    for other in RekeyStore(db).unfinished():
        if other.into == source:
            raise PenstockError(
                f"{source} is still being filled by the rekey of {other.source}, which is {other.phase}. "
                f"Confirm that one first: `{command('confirm', other.source)}`."
            )
        if other.into == into and other.source != source:
            raise PenstockError(f"The rekey of {other.source} makes {into} too. Give another name with --into.")


def _create_request(table: Table) -> dict[str, object]:
    return aws_shapes.create_request(table, table.name)


# ── what a user asks for ─────────────────────────────────────────────────────────────────────────


class Rekey:
    """The work on a rekey; `store` holds it."""

    def __init__(self, db: Database, store: RekeyStore, options: Options | None = None) -> None:
        self._db = db
        self._store = store
        self._options = options or Options()
        self._writer: CatchUpWriter
        self._reader: StreamReader
        self._run: RekeyRun

    def start(self, run: RekeyRun) -> RekeyRun:
        """Begins a rekey and works until it is ready."""
        run.started_at = self._options.clock.now()
        run.id = uuid.uuid4().hex[:12]
        self._store.begin(run)
        return self._run_with_lease(run, self._until_ready)

    def resume(self, source: str, map: str | None = None) -> RekeyRun:
        """Continues a rekey, with another mapping if one is given. One that is ready catches up and compares again."""
        run = self._take_run(source)
        if map is not None and map != run.map:
            run.map, run.verified_at = map, None
            run.phase, run.places = ("copying", None) if run.phase != "preparing" else (run.phase, None)
        if run.phase == "ready" or (run.phase in ("comparing", "clearing") and run.problem_count):
            # Items that cannot be moved were known to the run that read them all: they are found again.
            run.phase, run.places = "following", None
        return self._run_with_lease(run, self._until_ready)

    def confirm(self, source: str, *, quiet_seconds: float = 2.0, force: bool = False) -> RekeyRun:
        """The last catching up, a last comparison, and the settings that were left out. Writers must have stopped."""
        run = self._take_run(source)
        if run.verified_at is None:  # one that was ready may be on its way there again: an interrupted confirm
            self._store.release(source)
            raise NotReady(f"The rekey of {source} is {run.phase}, not ready. Run `{self._command('', source)}`.")
        return self._run_with_lease(run, lambda: self._finish(quiet_seconds, force=force))

    def rollback(self, source: str, *, force: bool = False) -> RekeyRun:
        """Deletes the new table and forgets the rekey; the old table is as it was.

        Without an old table, the new one may be the only copy: then only `force` forgets the rekey, and keeps it.
        """
        run = self._take_run(source)
        if not force and inspect(self._db, source, settings=False) is None:
            self._store.release(source)
            raise PenstockError(
                f"{source} is not there any more, and {run.into} may be the only copy of its items: it is not deleted. "
                f"`{self._command('rollback', source)} --force` forgets the rekey and keeps {run.into}."
            )
        return self._run_with_lease(run, self._undo, forget=True)

    def _take_run(self, source: str) -> RekeyRun:
        if self._store.read(source) is None:
            raise NoRekey(f"There is no rekey of {source} in {self._db.name}. `--key` and `--into` begin one.")
        run = self._store.take(source)
        if run.phase == "confirmed":
            self._store.release(source)
            raise PenstockError(f"The rekey of {source} into {run.into} is confirmed: it is over.")
        return run

    def _run_with_lease(self, run: RekeyRun, work: Callable[[], None], *, forget: bool = False) -> RekeyRun:
        self._run = run
        try:
            run.id = run.id or uuid.uuid4().hex[:12]
            if not forget:
                self._remember("begun", f"rekey into {run.into} ({self._definition().key}) begun")
            work()
            if forget:
                self._store.delete(run.source)
        finally:
            self._store.release(run.source)
        return run

    def _command(self, action: str, source: str) -> str:
        return self._options.command(action, source)

    def _remember(self, event: str, text: str, **details: object) -> None:
        """One entry in the history of both tables, once (6). A history that cannot be written stops nothing."""
        run, state = self._run, StateTable(self._db, clock=self._options.clock)
        facts = {"source": run.source, "into": run.into, "event": event, "key": run.key, **details}
        entry = Entry("rekey", run.source, text, facts | {"command": self._options.purpose}, id=f"{run.id}-{event}")
        try:
            for table in (run.source, run.into):
                if not any(one.id == entry.id for one in state.history(table=table)):
                    words = text if table == run.source else f"{text}, as the new table of {run.source}"
                    state.append(replace(entry, table=table, text=words))
        except PenstockError as error:
            self._options.warn(f"The rekey of {run.source} continues, but is not in the history: {error}")

    # ── phases ───────────────────────────────────────────────────────────────────────────────────

    def _until_ready(self) -> None:
        steps: dict[Phase, Callable[[], None]] = {
            "copying": self._copy,
            "following": self._catch_up,
            "summing": self._sum,
            "comparing": self._compare,
            "clearing": self._clear,
        }
        if self._run.phase == "preparing":
            self._prepare()
        self._open()
        while self._run.phase in steps:
            try:
                with self._restart_when_trimmed():
                    steps[self._run.phase]()
            except TooManyProblems as error:
                self._save()  # so that `status` shows them
                error.next_steps = self._command("", self._run.source), self._command("rollback", self._run.source)
                raise

    def _prepare(self) -> None:
        """The stream first: what changes from now on is told."""
        run = self._run
        if require_table(self._db, run.source, settings=False).table.stream is None:
            change(self._db, run.source, SetStream(VIEW))
        if not run.into_is_ours:
            if inspect(self._db, run.into, settings=False) is not None:
                raise PenstockError(
                    f"Somebody has made a table {run.into} since this rekey was planned. It is left alone: "
                    f"`{self._command('rollback', run.source)}`, and begin again with another --into."
                )
            run.into_is_ours = True
            self._save()
        make(self._db, self._definition().replace(ttl=None, stream=None, deletion_protection=False), run.into)
        self._enter("copying")

    def _definition(self) -> Table:
        return read_export(self._run.definition, f"the rekey of {self._run.source}")

    def _open(self) -> None:
        run, db, options = self._run, self._db, self._options
        arn = require_table(db, run.source, settings=False).facts.stream_arn
        if arn is None and run.is_stream_ending:
            raise PenstockError(
                f"The confirm of {run.source} was interrupted at its very end. "
                f"Finish it: `{self._command('confirm', run.source)}`."
            )
        if arn is None:
            raise PenstockError(
                f"The stream of {run.source} was switched off: what changed since then, nobody tells. "
                f"Roll back (`{self._command('rollback', run.source)}`), and begin again."
            )
        if inspect(db, run.into, settings=False) is None:
            raise PenstockError(
                f"The new table {run.into} is not there any more: somebody deleted it. "
                f"Roll back (`{self._command('rollback', run.source)}`), and begin again."
            )
        if run.stream_arn not in (None, arn):
            # It was switched off and on again: what changed in between, nobody tells.
            run.shards.clear()
            run.phase, run.places = "copying", None
        run.stream_arn = arn
        mapping = parse_mapping(run.map, fresh_key(db, run.source), fresh_key(db, run.into))
        old, new = (ItemTable.of(db, name, options.pacer) for name in (run.source, run.into))
        self._writer = CatchUpWriter(old, new, mapping, self._store.check)
        fresh = run.phase == "copying" and run.places is None
        self._reader = StreamReader(db, arn, run.shards, from_now=fresh and not run.stream_is_ours)

    @contextmanager
    def _restart_when_trimmed(self) -> Iterator[None]:
        """Changes that were not read within a day are gone: only another look at every item finds them."""
        try:
            yield
        except TrimmedDataAccessException:
            self._run.shards.clear()
            self._enter("copying")
            self._open()

    def _enter(self, phase: Phase) -> None:
        self._run.phase, self._run.places = phase, None
        self._save()

    def _save(self) -> None:
        run = self._run
        if hasattr(self, "_writer"):
            problems = self._writer.problems
            run.problem_count = len(problems)
            run.problems = [str(one) for _, one in zip(range(_SHOWN_PROBLEMS), problems.values(), strict=False)]
        self._store.save(run)
        self._options.tell(run)

    def _pages(self, table: ItemTable, *, ahead: bool = False) -> Iterator[list[Item]]:
        """The items of a table, a round of pages at a time; the place is kept when a round has been dealt with.

        With `ahead` the next round is read meanwhile: for work that does not write what it reads.
        """
        run, options = self._run, self._options
        places = Places(options.segments) if run.places is None else Places.parse(run.places)
        kept_at = options.clock.now()
        at_once = _SORTED_PAGES if table.shares_commits and not ahead else None
        for pages in table.rounds(places, limit=options.page_items, ahead=ahead, at_once=at_once):
            yield [item for page in pages for item in page.items]
            run.places = _after(places, pages)
            if options.clock.now() - kept_at >= options.save_seconds:
                self._save()
                kept_at = options.clock.now()

    def _copy(self) -> None:
        for items in self._pages(self._writer.old):
            self._run.copied += self._writer.copy(items)
            self._follow()
        self._enter("following")

    def _follow(self, sweeps: int = _SWEEPS, changed: Changed | None = None) -> bool:
        """Settles what the stream tells; whether it has told everything."""
        for _ in range(sweeps):
            swept = self._reader.sweep()
            self._run.followed += self._writer.follow(swept.touched, changed)
            self._run.lag_seconds = 0.0 if swept.oldest is None else max(0.0, self._options.clock.now() - swept.oldest)
            if swept.is_last:
                return True
        return False

    def _catch_up(self) -> None:
        """The convergence gate: on when the newest changes are settled within the bound."""
        while not (self._follow() and (self._run.lag_seconds or 0.0) <= self._options.max_lag_seconds):
            self._save()
        self._writer.problems.clear()
        self._enter("summing")

    def _sum(self) -> None:
        """Every item of both tables read once. Sums live as long as the run: another one begins them again."""
        run, settler, sums, changed = self._run, self._writer, Sums(), Changed()
        run.places, run.doubts = None, None
        run.source_items = run.into_items = run.compared = 0
        for items in self._pages(settler.old, ahead=True):
            for item in items:
                mapped = settler.map(item)
                if mapped is not None:
                    sums.add(settler.old.text_of(item), mapped)
            run.source_items += len(items)
            run.compared = run.source_items
            self._follow(changed=changed)
        run.places = None
        for items in self._pages(settler.new, ahead=True):
            for item in items:
                sums.subtract(settler.origin(item), item)
            run.into_items += len(items)
            self._follow(changed=changed)
        self._follow(changed=changed)
        self._look_up(changed)
        run.doubts = sums.doubts(changed).text()
        self._enter("comparing")

    def _look_up(self, changed: Changed) -> None:
        """The keys that changed meanwhile, in both tables: their sums say nothing."""
        settler = self._writer
        self._run.looked_up += len(changed.keys)
        self._repair(settler.missing_or_different(settler.old.get(changed.keys.values()).values()))
        self._remove(settler.strangers(settler.new.get(changed.places.values()).values()))

    def _doubtful(self, table: ItemTable) -> Iterator[list[Item]]:
        """The items of a table whose sums left a doubt; without any, nothing is read."""
        doubts = Doubts.parse(self._run.doubts)
        if doubts:
            for items in self._pages(table):
                found = [item for item in items if self._writer.origin(item) in doubts]
                self._run.looked_up += len(found)
                yield found

    def _compare(self) -> None:
        """Every old item is in the new table."""
        for items in self._doubtful(self._writer.old):
            wrong = self._writer.missing_or_different(items)
            self._follow()
            self._repair(wrong)
        self._enter("clearing")

    def _repair(self, keys: dict[KeyText, Item]) -> None:
        """Looks again at keys that differ: most were only late. What stays different is settled, and counted."""
        settler = self._writer
        for look in range(_LOOKS):
            if not keys:
                return
            now = settler.old.get(keys.values())
            keys = settler.missing_or_different(now.values())
            self._pause(look)
            self._follow()
        self._run.repaired += settler.refresh(keys, {})

    def _pause(self, look: int) -> None:
        """AWS's stream is up to seconds late."""
        if self._db.capabilities.delayed_streams:
            self._options.sleep(0.2 * look)

    def _clear(self) -> None:
        """Nothing is in the new table that no old item maps to."""
        settler = self._writer
        for items in self._doubtful(settler.new):
            strangers = settler.strangers(items)
            self._follow()
            self._remove(strangers)
        if settler.problems:
            self._run.phase, self._run.places = "following", None
            self._save()
            raise Unmapped(self._run, settler.problems.values(), self._command("", self._run.source))
        self._run.verified_at = self._options.clock.now()
        self._enter("ready")

    def _remove(self, strangers: dict[KeyText, tuple[Item, Item]]) -> None:
        settler = self._writer
        for look in range(_LOOKS):
            if not strangers:
                return
            still = settler.new.get(new for _, new in strangers.values())
            strangers = settler.strangers(still.values())
            self._pause(look)
            self._follow()
        for place, (old, new) in strangers.items():
            self._run.repaired += settler.refresh(
                {settler.old.text_of(old): old}, {settler.old.text_of(old): {place: new}}
            )

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _finish(self, quiet_seconds: float, *, force: bool) -> None:
        run = self._run
        if run.is_stream_ending and require_table(self._db, run.source, settings=False).table.stream is None:
            # A confirm was killed after its last comparison: without the stream there is nothing to follow.
            self._end(force=force)
            return
        self._open()
        while not self._follow():
            self._save()
        self._options.sleep(quiet_seconds)
        late = self._reader.sweep().touched
        self._writer.follow(late)
        if late and not force:
            self._save()
            raise PenstockError(
                f"{run.source} is still written to: {len(late):,} changes in the last {quiet_seconds:g} s. "
                "Stop its writers first, or what they write from now on is in the old table only (--force)."
            )
        if run.phase != "copying":  # which it is again where the stream was lost
            run.phase = "following"
        self._until_ready()
        left = reconcile(self._db, run.into, self._definition())
        if left:
            raise PenstockError(f"{run.into} still differs from its definition: {left[0]}. Run confirm again.")
        run.is_stream_ending = run.stream_is_ours
        self._save()
        if run.stream_is_ours:
            change(self._db, run.source, ClearStream(VIEW))
        self._end(force=force)

    def _end(self, *, force: bool) -> None:
        run = self._run
        self._remember("confirmed", f"rekey into {run.into} confirmed", items=run.into_items, forced=force)
        self._enter("confirmed")

    def _undo(self) -> None:
        run = self._run
        found = inspect(self._db, run.source, settings=False)
        run.is_deleted = found is not None and (run.into_is_ours or run.phase != "preparing")
        if run.is_deleted:
            delete(self._db, run.into)
        if run.stream_is_ours and found is not None and found.table.stream is not None:
            change(self._db, run.source, ClearStream(VIEW))
        self._remember("rolled back", f"rekey into {run.into} rolled back")


def require_same_options(run: RekeyRun, given: TableOptions, into: str, command: CommandLine = _short_command) -> None:
    """A rekey that has begun keeps its options, except for its mapping; raises OtherOptions."""
    differing = ["--into"] if into and into != run.into else []
    differing += differing_options(run.options, given)
    if differing:
        began = shlex.join(["--into", run.into, *option_words(run.options)])
        raise OtherOptions(
            f"The rekey of {run.source} is {run.phase}, and was begun with other options for {', '.join(differing)}: "
            f"{began}. Continue it (`{command('', run.source)}`), or end it (`{command('rollback', run.source)}`)."
        )


def _after(places: Places, pages: list[Page]) -> dict[str, object]:
    moved = places.copy()
    moved.move(pages)
    return moved.form()
