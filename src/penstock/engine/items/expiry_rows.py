"""Expiries: which items of a table with TTL end when, kept in `t{id}_ttl` beside the items.

1. From the moment TTL is enabled, every write keeps the expiries in step; items older than that are added by walking
   the table in key order, a bounded number in each transaction (`cursor` in the record's "ttl" is the place reached).
2. An item expires if its attribute is a top-level number of seconds since 1970 that lies at most five years back.
3. An expiry is a hint, the item is the truth: the sweeper looks at the item again before it deletes it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Final

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.items.index_backfill import FILL_AT_ONCE
from penstock.engine.storage import file_format
from penstock.wire import numbers
from penstock.wire.values import Item, base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.items.write_steps import Change

LONGEST_PAST_SECONDS: Final = 5 * 365 * 24 * 3600
"""A time further back than this is taken for a mistake, as DynamoDB takes it."""

# No clock reaches it, and SQLite's integers do.
_NEVER: Final = 2**60
_LONGEST_TEXT: Final = 18


def expiry(item: Item, attribute: str) -> int | None:
    """When the item ends by its attribute, in whole seconds; None where it never does."""
    text = item.get(attribute, {}).get("N")
    if text is None:
        return None
    if len(text) <= _LONGEST_TEXT and text.isdigit():
        return int(text)
    value = numbers.to_decimal(text)
    return int(value) if 0 <= value < _NEVER else None


def enable(context: OperationContext, table: TableInfo, record: Record, attribute: str) -> TableInfo:
    """Switches TTL on: saves the record and begins to note when the table's items end."""
    maintenance.discard(context, _storage(table))
    file_format.create_expiries(context.db, table.storage)
    record["ttl"] = {"AttributeName": attribute, "cursor": ""}
    table = context.engine.catalog.save(context.db, table, record)
    context.engine.maintenance.wake()
    rows = context.db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table.storage} LIMIT ?)",  # noqa: S608
        (FILL_AT_ONCE + 1,),
    ).fetchone()[0]
    # A small table needs no waiting.
    return table if rows > FILL_AT_ONCE else fill(context, table, FILL_AT_ONCE + 1)


def disable(context: OperationContext, table: TableInfo, record: Record) -> TableInfo:
    """Switches TTL off: saves the record and forgets when items end."""
    record.pop("ttl", None)
    maintenance.discard(context, _storage(table))
    return context.engine.catalog.save(context.db, table, record)


def is_filling(table: TableInfo) -> bool:
    """Whether items older than the TTL are still to be looked at."""
    return "cursor" in table.record.get("ttl", {})


def fill(context: OperationContext, table: TableInfo, most_rows: int) -> TableInfo:
    """Takes the look at older items on by so many rows; saves the place reached."""
    ttl = table.record["ttl"]
    rows = context.db.execute(
        f"SELECT key, item FROM {table.storage} WHERE key > ? ORDER BY key LIMIT ?",  # noqa: S608
        (binary(ttl["cursor"]), most_rows),
    ).fetchall()
    ends = [(expiry(orjson.loads(item), ttl["AttributeName"]), key) for key, item in rows]
    context.db.executemany(
        f"INSERT OR IGNORE INTO {_storage(table)} (at, key) VALUES (?, ?)",  # noqa: S608
        [(at, key) for at, key in ends if at is not None],
    )
    record: Record = deepcopy(dict(table.record))
    if len(rows) == most_rows:
        record["ttl"]["cursor"] = base64_text(rows[-1][0])
    else:
        del record["ttl"]["cursor"]
    return context.engine.catalog.save(context.db, table, record)


def follow(context: OperationContext, change: Change, attribute: str) -> None:
    """Keeps the table's expiries in step with a change."""
    before = None if change.old is None else expiry(change.old, attribute)
    after = None if change.new is None else expiry(change.new, attribute)
    if before != after:
        move(context, _storage(change.table), change.key, before, after)


def move(context: OperationContext, storage: str, key: bytes, before: int | None, after: int | None) -> None:
    """Writes down that an item which ended at one time ends at another."""
    if before is not None:
        context.db.execute(f"DELETE FROM {storage} WHERE at = ? AND key = ?", (before, key))  # noqa: S608
    if after is not None and after >= context.now - LONGEST_PAST_SECONDS:
        context.db.execute(f"INSERT OR IGNORE INTO {storage} (at, key) VALUES (?, ?)", (after, key))  # noqa: S608


def next_end(context: OperationContext, table: TableInfo) -> int | None:
    """The earliest end of an item of the table."""
    found: int | None = context.db.execute(f"SELECT min(at) FROM {_storage(table)}").fetchone()[0]  # noqa: S608
    return found


def expired_rows(context: OperationContext, table: TableInfo, until: float, limit: int) -> list[tuple[int, bytes]]:
    """(end, row key) of items that ended by `until`, earliest first."""
    return context.db.execute(
        f"SELECT at, key FROM {_storage(table)} WHERE at <= ? ORDER BY at, key LIMIT ?",  # noqa: S608
        (until, limit),
    ).fetchall()


def forget(context: OperationContext, table: TableInfo, at: int, key: bytes) -> None:
    """Takes out an expiry that its item does not bear out."""
    context.db.execute(f"DELETE FROM {_storage(table)} WHERE at = ? AND key = ?", (at, key))  # noqa: S608


def _storage(table: TableInfo) -> str:
    return f"{table.storage}_ttl"
