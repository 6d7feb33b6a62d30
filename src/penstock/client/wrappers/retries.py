"""Retrying: a call that failed for a passing reason is made again, later.

1. What is retried is decided by the error's code and HTTP status, never by its text.
2. Waits have full jitter: anything between nothing and the bound, which doubles up to a cap.
3. Nobody waits past the deadline, and an outage is not made worse: retries are paid for from a budget that successes
   refill (the token bucket of the AWS SDKs' standard mode).
4. A call whose first effect is unknown is repeated only where that does no harm: reads, puts, deletes, and updates that
   write fixed values end the same however often they are done. An update that builds on what it finds
   (`SET n = n + :one`, `ADD`, `list_append`, `REMOVE list[0]`) does not, unless its condition stops holding by its own
   effect (`version = :seen` beside `SET version = :next`).
5. Transactions carry a token by which DynamoDB knows them again.
6. If the repeat fails because of what may be the first one's effect, the error says so: `maybe_ours`.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.wrapper import AsyncWrapper, Exchange, Inner, Wrapper, WrapperState
from penstock.clock import Clock
from penstock.errors import DynamoDBError, PenstockError, TimedOut, TransactionCanceledException, TransportError
from penstock.expressions import compile_condition, compile_update
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    And,
    Arithmetic,
    Call,
    Comparison,
    Operand,
    Path,
    RemoveAction,
    SetAction,
    Term,
    Value,
    walk,
)
from penstock.retry import Backoff

TOKEN = "ClientRequestToken"  # noqa: S105 - the name of a member
_TRANSACTIONS = frozenset({"TransactWriteItems", "ExecuteTransaction"})

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_BUILDS_ON_OLD = re.compile(r"[+-]|\blist_append\b", re.IGNORECASE)
_REMOVE = re.compile(r"\bREMOVE\b", re.IGNORECASE)


def with_token(operation: str, request: Request, new_token: Callable[[], str]) -> Request:
    """The request as it may be repeated: a transaction without a token gets one."""
    if operation not in _TRANSACTIONS or request.get(TOKEN) is not None:
        return request
    return {**request, TOKEN: new_token()}


def may_repeat(operation: str, request: Request) -> bool:
    """Whether sending it again does no harm if the first one was carried out."""
    if operation == "UpdateItem":
        return _update_may_repeat(request)
    if operation == "ExecuteStatement":
        return _statement_may_repeat(request)
    if operation == "BatchExecuteStatement":
        return all(map(_statement_may_repeat, request.get("Statements") or ()))
    return True


def _update_may_repeat(request: Request) -> bool:
    legacy: Mapping[str, Any] = request.get("AttributeUpdates") or {}
    if any(change.get("Action") == "ADD" and _piles_up(change.get("Value")) for change in legacy.values()):
        return False
    text = request.get("UpdateExpression")
    if not text:
        return True
    try:
        actions = compile_update(text).tree.actions
    except (ExpressionError, PenstockError):
        return True  # It will be refused, however often it is sent.
    return not any(_builds_on_old(action, actions, request) for action in actions) or _guarded(request, actions)


def _piles_up(value: Mapping[str, Any] | None) -> bool:
    """Whether adding this twice is more than adding it once: a set's members are not."""
    return value is not None and ("N" in value or "L" in value)


def _builds_on_old(action: Action, actions: tuple[Action, ...], request: Request) -> bool:
    match action:
        case AddAction(_, Value(name)):
            return _piles_up((request.get("ExpressionAttributeValues") or {}).get(name))
        case RemoveAction(path):
            return isinstance(path.parts[-1], int)  # The elements behind it move up.
        case SetAction(path, value):
            return isinstance(path.parts[-1], int) or _reads_written(path, value, actions, request)
        case _:
            return False


