"""The embedded engine: DynamoDB's operations on one SQLite database.

1. Every call is one transaction: an error leaves the database as it was.
2. A write is answered after its COMMIT, never before.
3. Calls given to `answer_many` share one transaction, in their order, and are answered after it; a call that fails
   leaves the others' effects alone.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice, takewhile
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from penstock.clock import Clock, SystemClock
from penstock.engine import operations, requests
from penstock.engine.catalog.catalog import Catalog, OperationContext
from penstock.engine.maintenance import Maintenance
from penstock.engine.registry import OPERATIONS, WRITES, Answer, Operation, Request, Response
from penstock.engine.requests.error_wording import named_tables, refuse_unreadable
from penstock.engine.settings import DEFAULT_SCOPE, Scope, Settings
from penstock.engine.storage.change_watch import ChangeWatch
from penstock.engine.storage.database_file import Connection, Store
from penstock.engine.storage.write_lock import is_busy
from penstock.errors import (
    DatabaseLocked,
    DatabaseLost,
    DynamoDBError,
    InternalServerError,
    PenstockError,
    ResourceInUseException,
    StorageError,
    UnknownOperationException,
)

if TYPE_CHECKING:
    from penstock.engine.capacity.throttling import Simulation
    from penstock.engine.transfers.buckets import Buckets
    from penstock.engine.transfers.runner import Runner

operations.load()

_log = logging.getLogger(__name__)

_RECOVERY_SECONDS = 0.001
_CATALOG_CHANGES = 20
"""How often a read begins again because tables came and went under it."""


class Pending(NamedTuple):
    """A call that waits to be answered with others."""

    operation: str
    request: Request
    scope: Scope = DEFAULT_SCOPE


class Engine:
    """A DynamoDB in this process. Safe to use from many threads; close it when done."""

    def __init__(
        self,
        path: str = ":memory:",
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        self.buckets = buckets
        """Where exports go and imports come from."""
        self.transfers: Runner | None = None
        """What does them, since there was first one."""
        self.settings = settings or Settings()
        self.clock = clock or SystemClock()
        self.catalog = Catalog()
        self.store = Store(path, self.settings)
        self.simulation = self._simulated()
        self.maintenance = Maintenance(self)
        self.store.after_fork = self._after_fork
        try:
            self.maintenance.wake_if_due()
        except sqlite3.Error as error:
            trouble = self.store.trouble(error)
            self.store.close()
            raise trouble from error
        if self.simulation is not None and not self.store.memory:
            self.maintenance.wake()  # it writes down the heat

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the background work and closes the file."""
        self.maintenance.stop()
        transfers, self.transfers = self.transfers, None
        if transfers is not None:
            transfers.stop()
        try:
            if self.simulation is not None:
                self.simulation.save(self)
        finally:
            self.store.close()

    def changes(self) -> ChangeWatch:
        """What waits for commits: those of other processes, and of this one."""
        return self.store.changes()

    def execute(self, operation: str, request: Request, scope: Scope = DEFAULT_SCOPE) -> dict[str, Any]:
        """Answers one call in DynamoDB's JSON; raises DynamoDBError."""
        try:
            answer: dict[str, Any] = orjson.loads(self.answer(operation, request, scope))
        except orjson.JSONDecodeError as error:
            raise self._unreadable_item(request) from error
        return answer

    def answer(self, operation: str, request: Request, scope: Scope = DEFAULT_SCOPE) -> bytes:
        """The same, as the bytes of the answer: items go into it as they lie in the file."""
        try:
            called = OPERATIONS.get(operation) or _unknown()
            if called.check is not None:
                request = called.check(request)
            if self.simulation is not None:
                request = requests.check(operation, request)
                called = self.simulation.around(called)
            run = self._write if called.kind == "write" else self._read
            response = run(called, request, scope)
            return response if type(response) is bytes else orjson.dumps(response)
        except (AttributeError, TypeError, UnicodeError):
            refuse_unreadable(request)
            raise
        except orjson.JSONDecodeError as error:  # a request's JSON was read before: it is an item's
            raise self._unreadable_item(request) from error

    def answer_many(self, calls: Sequence[Pending]) -> list[Answer]:
        """Answers calls that arrived together: one snapshot if all of them read, otherwise one commit."""
        # Throttled calls are undone one by one, which a group cannot.
        if len(calls) > 1 and self.simulation is None:
            try:
                return self._write_together(calls) if _have_writes(calls) else self._read_together(calls)
            except DatabaseLocked as error:
                locked = InternalServerError(str(error))  # apart, each would wait for as long again
                return [locked if call.operation in WRITES else self._answer_one(call) for call in calls]
            except Exception:  # noqa: S110
                pass  # What went wrong concerns one call or all: apart, each gets its own answer.
        return [self._answer_one(call) for call in calls]

    def try_answer_many(self, calls: Sequence[Pending]) -> list[Answer] | None:
        """The same for a caller that must not wait; None, with nothing done, where a write would wait.

        A write waits for one of another thread or process, or for a checkpoint that is far behind; and one that looks
        into a large item takes long itself. Reads never wait.
        """
        if not _have_writes(calls):
            return self.answer_many(calls)
        store = self.store
        if self.simulation is not None or not store.lock.acquire(blocking=False):
            return None
        try:
            db = store.connection()
            if not store.try_begin(db):
                return None
            db.is_hurried = True
            try:
                return self._commit_together(db, calls)
            finally:
                db.is_hurried = False
        except Exception:
            return None  # `answer_many` finds out what is wrong, and with which
        finally:
            store.lock.release()

    def without_waiting(self) -> AbstractContextManager[None]:
        """For the length of a block, writes that would wait for another process give up, as do those that wait now."""
        return self.store.write_lock.without_waiting()

    @contextmanager
    def writing(self) -> Iterator[OperationContext]:
        """A write transaction of the engine's own, for background work."""
        db = self.store.connection()
        with self.store.lock:
            self.store.begin(db)
            try:
                self.catalog.refresh(db)
                yield OperationContext(self, db, DEFAULT_SCOPE, self.clock.now())
                self.store.commit(db)
            except BaseException:
                self._roll_back(db)
                raise

    @contextmanager
    def reading(self) -> Iterator[OperationContext]:
        """The same for reading, statement by statement."""
        self.store.watch.look()
        db = self.store.connection()
        with db.busy:
            yield OperationContext(self, db, DEFAULT_SCOPE, self.clock.now())

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` with the reason, once, when the file is found to be deleted, replaced or overwritten."""
        self.store.watch.when_lost(tell)

    def _after_fork(self) -> None:
        self.maintenance = Maintenance(self)  # its thread is the parent's
        self.transfers = None

    def _simulated(self) -> Simulation | None:
        if self.settings.throttling is None and not self.settings.heat:
            return None
        from penstock.engine.capacity.throttling import Simulation  # seldom needed, and start is timed

        return Simulation(self.settings.throttling, self.clock.now())

    def _answer_one(self, call: Pending) -> Answer:
        try:
            return self.answer(*call)
        except DynamoDBError as error:
            return error.as_answer()
        except Exception as error:
            # The other calls of the group may be committed by now: they must still be answered.
            _log.exception("%s failed", call.operation)
            return InternalServerError(str(error) if isinstance(error, StorageError) else "Internal server error")

    def _read_together(self, calls: Sequence[Pending]) -> list[Answer]:
        if monotonic() >= self.store.watch.due:
            self.store.watch.look()
        db = self.store.connection()
        with db.busy:
            db.execute("BEGIN")
            try:
                answers = self._execute_in_order(db, calls, is_fresh=False)
                db.execute("COMMIT")
            except BaseException:
                self._roll_back(db)
                raise
        return answers

    def _write_together(self, calls: Sequence[Pending]) -> list[Answer]:
        db = self.store.connection()
        prepared = [_prepare_early(call) for call in calls]  # nobody waits for the lock meanwhile
        with self.store.lock:
            self.store.begin(db)
            return self._commit_together(db, calls, prepared)

    def _commit_together(
        self, db: Connection, calls: Sequence[Pending], prepared: Sequence[Any] | None = None
    ) -> list[Answer]:
        """The answers of a group, in the write transaction that has begun, after its commit."""
        try:
            self.catalog.refresh(db)
            answers = self._execute_in_order(db, calls, is_fresh=True, prepared=prepared)
            self.store.commit(db)
        except BaseException:
            self._roll_back(db)
            raise
        return answers

    def _execute_in_order(
        self, db: Connection, calls: Sequence[Pending], *, is_fresh: bool, prepared: Sequence[Any] | None = None
    ) -> list[Answer]:
        """The answers of a group, inside its transaction, by the catalog as this transaction sees it.

        Where the catalog is not fresh, it is compared before the first call that checks its request. GetItem does not
        wait for that: its fast path is right by the cached catalog, or fails (catalog.py, 2).
        """
        answers: list[Answer] = []
        now = self.clock.now()
        context = OperationContext(self, db, calls[0].scope, now)
        for place, (operation, request, scope) in enumerate(calls):
            if place < len(answers):
                continue  # `run_many` has answered it
            # A context says nothing of its request: the calls of one scope share one.
            if scope is not context.scope:
                context = OperationContext(self, db, scope, now)
            called = OPERATIONS.get(operation)
            if not is_fresh and (called is None or called.check is not None):
                self.catalog.renew(db)
                is_fresh = True
            if called is not None and called.run_many is not None:
                together = _same_calls(calls, place)
                taken = called.run_many(context, together) if len(together) > 1 else ()
                if taken:
                    answers += taken
                    continue
            before = db.total_changes
            context.prepared = None if prepared is None else prepared[place]
            try:
                called = called or _unknown()
                response = called.run(context, request if called.check is None else called.check(request))
                answers.append(response if type(response) is bytes else orjson.dumps(response) if response else b"{}")
            except DynamoDBError as error:
                if not is_fresh or db.total_changes != before:
                    raise _Undo from error
                answers.append(error.as_answer())
        return answers

    def _read(self, called: Operation, request: Request, scope: Scope) -> Response | bytes:
        """Reads; where the cached catalog may have misled it (catalog.py, 2), reads again."""
        if monotonic() >= self.store.watch.due:
            self.store.watch.look()
        db = self.store.connection()
        context = OperationContext(self, db, scope, self.clock.now())
        changes, give_up_at = 0, 0.0
        with db.busy:
            while changes < _CATALOG_CHANGES:
                cache = self.catalog.cache
                try:
                    if called.kind == "read" or db.in_transaction:
                        return called.run(context, request)
                    db.execute("BEGIN")
                    try:
                        return called.run(context, request)
                    finally:
                        db.execute("ROLLBACK")
                except DynamoDBError:
                    self.catalog.renew(db)
                    if self.catalog.cache[0] == cache[0]:
                        raise
                except sqlite3.Error as error:
                    give_up_at = give_up_at or monotonic() + self.settings.busy_seconds
                    if is_busy(error) and monotonic() < give_up_at:
                        sleep(_RECOVERY_SECONDS)  # another process recovers the log, as the first does after a crash
                        continue
                    if "no such table" not in str(error):
                        raise self._internal(error, request) from error
                    self.catalog.forget()
                changes += 1
        raise ResourceInUseException("The table is being made and deleted too often to be read")

    def _write(self, called: Operation, request: Request, scope: Scope) -> Response | bytes:
        store = self.store
        db = store.connection()
        prepared = None if called.prepare is None else called.prepare(request)
        with store.lock:
            try:
                return self._write_in_transaction(db, called, request, scope, prepared)
            except sqlite3.Error as error:
                if not store.made_room(db, error):
                    raise self._internal(error, request) from error
            try:
                return self._write_in_transaction(db, called, request, scope, prepared)
            except sqlite3.Error as error:
                raise self._internal(error, request) from error

    def _write_in_transaction(
        self, db: Connection, called: Operation, request: Request, scope: Scope, prepared: Any
    ) -> Response | bytes:
        """All of it is in the file, or nothing."""
        self.store.begin(db)
        try:
            self.catalog.refresh(db)
            response = called.run(OperationContext(self, db, scope, self.clock.now(), prepared), request)
            self.store.commit(db)
        except BaseException:
            self._roll_back(db)
            raise
        return response

    def _roll_back(self, db: Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        self.catalog.forget_rolled_back()

    def _internal(self, error: sqlite3.Error, request: Request) -> PenstockError:
        trouble = self.store.trouble(error, named_tables(request))
        is_over = self.store.closed or isinstance(trouble, DatabaseLost)
        return trouble if is_over else InternalServerError(str(trouble))

    def _unreadable_item(self, request: Request) -> InternalServerError:
        return InternalServerError(str(self.store.damaged("an item cannot be read", named_tables(request))))


def _have_writes(calls: Sequence[Pending]) -> bool:
    return any(call[0] in WRITES for call in calls)


def _prepare_early(call: Pending) -> Any:
    """What can be worked out before the transaction; None where that is not much, or refuses the request.

    A refusal is found again in its turn, and told there.
    """
    called = OPERATIONS.get(call.operation)
    if called is None or called.prepare_early is None:
        return None
    return called.prepare_early(call.request)


def _same_calls(calls: Sequence[Pending], place: int) -> list[Request]:
    """The requests of the calls from this place on that have its operation and scope."""
    operation, _, scope = calls[place]
    together = takewhile(lambda call: call.operation == operation and call.scope is scope, islice(calls, place, None))
    return [call.request for call in together]


def _unknown() -> Operation:
    raise UnknownOperationException()


class _Undo(Exception):
    """A call failed after it had begun to write, or by a catalog that may be stale."""
