"""What a record says of who works on it: one attribute, a text, has the lease and what became of earlier attempts.

1. A record without the attribute is free. Everything that is decided about a record is decided by a pure function of
   its state and the time, and is written on the condition that the state is still that one.
2. `token` only grows while the attribute is there, and no owner has the same token twice: so owner and token name one
   grant, also after the attribute was removed and made again. It is never below the time, in microseconds.
3. `attempts` counts those that were begun, at the claim; `failures` those that ended in an error; `crashes` those whose
   worker died. What was given back has not been an attempt.
4. A record that has failed for good ("parked" in the table) is claimed by nobody until it is redriven.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final

import orjson

from penstock.client.items.values import Item, decode_item
from penstock.leases import Lease, allowance_seconds, grant
from penstock.wire.values import AttributeValue
from penstock.wire.values import Item as WireItem

BOOKKEEPING: Final = "_penstock"
"""The attribute's name, unless another is chosen."""

LEASED: Final = "leased"
WAITING: Final = "waiting"
PARKED: Final = "parked"
DONE: Final = "done"
_WORDS: Final = frozenset({LEASED, WAITING, PARKED, DONE})

WORKER_DIED: Final = "WorkerDied"
_WORKER_DIED_MESSAGE: Final = "The worker died, or lost touch, while it ran this record"


@dataclass(frozen=True, slots=True)
class Free:
    """It may be claimed."""


@dataclass(frozen=True, slots=True)
class Held:
    """Another worker has it, and may be taken over from `takeable_at` on."""

    state: RecordState
    takeable_at: float


@dataclass(frozen=True, slots=True)
class Later:
    """It failed, and its next attempt is due at `due_at`."""

    due_at: float


@dataclass(frozen=True, slots=True)
class Poison:
    """Its workers died too often: it has failed."""

    state: RecordState


@dataclass(frozen=True, slots=True)
class Settled:
    """It has failed for good, or is done: nothing is to be done now."""

    failed: bool


Verdict = Free | Held | Later | Poison | Settled

FREE: Final = Free()


