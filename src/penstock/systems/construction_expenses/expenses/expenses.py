"""A company's expenses: written once, however often they are imported, and added up.

1. An expense's id is made of what it says: company, contractor, invoice, date, amount, currency, project, work and
   description. So a file that is imported again, or after a crash, or that overlaps with another one, adds what is new.
   The second of two equal rows of one file is another expense: its number is part of its id.
2. Nothing that is there is overwritten: what the application added to an expense stays.
3. Totals are exact, and never add two currencies.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.client.items.values import Item
from penstock.systems.construction_expenses.books import AlreadyThere, Books
from penstock.systems.construction_expenses.expenses.expense_file import Expense

_DIGEST_CHARACTERS: Final = 16
_SLUG_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would write; pure, so that it can be shown before."""

    items: tuple[Item, ...]
    contractors: tuple[Item, ...]
    """Those whom the company does not have yet."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    added: int
    duplicates: int
    contractors: int
    changed_invoices: tuple[str, ...]
    """Invoices that were there already, of the same contractor, with other amounts: somebody should look at them."""


def plan_import(company_id: str, expenses: Sequence[Expense], known_contractors: Iterable[Item]) -> ImportPlan:
    """The items of expenses. A contractor is meant by its id or its name, in whatever case."""
    ids = _contractor_ids(known_contractors)
    new: dict[str, Item] = {}
    seen: Counter[str] = Counter()
    items = []
    for expense in expenses:
        contractor_id = ""
        if expense.contractor:
            contractor_id = ids.get(_folded(expense.contractor), "")
            if not contractor_id:
                contractor_id = _new_contractor_id(company_id, expense.contractor)
                ids[_folded(expense.contractor)] = contractor_id
                new[contractor_id] = {
                    "companyId": company_id,
                    "contractorId": contractor_id,
                    "name": expense.contractor,
                }
        identity = _identity(company_id, contractor_id, expense)
        seen[identity] += 1
        items.append(_item(company_id, contractor_id, expense, _expense_id(expense, f"{identity}\n{seen[identity]}")))
    return ImportPlan(tuple(items), tuple(new.values()))


def import_expenses(
    books: Books, plan: ImportPlan, tell: Callable[[float, str], None] = lambda part, text: None
) -> Imported:
    """Adds what is not there. It may be run again, by several at once, and after it was killed (1)."""
    there = {
        item["expenseId"]: item
        for item in books.expenses.table.batch_get(books.expenses.key_of(one) for one in plan.items)
    }
    missing = [item for item in plan.items if item["expenseId"] not in there]
    changed = _changed_invoices(books, missing)
    contractors = sum(_add(books.contractors.add, one) for one in plan.contractors)
    added = 0
    for number, item in enumerate(missing, start=1):
        added += _add(books.expenses.add, item)
        tell(number / len(missing), f"{number:,} of {len(missing):,}")
    return Imported(added, len(plan.items) - added, contractors, changed)


def _add(add: Callable[[Mapping[str, Any]], Item], item: Item) -> bool:
    try:
        add(item)
    except AlreadyThere:
        return False
    return True


def _changed_invoices(books: Books, missing: Sequence[Item]) -> tuple[str, ...]:
    invoices = sorted({(item["contractorId"], item["invoiceNum"]) for item in missing if _has_invoice(item)})
    if not invoices:
        return ()
    company_id = missing[0]["companyId"]
    known = {
        (item["contractorId"], item["invoiceNum"])
        for item in books.expenses.of_company(company_id)
        if _has_invoice(item)
    }
    return tuple(invoice for contractor, invoice in invoices if (contractor, invoice) in known)


def _has_invoice(item: Item) -> bool:
    return "contractorId" in item and "invoiceNum" in item


# ── items ────────────────────────────────────────────────────────────────────────────────────────


def _item(company_id: str, contractor_id: str, expense: Expense, expense_id: str) -> Item:
    whole = {
        "companyId": company_id,
        "expenseId": expense.id or expense_id,
        "contractorId": contractor_id,
        "invoiceNum": expense.invoice,
        "projectId": expense.project,
        "workId": expense.work,
        "description": expense.description,
        "date": expense.date,
        "amount": expense.amount,
        "currency": expense.currency,
    }
    return {name: value for name, value in whole.items() if value != ""}  # an index takes no empty key


def _identity(company_id: str, contractor_id: str, expense: Expense) -> str:
    parts = [company_id, contractor_id, expense.invoice, expense.date, str(expense.amount), expense.currency]
    return orjson.dumps([*parts, expense.project, expense.work, expense.description]).decode()


def _expense_id(expense: Expense, identity: str) -> str:
    """It begins with the date: a company's expenses are in the order of their days then."""
    return f"{expense.date}-{hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _contractor_ids(known: Iterable[Item]) -> dict[str, str]:
    ids: dict[str, str] = {}
    for item in known:
        contractor_id = str(item["contractorId"])
        ids.setdefault(_folded(str(item.get("name", contractor_id))), contractor_id)
        ids[_folded(contractor_id)] = contractor_id
    return ids


def _new_contractor_id(company_id: str, name: str) -> str:
    """It has the company's id in it: the index of expenses by contractor is for all companies together."""
    ascii_name = unicodedata.normalize("NFKD", _folded(name)).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[:_SLUG_CHARACTERS]
    mark = hashlib.sha256(_folded(name).encode()).hexdigest()[:6]
    return f"{company_id}-{slug}-{mark}" if slug else f"{company_id}-{mark}"


# ── totals ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Total:
    """The expenses of one month, contractor and currency; "" where it is of all of them."""

    month: str
    contractor_id: str
    currency: str
    expenses: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Totals:
    rows: tuple[Total, ...]
    """By month, then by contractor."""
    sums: tuple[Total, ...]
    """Of everything, one for each currency."""
    without_amount: int
    """Expenses that could not be added: they have no number as their amount."""


NO_CONTRACTOR: Final = "-"


def add_up(
    items: Iterable[Item], *, since: str = "", until: str = "", by_month: bool = True, by_contractor: bool = True
) -> Totals:
    """The totals of expenses whose month is from `since` to `until`, both included; 2025 is the whole year (3)."""
    counts: Counter[tuple[str, str, str]] = Counter()
    amounts: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    without_amount = 0
    for item in items:
        month = month_of(item)
        if month[: len(since)] < since or (until and month[: len(until)] > until):
            continue
        amount = item.get("amount")
        if isinstance(amount, bool) or not isinstance(amount, int | Decimal):
            without_amount += 1
            continue
        contractor = str(item.get("contractorId", NO_CONTRACTOR))
        key = (month if by_month else "", contractor if by_contractor else "", str(item.get("currency", "")))
        counts[key] += 1
        amounts[key] += amount
    rows = tuple(Total(*key, counts[key], amounts[key]) for key in sorted(counts))
    sums = []
    for currency in sorted({row.currency for row in rows}):
        of_it = [row for row in rows if row.currency == currency]
        total = sum((row.amount for row in of_it), Decimal())
        sums.append(Total("", "", currency, sum(row.expenses for row in of_it), total))
    return Totals(rows, tuple(sums), without_amount)


def day_of(item: Mapping[str, Any]) -> str:
    """The day of an expense; one that has no date of its own is of the day on which it was written."""
    return str(item.get("date") or item.get("createdAt", ""))[:10]


def month_of(item: Mapping[str, Any]) -> str:
    return day_of(item)[:7]
