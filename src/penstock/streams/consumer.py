"""A consumer of a table's changes.

    with db.table("orders").changes(group="mailer") as changes:
        for change in changes:
            send_mail(change.new)

1. At least once: a change is done when the next one is asked for, or `change.done()` is called. What is done is written
   down after `checkpoint_seconds` at the latest, and before each wait. After a kill, what was not written down comes
   again; after an orderly end, nothing does.
2. In order: a shard's changes come in theirs, a shard after its parent. Before each change the consumer makes sure that
   it still holds the shard's lease.
3. Of several consumers of a group, each shard has one. A shard is handed over between two changes.
4. Changes that DynamoDB has trimmed before they were read are told (`on_gap`), never skipped in silence.
5. A database that is away stops nothing: it is asked again until it is back. Only the first call of all raises.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Self

from penstock.client.database import Database, connect
from penstock.client.items.expressions import Condition
from penstock.client.transports.base import Changes
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.leases import DEFAULT_LEASE_SECONDS, LeaseLost, LeaseRenewer, checked_seconds, new_owner
from penstock.retry import Backoff, Failure, Outage, RetryPolicy
from penstock.streams.change import Change, change_of, created_at, record_filter
from penstock.streams.errors import BadGroup, ChangeFailed, Gap, StreamGap, checked_group
from penstock.streams.group_table import GroupTable
from penstock.streams.member import HeldShard, Member
from penstock.streams.shard_reader import PAGE_RECORDS, Page, Trimmed

_LOG = logging.getLogger("penstock.streams")

Start = Literal["latest", "oldest"] | datetime
OnGap = Literal["raise", "continue"] | Callable[[Gap], object]
OnFailure = Literal["stop", "keep"]

DEFAULT_POLL_SECONDS: Final = 1.0
DEFAULT_CHECKPOINT_SECONDS: Final = 1.0
DEFAULT_RETRIES: Final = RetryPolicy(3, base_seconds=1.0, cap_seconds=30.0)

_LOOKS: Final = 3
"""A consumer looks at its group so often within a lease."""
_FREE_LOOK_SECONDS: Final = 1.0
"""The same where reads cost nothing."""
_TOLD_POLL_SECONDS: Final = 5.0
"""How often a shard is polled where the database tells of changes: a wake-up may be missed."""
_GAP_SECONDS: Final = 0.005
_LONGEST_GAP_SECONDS: Final = 0.05
"""Between the polls for writes that are none of this stream's business."""
_EMPTY_PAGES: Final = 10
"""So many empty pages are the end of an open shard, where a stream shows changes late: it may have empty parts."""
_TROUBLE: Final = Backoff(0.2, 2.0, 10.0)
_ASK_AGAIN_SECONDS: Final = 30.0
_LARGEST_BATCH: Final = 10_000


@dataclass(slots=True)
class ConsumerStats:
    """What a consumer has done."""

    changes: int = 0
    """Delivered and done."""
    pages: int = 0
    """Calls of GetRecords."""
    empty_pages: int = 0
    looks: int = 0
    """Reads of the group's items."""
    checkpoints: int = 0
    gaps: int = 0
    failed: int = 0
    """Changes that were kept aside."""
    lost_leases: int = 0


