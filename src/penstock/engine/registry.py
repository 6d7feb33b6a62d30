"""Which operations there are: each file of operations/ registers its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.engine.requests import REQUESTS
from penstock.errors import DynamoDBError

if TYPE_CHECKING:
    from penstock.engine.catalog.catalog import OperationContext

Request = dict[str, Any]
Response = dict[str, Any]
"""An answer; its items may be `orjson.Fragment`s: JSON bytes as they lie in the file."""

Check = Callable[[Any], Request]
"""The request as DynamoDB reads it, with the JSON types, required members and constraints that it asks for."""

Answer = bytes | DynamoDBError
"""One call's answer, as one of several calls that are executed together."""

Run = Callable[["OperationContext", Request], Response | bytes]
"""Executes one request. Bytes are the answer's JSON; a dictionary is still to be written as JSON."""

RunMany = Callable[["OperationContext", Sequence[Request]], list[Answer]]
"""Executes the first of several unchecked requests, as many as it can take together: 1. It answers these as `run` would
one after another. 2. It may take none; `run` executes what it leaves."""

Prepare = Callable[[Request], Any]
"""What a write's request alone can tell, worked out before its transaction begins: `context.prepared` of `run`.

It raises what `run` would raise first. A large request is thereby checked while others write."""

Kind = Literal["read", "snapshot", "write"]
"""read: one statement sees all it needs; snapshot: several statements of one moment; write: one transaction."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    kind: Kind
    run: Run
    prepare: Prepare | None = None
    run_many: RunMany | None = None
    check: Check | None = None
    """Checks the request before `run` is called; None where `run` does it."""
    prepare_early: Prepare | None = None
    """As `prepare`, for one of a group, and raises nothing: what it cannot prepare (None) `run` does in its turn."""


OPERATIONS: dict[str, Operation] = {}
WRITES: set[str] = set()
"""The names of those whose kind is "write"."""


def operation(
    name: str,
    kind: Kind,
    prepare: Prepare | None = None,
    run_many: RunMany | None = None,
    *,
    prepare_early: Prepare | None = None,
    is_checked: bool = True,
) -> Callable[[Run], Run]:
    """Registers a function as the operation `name`."""

    def register(run: Run) -> Run:
        check = REQUESTS[name].check if is_checked else None
        OPERATIONS[name] = Operation(name, kind, run, prepare, run_many, check, prepare_early)
        if kind == "write":
            WRITES.add(name)
        return run

    return register
