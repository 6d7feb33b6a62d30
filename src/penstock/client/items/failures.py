"""What a call through the handles may end with, beside DynamoDB's own errors.

Each is an error of DynamoDB's or ours with its facts in Python's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from penstock.client.items.values import Item, decode_item
from penstock.errors import ConditionalCheckFailedException, DynamoDBError, PenstockError, TransactionCanceledException

E = TypeVar("E", bound=DynamoDBError)


def _like(kind: type[E], error: DynamoDBError) -> E:
    """The same error of another class, with the facts and notes that were added to it on its way."""
    made = kind(error.message)
    made.__dict__.update(error.__dict__)
    return made


class ConditionFailed(ConditionalCheckFailedException):
    """The condition of a write did not hold; nothing was written.

    A write that was repeated after its answer was lost may itself have made the condition false: then `maybe_ours` is
    true, and `item` shows whether it did.
    """

    table: str = ""
    key: Item | None = None

    @classmethod
    def of(cls, error: ConditionalCheckFailedException, table: str, key: Item | None) -> ConditionFailed:
        """What the answer of a refused write says."""
        failed = _like(cls, error)
        failed.table, failed.key = table, key
        return failed

    @property
    def code(self) -> str:
        """DynamoDB's name for it."""
        return ConditionalCheckFailedException.__name__

    def __str__(self) -> str:
        key = f" {self.key}" if self.key else ""
        return f"{self.table}{key}: {self.message}"

    @property
    def item(self) -> Item | None:
        """The item as it is in the table, or None if there is none."""
        found = self.fields.get("Item")
        return decode_item(found) if found else None


class VersionConflict(ConditionFailed):
    """Another program wrote the item since it was read: read it again and decide. Nothing was written.

    `expected` is the version that was read, `found` the one that is stored; None if the item is gone.
    """

    expected: int = 0
    found: int | None = None

    @classmethod
    def between(cls, failed: ConditionFailed, expected: int, found: int | None) -> VersionConflict:
        """A failed condition on the version."""
        made = _like(cls, failed)
        made.expected, made.found = expected, found
        return made

    def __str__(self) -> str:
        found = "the item has none" if self.found is None else f"the item has {self.found}"
        return f"{self.table} {self.key}: version {self.expected or 'none'} was expected, and {found}; read it again"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one action of a transaction did not let it happen."""

    index: int
    action: str
    """Which it was, for messages: "Put companies"."""
    code: str
    message: str
    item: Item | None


class TransactionFailed(TransactionCanceledException):
    """No action of the transaction took effect; `reasons` has those that were why."""

    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: TransactionCanceledException, actions: Sequence[str]) -> TransactionFailed:
        """What the answer of a cancelled transaction says."""
        failed = _like(cls, error)
        failed.actions = tuple(actions)
        return failed

    @property
    def code(self) -> str:
        """DynamoDB's name for it."""
        return TransactionCanceledException.__name__

    def __str__(self) -> str:
        reasons = (f"action {each.index} ({each.action}): {each.code}" for each in self.reasons)
        return "; ".join(reasons) or self.message

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """One for each action, in their order."""
        every = enumerate(self.fields.get("CancellationReasons", ()))
        return tuple(self._reason(index, reason) for index, reason in every if reason.get("Code", "None") != "None")

    def _reason(self, index: int, reason: dict[str, Any]) -> Reason:
        item = reason.get("Item")
        action = self.actions[index] if index < len(self.actions) else ""
        return Reason(index, action, reason["Code"], reason.get("Message", ""), decode_item(item) if item else None)


class TransactionConflict(TransactionFailed, VersionConflict):  # type: ignore[misc]  # nobody calls its `of`
    """No action of the transaction took effect: another program wrote an item of it since it was read.

    Whoever catches TransactionFailed or VersionConflict catches it. `conflicts` has one for each such item; `table`,
    `key`, `expected`, `found` and `item` are the first one's.
    """

    conflicts: tuple[VersionConflict, ...] = ()

    @classmethod
    def between_all(cls, failed: TransactionFailed, conflicts: Sequence[VersionConflict]) -> TransactionConflict:
        """A cancelled transaction, and the versions that were others."""
        made = _like(cls, failed)
        made.conflicts = tuple(conflicts)
        first = conflicts[0]
        made.table, made.key, made.expected, made.found = first.table, first.key, first.expected, first.found
        return made

    @property
    def item(self) -> Item | None:
        """The first one's item as it is in the table, or None if there is none."""
        return self.conflicts[0].item if self.conflicts else None

    def __str__(self) -> str:
        return "; ".join(map(str, self.conflicts)) or TransactionFailed.__str__(self)


@dataclass(frozen=True, slots=True)
class Failed:
    """One action of a batch that did not happen, or is not known to have happened."""

    action: Literal["put", "delete", "get"]
    item: Item
    """The item of a put; the key of a delete or a get."""
    error: PenstockError | None
    """Why; None if it was unprocessed until the deadline, or was never sent."""


class BatchIncomplete(PenstockError):
    """A batch of which a part could not be done: `failed` holds each action, `done` counts the others."""

    def __init__(self, failed: Sequence[Failed], done: int) -> None:
        super().__init__(_summary(failed, done))
        self.failed = list(failed)
        self.done = done

    def __reduce__(self) -> tuple[type[BatchIncomplete], tuple[list[Failed], int]]:
        return type(self), (self.failed, self.done)


def _summary(failed: Sequence[Failed], done: int) -> str:
    causes = {f"{type(each.error).__name__}: {each.error}" for each in failed if each.error is not None}
    first = f"; first cause: {min(causes)}" if causes else ""
    return f"{len(failed):,} of {len(failed) + done:,} could not be done; they are in .failed{first}"
