"""Many calls of one function within a step, over any executor.

1. What an item gave is kept, in batches: after a crash only what was not kept is done again.
2. There are few batches, whatever the number of items: a hundred, one more for each five seconds, and one for each
   quarter of a megabyte.
3. A batch belongs to one function in one call of its step, with its inputs and version: another one does not see it.
4. At most `in_flight` items are handed out at once. An item that raises stops no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.files import FileChanged, FileMissing
from penstock.jobs.model.job import JobCancelled, JobRequeued
from penstock.jobs.model.json_text import NotJson, to_json
from penstock.leases import LeaseLost
from penstock.pipelines.definition import ItemFailure, ItemsFailed
from penstock.pipelines.rounds import Ledger
from penstock.pipelines.values import Product, value_hash

Key = Callable[[Any], str]

IN_FLIGHT: Final = 64
_MOST_IN_FLIGHT: Final = 100_000
_BATCHES: Final = 100
_BATCH_SECONDS: Final = 5.0
_BATCH_CHARACTERS: Final = 256 * 1024
_LOOK_SECONDS: Final = 0.5
_WIND_DOWN_SECONDS: Final = 20.0
_LABEL_CHARACTERS: Final = 80
_STOPS: Final = (JobRequeued, JobCancelled, LeaseLost)
"""What a function that reports may be told: they are the run's, and no failure of an item's."""


class ExecutorDied(PenstockError):
    """The executor has lost its workers. What was done is kept: run the job again, with a new executor."""

    retryable = True


@dataclass(frozen=True, slots=True)
class _Item:
    """`identity` is what its result is kept under; `label` names it to people."""

    place: int
    value: Any
    identity: str
    label: str


class FanOut:
    """One `map` of a step."""

    def __init__(
        self,
        ledger: Ledger,
        step: str,
        number: int,
        fingerprint: str,
        *,
        executor: Executor | None,
        in_flight: int,
        percent: Callable[[float], float],
    ) -> None:
        if not 1 <= in_flight <= _MOST_IN_FLIGHT:
            raise ValueError(f"in_flight is 1 to {_MOST_IN_FLIGHT:,}, not {in_flight}")
        self._ledger = ledger
        self._step = step
        self._executor = executor or _Inline()
        self._in_flight = in_flight if executor is not None else 1
        self._kept = _Kept(ledger, f"items {step} {number}", fingerprint, percent)
        self._failures: dict[str, BaseException] = {}
        self._pending: dict[Future[Any], _Item] = {}

    def map(self, function: Callable[[Any], Any], values: Iterable[Any], key: Key | None) -> list[Any]:
        """The results in the items' order, an ItemFailure where there is none."""
        items = _items(self._step, list(values), key)
        self._kept.load(_name_of(function), len(items))
        first = {item.identity: item for item in reversed(items)}  # what is there twice is done once
        todo = [item for item in items if first[item.identity] is item and item.identity not in self._kept.products]
        try:
            self._call_all(function, iter(todo))
            self._kept.flush()
        finally:
            for future in self._pending:
                future.cancel()
        return [self._result_of(item) for item in items]

    def raise_failures(self, results: Sequence[Any]) -> None:
        failures = [result for result in results if isinstance(result, ItemFailure)]
        if failures:
            raise ItemsFailed(self._step, failures, len(results)) from failures[0].error

    def _result_of(self, item: _Item) -> Any:
        error = self._failures.get(item.identity)
        if error is not None:
            return ItemFailure(item.place, item.label, error)
        return self._kept.products[item.identity].step_value(self._ledger.files)

    # ── calling ──────────────────────────────────────────────────────────────────────────────────

    def _call_all(self, function: Callable[[Any], Any], todo: Iterator[_Item]) -> None:
        try:
            while self._hand_out(function, todo):
                done, _ = wait(self._pending, _LOOK_SECONDS, FIRST_COMPLETED)
                self._take(done)
                self._kept.flush_if_due()
                if self._pending:
                    self._ledger.stop_if_asked()
        except JobRequeued:
            self._wind_down()
            raise
        except KeyboardInterrupt:
            self._kept.flush()
            raise

    def _hand_out(self, function: Callable[[Any], Any], todo: Iterator[_Item]) -> bool:
        """Fills up what is in flight; False when nothing is left."""
        while len(self._pending) < self._in_flight:
            item = next(todo, None)
            if item is None:
                break
            self._ledger.stop_if_asked()
            try:
                self._pending[self._executor.submit(function, item.value)] = item
            except RuntimeError as error:  # it is broken, or was shut down
                self._raise_died(error)
        return bool(self._pending)

    def _take(self, done: Iterable[Future[Any]]) -> None:
        broken: BaseException | None = None
        stop: BaseException | None = None
        for future in done:
            item = self._pending.pop(future)
            error = _error_of(future)
            if isinstance(error, BrokenExecutor):
                broken = error
            elif isinstance(error, _STOPS):
                stop = error
            elif error is not None:
                self._failures[item.identity] = error
            else:
                self._keep(item, future.result())
        if stop is not None:
            raise stop
        if broken is not None:
            self._raise_died(broken)

    def _keep(self, item: _Item, value: Any) -> None:
        try:
            self._kept.add(item.identity, Product.of(value, f"{self._step}: the result of {item.label}"))
        except NotJson as error:
            self._failures[item.identity] = error

    def _raise_died(self, error: BaseException) -> None:
        self._take([future for future in self._pending if future.done() and not _is_broken(future)])
        self._kept.flush()
        raise ExecutorDied(
            f"{self._step}: the executor has lost its workers ({type(error).__name__}: {error}). "
            f"{len(self._kept.products):,} items are kept: run the job again, with a new executor."
        ) from error

    def _wind_down(self) -> None:
        """What has begun may end, until the time limit; what has not does not begin."""
        ctx = self._ledger.ctx
        assert ctx is not None
        for future in self._pending:
            future.cancel()
        left = ctx.seconds_left
        end = time.monotonic() + (_WIND_DOWN_SECONDS if left is None else left)
        while self._pending and time.monotonic() < end and not ctx.cancelled:
            done, _ = wait(self._pending, _LOOK_SECONDS, FIRST_COMPLETED)
            with suppress(JobRequeued):  # an item that reports is told the same
                self._take(done)
            self._kept.flush()  # each at once: who knows how long it may
        self._kept.flush()


