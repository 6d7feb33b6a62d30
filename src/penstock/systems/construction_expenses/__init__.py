"""The construction-expenses application: 13 tables of companies, payments and webhooks (S1)."""

from penstock.registry import Commands, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "construction-expenses",
    "Construction expenses",
    commands=Commands(
        "construction",
        "Construction expenses: companies, webhooks, dead letters.",
        f"{__name__}.commands:command",
    ),
    tables=SystemTables(f"{__name__}.tables", prefix="construction-expenses"),
    demo=f"{__name__}.demo:demo",
    jobs=(f"{__name__}.job_source:webhook_source",),
)
