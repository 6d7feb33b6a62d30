"""What Paddle's events mean for the books: a handler for `Intake`.

1. Customers, subscriptions and payments are kept as the newest event says, by the time at which it happened: events
   arrive in any order, and an event older than what is stored changes nothing. Each write is conditional on what was
   read, so two events at once cannot pass each other.
2. An event sets the attributes that it tells, and no others: what the application wrote into an item stays.
3. A company has several subscriptions in the course of time; which one counts is decided in subscriptions.py.
4. Amounts are whole numbers of the currency's smallest unit, of Billing and of Classic alike (`amount`, `currency`,
   `currencyDecimals`).
5. An event of a customer whom nobody knows yet is transient: the one that tells may be on its way.
6. Events of other kinds are recorded, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.client.items.expressions import F
from penstock.client.items.values import Item
from penstock.client.tables.transactions import Action
from penstock.clock import utc_text
from penstock.systems.construction_expenses.books import Books, Collection
from penstock.systems.construction_expenses.money import (
    BadAmount,
    currency_of,
    decimals_of,
    minor_units,
    whole_units,
)
from penstock.systems.construction_expenses.webhooks.intake import Transient
from penstock.systems.construction_expenses.webhooks.subscriptions import (
    Subscription,
    current_of,
    merged,
    subscriptions_form,
    subscriptions_in,
)
from penstock.systems.construction_expenses.webhooks.webhook import (
    NAME_BYTES,
    BadWebhook,
    Webhook,
    first_text,
    moment_text,
)


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
        """What the application itself gave Paddle to carry; nothing where that is no object.

        Billing has `custom_data`, an object. Classic has `custom_data`, the JSON text of one, and `passthrough`, any
        text: that of an object, of another value, or no JSON at all.
        """
        found: dict[str, Any] = {}
        for name in ("passthrough", "custom_data"):
            value = _json_value(self.facts.get(name))
            found |= value if isinstance(value, Mapping) else {}
        return found

    @property
    def own_text(self) -> str | None:
        """A passthrough that is one text or one number: an id that the application chose."""
        value = _json_value(self.facts.get("passthrough"))
        return first_text({"passthrough": value}, ("passthrough",))

    def own_id(self, *names: str) -> str | None:
        return first_text(self.own, names)


def _json_value(value: Any) -> Any:
    """The value of a JSON text, also of one that was made of a JSON text; any other value as it is."""
    for _ in range(_MOST_ENCODINGS):
        if not isinstance(value, str):
            break
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            break
    return value


_MOST_ENCODINGS = 2
"""A program that serializes an object twice is common, three times is none."""


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
    told = {"email": event.text("email")}
    company_id = event.own_id(*_COMPANY_NAMES)
    if company_id:
        told["companyId"] = company_id
    return _newest(books.customers, customer_id, told, event)


def _subscription(event: Event, books: Books) -> list[Action]:
    customer_id = event.text("customer_id", "user_id")
    subscription_id = event.text("subscription_id", "id")
    status = event.text("status")
    started_at = _time(event, "started_at") or _time(event, "created_at") or event.occurred_at
    company_id = _company(event, customer_id, books)  # last: what never becomes right is told first
    known = books.subscriptions.get(company_id, consistent=True)
    before = subscriptions_in(known or {})
    after = merged(before, subscription_id, Subscription(status, customer_id, event.occurred_at, started_at))
    if after == before:
        return []
    current_id = current_of(after)
    current = after[current_id]
    told = {
        "subscriptionId": current_id,
        "paddleCustomerId": current.customer_id,
        "status": current.status,
        "occurredAt": current.occurred_at,
        "subscriptions": subscriptions_form(after),
    }
    return [_update(books.subscriptions, company_id, told, known, "subscriptions")]


def _payment(event: Event, books: Books) -> list[Action]:
    customer_id = event.text("customer_id", "user_id")
    payment_id = event.text("order_id", "id")
    told: Item = {"paddleCustomerId": customer_id, **_amount(event), "companyId": _company(event, customer_id, books)}
    actions = _newest(books.payments, payment_id, told, event, first=("createdAt",))
    payer = event.own_id(*_USER_NAMES)
    if payer and actions:  # what was pending is paid
        actions.append(books.pending_payments.table.delete_action(books.pending_payments.key(payer)))
    return actions


_COMPANY_NAMES = ("companyId", "company_id")
_USER_NAMES = ("userId", "user_id")


def _company(event: Event, customer_id: str, books: Books) -> str:
    """The company that the event names itself, else its customer's, else that of the subscription."""
    named = event.own_id(*_COMPANY_NAMES)
    if named:
        return named
    text = event.own_text
    if text and len(text.encode()) <= NAME_BYTES and books.companies.get(text, consistent=True) is not None:
        return text
    known = books.customers.get(customer_id, consistent=True) or {}
    company_id = known.get("companyId") or _subscriber(event, customer_id, books)
    if not company_id:
        raise CompanyUnknown(f"{event.webhook.event_type}: the company of customer {customer_id} is not known")
    return str(company_id)


