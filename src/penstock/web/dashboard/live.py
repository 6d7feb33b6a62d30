"""Live pages: server-sent events from one poller for all of them.

1. Each second, each feed that somebody follows is polled once, with all the keys that are followed: what it costs does
   not depend on how many pages are open. A feed that nobody follows costs nothing.
2. A fragment is sent when it differs from the one that was sent last.
3. What has an id (the lines of a log) is sent to each subscriber once, in order and without a gap: from the one after
   its Last-Event-ID on, whenever and however often it connects.
4. A subscriber that does not read is let go, and comes back with its Last-Event-ID.
5. A database that goes away is told of to all, and so is its coming back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from penstock.errors import PenstockError

DEFAULT_PAUSE_SECONDS: Final = 1.0
_KEEP_ALIVE_SECONDS: Final = 15.0
_LONGEST_PAUSE_SECONDS: Final = 15.0
_WAITING_MESSAGES: Final = 500
_ANSWERS_AGAIN: Final = "The database answers again."
_LOG = logging.getLogger("penstock.web")


@dataclass(frozen=True, slots=True)
class Message:
    """One event. A fragment has a `slot`, the id of the element that it is; a line of a log has a number."""

    event: str
    data: str
    slot: str = ""
    number: int | None = None

    def encoded(self) -> bytes:
        head = f"event: {self.event}\n" + ("" if self.number is None else f"id: {self.number}\n")
        text = self.data.replace("\r\n", "\n").replace("\r", "\n")  # either would end a line of the stream
        lines = "".join(f"data: {line}\n" for line in text.split("\n"))
        return f"{head}{lines}\n".encode()


def fragment(slot: str, html: str) -> Message:
    return Message("fragment", orjson.dumps({"slot": slot, "html": html}).decode(), slot)


class Feed(Protocol):
    """Something to follow. Both methods run in threads."""

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        """What there is for each key: its fragments as they are now, and the lines that are new since the last poll."""

    def missed(self, key: str, after: int) -> Sequence[Message]:
        """The lines after that number."""


class Subscription:
    """What one page has not been sent yet."""

    def __init__(self, after: int | None) -> None:
        self.after = after
        self.queue: asyncio.Queue[Message | None] = asyncio.Queue(_WAITING_MESSAGES)

    def put(self, message: Message | None) -> None:
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:  # it does not read (4)
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)


def pause_after(spent_seconds: float, pause_seconds: float) -> float:
    """A poll that takes long (a far database, hundreds of tenants) is made more seldom: a fifth of the time at most."""
    return max(pause_seconds, min(4 * spent_seconds, _LONGEST_PAUSE_SECONDS))


class _Topic:
    """A key of a feed: who follows it, and the newest of its fragments."""

    def __init__(self) -> None:
        self.subscriptions: set[Subscription] = set()
        self.slots: dict[str, Message] = {}

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.slot:
                if self.slots.get(message.slot) == message:
                    continue
                self.slots[message.slot] = message
            for subscription in list(self.subscriptions):
                subscription.put(message)


class Hub:
    """Polls, and sends. All of it runs in one event loop but the feeds' own work."""

    def __init__(self, feeds: Mapping[str, Feed], pause_seconds: float = DEFAULT_PAUSE_SECONDS) -> None:
        self.feeds = feeds
        self.polls = 0
        self._pause_seconds = pause_seconds
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._followed = asyncio.Event()
        self._trouble: str | None = None
        self._closed = False

    async def run(self) -> None:
        """Polls as long as somebody follows something; waits otherwise (1)."""
        while not self._closed:
            await self._followed.wait()
            if self._topics:
                start = time.monotonic()
                await self._poll()
                await asyncio.sleep(pause_after(time.monotonic() - start, self._pause_seconds))
            else:
                self._followed.clear()

    def close(self) -> None:
        """Ends every stream: the process stops."""
        self._closed = True
        self._followed.set()
        self._tell_all(None)

    @property
    def followers(self) -> int:
        return sum(len(topic.subscriptions) for topic in self._topics.values())

    async def follow(self, feed: str, key: str, after: int | None) -> AsyncIterator[bytes]:
        """The events of a key as they come, encoded."""
        subscription = Subscription(after)
        topic = self._topics.setdefault((feed, key), _Topic())
        topic.subscriptions.add(subscription)  # before what was missed is read: nothing falls between
        self._followed.set()
        try:
            yield b"retry: 1000\n\n"
            for message in list(topic.slots.values()):
                yield message.encoded()
            if self._trouble is not None:
                yield Message("trouble", self._trouble).encoded()
            async for encoded in self._lines(feed, key, subscription):
                yield encoded
        finally:
            topic.subscriptions.discard(subscription)
            if not topic.subscriptions:
                self._topics.pop((feed, key), None)

    async def _lines(self, feed: str, key: str, subscription: Subscription) -> AsyncIterator[bytes]:
        if subscription.after is not None:
            async for encoded in self._missed(feed, key, subscription, subscription.after):
                yield encoded
        while not self._closed:
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    message_or_end = await subscription.queue.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if message_or_end is None:
                return
            async for encoded in self._in_order(feed, key, subscription, message_or_end):
                yield encoded

    async def _in_order(
        self, feed: str, key: str, subscription: Subscription, message: Message
    ) -> AsyncIterator[bytes]:
        """The message, with those before it that this subscriber has not seen; nothing if it has seen it (3)."""
        if message.number is None:
            yield message.encoded()
            return
        last = subscription.after
        if last is not None and message.number <= last:
            return
        if last is not None and message.number > last + 1:
            async for encoded in self._missed(feed, key, subscription, last):
                yield encoded
            return
        subscription.after = message.number
        yield message.encoded()

    async def _missed(self, feed: str, key: str, subscription: Subscription, after: int) -> AsyncIterator[bytes]:
        """The lines after that one, as soon as the database answers: a gap is worse than a wait, which is told of."""
        is_told = False
        while not self._closed:
            try:
                found = await asyncio.to_thread(self.feeds[feed].missed, key, after)
            except (PenstockError, OSError) as error:
                if not is_told:
                    yield Message("trouble", str(error)).encoded()
                is_told = True
                await asyncio.sleep(self._pause_seconds)
                continue
            if is_told:
                yield Message("fine", _ANSWERS_AGAIN).encoded()
            for message in found:
                subscription.after = message.number
                yield message.encoded()
            return

    # ── polling ──────────────────────────────────────────────────────────────────────────────────

    async def _poll(self) -> None:
        followed: dict[str, list[str]] = {}
        for feed, key in self._topics:
            followed.setdefault(feed, []).append(key)
        self.polls += 1
        for feed, keys in followed.items():
            try:
                found = await asyncio.to_thread(self.feeds[feed].poll, keys)
            except (PenstockError, OSError) as error:
                self._troubled(str(error))
                return
            except Exception:  # one poller serves all: it must go on whatever a feed does
                _LOG.exception("The feed %s has failed", feed)
                continue
            for key, messages in found.items():
                topic = self._topics.get((feed, key))
                if topic is not None:
                    topic.send(messages)
        if self._trouble is not None:
            self._trouble = None
            self._tell_all(Message("fine", _ANSWERS_AGAIN))

    def _troubled(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            self._tell_all(Message("trouble", why))

    def _tell_all(self, message: Message | None) -> None:
        for topic in self._topics.values():
            for subscription in list(topic.subscriptions):
                subscription.put(message)


@contextlib.asynccontextmanager
async def running(hub: Hub) -> AsyncIterator[None]:
    """The poller for the length of a block."""
    task = asyncio.create_task(hub.run(), name="penstock-dashboard-poller")
    try:
        yield
    finally:
        hub.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
