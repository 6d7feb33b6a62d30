"""Leases by themselves (leases.py, 1-6); tests/jobs/test_job_interleavings.py has them under workers."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConnectionFailed, DatabaseClosed, TransportClosed
from penstock.leases import (
    LONGEST_LEASE_SECONDS,
    SHORTEST_LEASE_SECONDS,
    HeldLease,
    LeaseLost,
    LeaseRenewer,
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
        renewed = lease.renew(NOW + moment)
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


# ── renewal (6) ──────────────────────────────────────────────────────────────────────────────────


class Attempt:
    """A lease whose times are set by hand."""

    def __init__(self, id: str, due_in: float, error: Exception | None = None, *, has_expired: bool = False) -> None:
        self.id = id
        self.has_expired = has_expired
        self.renewals = 0
        self.lost: LeaseLost | None = None
        self._due_in = due_in
        self._error = error

    def renewal_due_in(self) -> float:
        return self._due_in

    def renew(self) -> None:
        self.renewals += 1
        if self._error is not None:
            raise self._error

    def give_up(self, lost: LeaseLost) -> None:
        self.lost = lost


def test_6_what_is_due_is_renewed_and_nothing_else() -> None:
    due, later = Attempt("a", -0.1), Attempt("b", 0.15)
    pause = LeaseRenewer(lambda: [due, later]).round()
    assert (due.renewals, later.renewals, pause) == (1, 0, 0.15)


def test_6_a_lease_is_given_up_when_it_is_lost_or_over_and_not_before() -> None:
    lost = Attempt("lost", 0, LeaseLost("lost", "w2"))
    away = Attempt("away", 0, OSError("away"))
    over = Attempt("over", 0, OSError("away"), has_expired=True)
    fine = Attempt("fine", 0)
    LeaseRenewer(lambda: [lost, away, over, fine]).round()
    assert lost.lost is not None
    assert lost.lost.held_by == "w2"
    assert away.lost is None
    assert over.lost is not None
    assert "could not be renewed: away" in str(over.lost)
    assert fine.renewals == 1


def test_6_what_its_own_process_has_closed_is_given_up_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    closed = Attempt("closed", 0, DatabaseClosed("jobs.db: the database has been closed"))
    away = Attempt("away", 0, TransportClosed("http://127.0.0.1:8000", "the database has been closed"))
    LeaseRenewer(lambda: [closed, away]).round()
    assert closed.lost is not None
    assert away.lost is not None
    assert caplog.messages == []


def test_6_where_the_database_is_away_one_lease_asks_for_all(caplog: pytest.LogCaptureFixture) -> None:
    error = ConnectionFailed("http://127.0.0.1:8000", "nothing listens there")
    first, second, over = Attempt("a", 0, error), Attempt("b", 0, error), Attempt("c", 0, error, has_expired=True)
    renewer = LeaseRenewer(lambda: [first, second, over])
    for _ in range(3):
        renewer.round()
    assert (first.renewals, second.renewals, over.renewals) == (3, 0, 0)
    assert (first.lost, second.lost) == (None, None)
    assert over.lost is not None
    assert [record.message[:28] for record in caplog.records] == ["The database does not answer"]


def test_6_many_leases_are_renewed_side_by_side() -> None:
    together = threading.Barrier(4)

    class Slow(Attempt):
        def renew(self) -> None:
            super().renew()
            together.wait(30)

    held = [Slow(str(number), 0) for number in range(100)]
    LeaseRenewer(lambda: held, side_by_side=4).round()
    assert [one.renewals for one in held] == [1] * 100


def test_6_what_could_not_be_renewed_together_is_renewed_one_by_one() -> None:
    due, left, later = Attempt("a", 0), Attempt("b", 0), Attempt("c", 0.5)
    asked: list[list[str]] = []

    def together(leases: Sequence[Attempt]) -> None:
        asked.append([lease.id for lease in leases])
        due._due_in = 10
        raise OSError("away")

    LeaseRenewer(lambda: [due, left, later], together=together).round()
    assert asked == [["a", "b"]]
    assert (due.renewals, left.renewals, later.renewals) == (0, 1, 0)


def test_what_goes_on_beside_says_when_it_is_wanted_again_and_its_failure_stops_nothing() -> None:
    assert LeaseRenewer(list, beside=lambda: 0.25).round() == 0.25
    attempt = Attempt("a", 0)
    answers = iter([OSError("away")])

    def beside() -> float:
        for error in answers:
            raise error
        return 1.0

    renewer = LeaseRenewer(lambda: [attempt], beside=beside)
    assert 0 < renewer.round() < 1
    renewer.round()
    assert attempt.renewals == 1


def test_the_thread_renews_until_it_is_stopped() -> None:
    renewed = threading.Event()
    held = HeldLease("a", SHORTEST_LEASE_SECONDS, renewed.set)
    with LeaseRenewer(lambda: [held]):
        assert renewed.wait(30)
    renewed.clear()
    assert not any(thread.name == "penstock-leases" and thread.is_alive() for thread in threading.enumerate())


def test_a_held_lease_is_checked_before_each_write() -> None:
    held = HeldLease("a", 3600.0, lambda: None)
    held.check()
    with pytest.raises(LeaseLost, match="in time"):
        held.check(margin_seconds=3601.0)
    assert 0 < held.renewal_due_in() <= 1200.0
    held.give_up(LeaseLost("a", "w2"))
    with pytest.raises(LeaseLost, match="w2 holds it now"):
        held.check()
    assert held.renewal_due_in() == float("inf")
