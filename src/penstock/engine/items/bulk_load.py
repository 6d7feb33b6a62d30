"""Loading: many plain puts and deletes of this process, written together in one transaction.

1. A group is written as a whole, and is on the file when `write` returns; or it is declined, with nothing changed. What
   is declined takes the ordinary way, which says what is wrong, if anything is.
2. It is judged by the table as it is inside the transaction: one that has an index by then, or a stream, is declined.
3. No key is twice in a group, so that its rows may be written in the order of their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items.bulk_rows import Row, delete_keys, plain_key, put_rows, row_of_checked
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError
from penstock.wire.values import Item

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

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
            table = _found(context, scope, name)
        return None if table is None or table.watched or engine.simulation is not None else cls(engine, table)

    @property
    def key_types(self) -> tuple[tuple[str, str], ...]:
        """The names and types of the table's key."""
        return tuple((part.name, part.kind) for part in self._table.key)

    def row(self, item: Item, size: int) -> Row | None:
        """What putting the item will leave; it is as `check_item` gives it. None: it takes the ordinary way."""
        row = row_of_checked(self._table, item, size)
        # orjson cuts its answer from a larger piece of memory, whose rest fits nothing: a group of copies takes half.
        return None if row is None else (row[0], size, bytes(memoryview(row[2])))

    def key(self, key: Item) -> bytes | None:
        """The row key of an item to delete, likewise."""
        return plain_key(self._table, key)

    def write(self, group: Group) -> bool:
        """Whether it was written."""
        try:
            with self._engine.writing() as context:
                table = _found(context, self._table.scope, self._table.name)
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


def _found(context: OperationContext, scope: Scope, name: str) -> TableInfo | None:
    try:
        return OperationContext(context.engine, context.db, scope, context.now).table(name)
    except DynamoDBError:
        return None
