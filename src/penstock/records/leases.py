"""Leases: who may work on a record, until when, and how the one before is kept from writing.

1. At most one worker holds an unexpired lease on a record: it is granted by a conditional write, on a record that is
   free or whose lease has expired.
2. Every grant has a token, and tokens of a record only grow. Every write under a lease is conditional on its token, so
   a holder that was frozen and wakes up after another grant is refused, whatever the clocks say.
3. An expired lease may be taken, `allowance_seconds` after its end: clocks that differ by less take nothing from
   each other early.
4. A holder counts its own time from before it asked, on a clock that nobody can set: it stops believing in its lease
   no later than the others do.
5. A renewal moves the end; it never changes owner or token.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import PenstockError

DEFAULT_LEASE_SECONDS: Final = 30.0
SHORTEST_LEASE_SECONDS: Final = 0.5
LONGEST_LEASE_SECONDS: Final = 12 * 3600.0

# Of a lease: long ones are given to jobs that report seldom, on machines whose clocks are kept by NTP anyway.
_ALLOWANCE_PART: Final = 0.1
_LARGEST_ALLOWANCE_SECONDS: Final = 2.0
RENEWALS: Final = 3
"""A lease is renewed after this part of its life: two renewals may fail before it ends."""


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

    def renewed(self, now: float) -> Lease:
        """The same with a later end (5). A clock that was set back shortens nothing."""
        return replace(self, until=max(self.until, now + self.seconds))


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
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
