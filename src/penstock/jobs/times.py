"""Times as they are stored: UTC, milliseconds, `2025-06-16T21:19:33.789Z`. As text they sort by age."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

# A job's times are written again with each of its changes, and most of them have not changed.
_REMEMBERED = 4_096


@lru_cache(_REMEMBERED)
def to_text(seconds: float) -> str:
    # Rounded to what is kept first: isoformat cuts, and 0.789 as a float may lie below it.
    return datetime.fromtimestamp(round(seconds, 3) + 1e-6, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


@lru_cache(_REMEMBERED)
def from_text(text: str) -> float:
    return round(datetime.fromisoformat(text).timestamp(), 3)
