"""The context of one call: what an operation needs to know beside its request."""

from __future__ import annotations

import re
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.settings import Scope
from penstock.engine.storage.database_file import Connection
from penstock.errors import ResourceNotFoundException

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_TABLE_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]+):table/([A-Za-z0-9_.-]+)")


class OperationContext:
    """`db` is a read snapshot or the open write transaction, whichever the operation's kind asked for."""

    __slots__ = ("cursor", "db", "engine", "now", "prepared", "scope")

    def __init__(self, engine: Engine, db: Connection, scope: Scope, now: float, prepared: Any = None) -> None:
        self.engine = engine
        self.db = db
        self.scope = scope
        self.now = now
        self.cursor: Cursor | None = None
        """Kept by GetItem: the reads of a group use one, which saves a tenth of each."""
        self.prepared = prepared
        """What the operation's `prepare` gave; None where it was not asked."""

    def table(self, name: str) -> TableInfo:
        """The table of this name or ARN, ready for data; ResourceNotFoundException otherwise."""
        found = self.engine.catalog.cache[1].get((self.scope, name))
        if found is None or "unsettled" in found.record:
            found = self._look_up(name)
        return found

    def find(self, name: str) -> TableInfo | None:
        """The table of this name or ARN as the file has it now, in whatever state it is, or None."""
        found = self.engine.catalog.load(self.db, *self._scope_and_name(name))
        if found is not None:
            self.engine.maintenance.notice(found.record)
        return found

    def _scope_and_name(self, name: str) -> tuple[Scope, str]:
        return parse_table_arn(name, self.scope) if name.startswith("arn:") else (self.scope, name)

    def _look_up(self, name: str) -> TableInfo:
        found = self.engine.catalog.find(self.db, *self._scope_and_name(name))
        if found is not None:
            self.engine.maintenance.notice(found.record)
        if found is None or not self.is_ready(found):
            raise ResourceNotFoundException("Requested resource not found")
        return found

    def is_ready(self, table: TableInfo) -> bool:
        """Whether items can be read and written: the table is neither CREATING nor DELETING."""
        record = table.record
        return self.now >= record.get("active_at", 0.0) and "deleted_at" not in record


def parse_table_arn(arn: str, scope: Scope) -> tuple[Scope, str]:
    """The scope and name that an ARN means; one of another region or account is not found, as in DynamoDB."""
    match = _TABLE_ARN.fullmatch(arn)
    if match is None:
        raise ResourceNotFoundException("Requested resource not found")
    region, account, name = match.groups()
    return Scope(account, region), name
