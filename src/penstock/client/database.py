"""connect() and Database: one call, `execute(operation, request)`, whatever answers it."""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import Any

from penstock.clock import Clock
from penstock.engine.engine import Engine
from penstock.engine.settings import Settings
from penstock.errors import PenstockError, StorageError

MEMORY = ":memory:"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Database:
    """A DynamoDB to talk to. Safe to share between threads; a context manager that closes it."""

    def __init__(self, engine: Engine, name: str = MEMORY) -> None:
        self.engine = engine
        self.name = name
        self._closed = False

    def execute(self, operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        """DynamoDB's answer to `operation`, in DynamoDB's own JSON: a B is base64 text, an N is text.

        Raises the `DynamoDBError` that DynamoDB would answer with.
        """
        if self._closed:
            raise StorageError(f"{self.name}: the database has been closed; open it again with connect().")
        return self.engine.execute(operation, {} if request is None else request)

    def close(self) -> None:
        """Releases the file. A second close does nothing."""
        self._closed = True
        self.engine.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.name!r})"


def connect(
    url: str | os.PathLike[str] = MEMORY, *, clock: Clock | None = None, settings: Settings | None = None
) -> Database:
    """Opens the database that `url` names: a file, made when absent, or ":memory:".

    Each `connect(":memory:")` is a new, empty database. A file may be open many times, in many processes.
    """
    name = os.fspath(url)
    if _SCHEME.match(name):
        raise PenstockError(
            f"connect() opens a file or {MEMORY!r}; remote databases such as {name!r} are not supported yet. "
            "For an endpoint use boto3.client('dynamodb', endpoint_url=…)."
        )
    options: dict[str, Any] = {"clock": clock, "settings": settings}
    engine = Engine(name, **{option: given for option, given in options.items() if given is not None})
    return Database(engine, name)
