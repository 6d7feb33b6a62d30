"""Batches of reads: any number of keys, 100 a request, in the order of the keys.

1. Every key given ends as its item, as nothing (there is no such item), or in `BatchIncomplete.failed`.
2. A few requests are ahead of what the caller has read, never more: memory is bounded however many keys there are.
3. What an answer had no room for is asked again at once; what was throttled, after a wait, until the deadline.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.client.batches.batches import BatchOptions, as_ours
from penstock.client.items.expressions import Aliases, Attribute, path_of, projection_text
from penstock.client.items.failures import BatchIncomplete, Failed
from penstock.client.items.keys import Identity, Key, TableKey, encode_key, identity
from penstock.client.items.values import Item, decode_item
from penstock.client.wrappers.pacing import Outcome
from penstock.errors import PenstockError
from penstock.wire import values as wire
from penstock.wire.limits import BATCH_GET_ITEMS

Execute = Callable[[str, dict[str, Any]], dict[str, Any]]
AsyncExecute = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is asked of each item."""

    table: str
    schema: TableKey | None
    select: Iterable[Attribute] | None
    consistent: bool

    def encoded(self, keys: Iterable[Key]) -> Iterator[wire.Item]:
        return (encode_key(key, self.schema) for key in keys)


class Reading:
    """One request's worth of keys on its way to items; it sends nothing itself."""

    def __init__(self, plan: ReadPlan, keys: Sequence[wire.Item], options: BatchOptions) -> None:
        self.table = plan.table
        self._plan = plan
        self._keys = keys
        self._options = options
        self._names = tuple(keys[0])
        self._select = None if plan.select is None else list(plan.select)
        self._backoff = options.backoff()
        self._deadline = options.clock.now() + options.deadline_seconds
        self._left = {identity(key): key for key in keys}
        self._found: dict[Identity, wire.Item] = {}
        self.error: PenstockError | None = None

    def request(self) -> dict[str, Any]:
        """Asks for the keys that have had no answer yet."""
        asked: dict[str, Any] = {"Keys": list(self._left.values())}
        if self._plan.consistent:
            asked["ConsistentRead"] = True
        if self._select is not None:
            aliases = Aliases()
            missing = [name for name in self._names if name not in self._selected]
            asked["ProjectionExpression"] = projection_text([*self._select, *missing], aliases)
            aliases.into(asked)
        return {"RequestItems": {self._plan.table: asked}}

    @property
    def _selected(self) -> set[Any]:
        """The attributes that were asked for as a whole."""
        paths = map(path_of, self._select or ())
        return {path[0] for path in paths if len(path) == 1}

    def take(self, answer: dict[str, Any] | PenstockError) -> float | None:
        """Takes an answer or an error; how long to wait before the next request, or None if there is none."""
        if isinstance(answer, PenstockError):
            self.error = answer
            return self._wait(len(self._left)) if answer.retryable else None
        for items in answer.get("Responses", {}).values():
            for item in items:
                self._found[identity({name: item[name] for name in self._names})] = item
        asked = len(self._left)
        self._left = {identity(key): key for key in _unprocessed(answer)}
        if not self._left:
            self.error = None
            return None
        return self._wait(len(self._left) if len(self._left) == asked else 0)

    def _wait(self, turned_away: int) -> float | None:
        if self._options.clock.now() >= self._deadline:
            return None
        return self._backoff.wait_after(turned_away, max(1, turned_away))

    @property
    def units(self) -> float:
        return len(self._left) * (1.0 if self._plan.consistent else 0.5)

    def items(self) -> list[Item]:
        """The items that were found, in the order of the keys."""
        return [decode_item(self._selection(item)) for item in self.encoded_items()]

    def encoded_items(self) -> list[wire.Item]:
        """The same in DynamoDB's own JSON, each with its key."""
        found = (self._found.get(identity(key)) for key in self._keys)
        return [item for item in found if item is not None]

    def _selection(self, item: wire.Item) -> wire.Item:
        if self._select is None:
            return item
        wanted = {path_of(attribute)[0] for attribute in self._select}
        return {name: value for name, value in item.items() if name in wanted}

    def failed(self) -> list[Failed]:
        return [Failed("get", decode_item(key), self.error) for key in self._left.values()]

    @property
    def done(self) -> int:
        return len(self._keys) - len(self._left)


def _unprocessed(answer: dict[str, Any]) -> Iterable[wire.Item]:
    for asked in (answer.get("UnprocessedKeys") or {}).values():
        yield from asked["Keys"]


