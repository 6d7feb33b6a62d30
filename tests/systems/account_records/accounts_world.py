"""What the tests of account records share: models on tables of either layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.database import Database, connect
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.models.record import Record, RecordModel
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.schema_variants import SchemaVariant

LAYOUTS: tuple[SchemaVariant, ...] = ("safe", "compat")


@contextmanager
def new_database(layout: SchemaVariant = "safe", place: str = "embedded") -> Iterator[Database]:
    """Users and Records, in this process or behind our own server."""
    if place == "embedded":
        with connect(":memory:") as db:
            create_tables(db, Config(), layout)
            yield db
    else:
        with Engine() as engine, running_server(engine) as server, connect(server.url) as db:
            create_tables(db, Config(), layout)
            yield db


def model(db: Database) -> RecordModel:
    return RecordModel(db, table="Records")


def record(number: int = 1, account: str = "ACC12345", **further: Any) -> Record:
    time = f"2026-02-17T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return {"AccountId": account, "RunTime": time, "Processed": 0, "DocumentId": f"DOC{number:05d}", **further}


def stored(db: Database) -> list[dict[str, Any]]:
    """What is in the table of records, all attributes of it."""
    return list(db.table("Records").scan())
