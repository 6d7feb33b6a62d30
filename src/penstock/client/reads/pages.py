"""Reading on, page after page, and from where one stopped; at a pace, if one is given.

1. Every item that the pages hold is given once, in their order.
2. `token` names the place after the last item that was given: who resumes there misses none and sees none twice.
   It is None once there is nothing more.
3. A token of another query is refused.
4. What a page will cost is not known before it has come: the last one's units are asked of the pace for the next.
5. A throttled page is asked for again, when the pace, which has heard of the throttle, lets it go: `_PACED_ATTEMPTS`
   times at most. Then its error is raised, as every other is at once.

Between two pages the place is DynamoDB's LastEvaluatedKey. Within a page it is the last item's own key; where that is
not in the item (`select` left it out), it is a number of items to pass over, which holds as long as none is added or
deleted before it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import length_hint
from typing import Any, Generic, NamedTuple, TypeVar

import orjson

from penstock.client.items.values import Item, decode_items, encode
from penstock.client.wrappers.pacing import Outcome, Pace
from penstock.errors import PenstockError
from penstock.wire import values as wire

Request = dict[str, Any]
Answer = dict[str, Any]
T = TypeVar("T")

_NOT_PART_OF_THE_QUESTION = ("Limit", "ConsistentRead", "ExclusiveStartKey")


class InvalidToken(PenstockError, ValueError):
    """A token that was not made by this query, or not by Penstock."""


class Page(NamedTuple):
    """An answer to a Query or a Scan in Python's values, which need a third of the memory that the wire's do."""

    items: list[Any]
    scanned: int
    following: wire.Item | None
    """Where the next page begins; None after the last."""

    @classmethod
    def of(cls, answer: Answer, decode: Callable[[list[wire.Item]], list[Any]] = decode_items) -> Page:
        items = decode(answer["Items"])
        return cls(items, answer.get("ScannedCount", 0), answer.get("LastEvaluatedKey") or None)


def read_pages(execute: Callable[[str, Request], Answer], operation: str, request: Request) -> Iterator[Answer]:
    """The answers to a Query or a Scan, page after page, as DynamoDB gives them.

    What the caller changes in `request` between two pages, such as its Limit, holds for the next one.
    """
    answer = execute(operation, request)
    yield answer
    while start := answer.get("LastEvaluatedKey"):
        answer = execute(operation, {**request, "ExclusiveStartKey": start})
        yield answer


def _place(item: Item, names: tuple[str, ...]) -> wire.Item | None:
    """Where an item stands, by its own attributes; None if it has not all of them."""
    return {name: encode(item[name]) for name in names} if all(name in item for name in names) else None


class Cursor:
    """Where one query or scan stands. It sends nothing: `request()` is to be sent, `feed()` takes the page."""

    def __init__(
        self,
        operation: str,
        request: Request,
        *,
        limit: int | None = None,
        page_size: int | None = None,
        token: str | None = None,
        names: tuple[str, ...] | None = None,
        decode: Callable[[list[wire.Item]], list[Any]] = decode_items,
        place: Callable[[Any, tuple[str, ...]], wire.Item | None] = _place,
    ) -> None:
        self.operation = operation
        self.decode = decode
        self._place = place
        self.scanned = 0
        self.requests = 0
        self.rest: Iterator[Any] = iter(())
        """What of the page has not been given yet. Whoever takes from it moves the cursor."""
        self._request = request
        self._left = _positive("limit", limit)  # after this page
        self._page_size = _positive("page_size", page_size)
        self._names = names
        self._items: list[Any] = []
        self._end = 0  # in the page, of what is given of it
        self._before = 0  # items given of earlier pages
        self._given = 0  # items of this page that are given, at its end
        self._page_start: wire.Item | None = None
        self._next: wire.Item | None = None
        self._skip = 0
        self._more = True
        if token is not None:
            self._next, self._skip = read_token(token, self.question)

    @property
    def question(self) -> str:
        """The same for two requests that ask for the same items."""
        asked = {name: part for name, part in self._request.items() if name not in _NOT_PART_OF_THE_QUESTION}
        from hashlib import sha256

        return sha256(orjson.dumps([self.operation, asked], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    @property
    def done(self) -> bool:
        """Nothing more will come: all of it was given, or as much as the limit allows."""
        return not (self._more and self._left != 0) and not length_hint(self.rest)

    def request(self) -> Request:
        """The request for the next page."""
        request = dict(self._request)
        if self._next is not None:
            request["ExclusiveStartKey"] = self._next
        size = self._page_size
        # A limit counts what is given; DynamoDB's counts before the filter, so with one it would be too small.
        if self._left is not None and "FilterExpression" not in request:
            size = min(size or self._left + self._skip, self._left + self._skip)
        if size is not None:
            request["Limit"] = size
        return request

    def feed(self, page: Page) -> None:
        """Takes the page that answers `request()`."""
        items = page.items
        first = min(self._skip, len(items))
        end = len(items) if self._left is None else min(len(items), first + self._left)
        self._items, self._end, self.rest = items, end, iter(items[first:end])
        self._skip -= first
        self._before, self._given = self._before + self._given, end - first
        if self._left is not None:
            self._left -= self._given
        self.requests += 1
        self.scanned += page.scanned
        self._page_start, self._next = self._next, page.following
        self._more = page.following is not None
        if page.following is not None:
            self._names = tuple(page.following)

    def drop_page(self) -> None:
        """Lets go of a page of which all was given, so that the memory is free before the next one comes."""
        if self._end == len(self._items) and not length_hint(self.rest):
            self._items, self._end = [], 0

    @property
    def returned(self) -> int:
        """Items given."""
        return self._before + self._given - length_hint(self.rest)

    @property
    def token(self) -> str | None:
        # A list's iterator knows exactly how much it still has; so taking an item needs no count of ours.
        at = self._end - length_hint(self.rest)
        if at == len(self._items):
            return write_token(self.question, self._next, self._skip) if self._more else None
        if at == 0:
            return write_token(self.question, self._page_start, 0)
        last = self._items[at - 1]
        start = None if self._names is None else self._place(last, self._names)
        if start is not None:
            return write_token(self.question, start, 0)
        return write_token(self.question, self._page_start, at)


def write_token(question: str, start: wire.Item | None, skip: int) -> str:
    """A place as text that any JSON, URL or database holds."""
    return urlsafe_b64encode(orjson.dumps([1, question, start, skip])).decode("ascii").rstrip("=")


def read_token(token: str, question: str) -> tuple[wire.Item | None, int]:
    try:
        version, asked, start, skip = orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        known = version == 1 and isinstance(start, dict | None) and type(skip) is int and skip >= 0
    except (ValueError, TypeError):
        known = False
    if not known:
        raise InvalidToken("This is no token of Penstock's; use the `token` of the query that you resume.")
    if asked != question:
        raise InvalidToken("This token is of another query: resume with the same table, index, key, filter and order.")
    return start, skip


def _positive(name: str, number: int | None) -> int | None:
    if number is not None and number < 1:
        raise ValueError(f"{name} is at least 1, not {number}")
    return number


class Progress:
    """How far a query or a scan has come.

    `scanned` counts the items that DynamoDB read, and charged for; `returned` those given; `requests` the calls.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    @property
    def token(self) -> str | None:
        """Where to resume, as text; None if there is nothing more."""
        return self._cursor.token

    @property
    def scanned(self) -> int:
        """How many items were read so far, before any filter."""
        return self._cursor.scanned

    @property
    def returned(self) -> int:
        """How many of them were given."""
        return self._cursor.returned

    @property
    def requests(self) -> int:
        """How many calls that took."""
        return self._cursor.requests


