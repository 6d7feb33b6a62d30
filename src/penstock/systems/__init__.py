"""The systems that ship with Penstock, and the table of jobs, by the names that commands know them by."""

from __future__ import annotations

from penstock.tables.definitions.naming import DEFAULT_PREFIX
from penstock.tables.definitions.sources import System

SYSTEMS: dict[str, System] = {
    "account-records": System(
        "penstock.systems.account_records.tables", variables={"users": "USER_TABLE", "records": "RECORD_TABLE"}
    ),
    "construction-expenses": System("penstock.systems.construction_expenses.tables", prefix=DEFAULT_PREFIX),
    "delphi": System("penstock.systems.delphi.tables"),
    "excel-reports": System("penstock.systems.excel_reports.tables", variables={"jobs": "JOBS_TABLE"}),
    "jobs": System("penstock.jobs.layouts.tables"),
    "security-assistant": System("penstock.systems.security_assistant.tables", variables={"jobs": "DYNAMODB_TABLE"}),
}
"""Only construction-expenses has a prefix: the names of the others' tables stand whole."""
