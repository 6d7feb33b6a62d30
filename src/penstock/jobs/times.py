"""Times as they are stored: UTC, milliseconds, `2025-06-16T21:19:33.789Z`. As text they sort by age."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(seconds: float) -> str:
    # Rounded to what is kept first: isoformat cuts, and 0.789 as a float may lie below it.
    return datetime.fromtimestamp(round(seconds, 3) + 1e-6, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def from_text(text: str) -> float:
    return round(datetime.fromisoformat(text).timestamp(), 3)
