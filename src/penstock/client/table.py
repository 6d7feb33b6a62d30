"""A table as people use it: Python's values in and out, conditions from Python, iterators that page by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client import requests
from penstock.client.batch_reads import ReadPlan, read_batch
from penstock.client.batches import Batch, BatchOptions, BatchReport, Duplicates, Pace
from penstock.client.failures import ConditionFailed
from penstock.client.keys import Key, TableKey
from penstock.client.pages import Cursor, Items
from penstock.client.rendering import Attribute, Where
from penstock.client.requests import Call, Changes, Names, Reading, Values
from penstock.client.scans import ParallelScan
from penstock.client.transactions import Action
from penstock.client.values import Item, decode_item
from penstock.errors import ConditionalCheckFailedException

if TYPE_CHECKING:
    from penstock.client.database import Database

T = TypeVar("T")


class TableCalls:
    """What a table's handle knows without asking anybody: its name, perhaps its key, and how calls are made of both."""

    def __init__(self, name: str, known: TableKey | None) -> None:
        if not name or not isinstance(name, str):
            raise ValueError(f"a table's name is a text, not {name!r}")
        self.name = name
        self._known = known

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    # ── actions of a transaction ─────────────────────────────────────────────────────────────────

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

    # ── cursors ──────────────────────────────────────────────────────────────────────────────────

    def _query_cursor(
        self,
        key: Mapping[str, Any],
        sort: Where,
        newest_first: bool,
        reading: Reading,
        limit: int | None,
        page_size: int | None,
        token: str | None,
    ) -> Cursor:
        request = requests.query_request(self.name, key, sort, newest_first, reading)
        names = self._known.start_names(reading.index) if self._known else None
        return Cursor("Query", request, limit=limit, page_size=page_size, token=token, names=names)

    def _scan_cursor(
        self,
        reading: Reading,
        segment: int | None,
        segments: int | None,
        limit: int | None,
        page_size: int | None,
        token: str | None,
    ) -> Cursor:
        request = requests.scan_request(self.name, segment, segments, reading)
        names = self._known.start_names(reading.index) if self._known else None
        return Cursor("Scan", request, limit=limit, page_size=page_size, token=token, names=names)

    def _segment_cursors(
        self, reading: Reading, segments: int, page_size: int | None, tokens: Sequence[str | None] | None
    ) -> dict[int, Cursor]:
        """A cursor for each segment that is not done yet."""
        if tokens is not None and len(tokens) != segments:
            raise ValueError(f"{len(tokens)} tokens for {segments} segments: resume with as many segments as before")
        start = [(segment, None if tokens is None else tokens[segment]) for segment in range(segments)]
        return {
            segment: self._scan_cursor(reading, segment, segments, None, page_size, token)
            for segment, token in start
            if tokens is None or token is not None
        }

    def _condition_failed(self, error: ConditionalCheckFailedException, call: Call[Any]) -> ConditionFailed:
        return ConditionFailed.of(error, self.name, None if call.key is None else decode_item(call.key))


