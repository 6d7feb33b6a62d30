"""Which operations there are: each file of operations/ registers its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from penstock.engine.call import Call

Request = dict[str, Any]
Response = dict[str, Any]
"""An answer; its items may be `orjson.Fragment`s: JSON bytes as they lie in the file."""

Run = Callable[["Call", Request], Response]
Quick = Callable[["Call", Request], bytes | None]
"""The bytes that `run` would lead to, for the plainest requests, unchecked; None for all others."""

Kind = Literal["read", "snapshot", "write"]
"""read: one statement sees all it needs; snapshot: several statements of one moment; write: one transaction."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    kind: Kind
    run: Run
    quick: Quick | None = None


OPERATIONS: dict[str, Operation] = {}


def operation(name: str, kind: Kind, quick: Quick | None = None) -> Callable[[Run], Run]:
    """Registers a function as the operation `name`. Its request has passed `shapes.check` when it is called."""

    def register(run: Run) -> Run:
        OPERATIONS[name] = Operation(name, kind, run, quick)
        return run

    return register
