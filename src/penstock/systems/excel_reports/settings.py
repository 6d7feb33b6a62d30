"""What the environment says (S0.10): JOBS_TABLE, JOB_TTL_HOURS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.systems.excel_reports.records import BadReport
from penstock.systems.excel_reports.tables import JOBS

TABLE_VARIABLE: Final = "JOBS_TABLE"
TTL_VARIABLE: Final = "JOB_TTL_HOURS"
DEFAULT_TTL_HOURS: Final = 24.0
_LONGEST_TTL_HOURS: Final = 10 * 365 * 24.0


@dataclass(frozen=True, slots=True)
class Settings:
    table: str = JOBS
    ttl_hours: float = DEFAULT_TTL_HOURS

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Raises BadReport for a value that cannot be."""
        found = os.environ if environment is None else environment
        hours = found.get(TTL_VARIABLE) or str(DEFAULT_TTL_HOURS)
        try:
            return cls(found.get(TABLE_VARIABLE) or JOBS, checked_hours(float(hours)))
        except ValueError:
            raise BadReport([f"{TTL_VARIABLE} is hours, such as 24, not {hours[:100]!r}"]) from None


def checked_hours(hours: float) -> float:
    """Raises ValueError for what is no time to keep a job for."""
    if not 0 < hours <= _LONGEST_TTL_HOURS:  # also refuses NaN
        raise ValueError(f"a job is kept more than 0 and at most {_LONGEST_TTL_HOURS:,.0f} hours, not {hours}")
    return hours
