"""Store calls that wait for a database that is away.

1. Who calls the store inside `patient(wait)` waits for the database; everybody else has its error at once. A coroutine
   says so for its context (`be_patient`): threads that are given its context variables wait, the event loop does not.
2. A call is repeated as it is. A write whose answer was lost, and that was stored, finds its own name in the record
   (conditional_writes.py, 4): it is not made twice.
3. `wait` decides how long: it sleeps between two tries, or raises what ends them.
4. Who waits for a job has a time of his own for that, and asks until it is over (`ask_until`).
5. Only what says nothing of the request itself is waited for: no answer, throttling, a locked or full disk, access that
   is refused. What is wrong with a request is raised at once.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from penstock.client.database import Database
from penstock.client.wrappers.retries import may_pass
from penstock.errors import BadUrl, DynamoDBError, PenstockError, TransportClosed, TransportError
from penstock.retry import Backoff

Wait = Callable[[PenstockError, int, float], None]
"""Called with the error, the number of failed tries, and since when (`time.monotonic`) the call is tried."""

_ACCESS_CODES: Final = frozenset(
    {
        *("AccessDeniedException", "ExpiredTokenException", "IncompleteSignatureException"),
        *("InvalidSignatureException", "MissingAuthenticationTokenException", "UnrecognizedClientException"),
    }
)
"""Keys that have expired or were rotated, and policies, are repaired while jobs run."""

_CALLER: Final = threading.local()
_COROUTINE: ContextVar[Wait | None] = ContextVar("penstock_patience", default=None)
_ASK_SECONDS: Final = 60.0
"""So long, an outage is waited for by who has named no time."""
_ASK_AGAIN: Final = Backoff(0.1, 2.0, 1.0)

T = TypeVar("T")


def is_outage(error: BaseException) -> bool:
    """Whether it is about the database, not about the request (5)."""
    if isinstance(error, TransportError):
        return not isinstance(error, TransportClosed | BadUrl)
    if isinstance(error, DynamoDBError):
        return may_pass(error) or error.code in _ACCESS_CODES
    return isinstance(error, PenstockError) and error.retryable


def ask_until(end: float | None, read: Callable[[], T]) -> T:
    """What a read returns. A database that is away is asked again until `end`, by `time.monotonic` (4).

    Then, or after a minute where no end is given, the error is raised.
    """
    failures = 0
    while True:
        try:
            return read()
        except PenstockError as error:
            if not is_outage(error):
                raise
            failures += 1
            now = time.monotonic()
            if failures == 1 and end is None:
                end = now + _ASK_SECONDS
            pause = _ASK_AGAIN.bound(failures)
            if end is not None and now + pause > end:
                raise
        time.sleep(pause)


class patient:  # noqa: N801 - `with patient(wait):`
    """Within it, this thread's store calls wait for the database (1)."""

    __slots__ = ("_before", "_wait")

    def __init__(self, wait: Wait) -> None:
        self._wait = wait

    def __enter__(self) -> None:
        self._before: Wait | None = getattr(_CALLER, "wait", None)
        _CALLER.wait = self._wait

    def __exit__(self, *_: object) -> None:
        _CALLER.wait = self._before


def be_patient(wait: Wait) -> None:
    """From here on, what threads do for this coroutine waits for the database (1)."""
    _COROUTINE.set(wait)


def _wait_of_caller() -> Wait | None:
    """How the caller waits; None where it does not, or may not: nothing waits on an event loop."""
    wait: Wait | None = getattr(_CALLER, "wait", None)
    if wait is not None:
        return wait
    return None if _is_on_event_loop() else _COROUTINE.get()


def _is_on_event_loop() -> bool:
    # Where asyncio was never imported no loop runs, and its import takes longer than a command's first read.
    get_running_loop = getattr(sys.modules.get("asyncio"), "get_running_loop", None)
    if get_running_loop is None:
        return False
    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


class PatientDatabase(Database):
    """The database as a job store calls it."""

    def __init__(self, db: Database) -> None:
        super().__init__(db.transport)

    def execute(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer; waits for it where the caller is patient."""
        try:
            return self.transport.execute(operation, {} if request is None else request)
        except PenstockError as error:
            wait = _wait_of_caller()
            if wait is None or not is_outage(error):
                raise
            return self._repeat(operation, {} if request is None else request, error, wait)

    def _repeat(self, operation: str, request: dict[str, Any], error: PenstockError, wait: Wait) -> dict[str, Any]:
        since, failures = time.monotonic(), 0
        while True:
            failures += 1
            wait(error, failures, since)
            try:
                return self.transport.execute(operation, request)
            except PenstockError as again:
                if not is_outage(again):
                    raise
                error = again
