"""The tables of account records (S4.3–6): Users and Records.

In compat, the index `Processed` has the bare number 0 or 1 as key: two partitions for all records there are. In safe it
carries a shard (`Processed#shard`: `1#07`), and a second index, `Pending`, has only what is still to be done.
"""

from __future__ import annotations

from penstock.systems.schema_variants import SchemaVariant, check_variant
from penstock.tables.definitions.definition import Index, Table

USERS = "Users"
RECORDS = "Records"
PROCESSED_INDEX = "Processed"
PENDING_INDEX = "Pending"
PROCESSED_SHARD = "Processed#shard"
PENDING_SHARD = "Pending#shard"


def tables(layout: SchemaVariant = "safe", *, users: str = USERS, records: str = RECORDS) -> tuple[Table, ...]:
    """`users` and `records` are the tables' names (USER_TABLE, RECORD_TABLE)."""
    check_variant(layout)
    return (
        Table(users, ("pk:S", "sk:S")),
        Table(records, ("AccountId:S", "RunTime:S"), indexes=_indexes(layout)),
    )


def _indexes(layout: SchemaVariant) -> tuple[Index, ...]:
    if layout == "compat":
        return (Index(PROCESSED_INDEX, "Processed:N"),)
    return (
        Index(PROCESSED_INDEX, f"{PROCESSED_SHARD}:S", "RunTime:S"),
        Index(PENDING_INDEX, f"{PENDING_SHARD}:S", "RunTime:S"),
    )
