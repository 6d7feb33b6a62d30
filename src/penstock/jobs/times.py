"""Times as they are stored: UTC, milliseconds, `2025-06-16T21:19:33.789Z`. As text they sort by age."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

# A job's times are written again with each of its changes, and several of them are mostly the same one.
_REMEMBERED: Final = 4_096


@lru_cache(_REMEMBERED)
def to_text(seconds: float) -> str:
    second, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    """Most times that are written at once are in the same few seconds."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


@lru_cache(_REMEMBERED)
def from_text(text: str) -> float:
    return round(datetime.fromisoformat(text).timestamp(), 3)
