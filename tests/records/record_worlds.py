"""Tables with records to process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.client.database import Database
from penstock.client.tables.table import Table as Handle
from penstock.records.processor import RecordProcessor
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Index, Table

NAME = "Records"
DEFINITION = Table(NAME, ("AccountId:S", "RunTime:S"), indexes=(Index("Processed", "Processed:N"),))


def key(number: int) -> dict[str, Any]:
    return {"AccountId": f"a{number % 7}", "RunTime": f"{number:05}"}


def filled(db: Database, count: int, **attributes: Any) -> Handle:
    """The table of account records with `count` unprocessed ones, each with its `Number`."""
    make(db, DEFINITION, NAME)
    table = db.table(NAME)
    table.batch_write({**key(number), "Processed": 0, "Number": number, **attributes} for number in range(count))
    return table


def processor(table: Handle, **options: Any) -> RecordProcessor:
    """By the index, with waits that tests do not notice."""
    options = {"index": "Processed", "value": 0, "set": {"Processed": 1}, "backoff_base_ms": 1, **options}
    return RecordProcessor(table, **options)


def processed(table: Handle) -> set[int]:
    return {item["Number"] for item in table.scan() if item["Processed"] == 1}


def eventually(happened: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for it; a machine that is busy gets the time that it needs."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.005)


# ── functions that another process can be given ──────────────────────────────────────────────────


def work(record: dict[str, Any]) -> dict[str, Any]:
    return {"Double": record["Number"] * 2}


def returns_a_generator(record: dict[str, Any]) -> Any:
    return (number for number in range(3))


def leaves(record: dict[str, Any]) -> None:
    raise SystemExit(7)


def kills_its_worker(record: dict[str, Any]) -> None:
    """The record with `Deadly` ends the process that runs it."""
    import os
    import signal

    if "Deadly" in record:
        os.kill(os.getpid(), signal.SIGKILL)


def hangs_once(record: dict[str, Any]) -> None:
    """The record with `Flag`, a file that is not there yet, hangs the first time."""
    flag = record.get("Flag")
    if flag and not Path(flag).exists():
        Path(flag).touch()
        time.sleep(3600)