class PagedItems(Progress, Iterator[T], Generic[T]):
    """The items of a query or a scan, read as they are asked for."""

    def __init__(self, cursor: Cursor, execute: Callable[[str, Request], Answer]) -> None:
        super().__init__(cursor)
        self._execute = execute

    def __next__(self) -> T:
        cursor = self._cursor
        while True:
            for item in cursor.rest:
                found: T = item
                return found
            if cursor.done:
                raise StopIteration
            cursor.feed(Page.of(self._execute(cursor.operation, cursor.request()), cursor.decode))

    def pages(self) -> Iterator[list[T]]:
        """The same, a page at a time; a page may be empty when a filter left nothing of it."""
        cursor = self._cursor
        while not cursor.done:
            if not length_hint(cursor.rest):
                cursor.feed(Page.of(self._execute(cursor.operation, cursor.request()), cursor.decode))
            yield list(cursor.rest)


class Items(PagedItems[Item]):
    """The items of a query or a scan, as dicts."""


class AsyncPagedItems(Progress, AsyncIterator[T], Generic[T]):
    """`Items` for asyncio."""

    def __init__(self, cursor: Cursor, execute: Callable[[str, Request], Awaitable[Answer]]) -> None:
        super().__init__(cursor)
        self._execute = execute

    async def __anext__(self) -> T:
        cursor = self._cursor
        while True:
            for item in cursor.rest:
                found: T = item
                return found
            if cursor.done:
                raise StopAsyncIteration
            cursor.feed(Page.of(await self._execute(cursor.operation, cursor.request()), cursor.decode))

    async def pages(self) -> AsyncIterator[list[T]]:
        """The same, a page at a time."""
        cursor = self._cursor
        while not cursor.done:
            if not length_hint(cursor.rest):
                cursor.feed(Page.of(await self._execute(cursor.operation, cursor.request()), cursor.decode))
            yield list(cursor.rest)

    async def all(self) -> list[T]:
        """All of them."""
        return [item async for page in self.pages() for item in page]


