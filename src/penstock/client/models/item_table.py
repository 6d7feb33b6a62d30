"""The handle of typed items: `db.table(User)`, and of several classes in one table: `db.table(User, Order)`.

Each method stands in `ItemCalls` once. `ItemTable` and `AsyncItemTable` say how a call is sent and what comes of it.
item_requests.py has what is sent, and the promises about versions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.client.batches.batch_queue import Duplicates
from penstock.client.batches.batch_reads import ReadPlan, read_encoded, read_encoded_async
from penstock.client.batches.batches import BatchOptions
from penstock.client.items.expressions import Aliases, Attribute, Condition, Where, condition_text
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import decode_item
from penstock.client.models.attributes import Change
from penstock.client.models.item_batches import AsyncItemBatch, ItemBatch, checked_puts, checked_puts_async
from penstock.client.models.item_requests import ItemActions, ItemWrite, M, Request, TypedAliases
from penstock.client.models.key_conditions import flat, key_condition
from penstock.client.models.model import Model
from penstock.client.reads.pages import AsyncPagedItems, Cursor, PagedItems, with_pace, with_pace_async
from penstock.client.reads.scans import SegmentedItems
from penstock.client.tables.table import PARALLEL_PAGE
from penstock.client.wrappers.pacing import Pace
from penstock.errors import ConditionalCheckFailedException

if TYPE_CHECKING:
    from penstock.client.async_database import AsyncDatabase, AsyncSegmentedItems
    from penstock.client.database import Database

Got = TypeVar("Got")  # by get, put, update and delete: an instance or None
New = TypeVar("New")  # by update with return_new: an instance
Many = TypeVar("Many")  # by query and scan
Scan = TypeVar("Scan")  # by parallel_scan
Writes = TypeVar("Writes")  # by batch
Count = TypeVar("Count")  # by batch_put and batch_delete: how many
Found = TypeVar("Found")  # by batch_get: instances

_OPERATIONS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}


class ItemCalls(ItemActions[M], ABC, Generic[M, Got, New, Many, Scan, Writes, Count, Found]):
    """The typed items of one table. Cheap to make; nothing is asked before a method needs it."""

    # ── how they are sent ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _get(self, request: Request) -> Got: ...

    @abstractmethod
    def _write(self, write: ItemWrite) -> Got: ...

    @abstractmethod
    def _items(self, cursor: Cursor, pace: Pace | None) -> Many: ...

    @abstractmethod
    def _segments(self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None) -> Scan: ...

    @abstractmethod
    def _batch(self, options: BatchOptions) -> Writes: ...

    # ── one item ─────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Any, *, consistent: bool = False) -> Got:
        """The item with this key, or None: `users.get("a@example.org")`, `orders.get(("c1", 5))`."""
        request: Request = {"TableName": self.name, "Key": self._key_of(key)}
        if consistent:
            request["ConsistentRead"] = True
        return self._get(request)

    def put(self, item: M, *, if_: Where = None, return_old: bool = False) -> Got:
        """Writes the whole item; gives the one before it with `return_old`. Raises ConditionFailed, VersionConflict."""
        write = self._put(item, if_)
        if return_old:
            write.request["ReturnValues"] = "ALL_OLD"
        return self._write(write)

    @overload
    def update(
        self,
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: Literal[True],
    ) -> New: ...

    @overload
    def update(
        self,
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
    ) -> Got: ...

    def update(
        self,
        key: Any,
        *changes: Change[Any],
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
    ) -> Got | New:
        """Changes attributes of the item, and makes it where it is missing: `update(key, User.visits.add(1))`.

        `set` and its like are the dict handle's. With an instance as the key its version is checked, and the instance
        is given what was changed.
        """
        if return_old and return_new:
            raise ValueError("DynamoDB returns the item before an update or after it, not both")
        write = self._update(key, changes, set, remove, add, delete, if_)
        if return_old:
            write.request["ReturnValues"] = "ALL_OLD"
        elif return_new or write.expected is not None:  # the instance is given what was changed
            write.request["ReturnValues"] = "ALL_NEW"
        write.returns = return_old or return_new
        return self._write(write)

    def delete(self, key: Any, *, if_: Where = None, return_old: bool = False) -> Got:
        """Deletes the item, if there is one. With an instance as the key its version is checked."""
        write = self._delete(key, if_)
        if return_old:
            write.request["ReturnValues"] = "ALL_OLD"
        return self._write(write)

    # ── many items ───────────────────────────────────────────────────────────────────────────────

    def query(
        self,
        *conditions: Condition,
        index: str | None = None,
        filter: Where = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        token: str | None = None,
        **equals: Any,
    ) -> Many:
        """The items of one partition: `query(User.company == "acme", User.joined > day)`, or `query(company="acme")`.

        The index is the one whose key the conditions are; `index` names it where several are. `limit` counts items
        given; `token` resumes where the `token` of the same query stood.
        """
        parts = flat(conditions)
        model = self._model_of_conditions(parts)
        aliases = TypedAliases(model)
        text, name = key_condition(model, parts, equals, index, aliases, is_alone=self._only is not None)
        request: Request = {"TableName": self.name, "KeyConditionExpression": text}
        if newest_first:
            request["ScanIndexForward"] = False
        self._reading(request, aliases, name, filter, consistent)
        return self._items(self._cursor("Query", request, limit, page_size, token), None)

    def scan(
        self,
        *,
        index: str | None = None,
        filter: Where = None,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        segment: int | None = None,
        segments: int | None = None,
        token: str | None = None,
        pace: Pace | None = None,
    ) -> Many:
        """Every item of the table that is of these classes, or those of one of several segments."""
        if (segment is None) != (segments is None):
            raise ValueError("segment and segments go together: scan(segment=0, segments=8)")
        request = self._scan_request(segment, segments, index, filter, consistent)
        return self._items(self._cursor("Scan", request, limit, page_size, token), pace)

    def parallel_scan(
        self,
        *,
        segments: int = 8,
        workers: int = 4,
        index: str | None = None,
        filter: Where = None,
        page_size: int = PARALLEL_PAGE,
        consistent: bool = False,
        tokens: Sequence[str | None] | None = None,
        pace: Pace | None = None,
    ) -> Scan:
        """Every item of these classes, read by `workers` threads or tasks, in no order.

        Close it, or use it in a `with`, to stop early. Its `tokens` resume it: one for each segment.
        """
        if tokens is not None and len(tokens) != segments:
            raise ValueError(f"{len(tokens)} tokens for {segments} segments: resume with as many segments as before")
        starts = tokens or [None] * segments
        cursors = {}
        for at in range(segments):
            if tokens is None or starts[at] is not None:
                request = self._scan_request(at, segments, index, filter, consistent)
                cursors[at] = self._cursor("Scan", request, None, page_size, starts[at])
        return self._segments(cursors, segments, workers, pace)

    def _scan_request(
        self, segment: int | None, segments: int | None, index: str | None, filter: Where, consistent: bool
    ) -> Request:
        request: Request = {"TableName": self.name}
        if segment is not None:
            request["Segment"], request["TotalSegments"] = segment, segments
        return self._reading(request, TypedAliases(self.models[0]), index, filter, consistent)

    def _reading(
        self, request: Request, aliases: Aliases, index: str | None, filter: Where, consistent: bool
    ) -> Request:
        if index is not None:
            request["IndexName"] = index
        if filter is not None:
            request["FilterExpression"] = condition_text(filter, aliases)
        if consistent:
            request["ConsistentRead"] = True
        return aliases.into(request)

    def _cursor(
        self, operation: str, request: Request, limit: int | None, page_size: int | None, token: str | None
    ) -> Cursor:
        return Cursor(
            operation,
            request,
            limit=limit,
            page_size=page_size,
            token=token,
            names=None if "IndexName" in request else self._key.names,
            decode=self._decode,
            place=self._place,
        )

    # ── batches ──────────────────────────────────────────────────────────────────────────────────

    def batch(
        self,
        *,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        duplicates: Duplicates = "last",
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> Writes:
        """Any number of puts and deletes, sent 25 at a time: `with users.batch() as batch: batch.put(user)`.

        Versions are counted, and not checked: DynamoDB's batches have no conditions. `BatchIncomplete` is raised with
        what could not be done.
        """
        return self._batch(options or BatchOptions(workers, deadline_seconds, duplicates, pace))

    @abstractmethod
    def batch_put(self, items: Iterable[M], *, check_versions: bool = False) -> Count:
        """Writes any number of items; how many. Versions are counted.

        With `check_versions` each item is written on the condition that its version is unchanged, in a request of its
        own. `BatchIncomplete` then holds those that were not written, each with its VersionConflict.
        """

    @abstractmethod
    def batch_delete(self, keys: Iterable[Any]) -> Count:
        """Deletes the items with these keys, or these instances; how many. Versions are not checked."""

    @abstractmethod
    def batch_get(self, keys: Iterable[Any], *, consistent: bool = False) -> Found:
        """The items with these keys, in the order of the keys; a key without an item is skipped."""

    def _read_plan(self, consistent: bool) -> ReadPlan:
        return ReadPlan(self.name, self._key, None, consistent)

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    def _read_item(self, answer: dict[str, Any]) -> Any:
        found = answer.get("Item")
        return None if found is None else self._decode_one(found)

    def _written(self, write: ItemWrite, answer: dict[str, Any]) -> Any:
        found = answer.get("Attributes")
        write.finish(found if write.request.get("ReturnValues") == "ALL_NEW" else None)
        return self._decode_one(found) if found and write.returns else None

    def _refused(self, write: ItemWrite, error: ConditionalCheckFailedException) -> Any:
        """The item after an update of our own whose answer was lost; otherwise what was refused is raised."""
        failed = ConditionFailed.of(error, self.name, decode_item(write.key))
        write.refuse(failed)
        is_new = write.request.get("ReturnValues") == "ALL_NEW"
        return self._decode_one(failed.fields["Item"]) if is_new and write.returns else None


class ItemTable(
    ItemCalls[M, M | None, M, PagedItems[M], SegmentedItems[M], ItemBatch[M], int, list[M]],
    Generic[M],
):
    """The typed items of a table of a `Database`. Cheap to make, safe to share between threads."""

    def __init__(self, database: Database, name: str, models: tuple[Model, ...]) -> None:
        super().__init__(name, models)
        self._database = database

    def _get(self, request: Request) -> M | None:
        found: M | None = self._read_item(self._database.execute("GetItem", request))
        return found

    def _write(self, write: ItemWrite) -> M | None:
        found: M | None
        try:
            found = self._written(write, self._database.execute(_OPERATIONS[write.kind], write.request))
        except ConditionalCheckFailedException as error:
            found = self._refused(write, error)
        return found

    def _items(self, cursor: Cursor, pace: Pace | None) -> PagedItems[M]:
        return PagedItems(cursor, with_pace(self._database.execute, pace, self.name))

    def _segments(
        self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None
    ) -> SegmentedItems[M]:
        return SegmentedItems(cursors, segments, workers, with_pace(self._database.execute, pace, self.name))

    def _batch(self, options: BatchOptions) -> ItemBatch[M]:
        return ItemBatch(self, self._database, options)

    def batch_put(self, items: Iterable[M], *, check_versions: bool = False) -> int:
        """Writes any number of items; how many. Versions are counted, and checked with `check_versions`."""
        if check_versions:
            return checked_puts(self, self._database, items)
        done = 0
        with self.batch() as batch:
            for item in items:
                batch.put(item)
                done += 1
        return done

    def batch_delete(self, keys: Iterable[Any]) -> int:
        """Deletes the items with these keys, or these instances; how many. Versions are not checked."""
        done = 0
        with self.batch() as batch:
            for key in keys:
                batch.delete(key)
                done += 1
        return done

    def batch_get(self, keys: Iterable[Any], *, consistent: bool = False) -> list[M]:
        """The items with these keys, in the order of the keys; a key without an item is skipped."""
        calls = self._database.capabilities.parallel_calls
        asked = (self._key_of(key) for key in keys)
        plan = self._read_plan(consistent)
        found = read_encoded(plan, asked, self._database.execute, BatchOptions(), calls)
        return self._decode(list(found))


class AsyncItemTable(
    ItemCalls[
        M,
        Coroutine[Any, Any, "M | None"],
        Coroutine[Any, Any, M],
        AsyncPagedItems[M],
        "AsyncSegmentedItems[M]",
        AsyncItemBatch[M],
        Coroutine[Any, Any, int],
        Coroutine[Any, Any, list[M]],
    ],
    Generic[M],
):
    """The same for asyncio: `await users.get(key)`, `async for user in users.query(…)`."""

    def __init__(self, database: AsyncDatabase, name: str, models: tuple[Model, ...]) -> None:
        super().__init__(name, models)
        self._database = database

    async def _get(self, request: Request) -> M | None:
        found: M | None = self._read_item(await self._database.execute("GetItem", request))
        return found

    async def _write(self, write: ItemWrite) -> M | None:
        found: M | None
        try:
            found = self._written(write, await self._database.execute(_OPERATIONS[write.kind], write.request))
        except ConditionalCheckFailedException as error:
            found = self._refused(write, error)
        return found

    def _items(self, cursor: Cursor, pace: Pace | None) -> AsyncPagedItems[M]:
        return AsyncPagedItems(cursor, with_pace_async(self._database.execute, pace, self.name))

    def _segments(
        self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None
    ) -> AsyncSegmentedItems[M]:
        from penstock.client.async_database import AsyncSegmentedItems

        return AsyncSegmentedItems(cursors, segments, workers, with_pace_async(self._database.execute, pace, self.name))

    def _batch(self, options: BatchOptions) -> AsyncItemBatch[M]:
        return AsyncItemBatch(self, self._database, options)

    async def batch_put(self, items: Iterable[M], *, check_versions: bool = False) -> int:
        """Writes any number of items; how many. Versions are counted, and checked with `check_versions`."""
        if check_versions:
            return await checked_puts_async(self, self._database, items)
        done = 0
        async with self.batch() as batch:
            for item in items:
                await batch.put(item)
                done += 1
        return done

    async def batch_delete(self, keys: Iterable[Any]) -> int:
        """Deletes the items with these keys, or these instances; how many. Versions are not checked."""
        done = 0
        async with self.batch() as batch:
            for key in keys:
                await batch.delete(key)
                done += 1
        return done

    async def batch_get(self, keys: Iterable[Any], *, consistent: bool = False) -> list[M]:
        """The items with these keys, in the order of the keys; a key without an item is skipped."""
        calls = self._database.capabilities.parallel_calls
        asked = (self._key_of(key) for key in keys)
        plan = self._read_plan(consistent)
        found = read_encoded_async(plan, asked, self._database.execute, BatchOptions(), calls)
        return self._decode([item async for item in found])