def _reads_written(path: Path, value: Operand, actions: tuple[Action, ...], request: Request) -> bool:
    """Whether what is written depends on an attribute that this update writes."""
    if isinstance(value, Call) and value.name == "if_not_exists" and value.arguments[0] == path:
        return _reads_written(path, value.arguments[1], actions, request)
    written = {_top(action.path, request) for action in actions}
    return any(isinstance(node, Path) and _top(node, request) in written for node in walk(value))


def _guarded(request: Request, actions: tuple[Action, ...]) -> bool:
    """Whether the update makes its own condition false, so that a second one is refused."""
    text = request.get("ConditionExpression")
    if not text:
        return False
    try:
        tree = compile_condition(text).tree
    except (ExpressionError, PenstockError):
        return False
    terms = tree.terms if isinstance(tree, And) else (tree,)
    return any(_falsifies_condition(term, actions, request) for term in terms)


def _falsifies_condition(term: Term, actions: tuple[Action, ...], request: Request) -> bool:
    match term:
        case Comparison("=", Path() as path, Value(seen)) | Comparison("=", Value(seen), Path() as path):
            return any(_changes_value(action, path, seen, request) for action in actions)
        case Call("attribute_not_exists", (Path() as path,)):
            # Afterwards the item exists, and with it its key and what was set.
            made = {_top(action.path, request) for action in actions if isinstance(action, SetAction | AddAction)}
            return len(path.parts) == 1 and _top(path, request) in {*made, *(request.get("Key") or ())}
        case _:
            return False


def _changes_value(action: Action, path: Path, seen: str, request: Request) -> bool:
    """Whether the action surely gives what stands at `path` another value than the one named `seen`."""
    if action.path != path or not isinstance(action, SetAction | AddAction):
        return False
    values = request.get("ExpressionAttributeValues") or {}
    match action.value:
        case Value(name):
            return isinstance(action, AddAction) or values.get(name) != values.get(seen)
        case Arithmetic():
            return True
        case _:
            return False


def _top(path: Path, request: Request) -> str:
    first = str(path.parts[0])
    names: Mapping[str, str] = request.get("ExpressionAttributeNames") or {}
    return names.get(first, first)


def _statement_may_repeat(request: Request) -> bool:
    statement = str(request.get("Statement", "")).lstrip()
    if statement[:6].upper() != "UPDATE":
        return True
    unquoted = _QUOTED.sub("''", statement)
    return not _BUILDS_ON_OLD.search(unquoted) and not _removes_elements(unquoted)


def _removes_elements(statement: str) -> bool:
    """Whether an index of a list follows a REMOVE: the elements behind it move up."""
    remove = _REMOVE.search(statement)
    return remove is not None and "[" in statement[remove.end() :]


