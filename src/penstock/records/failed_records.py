"""Records that have failed for good: listed by what went wrong, and made pending again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.client.items.values import Item, decode_item
from penstock.client.reads.pages import read_pages
from penstock.records.record_state import PARKED, RecordState
from penstock.records.store import RecordStore
from penstock.wire.values import AttributeValue
from penstock.wire.values import Item as WireItem

MOST_GROUPS: Final = 1_000
MOST_EXAMPLES: Final = 5
OTHERS: Final = "(further messages)"


@dataclass(slots=True)
class FailureGroup:
    """Failed records with the same kind of error and the same message, but for numbers and ids in it."""

    kind: str
    message: str
    count: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    examples: list[tuple[Item, str]] = field(default_factory=list)
    """Some of the records' keys, each with its own message."""

    def form(self) -> dict[str, Any]:
        """For JSON."""
        examples = [{"key": {name: str(value) for name, value in key.items()}, "message": text}
                    for key, text in self.examples]  # fmt: skip
        times = {"first_at": self.first_at, "last_at": self.last_at}
        return {"kind": self.kind, "message": self.message, "count": self.count, **times, "examples": examples}


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that has failed for good."""

    key: WireItem
    seen: AttributeValue
    state: RecordState

    def is_one_of(self, kind: str | None, message: str | None) -> bool:
        return kind in (None, self.state.kind) and message in (None, normalise_message(self.state.message))


class Failures:
    """The failed records of a table."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def groups(self) -> list[FailureGroup]:
        """By kind and message, the largest first; of more than 1,000 groups the rest are put together by kind."""
        groups: dict[tuple[str, str], FailureGroup] = {}
        for failed in self:
            state = failed.state
            name = (state.kind, normalise_message(state.message))
            if name not in groups and len(groups) >= MOST_GROUPS:
                name = (state.kind, OTHERS)
            _add(groups.setdefault(name, FailureGroup(*name)), failed)
        return sorted(groups.values(), key=lambda group: (-group.count, group.kind, group.message))

    def redrive(self, *, kind: str | None = None, message: str | None = None, limit: int | None = None) -> int:
        """Makes those records pending that have failed by now; one that changes meanwhile is left alone."""
        if limit is not None and limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        count = 0
        for failed in self:
            if failed.is_one_of(kind, message):
                count += self._store.replace_state(failed.key, failed.seen, failed.state.redrive())
                if count == limit:
                    break
        return count

    def __iter__(self) -> Iterator[FailedRecord]:
        """A page at a time."""
        source = self._store.source
        name = source.work.bookkeeping
        request: dict[str, Any] = {
            "TableName": source.work.table,
            "ProjectionExpression": ", ".join(["#b", *(f"#k{number}" for number in range(len(source.key.names)))]),
            "FilterExpression": "begins_with(#b, :parked)",
            "ExpressionAttributeNames": {
                "#b": name,
                **{f"#k{number}": one for number, one in enumerate(source.key.names)},
            },
            "ExpressionAttributeValues": {":parked": {"S": PARKED}},
            "ConsistentRead": True,
        }
        for answer in read_pages(source.db.execute, "Scan", request):
            for item in answer["Items"]:
                yield FailedRecord(source.key.key_of(item), item[name], RecordState.of(item[name]))


def _add(group: FailureGroup, failed: FailedRecord) -> None:
    state = failed.state
    group.count += 1
    group.first_at = min(group.first_at or state.parked, state.parked)
    group.last_at = max(group.last_at, state.parked)
    if len(group.examples) < MOST_EXAMPLES:
        group.examples.append((decode_item(failed.key), state.message))


_VARIABLE = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b|'[^']*'|\"[^\"]*\"|\d+", re.IGNORECASE
)


def normalise_message(message: str) -> str:
    """A message without what differs from record to record: numbers, ids and what stands in quotes become `…`."""
    return _VARIABLE.sub("…", message.partition("\n")[0])[:200]
