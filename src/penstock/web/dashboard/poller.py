"""The dashboard's poller: it reads the database for all live pages, and sends them server-sent events.

1. Each second it polls each feed that a page follows once, with all the keys that are followed: the cost does not
   depend on how many pages are open. A feed that nobody follows costs nothing.
2. A page gets each fragment whole once. After that it gets only the lines that have changed (`patch`), and nothing if
   none has. The script changes what differs in the page: other elements stay as they are, under a pressed pointer too.
3. A message with a number (a line of a log) is sent to each subscriber once, in order and without a gap: from the one
   after its Last-Event-ID, whenever and however often it connects.
4. A subscriber that does not read is disconnected, and comes back with its Last-Event-ID.
5. All pages are told when the database stops answering, and when it answers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
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
    """One event. A fragment has a `slot`, the id of the element that it replaces; a line of a log has a number."""

    event: str
    data: str
    slot: str = ""
    number: int | None = None
    html: str = ""
    """Of a fragment: what the data has as JSON."""

    def encode(self) -> bytes:
        head = f"event: {self.event}\n" + ("" if self.number is None else f"id: {self.number}\n")
        text = self.data.replace("\r\n", "\n").replace("\r", "\n")  # either would end a line of the stream
        lines = "".join(f"data: {line}\n" for line in text.split("\n"))
        return f"{head}{lines}\n".encode()


def fragment(slot: str, html: str) -> Message:
    return Message("fragment", orjson.dumps({"slot": slot, "html": html}).decode(), slot, html=html)


def patch(before: Message, after: Message) -> Message:
    """What turns one fragment into the other: `[first line, lines removed, lines put there]`; all of it if shorter."""
    old, new = before.html.split("\n"), after.html.split("\n")
    shorter = min(len(old), len(new))
    start = next((place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), shorter)
    rest = shorter - start
    ends = zip(reversed(old), reversed(new), strict=False)
    end = next((place for place, (one, other) in enumerate(ends) if one != other or place >= rest), rest)
    middle, changed = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(middle), len(changed)) > _MOST_COMPARED_LINES:
        edits = [[start, len(middle), changed]]
    else:
        matcher = difflib.SequenceMatcher(None, middle, changed, autojunk=False)
        edits = [
            [start + first, last - first, changed[low:high]]
            for kind, first, last, low, high in matcher.get_opcodes()
            if kind != "equal"
        ]
    data = orjson.dumps({"slot": after.slot, "edits": edits}).decode()
    return after if len(data) >= len(after.data) else Message("patch", data, after.slot)


_MOST_COMPARED_LINES: Final = 1_000
"""Comparing takes time that grows with the square of the lines that differ."""


class Feed(Protocol):
    """What a live page follows. Both methods run in threads."""

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        """For each key its current fragments, and the lines that are new since the last poll."""

    def lines_after(self, key: str, after: int) -> Sequence[Message]:
        """The lines after that number."""


class PageFeed:
    """One fragment for all pages of a kind."""

    def __init__(self, slot: str, draw: Callable[[], str]) -> None:
        self._slot = slot
        self._draw = draw

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        message = fragment(self._slot, self._draw())
        return {key: [message] for key in keys}

    def lines_after(self, key: str, after: int) -> Sequence[Message]:
        return ()


KEYS_A_POLL: Final = 4


class KeyedFeed:
    """A fragment for each key. Each poll draws a few keys; more of them take turns."""

    def __init__(self, slot: str, draw: Callable[[str], str | None]) -> None:
        """`draw` returns None for a key that there is not."""
        self._slot = slot
        self._draw = draw
        self._turn = 0

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        start = self._turn % max(1, len(keys))
        self._turn += KEYS_A_POLL
        drawn = {key: self._draw(key) for key in [*keys[start:], *keys[:start]][:KEYS_A_POLL]}
        return {key: [fragment(self._slot, html)] for key, html in drawn.items() if html is not None}

    def lines_after(self, key: str, after: int) -> Sequence[Message]:
        return ()


class Subscription:
    """The messages that one page has yet to get."""

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
    """A slow poll (a far database, hundreds of tenants) runs less often: at most a fifth of the time."""
    return max(pause_seconds, min(4 * spent_seconds, _LONGEST_PAUSE_SECONDS))


class _Topic:
    """A key of a feed: its subscribers, and its newest fragments."""

    def __init__(self) -> None:
        self.subscriptions: set[Subscription] = set()
        self.slots: dict[str, Message] = {}

    def send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.slot:
                last = self.slots.get(message.slot)
                if last == message:
                    continue
                self.slots[message.slot] = message
                message = message if last is None else patch(last, message)
            for subscription in list(self.subscriptions):
                subscription.put(message)


class Poller:
    """Polls the feeds and sends their messages. It runs in one event loop; the feeds run in threads."""

    def __init__(self, feeds: Mapping[str, Feed], pause_seconds: float = DEFAULT_PAUSE_SECONDS) -> None:
        self.feeds = feeds
        self.polls = 0
        self._pause_seconds = pause_seconds
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._followed = asyncio.Event()
        self._trouble: str | None = None
        self._closed = False

    async def run(self) -> None:
        """Polls while there are subscribers; waits otherwise (1)."""
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
        self._send_all(None)

    @property
    def followers(self) -> int:
        return sum(len(topic.subscriptions) for topic in self._topics.values())

    async def follow(self, feed: str, key: str, after: int | None) -> AsyncIterator[bytes]:
        """The events of a key as they come, encoded."""
        subscription = Subscription(after)
        topic = self._topics.setdefault((feed, key), _Topic())
        topic.subscriptions.add(subscription)  # before the missed lines are read, so that none is lost in between
        fragments = list(topic.slots.values())  # at the same moment: patches of these are in the queue from now on
        self._followed.set()
        try:
            yield b"retry: 1000\n\n"
            for message in fragments:
                yield message.encode()
            if self._trouble is not None:
                yield Message("trouble", self._trouble).encode()
            async for encoded in self._lines(feed, key, subscription):
                yield encoded
        finally:
            topic.subscriptions.discard(subscription)
            if not topic.subscriptions:
                self._topics.pop((feed, key), None)

    async def _lines(self, feed: str, key: str, subscription: Subscription) -> AsyncIterator[bytes]:
        if subscription.after is not None:
            async for encoded in self._send_missed(feed, key, subscription, subscription.after):
                yield encoded
        while not self._closed:
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    message = await subscription.queue.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if message is None:
                return
            async for encoded in self._in_order(feed, key, subscription, message):
                yield encoded

    async def _in_order(
        self, feed: str, key: str, subscription: Subscription, message: Message
    ) -> AsyncIterator[bytes]:
        """The message, after those before it that this subscriber missed; nothing if it has had it (3)."""
        if message.number is None:
            yield message.encode()
            return
        last = subscription.after
        if last is not None and message.number <= last:
            return
        if last is not None and message.number > last + 1:
            async for encoded in self._send_missed(feed, key, subscription, last):
                yield encoded
            return
        subscription.after = message.number
        yield message.encode()

    async def _send_missed(self, feed: str, key: str, subscription: Subscription, after: int) -> AsyncIterator[bytes]:
        """The lines after that one. Waits until the database answers, and tells the page so: a gap would be worse."""
        is_waiting = False
        while not self._closed:
            try:
                messages = await asyncio.to_thread(self.feeds[feed].lines_after, key, after)
            except (PenstockError, OSError) as error:
                if not is_waiting:
                    yield Message("trouble", str(error)).encode()
                is_waiting = True
                await asyncio.sleep(self._pause_seconds)
                continue
            if is_waiting:
                yield Message("fine", _ANSWERS_AGAIN).encode()
            for message in messages:
                subscription.after = message.number
                yield message.encode()
            return

    # ── polling ──────────────────────────────────────────────────────────────────────────────────

    async def _poll(self) -> None:
        followed: dict[str, list[str]] = {}
        for feed, key in self._topics:
            followed.setdefault(feed, []).append(key)
        self.polls += 1
        for feed, keys in followed.items():
            try:
                polled = await asyncio.to_thread(self.feeds[feed].poll, keys)
            except (PenstockError, OSError) as error:
                self._report_trouble(str(error))
                return
            except Exception:  # one poller serves all pages: a feed must not stop it
                _LOG.exception("The feed %s has failed", feed)
                continue
            for key, messages in polled.items():
                topic = self._topics.get((feed, key))
                if topic is not None:
                    topic.send(messages)
        if self._trouble is not None:
            self._trouble = None
            self._send_all(Message("fine", _ANSWERS_AGAIN))

    def _report_trouble(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            self._send_all(Message("trouble", why))

    def _send_all(self, message: Message | None) -> None:
        for topic in self._topics.values():
            for subscription in list(topic.subscriptions):
                subscription.put(message)


@contextlib.asynccontextmanager
async def running_poller(poller: Poller) -> AsyncIterator[None]:
    """The poller for the length of a block."""
    task = asyncio.create_task(poller.run(), name="penstock-dashboard-poller")
    try:
        yield
    finally:
        poller.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