PASSING_REASONS = frozenset(
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

    now = staticmethod(time.monotonic)


@dataclass(frozen=True, slots=True)
class RequestRetries:
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


DEFAULT_RETRIES = RequestRetries()


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


class _Attempts:
    """The attempts of one call."""

    __slots__ = ("_lost", "_operation", "_retrying", "_started_at", "failed", "paid", "request")

    def __init__(self, retrying: RetryingState[Any], operation: str, request: Request) -> None:
        self._retrying = retrying
        self._operation = operation
        self.request = request
        self._started_at = retrying.clock.now()
        self._lost = False
        self.failed = 0
        self.paid = 0

    def wait_after(self, error: PenstockError) -> float:
        """How long to wait before the next attempt; raises the error if there is none."""
        retrying, retries = self._retrying, self._retrying.retries
        self.failed += 1
        self._note(error)
        if not may_pass(error):
            self._give_up(error)
        if _is_ambiguous(error) and not retries.repeat_unsafe and not may_repeat(self._operation, self.request):
            self._give_up(error, "unsafe", "not repeated: it may have had its effect, and would have it twice")
        if self.failed >= retries.attempts:
            self._give_up(error, "exhausted", f"gave up after {self.failed} attempts")
        wait = Backoff(retries.base_seconds, 2.0, retries.cap_seconds).wait(self.failed, retrying.draw)
        spent = retrying.clock.now() - self._started_at
        if retries.deadline_seconds is not None and spent + wait > retries.deadline_seconds:
            self._give_up(error, "past_deadline", f"gave up at the deadline, after {self.failed} attempts")
        self._pay(error)
        retrying.count("retries")
        retrying.count("waited_seconds", wait)
        return wait

    def _note(self, error: PenstockError) -> None:
        if _is_ambiguous(error):
            self._lost = True
            self._retrying.count("lost_answers")
        elif isinstance(error, DynamoDBError):
            if error.code in _THROTTLES:
                self._retrying.count("throttles")
            elif self._lost and (error.code in _ABOUT_STATE or self._is_gone(error)):
                error.maybe_ours = True

    def _is_gone(self, error: DynamoDBError) -> bool:
        return self._operation.startswith("Delete") and error.code.endswith("NotFoundException")

    def _pay(self, error: PenstockError) -> None:
        if self._retrying.budget is None:
            return
        paid = self._retrying.budget.take(error)
        if paid is None:
            self._give_up(error, "out_of_budget", f"gave up after {self.failed} attempts: the retry budget is used up")
        self.paid = paid

    def _give_up(self, error: PenstockError, counter: str = "", why: str = "") -> NoReturn:
        self._retrying.count("calls")
        if counter:
            self._retrying.count(counter)
            error.add_note(f"{self._operation}: {why}.")
        raise error


def may_pass(error: PenstockError) -> bool:
    """Whether the same call may succeed later."""
    if isinstance(error, TransactionCanceledException):
        codes = {reason.get("Code", "None") for reason in error.fields.get("CancellationReasons") or ()}
        return codes <= PASSING_REASONS and bool(codes - {"None"})
    return error.retryable


def _is_ambiguous(error: PenstockError) -> bool:
    """Whether the call may have had its effect: DynamoDB promises nothing of a 500."""
    if isinstance(error, TransportError):
        return error.sent
    return isinstance(error, DynamoDBError) and error.status >= 500


def _new_token() -> str:
    import uuid  # only transactions need one

    return str(uuid.uuid4())


class RetryingState(WrapperState[Inner]):
    def __init__(
        self,
        inner: Inner,
        retries: RequestRetries = DEFAULT_RETRIES,
        *,
        budget: RetryBudget | None = None,
        unlimited: bool = False,
        clock: Clock | None = None,
        sleep: Callable[[float], Any] | None = None,
        draw: Callable[[], float] = random.random,
        new_token: Callable[[], str] = _new_token,
    ) -> None:
        """`budget` may be shared between clients; `unlimited` does without one."""
        super().__init__(inner, sleep)
        self.retries = retries
        self.budget = None if unlimited else budget or RetryBudget()
        self.clock = clock or MonotonicClock()
        self.draw = draw
        self._new_token = new_token
        self._counters = RetryCounters()
        self._lock = threading.Lock()

    @property
    def counters(self) -> RetryCounters:
        return RetryCounters(**asdict(self._counters))

    def count(self, name: str, amount: float = 1) -> None:
        with self._lock:
            setattr(self._counters, name, getattr(self._counters, name) + amount)

    def _exchange(self, operation: str, request: Request) -> Exchange:
        attempts = _Attempts(self, operation, with_token(operation, request, self._new_token))
        while True:
            try:
                answer: Answer = yield operation, attempts.request
            except PenstockError as error:
                wait = attempts.wait_after(error)
            else:
                self.count("calls")
                if self.budget is not None:
                    self.budget.give_back(attempts.paid)
                return answer
            yield wait


class Retrying(RetryingState[Transport], Wrapper):
    """A transport that tries again. `counters` and `budget` may be read at any time."""


class AsyncRetrying(RetryingState[AsyncTransport], AsyncWrapper):
    """The same for asyncio."""
