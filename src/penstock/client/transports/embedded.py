"""The engine in this process, as a transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from penstock.client.transports.base import Answer, Capabilities, Changes, Request
from penstock.engine.engine import Engine, Pending
from penstock.engine.settings import DEFAULT_SCOPE, Scope
from penstock.errors import DatabaseClosed, PenstockError

if TYPE_CHECKING:
    from penstock.engine.items.bulk_rows import Loading


class EmbeddedTransport:
    """Answers from `engine`, which it closes with itself."""

    capabilities = Capabilities(
        shares_commits=True,
        local_order=True,
        parallel_calls=1,  # it writes one at a time
        metered=False,
        delayed_streams=False,
        has_engine=True,
        tells_changes=True,
    )

    def __init__(self, engine: Engine, name: str = ":memory:", scope: Scope = DEFAULT_SCOPE) -> None:
        self.engine = engine
        self.name = name
        self.scope = scope
        self._closed = False

    def execute(self, operation: str, request: Request) -> Answer:
        if self._closed:
            raise DatabaseClosed(f"{self.name}: the database has been closed; open it again with connect().")
        return self.engine.execute(operation, request, self.scope)

    def execute_together(self, calls: Sequence[tuple[str, Request]]) -> list[Answer | PenstockError]:
        """Several calls with one commit; the error of one is in its place, and concerns no other."""
        if self._closed:
            raise DatabaseClosed(f"{self.name}: the database has been closed; open it again with connect().")
        answers = self.engine.answer_many([Pending(operation, request, self.scope) for operation, request in calls])
        return [orjson.loads(answer) if isinstance(answer, bytes) else answer for answer in answers]

    def changes(self) -> Changes:
        return self.engine.changes()

    def loading(self, table: str) -> Loading | None:
        from penstock.engine.items.bulk_rows import Loading  # only batches need it

        return Loading.of(self.engine, self.scope, table)

    def close(self) -> None:
        """Releases the file. A second close does nothing."""
        if not self._closed:
            self._closed = True
            self.engine.close()
