"""A small showing of the whole system: 13 tables, companies, a CSV file, signed and forged webhooks, and a replay."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from penstock.client.database import Database
from penstock.client.items.values import Item
from penstock.clock import ManualClock
from penstock.systems.construction_expenses import sample
from penstock.systems.construction_expenses.books import Books, naming_of
from penstock.systems.construction_expenses.expenses.expense_file import read_expenses
from penstock.systems.construction_expenses.expenses.expenses import add_up, import_expenses, plan_import
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.receiver import Receiver
from penstock.systems.construction_expenses.webhooks.signatures import PaddleKeys
from penstock.systems.construction_expenses.webhooks.webhook import webhook_of
from penstock.tables.formats.export import export
from penstock.webhooks import BadSignature

_SIZE = sample.Size(companies=5, expenses=40)
_LATE = {
    "event_id": "demo-early-bird",
    "event_type": "subscription.created",
    "occurred_at": "2025-06-16T21:19:33.789Z",
    "data": {"id": "demo-sub", "customer_id": "demo-customer", "status": "active"},
}
"""A subscription whose customer is not known yet."""
_CANCELLED: Item = {
    "event_id": "demo-old-subscription",
    "event_type": "subscription.canceled",
    "occurred_at": "2025-07-01T00:00:00.000Z",
    "data": {
        "id": "demo-old-sub",
        "customer_id": "demo-customer",
        "status": "canceled",
        "custom_data": {"companyId": "sample-c0001"},
    },
}
_FILE = """Rechnungsdatum;Rechnungs-Nr.;Lieferant;Betrag
16.06.2026;RE-1;Müller & Söhne GmbH;1.234,56 €
01.07.2026;RE-2;Bau AG;-99,00 €
"""


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Does it on `db`, writes the tables' schemas under `folder`; the facts of what was done."""
    clock = ManualClock(time.time())  # so that nobody waits for the 31 seconds of retries
    books = Books(db, naming_of({}), clock=clock)
    progress(0.05, "making 13 tables")
    made = books.make_tables()
    written = sample.load(books, _SIZE, lambda part, text: progress(0.2 + 0.5 * part, f"loading {text}"))
    progress(0.75, "webhooks: retried, dead-lettered, replayed")
    receipts = _webhooks(books, Intake(books, handle, wait=clock.advance))
    progress(0.8, "a signed webhook and a forged one; a CSV file, twice")
    receipts |= _signed(books) | _expenses(books)
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


def _signed(books: Books) -> dict[str, Any]:
    """A webhook that Paddle has signed is received and handled by a job; one that somebody has altered is refused."""
    secret = secrets.token_urlsafe(24)
    receiver = Receiver(books, PaddleKeys((secret,)))
    body, at = orjson.dumps(_CANCELLED), int(books.clock.now())
    signed = hmac.new(secret.encode(), f"{at}:".encode() + body, hashlib.sha256).hexdigest()
    header = f"ts={at};h1={signed}"
    receiver.accept(body, "application/json", header)
    receiver.worker(burst=True, concurrency=1).run()
    try:
        receiver.accept(body.replace(b"canceled", b"active"), "application/json", header)
        forged = "taken"
    except BadSignature:
        forged = "refused"
    receiver.app.close()
    current = books.subscriptions.required("sample-c0001")
    return {
        "signed webhook": books.webhooks.required(_CANCELLED["event_id"])["status"],
        "forged webhook": forged,
        "subscription, an old one being cancelled": f"{current['subscriptionId']} {current['status']}",
    }


def _expenses(books: Books) -> dict[str, Any]:
    """A German CSV file that is imported twice."""
    known = list(books.contractors.of_company("sample-c0001"))
    plan = plan_import("sample-c0001", read_expenses(_FILE.encode("cp1252")).expenses, known)
    first, second = import_expenses(books, plan), import_expenses(books, plan)
    total = add_up(books.expenses.of_company("sample-c0001"), since="2026", until="2026").sums[0]
    return {
        "expenses of a CSV file": f"{first.added} added, again: {second.added}",
        "their total": f"{total.amount:,} {total.currency}",
    }