def _subscriber(event: Event, customer_id: str, books: Books) -> str | None:
    """The company that has the event's subscription, else the only one that subscribes as this customer.

    An application often gives `custom_data` to the checkout alone: then the subscription has it, and neither the
    customer nor what the customer pays later has.
    """
    subscription_id = first_text(event.facts, ("subscription_id",))
    if subscription_id:
        for one in books.subscriptions.by_subscription(subscription_id, limit=1):
            return str(one["companyId"])
    found = {str(one["companyId"]) for one in books.subscriptions.by_customer(customer_id, limit=2)}
    return found.pop() if len(found) == 1 else None


def _amount(event: Event) -> Item:
    """Billing: in the smallest unit, in details.totals. Classic: sale_gross, in the currency's own unit (4)."""
    details = event.facts.get("details")
    totals = details.get("totals") if isinstance(details, Mapping) else None
    is_billing = isinstance(totals, Mapping)
    given = totals.get("total") if isinstance(totals, Mapping) else event.facts.get("sale_gross")
    try:
        if given is None:
            raise BadAmount("None is no amount")
        if is_billing:
            whole_units(given)  # what is no amount is told first
        currency = currency_of(event.text("currency_code", "currency"))
        amount = whole_units(given) if is_billing else minor_units(given, currency)
    except BadAmount as error:
        raise BadWebhook(f"{event.webhook.event_type}: {error}") from error
    return {"amount": amount, "currency": currency, "currencyDecimals": decimals_of(currency)}


def _time(event: Event, name: str) -> str | None:
    value = event.facts.get(name)
    return None if value is None else moment_text(name, value)


def _newest(
    collection: Collection, key: str, told: Mapping[str, Any], event: Event, *, first: tuple[str, ...] = ()
) -> list[Action]:
    """The write of what an event tells, unless what is there is of a later event (1).

    The attributes of `first` are times: they are those of the earliest event.
    """
    known = collection.get(key, consistent=True)
    earliest = {
        name: min(event.occurred_at, str(known.get(name, event.occurred_at))) if known else event.occurred_at
        for name in first
    }
    if known is not None and known.get("occurredAt", "") > event.occurred_at:
        if all(known.get(name) == value for name, value in earliest.items()):
            return []
        return [_update(collection, key, earliest, known, "occurredAt", *first)]
    return [
        _update(collection, key, {**told, **earliest, "occurredAt": event.occurred_at}, known, "occurredAt", *first)
    ]


def _update(collection: Collection, key: str, told: Mapping[str, Any], known: Item | None, *read: str) -> Action:
    """Sets what was told, and nothing else (2); refused if one of the attributes of `read` has changed since."""
    whole = collection.key(key)
    changes = collection.prepare_item({**whole, **told})
    for name in whole:
        del changes[name]
    if known is not None and "createdAt" not in told:
        del changes["createdAt"]
    condition = collection.absent()
    if known is not None:
        condition = collection.present()
        for name in read:
            condition = condition & (F(name) == known[name] if name in known else F(name).missing())
    return collection.table.update_action(whole, set=changes, if_=condition)


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