class Table(TableCalls):
    """One table of a `Database`. Cheap to make, safe to share between threads."""

    def __init__(self, database: Database, name: str, known: TableKey | None = None) -> None:
        super().__init__(name, known)
        self._database = database

    @property
    def key(self) -> TableKey:
        """The table's key; asked of the database once, unless it was declared."""
        if self._known is None:
            self._known = self._database.key_of(self.name)
        return self._known

    def get(self, key: Key, *, consistent: bool = False, select: Iterable[Attribute] | None = None) -> Item | None:
        """The item with this key, or None."""
        return self._run(requests.get(requests.get_request(self.name, self._known, key, select), consistent))

    def put(
        self,
        item: Mapping[str, Any],
        *,
        if_: Where = None,
        return_old: bool = False,
        names: Names = None,
        values: Values = None,
    ) -> Item | None:
        """Writes the whole item, in place of the one with its key; gives that one back with `return_old`.

        Raises `ConditionFailed`, and writes nothing, where the item that is there does not meet `if_`.
        """
        request = requests.put_request(self.name, self._known, item, if_, names, values)
        return self._run(requests.put(request, self._known, return_old))

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
    ) -> Item | None:
        """Changes attributes of the item, and makes it where it is missing.

        `set` and `add` take attributes (a name or `F`) to values; a value of `set` may be computed: `F("n") + 1`.
        `add` adds to numbers and sets, `delete` takes members from sets, `remove` removes attributes.
        `expression` is an UpdateExpression in their place. `ConditionFailed` as in `put`.
        """
        changes = Changes(set, remove, add, delete, expression)
        request = requests.update_request(self.name, self._known, key, changes, if_, names, values)
        return self._run(requests.update(request, return_old, return_new))

    def delete(
        self, key: Key, *, if_: Where = None, return_old: bool = False, names: Names = None, values: Values = None
    ) -> Item | None:
        """Deletes the item, if there is one; gives it back with `return_old`. `ConditionFailed` as in `put`."""
        request = requests.delete_request(self.name, self._known, key, if_, names, values)
        return self._run(requests.delete(request, return_old))

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
    ) -> Items:
        """The items of one partition, in the order of the sort key: `query(companyId="c1", sort=F("at") > 5)`.

        Key attributes whose names are not Python's, or are parameters here, go into `key`. `limit` counts items
        given; `token` resumes where the `Items.token` of the same query stood. `sort` may also be a whole
        KeyConditionExpression, with `names` and `values`.
        """
        reading = Reading(index, filter, select, consistent, names, values)
        wanted = {**(key or {}), **equals}
        cursor = self._query_cursor(wanted, sort, newest_first, reading, limit, page_size, token)
        return Items(cursor, self._database.execute)

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
        names: Names = None,
        values: Values = None,
    ) -> Items:
        """Every item, or those of one of several segments."""
        reading = Reading(index, filter, select, consistent, names, values)
        cursor = self._scan_cursor(reading, segment, segments, limit, page_size, token)
        return Items(cursor, self._database.execute)

    def parallel_scan(
        self,
        *,
        segments: int = 8,
        workers: int = 4,
        index: str | None = None,
        filter: Where = None,
        select: Iterable[Attribute] | None = None,
        page_size: int | None = None,
        consistent: bool = False,
        tokens: Sequence[str | None] | None = None,
        names: Names = None,
        values: Values = None,
    ) -> ParallelScan:
        """Every item, read by `workers` threads, in no order; at most twice as many pages as workers are in memory.

        Close it, or use it in a `with`, to stop early. `ParallelScan.tokens` resumes: one for each segment.
        """
        reading = Reading(index, filter, select, consistent, names, values)
        cursors = self._segment_cursors(reading, segments, page_size, tokens)
        return ParallelScan(cursors, segments, workers, self._database.execute)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────

    def batch(
        self,
        *,
        workers: int | None = None,
        deadline_seconds: float = 60.0,
        duplicates: Duplicates = "last",
        pace: Pace | None = None,
        options: BatchOptions | None = None,
    ) -> Batch:
        """Any number of puts and deletes, sent 25 at a time: `with table.batch() as batch: batch.put(item)`.

        The last action on a key wins, in the order given; `duplicates="refuse"` refuses a second one. What is not
        done when `deadline_seconds` have passed since it was first sent is raised as `BatchIncomplete`.
        """
        options = options or BatchOptions(workers, deadline_seconds, duplicates, pace)
        return Batch(self.name, self.key, self._database.execute, options, self._database.batch_workers)

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
    ) -> BatchReport:
        """Puts, then deletes, as `batch` does them; raises `BatchIncomplete` with what could not be done."""
        with self.batch(
            workers=workers, deadline_seconds=deadline_seconds, duplicates=duplicates, pace=pace, options=options
        ) as batch:
            for item in puts:
                batch.put(item)
            for key in deletes:
                batch.delete(key)
        return batch.report

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
    ) -> Iterator[Item]:
        """The items with these keys, in the order of the keys; a key that has no item is passed over.

        Read 100 at a time, as they are asked for. At the end `BatchIncomplete` is raised with the keys that could
        not be read, if there are any.
        """
        options = options or BatchOptions(workers, deadline_seconds, "last", pace)
        plan = ReadPlan(self.name, self._known, select, consistent)
        return read_batch(plan, keys, self._database.execute, options, self._database.batch_workers)

    def _run(self, call: Call[T]) -> T:
        try:
            return call.read(self._database.execute(call.operation, call.request))
        except ConditionalCheckFailedException as error:
            raise self._condition_failed(error, call) from None
