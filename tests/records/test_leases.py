"""Leases by themselves (records/leases.py, 1-5); tests/jobs/test_job_interleavings.py has them under workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.records.leases import (
    LONGEST_LEASE_SECONDS,
    SHORTEST_LEASE_SECONDS,
    LeaseLost,
    allowance_seconds,
    checked_seconds,
    grant,
    new_owner,
)

NOW = 1_900_000_000.0
seconds = st.floats(SHORTEST_LEASE_SECONDS, LONGEST_LEASE_SECONDS)


@given(seconds, st.floats(-1, 1))
def test_3_clocks_that_differ_by_less_than_the_allowance_take_nothing_early(length: float, part: float) -> None:
    """Holder and taker are off by at most half the allowance each; by the true time, the lease has ended."""
    skew = part * allowance_seconds(length) / 2
    lease = grant(0, "w1", NOW + skew, length)
    taken_at_true_time = lease.takeable_at - (-skew)
    holder_believes_until = NOW + length  # it counts from when it asked, on a clock that nobody sets (4)
    assert taken_at_true_time >= holder_believes_until - 1e-3


@given(seconds)
def test_3_the_allowance_is_a_part_of_the_lease_and_not_more_than_two_seconds(length: float) -> None:
    assert 0 < allowance_seconds(length) <= 2.0
    lease = grant(0, "w1", NOW, length)
    assert lease.until < lease.takeable_at <= lease.until + length / 5


def test_2_tokens_only_grow() -> None:
    assert [grant(token, "w1", NOW, 30.0).token for token in (0, 1, 41)] == [1, 2, 42]


@given(seconds, st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_5_a_renewal_moves_the_end_forward_and_changes_nothing_else(length: float, moments: list[float]) -> None:
    """4: a clock that was set back shortens nothing."""
    lease = grant(6, "w1", NOW, length)
    for moment in moments:
        renewed = lease.renewed(NOW + moment)
        assert renewed.until == max(lease.until, NOW + moment + length)
        assert (renewed.owner, renewed.token, renewed.seconds) == ("w1", 7, length)
        lease = renewed


@pytest.mark.parametrize("wrong", [0, -1, 0.49, LONGEST_LEASE_SECONDS + 1, float("nan"), float("inf")])
def test_a_lease_has_a_sensible_length(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"lease_seconds is 0\.5 to 43200"):
        checked_seconds(wrong)
    with pytest.raises(ValueError, match="lease_seconds"):
        grant(0, "w1", NOW, wrong)


def test_no_two_workers_have_the_same_name() -> None:
    assert len({new_owner() for _ in range(100)}) == 100


def test_a_lost_lease_says_who_has_it() -> None:
    lost = LeaseLost("job_1", "w2")
    assert (lost.record, lost.held_by) == ("job_1", "w2")
    assert str(lost) == "job_1: the lease is lost (w2 holds it now). Stop working on it: nothing more will be stored."
    assert "nobody holds it now" in str(LeaseLost("job_1"))
    assert "it is cancelled" in str(LeaseLost("job_1", None, "it is cancelled"))