@dataclass(frozen=True, slots=True)
class RecordState:
    """Zero and empty mean: there is none. Times are seconds since the epoch.

    The names are those that are stored: `failed` is when an attempt last failed, `parked` when the record failed for
    good.
    """

    token: int = 0
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    owner: str = ""
    until: float = 0.0
    lease: float = 0.0
    due: float = 0.0
    kind: str = ""
    message: str = ""
    failed: float = 0.0
    parked: float = 0.0
    done: float = 0.0
    redrives: int = 0

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────

    def verdict(self, now: float, max_crashes: int) -> Verdict:
        """What may be done with the record now."""
        if self.parked or self.done:
            return Settled(bool(self.parked))
        if self.owner:
            if now < self.takeable_at:
                return Held(self, self.takeable_at)
            return Poison(self) if self.crashes + 1 >= max_crashes else FREE
        return Later(self.due) if now < self.due else FREE

    @property
    def takeable_at(self) -> float:
        """From when on another may take a record that is leased."""
        return self.until + allowance_seconds(self.lease)

    def claim(self, owner: str, now: float, seconds: float, last_token: int = 0) -> RecordState:
        """With a lease for `owner`, whose last one had `last_token` (2). A lease that was left is a crash (3)."""
        lease = grant(max(self.token, last_token, int(now * 1e6)), owner, now, seconds)
        until = round(lease.until, 3)
        if self is NONE:  # most records are: a tenth of the time
            return RecordState(lease.token, 1, 0, 0, owner, until, seconds)
        facts: dict[str, Any] = {"token": lease.token, "owner": owner, "until": until, "lease": seconds}
        crashes = self.crashes + (1 if self.owner else 0)
        return replace(self, attempts=self.attempts + 1, crashes=crashes, due=0.0, **facts)

    def renew(self, now: float) -> RecordState:
        return replace(self, until=round(Lease(self.owner, self.token, self.until, self.lease).renew(now).until, 3))

    def give_back(self) -> RecordState:
        """As if it had not been claimed, but for the token."""
        return replace(self._free(), attempts=self.attempts - 1)

    def after_failure(self, kind: str, message: str, now: float, due: float) -> RecordState:
        """To be tried again at `due`."""
        return replace(self._record_failure(kind, message, now), failures=self.failures + 1, due=round(due, 3))

    def after_crash(self, message: str, now: float, due: float) -> RecordState:
        return replace(self._record_failure(WORKER_DIED, message, now), crashes=self.crashes + 1, due=round(due, 3))

    def fail_for_good(self, kind: str, message: str, now: float) -> RecordState:
        """Not to be tried again (4)."""
        return replace(self._record_failure(kind, message, now), failures=self.failures + 1, parked=round(now, 3))

    def fail_as_poison(self, now: float, message: str = _WORKER_DIED_MESSAGE) -> RecordState:
        died = replace(self._record_failure(WORKER_DIED, message, now), parked=round(now, 3))
        return replace(died, crashes=self.crashes + (1 if self.owner else 0))

    def finish(self, now: float) -> RecordState:
        """Done, where the record has no marks of its own to say so."""
        return RecordState(token=self.token, attempts=self.attempts, done=round(now, 3))

    def redrive(self) -> RecordState:
        """Free again, with all its attempts before it."""
        return RecordState(token=self.token, redrives=self.redrives + 1)

    def _free(self) -> RecordState:
        return replace(self, owner="", until=0.0, lease=0.0)

    def _record_failure(self, kind: str, message: str, now: float) -> RecordState:
        return replace(self._free(), kind=kind, message=message, failed=round(now, 3), due=0.0)

    # ── in the table ─────────────────────────────────────────────────────────────────────────────

    @classmethod
    def of(cls, value: AttributeValue | None) -> RecordState:
        """Read from the record. What is no text of ours is an error."""
        if value is None:
            return NONE
        word, _, members = value.get("S", "").partition(" ")
        if word not in _WORDS:
            raise NotOurs(value)
        try:
            return cls(**orjson.loads(members))
        except (TypeError, ValueError):
            raise NotOurs(value) from None

    @property
    def word(self) -> str:
        """What a filter can ask for: the text begins with it."""
        if self.parked:
            return PARKED
        if self.done:
            return DONE
        return LEASED if self.owner else WAITING

    def wire(self) -> AttributeValue:
        """`leased {"token":…,"owner":…}`: what has a value, in JSON."""
        members = {name: value for name, value in zip(_MEMBERS, _values(self), strict=True) if value}
        return {"S": f"{self.word} {orjson.dumps(members).decode()}"}

    def is_of(self, other: RecordState) -> bool:
        """Whether both are under the same grant, however often it was renewed."""
        return bool(self.owner) and (self.owner, self.token) == (other.owner, other.token)


class NotOurs(ValueError):
    """The attribute for the bookkeeping has something else in it."""

    def __init__(self, value: AttributeValue) -> None:
        super().__init__(value)
        self.value = value


NONE: Final = RecordState()
"""Of a record that nobody has worked on."""

_MEMBERS = tuple(one.name for one in fields(RecordState))
_values = attrgetter(*_MEMBERS)


@dataclass(slots=True)
class Claim:
    """A record that we hold. `believed_until` is on the monotonic clock, counted from before the claim was sent."""

    key: WireItem
    record: WireItem
    state: RecordState
    wire: AttributeValue
    """The state as it is in the table."""
    value: AttributeValue | None
    believed_until: float

    @property
    def item(self) -> Item:
        """The record in Python's values."""
        return decode_item(self.record)


@dataclass(frozen=True, slots=True)
class Gone:
    """The record has been deleted."""


@dataclass(frozen=True, slots=True)
class NotPending:
    """Somebody else has done it, or it is no longer what is wanted."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Another holds the record now, or nobody does: what we wanted to write was refused."""

    held_by: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """Somebody has changed the record since it was claimed."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """It is so in the table."""

    state: RecordState


ClaimAnswer = Claim | Gone | NotPending | Held | Later | Poison | Settled
WriteAnswer = Written | Gone | Lost
MarkAnswer = Written | Gone | Lost | Changed
