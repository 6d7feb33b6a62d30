"""Which shards may be read, and who should have which (streams/shard_tree.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.leases import Lease
from penstock.streams.shard_tree import ShardState, balance, readable

STREAM = "2026-01-01"


@st.composite
def trees(draw: st.DrawFn) -> list[ShardState]:
    """Shards, each with an older one as its parent, or none; some read to their end."""
    count = draw(st.integers(1, 12))
    shards = []
    for place in range(count):
        parent = draw(st.none() | st.integers(0, place - 1)) if place else None
        shards.append(
            ShardState(STREAM, f"s{place:02d}", None if parent is None else f"s{parent:02d}", ended=draw(st.booleans()))
        )
    return shards


@given(trees())
def test_a_shard_is_readable_when_its_parent_is_read(shards: list[ShardState]) -> None:
    known = {one.id: one for one in shards}
    ids = {one.id for one in readable(shards)}
    for one in shards:
        parent = known.get(one.parent or "")
        assert (one.id in ids) == (not one.ended and (parent is None or parent.ended))


@given(trees())
def test_whatever_is_read_next_the_whole_tree_is_read_parents_first(shards: list[ShardState]) -> None:
    order: list[str] = []
    while free := readable(shards):
        order.append(free[0].id)
        shards = [replace(one, ended=True) if one.id == free[0].id else one for one in shards]
    assert all(one.ended for one in shards)
    places = {id: place for place, id in enumerate(order)}
    for one in shards:
        if one.parent in places and one.id in places:
            assert places[one.parent] < places[one.id]


def test_a_later_stream_waits_for_the_earlier_one() -> None:
    old, new = ShardState("2026-01-01", "s9"), ShardState("2026-01-02", "s1")
    assert readable([new, old]) == [old]
    assert readable([new, replace(old, ended=True)]) == [new]


def _held(shard: ShardState, owner: str, now: float) -> ShardState:
    lease = Lease(owner, shard.token + 1, now + 30, 30)
    return replace(shard, lease=lease, token=lease.token, wanted_until=0.0)


@given(st.integers(1, 20), st.integers(1, 6), st.randoms(use_true_random=False))
def test_consumers_that_look_in_turn_come_to_fair_shares(shard_count: int, members: int, chance) -> None:
    shards = {f"s{n:02d}": ShardState(STREAM, f"s{n:02d}") for n in range(shard_count)}
    owners = [f"c{n}" for n in range(members)]
    for _ in range(40):
        owner = chance.choice(owners)
        for _ in range(3):  # it looks, releases, looks again
            plan = balance(shards.values(), owner, 0.0)
            for one in plan.take:
                assert one.lease is None, "nothing is taken from a live holder"
                shards[one.id] = _held(one, owner, 0.0)
            for one in plan.ask_for:
                shards[one.id] = replace(shards[one.id], wanted_by=owner, wanted_until=10.0)
            for one in plan.hand_over:
                assert one.lease is not None and one.lease.owner == owner
                shards[one.id] = replace(shards[one.id], lease=None)
    for _ in range(3 * members):
        for owner in owners:
            plan = balance(shards.values(), owner, 0.0)
            for one in plan.take:
                shards[one.id] = _held(one, owner, 0.0)
            for one in plan.ask_for:
                shards[one.id] = replace(shards[one.id], wanted_by=owner, wanted_until=10.0)
            for one in plan.hand_over:
                shards[one.id] = replace(shards[one.id], lease=None)
    counts = Counter(one.lease.owner for one in shards.values() if one.lease is not None)
    assert sum(counts.values()) == shard_count
    numbers = [counts[owner] for owner in owners]
    assert max(numbers) - min(numbers) <= 1


def test_a_lease_is_taken_when_it_is_over_or_its_process_has_ended() -> None:
    held = replace(_held(ShardState(STREAM, "s1"), "other", 0.0), process="p")
    assert not balance([held], "me", 29.0).take
    assert not balance([held], "me", 31.0).take, "clocks may differ"
    assert balance([held], "me", 33.0).take == (held,)
    assert balance([held], "me", 1.0, has_ended=lambda process: process == "p").take == (held,)


def test_a_shard_that_was_handed_over_is_kept_for_who_asked() -> None:
    kept = ShardState(STREAM, "s1", wanted_by="b", wanted_until=10.0)
    assert not balance([kept], "c", 5.0).take
    assert balance([kept], "b", 5.0).take == (kept,)
    assert balance([kept], "c", 11.0).take == (kept,)
