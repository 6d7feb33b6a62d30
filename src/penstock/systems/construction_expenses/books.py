"""The application's 13 tables, each with the reads that its indexes are there for.

`Books(db)` takes the names of its tables from ENVIRONMENT and TABLE_PREFIX (S1.8, S1.14), or from a `Naming`.

1. `add` never overwrites, `change` never makes an item: a missing key is an error, not a ghost row.
2. What an index could not take (an empty or a wrong key) is refused before it is sent, with the attribute's name.
3. An item that has expired is not shown, whether it is deleted yet or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from penstock.client.database import Database
from penstock.client.items.expressions import Condition, F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue, Item
from penstock.client.reads.pages import Items
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.systems.construction_expenses.tables import tables
from penstock.tables.apply.apply import ensure_tables
from penstock.tables.definitions.definition import DEFAULT_REGION, PRODUCTION, Key, Naming, Table

_LATEST_EXPIRY_SECONDS = 10 * 366 * 86_400
"""An expiry further away is one in milliseconds, which DynamoDB would take for the year 50,000."""


class AlreadyThere(PenstockError):
    """What was to be added has a key that is taken; nothing was written."""

    def __init__(self, table: str, key: Mapping[str, Any]) -> None:
        super().__init__(f"{table} has {_key_text(key)} already; nothing was changed. Use `change`, or another id.")
        self.table, self.key = table, dict(key)


class NotThere(PenstockError):
    """What was asked for, or was to be changed, is not in the table."""

    def __init__(self, table: str, key: Mapping[str, Any]) -> None:
        super().__init__(f"{table} has no {_key_text(key)}. Check the id, and the environment whose tables are asked.")
        self.table, self.key = table, dict(key)


class NoWayToFind(PenstockError):
    """Attributes that neither the table's key nor an index begins with."""

    def __init__(self, table: str, given: Iterable[str], ways: Iterable[str]) -> None:
        super().__init__(
            f"{table} cannot be asked by {' and '.join(sorted(given)) or 'nothing'}. It can by {'; '.join(ways)}."
        )


