"""Writes so plain that their rows are known at once: no condition, no old item, nothing kept in step.

1. What is not plain is never refused here: it takes the full path (write_steps.py), which tells what is
   wrong.
2. Rows are written in the order of their keys, so that neighbours lie on pages that are written once.
3. `Loading` writes a group of puts and deletes of this process in one transaction, as a whole, or declines it with
   nothing changed. It judges by the table as it is inside the transaction: one that has an index by then, or a stream,
   is declined. No key is twice in a group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from sqlite3 import IntegrityError
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import SHORT_TEXT
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError
from penstock.wire.values import Item, check_item

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

T = TypeVar("T")

Row = tuple[bytes, int, bytes]
"""What an item is in its table: row key, size in DynamoDB's counting, JSON."""

# One statement of many rows costs half as much a row as many of one; and between two statements a thread may have to
# wait for another one that computes. Few different sizes, because each is kept prepared; small ones by powers of two,
# because what several threads leave to one is a few rows, of any number.
_ROWS_AT_ONCE = (4096, 1024, 256, 64, 32, 25, 16, 8, 4, 2, 1)
_ROWS_REPLACED_AT_ONCE = 1024  # such a statement holds copies of the pages that it changes: 8 MB

WHOLE_ROWS = 1024
"""Rows in multiples of this many are few statements."""


def checked_row(table: TableInfo, item: Item, size: int) -> Row | None:
    """The row that putting an item leaves: one that `check_item` has given, with its size, which is not too large."""
    if not _has_plain_key(table, item):
        return None
    return row_keys.row_key(table, item), size, orjson.dumps(item)


def plain_key(table: TableInfo, key: Item) -> bytes | None:
    """The key of the row that deleting this item takes away."""
    try:
        checked, _ = check_item(key)
    except DynamoDBError:
        return None
    return row_keys.row_key(table, checked) if len(key) == len(table.key) and _has_plain_key(table, checked) else None


def _has_plain_key(table: TableInfo, item: Item) -> bool:
    """Whether the key's attributes are there, of their types, neither empty nor long."""
    for part in table.key:
        value = item.get(part.name)
        if value is None or part.kind not in value or not 0 < len(value[part.kind]) <= SHORT_TEXT:
            return False
    return True


def put_rows(context: OperationContext, table: TableInfo, rows: Iterable[Row], *, new: bool = True) -> bool:
    """Puts rows of different keys into a table that is not `watched`; whether all of them were `new`, as was guessed.

    A right guess saves a fifth. A wrong one costs little: it shows at the first row that is there.
    """
    ordered = sorted(rows)
    done = 0
    while done < len(ordered):
        most = len(ordered) - done if new else min(_ROWS_REPLACED_AT_ONCE, len(ordered) - done)
        many = next(size for size in _ROWS_AT_ONCE if size <= most)
        values = tuple(chain.from_iterable(ordered[done : done + many]))
        if new and not _insert_rows(context, table, many, values):
            new = False
            continue
        if not new:
            context.db.execute(_sql_put(table.storage, many), values)
        done += many
    return new


def _insert_rows(context: OperationContext, table: TableInfo, many: int, values: tuple[Any, ...]) -> bool:
    """Whether none of the rows was there. If one was, some may be inserted: they all have to be put."""
    try:
        context.db.execute(_sql_insert(table.storage, many), values)
    except IntegrityError:
        return False
    return True


