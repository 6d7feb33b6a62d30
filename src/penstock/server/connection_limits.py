"""The connections of one server, and which of them must go when they are too many or hold too much.

1. There are never more than `most` connections. A new one takes the place of the one that has been silent for longest;
   where all others are being answered, it is the new one that is ended.
2. What clients have asked for and not read takes no more than `UNSENT_BYTES` together, and one answer more: past that,
   those are ended first that have read nothing for longest.
3. Bodies that are still arriving take no more than `HELD_BYTES` together: past that, those that have stalled are ended,
   and then whoever sends more is refused.
Looking for those who must go costs nothing until it is needed, and then one look at all of them for many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.server.connection import Connection

CONNECTIONS = 8192
RESERVED_FILES = 48  # for the database (three for each thread that uses it), the event loop, and what is imported late
FEWEST_CONNECTIONS = 8
UNSENT_BYTES = 256 * 1024 * 1024
HELD_BYTES = 256 * 1024 * 1024
LOOKS = 16  # in a second: where all are busy, each newcomer would cost one
STALLED_TICKS = 2  # without a byte of a body, while others need the room


class ConnectionLimits:
    """See the promises above."""

    def __init__(self, most: int = CONNECTIONS) -> None:
        self.most = most
        self._connections: dict[Connection, None] = {}  # in the order in which they came
        self._unsent: dict[Connection, int] = {}  # in the order in which they last read
        self._unsent_bytes = 0
        self._held_bytes = 0
        self._silent: list[tuple[int, Connection]] = []  # the longest silent last
        self._tick = 0
        self._when_empty: Callable[[], None] | None = None
        self._looks_left = LOOKS
        self._stalled_ended_at = -1

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections))

    def add(self, connection: Connection) -> None:
        """Ends another connection where there is no room, or this one (1)."""
        if self._when_empty is not None:
            connection.abort()
        elif len(self._connections) >= self.most:
            (self._longest_silent() or connection).abort()
        self._connections[connection] = None

    def discard(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.note_unsent(connection, 0)
        if self._when_empty is not None and not self._connections:
            self._when_empty()

    def admit_no_more(self, when_empty: Callable[[], None]) -> None:
        """Ends connections that come from now on; calls `when_empty` when the last one has gone."""
        self._when_empty = when_empty

    def sweep(self, tick: int) -> None:
        """Called once a second: each ends itself if it has taken too long."""
        self._tick = tick
        self._looks_left = LOOKS
        for connection in self:
            connection.sweep(tick)

    def _longest_silent(self) -> Connection | None:
        if not self._silent and self._looks_left:
            self._looks_left -= 1
            found = [(since, one) for one in reversed(self._connections) if (since := one.silent_since()) is not None]
            # Of those that fell silent in the same second, the one that came first goes first.
            self._silent = sorted(found, key=lambda pair: -pair[0])
        while self._silent:
            since, connection = self._silent.pop()
            if connection in self._connections and connection.silent_since() == since:
                return connection
        return None

    def note_unsent(self, connection: Connection, count: int) -> None:
        """So much of a connection's answers waits for its client to read (2); 0 is all that fits the usual buffers."""
        before = self._unsent.pop(connection, 0)
        self._unsent_bytes += count - before
        if count:
            self._unsent[connection] = count
        while self._unsent_bytes > UNSENT_BYTES and self._unsent:
            slowest = next(iter(self._unsent))
            self._unsent_bytes -= self._unsent.pop(slowest)
            slowest.abort()

    def hold(self, holder: Connection, count: int) -> bool:
        """So many bytes more, or fewer, of a body that is still arriving: whether there is room for them (3)."""
        self._held_bytes += count
        if count > 0 and self._held_bytes > HELD_BYTES and self._stalled_ended_at != self._tick:
            self._stalled_ended_at = self._tick
            for connection in self:
                if connection is not holder:
                    connection.end_if_stalled(self._tick)
        return self._held_bytes <= HELD_BYTES


def most_connections() -> int:
    """As many as the process may have open files for, with some left for the database."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return CONNECTIONS
    return min(CONNECTIONS, max(FEWEST_CONNECTIONS, files - RESERVED_FILES))


def allow_connections() -> None:
    """Raises the process's limit of open files as far as it may itself: often it is 1,024 of a million."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
