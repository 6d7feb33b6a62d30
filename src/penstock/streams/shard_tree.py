"""Shards and who reads them, as values: which may be read now, and which a consumer takes, asks for or hands over.

1. A shard may be read when its parent is read to its end, or is no longer there. So the changes of an item, which move
   from a shard to its children, come in their order. A later stream of the table waits for all earlier ones.
2. A shard is read by the one consumer that holds its lease.
3. Consumers share readable shards fairly: the numbers that two of them hold differ by one at most. Who has two more
   than another is asked for one, and hands it over between two changes: no change is delivered twice by this.
4. A shard that was handed over is kept for whoever asked, for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.leases import AbandonedLease, Lease


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard of a group: how far it is read, and who holds it."""

    stream: str
    """The stream's label: a time, so that labels sort by age."""
    id: str
    parent: str | None = None
    after: str | None = None
    """The sequence number of the last change that is done."""
    last_at: float | None = None
    """When that change was made."""
    since: float | None = None
    """Changes that are older are not for the group."""
    iterator: str | None = None
    """Where to begin while nothing is done: the end of the shard when the group began."""
    ended: bool = False
    lease: Lease | None = None
    process: str = ""
    who: str = ""
    token: int = 0
    """Of its last lease."""
    wanted_by: str | None = None
    wanted_until: float = 0.0

    def wanted(self, now: float) -> str | None:
        """Who has asked for it."""
        return self.wanted_by if self.wanted_until > now else None


def readable(shards: Iterable[ShardState]) -> list[ShardState]:
    """Those that may be read now (1), oldest streams first."""
    known = {(one.stream, one.id): one for one in shards}
    unread = [one for one in known.values() if not one.ended]
    oldest = min((one.stream for one in unread), default="")
    free = [one for one in unread if one.stream == oldest and _parent_is_read(one, known)]
    return sorted(free, key=lambda one: one.id)


def _parent_is_read(shard: ShardState, known: dict[tuple[str, str], ShardState]) -> bool:
    parent = None if shard.parent is None else known.get((shard.stream, shard.parent))
    return parent is None or parent.ended


@dataclass(frozen=True, slots=True)
class Balance:
    """What a consumer does next for its share."""

    take: tuple[ShardState, ...] = ()
    """Nobody holds them."""
    ask_for: tuple[ShardState, ...] = ()
    """Somebody who has too many holds them."""
    hand_over: tuple[ShardState, ...] = ()
    """Held by us, and somebody else has asked for them."""


def balance(
    shards: Iterable[ShardState], me: str, now: float, has_ended: Callable[[str], bool] = lambda process: False
) -> Balance:
    """What `me` does about the shards that may be read (3)."""
    open_shards = readable(shards)
    holders = {one.id: _holder(one, now, has_ended) for one in open_shards}
    counts: Counter[str] = Counter({me: 0})
    free, given = [], []
    for one in open_shards:
        wanted, holder = one.wanted(now), holders[one.id]
        if holder is None and wanted in (None, me):
            free.append(one)
        elif holder == me and wanted not in (None, me):
            given.append(one)
        owner = wanted or holder
        if owner is not None and not (holder is None and owner == me):
            counts[owner] += 1
    share = -(-len(open_shards) // len(counts))
    ours = [one for one in free if one.wanted(now) == me]
    rest = [one for one in free if one.wanted(now) is None]
    room = max(share - counts[me] - len(ours), 0)
    take = (*ours, *rest[:room])
    counts[me] += len(take)
    return Balance(take, _asked(open_shards, holders, counts, me, now), tuple(given))


def _asked(
    shards: list[ShardState], holders: dict[str, str | None], counts: Counter[str], me: str, now: float
) -> tuple[ShardState, ...]:
    """Those that others should hand over: from whoever has most, until the difference is one at most (3)."""
    asked: list[ShardState] = []
    while True:
        owner, most = max(
            ((one, count) for one, count in counts.items() if one != me), key=lambda pair: pair[1], default=("", 0)
        )
        if most - counts[me] < 2:
            return tuple(asked)
        ready = [one for one in shards if holders[one.id] == owner and one.wanted(now) is None and one not in asked]
        if not ready:
            return tuple(asked)
        asked.append(ready[-1])
        counts[owner] -= 1
        counts[me] += 1


def _holder(shard: ShardState, now: float, has_ended: Callable[[str], bool]) -> str | None:
    """Who holds a lease on it that nobody may take yet."""
    lease = shard.lease
    if lease is None:
        return None
    if now < lease.until and not shard.process:
        return lease.owner
    left = AbandonedLease(lease.owner, lease.token, lease.until, lease.seconds, has_ended=has_ended(shard.process))
    return lease.owner if left.takeable_at > now else None