def get_rows(context: OperationContext, table: TableInfo, keys: Iterable[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """Key and item of those of these rows that are there."""
    for some in _in_parts(sorted(keys)):
        yield from context.db.execute(_sql_get(table.storage, len(some)), some)


def delete_keys(context: OperationContext, storage: str, keys: Iterable[bytes]) -> None:
    """Deletes what there is of these rows of an SQL table."""
    for some in _in_parts(sorted(keys)):
        context.db.execute(_sql_delete(storage, len(some)), some)


def put_index_rows(context: OperationContext, storage: str, pairs: Iterable[tuple[bytes, bytes]]) -> None:
    """Puts rows into the SQL table of an index."""
    for some in _in_parts(sorted(pairs)):
        context.db.execute(_sql_put_index(storage, len(some)), tuple(chain.from_iterable(some)))


def _in_parts(ordered: Sequence[T]) -> Iterator[Sequence[T]]:
    done = 0
    while done < len(ordered):
        many = next(size for size in _ROWS_AT_ONCE if size <= len(ordered) - done)
        yield ordered[done : done + many]
        done += many


@lru_cache(maxsize=1024)
def _sql_put(storage: str, rows: int) -> str:
    return (
        f"INSERT INTO {storage} (key, size, item) VALUES {_marks(rows)} "  # noqa: S608
        "ON CONFLICT (key) DO UPDATE SET size = excluded.size, item = excluded.item"
    )


@lru_cache(maxsize=1024)
def _sql_insert(storage: str, rows: int) -> str:
    # OR FAIL: a statement that never takes back a part of itself keeps no copies of the pages that it changes.
    return f"INSERT OR FAIL INTO {storage} (key, size, item) VALUES {_marks(rows)}"  # noqa: S608


@lru_cache(maxsize=1024)
def _sql_get(storage: str, rows: int) -> str:
    return f"SELECT key, item FROM {storage} WHERE key IN ({_marks(rows, '?')})"  # noqa: S608


@lru_cache(maxsize=1024)
def _sql_delete(storage: str, rows: int) -> str:
    return f"DELETE FROM {storage} WHERE key IN ({_marks(rows, '?')})"  # noqa: S608


@lru_cache(maxsize=1024)
def _sql_put_index(storage: str, rows: int) -> str:
    return f"INSERT OR IGNORE INTO {storage} (key, item_key) VALUES {_marks(rows, '(?, ?)')}"  # noqa: S608


def _marks(rows: int, one: str = "(?, ?, ?)") -> str:
    return ", ".join([one] * rows)


# ── bulk load ─────────────────────────────────────────────────────────────────────────────────────


Group = Mapping[bytes, Row | Item]
"""By row key: the row of a put, the key of a delete."""

_log = logging.getLogger(__name__)


class Loading:
    """Loads one table, which is as it was found."""

    def __init__(self, engine: Engine, table: TableInfo) -> None:
        self._engine = engine
        self._table = table
        self._new = True
        """Whether no key was found to be there already: most loads fill what was empty."""

    @classmethod
    def of(cls, engine: Engine, scope: Scope, name: str) -> Loading | None:
        """None where writes must be looked at one by one: something is kept in step, or throughput is limited."""
        with engine.reading() as context:
            table = _find_table(context, scope, name)
        return None if table is None or table.watched or engine.simulation is not None else cls(engine, table)

    @property
    def key_types(self) -> tuple[tuple[str, str], ...]:
        """The names and types of the table's key."""
        return tuple((part.name, part.kind) for part in self._table.key)

    def row(self, item: Item, size: int) -> Row | None:
        """What putting the item will leave; it is as `check_item` gives it. None: it takes the ordinary way."""
        row = checked_row(self._table, item, size)
        # orjson cuts its answer from a larger piece of memory, whose rest fits nothing: a group of copies takes half.
        return None if row is None else (row[0], size, bytes(memoryview(row[2])))

    def key(self, key: Item) -> bytes | None:
        """The row key of an item to delete, likewise."""
        return plain_key(self._table, key)

    def write(self, group: Group) -> bool:
        """Whether it was written."""
        try:
            with self._engine.writing() as context:
                table = _find_table(context, self._table.scope, self._table.name)
                if table is None or table.watched or (table.id, table.key) != (self._table.id, self._table.key):
                    return False
                puts = (row for row in group.values() if isinstance(row, tuple))
                self._new = put_rows(context, table, puts, new=self._new)
                delete_keys(context, table.storage, (key for key, row in group.items() if not isinstance(row, tuple)))
            self._engine.store.count_rows(context.db)
        except Exception as error:  # a full disk, a file that another process holds: told by the ordinary way
            _log.debug("a group was not written: %r", error)
            return False
        return True


def _find_table(context: OperationContext, scope: Scope, name: str) -> TableInfo | None:
    try:
        return OperationContext(context.engine, context.db, scope, context.now).table(name)
    except DynamoDBError:
        return None
