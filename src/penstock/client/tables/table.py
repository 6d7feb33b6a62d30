"""A table as people use it: Python's values in and out, conditions from Python, iterators that page by themselves.

Each method stands in `TableCalls` once, with the request that it makes. `Table` and `AsyncTable` say how a call is sent
and what comes of it: an item, or something to await that gives one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.client.batches.batch_queue import BatchReport, Duplicates
from penstock.client.batches.batch_reads import ReadPlan, read_batch
from penstock.client.batches.batches import Batch, BatchOptions
from penstock.client.items.expressions import Attribute, Condition, Where
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.keys import Key, TableKey
from penstock.client.items.values import Item, decode_item
from penstock.client.reads.pages import Cursor, Items, with_pace
from penstock.client.reads.scans import ParallelScan
from penstock.client.tables import requests
from penstock.client.tables.requests import Call, Changes, Match, Names, Reading, Values
from penstock.client.tables.transactions import Action
from penstock.client.wrappers.pacing import Pace
from penstock.errors import ConditionalCheckFailedException

if TYPE_CHECKING:
    from penstock.client.database import Database
    from penstock.streams.consumer import Consumer, OnGap, Start


class TableActions:
    """A table's name, its key if that is known, and what can be done to it in a transaction."""

    def __init__(self, name: str, known: TableKey | None) -> None:
        if not name or not isinstance(name, str):
            raise ValueError(f"a table's name is a text, not {name!r}")
        self.name = name
        self._known = known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def put_action(
        self, item: Mapping[str, Any], *, if_: Where = None, names: Names = None, values: Values = None
    ) -> Action:
        """`put`, as a part of a transaction."""
        return Action("Put", requests.put_request(self.name, self._known, item, if_, names, values))

    def update_action(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        names: Names = None,
        values: Values = None,
    ) -> Action:
        """`update`, as a part of a transaction."""
        changes = Changes(set, remove, add, delete, expression)
        return Action("Update", requests.update_request(self.name, self._known, key, changes, if_, names, values))

    def delete_action(self, key: Key, *, if_: Where = None, names: Names = None, values: Values = None) -> Action:
        """`delete`, as a part of a transaction."""
        return Action("Delete", requests.delete_request(self.name, self._known, key, if_, names, values))

    def check_action(self, key: Key, *, if_: Where, names: Names = None, values: Values = None) -> Action:
        """A condition on an item that the transaction does not write."""
        return Action("ConditionCheck", requests.check_request(self.name, self._known, key, if_, names, values))

    def get_action(self, key: Key, *, select: Iterable[Attribute] | None = None) -> Action:
        """`get`, as a part of `transact_get`."""
        return Action("Get", requests.get_request(self.name, self._known, key, select))


PARALLEL_PAGE = 4_000
"""Items of a page of a parallel scan, at most: 1 MB of very small ones would take 25 MB in Python for each worker."""

Got = TypeVar("Got")  # by get, put, update and delete: an item or None
New = TypeVar("New")  # by update with return_new: an item
Many = TypeVar("Many")  # by query and scan
Scan = TypeVar("Scan")  # by parallel_scan
Writes = TypeVar("Writes")  # by batch
Done = TypeVar("Done")  # by batch_write: a report
Found = TypeVar("Found")  # by batch_get: items
Matches = TypeVar("Matches")  # by search