def _is_broken(future: Future[Any]) -> bool:
    return isinstance(_error_of(future), BrokenExecutor)


def _error_of(future: Future[Any]) -> BaseException | None:
    """Of one that is done; one that somebody cancelled, an executor that goes away for example, has failed."""
    try:
        return future.exception()
    except CancelledError as cancelled:
        return cancelled


class _Kept:
    """Results that are stored, and those that will be with the next batch."""

    def __init__(self, ledger: Ledger, name: str, fingerprint: str, percent: Callable[[float], float]) -> None:
        self.products: dict[str, Product] = {}
        self._ledger = ledger
        self._name = name
        self._fingerprint = fingerprint
        self._percent = percent
        self._total = 0
        self._number = 0
        self._batch: dict[str, Any] = {}
        self._characters = 0
        self._flushed_at = time.monotonic()

    def load(self, function: str, total: int) -> None:
        """Reads the batches of this very call of the step (3); a file that is not what it was is none."""
        self._fingerprint = f"{self._fingerprint} {function}"
        self._total = total
        while (found := self._read(self._number)) is not None and found.get("of") == self._fingerprint:
            for identity, form in found["items"].items():
                product = Product.parse(form)
                if product.is_whole(self._ledger.files):
                    self.products[identity] = product
            self._number += 1
        self._flushed_at = time.monotonic()

    def _read(self, number: int) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] | None = self._ledger.read(f"{self._name} {number}")
        except (FileMissing, FileChanged):  # it was long, and lay in a file
            return {"of": self._fingerprint, "items": {}}
        return found

    def add(self, identity: str, product: Product) -> None:
        self.products[identity] = product
        self._batch[identity] = product.form()
        self._characters += len(product.text) + len(identity)

    def flush_if_due(self) -> None:
        is_full = len(self._batch) * _BATCHES >= self._total or self._characters >= _BATCH_CHARACTERS
        if self._batch and (is_full or time.monotonic() - self._flushed_at >= _BATCH_SECONDS):
            self.flush()

    def flush(self) -> None:
        if not self._batch:
            return
        done = len(self.products)
        self._ledger.write(
            f"{self._name} {self._number}",
            {"of": self._fingerprint, "items": self._batch},
            summary=f"{done:,} of {self._total:,} items",
            percent=self._percent(100 * done / max(self._total, 1)),
        )
        self._number += 1
        self._batch, self._characters = {}, 0
        self._flushed_at = time.monotonic()


def _items(step: str, values: Sequence[Any], key: Key | None) -> list[_Item]:
    """The items with their identities. Raises where two that differ have one key, or one has neither key nor JSON."""
    items: list[_Item] = []
    seen: dict[str, str] = {}
    for place, value in enumerate(values):
        content = _content(step, place, value, key is None)
        label = content[:_LABEL_CHARACTERS] if key is None else str(key(value))
        digest = value_hash(content) if content else ""
        if key is not None:
            if label in seen and (not digest or seen[label] != digest):
                raise PenstockError(f"{step}: two items have the key {label!r}: a key names one item.")
            seen[label] = digest
        items.append(_Item(place, value, digest if key is None else f"{label} {digest[:16]}", label))
    return items


def _content(step: str, place: int, value: Any, is_needed: bool) -> str:
    """The item as JSON; nothing where it is none, and need not be."""
    try:
        return to_json(value, f"{step}: item {place}").strip()
    except NotJson as error:
        if is_needed:
            raise NotJson(error.path, str(error)[len(error.path) + 1 :] + " Or give map(…, key=…).") from None
        return ""


def _name_of(function: Callable[..., Any]) -> str:
    """So that a step that calls another function in its second attempt is not given the first one's results."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


class _Inline(Executor):
    """Calls at once, in the caller's thread."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except (KeyboardInterrupt, *_STOPS):
            raise
        except BaseException as error:
            future.set_exception(error)
        return future
