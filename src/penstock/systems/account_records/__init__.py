"""Records of accounts, processed in parallel, and users (S4)."""

from penstock.registry import Commands, JobTables, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "account-records",
    "Account records",
    commands=Commands(
        "accounts", "Account records: add, process in parallel, see failures, redrive.", f"{__name__}.commands:command"
    ),
    tables=SystemTables(f"{__name__}.tables", variables={"users": "USER_TABLE", "records": "RECORD_TABLE"}),
    demo=f"{__name__}.demo:demo",
    jobs=(JobTables(f"{__name__}.job_source:run_source", (("AccountId", "RunTime"),)),),
)
