"""A ledger outside the database: one line a fact, in the order in which the facts became known.

1. A fact is one `write` to a file opened with O_APPEND: lines of many processes never mix, and a line is there as soon
   as `note` returns, whatever happens to the process or to the database afterwards.
2. A fact is noted after what it tells has been acknowledged, so that a ledger never says more than is true.
3. A line that a killed process has left half written stands alone, and is not read.
4. Each has the time (`at`) of a clock that all processes of a machine share, and that nobody sets.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

POISONED: Final = 66
"""What a worker ends with whose job has ended it."""

Fact = Mapping[str, Any]
"""`{"fact": "kept", "job": …}`; what else it has depends on its kind: see `trust.ledger_rules`."""


class Ledger:
    """Where producers, task bodies and those who hurt them write down what they know."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, fact: str, **values: Any) -> None:
        # The line's end comes first: what a killed process left half written is then a line of its own (3).
        os.write(self._file, b"\n" + orjson.dumps({"fact": fact, "at": time.monotonic(), **values}))


def read(path: Path) -> list[Fact]:
    """The facts in their order."""
    return list(_facts(path.read_bytes().split(b"\n")))


def _facts(lines: Iterable[bytes]) -> Iterable[Fact]:
    for line in lines:
        if line:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue


@dataclass(frozen=True, slots=True)
class StoredJob:
    """What the store says of a job at the end, as plain values."""

    id: str
    task: str
    state: str
    attempt: int = 0
    result: Any = None
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    """Values by name."""
    entries: Sequence[tuple[int, int, str, float | None]] = ()
    """Number, attempt, words, progress."""
    events: Sequence[tuple[str, int]] = ()
    """What happened, and in which attempt."""
    broken: Sequence[str] = ()
    """What penstock.testing.invariants has found."""
    failures: Sequence[tuple[int, str]] = ()
    """Attempts that have failed, and the kinds of their errors."""
    charged: Sequence[str] = ()
    """Workers for whose ends it was charged with a crash."""
    error_kind: str | None = None
    parent: str = ""
    """The workflow that has made it."""


@dataclass(frozen=True, slots=True)
class Account:
    """What the store says of everything at the end."""

    jobs: Mapping[str, StoredJob] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
