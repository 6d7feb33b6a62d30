"""Conversations to topics: a Pol.is export becomes vectors, a map, layers of clusters and their names (S3)."""

from penstock.registry import Commands, JobTables, System
from penstock.tables.definitions.system_tables import SystemTables

SYSTEM = System(
    "delphi",
    "Delphi",
    commands=Commands(
        "delphi", "Conversations to topics: from a Pol.is export to a map with names.", f"{__name__}.commands:command"
    ),
    tables=SystemTables(f"{__name__}.tables"),
    demo=f"{__name__}.demo:demo",
    jobs=(JobTables(f"{__name__}.queue.layout:queue_source", (("job_id",),)),),
    libraries=("numpy", "sklearn", "evoc", "matplotlib", "wordllama"),
    extra="delphi",
)
