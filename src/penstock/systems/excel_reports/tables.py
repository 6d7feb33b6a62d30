"""The table of Excel report jobs (S0.1).

A job is one main record and a record for each step of its progress. With `recordId` alone as key (compat), a job's
records can only be found by reading the whole table; with `jobId` before it (safe), by one Query.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.tables.definitions.definition import Table

JOBS = "excel-report-jobs"


def tables(layout: SchemaVariant = "safe", *, jobs: str = JOBS, ttl: bool = True) -> tuple[Table, ...]:
    """`jobs` is the table's name (JOBS_TABLE); expiry of old jobs is optional."""
    check_variant(layout)
    key = ("jobId:S", "recordId:S") if layout == "safe" else ("recordId:S",)
    return (Table(jobs, key, ttl="ttl" if ttl else None),)


def variant_of(keys: Sequence[str]) -> SchemaVariant | None:
    """The layout whose table has these keys; None for a table that is none of ours."""
    return {("jobId", "recordId"): "safe", ("recordId",): "compat"}.get(tuple(keys))  # type: ignore[return-value]
