"""A migration before it runs: a sample of items before and after, and what the run will cost.

1. Nothing is written.
2. Each sampled item that changes is put through `up` a second time: if that changes it again, the migration is not
   idempotent, and is refused unless it names a version attribute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from penstock.client.items.values import decode
from penstock.client.wrappers.metering import DEFAULT_PRICES
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.migrations.migration import Migration
from penstock.tables.migrations.transform import (
    BadResult,
    Changed,
    Failed,
    Transform,
    Unchanged,
    changed_names,
    write_call,
)
from penstock.tables.plan.survey import Live
from penstock.wire.limits import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from penstock.wire.values import AttributeValue, Item, item_size

SAMPLE: Final = 200
"""Items that change, at most."""

EXAMPLES: Final = 3
_MOST_SCANNED: Final = 20_000
_SEGMENTS: Final = 4
_PAGE: Final = 250
_VALUE_CHARACTERS: Final = 60


@dataclass(slots=True)
class Preview:
    """What the sample told."""

    migration: Migration
    table: str
    key_names: tuple[str, ...]
    scanned: int = 0
    changed: int = 0
    deleted: int = 0
    whole_table: bool = False
    examples: list[Changed] = field(default_factory=list)
    failed: list[tuple[Item, Failed]] = field(default_factory=list)
    """Keys and errors of sampled items."""
    unstable: list[Item] = field(default_factory=list)
    """Keys of sampled items that a second time changes again."""
    items: int = 0
    indexes: int = 0
    read_units: float = 0.0
    write_units: float = 0.0

    @property
    def is_refused(self) -> bool:
        """Not idempotent, and without a version attribute (2)."""
        return bool(self.unstable) and self.migration.version is None

    @property
    def expected(self) -> int:
        """Items that the run will change or delete, by the sample."""
        found = self.changed + self.deleted
        return found if self.whole_table or not self.scanned else round(self.items * found / self.scanned)

    @property
    def dollars(self) -> float:
        """On demand, in the region of the prices."""
        return float(DEFAULT_PRICES.cost(self.read_units, self.write_units))

    def form(self) -> dict[str, Any]:
        return {
            "id": self.migration.id,
            "table": self.table,
            "items": self.items,
            "sampled": self.scanned,
            "sample_changed": self.changed,
            "sample_deleted": self.deleted,
            "expected_changes": self.expected,
            "read_units": self.read_units,
            "write_units": self.write_units,
            "dollars": round(self.dollars, 4),
            "idempotent": not self.unstable,
            "unstable": self.unstable[:EXAMPLES],
            "failed": [{"key": key, "kind": one.kind, "message": one.message} for key, one in self.failed[:20]],
            "examples": [{"before": one.before, "after": one.after} for one in self.examples],
        }


def preview(migration: Migration, table: ItemTable, transform: Transform, live: Live, *, sample: int) -> Preview:
    """Reads some items, and puts them through `up` (1)."""
    found = Preview(migration, table.name, table.keys, items=live.facts.items, indexes=len(live.table.indexes))
    written = 0
    places = Places(_SEGMENTS)
    for pages in table.rounds(places, limit=_PAGE):
        for page in pages:
            found.scanned += page.scanned or len(page.items)
            for item in page.items:
                written += _look(item, table, transform, found)
        if found.changed + found.deleted + len(found.failed) >= sample or found.scanned >= _MOST_SCANNED:
            break
    else:
        found.whole_table, found.items = True, found.scanned
    _estimate(found, live, written)
    return found


def _look(item: Item, table: ItemTable, transform: Transform, found: Preview) -> int:
    """One item; the write units that it will need."""
    outcome = transform(item)
    if isinstance(outcome, Unchanged):
        return 0
    key = table.key_of(item)
    if isinstance(outcome, Failed):
        found.failed.append((key, outcome))
        return 0
    try:
        write_call(table.name, table.key, outcome, transform.guard)
    except BadResult as error:
        found.failed.append((key, Failed("BadResult", str(error))))
        return 0
    size = item_size(item)
    if outcome.after is None:
        found.deleted += 1
    else:
        found.changed += 1
        size = max(size, item_size(outcome.after))
        if not transform.is_stable(outcome.after):
            found.unstable.append(key)
    if len(found.examples) < EXAMPLES:
        found.examples.append(outcome)
    return math.ceil(size / WRITE_UNIT_BYTES)


def _estimate(found: Preview, live: Live, written: int) -> None:
    touched = found.changed + found.deleted
    size = live.facts.bytes
    found.read_units = float(math.ceil(size / READ_UNIT_BYTES))
    units = written / touched if touched else 0.0
    found.write_units = float(math.ceil(found.expected * units * (1 + found.indexes)))


# ── before and after, for people ─────────────────────────────────────────────────────────────────


def diff_lines(change: Changed, key_names: tuple[str, ...]) -> list[str]:
    """`~ id=u1`, and below it a line for each attribute: `- name "Ada"`, `+ first "Ada"`."""
    sign = "-" if change.after is None else "~"
    lines = [f"{sign} {key_text({name: change.before[name] for name in key_names})}"]
    if change.after is None:
        return [f"{lines[0]}  deleted"]
    names = changed_names(change.before, change.after)
    width = max(map(len, names), default=0)
    for name in names:
        if name in change.before:
            lines.append(f"    - {name.ljust(width)}  {value_text(change.before[name])}")
        if name in change.after:
            lines.append(f"    + {name.ljust(width)}  {value_text(change.after[name])}")
    return lines


def key_text(key: Item) -> str:
    return " ".join(f"{name}={next(iter(value.values()))}" for name, value in key.items())


def value_text(value: AttributeValue) -> str:
    """A value as JSON, cut where it is long."""
    text = orjson.dumps(_plain(decode(value)), default=str).decode()
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return sorted(value, key=str)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value
