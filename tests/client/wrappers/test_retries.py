"""Retrying (retries.py, 1-4) and which calls may be repeated (repeatable.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.wrappers.retries import (
    DEFAULT_RETRIES,
    AsyncRetrying,
    RequestRetries,
    RetryBudget,
    Retrying,
    may_repeat,
)
from penstock.clock import ManualClock
from penstock.errors import (
    ConditionalCheckFailedException,
    ConnectionFailed,
    CredentialsMissing,
    InternalServerError,
    PenstockError,
    ProvisionedThroughputExceededException,
    ResourceInUseException,
    ResourceNotFoundException,
    ThrottlingException,
    TimedOut,
    TransactionCanceledException,
    ValidationException,
    error_of,
)

PUT = {"TableName": "jobs", "Item": {"id": {"S": "a"}}}


class Scripted:
    """A transport that answers with what it was given, in order, and keeps what it was asked."""

    name = "scripted"

    def __init__(self, *script: PenstockError | dict[str, Any]) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.closed = False

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((operation, request))
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, PenstockError):
            raise step
        return step

    def close(self) -> None:
        self.closed = True


class AsyncScripted(Scripted):
    async def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        return Scripted.execute(self, operation, request)

    async def close(self) -> None:  # type: ignore[override]
        self.closed = True


def throttled() -> ProvisionedThroughputExceededException:
    return ProvisionedThroughputExceededException("slower")


def lost(kind: type = TimedOut, *, sent: bool = True) -> PenstockError:
    return kind("http://localhost:8000", "no answer in 30 s", sent=sent)


def retrying(
    transport: Scripted, policy: RequestRetries = DEFAULT_RETRIES, **options: Any
) -> tuple[Retrying, list[float]]:
    """A wrapper whose waits move its clock and are kept; by default each wait is its whole bound."""
    clock = ManualClock()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    return Retrying(transport, policy, **{"clock": clock, "sleep": sleep, "draw": lambda: 1.0, **options}), waits


@pytest.mark.parametrize(
    "error",
    [
        throttled(),
        ThrottlingException("slower"),
        InternalServerError("oops"),
        error_of("ServiceUnavailable", "busy", 503),
        error_of("SlowDown", "slower", 400),
        lost(sent=False),
        lost(sent=True),
        lost(ConnectionFailed),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_passing_error_is_retried(error):
    wrapper, waits = retrying(Scripted(error, {"ok": 1}))
    assert wrapper.execute("PutItem", PUT) == {"ok": 1}
    assert waits == [0.05]


@pytest.mark.parametrize(
    "error",
    [
        ValidationException("Throttling: Rate exceeded"),  # the text is not asked
        ResourceNotFoundException("no table"),
        ConditionalCheckFailedException("The conditional request failed"),
        CredentialsMissing("aws://eu-west-2", "no credentials"),
        error_of("UnknownThing", "?", 400),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_error_is_raised_at_once(error):
    wrapper, waits = retrying(Scripted(error))
    with pytest.raises(type(error)):
        wrapper.execute("PutItem", PUT)
    assert waits == []


def test_waits_double_up_to_the_cap():
    wrapper, waits = retrying(Scripted(throttled()), RequestRetries(attempts=6, base_seconds=1, cap_seconds=5))
    with pytest.raises(ProvisionedThroughputExceededException) as raised:
        wrapper.execute("PutItem", PUT)
    assert waits == [1, 2, 4, 5, 5]
    assert raised.value.__notes__ == ["PutItem: gave up after 6 attempts."]


def test_waits_have_full_jitter():
    draws = iter([0.0, 0.5, 0.25])
    wrapper, waits = retrying(
        Scripted(throttled(), throttled(), throttled(), {}), RequestRetries(base_seconds=1), draw=lambda: next(draws)
    )
    wrapper.execute("PutItem", PUT)
    assert waits == [0.0, 1.0, 1.0]


def test_nobody_waits_past_the_deadline():
    policy = RequestRetries(attempts=50, base_seconds=1, cap_seconds=4, deadline_seconds=10)
    wrapper, waits = retrying(Scripted(throttled()), policy)
    with pytest.raises(ProvisionedThroughputExceededException):
        wrapper.execute("PutItem", PUT)
    assert sum(waits) <= 10
    assert wrapper.counters.past_deadline == 1


def test_an_outage_uses_the_budget_up_and_is_then_met_with_single_attempts():
    transport = Scripted(lost())
    wrapper, _ = retrying(transport)
    for _ in range(100):
        with pytest.raises(TimedOut):
            wrapper.execute("PutItem", PUT)
    assert len(transport.asked) == 100 + RetryBudget.size // RetryBudget.timeout_cost
    assert wrapper.counters.out_of_budget > 80


def test_successes_refill_the_budget():
    budget = RetryBudget(10)
    wrapper, _ = retrying(Scripted(throttled(), throttled(), {}), budget=budget)
    wrapper.execute("PutItem", PUT)
    assert budget.left == 5  # two retries paid, the last one's price came back
    for _ in range(9):
        wrapper.execute("PutItem", PUT)
    assert budget.left == 10


def test_counters_tell_what_happened():
    wrapper, _ = retrying(Scripted(throttled(), lost(), {}))
    wrapper.execute("PutItem", PUT)
    counters = wrapper.counters
    assert (counters.calls, counters.retries, counters.throttles, counters.lost_answers) == (1, 2, 1, 1)
    assert counters.waited_seconds == pytest.approx(0.15)


def test_a_failed_condition_after_a_lost_answer_may_be_the_calls_own_effect():
    refused = ConditionalCheckFailedException("The conditional request failed", Item={"id": {"S": "a"}})
    wrapper, _ = retrying(Scripted(lost(), refused))
    with pytest.raises(ConditionalCheckFailedException) as raised:
        wrapper.execute("PutItem", {**PUT, "ConditionExpression": "attribute_not_exists(id)"})
    assert raised.value.maybe_ours
    assert raised.value.item == {"id": {"S": "a"}}


def test_a_failed_condition_after_a_throttle_is_somebody_elses():
    wrapper, _ = retrying(Scripted(throttled(), lost(sent=False), ConditionalCheckFailedException("no")))
    with pytest.raises(ConditionalCheckFailedException) as raised:
        wrapper.execute("PutItem", PUT)
    assert not raised.value.maybe_ours
    assert raised.value.item is None


@pytest.mark.parametrize(
    ("operation", "error"),
    [("CreateTable", ResourceInUseException("exists")), ("DeleteTable", ResourceNotFoundException("gone"))],
)
def test_a_table_made_or_deleted_by_the_lost_call_is_told_the_same_way(operation, error):
    wrapper, _ = retrying(Scripted(InternalServerError("oops"), error))
    with pytest.raises(type(error)) as raised:
        wrapper.execute(operation, {"TableName": "jobs"})
    assert raised.value.maybe_ours


def test_transactions_get_a_token_before_the_first_attempt_and_keep_it():
    transport = Scripted(lost(), throttled(), {})
    wrapper, _ = retrying(transport)
    request = {"TransactItems": []}
    wrapper.execute("TransactWriteItems", request)
    tokens = {asked["ClientRequestToken"] for _, asked in transport.asked}
    assert len(tokens) == 1
    assert len(tokens.pop()) == 36
    assert request == {"TransactItems": []}, "the caller's request is left alone"


def test_a_callers_own_token_is_kept():
    transport = Scripted({})
    wrapper, _ = retrying(transport)
    wrapper.execute("TransactWriteItems", {"TransactItems": [], "ClientRequestToken": "mine"})
    assert transport.asked[0][1]["ClientRequestToken"] == "mine"


def cancelled(*codes: str) -> TransactionCanceledException:
    return TransactionCanceledException("cancelled", CancellationReasons=[{"Code": code} for code in codes])


@pytest.mark.parametrize(
    ("codes", "again"),
    [
        (["None", "TransactionConflict"], True),
        (["ThrottlingError", "ProvisionedThroughputExceeded"], True),
        (["ConditionalCheckFailed", "TransactionConflict"], False),
        (["ValidationError"], False),
        (["None"], False),
    ],
)
def test_a_cancelled_transaction_is_retried_if_every_reason_may_pass(codes, again):
    transport = Scripted(cancelled(*codes), {"ok": 1})
    wrapper, _ = retrying(transport)
    if again:
        assert wrapper.execute("TransactWriteItems", {"TransactItems": []}) == {"ok": 1}
    else:
        with pytest.raises(TransactionCanceledException):
            wrapper.execute("TransactWriteItems", {"TransactItems": []})


COUNT = {
    "TableName": "jobs",
    "Key": {"id": {"S": "a"}},
    "UpdateExpression": "ADD hits :one",
    "ExpressionAttributeValues": {":one": {"N": "1"}},
}


def test_a_counter_is_not_counted_twice_when_an_answer_was_lost():
    transport = Scripted(lost(), {})
    wrapper, _ = retrying(transport)
    with pytest.raises(TimedOut) as raised:
        wrapper.execute("UpdateItem", COUNT)
    assert len(transport.asked) == 1
    assert "not repeated" in raised.value.__notes__[0]


def test_a_counter_is_retried_after_a_throttle_and_when_it_was_never_sent():
    wrapper, _ = retrying(Scripted(throttled(), lost(sent=False), {"ok": 1}))
    assert wrapper.execute("UpdateItem", COUNT) == {"ok": 1}


def test_repeat_unsafe_counts_twice_as_the_sdks_do():
    wrapper, _ = retrying(Scripted(lost(), {"ok": 1}), RequestRetries(repeat_unsafe=True))
    assert wrapper.execute("UpdateItem", COUNT) == {"ok": 1}


VALUES = {":one": {"N": "1"}, ":seen": {"N": "7"}, ":next": {"N": "8"}, ":tags": {"SS": ["x"]}, ":l": {"L": []}}


@pytest.mark.parametrize(
    ("update", "condition", "repeatable"),
    [
        ("SET a = :one, b = :next REMOVE c", None, True),
        ("SET a = b", None, True),
        ("SET a = if_not_exists(a, :one)", None, True),
        ("ADD tags :tags DELETE others :tags", None, True),
        ("SET n = n + :one", None, False),
        ("SET #n = if_not_exists(#n, :one) + :one", None, False),
        ("SET l = list_append(l, :l)", None, False),
        ("SET l = list_append(other, :l)", None, True),
        ("SET a = b, b = a", None, False),
        ("REMOVE l[0]", None, False),
        ("SET l[3] = :one", None, False),
        ("ADD n :one", "attribute_exists(id)", False),
        ("ADD n :one", "n < :seen", False),
        ("ADD n :one", "n = :seen", True),
        ("ADD n :one SET v = :next", "v = :seen AND attribute_exists(id)", True),
        ("ADD n :one SET v = :seen", "v = :seen", False),
        ("ADD n :one SET v = :next", "v = :seen OR attribute_exists(id)", False),
        ("ADD n :one", "attribute_not_exists(id)", True),
        ("this is no expression", None, True),
    ],
)
def test_which_updates_may_be_repeated(update, condition, repeatable):
    request = {
        "Key": {"id": {"S": "a"}},
        "UpdateExpression": update,
        "ExpressionAttributeNames": {"#n": "n"},
        "ExpressionAttributeValues": VALUES,
        **({"ConditionExpression": condition} if condition else {}),
    }
    assert may_repeat("UpdateItem", request) is repeatable


@pytest.mark.parametrize(
    ("statement", "repeatable"),
    [
        ("SELECT * FROM t WHERE a = 1 - 2", True),
        ("INSERT INTO t VALUE {'a': 1}", True),
        ("UPDATE t SET a = 'b + c' WHERE id = 'x-y'", True),
        ("update t SET a = a + 1 WHERE id = 'x'", False),
        ("UPDATE t SET l = list_append(l, ?) WHERE id = 'x'", False),
        ("UPDATE t REMOVE l[0] WHERE id = 'x'", False),
    ],
)
def test_which_statements_may_be_repeated(statement, repeatable):
    assert may_repeat("ExecuteStatement", {"Statement": statement}) is repeatable
    batch = {"Statements": [{"Statement": "DELETE FROM t WHERE id = 'x'"}, {"Statement": statement}]}
    assert may_repeat("BatchExecuteStatement", batch) is repeatable


def test_the_legacy_add_of_a_number_may_not_be_repeated():
    def update(value):
        return {"AttributeUpdates": {"n": {"Action": "ADD", "Value": value}}}

    assert not may_repeat("UpdateItem", update({"N": "1"}))
    assert may_repeat("UpdateItem", update({"SS": ["a"]}))


def test_the_async_wrapper_does_the_same():
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        transport = AsyncScripted(throttled(), lost(), {"ok": 1})
        wrapper = AsyncRetrying(transport, sleep=sleep, draw=lambda: 1.0)
        assert await wrapper.execute("PutItem", PUT) == {"ok": 1}
        assert waits == [0.05, 0.1]
        assert wrapper.counters.retries == 2
        await wrapper.close()
        assert transport.closed

    asyncio.run(run())


def test_closing_closes_what_is_inside():
    transport = Scripted({})
    wrapper, _ = retrying(transport)
    wrapper.close()
    assert transport.closed
    assert wrapper.name == "scripted"
