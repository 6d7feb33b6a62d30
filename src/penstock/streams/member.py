"""A consumer's part in its group: it finds shards, takes its share of them, hands over what others ask for.

1. New shards are written down before their parent is: whoever reads on after a crash knows them.
2. Of all consumers of a group, one at a time looks for new shards: DescribeStream has a low limit on AWS.
3. A shard is gone if it was written down before DescribeStream was asked, and is not in its answer. If it was not read
   to its end, changes may be lost, and that is told.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from penstock.client.database import Database
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.leases import HeldLease, Lease, LeaseLost
from penstock.processes import has_ended
from penstock.streams.change import Change
from penstock.streams.errors import Gap, NoStream, NoTable
from penstock.streams.group_table import ENDED, RELEASED, Group, GroupTable, checkpoint_fields
from penstock.streams.shard_reader import ShardInfo, ShardReader, describe_shards, label_of, newest_iterator
from penstock.streams.shard_tree import ShardState, balance

_LOG = logging.getLogger("penstock.streams")

_SEARCH_SECONDS: Final = 60.0
"""How often somebody of the group looks for shards that no ended shard has led to, while others are open."""

Place = tuple[str, str]
"""A stream's label and a shard's id."""


class HeldShard(HeldLease):
    """A shard that this consumer reads: its lease, its reader, and how far it is done."""

    def __init__(self, groups: GroupTable, group: Group, state: ShardState, lease: Lease, reader: ShardReader) -> None:
        super().__init__(
            f"{groups.table}, group {groups.group}, the shard {state.id}", lease.seconds, self._renew_lease
        )
        self._groups = groups
        self._group = group
        self.state = state
        self.reader = reader
        self._lease = lease
        self.after = state.after
        self.last_at = state.last_at
        self._written = state.after
        self._written_at = time.monotonic()
        self.hand_over = False
        """Somebody else has asked for it."""
        self.poll_at = 0.0
        self.empty_pages = 0
        self.failures = 0
        self.next_at: float | None = None
        """When the oldest change was made that was read here and is not done; None if there is none."""

    @property
    def generation(self) -> int:
        return self._group.generation

    @property
    def is_held(self) -> bool:
        return self.lost is None and not self.has_expired

    def mark(self, change: Change) -> None:
        """The change is done, with all before it."""
        self.mark_record(change.sequence_number, change.at.timestamp())

    def mark_record(self, sequence_number: str, at: float) -> None:
        if self.after is None or int(sequence_number) > int(self.after):
            self.after, self.last_at = sequence_number, at

    def unwritten_seconds(self) -> float:
        """For how long the checkpoint is behind what is done; 0 if it is not."""
        return 0.0 if self.after == self._written else time.monotonic() - self._written_at

    def checkpoint(self) -> None:
        """Writes down how far it is done. Raises LeaseLost."""
        if self.after != self._written:
            self._write_down({})

    def release(self) -> None:
        """Writes the checkpoint, and lets others have the shard at once. Raises LeaseLost."""
        self._write_down(RELEASED)

    def end(self) -> None:
        """The shard is read to its end. Raises LeaseLost."""
        self._write_down(ENDED)

    def _write_down(self, fields: dict[str, Any]) -> None:
        asked_at, after, last_at = time.monotonic(), self.after, self.last_at
        renewed = self._lease.renew(self._groups.clock.now())
        self._groups.write_held(self._group, self.state, renewed, checkpoint_fields(after, last_at) | fields)
        self._lease, self._written, self._written_at = renewed, after, asked_at
        self._renewed_at = max(self._renewed_at, asked_at)

    def _renew_lease(self) -> None:
        renewed = self._lease.renew(self._groups.clock.now())
        # While nothing is done, the place is an iterator, which lives for 15 minutes.
        iterator = self.reader.iterator if self.after is None else None
        fields = {} if iterator is None else {"iterator": {"S": iterator}}
        self._groups.write_held(self._group, self.state, renewed, fields)
        self._lease = renewed


class Member:
    """One consumer of a group. For one thread; the leases are renewed by another."""

    def __init__(
        self,
        db: Database,
        groups: GroupTable,
        *,
        owner: str,
        start: str,
        lease_seconds: float,
        on_gap: Callable[[Gap], None],
    ) -> None:
        """`on_gap` is told of changes that may be lost; what it raises stops everything."""
        self._db = db
        self._groups = groups
        self._owner = owner
        self._start = start
        self._lease_seconds = lease_seconds
        self._on_gap = on_gap
        self.held: dict[Place, HeldShard] = {}
        self.group: Group | None = None
        self.unclaimed = 0
        """Readable shards that nobody had when it last looked."""
        self._prefix = ""

    def look(self) -> None:
        """Reads the group, and does what is due: finds shards, takes, asks, marks what is to be handed over."""
        group, shards = self._read()
        # Where all is read, a stream that was switched off and on again has new shards, and nothing else.
        is_read = all(one.ended for one in shards)
        is_due = not group.ready or is_read or self._groups.clock.now() - group.found_at > _SEARCH_SECONDS
        if is_due and (self._groups.begin_search(group) or not group.ready):
            self.find_shards(group, shards)
            group, shards = self._read()
        self.group = group
        states = {(one.stream, one.id): one for one in shards}
        for place, held in list(self.held.items()):
            state = states.get(place)
            if state is None or state.token != held.state.token or held.generation != group.generation:
                self.held.pop(place).give_up(LeaseLost(held.id, None, "the group was reset, or another has it"))
        self._balance(group, shards)

    def _read(self) -> tuple[Group, list[ShardState]]:
        group, shards = self._groups.read()
        if group is None:
            self._stream_arn(is_new=True)
            self._groups.create(self._start)
            group, shards = self._groups.read()
        assert group is not None
        return group, shards

    def _balance(self, group: Group, shards: list[ShardState]) -> None:
        plan = balance(shards, self._owner, self._groups.clock.now(), has_ended)
        taken = 0
        for one in plan.take:
            if (one.stream, one.id) not in self.held:
                lease = self._groups.take(group, one, self._owner, self._lease_seconds)
                taken += lease is not None
                if lease is not None:
                    state = replace(one, lease=lease, token=lease.token)
                    reader = ShardReader(self._db, self._arn_of(one.stream), state)
                    self.held[one.stream, one.id] = HeldShard(self._groups, group, state, lease, reader)
        self.unclaimed = len(plan.take) - taken
        for one in plan.ask_for:
            self._groups.ask_for(group, one, self._owner, self._lease_seconds)
        for one in plan.hand_over:
            if (one.stream, one.id) in self.held:
                self.held[one.stream, one.id].hand_over = True

    # ── shards ───────────────────────────────────────────────────────────────────────────────────

    def find_shards(self, group: Group, known: list[ShardState]) -> None:
        """Writes down shards that are new; forgets those that are gone (3)."""
        latest = self._stream_arn(is_new=False)
        self._prefix = latest.rpartition("/")[0]
        streams = {label_of(latest), *(one.stream for one in known)}
        if not group.ready and group.start != "latest":
            streams |= self._streams()  # one that was switched off meanwhile has older changes
        described: list[ShardInfo] = []
        for stream in sorted(streams):
            try:
                described += describe_shards(self._db, self._arn_of(stream))
            except ResourceNotFoundException:
                if stream == label_of(latest) and not known:
                    raise
        there = {(one.stream, one.id) for one in described}
        written = {(one.stream, one.id) for one in known}
        self._groups.add(
            group, [self._new_state(group, one) for one in described if (one.stream, one.id) not in written]
        )
        if not group.ready:
            self._groups.end_search(group)
        for one in known:
            if (one.stream, one.id) not in there and (one.stream, one.id) not in self.held:
                self._drop_gone(group, one)

    def _streams(self) -> set[str]:
        """The labels of all streams of the table that can still be read."""
        found = self._db.execute("ListStreams", {"TableName": self._groups.table}).get("Streams", [])
        return {label_of(one["StreamArn"]) for one in found}

    def _new_state(self, group: Group, shard: ShardInfo) -> ShardState:
        """A shard that is found later began after the group did: all of it is the group's."""
        state = ShardState(shard.stream, shard.id, shard.parent)
        if group.ready or group.start == "oldest":
            return state
        if group.start != "latest":
            return replace(state, since=float(group.start))
        if shard.is_closed:
            return replace(state, ended=True)
        iterator = newest_iterator(self._db, self._arn_of(shard.stream), shard.id)
        return replace(state, since=group.began_at, iterator=iterator)

    def _drop_gone(self, group: Group, shard: ShardState) -> None:
        if shard.ended:
            self._groups.forget(group, shard)
        elif not (shard.lease is not None and shard.lease.takeable_at > self._groups.clock.now()):
            gap = self.tell_gap(shard, shard.after, shard.last_at)
            if self._groups.give_up(group, shard):
                self._groups.note_gap(gap)

    def tell_gap(self, shard: ShardState, after: str | None, last_at: float | None) -> Gap:
        """Tells of changes that may be lost. Raises what `on_gap` does."""
        gap = Gap(self._groups.table, self._groups.group, shard.id, after, last_at, self._groups.clock.now())
        self._on_gap(gap)
        return gap

    def skip_lost(self, held: HeldShard, *, is_gone: bool) -> None:
        """Goes on after changes that are gone, and keeps a note of it."""
        gap = self.tell_gap(held.state, held.after, held.last_at)
        self._groups.note_gap(gap)
        if is_gone:
            self.end(held)
        else:
            held.reader.skip_lost()

    def end(self, held: HeldShard) -> None:
        """A shard is read to its end: its children are written down first (1)."""
        group, shards = self._read()
        self.find_shards(group, shards)
        held.end()
        self._let_go(held)

    def release(self, held: HeldShard) -> None:
        """Lets others have it. One that was lost is another's already."""
        if held.lost is None:
            held.release()
        self._let_go(held)

    def release_all(self) -> None:
        """The consumer ends. What cannot be released is free when its lease is over."""
        for held in list(self.held.values()):
            try:
                self.release(held)
            except PenstockError as error:
                _LOG.debug("%s could not be released: %s", held.id, error)
                self._let_go(held)

    def _let_go(self, held: HeldShard) -> None:
        """Nothing of it is delivered here any more."""
        self.held.pop((held.state.stream, held.state.id), None)
        held.give_up(LeaseLost(held.id, None, "this consumer has given it back"))

    def _arn_of(self, stream: str) -> str:
        if not self._prefix:
            self._prefix = self._stream_arn(is_new=False).rpartition("/")[0]
        return f"{self._prefix}/{stream}"

    def _stream_arn(self, *, is_new: bool) -> str:
        """The table's newest stream. A group that exists also reads the rest of one that was switched off."""
        arn, is_on = stream_arn(self._db, self._groups.table)
        if is_new and not is_on:
            raise NoStream(self._groups.table, was_on=True)
        return arn


def stream_arn(db: Database, table: str) -> tuple[str, bool]:
    """The ARN of the table's newest stream, and whether it is on. Raises NoTable, NoStream."""
    try:
        described = db.execute("DescribeTable", {"TableName": table})["Table"]
    except ResourceNotFoundException:
        found = db.execute("ListStreams", {"TableName": table}).get("Streams", [])
        if not found:
            raise NoTable(table, db.name) from None
        return str(max(one["StreamArn"] for one in found)), False  # its table was deleted
    arn = described.get("LatestStreamArn")
    if arn is None:
        raise NoStream(table)
    return str(arn), bool((described.get("StreamSpecification") or {}).get("StreamEnabled"))