class AsyncItems(AsyncPagedItems[Item]):
    """`Items` for asyncio, as dicts."""


Execute = Callable[[str, Request], Answer]
AsyncExecute = Callable[[str, Request], Awaitable[Answer]]

_PACED_ATTEMPTS = 20


class _Gauge:
    """What the pages of one table cost; several threads may read them."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.units = 1.0

    def learn(self, operation: str, request: Request, result: Answer | PenstockError) -> Outcome:
        outcome = Outcome.of(operation, request, result, self.units)
        self.pace.after(outcome)
        self.units = outcome.units or self.units
        return outcome


class _Page:
    """One page on its way: what is asked, and how often it may still be."""

    def __init__(self, gauge: _Gauge, operation: str, request: Request) -> None:
        self.operation = operation
        self.asked = {**request, "ReturnConsumedCapacity": "TOTAL"}
        self._gauge = gauge
        self._attempts = _PACED_ATTEMPTS

    def take_answer(self, answer: Answer) -> Answer:
        self._gauge.learn(self.operation, self.asked, answer)
        return answer

    def take_error(self, error: PenstockError) -> None:
        """Raises the error, unless the page may be asked for again."""
        self._attempts -= 1
        if not self._gauge.learn(self.operation, self.asked, error).throttles or not self._attempts:
            raise error


def with_pace(execute: Execute, pace: Pace | None, table: str) -> Execute:
    """`execute` for the pages of a table, at this pace."""
    if pace is None:
        return execute
    gauge = _Gauge(pace)

    def send(operation: str, request: Request) -> Answer:
        page = _Page(gauge, operation, request)
        while True:
            pace.before(gauge.units, table, "Read")
            try:
                return page.take_answer(execute(operation, page.asked))
            except PenstockError as error:
                page.take_error(error)

    return send


def with_pace_async(execute: AsyncExecute, pace: Pace | None, table: str) -> AsyncExecute:
    """The same for asyncio."""
    if pace is None:
        return execute
    gauge = _Gauge(pace)

    async def send(operation: str, request: Request) -> Answer:
        page = _Page(gauge, operation, request)
        while True:
            await pace.before_async(gauge.units, table, "Read")
            try:
                return page.take_answer(await execute(operation, page.asked))
            except PenstockError as error:
                page.take_error(error)

    return send