class Consumer:
    """Iterates over the changes of one table. For one thread, except `stop`, `stats` and `lag_seconds`.

    Without a group it keeps nothing: it begins at `start` each time, and reads all shards alone.
    """

    def __init__(
        self,
        db: Database,
        table: str,
        group: str | None = None,
        *,
        start: Start = "latest",
        follow: bool = True,
        kinds: Iterable[str] | str | None = None,
        where: Condition | None = None,
        on_gap: OnGap = "raise",
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
        checkpoint_seconds: float = DEFAULT_CHECKPOINT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        if on_gap not in ("raise", "continue") and not callable(on_gap):
            raise BadGroup(f"on_gap is 'raise', 'continue' or a function, not {on_gap!r:.100}.")
        if not poll_seconds > 0 or not checkpoint_seconds >= 0:
            raise BadGroup("poll_seconds is more than 0, checkpoint_seconds 0 or more.")
        self.table = table
        self.group = group
        self.name = new_owner()
        """By which the group knows it."""
        self.stats = ConsumerStats()
        self._db = db
        self._follow = follow
        self._filter = record_filter(kinds, where)
        self._gap_policy = on_gap
        self._poll_seconds = poll_seconds
        self._checkpoint_seconds = checkpoint_seconds
        lease_seconds = checked_seconds(lease_seconds)
        self._look_seconds = lease_seconds / _LOOKS
        if group is None or not db.capabilities.metered:
            self._look_seconds = min(self._look_seconds, _FREE_LOOK_SECONDS)
        groups = GroupTable(db, table, "" if group is None else checked_group(group), clock=clock)
        self._groups = groups
        self._member = Member(
            db, groups, owner=self.name, start=start_text(start), lease_seconds=lease_seconds, on_gap=self._on_gap
        )
        self._stopped = threading.Event()
        self._outage = Outage(_LOG)
        self._changes: Changes | None = None
        self._ask_changes_at = 0.0
        self._gap = _GAP_SECONDS
        self._look_at = 0.0
        self._is_open = False
        self._redriven_at = 0.0
        self._after_look: Callable[[], None] | None = None

    # ── what people call ─────────────────────────────────────────────────────────────────────────

    def __iter__(self) -> Generator[Change]:
        """Each change. It is done when the next one is asked for (1)."""
        for held, changes in self._runs(PAGE_RECORDS):
            for change in changes:
                if not self._may_deliver(held):
                    break
                held.next_at = change.at.timestamp()
                yield change
                self._finish(held, change)

    async def __aiter__(self) -> AsyncIterator[Change]:
        """`async for change in consumer`: the same, read by a thread of its own. A task that is cancelled stops it."""
        changes = iter(self)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "penstock-changes") as thread:  # one: the wait for changes belongs to a thread
            try:
                while (change := await loop.run_in_executor(thread, next, changes, None)) is not None:
                    yield change
            finally:
                self.stop()
                thread.submit(changes.close).result()

    def batches(self, size: int = 100) -> Iterator[list[Change]]:
        """Up to `size` changes of one shard at a time. When the next are asked for, these are done and written down."""
        if not 1 <= size <= _LARGEST_BATCH:
            raise BadGroup(f"A batch has 1 to {_LARGEST_BATCH:,} changes, not {size}.")
        for held, changes in self._runs(min(size, PAGE_RECORDS)):
            for at in range(0, len(changes), size):
                if not self._may_deliver(held):
                    break
                batch = changes[at : at + size]
                held.next_at = batch[0].at.timestamp()
                yield batch
                held.mark(batch[-1])
                self.stats.changes += len(batch)
                self._guard(held, held.checkpoint)
                self.stats.checkpoints += 1

    def process(
        self,
        handler: Callable[[Change], object],
        *,
        retries: RetryPolicy | int = DEFAULT_RETRIES,
        on_failure: OnFailure = "stop",
    ) -> None:
        """Calls the handler for each change until `stop` is called, or (follow=False) there are no more.

        What the handler raises is tried again as `retries` says. Then "stop" raises ChangeFailed: the change comes
        again at the next read. "keep" keeps the change aside, continues, and hands it to the handler again when
        `penstock streams redrive` asks for it.
        """
        policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
        if on_failure not in ("stop", "keep"):
            raise BadGroup(f"on_failure is 'stop' or 'keep', not {on_failure!r:.100}.")
        if on_failure == "keep" and self.group is None:
            raise BadGroup("on_failure='keep' needs a group, which keeps the changes: changes(group=…).")
        if on_failure == "keep":
            self._after_look = lambda: self._redrive(handler, policy)
        try:
            for change in self:
                if not self._handle(change, handler, policy, on_failure):
                    return
        finally:
            self._after_look = None

    def stop(self) -> None:
        """Ends the iteration before the next change. From any thread, and from signal handlers."""
        self._stopped.set()
        if self._changes is not None:
            self._changes.close()

    def close(self) -> None:
        """Stops it. Leases are given back when the iteration ends."""
        self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shards(self) -> list[str]:
        """The shards that it reads now."""
        return [held.state.id for held in list(self._member.held.values())]

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest change that was read here and is not done; 0 if there is none."""
        oldest = [held.next_at for held in list(self._member.held.values()) if held.next_at is not None]
        return max(0.0, self._groups.clock.now() - min(oldest)) if oldest else 0.0

    # ── one change ───────────────────────────────────────────────────────────────────────────────

    def _may_deliver(self, held: HeldShard) -> bool:
        """Whether the next change of the shard is ours (2, 3)."""
        if self._look_at <= time.monotonic():
            self._patiently(self._look)
        return held.is_held and not held.hand_over and not self._stopped.is_set()

    def _finish(self, held: HeldShard, change: Change) -> None:
        held.mark(change)
        self.stats.changes += 1
        if held.unwritten_seconds() >= self._checkpoint_seconds and held.after is not None:
            self._checkpoint(held)

    def _checkpoint(self, held: HeldShard) -> None:
        if held.unwritten_seconds():
            self.stats.checkpoints += 1
            self._guard(held, held.checkpoint)

    def _handle(
        self, change: Change, handler: Callable[[Change], object], policy: RetryPolicy, on_failure: OnFailure
    ) -> bool:
        """Whether to go on: False if it was stopped before the change was done."""
        failures = 0
        while True:
            try:
                handler(change)
                return True
            except Exception as error:
                if policy.allows(error, failures):
                    delay = policy.delay(failures)
                    failures += 1
                    _LOG.warning("%s failed for %s, and is tried again: %s", _name(handler), change.keys, error)
                    if self._stopped.wait(delay):
                        return False
                    continue
                failure = Failure.of(error)
                if on_failure == "stop":
                    raise ChangeFailed(change, failures + 1, f"{failure.reason}.") from error
                _LOG.error("%s failed for %s, which is kept aside: %s", _name(handler), change.keys, error)
                self._groups.keep_failed(change, failure, failures + 1)
                self.stats.failed += 1
                return True

    def _redrive(self, handler: Callable[[Change], object], policy: RetryPolicy) -> None:
        """Handles the failed changes again that somebody has asked for."""
        group = self._member.group
        if group is None or group.redrive_at <= self._redriven_at:
            return
        seconds = max(policy.cap_seconds, 60.0) * (policy.times + 1)
        for one in self._groups.failed():
            if self._stopped.is_set():
                return
            if one.redrive and self._groups.take_failed(one.id, seconds):
                kept = self.stats.failed
                if self._handle(one.change, handler, policy, "keep") and self.stats.failed == kept:
                    self._groups.forget_failed(one.id)
        self._redriven_at = group.redrive_at

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────

    def _runs(self, limit: int) -> Iterator[tuple[HeldShard, list[Change]]]:
        """Runs of changes of one shard. One that is not done to its end is the last of its shard here."""
        with self._session():
            while not self._stopped.is_set():
                if self._look_at <= time.monotonic():
                    self._patiently(self._look)
                has_found = False
                for held in list(self._member.held.values()):
                    if held.poll_at > time.monotonic() or not self._is_ours(held):
                        continue
                    page = self._read(held, limit)
                    if page is None:
                        continue
                    has_found = has_found or bool(page.records)
                    yield from self._run_of(held, page)
                    self._end_run(held, page)
                if not has_found:
                    self._write_all()
                    if self._is_finished():
                        return
                    self._wait()

    def _run_of(self, held: HeldShard, page: Page) -> Iterator[tuple[HeldShard, list[Change]]]:
        wanted = page.records if self._filter is None else [one for one in page.records if self._filter(one)]
        changes = [change_of(one, self.table, held.state.id, held.mark) for one in wanted]
        if changes:
            yield held, changes
        is_done = not changes or held.after == changes[-1].sequence_number
        if page.records and is_done:
            last = page.records[-1]
            held.mark_record(last["dynamodb"]["SequenceNumber"], created_at(last))

    def _end_run(self, held: HeldShard, page: Page) -> None:
        is_done = not page.records or held.after == page.records[-1]["dynamodb"]["SequenceNumber"]
        if is_done:  # else it is handed over, lost, or the consumer stops
            held.next_at = None
        if is_done and page.is_last and held.is_held:
            self._guard(held, lambda: self._member.end(held))
            self._look_at = 0.0  # its children may be ours
        if held.hand_over:
            self._guard(held, lambda: self._member.release(held))
            self._look_at = 0.0
        elif held.unwritten_seconds() > self._checkpoint_seconds:
            self._checkpoint(held)

    def _read(self, held: HeldShard, limit: int) -> Page | None:
        try:
            page = held.reader.read(limit)
        except Trimmed as trimmed:
            is_gone = trimmed.is_gone
            self._guard(held, lambda: self._member.skip_lost(held, is_gone=is_gone))
            return None
        except PenstockError as error:
            if not error.retryable:
                raise
            held.failures += 1
            held.poll_at = time.monotonic() + _TROUBLE.wait(held.failures)
            self._outage.note(error)
            return None
        self._outage.end()
        held.failures = 0
        self.stats.pages += 1
        if page.records:
            held.empty_pages = 0
        else:
            held.empty_pages += 1
            self.stats.empty_pages += 1
            held.poll_at = time.monotonic() + self._pause()
        return page

    def _pause(self) -> float:
        """Until an empty shard is polled again."""
        if not self._follow:
            return 0.0 if not self._db.capabilities.metered else 0.2
        changes = self._changes
        return self._poll_seconds if changes is None else max(_TOLD_POLL_SECONDS, changes.poll_seconds)

    def _look(self) -> None:
        self._member.look()
        self.stats.looks += 1
        self._look_at = time.monotonic() + self._look_seconds
        for held in list(self._member.held.values()):
            if held.hand_over and held.next_at is None:
                self._guard(held, lambda held=held: self._member.release(held))  # type: ignore[misc]
        if self._after_look is not None:
            self._after_look()

    def _is_ours(self, held: HeldShard) -> bool:
        if not held.is_held:
            if self._member.held.pop((held.state.stream, held.state.id), None) is not None:
                self.stats.lost_leases += 1
            return False
        return True

    def _is_finished(self) -> bool:
        """Whether there is nothing more to read now: every shard is read here, or another consumer's (follow=False)."""
        if self._follow or self._look_at <= time.monotonic() or self._member.unclaimed:
            return False
        wanted = _EMPTY_PAGES if self._db.capabilities.delayed_streams else 1
        return all(held.empty_pages >= wanted for held in self._member.held.values())

    def _write_all(self) -> None:
        for held in list(self._member.held.values()):
            self._checkpoint(held)

    # ── waiting, and what may go wrong ───────────────────────────────────────────────────────────

    def _wait(self) -> None:
        """Until something may have changed, a shard is to be polled, or the group to be looked at."""
        polls = [held.poll_at for held in self._member.held.values()]
        seconds = max(0.0, min([self._look_at, *polls]) - time.monotonic())
        if seconds <= 0 and polls:
            return
        changes = self._telling() if self._follow else None
        if changes is None:
            self._stopped.wait(seconds)
            return
        try:
            began_at = time.monotonic()
            if not changes.wait(seconds) or self._stopped.is_set():
                return
        except PenstockError as error:
            _LOG.debug("The database does not tell of changes now: %s", error)
            self._forget_changes()
            return
        was_quiet = time.monotonic() - began_at > _LONGEST_GAP_SECONDS
        self._gap = _GAP_SECONDS if was_quiet else min(2 * self._gap, _LONGEST_GAP_SECONDS)
        self._stopped.wait(self._gap)
        for held in self._member.held.values():
            if not held.failures:
                held.poll_at = 0.0

    def _telling(self) -> Changes | None:
        """What waits for changes, where the database tells of them."""
        if self._changes is None and self._ask_changes_at <= time.monotonic():
            self._ask_changes_at = time.monotonic() + _ASK_AGAIN_SECONDS
            with suppress(PenstockError):
                self._changes = self._db.changes()
            if self._changes is None and not self._db.capabilities.tells_changes:
                self._ask_changes_at = float("inf")
            if self._stopped.is_set() and self._changes is not None:
                self._changes.close()
        return self._changes

    def _forget_changes(self) -> None:
        if self._changes is not None:
            self._changes.close()
        self._changes = None
        self._ask_changes_at = time.monotonic() + _ASK_AGAIN_SECONDS
        for held in self._member.held.values():
            held.poll_at = 0.0

    def _guard(self, held: HeldShard, call: Callable[[], None]) -> None:
        """Does it under the shard's lease; a shard whose lease is lost is another's."""
        try:
            self._patiently(call)
        except LeaseLost as lost:
            held.give_up(lost)
            _LOG.warning("%s", lost)
            self._is_ours(held)

    def _patiently(self, call: Callable[[], None]) -> None:
        """Does it until it is done, or the consumer is stopped (5)."""
        failures = 0
        while True:
            try:
                call()
                self._outage.end()
                return
            except PenstockError as error:
                if not error.retryable or not self._is_open:
                    raise
                self._outage.note(error)
                failures += 1
                if self._stopped.wait(_TROUBLE.wait(failures)):
                    return

    def _on_gap(self, gap: Gap) -> None:
        self.stats.gaps += 1
        if self._gap_policy == "raise":
            raise StreamGap(gap)
        _LOG.warning("%s", gap)
        if callable(self._gap_policy):
            self._gap_policy(gap)

    @contextmanager
    def _session(self) -> Iterator[None]:
        """The iteration: leases are renewed meanwhile, and given back at its end."""
        if self._is_open:
            raise BadGroup("This consumer is being iterated over already: make another one for another thread.")
        if self.group is None:
            self._groups.db = connect()  # what it knows of shards lies in memory, in the same form
        self._look()
        self._is_open = True
        renewer = LeaseRenewer(lambda: list(self._member.held.values()), name="penstock-stream-leases")
        renewer.start()
        try:
            yield
        finally:
            renewer.stop()
            self._is_open = False
            self._member.release_all()
            if self._changes is not None:
                self._changes.close()
                self._changes, self._ask_changes_at = None, 0.0
            self._look_at = 0.0
            if self.group is None:
                self._groups.db.close()


def _name(handler: Any) -> str:
    return str(getattr(handler, "__name__", handler))


def start_text(start: Start) -> str:
    """As it is kept with the group. Raises BadGroup."""
    if isinstance(start, datetime):
        if start.utcoffset() is None:
            raise BadGroup(f"start has no time zone ({start}): say which one with start.replace(tzinfo=UTC).")
        return repr(start.timestamp())
    if start not in ("latest", "oldest"):
        raise BadGroup(f"start is 'latest', 'oldest' or a datetime, not {start!r:.100}.")
    return start
