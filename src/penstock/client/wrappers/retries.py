"""Retrying: a call that failed for a passing reason is made again, later.

1. What is retried is decided by the error's code and HTTP status, never by its text.
2. Waits have full jitter: anything between nothing and the bound, which doubles up to a cap.
3. Nobody waits past the deadline, and an outage is not made worse: retries are paid for from a budget that successes
   refill (the token bucket of the AWS SDKs' standard mode).
4. A call whose first effect is unknown is repeated only where that does no harm (repeatable.py). If the repeat fails
   because of what may be that first effect, the error says so: `maybe_ours`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import NoReturn

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.repeatable import may_repeat, with_token
from penstock.clock import Clock
from penstock.errors import DynamoDBError, PenstockError, TimedOut, TransactionCanceledException, TransportError

_PASSING_REASONS = frozenset(
    {
        "None",
        "TransactionConflict",
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)
"""Of a cancelled transaction's actions: those for which the same transaction may succeed later."""

_ABOUT_STATE = frozenset({"ConditionalCheckFailedException", "DuplicateItemException", "ResourceInUseException"})
"""Errors that a call's own first effect can be the cause of; of a deletion, also that nothing is there."""

_THROTTLES = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"})


class MonotonicClock:
    """Seconds since some moment; never set back."""

    def now(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is repeated, and how long to wait before each repeat."""

    attempts: int = 8
    """The first one included."""

    base_seconds: float = 0.05
    """The bound of the first wait; each further one is twice the one before."""

    cap_seconds: float = 5.0
    deadline_seconds: float | None = 60.0
    """Of the whole call, waits included; the attempt that is under way is not cut short."""

    repeat_unsafe: bool = False
    """Repeat even what may be done twice by it, as the AWS SDKs do."""


DEFAULT_POLICY = RetryPolicy()


class RetryBudget:
    """Tokens that retries cost and successes give back; one for all calls of a client."""

    size = 500
    retry_cost = 5
    timeout_cost = 10
    refund = 1

    def __init__(self, size: int = size) -> None:
        self.size = self.left = size
        self._lock = threading.Lock()

    def take(self, error: PenstockError) -> int | None:
        """What the retry costs, or None if it cannot be paid for."""
        cost = self.timeout_cost if isinstance(error, TimedOut) else self.retry_cost
        with self._lock:
            if cost > self.left:
                return None
            self.left -= cost
            return cost

    def give_back(self, paid: int) -> None:
        """After a success: what its last retry cost, or a little for one that needed none."""
        if self.left < self.size:
            with self._lock:
                self.left = min(self.size, self.left + (paid or self.refund))


@dataclass(slots=True)
class RetryCounters:
    """What has happened since the wrapper was made."""

    calls: int = 0
    retries: int = 0
    throttles: int = 0
    lost_answers: int = 0
    waited_seconds: float = 0.0
    exhausted: int = 0  # gave up: attempts
    out_of_budget: int = 0
    past_deadline: int = 0
    unsafe: int = 0  # not repeated: might have been done twice


class _Core:
    """What the two wrappers share: everything but waiting and calling."""

    def __init__(
        self, policy: RetryPolicy, budget: RetryBudget | None, clock: Clock | None, draw: Callable[[], float]
    ) -> None:
        self.policy = policy
        self.budget = budget
        self.clock = clock or MonotonicClock()
        self.draw = draw
        self.counters = RetryCounters()
        self._lock = threading.Lock()

    def count(self, name: str, amount: float = 1) -> None:
        with self._lock:
            setattr(self.counters, name, getattr(self.counters, name) + amount)

    def succeeded(self, paid: int) -> None:
        with self._lock:
            self.counters.calls += 1
        if self.budget is not None:
            self.budget.give_back(paid)


class _Attempts:
    """The attempts of one call."""

    __slots__ = ("_core", "_lost", "_operation", "_started_at", "failed", "paid", "request")

    def __init__(self, core: _Core, operation: str, request: Request) -> None:
        self._core = core
        self._operation = operation
        self.request = request
        self._started_at = core.clock.now()
        self._lost = False
        self.failed = 0
        self.paid = 0

    def wait_after(self, error: PenstockError) -> float:
        """How long to wait before the next attempt; raises the error if there is none."""
        core, policy = self._core, self._core.policy
        self.failed += 1
        self._note(error)
        if not _may_pass(error):
            self._give_up(error)
        if _is_ambiguous(error) and not policy.repeat_unsafe and not may_repeat(self._operation, self.request):
            self._give_up(error, "unsafe", "not repeated: it may have had its effect, and would have it twice")
        if self.failed >= policy.attempts:
            self._give_up(error, "exhausted", f"gave up after {self.failed} attempts")
        wait = core.draw() * min(policy.cap_seconds, policy.base_seconds * 2.0 ** (self.failed - 1))
        spent = core.clock.now() - self._started_at
        if policy.deadline_seconds is not None and spent + wait > policy.deadline_seconds:
            self._give_up(error, "past_deadline", f"gave up at the deadline, after {self.failed} attempts")
        self._pay(error)
        core.count("retries")
        core.count("waited_seconds", wait)
        return wait

    def _note(self, error: PenstockError) -> None:
        if _is_ambiguous(error):
            self._lost = True
            self._core.count("lost_answers")
        elif isinstance(error, DynamoDBError):
            if error.code in _THROTTLES:
                self._core.count("throttles")
            elif self._lost and (error.code in _ABOUT_STATE or self._is_gone(error)):
                error.maybe_ours = True

    def _is_gone(self, error: DynamoDBError) -> bool:
        return self._operation.startswith("Delete") and error.code.endswith("NotFoundException")

    def _pay(self, error: PenstockError) -> None:
        if self._core.budget is None:
            return
        paid = self._core.budget.take(error)
        if paid is None:
            self._give_up(error, "out_of_budget", f"gave up after {self.failed} attempts: the retry budget is used up")
        self.paid = paid

    def _give_up(self, error: PenstockError, counter: str = "", why: str = "") -> NoReturn:
        self._core.count("calls")
        if counter:
            self._core.count(counter)
            error.add_note(f"{self._operation}: {why}.")
        raise error


def _may_pass(error: PenstockError) -> bool:
    if isinstance(error, TransactionCanceledException):
        codes = {reason.get("Code", "None") for reason in error.fields.get("CancellationReasons") or ()}
        return codes <= _PASSING_REASONS and bool(codes - {"None"})
    return error.retryable


def _is_ambiguous(error: PenstockError) -> bool:
    """Whether the call may have had its effect: DynamoDB promises nothing of a 500."""
    if isinstance(error, TransportError):
        return error.sent
    return isinstance(error, DynamoDBError) and error.status >= 500


def _new_token() -> str:
    import uuid  # only transactions need one

    return str(uuid.uuid4())


class _State:
    """What both wrappers show."""

    def __init__(self, core: _Core, new_token: Callable[[], str]) -> None:
        self._core = core
        self._new_token = new_token

    @property
    def counters(self) -> RetryCounters:
        return RetryCounters(**asdict(self._core.counters))

    @property
    def budget(self) -> RetryBudget | None:
        return self._core.budget

    def _begin(self, operation: str, request: Request) -> _Attempts:
        return _Attempts(self._core, operation, with_token(operation, request, self._new_token))


class Retrying(_State):
    """A transport that tries again. `counters` and `budget` may be read at any time."""

    def __init__(
        self,
        inner: Transport,
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        budget: RetryBudget | None = None,
        unlimited: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        draw: Callable[[], float] = random.random,
        new_token: Callable[[], str] = _new_token,
    ) -> None:
        """`budget` may be shared between clients; `unlimited` does without one."""
        super().__init__(_Core(policy, None if unlimited else budget or RetryBudget(), clock, draw), new_token)
        self.inner = inner
        self.name = inner.name
        self._sleep = sleep

    def execute(self, operation: str, request: Request) -> Answer:
        attempts = self._begin(operation, request)
        while True:
            try:
                answer = self.inner.execute(operation, attempts.request)
            except PenstockError as error:
                wait = attempts.wait_after(error)
            else:
                self._core.succeeded(attempts.paid)
                return answer
            self._sleep(wait)

    def close(self) -> None:
        self.inner.close()


class AsyncRetrying(_State):
    """The same for asyncio."""

    def __init__(
        self,
        inner: AsyncTransport,
        policy: RetryPolicy = DEFAULT_POLICY,
        *,
        budget: RetryBudget | None = None,
        unlimited: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[object]] | None = None,
        draw: Callable[[], float] = random.random,
        new_token: Callable[[], str] = _new_token,
    ) -> None:
        import asyncio  # who comes here has it loaded

        super().__init__(_Core(policy, None if unlimited else budget or RetryBudget(), clock, draw), new_token)
        self.inner = inner
        self.name = inner.name
        self._sleep = sleep or asyncio.sleep

    async def execute(self, operation: str, request: Request) -> Answer:
        attempts = self._begin(operation, request)
        while True:
            try:
                answer = await self.inner.execute(operation, attempts.request)
            except PenstockError as error:
                wait = attempts.wait_after(error)
            else:
                self._core.succeeded(attempts.paid)
                return answer
            await self._sleep(wait)

    async def close(self) -> None:
        await self.inner.close()
