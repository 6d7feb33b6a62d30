"""Leases: who may work on a record, until when, and how the one before is kept from writing.

1. At most one worker holds an unexpired lease on a record: it is granted by a conditional write, on a record that is
   free, whose lease has expired, or whose holder's process has provably ended.
2. Every grant has a token, and tokens of a record only grow. Every write under a lease is conditional on its token, so
   a holder that was frozen and wakes up after another grant is refused, whatever the clocks say.
3. A lease may be taken when it has expired, `allowance_seconds` after its end (clocks that differ by less take nothing
   from each other early), or with proof that its holder's process has ended (processes.py). A frozen process has not
   ended; in doubt, and across machines, the end of the lease decides.
4. A holder counts its own time from before it asked, on a clock that nobody can set: it stops believing in its lease
   no later than the others do.
5. A renewal moves the end; it never changes owner or token.
6. A lease is renewed after a third of its life. A renewal that fails is tried again until its holder gives it up: when
   it is over by the holder's own clock (4), or later where a write, which (2) guards, is what the holder goes by.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

from penstock.errors import DatabaseClosed, PenstockError, TransportClosed, TransportError
from penstock.retry import Outage

DEFAULT_LEASE_SECONDS: Final = 30.0
SHORTEST_LEASE_SECONDS: Final = 0.5
LONGEST_LEASE_SECONDS: Final = 12 * 3600.0

# Of a lease: long ones are given to jobs that report seldom, on machines whose clocks are kept by NTP anyway.
_ALLOWANCE_PART: Final = 0.1
_LARGEST_ALLOWANCE_SECONDS: Final = 2.0
RENEWALS: Final = 3
"""A lease is renewed after this part of its life: two renewals may fail before it ends (6)."""

_LONGEST_PAUSE_SECONDS: Final = 1.0
_SHORTEST_PAUSE_SECONDS: Final = 0.01
_AGAIN_SECONDS: Final = 0.2
_RENEWED_ALONE: Final = 16
"""Of more renewals than this, some are made side by side where the database is worth it."""

_log = logging.getLogger(__name__)


class BadLease(PenstockError, ValueError):
    """A lease that cannot be so long."""


class LeaseLost(PenstockError):
    """Another worker has the record now, or nobody may: what this holder still wanted to write was refused."""

    def __init__(self, record: str, held_by: str | None = None, reason: str = "") -> None:
        if not reason:
            reason = f"{held_by} holds it now" if held_by else "nobody holds it now"
        super().__init__(f"{record}: the lease is lost ({reason}). Stop working on it: nothing more will be stored.")
        self.record = record
        self.held_by = held_by


@dataclass(frozen=True, slots=True)
class Lease:
    """`until` is in the store's time (seconds since the epoch); `token` is the fence."""

    owner: str
    token: int
    until: float
    seconds: float

    @property
    def takeable_at(self) -> float:
        """From when on another worker may take it (3)."""
        return self.until + allowance_seconds(self.seconds)

    def renew(self, now: float) -> Lease:
        """The same with a later end (5). A clock that was set back shortens nothing."""
        return replace(self, until=max(self.until, now + self.seconds))


@dataclass(frozen=True, slots=True)
class AbandonedLease(Lease):
    """A lease whose holder does not renew it, with what is known of that holder. It is never stored."""

    has_ended: bool = False
    """There is proof that the holder's process has ended (3)."""
    excuse: str = ""
    """Why that is no crash, such as "it was told to stop"; empty where it may be one."""

    @property
    def takeable_at(self) -> float:
        return 0.0 if self.has_ended else self.until + allowance_seconds(self.seconds)


def grant(last_token: int, owner: str, now: float, seconds: float) -> Lease:
    """A lease on a record whose last one had `last_token` (2)."""
    return Lease(owner, last_token + 1, now + checked_seconds(seconds), seconds)


def checked_seconds(seconds: float) -> float:
    if not SHORTEST_LEASE_SECONDS <= seconds <= LONGEST_LEASE_SECONDS:  # also False for NaN
        raise BadLease(
            f"lease_seconds is {SHORTEST_LEASE_SECONDS:g} to {LONGEST_LEASE_SECONDS:g}, not {seconds}: "
            "a worker that dies is noticed after that long."
        )
    return seconds


def allowance_seconds(lease_seconds: float) -> float:
    """By how much the clocks of two workers may differ (3)."""
    return min(lease_seconds * _ALLOWANCE_PART, _LARGEST_ALLOWANCE_SECONDS)


def new_owner() -> str:
    """A name for a worker that no other has, and that says where it runs."""
    import socket

    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}"


# ── renewal ──────────────────────────────────────────────────────────────────────────────────────


class Renewable(Protocol):
    """What a LeaseRenewer renews: an attempt that holds a lease."""

    @property
    def id(self) -> str: ...

    @property
    def has_expired(self) -> bool:
        """Whether the holder gives the lease up if it cannot be renewed now (6)."""

    def renewal_due_in(self) -> float:
        """Seconds until it should be renewed. Other writes of the holder may have put that off."""

    def renew(self) -> object:
        """Writes a later end; False if another write of the holder's is under way, which does so too.

        Raises LeaseLost where the lease is another's now.
        """

    def give_up(self, lost: LeaseLost) -> None:
        """Nothing more may be written under it."""


