"""Batches of writes that lose nothing.

1. When the block ends, every action took effect, or `BatchIncomplete` is raised and holds each that did not.
2. If the block raises, nothing more is sent; requests in flight are waited for, and the error is told what was written.
3. Several requests are in flight; the actions on one key keep their order (batch_queue).
4. In process, plain actions are no requests but are written many at once (local_writes).
5. Elsewhere than at AWS, a long batch sorts them before they are sent (batch_queue).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from penstock.client.batches.batch_queue import BatchReport, Chunk, Duplicates, HeldWrites, RefusalBackoff, WriteQueue
from penstock.client.items.failures import BatchIncomplete, Failed
from penstock.client.items.keys import Key, TableKey
from penstock.client.transports.base import DEFAULT_CAPABILITIES, Capabilities
from penstock.client.wrappers.pacing import Outcome, Pace
from penstock.client.wrappers.retries import MonotonicClock
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.retry import Backoff
from penstock.wire import values as wire

if TYPE_CHECKING:
    from penstock.client.batches.local_writes import LocalWrites
    from penstock.engine.items.bulk_rows import Loading

Execute = Callable[[str, dict[str, Any]], dict[str, Any]]
Answering = Future[dict[str, Any] | PenstockError]


_CLOCK = MonotonicClock()


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batches are sent. Time, waiting and chance are passed in, so that tests need neither."""

    workers: int | None = None
    """Requests in flight; by default 4, and 1 on the embedded engine, which gains nothing from more."""
    deadline_seconds: float = 60.0
    """How long an action is tried, from when it was first sent."""
    duplicates: Duplicates = "last"
    pace: Pace | None = None
    base_seconds: float = 0.05
    cap_seconds: float = 5.0
    clock: Clock = _CLOCK
    sleep: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is at least 1, not {self.workers}")
        if self.duplicates not in ("last", "refuse"):
            raise ValueError(f'duplicates is "last" or "refuse", not {self.duplicates!r}')

    def backoff(self) -> RefusalBackoff:
        return RefusalBackoff(Backoff(self.base_seconds, 2.0, self.cap_seconds), self.draw)

    def queue(self, table: str, key: TableKey, *, sorts: bool = False) -> WriteQueue:
        held = HeldWrites() if sorts and self.pace is None else None
        return WriteQueue(table, key, self.duplicates, self.deadline_seconds, self.backoff(), held)


class BatchState:
    """What a batch is, whoever waits: its queue and its end."""

    _queue: WriteQueue

    def __init__(self, table: str, options: BatchOptions, workers: int) -> None:
        self._table = table
        self._options = options
        self._workers = options.workers or workers

    def _open(self, key: TableKey, *, sorts: bool = False) -> None:
        self._queue = self._options.queue(self._table, key, sorts=sorts)

    @property
    def done(self) -> int:
        """Actions that took effect so far."""
        return self._queue.done

    @property
    def failed(self) -> list[Failed]:
        """Actions that could not be done, so far."""
        return self._queue.failed

    @property
    def report(self) -> BatchReport:
        """What has been done so far."""
        return self._queue.report

    def _now(self) -> float:
        return self._options.clock.now()

    def _wait_seconds(self) -> float:
        return self._queue.resume_at - self._now()

    def _take_result(self, chunk: Chunk, answer: dict[str, Any] | PenstockError) -> None:
        if isinstance(answer, PenstockError):
            self._queue.take_error(chunk, answer, self._now())
        else:
            self._queue.take_answer(chunk, answer, self._now())

    def _refuse_after_failure(self) -> None:
        """A table that is not there, or that may not be written, will not be there for the rest either."""
        if self._queue.fatal is not None:
            self._finish()

    def _finish(self) -> None:
        self._queue.give_up()
        if self._queue.failed:
            raise BatchIncomplete(self._queue.failed, self._queue.done) from self._queue.fatal

    def _abandon(self, error: BaseException) -> None:
        self._queue.give_up()
        if not isinstance(error, BatchIncomplete):
            error.add_note(
                f"The batch on {self._table} was left: {self._queue.done:,} actions had been done, "
                f"{len(self._queue.failed):,} had not (batch.failed)."
            )


def as_ours(error: Exception) -> PenstockError:
    """Whatever a call may raise, as something that a batch can hold and report."""
    if isinstance(error, PenstockError):
        return error
    unexpected = PenstockError(f"{type(error).__name__}: {error}")
    unexpected.__cause__ = error
    return unexpected


def units_of(chunk: Chunk) -> float:
    return float(sum(write.units for write in chunk))


