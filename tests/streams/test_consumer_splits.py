"""Consumers of streams whose shards split, end, are trimmed and go; whose calls fail as AWS's do."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import islice

import pytest
from fake_streams import FakeStreams, fake_database
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.database import Database
from penstock.errors import (
    InternalServerError,
    LimitExceededException,
    ProvisionedThroughputExceededException,
    ThrottlingException,
)
from penstock.streams.change import Change
from penstock.streams.consumer import Consumer
from penstock.streams.errors import Gap, StreamGap

KEYS = [f"k{n}" for n in range(6)]


def consumer(db: Database, fake: FakeStreams, group: str | None = "mailer", **options) -> Consumer:
    options = {"start": "oldest", "follow": False, "checkpoint_seconds": 0.0} | options
    return Consumer(db, "orders", group, clock=fake.clock, **options)


def numbers(changes: list[Change]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for one in changes:
        found[one.keys["id"]].append(one.new["n"] if one.new else -1)
    return dict(found)


puts = st.tuples(st.just("put"), st.sampled_from(KEYS[:2]))
steps = st.lists(
    st.one_of(
        *[puts] * 8,
        st.tuples(st.just("split"), st.integers(0, 3)),
        st.tuples(st.just("roll"), st.integers(0, 3)),
        st.tuples(st.just("new stream"), st.just(0)),
        st.tuples(st.just("expire"), st.just(0)),
        st.tuples(st.just("throttle"), st.just(0)),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("die"), st.integers(1, 6)),
    ),
    min_size=10,
    max_size=50,
)


@settings(max_examples=40)
@given(steps, st.integers(1, 3))
def test_nothing_is_lost_and_each_items_changes_come_in_order_whatever_happens(script, shards: int) -> None:
    db, fake = fake_database(shards)
    fake.page = 1
    written: dict[str, int] = defaultdict(int)
    delivered: dict[str, int] = defaultdict(lambda: -1)
    """Of each item, the last change that was delivered, as the group knows it."""
    deaths = repeats = 0

    def take(changes: list[Change]) -> None:
        nonlocal repeats
        for one in changes:
            key, n = one.keys["id"], one.new["n"]
            if n <= delivered[key]:
                repeats += 1
            else:
                assert n == delivered[key] + 1, f"{key}: {n} came after {delivered[key]}"
                delivered[key] = n

    for what, value in script:
        if what == "put":
            fake.put(value, written[value])
            written[value] += 1
        elif what == "split":
            fake.split(value)
        elif what == "roll":
            fake.roll(value)
        elif what == "new stream" and len(fake.shards) < 50:
            fake.new_stream()
        elif what == "expire":
            fake.expire_iterators()
        elif what == "throttle":
            fake.faults = [ThrottlingException("slow down")]
        elif what == "read":
            fake.faults.clear()
            with consumer(db, fake) as one:
                for change in islice(one, value):
                    take([change])
                    change.done()
        elif what == "die":
            fake.faults.clear()
            deaths += 1
            dying = consumer(db, fake)
            changes = iter(dying)
            for change in islice(changes, value):
                take([change])
            _kill(dying, changes)
            fake.clock.advance(60)
    fake.faults.clear()
    with consumer(db, fake) as last:
        take(list(last))
    assert {key: count - 1 for key, count in written.items()} == {key: delivered[key] for key in written}
    assert not repeats or deaths
    db.close()


def _kill(one: Consumer, changes) -> None:
    """Its leases stay as they are: nothing more is written by it."""
    one._member.held.clear()
    changes.close()


def test_children_are_read_after_their_parent_and_a_restart_goes_on_with_them() -> None:
    db, fake = fake_database()
    for n in range(4):
        fake.put("a", n)
    fake.split(0)
    for n in range(4, 8):
        fake.put("a", n)
    with consumer(db, fake) as first:
        assert [one.new["n"] for one in islice(first, 5)] == [0, 1, 2, 3, 4]
    with consumer(db, fake) as second:
        assert numbers(list(second)) == {"a": [4, 5, 6, 7]}, "the fifth was not done"
    db.close()


def test_a_new_group_begins_with_the_newest_change_and_loses_none_after_it() -> None:
    db, fake = fake_database()
    fake.put("a", 0)
    fake.split(0)
    fake.put("a", 1)
    with consumer(db, fake, start="latest") as first:
        assert list(first) == []
    fake.put("a", 2)
    fake.split(0)
    fake.put("a", 3)
    with consumer(db, fake, start="latest") as second:
        assert numbers(list(second)) == {"a": [2, 3]}
    db.close()


def test_a_group_that_began_with_the_newest_change_finds_its_place_when_the_iterator_has_expired() -> None:
    db, fake = fake_database()
    fake.put("a", 0)
    fake.clock.advance(100)
    with consumer(db, fake, start="latest") as first:
        assert list(first) == []
    fake.clock.advance(3600)
    fake.put("a", 1)
    fake.expire_iterators()
    with consumer(db, fake, start="latest") as second:
        assert numbers(list(second)) == {"a": [1]}
    db.close()


@pytest.mark.parametrize(
    "error", [ThrottlingException, LimitExceededException, ProvisionedThroughputExceededException, InternalServerError]
)
def test_calls_that_are_throttled_are_repeated(error) -> None:
    db, fake = fake_database()
    fake.put("a", 0)
    with consumer(db, fake) as one:
        changes = iter(one)
        assert next(changes).new == {"id": "a", "n": 0}
        fake.put("a", 1)
        fake.faults = [error("slow down")]
        assert next(changes).new == {"id": "a", "n": 1}
    assert not fake.faults
    db.close()


def test_trimmed_changes_stop_the_consumer_or_are_told_and_noted() -> None:
    db, fake = fake_database()
    for n in range(6):
        fake.put("a", n)
    with consumer(db, fake) as first:
        for change in islice(first, 1):
            change.done()
    fake.trim("shardId-00000000", 3)
    with consumer(db, fake) as refused, pytest.raises(StreamGap, match="on_gap='continue'") as raised:
        list(refused)
    assert raised.value.gap.shard == "shardId-00000000"
    told: list[Gap] = []
    with consumer(db, fake, on_gap=told.append) as second:
        assert numbers(list(second)) == {"a": [3, 4, 5]}
    assert len(told) == 1 and second.stats.gaps == 1
    assert len(list(second._groups.gaps())) == 1
    db.close()


def test_a_shard_that_is_gone_unread_is_told_as_a_gap() -> None:
    db, fake = fake_database(2)
    keys = {fake._shard_of(key).id: key for key in KEYS}
    for key in keys.values():
        fake.put(key, 0)
    with consumer(db, fake) as first:
        next(iter(first))
    fake.shards.pop(next(iter(keys)))
    fake.clock.advance(100)
    with consumer(db, fake) as refused, pytest.raises(StreamGap):
        list(refused)
    with consumer(db, fake, on_gap="continue") as second:
        assert len(list(second)) == 1
    with consumer(db, fake) as third:
        assert list(third) == []
    db.close()


def test_a_shard_that_was_read_and_is_gone_is_forgotten() -> None:
    db, fake = fake_database()
    fake.put("a", 0)
    fake.roll(0)
    with consumer(db, fake) as first:
        assert len(list(first)) == 1
    fake.shards.pop("shardId-00000000")
    fake.clock.advance(100)
    with consumer(db, fake) as second:
        assert list(second) == []
        assert [one.id for one in second._groups.read()[1]] == ["shardId-00000001"]
    db.close()


def test_consumers_share_shards_fairly_and_hand_over_without_a_repeat() -> None:
    db, fake = fake_database(4)
    seen: list[tuple[str, str, int]] = []
    consumers = [consumer(db, fake, follow=True, poll_seconds=0.02) for _ in range(3)]
    for one in consumers:
        one._look_seconds = 0.05

    def read(one: Consumer) -> None:
        for change in one:
            seen.append((one.name, change.keys["id"], change.new["n"]))

    threads = [threading.Thread(target=read, args=(one,)) for one in consumers]
    keys = [f"x{n}" for n in range(40)]
    count = 0
    for number, thread in enumerate(threads):
        thread.start()
        for n in range(number * 20, number * 20 + 20):
            for key in keys:
                fake.put(key, n)
                count += 1
            time.sleep(0.01)
    ends_at = time.monotonic() + 30
    while time.monotonic() < ends_at and (
        len(seen) < count or sorted(len(one.shards) for one in consumers) != [1, 1, 2]
    ):
        time.sleep(0.02)
    assert sorted(len(one.shards) for one in consumers) == [1, 1, 2]
    for one in consumers:
        one.stop()
    for thread in threads:
        thread.join()
    assert len(seen) == count, "none is lost, and none comes twice"
    for key in keys:
        assert [n for _, id, n in seen if id == key] == list(range(60))
    db.close()


def test_an_idle_consumer_describes_the_stream_once_a_minute_and_polls_once_a_pause() -> None:
    db, fake = fake_database(2)
    with consumer(db, fake, follow=True, poll_seconds=0.1) as one:
        timer = threading.Timer(1.05, one.stop)
        timer.start()
        fake.calls.clear()
        list(one)
        timer.join()
    assert fake.calls.count("DescribeStream") == 1
    assert fake.calls.count("GetShardIterator") == 2
    assert fake.calls.count("GetRecords") <= 2 * 12
    assert fake.calls.count("UpdateItem") <= 2 + 2 + 2, "two leases, the search, two releases"
    db.close()
