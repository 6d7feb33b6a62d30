"""Retrying (retry.py, 1-3), and text that can be stored."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProvisionedThroughputExceededException
from penstock.retry import TRACE_CHARACTERS, Backoff, BadRetryPolicy, Failure, RetryPolicy
from penstock.stored_text import cut, storable


def test_1_types_and_error_codes_decide_and_never_on_wins() -> None:
    policy = RetryPolicy(2, on=(OSError, "ProvisionedThroughputExceededException"), never_on=(FileNotFoundError,))
    assert policy.covers(ConnectionError())
    assert policy.covers(ProvisionedThroughputExceededException("slower"))
    assert not policy.covers(FileNotFoundError())
    assert not policy.covers(ValueError("ProvisionedThroughputExceededException"))
    assert [policy.allows(OSError(), failures) for failures in (0, 1, 2)] == [True, True, False]


class ClientError(Exception):
    response = {"Error": {"Code": "ThrottlingException"}}  # noqa: RUF012 - as boto's has it


def test_1_the_code_of_botos_errors_is_known() -> None:
    assert RetryPolicy(1, on=("ThrottlingException",)).covers(ClientError())


@pytest.mark.parametrize(
    "wrong",
    [{"times": -1}, {"times": True}, {"on": (3,)}, {"never_on": "OSError"}, {"base_seconds": -1}, {"multiplier": 0.5}],
)
def test_a_policy_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRetryPolicy):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


def test_a_policy_is_sent_to_other_processes() -> None:
    policy = RetryPolicy(3, on=(OSError, "ThrottlingException"))
    assert pickle.loads(pickle.dumps(policy)) == policy


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_2_waits_are_below_a_bound_that_grows_up_to_the_cap(failures: int, drawn: float) -> None:
    backoff = Backoff(base_seconds=0.5, multiplier=3.0, cap_seconds=60.0)
    assert backoff.wait(failures, lambda: drawn) == drawn * backoff.bound(failures)
    assert backoff.bound(failures) <= backoff.bound(failures + 1) <= 60.0
    assert [backoff.bound(number) for number in (1, 2, 3)] == [0.5, 1.5, 4.5]


def test_2_a_policys_first_wait_is_below_its_base() -> None:
    policy = RetryPolicy(5, base_seconds=2.0)
    assert [policy.delay(failures, lambda: 1.0) for failures in range(4)] == [2.0, 4.0, 8.0, 16.0]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_3_whatever_was_raised_can_be_stored() -> None:
    try:
        raise OSError("x" * 9_000 + "\udc80")
    except OSError as error:
        failure = Failure.of(error, characters=500)
    assert (failure.kind, failure.name, len(failure.message), failure.code) == ("OSError", "OSError", 500, "")
    assert len(failure.trace.encode()) <= 6 * TRACE_CHARACTERS
    assert "\\udc80" in failure.trace
    assert Failure.of(Silent()).message == "(its message cannot be shown)"
    assert Failure.of(ClientError("slow"), trace=False) == Failure("ClientError", "slow", code="ThrottlingException")


@given(st.text(st.characters(), max_size=30), st.integers(1, 20))
def test_3_cut_text_is_storable_and_short(text: str, characters: int) -> None:
    cut(text + "\udcff", characters).encode()
    if storable(text) == text:
        assert len(cut(text, characters)) <= characters
        assert cut(text, characters) == text or cut(text, characters).endswith("…")
