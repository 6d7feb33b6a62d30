"""The tables of the security assistant: its jobs (S2.1–8) and their events (S2.9).

In compat, StatusDateIndex and DateRangeIndex have a bare status and a bare month as partition key: every job of one
status is on one partition, of 1,000 writes a second. ClientProjectIndex has a bare client: one company reads another's
jobs if their clients have the same name. In safe, the first two carry a shard, the last the company, and a job can be
found by its id alone:

    status#shard       completed#07
    date_bucket#shard  2024-01#07
    company#client     7central#st_marys
"""

from __future__ import annotations

from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.tables.definitions.definition import Index, Table

JOBS = "security-assistant-jobs"
EVENTS = "security-assistant-events"

JOB_KEY = "company#client#job"
EVENT_SORT_KEY = "timestamp#event_id"
STATUS_SHARD = "status#shard"
MONTH_SHARD = "date_bucket#shard"
COMPANY_CLIENT = "company#client"


def tables(layout: SchemaVariant = "safe", *, jobs: str = JOBS, events: str = EVENTS) -> tuple[Table, ...]:
    """`jobs` is the name of the jobs' table (DYNAMODB_TABLE)."""
    check_variant(layout)
    indexes = _safe_indexes() if layout == "safe" else _compat_indexes()
    return (
        Table(jobs, f"{JOB_KEY}:S", indexes=indexes, ttl="ttl"),
        Table(events, ("job_id:S", f"{EVENT_SORT_KEY}:S"), ttl="ttl"),
    )


def _compat_indexes() -> tuple[Index, ...]:
    return (
        Index("StatusDateIndex", "status:S", "created_at:S"),
        Index("ClientProjectIndex", "client_name:S", "created_at:S"),
        Index("DateRangeIndex", "date_bucket:S", "created_at:S"),
    )


def _safe_indexes() -> tuple[Index, ...]:
    return (
        Index("StatusDateIndex", f"{STATUS_SHARD}:S", "created_at:S"),
        Index("ClientProjectIndex", f"{COMPANY_CLIENT}:S", "created_at:S"),
        Index("DateRangeIndex", f"{MONTH_SHARD}:S", "created_at:S"),
        Index("JobIdIndex", "job_id:S", projection="KEYS_ONLY"),
    )
