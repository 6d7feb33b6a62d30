"""Tables with items for the tests that move data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.database import Database, connect
from penstock.tables.apply.apply import make
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Index, Table

ORDERS = Table(
    "orders",
    key=("customer:S", "number:N"),
    indexes=[Index("by-day", "day:S", "number:N", projection="KEYS_ONLY")],
    ttl="expires",
    stream="NEW_AND_OLD_IMAGES",
    pitr=True,
    tags={"team": "sales"},
)

Wire = dict[str, dict[str, Any]]


def order(number: int, **more: dict[str, Any]) -> Wire:
    """An item with one of everything that a careless copy would bend."""
    return {
        "customer": {"S": f"c{number % 7}"},
        "number": {"N": str(number)},
        "day": {"S": f"2026-11-{number % 28 + 1:02d}"},
        "exact": {"N": "0.1234567890123456789012345678901234567"},
        "raw": {"B": "AAEC/w=="},
        "tags": {"SS": ["a", "ü"]},
        "lines": {"L": [{"M": {"sku": {"S": ""}, "paid": {"BOOL": True}, "note": {"NULL": True}}}]},
        **more,
    }


@contextmanager
def filled(url: str = ":memory:", count: int = 300, table: Table = ORDERS) -> Iterator[Database]:
    """A database with the table and so many orders in it."""
    with connect(url) as db:
        make(db, table, table.name)
        ItemTable.of(db, table.name).write(order(number) for number in range(count))
        yield db


def everything(db: Database, table: str) -> dict[tuple[str, ...], Wire]:
    """All items by their key."""
    items = ItemTable.of(db, table)
    found: dict[tuple[str, ...], Wire] = {}
    start: Wire | None = None
    while True:
        page = items.page(0, 1, start)
        found.update((items.text_of(item), item) for item in page.items)
        start = page.start
        if start is None:
            return found
