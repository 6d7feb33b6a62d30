"""Which operations there are: each file of operations/ registers its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from penstock.engine.context import Call

Request = dict[str, Any]
Response = dict[str, Any]
"""An answer; its items may be `orjson.Fragment`s: JSON bytes as they lie in the file."""

Run = Callable[["Call", Request], Response]
Quick = Callable[["Call", Cursor, Request], bytes | None]
"""The bytes that `run` would lead to, for the plainest requests, unchecked; None for all others.

The cursor is the caller's, to be used for one statement after another."""

Prepare = Callable[[Request], Any]
"""What a write's request alone can tell, worked out before its transaction begins; `run` finds it as `call.prepared`.

It raises what `run` would raise first. A large request is thereby checked while others write."""

Kind = Literal["read", "snapshot", "write"]
"""read: one statement sees all it needs; snapshot: several statements of one moment; write: one transaction."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    kind: Kind
    run: Run
    prepare: Prepare | None = None


OPERATIONS: dict[str, Operation] = {}
WRITES: set[str] = set()
"""The names of those whose kind is "write"."""
QUICK: dict[str, Quick] = {}
"""The short ways of those that have one."""


def operation(
    name: str, kind: Kind, quick: Quick | None = None, prepare: Prepare | None = None
) -> Callable[[Run], Run]:
    """Registers a function as the operation `name`. Its request has passed `shapes.check` when it is called."""

    def register(run: Run) -> Run:
        OPERATIONS[name] = Operation(name, kind, run, prepare)
        if kind == "write":
            WRITES.add(name)
        if quick is not None:
            QUICK[name] = quick
        return run

    return register