class Collection:
    """A table with its full name. `lifetime_seconds` is how long an item lives where the table has a TTL."""

    lifetime_seconds: ClassVar[int | None] = None

    def __init__(self, db: Database, definition: Table, naming: Naming, clock: Clock) -> None:
        self.definition = definition
        self.clock = clock
        self.name = naming.full_name(definition.name)
        self.table = db.table(self.name, key=tuple(str(one) for one in definition.key.attributes))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, item: Mapping[str, Any]) -> Item:
        """Writes a new item, and gives it back as it was written. Raises AlreadyThere where its key is taken."""
        made = self.prepare_item(item)
        try:
            self.table.put(made, if_=self.absent())
        except ConditionFailed as error:
            raise AlreadyThere(self.name, self.key_of(made)) from error
        return made

    def put(self, item: Mapping[str, Any], *, if_: Condition | None = None) -> Item:
        """Writes the whole item, in place of what is there; with `if_`, only where that holds (ConditionFailed)."""
        made = self.prepare_item(item)
        self.table.put(made, if_=if_)
        return made

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> int:
        """Writes any number of items, in place of those with their keys; how many there are now of them."""
        return self.table.batch_write(self.prepare_item(item) for item in items).done

    def change(
        self,
        *key: str,
        set: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        if_: Condition | None = None,
    ) -> Item:
        """Changes attributes of an item that is there, and gives it back as it is then.

        Raises NotThere where there is none, and ConditionFailed where it does not meet `if_`.
        """
        self._check_keys(set or {})
        whole = self.key(*key)
        there = self.present() if if_ is None else self.present() & if_
        changes = {"updatedAt": utc_text(self.clock.now()), **(set or {})}
        try:
            changed = self.table.update(whole, set=changes, remove=[*remove] or None, if_=there, return_new=True)
        except ConditionFailed as error:
            if error.item is None or self._has_expired(error.item):
                raise NotThere(self.name, whole) from error
            raise
        assert changed is not None  # return_new gives it
        return changed

    def delete(self, *key: str) -> Item | None:
        """Deletes an item, and gives back what it was; None where there was none."""
        return self.table.delete(self.key(*key), return_old=True)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get(self, *key: str, consistent: bool = False) -> Item | None:
        """The item with this key, or None."""
        found = self.table.get(self.key(*key), consistent=consistent)
        return None if found is None or self._has_expired(found) else found

    def required(self, *key: str) -> Item:
        """The item with this key, as it is at this moment. Raises NotThere."""
        found = self.get(*key, consistent=True)
        if found is None:
            raise NotThere(self.name, self.key(*key))
        return found

    def find(
        self,
        index: str | None,
        equals: Mapping[str, str],
        *,
        sort: Condition | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        page_size: int | None = None,
        token: str | None = None,
    ) -> Items:
        """The items with these values of an index's key, or (None) of the table's: an iterator that pages by itself."""
        return self.table.query(
            index=index,
            key=equals,
            sort=sort,
            filter=self._living(),
            newest_first=newest_first,
            limit=limit,
            page_size=page_size,
            token=token,
        )

    def find_by(self, equals: Mapping[str, str], *, limit: int | None = None, token: str | None = None) -> Items:
        """The same, by whichever key begins with these attributes. Raises NoWayToFind."""
        return self.find(self.way(equals), equals, limit=limit, token=token)

    def all(self, *, limit: int | None = None, token: str | None = None) -> Items:
        """Every item: a Scan, page after page."""
        return self.table.scan(filter=self._living(), limit=limit, token=token)

    def way(self, attributes: Iterable[str]) -> str | None:
        """The index whose key begins with exactly these attributes; None is the table's own key."""
        wanted = frozenset(attributes)
        keys: dict[str | None, Key] = {None: self.definition.key}
        keys |= {index.name: index.key for index in self.definition.indexes}
        for index, key in keys.items():
            if wanted in (frozenset(key.names[:1]), frozenset(key.names)):
                return index
        ways = (" and ".join(key.names) + (f" ({index})" if index else "") for index, key in keys.items())
        raise NoWayToFind(self.name, wanted, ways)

    # ── its shape ────────────────────────────────────────────────────────────────────────────────

    def key(self, *values: str) -> dict[str, str]:
        """The values of the key as the map that DynamoDB wants. Raises ValueError where one lacks."""
        names = self.definition.key.names
        if len(values) != len(names):
            raise ValueError(f"the key of {self.name} is {' and '.join(names)}: {len(values)} values were given")
        return dict(zip(names, values, strict=True))

    def key_of(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item[name] for name in self.definition.key.names}

    def absent(self) -> Condition:
        """Holds where there is no such item, or one that has expired and is only not deleted yet."""
        missing = F(self.definition.key.names[0]).missing()
        ttl = self.definition.ttl
        return missing if ttl is None else missing | (F(ttl) <= int(self.clock.now()))

    def present(self) -> Condition:
        """Holds where there is an item that has not expired."""
        there = F(self.definition.key.names[0]).exists()
        living = self._living()
        return there if living is None else there & living

    def prepare_item(self, item: Mapping[str, Any]) -> Item:
        """The item with its times and its expiry. Raises InvalidValue for what an index or the TTL could not take."""
        now = self.clock.now()
        made = {"createdAt": utc_text(now), "updatedAt": utc_text(now), **item}
        ttl = self.definition.ttl
        if ttl is not None:
            if self.lifetime_seconds is not None:
                made.setdefault(ttl, int(now) + self.lifetime_seconds)
            _check_expiry(ttl, made.get(ttl), now)
        self._check_keys(made)
        return made

    def _check_keys(self, item: Mapping[str, Any]) -> None:
        for attribute in self.definition.attributes:
            value = item.get(attribute.name, "left out")
            if not isinstance(value, str):
                raise InvalidValue(f"a key must be a str, and this is {type(value).__name__}", attribute.name)
            if not value:
                raise InvalidValue("a key must not be empty; leave the attribute out of the item", attribute.name)

    def _living(self) -> Condition | None:
        ttl = self.definition.ttl
        return None if ttl is None else F(ttl).missing() | (F(ttl) > int(self.clock.now()))

    def _has_expired(self, item: Item) -> bool:
        ttl = self.definition.ttl
        return ttl is not None and ttl in item and item[ttl] <= self.clock.now()


def _check_expiry(name: str, value: object, now: float) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(f"an expiry is a whole number of epoch seconds, not {type(value).__name__}", name)
    if not now < value < now + _LATEST_EXPIRY_SECONDS:
        when = "in the past" if value <= now else "more than ten years away; is it in milliseconds?"
        raise InvalidValue(f"an expiry is epoch seconds after {int(now)}, and {value} is {when}", name)


def _key_text(key: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} {value!r}" for name, value in key.items())


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
