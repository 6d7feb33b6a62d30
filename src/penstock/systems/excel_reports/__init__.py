"""Excel reports of a project's products and users, with their progress in numbered records (S0)."""

from penstock.registry import Commands, JobTables, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "excel-reports",
    "Excel reports",
    commands=Commands(
        "excel",
        "Excel reports of a project, with their progress: generate, serve and more.",
        f"{__name__}.commands:command",
    ),
    tables=SystemTables(f"{__name__}.tables", variables={"jobs": "JOBS_TABLE"}),
    demo=f"{__name__}.demo:demo",
    jobs=(JobTables(f"{__name__}.job_source:report_source", (("jobId", "recordId"), ("recordId",))),),
    libraries=("fastapi", "xlsxwriter", "PIL"),
    extra="systems",
)
