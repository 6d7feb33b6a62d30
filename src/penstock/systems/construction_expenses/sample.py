"""Sample companies for all 13 tables: the same for the same seed, and never in the way of real ones (`sample-…`).

Paddle's tables are filled by its webhooks, through the intake; one of them is wrong, and ends in the dead-letter table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from penstock.client.items.values import Item
from penstock.clock import utc_text
from penstock.systems.construction_expenses.books import DAY_SECONDS, Books
from penstock.systems.construction_expenses.webhooks.intake import Intake
from penstock.systems.construction_expenses.webhooks.paddle import handle
from penstock.systems.construction_expenses.webhooks.webhook import Webhook, webhook_of

_FIRST_DAY = 1_735_689_600  # 2025-01-01
_TRADES = ("Brickwork", "Drainage", "Electrics", "Groundworks", "Joinery", "Plastering", "Roofing", "Scaffolding")
_PLACES = ("Bridge Street", "Canal Wharf", "Mill Lane", "Station Road", "The Old Dairy")
_NAMES = ("Ada", "Bela", "Chidi", "Dora", "Emre", "Fern", "Goran", "Hana")

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How many of each: users, projects, contractors and works are a few for every company."""

    companies: int = 3
    expenses: int = 25
    """For each company."""
    seed: int = 1


def company_id(number: int) -> str:
    return f"sample-c{number:04d}"


def items(size: Size) -> dict[str, Iterator[Item]]:
    """The items of the tables that no webhook fills, by suffix."""
    numbers = range(1, size.companies + 1)
    return {
        "companies": (_company(number) for number in numbers),
        "company-users": (_user(number, n) for number in numbers for n in range(3)),
        "company-projects": (_project(number, n) for number in numbers for n in range(2)),
        "company-contractors": (_contractor(number, n) for number in numbers for n in range(3)),
        "company-works": (_work(number, n) for number in numbers for n in range(4)),
        "invitations": (_invitation(number) for number in numbers),
        "company-expenses": (expense for number in numbers for expense in _expenses(number, size)),
        "pending-payments": (_pending(number) for number in numbers),
    }


def webhooks(size: Size) -> Iterator[Webhook]:
    """Three of Paddle's events for each company, and one that lacks what it is about."""
    for number in range(1, size.companies + 1):
        yield from _events(number)
    yield _event("evt-wrong", "subscription.created", 99, {"status": "active", "customer_id": "sample-ctm-none"})


def load(books: Books, size: Size, progress: Progress) -> dict[str, int]:
    """Writes all of it; how many items of each table were written. Running it again changes nothing but times."""
    written: dict[str, int] = {}
    found = items(size)
    for number, (suffix, rows) in enumerate(found.items()):
        progress(number / (len(found) + 1), suffix)
        written[suffix] = books.collections[suffix].put_many(rows)
    progress(len(found) / (len(found) + 1), "webhooks")
    intake = Intake(books, handle, wait=None)
    receipts = [intake.receive(webhook) for webhook in webhooks(size)]
    written["paddle-webhooks"] = len(receipts)
    written["paddle-webhook-dlq"] = sum(receipt.outcome == "dead-lettered" for receipt in receipts)
    progress(1.0, "done")
    return written


def _moment(day: int) -> str:
    return utc_text(_FIRST_DAY + day * DAY_SECONDS)


def _company(number: int) -> Item:
    return {
        "companyId": company_id(number),
        "name": f"{_NAMES[number % len(_NAMES)]}'s {_TRADES[number % len(_TRADES)]}",
        "appleSubscriptionId": f"sample-apple-{number:04d}",
        "createdAt": _moment(number),
    }


def _user(number: int, n: int) -> Item:
    name = _NAMES[(number + n) % len(_NAMES)]
    return {
        "companyId": company_id(number),
        "userId": f"sample-u{number:04d}-{n}",
        "email": f"{name.lower()}.{number}@example.org",
        "name": name,
        "role": "owner" if n == 0 else "member",
    }


def _project(number: int, n: int) -> Item:
    place = _PLACES[(number + n) % len(_PLACES)]
    return {"companyId": company_id(number), "projectId": f"p{n}", "name": f"{10 + number} {place}"}


def _contractor(number: int, n: int) -> Item:
    trade = _TRADES[(number + n) % len(_TRADES)]
    return {"companyId": company_id(number), "contractorId": contractor_id(number, n), "name": f"{trade} Ltd"}


def contractor_id(number: int, n: int) -> str:
    return f"sample-k{number:04d}-{n}"


def _work(number: int, n: int) -> Item:
    return {"companyId": company_id(number), "workId": f"w{n}", "name": _TRADES[(number + n) % len(_TRADES)]}


def _invitation(number: int) -> Item:
    email = f"new.{number}@example.org"
    return {"companyId": company_id(number), "invitationId": "i1", "email": email, "status": "sent"}


def _expenses(number: int, size: Size) -> Iterator[Item]:
    chance = random.Random(f"{size.seed} {number}")
    for n in range(size.expenses):
        yield {
            "companyId": company_id(number),
            "expenseId": f"e{n:05d}",
            "projectId": f"p{chance.randrange(2)}",
            "contractorId": contractor_id(number, chance.randrange(3)),
            "workId": f"w{chance.randrange(4)}",
            "invoiceNum": f"2025-{n:05d}",
            "amount": Decimal(chance.randrange(1_000, 2_000_000)) / 100,
            "currency": "GBP",
            "createdAt": _moment(n % 365),
        }


def _pending(number: int) -> Item:
    return {"userId": f"sample-u{number:04d}-1", "companyId": company_id(number), "plan": "monthly"}


def _events(number: int) -> Iterator[Webhook]:
    customer = f"sample-ctm-{number:04d}"
    own = {"companyId": company_id(number), "userId": f"sample-u{number:04d}-0"}
    yield _event(
        f"evt-{number:04d}-1",
        "customer.created",
        number,
        {"id": customer, "email": f"books.{number}@example.org", "custom_data": own},
    )
    yield _event(
        f"evt-{number:04d}-2",
        "subscription.created",
        number,
        {"id": f"sample-sub-{number:04d}", "customer_id": customer, "status": "active"},
    )
    yield _event(
        f"evt-{number:04d}-3",
        "transaction.completed",
        number + 30,
        {
            "id": f"sample-txn-{number:04d}",
            "customer_id": customer,
            "currency_code": "GBP",
            "details": {"totals": {"total": "4900"}},
            "custom_data": own,
        },
    )


def _event(webhook_id: str, event_type: str, day: int, data: Item) -> Webhook:
    return webhook_of(
        {"event_id": f"sample-{webhook_id}", "event_type": event_type, "occurred_at": _moment(day), "data": data}
    )
