"""A scan by several threads at once.

1. Memory is bounded: each worker has at most one page in hand, and one more page waits; a worker that is ahead waits.
2. An item counts as given when the caller has it: `tokens` resumes after exactly what was given, segment by segment.
3. The error of one segment ends the scan: it is raised where the items are read.
4. Closing, or forgetting, the scan stops its threads after the call they are in.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, Generic, Self, TypeVar

from penstock.client.items.values import Item
from penstock.client.reads.pages import Cursor, Page
from penstock.wire.limits import SCAN_SEGMENTS

Execute = Callable[[str, dict[str, Any]], dict[str, Any]]
T = TypeVar("T")


class _Channel:
    """Between the workers and the caller: a page, an error perhaps, and how many segments are still being read.

    One page is enough: where the caller is the slower, each worker has another in hand.
    """

    def __init__(self, segments: list[int]) -> None:
        self._changed = threading.Condition()
        self._pages: deque[tuple[int, Page]] = deque()
        self._waiting = deque(segments)
        self._unfinished = len(segments)
        self._error: BaseException | None = None
        self.stopped = False

    def next_segment(self) -> int | None:
        with self._changed:
            return None if self.stopped or not self._waiting else self._waiting.popleft()

    def put(self, segment: int, page: Page) -> bool:
        """Waits for room; False if nobody wants the page any more."""
        with self._changed:
            while self._pages and not self.stopped:
                self._changed.wait()
            if not self.stopped:
                self._pages.append((segment, page))
                self._changed.notify_all()
            return not self.stopped

    def finish(self) -> None:
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self.stopped = True
            self._changed.notify_all()

    def take(self) -> tuple[int, Page] | None:
        """The next page; None at the end of the scan."""
        with self._changed:
            while not self._pages and self._unfinished and not self.stopped:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if not self._pages or self.stopped:
                return None
            self._changed.notify_all()
            return self._pages.popleft()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            self._pages.clear()
            self._changed.notify_all()


Start = tuple[Cursor, dict[str, Any]]
"""Of a segment: how it is read, and its first request. The cursor itself is the reader's, who moves it."""


def _work(channel: _Channel, starts: dict[int, Start], execute: Execute) -> None:
    while (segment := channel.next_segment()) is not None:
        cursor, request = starts[segment]
        try:
            if not _read_segment(channel, segment, cursor, request, execute):
                return
        except BaseException as error:  # it is raised again, where the items are read
            channel.fail(error)
            return
        channel.finish()


def _read_segment(channel: _Channel, segment: int, cursor: Cursor, request: dict[str, Any], execute: Execute) -> bool:
    """Reads a segment to its end; False if it was told to stop."""
    while True:
        page = Page.of(execute(cursor.operation, request), cursor.decode)
        if not channel.put(segment, page):
            return False
        if page.following is None:
            return True
        request = {**request, "ExclusiveStartKey": page.following}
        del page  # it is the reader's now, and may be gone before the next one comes


class SegmentState:
    """Where each segment stands. `scanned`, `returned` and `requests` count; `tokens` resumes."""

    def __init__(self, cursors: dict[int, Cursor], segments: int, workers: int) -> None:
        if not 1 <= segments <= SCAN_SEGMENTS:
            raise ValueError(f"segments is 1 to {SCAN_SEGMENTS:,}, not {segments}")
        if workers < 1:
            raise ValueError(f"workers is at least 1, not {workers}")
        self._cursors = cursors
        self._current: Cursor | None = None
        self._rest: Iterator[Any] = iter(())
        self._segments = segments
        self._workers = min(workers, len(cursors))

    def _open(self, segment: int, page: Page) -> None:
        """Puts a segment's page before the reader."""
        if self._current is not None:
            self._current.drop_page()
        self._current = self._cursors[segment]
        self._current.feed(page)
        self._rest = self._current.rest

    @property
    def tokens(self) -> list[str | None]:
        """Where to resume each segment; None for one that is done. `table.scan(segment=…)` takes them too."""
        found = (self._cursors.get(segment) for segment in range(self._segments))
        return [None if cursor is None else cursor.token for cursor in found]

    @property
    def scanned(self) -> int:
        return sum(cursor.scanned for cursor in self._cursors.values())

    @property
    def returned(self) -> int:
        return sum(cursor.returned for cursor in self._cursors.values())

    @property
    def requests(self) -> int:
        return sum(cursor.requests for cursor in self._cursors.values())


class SegmentedItems(SegmentState, Iterator[T], Generic[T]):
    """Every item of a table, in no order, read by threads."""

    def __init__(self, cursors: dict[int, Cursor], segments: int, workers: int, execute: Execute) -> None:
        super().__init__(cursors, segments, workers)
        self._execute = execute
        self._channel = _Channel(list(cursors))
        self._started = False
        self._forgotten = weakref.finalize(self, self._channel.stop)

    def __next__(self) -> T:
        while True:
            for item in self._rest:
                found: T = item
                return found
            self._next_page()

    def _next_page(self) -> None:
        if not self._started:
            self._start()
        found = self._channel.take()
        if found is None:
            raise StopIteration
        self._open(*found)

    def _start(self) -> None:
        self._started = True
        starts = {segment: (cursor, cursor.request()) for segment, cursor in self._cursors.items()}
        for number in range(self._workers):
            # Daemons: a program that leaves its scan half read may end. The caller's context (a meter's label, a
            # trace's span) goes with them.
            threading.Thread(
                target=copy_context().run,
                args=(_work, self._channel, starts, self._execute),
                name=f"penstock-scan-{number}",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Stops the workers; `tokens` still says where."""
        self._channel.stop()
        self._started, self._rest = True, iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ParallelScan(SegmentedItems[Item]):
    """Every item of a table as a dict, in no order, read by threads."""
