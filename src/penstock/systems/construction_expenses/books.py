"""The application's 13 tables, each with the reads that its indexes are there for.

`Books(db)` takes the names of its tables from ENVIRONMENT and TABLE_PREFIX (S1.8, S1.14), or from a `Naming`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.values import Item
from penstock.client.reads.pages import Items
from penstock.clock import Clock, SystemClock
from penstock.systems.construction_expenses.collection import Collection
from penstock.systems.construction_expenses.tables import tables
from penstock.tables.apply.apply import ensure_tables
from penstock.tables.definitions.definition import DEFAULT_REGION, PRODUCTION, Naming, Table

DAY_SECONDS = 86_400
PREFIX = "construction-expenses"


class Companies(Collection):
    def by_apple_subscription(self, apple_subscription_id: str, **reading: Any) -> Items:
        return self.find("appleSubscriptionId-index", {"appleSubscriptionId": apple_subscription_id}, **reading)


class OfCompany(Collection):
    """A table whose partition is a company: its projects, its contractors, its works."""

    def of_company(self, company_id: str, **reading: Any) -> Items:
        return self.find(None, {"companyId": company_id}, **reading)


class CompanyUsers(OfCompany):
    def by_user(self, user_id: str, **reading: Any) -> Items:
        """The companies that a user belongs to."""
        return self.find("userId-index", {"userId": user_id}, **reading)

    def by_email(self, email: str, **reading: Any) -> Items:
        return self.find("email-index", {"email": email}, **reading)


class CompanyExpenses(OfCompany):
    def invoice_keys(self, company_id: str, invoice_num: str | None = None, **reading: Any) -> Items:
        """Keys of a company's expenses in the order of their invoices: all that this index has."""
        wanted = {} if invoice_num is None else {"invoiceNum": invoice_num}
        return self.find("invoiceNum-index", {"companyId": company_id, **wanted}, **reading)

    def by_invoice(self, company_id: str, invoice_num: str | None = None) -> Iterator[Item]:
        """The expenses themselves, in the order of their invoices."""
        keys = (self.key_of(found) for found in self.invoice_keys(company_id, invoice_num))
        return self.table.batch_get(keys)

    def of_contractor(self, contractor_id: str, *, invoices_from: str = "", **reading: Any) -> Items:
        """A contractor's expenses in the order of their invoices; `invoices_from` is what the number begins with."""
        sort = F("invoiceNum").begins_with(invoices_from) if invoices_from else None
        return self.find("contractor-invoiceNum-index", {"contractorId": contractor_id}, sort=sort, **reading)


class Invitations(OfCompany):
    def by_email(self, email: str, **reading: Any) -> Items:
        return self.find("email-index", {"email": email}, **reading)


class Subscriptions(Collection):
    def by_subscription(self, subscription_id: str, **reading: Any) -> Items:
        return self.find("SubscriptionIdIndex", {"subscriptionId": subscription_id}, **reading)

    def by_customer(self, paddle_customer_id: str, **reading: Any) -> Items:
        return self.find("PaddleCustomerIndex", {"paddleCustomerId": paddle_customer_id}, **reading)


class Customers(Collection):
    def by_email(self, email: str, **reading: Any) -> Items:
        return self.find("EmailIndex", {"email": email}, **reading)

    def of_company(self, company_id: str, **reading: Any) -> Items:
        return self.find("CompanyIndex", {"companyId": company_id}, **reading)


class Payments(Collection):
    def of_company(self, company_id: str, since: str = "", until: str = "", **reading: Any) -> Items:
        """A company's payments in the order of their times: `2025-06-16T21:19:33.789Z`, or the beginning of one."""
        sort = between("createdAt", since, until)
        return self.find("CompanyPaymentsIndex", {"companyId": company_id}, sort=sort, **reading)


class Webhooks(Collection):
    lifetime_seconds: ClassVar[int | None] = 90 * DAY_SECONDS

    def of_alert(self, alert_name: str, since: str = "", until: str = "", **reading: Any) -> Items:
        """Webhooks of one kind that are done, in the order in which they were."""
        sort = between("processedAt", since, until)
        return self.find("ProcessedAtIndex", {"alertName": alert_name}, sort=sort, **reading)


