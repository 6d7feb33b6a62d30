"""Rates as values: how they are read, and which slots they give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.model.job import BadJob
from penstock.jobs.model.rate import AHEAD_SECONDS, SLOT_SECONDS, Rate, give_slots, has_slot, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10, 1)),
        ("100/m", Rate(100, 60)),
        ("100/min", Rate(100, 60)),
        ("1/h", Rate(1, 3_600)),
        ("500/day", Rate(500, 86_400)),
        ("1/5s", Rate(1, 5)),
        (" 100/M burst 20 ", Rate(100, 60, 20)),
    ],
)
def test_a_rate_is_a_count_and_a_time(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "10", "10/x", "0/s", "-1/s", "1001/s", "1/0s", "1/400d", "10/s burst 0", "10/s burst 11", "1.5/s"]
)
def test_a_rate_that_cannot_be_is_refused_with_an_example_or_the_bounds(text: str) -> None:
    with pytest.raises(BadJob, match=r"10/s|1 in 366 days|from 1 to its count"):
        parse_rate(text)


def test_an_idle_key_has_one_slot_at_once_and_the_next_an_interval_later() -> None:
    slots, arrival = give_slots(0.0, [parse_rate("2/s")] * 10, 1_000.0)
    assert slots == [1_000.0, 1_000.5, 1_001.0, 1_001.5, 1_002.0]
    assert arrival == 1_002.5
    assert give_slots(arrival, [parse_rate("2/s")], 1_000.1) == ([], arrival), "the next is not within the moment ahead"


def test_a_burst_is_had_at_once_and_only_after_a_pause() -> None:
    rate = parse_rate("3/3s burst 3")
    slots, arrival = give_slots(0.0, [rate] * 9, 1_000.0)
    assert slots == [1_000.0, 1_000.0, 1_000.0, 1_001.0, 1_002.0]
    assert give_slots(arrival, [rate] * 2, 1_002.0)[0] == [1_003.0, 1_004.0]
    assert give_slots(arrival, [rate] * 3, 1_009.0)[0] == [1_009.0] * 3


@given(
    st.sampled_from(["3/s", "10/s", "100/m", "7/2s burst 3", "50/m burst 50"]),
    st.lists(st.floats(0, 5), min_size=1, max_size=40),
)
def test_in_any_span_there_are_no_more_slots_than_the_rate_and_its_burst(text: str, pauses: list[float]) -> None:
    rate, arrival, now, slots = parse_rate(text), 0.0, 1_000.0, list[float]()
    for pause in pauses:
        now += pause
        given_now, arrival = give_slots(arrival, [rate] * 20, now)
        assert all(now <= slot <= now + AHEAD_SECONDS for slot in given_now)
        slots += given_now
    for first, start in enumerate(slots):
        for count, end in enumerate(slots[first:], start=1):
            assert count <= (end - start) / rate.interval + rate.burst + 1e-6


def test_a_slot_that_was_not_used_for_long_is_none() -> None:
    assert has_slot(None, None, 1_000.0)
    assert not has_slot("k", None, 1_000.0)
    assert has_slot("k", 1_000.0, 1_000.0 + SLOT_SECONDS)
    assert not has_slot("k", 1_000.0, 1_000.1 + SLOT_SECONDS)
