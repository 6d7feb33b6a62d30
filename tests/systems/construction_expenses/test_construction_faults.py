"""S1.20, S1.21 under faults at any call (throttles, errors, timeouts, lost answers): nothing is done twice or lost."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest
from construction_world import TEST, new_books, webhook

from penstock.client.database import Database
from penstock.client.tables.transactions import Action
from penstock.client.wrappers.faults import Faults, Rates
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.webhook import Webhook

WEBHOOKS = 6


def counted(received: Webhook, books: Books) -> Iterable[Action]:
    """An effect that would show if it happened twice; of some webhooks, only a day later."""
    if received.webhook_id in ("evt_001", "evt_004") and books.clock.now() < ManualClock().now() + 86_400:
        raise ValueError("not today")
    return [books.companies.table.update_action({"companyId": received.webhook_id}, add={"handled": 1})]


def delivered(books: Books, clock: ManualClock, deliveries: int) -> None:
    """Several deliveries of every webhook, each of which may fail at any call."""
    intake = Intake(books, counted, wait=clock.advance)
    for _ in range(deliveries):
        for number in range(WEBHOOKS):
            with suppress(PenstockError):
                intake.receive(webhook(number))
            clock.advance(7)


@pytest.mark.parametrize("seed", range(12))
def test_S1_20_no_fault_does_a_webhook_twice_or_loses_one(seed: int) -> None:
    with new_books() as (books, clock):
        faulty = Faults(books.db.transport, Rates.every_kind(0.3), seed=seed)
        delivered(Books(Database(faulty), TEST, clock=clock), clock, deliveries=3)
        # The faults are over: what is recorded, and what is dead, is finished.
        delivered(books, clock, deliveries=1)
        clock.advance(86_400)
        intake = Intake(books, counted, wait=clock.advance)
        assert all(receipt.outcome == "handled" for receipt in intake.resume())
        assert all(receipt.outcome == "handled" for receipt in intake.replay_all())
        effects = {company["companyId"]: company["handled"] for company in books.companies.all()}
        assert effects == {f"evt_{number:03d}": 1 for number in range(WEBHOOKS)}
        records = list(books.webhooks.all())
        assert {record["status"] for record in records} == {"completed"}
        letters = {letter["webhookId"]: letter["status"] for letter in books.dead_letters.all()}
        assert letters.keys() >= {"evt_001", "evt_004"}
        assert set(letters.values()) == {"replayed"}
