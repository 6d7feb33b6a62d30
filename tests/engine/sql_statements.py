"""What SQLite is asked, for tests that count it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine import Engine


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The SQL statements that run inside the block."""
    found: list[str] = []
    db = engine.store.connection()
    db.set_trace_callback(found.append)
    yield found
    db.set_trace_callback(None)