class DeadLetters(Collection):
    lifetime_seconds: ClassVar[int | None] = 180 * DAY_SECONDS

    def by_status(self, status: str, since: str = "", until: str = "", **reading: Any) -> Items:
        """Entries in the order in which they last failed."""
        return self.find("statusIndex", {"status": status}, sort=between("lastFailedAt", since, until), **reading)


class PendingPayments(Collection):
    lifetime_seconds: ClassVar[int | None] = DAY_SECONDS


def between(attribute: str, since: str, until: str) -> Condition | None:
    """The condition on a sort key that holds a time; a bound that is empty is none."""
    if since and until:
        return F(attribute).between(since, until)
    if since:
        return F(attribute) >= since
    return F(attribute) <= until if until else None


def naming_of(variables: Mapping[str, str], *, prefix: str | None = None, environment: str | None = None) -> Naming:
    """What was said on the command line, else ENVIRONMENT, TABLE_PREFIX and AWS_REGION, else their defaults (S1.14).

    An empty variable is one that is not set.
    """
    return Naming(
        prefix=prefix if prefix is not None else variables.get("TABLE_PREFIX") or PREFIX,
        environment=environment or variables.get("ENVIRONMENT") or PRODUCTION,
        region=variables.get("AWS_REGION") or DEFAULT_REGION,
    )


class Books:
    """Every table of one environment."""

    def __init__(self, db: Database, naming: Naming | None = None, *, clock: Clock | None = None) -> None:
        self.db = db
        self.naming = naming_of(os.environ) if naming is None else naming
        self.clock: Clock = SystemClock() if clock is None else clock
        self._defined = {table.name: table for table in tables()}
        self.companies = Companies(*self._place("companies"))
        self.users = CompanyUsers(*self._place("company-users"))
        self.expenses = CompanyExpenses(*self._place("company-expenses"))
        self.projects = OfCompany(*self._place("company-projects"))
        self.contractors = OfCompany(*self._place("company-contractors"))
        self.works = OfCompany(*self._place("company-works"))
        self.invitations = Invitations(*self._place("invitations"))
        self.subscriptions = Subscriptions(*self._place("paddle-subscriptions"))
        self.customers = Customers(*self._place("paddle-customers"))
        self.payments = Payments(*self._place("paddle-payments"))
        self.webhooks = Webhooks(*self._place("paddle-webhooks"))
        self.dead_letters = DeadLetters(*self._place("paddle-webhook-dlq"))
        self.pending_payments = PendingPayments(*self._place("pending-payments"))

    def _place(self, suffix: str) -> tuple[Database, Table, Naming, Clock]:
        return self.db, self._defined[suffix], self.naming, self.clock

    @property
    def collections(self) -> dict[str, Collection]:
        """All 13 by their suffixes, in the order in which the application's documents list them."""
        found = {one.definition.name: one for one in vars(self).values() if isinstance(one, Collection)}
        return {suffix: found[suffix] for suffix in self._defined}

    def make_tables(self) -> int:
        """Makes the tables that are missing, and waits for them; how many were made. What is there is not changed."""
        missing = set(self._defined) - {self.naming.suffix(name) for name in self.db.tables()}
        wanted = [table for suffix, table in self._defined.items() if suffix in missing]
        return ensure_tables(self.db, wanted, self.naming).counts["created"]

    def summary(self, company_id: str) -> dict[str, int]:
        """How many items of each kind a company has."""
        counted = {
            "users": self.users.of_company(company_id),
            "expenses": self.expenses.of_company(company_id),
            "projects": self.projects.of_company(company_id),
            "contractors": self.contractors.of_company(company_id),
            "works": self.works.of_company(company_id),
            "invitations": self.invitations.of_company(company_id),
            "customers": self.customers.of_company(company_id),
            "payments": self.payments.of_company(company_id),
        }
        return {kind: sum(1 for _ in items) for kind, items in counted.items()}
