"""Batches of typed items.

1. An instance has its new version when its put has been done; one that was not done keeps the version it had.
2. DynamoDB's batches have no conditions. `checked_puts` writes each item in a request of its own, several at once; all
   are tried, and then those that were not written are raised together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self

from penstock.client.batches.batches import Batch, BatchOptions, BatchState, as_ours
from penstock.client.items.failures import BatchIncomplete, ConditionFailed, Failed
from penstock.client.items.keys import TableKey
from penstock.client.items.values import decode_item
from penstock.client.models.item_requests import ItemActions, ItemWrite, M, count_version
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.wire.limits import BATCH_WRITE_ITEMS

if TYPE_CHECKING:
    from penstock.client.async_database import AsyncBatch, AsyncDatabase
    from penstock.client.database import Database


class _Versions:
    """The instances of a batch that are given a version when it ends (1)."""

    def __init__(self, table: ItemActions[Any]) -> None:
        self._table = table
        self._counted: list[ItemWrite] = []

    def encoded(self, item: Any) -> tuple[dict[str, Any], int]:
        """The item to write, with the next version, and how many bytes of JSON it makes."""
        model = self._table._model_of(item)
        encoded, size = self._table._encoded(model, item)
        if model.version is not None:
            expected = count_version(model, item, encoded)
            key = self._table._key.key_of(encoded)
            self._counted.append(ItemWrite("Put", {"Item": encoded}, key, model, item, expected))
        return encoded, size

    def finish(self, failed: Iterable[Failed]) -> None:
        """Counts the versions of all but those that failed."""
        if not self._counted:
            return
        names = self._table._key.names
        left = {tuple(str(one.item[name]) for name in names) for one in failed if one.action == "put"}
        for write in self._counted:
            key = decode_item(write.key)
            if tuple(str(key[name]) for name in names) not in left:
                write.finish()
        self._counted.clear()


class ItemBatch(Generic[M]):
    """`with users.batch() as batch:` and then `batch.put(user)`, `batch.delete(key)`. For one thread."""

    def __init__(self, table: ItemActions[M], database: Database, options: BatchOptions) -> None:
        self._table = table
        self._versions = _Versions(table)
        self._inner = Batch(table.name, table._key, database.execute, options, database.capabilities, database.loading)

    @property
    def state(self) -> BatchState:
        """How far it is: `done`, `failed` and `report`."""
        return self._inner

    def put(self, item: M) -> None:
        """Will write the item. Waits while as many requests are in flight as may be."""
        self._inner.put_encoded(*self._versions.encoded(item))

    def delete(self, key: Any) -> None:
        """Will delete the item with this key, or this instance. Its version is not checked."""
        self._inner.delete_encoded(self._table._key_of(key))

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *rest: object) -> None:
        try:
            self._inner.__exit__(kind, error, *rest)
        finally:
            self._versions.finish(self._inner.failed)


class AsyncItemBatch(Generic[M]):
    """`async with users.batch() as batch:` and then `await batch.put(user)`. For one task."""

    def __init__(self, table: ItemActions[M], database: AsyncDatabase, options: BatchOptions) -> None:
        from penstock.client.async_database import AsyncBatch

        self._table = table
        self._versions = _Versions(table)

        async def key() -> TableKey:
            return table._key

        self._inner: AsyncBatch = AsyncBatch(
            table.name, key, database.execute, options, database.capabilities.parallel_calls
        )

    @property
    def state(self) -> BatchState:
        """How far it is: `done`, `failed` and `report`."""
        return self._inner

    async def put(self, item: M) -> None:
        """Will write the item. Waits while as many requests are in flight as may be."""
        await self._inner.put_encoded(*self._versions.encoded(item))

    async def delete(self, key: Any) -> None:
        """Will delete the item with this key, or this instance. Its version is not checked."""
        await self._inner.delete_encoded(self._table._key_of(key))

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, *rest: object) -> None:
        try:
            await self._inner.__aexit__(kind, error, *rest)
        finally:
            self._versions.finish(self._inner.failed)


# ── puts with conditions (2) ─────────────────────────────────────────────────────────────────────


class _CheckedPuts:
    """The puts of one call, and what became of them."""

    def __init__(self, table: ItemActions[Any]) -> None:
        self._table = table
        self._failed: list[Failed] = []
        self._done = 0

    def writes(self, items: Iterable[Any]) -> Iterator[list[ItemWrite]]:
        every = iter(items)
        while some := list(islice(every, BATCH_WRITE_ITEMS)):
            yield [self._table._put(item, None) for item in some]

    def take(self, write: ItemWrite, answer: dict[str, Any] | PenstockError) -> None:
        error = None if not isinstance(answer, PenstockError) else self._refusal(write, answer)
        if error is None:
            write.finish()
            self._done += 1
        else:
            self._failed.append(Failed("put", decode_item(write.request["Item"]), error))

    def _refusal(self, write: ItemWrite, error: PenstockError) -> PenstockError | None:
        if not isinstance(error, ConditionalCheckFailedException):
            return error
        try:
            write.refuse(ConditionFailed.of(error, self._table.name, decode_item(write.key)))
        except ConditionFailed as failed:
            return failed
        return None

    def finish(self) -> int:
        if self._failed:
            raise BatchIncomplete(self._failed, self._done)
        return self._done


def checked_puts(table: ItemActions[M], database: Database, items: Iterable[M]) -> int:
    """Puts each item if its version is unchanged; how many. Raises BatchIncomplete."""
    puts = _CheckedPuts(table)
    if database.capabilities.shares_commits:
        for writes in puts.writes(items):
            answers = database.execute_together([("PutItem", write.request) for write in writes])
            for write, answer in zip(writes, answers, strict=True):
                puts.take(write, answer)
        return puts.finish()

    def attempt(write: ItemWrite) -> dict[str, Any] | PenstockError:
        try:
            return database.execute("PutItem", write.request)
        except Exception as error:
            return as_ours(error)

    with ThreadPoolExecutor(database.capabilities.parallel_calls, thread_name_prefix="penstock-batch") as pool:
        for writes in puts.writes(items):
            sent = [pool.submit(copy_context().run, attempt, write) for write in writes]
            for write, one in zip(writes, sent, strict=True):
                puts.take(write, one.result())
    return puts.finish()


async def checked_puts_async(table: ItemActions[M], database: AsyncDatabase, items: Iterable[M]) -> int:
    """`checked_puts` for asyncio."""
    puts = _CheckedPuts(table)
    free = asyncio.Semaphore(database.capabilities.parallel_calls)

    async def attempt(write: ItemWrite) -> dict[str, Any] | PenstockError:
        async with free:
            try:
                return await database.execute("PutItem", write.request)
            except Exception as error:
                return as_ours(error)

    for writes in puts.writes(items):
        answers = await asyncio.gather(*(attempt(write) for write in writes))
        for write, answer in zip(writes, answers, strict=True):
            puts.take(write, answer)
    return puts.finish()