class TableCalls(TableActions, ABC, Generic[Got, New, Many, Scan, Writes, Done, Found, Matches]):
    """One table of a database. Cheap to make; nothing is asked before a method needs it."""

    # ── how they are sent ────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _send(self, call: Call[Item | None]) -> Got: ...

    @abstractmethod
    def _items(self, cursor: Cursor, pace: Pace | None) -> Many: ...

    @abstractmethod
    def _segments(self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None) -> Scan: ...

    @abstractmethod
    def _batch(self, options: BatchOptions) -> Writes: ...

    @abstractmethod
    def _write(self, puts: Iterable[Mapping[str, Any]], deletes: Iterable[Key], options: BatchOptions) -> Done: ...

    @abstractmethod
    def _read(self, plan: ReadPlan, keys: Iterable[Key], options: BatchOptions) -> Found: ...

    @abstractmethod
    def _search(self, index: str | None, request: Callable[[str], requests.Request]) -> Matches: ...

    def _condition_failed(self, error: ConditionalCheckFailedException, call: Call[Any]) -> ConditionFailed:
        return ConditionFailed.of(error, self.name, None if call.key is None else decode_item(call.key))

    # ── one item ─────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Key, *, consistent: bool = False, select: Iterable[Attribute] | None = None) -> Got:
        """The item with this key, or None."""
        return self._send(requests.get(requests.get_request(self.name, self._known, key, select), consistent))

    def put(
        self,
        item: Mapping[str, Any],
        *,
        if_: Where = None,
        return_old: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Got:
        """Writes the whole item, in place of the one with its key; gives that one back with `return_old`.

        Raises `ConditionFailed`, and writes nothing, where the item that is there does not meet `if_`.
        """
        request = requests.put_request(self.name, self._known, item, if_, names, values)
        return self._send(requests.put(request, self._known, return_old))

    @overload
    def update(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: Literal[True],
        names: Names = None,
        values: Values = None,
    ) -> New: ...

    @overload
    def update(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Got: ...

    def update(
        self,
        key: Key,
        *,
        set: Mapping[Any, Any] | None = None,
        remove: Iterable[Attribute] | None = None,
        add: Mapping[Any, Any] | None = None,
        delete: Mapping[Any, Any] | None = None,
        expression: str | None = None,
        if_: Where = None,
        return_old: bool = False,
        return_new: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Got | New:
        """Changes attributes of the item, and makes it where it is missing.

        `set` and `add` take attributes (a name or `F`) to values; a value of `set` may be computed: `F("n") + 1`.
        `add` adds to numbers and sets, `delete` takes members from sets, `remove` removes attributes.
        `expression` is an UpdateExpression in their place. `ConditionFailed` as in `put`.
        """
        changes = Changes(set, remove, add, delete, expression)
        request = requests.update_request(self.name, self._known, key, changes, if_, names, values)
        return self._send(requests.update(request, return_old, return_new))

    def delete(
        self, key: Key, *, if_: Where = None, return_old: bool = False, names: Names = None, values: Values = None
    ) -> Got:
        """Deletes the item, if there is one; gives it back with `return_old`. `ConditionFailed` as in `put`."""
        request = requests.delete_request(self.name, self._known, key, if_, names, values)
        return self._send(requests.delete(request, return_old))

    # ── many items ───────────────────────────────────────────────────────────────────────────────

    def query(
        self,
        *,
        index: str | None = None,
        key: Mapping[str, Any] | None = None,
        sort: Where = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        token: str | None = None,
        names: Names = None,
        values: Values = None,
        **equals: Any,
    ) -> Many:
        """The items of one partition, in the order of the sort key: `query(companyId="c1", sort=F("at") > 5)`.

        Key attributes whose names are not Python's, or are parameters here, go into `key`. `limit` counts items
        given; `token` resumes where the `Items.token` of the same query stood. `sort` may also be a whole
        KeyConditionExpression, with `names` and `values`.
        """
        reading = Reading(index, filter, select, consistent, names, values)
        request = requests.query_request(self.name, {**(key or {}), **equals}, sort, newest_first, reading)
        return self._items(self._cursor("Query", request, reading, limit, page_size, token), None)

    def scan(
        self,
        *,
        index: str | None = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        limit: int | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        segment: int | None = None,
        segments: int | None = None,
        token: str | None = None,
        pace: Pace | None = None,
        names: Names = None,
        values: Values = None,
    ) -> Many:
        """Every item, or those of one of several segments. `pace` as in `batch`."""
        reading = Reading(index, filter, select, consistent, names, values)
        request = requests.scan_request(self.name, segment, segments, reading)
        return self._items(self._cursor("Scan", request, reading, limit, page_size, token), pace)

    def parallel_scan(
        self,
        *,
        segments: int = 8,
        workers: int = 4,
        index: str | None = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        page_size: int = PARALLEL_PAGE,
        consistent: bool = False,
        tokens: Sequence[str | None] | None = None,
        pace: Pace | None = None,
        names: Names = None,
        values: Values = None,
    ) -> Scan:
        """Every item, read by `workers` threads or tasks, in no order; a page a worker and two more are in memory.

        Close it, or use it in a `with`, to stop early. Its `tokens` resume it: one for each segment. `pace` says when
        the next page may be read, and hears what it cost.
        """
        reading = Reading(index, filter, select, consistent, names, values)
        cursors = self._segment_cursors(reading, segments, page_size, tokens)
        return self._segments(cursors, segments, workers, pace)

    # ── vectors ──────────────────────────────────────────────────────────────────────────────────

    def search(
        self,
        vector: Iterable[Any],
        *,
        top: int = 10,
        index: str | None = None,
        where: Where = None,
        select: Iterable[Attribute] | None = None,
        names: Names = None,
        values: Values = None,
    ) -> Matches:
        """The `top` items (100 at most) whose vectors are nearest to this one, the nearest first, with their scores.

        `where` chooses by attributes of the index's search schema: `F("kind") == "a"`, several joined with `&`; an
        index with a partition needs its value. The vector itself is left out of the items unless `select` names it.
        `index` can be left out where the table has one vector index: its name is asked once.
        """
        wanted = [*vector]
        return self._search(
            index, lambda name: requests.search_request(self.name, name, wanted, top, where, select, names, values)
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
        """Any number of puts and deletes, sent 25 at a time: `with table.batch() as batch: batch.put(item)`.

        The last action on a key wins, in the order given; `duplicates="refuse"` refuses a second one. What is not
        done when `deadline_seconds` have passed since it was first sent is raised as `BatchIncomplete`.
        """
        return self._batch(options or BatchOptions(workers, deadline_seconds, duplicates, pace))

    def batch_write(
        self,
        puts: Iterable[Mapping[str, Any]] = (),
        deletes: Iterable[Key] = (),
        *,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        duplicates: Duplicates = "last",
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> Done:
        """Puts, then deletes, as `batch` does them; raises `BatchIncomplete` with what could not be done."""
        options = options or BatchOptions(workers, deadline_seconds, duplicates, pace)
        return self._write(puts, deletes, options)

    def batch_get(
        self,
        keys: Iterable[Key],
        *,
        consistent: bool = False,
        select: Iterable[Attribute] | None = None,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> Found:
        """The items with these keys, in the order of the keys; a key without an item is skipped.

        Read 100 at a time, as they are asked for. At the end `BatchIncomplete` is raised with the keys that could
        not be read, if there are any.
        """
        options = options or BatchOptions(workers, deadline_seconds, "last", pace)
        plan = ReadPlan(self.name, self._known, select, consistent)
        return self._read(plan, keys, options)

    # ── where they begin ─────────────────────────────────────────────────────────────────────────

    def _cursor(
        self,
        operation: str,
        request: dict[str, Any],
        reading: Reading,
        limit: int | None,
        page_size: int | None,
        token: str | None,
    ) -> Cursor:
        names = self._known.start_names(reading.index) if self._known else None
        return Cursor(operation, request, limit=limit, page_size=page_size, token=token, names=names)

    def _segment_cursors(
        self, reading: Reading, segments: int, page_size: int | None, tokens: Sequence[str | None] | None
    ) -> dict[int, Cursor]:
        """A cursor for each segment that is not done yet."""
        if tokens is not None and len(tokens) != segments:
            raise ValueError(f"{len(tokens)} tokens for {segments} segments: resume with as many segments as before")
        start = [(segment, None if tokens is None else tokens[segment]) for segment in range(segments)]
        left = [(segment, token) for segment, token in start if tokens is None or token is not None]
        asked = {segment: requests.scan_request(self.name, segment, segments, reading) for segment, _ in left}
        return {at: self._cursor("Scan", asked[at], reading, None, page_size, token) for at, token in left}


class Table(TableCalls[Item | None, Item, Items, ParallelScan, Batch, BatchReport, Iterator[Item], list[Match]]):
    """One table of a `Database`. Cheap to make, safe to share between threads."""

    def __init__(self, database: Database, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database
        self._vector_index: str | None = None

    @property
    def database(self) -> Database:
        """The database that has the table."""
        return self._database

    @property
    def key(self) -> TableKey:
        """The table's key; asked of the database once, unless it was declared."""
        if self._known is None:
            self._known = self._database.key_of(self.name)
        return self._known

    def changes(
        self,
        group: str | None = None,
        *,
        start: Start = "latest",
        follow: bool = True,
        kinds: Iterable[str] | str | None = None,
        where: Condition | None = None,
        on_gap: OnGap = "raise",
        lease_seconds: float = 30.0,
        poll_seconds: float = 1.0,
        checkpoint_seconds: float = 1.0,
    ) -> Consumer:
        """The table's changes, at least once and in order: `for change in table.changes(group="mailer")`.

        Consumers of one group, in any number of processes, share the stream's shards, and continue where the group was.
        Without a group nothing is kept. A new group begins at `start`: "latest", "oldest" (24 hours) or a datetime.
        Without `follow` it ends where there is nothing more. `kinds` ("insert", "modify", "remove") and `where`, a
        condition on the newest image, choose changes. `on_gap` says what to do about changes that were trimmed unread:
        "raise", "continue", or a function that is called. Progress is stored every `checkpoint_seconds`.
        """
        from penstock.streams.consumer import Consumer

        return Consumer(
            self._database,
            self.name,
            group,
            start=start,
            follow=follow,
            kinds=kinds,
            where=where,
            on_gap=on_gap,
            lease_seconds=lease_seconds,
            poll_seconds=poll_seconds,
            checkpoint_seconds=checkpoint_seconds,
        )

    def _send(self, call: Call[Item | None]) -> Item | None:
        try:
            return call.read(self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            raise self._condition_failed(error, call) from None

    def _items(self, cursor: Cursor, pace: Pace | None) -> Items:
        return Items(cursor, with_pace(self._database.execute, pace, self.name))

    def _segments(self, cursors: dict[int, Cursor], segments: int, workers: int, pace: Pace | None) -> ParallelScan:
        return ParallelScan(cursors, segments, workers, with_pace(self._database.execute, pace, self.name))

    def _batch(self, options: BatchOptions) -> Batch:
        database = self._database
        return Batch(self.name, self.key, database.execute, options, database.capabilities, database.loading)

    def _write(self, puts: Iterable[Mapping[str, Any]], deletes: Iterable[Key], options: BatchOptions) -> BatchReport:
        with self._batch(options) as batch:
            for item in puts:
                batch.put(item)
            for key in deletes:
                batch.delete(key)
        return batch.report

    def _read(self, plan: ReadPlan, keys: Iterable[Key], options: BatchOptions) -> Iterator[Item]:
        return read_batch(plan, keys, self._database.execute, options, self._database.capabilities.parallel_calls)

    def _search(self, index: str | None, request: Callable[[str], requests.Request]) -> list[Match]:
        if index is None and self._vector_index is None:
            described = self._database.execute("DescribeTable", {"TableName": self.name})["Table"]
            self._vector_index = requests.only_vector_index(described)
        asked = request(index or self._vector_index or "")
        return requests.matches_of(self._database.execute("SearchVectors", asked))
