"""What tests of applied tables share: a database whose time is moved by waiting, and calls counted or refused."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.engine.settings import Settings
from penstock.errors import DynamoDBError
from penstock.systems.construction_expenses.tables import tables as construction_expenses
from penstock.tables.apply.apply import ApplyReport, apply, silent
from penstock.tables.apply.conversations import Pace
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.plan.survey import Survey, inspect, survey

STAGING = Naming("construction-expenses", "staging")
PLAIN = Naming()
ELSEWHERE = os.environ.get("PENSTOCK_TABLES_URL", "")
"""Another server of this machine, such as DynamoDB Local."""
SERVERS = ["http", "moto", *(["elsewhere"] if ELSEWHERE else [])]

__all__ = ["ELSEWHERE", "PLAIN", "SERVERS", "STAGING", "Place", "construction_expenses"]


class Place:
    """A database in memory whose clock stands still but for the waiting that is done on it."""

    def __init__(self, *, table_seconds: float = 0.0, index_seconds: float = 0.0, naming: Naming = PLAIN) -> None:
        self.clock = ManualClock()
        settings = Settings(table_delay_seconds=table_seconds, index_delay_seconds=index_seconds)
        self.inner = connect(":memory:", clock=self.clock, settings=settings)
        self.watched = Watched(self.inner)
        self.db = Database(self.watched)
        self.naming = naming
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.clock.advance(seconds)
        self.inner.engine.maintenance.run_due()

    def pace(self, **options: Any) -> Pace:
        return Pace(clock=self.clock, sleep=self.sleep, chance=lambda: 1.0, **options)

    def survey(self, *tables: Table) -> Survey:
        return survey(self.db, tables, self.naming)

    def apply(self, *tables: Table, report: Callable[[Any], object] = silent, **options: Any) -> ApplyReport:
        return apply(self.db, self.survey(*tables), pace=self.pace(**options), report=report)

    def live(self, name: str) -> Table:
        found = inspect(self.db, self.naming.full_name(name))
        assert found is not None
        return found.table

    def put(self, table: str, *items: dict[str, Any]) -> None:
        for item in items:
            self.db.execute("PutItem", {"TableName": self.naming.full_name(table), "Item": item})


class Watched:
    """A transport that counts calls, and fails those that it was told to fail."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner.transport
        self.name = inner.name
        self.calls: Counter[str] = Counter()
        self.failing: dict[str, list[DynamoDBError]] = {}
        self._lock = threading.Lock()

    def fail(self, operation: str, *errors: DynamoDBError) -> None:
        """The next calls of an operation end so, one error each."""
        self.failing.setdefault(operation, []).extend(errors)

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.calls[operation] += 1
            errors = self.failing.get(operation)
            error = errors.pop(0) if errors else None
        if error is not None:
            raise error
        return self.inner.execute(operation, request)

    def close(self) -> None:
        self.inner.close()
