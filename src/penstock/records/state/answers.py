"""What comes of asking for a record, and of writing what became of it: one class a case."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.items.values import Item, decode_item
from penstock.records.state.record_state import Held, Later, Poison, Settled, Standing
from penstock.wire.values import AttributeValue
from penstock.wire.values import Item as WireItem


@dataclass(slots=True)
class Claim:
    """A record that we hold. `believed_until` is on the monotonic clock, counted from before the claim was sent."""

    key: WireItem
    record: WireItem
    standing: Standing
    wire: AttributeValue
    """The standing as it is in the table."""
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

    standing: Standing


ClaimAnswer = Claim | Gone | NotPending | Held | Later | Poison | Settled
WriteAnswer = Written | Gone | Lost
MarkAnswer = Written | Gone | Lost | Changed
