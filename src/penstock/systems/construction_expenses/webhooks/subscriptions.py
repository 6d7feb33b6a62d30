"""Which of a company's subscriptions is the one that counts: pure functions over all that events have said of them.

The table has one item for each company. Beside the attributes of the current subscription, the item has the map
`subscriptions`: what is known of each, by its id.

1. Of each subscription the newest event is kept, by the time at which it happened. Of two at one time the one that ends
   it is kept: Classic's times are in whole seconds.
2. The current one is the liveliest; among equals the one that was started last. So the cancel of an old subscription
   never replaces an active one, and when the newer one ends, an older one that still runs is current again.
3. Neither depends on the order in which events arrive: `merged` is commutative, associative and idempotent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

MOST_KEPT: Final = 50
"""Of one company. Those that ended first are forgotten."""
_RANKS: Final = {"active": 4, "trialing": 4, "past_due": 3, "paused": 2, "canceled": 0, "deleted": 0}
_UNKNOWN_RANK: Final = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """The newest that is known of one."""

    status: str
    customer_id: str
    occurred_at: str
    started_at: str

    @property
    def rank(self) -> int:
        """How alive it is."""
        return _RANKS.get(self.status, _UNKNOWN_RANK)


Subscriptions = Mapping[str, Subscription]


def merged(known: Subscriptions, subscription_id: str, event: Subscription) -> dict[str, Subscription]:
    """All subscriptions after an event, whenever it came (1)."""
    there = known.get(subscription_id)
    if there is not None:
        newest = max(there, event, key=lambda one: (one.occurred_at, -one.rank, one.status, one.customer_id))
        event = replace(newest, started_at=min(there.started_at, event.started_at))
    everything = {**known, subscription_id: event}
    while len(everything) > MOST_KEPT:
        del everything[min(everything, key=lambda one: _order(one, everything[one]))]
    return everything


def current_of(known: Subscriptions) -> str:
    """The id of the one that counts (2)."""
    return max(known, key=lambda one: _order(one, known[one]))


def _order(subscription_id: str, one: Subscription) -> tuple[int, str, str, str]:
    return one.rank, one.started_at, one.occurred_at, subscription_id


def subscriptions_in(item: Mapping[str, Any]) -> dict[str, Subscription]:
    """What an item knows; one that has no map yet, or that the application wrote, knows its own attributes."""
    stored = item.get("subscriptions")
    if isinstance(stored, Mapping):
        return {
            name: Subscription(one["status"], one["paddleCustomerId"], one["occurredAt"], one["startedAt"])
            for name, one in stored.items()
        }
    if "subscriptionId" not in item:
        return {}
    occurred_at = str(item.get("occurredAt", ""))
    own = Subscription(str(item.get("status", "")), str(item.get("paddleCustomerId", "")), occurred_at, occurred_at)
    return {str(item["subscriptionId"]): own}


def subscriptions_form(known: Subscriptions) -> dict[str, dict[str, str]]:
    """As they stand in the item."""
    names = {
        "status": "status",
        "customer_id": "paddleCustomerId",
        "occurred_at": "occurredAt",
        "started_at": "startedAt",
    }
    return {one: {names[name]: value for name, value in asdict(known[one]).items()} for one in known}