class _Tally:
    """What the requests that are over add up to."""

    def __init__(self) -> None:
        self._failed: list[Failed] = []
        self._done = 0

    def add(self, reading: Reading) -> None:
        self._failed += reading.failed()
        self._done += reading.done

    def finish(self) -> None:
        if self._failed:
            raise BatchIncomplete(self._failed, self._done)


def _readings(plan: ReadPlan, keys: Iterable[wire.Item], options: BatchOptions) -> Iterator[Reading]:
    every = iter(keys)
    while chunk := list(islice(every, BATCH_GET_ITEMS)):
        yield Reading(plan, chunk, options)


def read_batch(
    plan: ReadPlan, keys: Iterable[Key], execute: Execute, options: BatchOptions, workers: int
) -> Iterator[Item]:
    """The items with these keys, as they are asked for."""
    tally = _Tally()
    readings = _readings(plan, plan.encoded(keys), options)
    for reading in _finished(readings, execute, options, options.workers or workers):
        tally.add(reading)
        yield from reading.items()
    tally.finish()


def read_encoded(
    plan: ReadPlan, keys: Iterable[wire.Item], execute: Execute, options: BatchOptions, workers: int
) -> Iterator[wire.Item]:
    """`read_batch` in DynamoDB's own JSON: nothing of the keys and items is changed. No key may be given twice."""
    tally = _Tally()
    for reading in _finished(_readings(plan, keys, options), execute, options, options.workers or workers):
        tally.add(reading)
        yield from reading.encoded_items()
    tally.finish()


async def read_encoded_async(
    plan: ReadPlan, keys: Iterable[wire.Item], execute: AsyncExecute, options: BatchOptions, workers: int
) -> AsyncIterator[wire.Item]:
    """`read_encoded` for asyncio."""
    tally = _Tally()
    async for reading in _finished_async(_readings(plan, keys, options), execute, options, options.workers or workers):
        tally.add(reading)
        for item in reading.encoded_items():
            yield item
    tally.finish()


def _finished(readings: Iterator[Reading], execute: Execute, options: BatchOptions, workers: int) -> Iterator[Reading]:
    if workers == 1:
        yield from (_read(reading, execute, options) for reading in readings)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="penstock-batch") as pool:
        ahead: deque[Future[Reading]] = deque()
        for reading in readings:
            # The caller's context goes with it: a meter's label, a trace's span.
            ahead.append(pool.submit(copy_context().run, _read, reading, execute, options))
            if len(ahead) >= workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _read(reading: Reading, execute: Execute, options: BatchOptions) -> Reading:
    wait: float | None = 0.0
    while wait is not None:
        if wait > 0:
            options.sleep(wait)
        request = reading.request()
        if options.pace is not None:
            options.pace.before(reading.units, reading.table, "Read")
        answer: dict[str, Any] | PenstockError
        try:
            answer = execute("BatchGetItem", request)
        except Exception as error:
            answer = as_ours(error)
        if options.pace is not None:
            options.pace.after(Outcome.of("BatchGetItem", request, answer, reading.units))
        wait = reading.take(answer)
    return reading


async def read_batch_async(
    plan: ReadPlan, keys: Iterable[Key], execute: AsyncExecute, options: BatchOptions, workers: int
) -> AsyncIterator[Item]:
    """`read_batch` for asyncio."""
    tally = _Tally()
    readings = _readings(plan, plan.encoded(keys), options)
    async for reading in _finished_async(readings, execute, options, options.workers or workers):
        tally.add(reading)
        for item in reading.items():
            yield item
    tally.finish()


async def _finished_async(
    readings: Iterator[Reading], execute: AsyncExecute, options: BatchOptions, workers: int
) -> AsyncIterator[Reading]:
    import asyncio  # who comes here has it loaded

    ahead: deque[asyncio.Task[Reading]] = deque()
    try:
        while True:
            for reading in islice(readings, max(0, workers - len(ahead))):
                ahead.append(asyncio.create_task(_read_async(reading, execute, options)))
            if not ahead:
                break
            yield await ahead.popleft()
    finally:
        for task in ahead:
            task.cancel()


async def _read_async(reading: Reading, execute: AsyncExecute, options: BatchOptions) -> Reading:
    import asyncio  # who comes here has it loaded

    wait: float | None = 0.0
    while wait is not None:
        if wait > 0:
            await asyncio.sleep(wait) if options.sleep is time.sleep else options.sleep(wait)
        request = reading.request()
        if options.pace is not None:
            await options.pace.before_async(reading.units, reading.table, "Read")
        answer: dict[str, Any] | PenstockError
        try:
            answer = await execute("BatchGetItem", request)
        except Exception as error:
            answer = as_ours(error)
        if options.pace is not None:
            options.pace.after(Outcome.of("BatchGetItem", request, answer, reading.units))
        wait = reading.take(answer)
    return reading
