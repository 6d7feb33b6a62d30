"""A security drawing (PDF) in, a component schedule (.xlsx) out (S2)."""

from penstock.registry import Commands, JobTables, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "security-assistant",
    "Security assistant",
    commands=Commands(
        "security", "Security drawings to schedules: process, list, serve, and more.", f"{__name__}.commands:command"
    ),
    tables=SystemTables(f"{__name__}.tables", variables={"jobs": "DYNAMODB_TABLE"}),
    demo=f"{__name__}.demo:demo",
    jobs=(JobTables(f"{__name__}.job_source:drawing_source", (("company#client#job",),)),),
    libraries=("openpyxl", "pypdf"),
    extra="systems",
)
