"""What Paddle's events mean for the books: a handler for `Intake`.

1. Customers, subscriptions and payments are kept as the newest event says, by the time at which it happened: events
   arrive in any order. Each write is conditional on what was read, so two events at once cannot pass each other.
2. An event of a customer whom nobody knows yet is transient: the one that tells may be on its way.
3. Events of other kinds are recorded, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from penstock.client.items.expressions import Condition, F
from penstock.client.items.values import Item
from penstock.client.tables.transactions import Action
from penstock.clock import utc_text
from penstock.systems.construction_expenses.books import Books, Collection
from penstock.systems.construction_expenses.intake import Transient
from penstock.systems.construction_expenses.webhook import BadWebhook, Webhook, first_text


class CompanyUnknown(Transient):
    """The event names no company, and its customer is not known (yet)."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of Paddle Billing (`data`) or Paddle Classic (flat), with its time."""

    webhook: Webhook
    facts: Mapping[str, Any]
    occurred_at: str

    def text(self, *names: str) -> str:
        """The first of these facts that is there. Raises BadWebhook: an event without it never becomes right."""
        found = first_text(self.facts, names)
        if found is None:
            raise BadWebhook(f"{self.webhook.event_type} has no {' or '.join(names)}")
        return found

    @property
    def own(self) -> Mapping[str, Any]:
        """What the application itself gave Paddle to carry: `custom_data`, or `passthrough` as JSON text."""
        given = self.facts.get("custom_data") or self.facts.get("passthrough") or {}
        if isinstance(given, str):
            try:
                given = orjson.loads(given)
            except orjson.JSONDecodeError:
                raise BadWebhook(f"{self.webhook.event_type}: passthrough is no JSON") from None
        return given if isinstance(given, Mapping) else {}


def handle(webhook: Webhook, books: Books) -> list[Action]:
    """What is to be written for a webhook; nothing for one of a kind that has no meaning here."""
    meaning = _MEANINGS.get(webhook.event_type)
    if meaning is None:
        return []
    facts = webhook.payload.get("data", webhook.payload)
    if not isinstance(facts, Mapping):
        raise BadWebhook(f"{webhook.event_type}: data is no object")
    occurred_at = webhook.occurred_at or utc_text(books.clock.now())
    return meaning(Event(webhook, facts, occurred_at), books)


def _customer(event: Event, books: Books) -> list[Action]:
    customer_id = event.text("id")
    known = books.customers.get(customer_id, consistent=True) or {}
    item = {"paddleCustomerId": customer_id, "email": event.text("email")}
    company_id = event.own.get("companyId") or known.get("companyId")
    if company_id:
        item["companyId"] = str(company_id)
    return _newest(books.customers, item, event)


def _subscription(event: Event, books: Books) -> list[Action]:
    customer_id = event.text("customer_id", "user_id")
    item = {
        "subscriptionId": event.text("subscription_id", "id"),
        "paddleCustomerId": customer_id,
        "status": event.text("status"),
        "companyId": _company(event, customer_id, books),  # last: what never becomes right is told first
    }
    return _newest(books.subscriptions, item, event)


def _payment(event: Event, books: Books) -> list[Action]:
    customer_id = event.text("customer_id", "user_id")
    item: Item = {
        "paymentId": event.text("order_id", "id"),
        "paddleCustomerId": customer_id,
        "createdAt": event.occurred_at,
        "amount": _amount(event),
        "currency": event.text("currency_code", "currency"),
        "companyId": _company(event, customer_id, books),
    }
    actions = _newest(books.payments, item, event)
    payer = event.own.get("userId")
    if payer and actions:  # what was pending is paid
        actions.append(books.pending_payments.table.delete_action(books.pending_payments.key(str(payer))))
    return actions


def _company(event: Event, customer_id: str, books: Books) -> str:
    if event.own.get("companyId"):
        return str(event.own["companyId"])
    known = books.customers.get(customer_id, consistent=True) or {}
    if "companyId" not in known:
        raise CompanyUnknown(f"{event.webhook.event_type}: the company of customer {customer_id} is not known")
    return str(known["companyId"])


def _amount(event: Event) -> Decimal:
    """Billing: in the smallest unit, in details.totals; Classic: sale_gross, in the currency's own."""
    details = event.facts.get("details")
    totals = details.get("totals") if isinstance(details, Mapping) else None
    total = totals.get("total") if isinstance(totals, Mapping) else event.facts.get("sale_gross")
    try:
        amount = Decimal(str(total))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise BadWebhook(f"{event.webhook.event_type}: {total!r} is no amount")
    return amount


def _newest(collection: Collection, item: Item, event: Event) -> list[Action]:
    """The write of an item, unless what is there is of a later event (1)."""
    known = collection.get(*collection.key_of(item).values(), consistent=True)
    if known is not None and known.get("occurredAt", "") > event.occurred_at:
        return []
    since = {"createdAt": known["createdAt"]} if known is not None and "createdAt" in known else {}
    whole = collection.prepare_item({**since, **item, "occurredAt": event.occurred_at})
    return [collection.table.put_action(whole, if_=_as_read(collection, known))]


def _as_read(collection: Collection, known: Item | None) -> Condition:
    if known is None:
        return collection.absent()
    if "occurredAt" not in known:
        return F("occurredAt").missing()
    same: Condition = F("occurredAt") == known["occurredAt"]
    return same


_MEANINGS: dict[str, Callable[[Event, Books], list[Action]]] = {
    **dict.fromkeys(("customer.created", "customer.updated"), _customer),
    **dict.fromkeys(
        (
            "subscription.activated",
            "subscription.canceled",
            "subscription.created",
            "subscription.past_due",
            "subscription.paused",
            "subscription.resumed",
            "subscription.trialing",
            "subscription.updated",
            "subscription_cancelled",
            "subscription_created",
            "subscription_updated",
        ),
        _subscription,
    ),
    **dict.fromkeys(
        ("payment_succeeded", "subscription_payment_succeeded", "transaction.completed", "transaction.paid"), _payment
    ),
}
