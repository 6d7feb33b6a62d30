"""What the tests of construction expenses share: books on a clock that they move, and webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.server.server import running_server
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.webhooks.webhook import Webhook, webhook_of
from penstock.tables.definitions.definition import Naming

TEST = Naming("app", "test")


@contextmanager
def new_books(place: str = "embedded") -> Iterator[tuple[Books, ManualClock]]:
    """Empty tables in this process, or behind our own server; the engine's clock is the books'."""
    clock = ManualClock()
    if place == "embedded":
        with connect(":memory:", clock=clock) as db:
            yield _made(Books(db, TEST, clock=clock)), clock
    else:
        with Engine(clock=clock) as engine, running_server(engine) as server, connect(server.url) as db:
            yield _made(Books(db, TEST, clock=clock)), clock


def _made(books: Books) -> Books:
    assert books.make_tables() == 13
    return books


def webhook(number: int = 1, event_type: str = "subscription.created", **data: Any) -> Webhook:
    return webhook_of(event(number, event_type, **data))


def event(number: int = 1, event_type: str = "subscription.created", **data: Any) -> dict[str, Any]:
    return {
        "event_id": f"evt_{number:03d}",
        "event_type": event_type,
        "occurred_at": f"2025-06-16T21:19:{number % 60:02d}.000Z",
        "data": {"id": "sub_1", "customer_id": "ctm_1", "status": "active", **data},
    }
