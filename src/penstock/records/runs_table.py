"""The table that runs are noted in: what its readers know of it without importing what writes it."""

from __future__ import annotations

from typing import Final

RUNS_TABLE: Final = "penstock-record-runs"
KEPT_SECONDS: Final = 30 * 86_400