class Batch(BatchState):
    """`with table.batch() as batch:` and then `batch.put(item)`, `batch.delete(key)`. For one thread."""

    def __init__(
        self,
        table: str,
        key: TableKey,
        execute: Execute,
        options: BatchOptions | None = None,
        capabilities: Capabilities = DEFAULT_CAPABILITIES,
        loading: Callable[[str], Loading | None] | None = None,
    ) -> None:
        super().__init__(table, options or BatchOptions(), capabilities.parallel_calls)
        self._open(key, sorts=capabilities.local_order and not capabilities.has_engine)
        self._execute = execute
        self._pool: ThreadPoolExecutor | None = None
        self._in_flight: dict[Answering, Chunk] = {}
        self._answered = threading.Event()
        self._local = None if loading is None else self._gathering(key, loading)

    def _gathering(self, key: TableKey, loading: Callable[[str], Loading | None]) -> LocalWrites | None:
        """Where the engine of this process takes actions many at once, and nobody wants to pace or to count them."""
        if self._options.pace is not None or self._options.duplicates == "refuse":
            return None
        found = loading(self._table)
        declared = tuple((attribute.name, attribute.type) for attribute in key.attributes)
        if found is None or found.key_types != declared:  # a wrong key has its errors one by one
            return None
        from penstock.client.batches.local_writes import LocalWrites

        return LocalWrites(found, key, self._queue, self._options.clock)

    def put(self, item: Mapping[str, Any]) -> None:
        """Will write the item. Waits while as many requests are in flight as may be."""
        if self._local is not None and self._local.put(item):
            return
        self._refuse_after_failure()
        self._queue.put(item)
        self._send_some()

    def delete(self, key: Key) -> None:
        """Will delete the item with this key."""
        if self._local is not None and self._local.delete(key):
            return
        self._refuse_after_failure()
        self._queue.delete(key)
        self._send_some()

    def put_encoded(self, item: wire.Item, length: int | None = None) -> None:
        """`put` of an item in DynamoDB's own JSON: nothing of it is changed, or checked before it is sent.

        `length` is that of its JSON, where the caller knows it.
        """
        self._refuse_after_failure()
        self._queue.put_encoded(item, len(orjson.dumps(item)) if length is None else length)
        self._send_some()

    def delete_encoded(self, key: wire.Item) -> None:
        """`delete` of a key in DynamoDB's own JSON."""
        self._refuse_after_failure()
        self._queue.delete_encoded(key)
        self._send_some()

    def flush(self) -> None:
        """Returns when everything given so far is done; raises `BatchIncomplete` if a part of it cannot be."""
        if self._local is not None:
            self._local.flush()
        self._queue.release()
        while (len(self._queue) or self._in_flight) and self._queue.fatal is None:
            self._send(whole=False)
            self._await_one()
        self._await_all()
        self._finish()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        try:
            if error is None:
                self.flush()
            else:
                if self._local is not None:
                    self._local.leave()
                self._await_all()
                self._abandon(error)
        finally:
            if self._local is not None:
                self._local.close()
            if self._pool is not None:
                self._pool.shutdown()

    def _send(self, *, whole: bool) -> None:
        while self._queue.fatal is None:
            if len(self._in_flight) >= self._workers:
                self._await_one()
            self._pause()
            chunk = self._queue.next_chunk(self._now(), whole=whole)
            if chunk is None:
                return
            self._start(chunk)

    def _send_some(self) -> None:
        """Sends what there is to send after an action was given."""
        if self._queue.holds_back:
            self._feed()
        elif self._queue.may_fill_one:
            self._send(whole=True)

    def _feed(self) -> None:
        """Keeps requests in flight while others are held back; once those are enough, waits for those before them."""
        queue = self._queue
        if not queue.is_due:
            return
        if queue.may_release(self._now()):
            self._send(whole=False)
            queue.release()
        self._collect()
        while queue.fatal is None and len(self._in_flight) < self._workers and self._wait_seconds() <= 0:
            chunk = queue.next_chunk(self._now(), whole=False)
            if chunk is None:
                return
            self._start(chunk)

    def _pause(self) -> None:
        seconds = self._wait_seconds()
        if seconds > 0 and len(self._queue):
            self._options.sleep(seconds)

    def _start(self, chunk: Chunk) -> None:
        # A batch of one request needs no threads: they cost more than the rest of it.
        if self._workers == 1 or (self._pool is None and not len(self._queue)):
            self._take_result(chunk, self._call(chunk))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="penstock-batch")
        # The caller's context goes with it: a meter's label, a trace's span.
        future = self._pool.submit(copy_context().run, self._call, chunk)
        self._in_flight[future] = chunk
        future.add_done_callback(self._note_answer)

    def _call(self, chunk: Chunk) -> dict[str, Any] | PenstockError:
        request, pace = self._queue.request(chunk), self._options.pace
        if pace is None:
            return self._attempt(request)
        units = units_of(chunk)
        pace.before(units, self._table, "Write")
        answer = self._attempt(request)
        pace.after(Outcome.of("BatchWriteItem", request, answer, units))
        return answer

    def _attempt(self, request: dict[str, Any]) -> dict[str, Any] | PenstockError:
        try:
            return self._execute("BatchWriteItem", request)
        except Exception as error:
            return as_ours(error)

    def _note_answer(self, _: Answering) -> None:
        self._answered.set()

    def _await_one(self) -> None:
        """Like `futures.wait`, which makes locks for each of them, each time."""
        while self._in_flight:
            self._answered.clear()  # before the look: an answer after it sets it again
            if self._collect():
                return
            self._answered.wait()

    def _await_all(self) -> None:
        while self._in_flight:
            self._await_one()

    def _collect(self) -> int:
        """Takes the answers that are there."""
        finished = [future for future in self._in_flight if future.done()]
        for future in finished:
            self._take_result(self._in_flight.pop(future), future.result())
        return len(finished)
