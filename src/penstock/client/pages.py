"""Reading on, page after page, and from where one stopped.

1. Every item that the pages hold is given once, in their order.
2. `token` names the place after the last item that was given: who resumes there misses none and sees none twice.
   It is None once there is nothing more.
3. A token of another query is refused.

Between two pages the place is DynamoDB's LastEvaluatedKey. Within a page it is the last item's own key; where that is
not in the item (`select` left it out), it is a number of items to pass over, which holds as long as none is added or
deleted before it.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any

import orjson

from penstock.client.values import Item, decode_item
from penstock.errors import PenstockError
from penstock.wire import values as wire

Request = dict[str, Any]
Answer = dict[str, Any]

_NOT_PART_OF_THE_QUESTION = ("Limit", "ConsistentRead", "ExclusiveStartKey")


class InvalidToken(PenstockError, ValueError):
    """A token that was not made by this query, or not by Penstock."""


class Cursor:
    """Where one query or scan stands. It sends nothing: `request()` is to be sent, `feed()` takes the answer."""

    def __init__(
        self,
        operation: str,
        request: Request,
        *,
        limit: int | None = None,
        page_size: int | None = None,
        token: str | None = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.operation = operation
        self.scanned = 0
        self.returned = 0
        self.requests = 0
        self._request = request
        self._left = _positive("limit", limit)
        self._page_size = _positive("page_size", page_size)
        self._names = names
        self._items: list[wire.Item] = []
        self._at = 0
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
        return sha256(orjson.dumps([self.operation, asked], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    @property
    def done(self) -> bool:
        """Nothing more will come: all of it was given, or as much as the limit allows."""
        return self._left == 0 or (not self._more and self._at == len(self._items))

    @property
    def wants_page(self) -> bool:
        return self._at == len(self._items) and not self.done

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

    def feed(self, answer: Answer) -> None:
        """Takes the answer to `request()`."""
        self.requests += 1
        self.scanned += answer.get("ScannedCount", 0)
        self._page_start = self._next
        self._items = answer["Items"]
        self._next = answer.get("LastEvaluatedKey") or None
        self._more = self._next is not None
        if self._next is not None:
            self._names = tuple(self._next)
        self._at = min(self._skip, len(self._items))
        self._skip -= self._at

    def take(self) -> wire.Item | None:
        """The next item of the page; None at its end."""
        if self._at == len(self._items) or self._left == 0:
            return None
        item = self._items[self._at]
        self._at += 1
        self.returned += 1
        if self._left is not None:
            self._left -= 1
        return item

    def take_page(self) -> list[wire.Item]:
        """The rest of the page, as far as the limit allows."""
        end = len(self._items) if self._left is None else min(len(self._items), self._at + self._left)
        taken = self._items[self._at : end]
        self._at = end
        self.returned += len(taken)
        if self._left is not None:
            self._left -= len(taken)
        return taken

    @property
    def token(self) -> str | None:
        if self._at == len(self._items):
            if not self._more:
                return None
            return write_token(self.question, self._next, self._skip)
        if self._at == 0:
            return write_token(self.question, self._page_start, 0)
        last = self._items[self._at - 1]
        if self._names is not None and all(name in last for name in self._names):
            return write_token(self.question, {name: last[name] for name in self._names}, 0)
        return write_token(self.question, self._page_start, self._at)


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


class Items(Iterator[Item]):
    """The items of a query or a scan, read as they are asked for.

    `scanned` counts the items that DynamoDB read, and charged for; `returned` those given; `requests` the calls.
    """

    def __init__(self, cursor: Cursor, execute: Callable[[str, Request], Answer]) -> None:
        self._cursor = cursor
        self._execute = execute

    def __next__(self) -> Item:
        cursor = self._cursor
        while True:
            item = cursor.take()
            if item is not None:
                return decode_item(item)
            if cursor.done:
                raise StopIteration
            cursor.feed(self._execute(cursor.operation, cursor.request()))

    def pages(self) -> Iterator[list[Item]]:
        """The same, a page at a time; a page may be empty when a filter left nothing of it."""
        cursor = self._cursor
        while not cursor.done:
            if cursor.wants_page:
                cursor.feed(self._execute(cursor.operation, cursor.request()))
            yield [decode_item(item) for item in cursor.take_page()]

    @property
    def token(self) -> str | None:
        """Where to resume, as text; None if there is nothing more."""
        return self._cursor.token

    @property
    def scanned(self) -> int:
        return self._cursor.scanned

    @property
    def returned(self) -> int:
        return self._cursor.returned

    @property
    def requests(self) -> int:
        return self._cursor.requests


class AsyncItems(AsyncIterator[Item]):
    """`Items` for asyncio."""

    def __init__(self, cursor: Cursor, execute: Callable[[str, Request], Awaitable[Answer]]) -> None:
        self._cursor = cursor
        self._execute = execute

    async def __anext__(self) -> Item:
        cursor = self._cursor
        while True:
            item = cursor.take()
            if item is not None:
                return decode_item(item)
            if cursor.done:
                raise StopAsyncIteration
            cursor.feed(await self._execute(cursor.operation, cursor.request()))

    async def pages(self) -> AsyncIterator[list[Item]]:
        """The same, a page at a time."""
        cursor = self._cursor
        while not cursor.done:
            if cursor.wants_page:
                cursor.feed(await self._execute(cursor.operation, cursor.request()))
            yield [decode_item(item) for item in cursor.take_page()]

    async def all(self) -> list[Item]:
        """All of them."""
        return [item async for item in self]

    @property
    def token(self) -> str | None:
        """Where to resume, as text; None if there is nothing more."""
        return self._cursor.token

    @property
    def scanned(self) -> int:
        return self._cursor.scanned

    @property
    def returned(self) -> int:
        return self._cursor.returned

    @property
    def requests(self) -> int:
        return self._cursor.requests
