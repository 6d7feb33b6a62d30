"""A change of an item, made of a stream record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

import orjson

from penstock.client.items.expressions import Aliases, Condition, condition_text
from penstock.client.items.values import Item, decode_item
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.expressions.request import condition_of
from penstock.wire import values as wire

Kind = Literal["insert", "modify", "remove"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_KINDS: Final[dict[str, Kind]] = {"INSERT": "insert", "MODIFY": "modify", "REMOVE": "remove"}
_TTL: Final = "dynamodb.amazonaws.com"


class BadFilter(PenstockError, ValueError):
    """A filter of changes that cannot be so."""


def _nothing(change: Change) -> None:
    del change


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one item. `new` and `old` are there as far as the stream's view has them."""

    table: str
    kind: Kind
    keys: Item
    new: Item | None
    """The item after the change; None for a removed one."""
    old: Item | None
    """The item before the change; None for a new one."""
    at: datetime
    """When it was made, about: DynamoDB tells whole seconds."""
    sequence_number: str
    shard: str
    id: str
    """The same each time that the change is delivered."""
    by_ttl: bool = False
    """The item was removed because it had expired."""
    record: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The stream record, in DynamoDB's own JSON."""
    _done: Callable[[Change], None] = field(default=_nothing, repr=False, compare=False)

    @property
    def item(self) -> Item:
        """The newest image that there is of the item: `new`, else `old`, else its keys."""
        return self.new if self.new is not None else self.old if self.old is not None else self.keys

    @property
    def key_text(self) -> str:
        """The item's key as a text that no other item has."""
        return orjson.dumps(self.record["dynamodb"]["Keys"], option=orjson.OPT_SORT_KEYS).decode()

    @property
    def form(self) -> dict[str, Any]:
        """As JSON has it, with the items in DynamoDB's own notation."""
        images = self.record["dynamodb"]
        return {
            "table": self.table,
            "kind": self.kind,
            "at": utc_text(self.at.timestamp()),
            "keys": images["Keys"],
            "new": images.get("NewImage"),
            "old": images.get("OldImage"),
            "sequence_number": self.sequence_number,
            "shard": self.shard,
            "id": self.id,
            "by_ttl": self.by_ttl,
        }

    def done(self) -> None:
        """It is done, with all before it in its shard. Asking for the next change says the same."""
        self._done(self)


def change_of(record: dict[str, Any], table: str, shard: str, done: Callable[[Change], None] = _nothing) -> Change:
    """The change that a stream record tells of."""
    images = record["dynamodb"]
    new, old = images.get("NewImage"), images.get("OldImage")
    return Change(
        table=table,
        kind=_KINDS[record["eventName"]],
        keys=decode_item(images["Keys"]),
        new=None if new is None else decode_item(new),
        old=None if old is None else decode_item(old),
        at=datetime.fromtimestamp(created_at(record), UTC),
        sequence_number=images["SequenceNumber"],
        shard=shard,
        id=record["eventID"],
        by_ttl=(record.get("userIdentity") or {}).get("PrincipalId", record.get("principalId")) == _TTL,
        record=record,
        _done=done,
    )


def change_of_form(form: dict[str, Any]) -> Change:
    """The change that `Change.form` wrote."""
    images: dict[str, Any] = {"Keys": form["keys"], "SequenceNumber": form["sequence_number"]}
    images["ApproximateCreationDateTime"] = datetime.fromisoformat(form["at"]).timestamp()
    for name, member in (("NewImage", "new"), ("OldImage", "old")):
        if form.get(member) is not None:
            images[name] = form[member]
    record: dict[str, Any] = {"eventID": form["id"], "eventName": form["kind"].upper(), "dynamodb": images}
    if form.get("by_ttl"):
        record["userIdentity"] = {"Type": "Service", "PrincipalId": _TTL}
    return change_of(record, form["table"], form["shard"])


def created_at(record: dict[str, Any]) -> float:
    """Seconds since the epoch; a second that DynamoDB has cut its part of."""
    return float(record["dynamodb"].get("ApproximateCreationDateTime", 0.0))


# ── filters ──────────────────────────────────────────────────────────────────────────────────────


RecordFilter = Callable[[dict[str, Any]], bool]
"""Whether a stream record is wanted."""


def record_filter(kinds: Iterable[str] | str | None, where: Condition | None) -> RecordFilter | None:
    """Wants records of these kinds whose newest image meets the condition; None if it would want all.

    Raises BadFilter.
    """
    wanted = _checked_kinds(kinds)
    if where is None:
        return None if wanted is None else lambda record: record["eventName"] in wanted
    if not isinstance(where, Condition):
        raise BadFilter(f"where is a condition, such as F('status') == 'paid', not {where!r:.100}.")
    aliases = Aliases()
    request = aliases.into({"ConditionExpression": condition_text(where, aliases)})
    holds = condition_of(request)
    assert holds is not None

    def is_wanted(record: dict[str, Any]) -> bool:
        return (wanted is None or record["eventName"] in wanted) and holds(_image(record))

    return is_wanted


def _image(record: dict[str, Any]) -> wire.Item:
    images = record["dynamodb"]
    found: wire.Item = images.get("NewImage") or images.get("OldImage") or images["Keys"]
    return found


def _checked_kinds(kinds: Iterable[str] | str | None) -> Collection[str] | None:
    if kinds is None:
        return None
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not given or not set(given) <= set(KINDS):
        raise BadFilter(f"kinds are {', '.join(KINDS)}, one or several; not {kinds!r:.100}.")
    return frozenset(one.upper() for one in given)
