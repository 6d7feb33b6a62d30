"""The engine in this process, as a transport."""

from __future__ import annotations

from penstock.client.transports.base import Answer, Request
from penstock.engine.engine import Engine
from penstock.engine.settings import DEFAULT_SCOPE, Scope
from penstock.errors import StorageError


class EmbeddedTransport:
    """Answers from `engine`, which it closes with itself."""

    def __init__(self, engine: Engine, name: str = ":memory:", scope: Scope = DEFAULT_SCOPE) -> None:
        self.engine = engine
        self.name = name
        self.scope = scope
        self._closed = False

    def execute(self, operation: str, request: Request) -> Answer:
        if self._closed:
            raise StorageError(f"{self.name}: the database has been closed; open it again with connect().")
        return self.engine.execute(operation, request, self.scope)

    def close(self) -> None:
        """Releases the file. A second close does nothing."""
        if not self._closed:
            self._closed = True
            self.engine.close()
