"""What became of a run, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock.client.items.values import Item

MOST_ERRORS: Final = 1_000
"""Failed records that a report names, unless told otherwise: all of them are in the table."""


@dataclass(frozen=True, slots=True)
class RecordError:
    """A record that failed for good: it is not run again until it is redriven."""

    key: Item
    kind: str
    message: str
    attempts: int
    trace: str = ""

    def __str__(self) -> str:
        name = " ".join(f"{attribute}={value}" for attribute, value in self.key.items())
        return f"{name}: {self.kind}: {self.message} (attempts: {self.attempts})"


@dataclass(slots=True)
class Report:
    """What became of the records of a run.

    `processed` were marked as done. `failed` did for good, `errors` names the first of them. `skipped` were done,
    changed or deleted by somebody else before they were claimed; `deleted` while they ran. `lost` were taken over by
    another processor while they ran, which then marked them. `held` were being run by others until the end.
    `left` were running when the run was stopped: their leases end by themselves.
    """

    run_id: str = ""
    processed: int = 0
    attempts: int = 0
    retried: int = 0
    failed: int = 0
    skipped: int = 0
    deleted: int = 0
    changed: int = 0
    lost: int = 0
    held: int = 0
    crashed: int = 0
    timed_out: int = 0
    given_back: int = 0
    left: int = 0
    passes: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    failures_by_kind: Counter[str] = field(default_factory=Counter)
    errors: list[RecordError] = field(default_factory=list)

    @property
    def success_rate(self) -> float:
        """The part of the records that ended well, of those that ended; 1.0 where none did."""
        ended = self.processed + self.failed
        return self.processed / ended if ended else 1.0

    def __str__(self) -> str:
        parts = [f"{self.processed:,} done"]
        if self.failed:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.failures_by_kind.most_common(5))
            more = len(self.failures_by_kind) - 5
            parts.append(f"{self.failed:,} failed ({kinds}{f' and {more} more kinds' if more > 0 else ''})")
        for count, word in (
            (self.lost, "lost to another processor"),
            (self.deleted, "deleted meanwhile"),
            (self.held, "held by another processor"),
            (self.left, "still running when it was stopped"),
        ):
            if count:
                parts.append(f"{count:,} {word}")
        text = f"{', '.join(parts)} in {seconds_text(self.seconds)}"
        return f"{text}, interrupted" if self.interrupted else text

    def form(self) -> dict[str, Any]:
        """For JSON, without the errors themselves."""
        names = [one.name for one in fields(self) if one.name not in ("errors", "failures_by_kind", "seconds")]
        counts = {name: getattr(self, name) for name in names}
        rate = {"seconds": round(self.seconds, 3), "success_rate": round(self.success_rate, 6)}
        return counts | rate | {"failures_by_kind": dict(self.failures_by_kind)}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `total` and `eta_seconds` are None where nobody has counted the records."""

    done: int
    failed: int
    running: int
    waiting: int
    seconds: float
    rate: float
    total: int | None = None

    @property
    def eta_seconds(self) -> float | None:
        """How long it will take at this pace; None while that is not known."""
        if self.total is None or self.rate <= 0:
            return None
        return max(self.total - self.done - self.failed, 0) / self.rate


def seconds_text(seconds: float) -> str:
    """`0.4 s`, `41 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