class HeldLease:
    """A lease that this process holds, with the write that renews it; for whoever has no such object of its own."""

    def __init__(self, id: str, seconds: float, write: Callable[[], object]) -> None:
        """It was granted just now. `write` stores a later end, and raises LeaseLost where it is another's."""
        self.id = id
        self.seconds = seconds
        self.lost: LeaseLost | None = None
        self._write = write
        self._renewed_at = time.monotonic()

    @property
    def has_expired(self) -> bool:
        return time.monotonic() - self._renewed_at > self.seconds

    def renewal_due_in(self) -> float:
        if self.lost is not None:
            return float("inf")
        return self._renewed_at + self.seconds / RENEWALS - time.monotonic()

    def renew(self) -> None:
        asked_at = time.monotonic()
        self._write()
        self._renewed_at = asked_at

    def give_up(self, lost: LeaseLost) -> None:
        self.lost = lost

    def check(self, margin_seconds: float = 0.0) -> None:
        """Raises LeaseLost unless it is ours for `margin_seconds` yet. Asked before each write."""
        if self.lost is not None:
            raise self.lost
        if time.monotonic() - self._renewed_at > self.seconds - margin_seconds:
            raise LeaseLost(self.id, None, "it could not be renewed in time")


class LeaseRenewer:
    """One thread that renews all leases of a process's attempts (6).

    `held` gives those that are held now. They need not be registered, so an attempt that ends before its first renewal
    costs nothing here. `beside` is whatever else is due from time to time, such as time limits; it is called in every
    round, and says in how many seconds it wants to be called again.
    """

    def __init__(
        self,
        held: Callable[[], Iterable[Renewable]],
        *,
        beside: Callable[[], float] | None = None,
        name: str = "penstock-leases",
        outage: Outage | None = None,
        together: Callable[[Sequence[Any]], None] | None = None,
        side_by_side: int = 1,
    ) -> None:
        """`outage` is told where the database does not answer; one is made where none is given.

        `together` renews many with few writes, and leaves those alone that need a look; these, and all where there is
        no such function, are renewed one by one, or `side_by_side` at a time where they are many.
        """
        self._held = held
        self._together = together
        self._side_by_side = side_by_side
        self._outage = outage or Outage(_log)
        self._beside = beside
        self._woken = threading.Event()
        self._stopped = False
        # A daemon: a holder that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Renews nothing more, and waits for the renewal that is under way."""
        self._stopped = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def wake(self) -> None:
        """Something is due earlier than was known."""
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped:
            pause = self.round()
            self._woken.wait(pause)
            self._woken.clear()

    def round(self) -> float:
        """Renews what is due; how many seconds until something is due again."""
        try:
            pause = min(_LONGEST_PAUSE_SECONDS, self._beside() if self._beside is not None else _LONGEST_PAUSE_SECONDS)
            due: list[Renewable] = []
            for lease in self._held():
                due_in = lease.renewal_due_in()
                if due_in <= 0:
                    due.append(lease)
                    due_in = _AGAIN_SECONDS
                pause = min(pause, due_in)
            self._renew_all(due)
        except Exception as error:
            _log.warning("The upkeep of leases failed, and is tried again: %s", error)
            pause = _AGAIN_SECONDS
        return max(pause, _SHORTEST_PAUSE_SECONDS)

    def _renew_all(self, due: list[Renewable]) -> None:
        if self._together is not None and len(due) > 1:
            with suppress(Exception):  # what is wrong is said of each below
                self._together(due)
            due = [lease for lease in due if lease.renewal_due_in() <= 0]
        left = deque(due)
        away: list[TransportError] = []

        def renew() -> None:
            # Where the database is away, one of them asks: the others would only wait for the same answer.
            while not away:
                try:
                    lease = left.popleft()
                except IndexError:
                    return
                error = self._renew(lease)
                if error is not None:
                    away.append(error)
                    left.append(lease)

        helpers = [
            threading.Thread(target=renew, name="penstock-renewal", daemon=True)
            for _ in range(min(self._side_by_side - 1, len(due) // _RENEWED_ALONE))
        ]
        for helper in helpers:
            helper.start()
        renew()
        for helper in helpers:
            helper.join()
        for lease in left:
            if lease.has_expired:
                lease.give_up(LeaseLost(lease.id, None, f"it could not be renewed: {away[0]}"))

    def _renew(self, lease: Renewable) -> TransportError | None:
        """Renews one; why not, if no answer came."""
        try:
            if lease.renew() is not False:
                self._outage.end()
        except LeaseLost as lost:
            _log.warning("%s", lost, extra=getattr(lease, "log_fields", None))  # where a holder has some of its own
            lease.give_up(lost)
        except (DatabaseClosed, TransportClosed) as error:
            # Its own process has closed the database: no renewal can succeed, and nobody is to be warned of that.
            _log.debug("%s: given up: %s", lease.id, error)
            lease.give_up(LeaseLost(lease.id, None, "the database was closed"))
        except TransportError as error:
            self._outage.note(error)
            return error
        except Exception as error:
            if isinstance(error, PenstockError) and error.retryable:
                self._outage.note(error)
            else:
                _log.warning("%s: its lease could not be renewed: %s", lease.id, error)
            if lease.has_expired:
                lease.give_up(LeaseLost(lease.id, None, f"it could not be renewed: {error}"))
        return None
