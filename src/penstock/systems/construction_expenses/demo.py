"""A small showing of the whole system: 13 tables, companies, webhooks that fail in every way, and a replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.systems.construction_expenses import sample
from penstock.systems.construction_expenses.books import Books, naming_of
from penstock.systems.construction_expenses.intake import Intake
from penstock.systems.construction_expenses.paddle import handle
from penstock.systems.construction_expenses.webhook import webhook_of
from penstock.tables.formats.export import export

_SIZE = sample.Size(companies=5, expenses=40)
_LATE = {
    "event_id": "demo-early-bird",
    "event_type": "subscription.created",
    "occurred_at": "2025-06-16T21:19:33.789Z",
    "data": {"id": "demo-sub", "customer_id": "demo-customer", "status": "active"},
}
"""A subscription whose customer is not known yet."""


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Does it on `db`, writes the tables' schemas under `folder`; the facts of what was done."""
    clock = ManualClock(time.time())  # so that nobody waits for the 31 seconds of retries
    books = Books(db, naming_of({}), clock=clock)
    progress(0.05, "making 13 tables")
    made = books.make_tables()
    written = sample.load(books, _SIZE, lambda part, text: progress(0.2 + 0.5 * part, f"loading {text}"))
    progress(0.75, "webhooks: retried, dead-lettered, replayed")
    receipts = _webhooks(books, Intake(books, handle, wait=clock.advance))
    progress(0.9, "exporting the schemas")
    schemas = folder / "infrastructure" / "schemas"
    report = export(db, [one.definition for one in books.collections.values()], books.naming, schemas)
    progress(1.0, "done")
    return {
        "tables": len(books.collections),
        "tables made": made,
        "companies": written["companies"],
        "expenses": written["company-expenses"],
        "expenses of one contractor": sum(1 for _ in books.expenses.of_contractor(sample.contractor_id(1, 0))),
        "webhooks": written["paddle-webhooks"] + 1,
        **receipts,
        "schemas": str(schemas),
        "schema files": len(report.written),
    }


def _webhooks(books: Books, intake: Intake) -> dict[str, Any]:
    """One webhook that came too early: retried in vain, then replayed when its customer is known; and one twice."""
    webhook = webhook_of(_LATE)
    first = intake.receive(webhook)
    books.customers.put({"paddleCustomerId": "demo-customer", "email": "d@example.org", "companyId": "sample-c0001"})
    replayed = intake.replay(first.dlq_entry_id) if first.dlq_entry_id else first
    again = intake.receive(webhook)
    return {
        "retries of one that came too early": first.retries,
        "then": f"{first.outcome}, replayed: {replayed.outcome}, delivered again: {again.outcome}",
        "dead letters pending": sum(1 for _ in books.dead_letters.by_status("pending")),
    }
