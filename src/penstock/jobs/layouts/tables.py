"""The table that jobs live in unless a system brings its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.tables.definitions.definition import Table

DEFAULT_TABLE: Final = "penstock-jobs"

CLAIM_INDEX: Final = "by-claim"
STATE_INDEX: Final = "by-state"
TASK_INDEX: Final = "by-task"
TIME_INDEX: Final = "by-time"


def jobs_table(name: str = DEFAULT_TABLE) -> Table:
    """One item collection for each job. All indexes are sparse: only a job's main record is in them."""
    from penstock.tables.definitions.definition import Index, Table  # who only reads jobs needs no definition

    return Table(
        name,
        key=("job_id:S", "record:S"),
        indexes=[
            Index(CLAIM_INDEX, "claim_pool:S", "claim_order:S", projection="KEYS_ONLY"),
            Index(STATE_INDEX, "state_shard:S", "listed_at:S", projection="KEYS_ONLY"),
            Index(TASK_INDEX, "task_shard:S", "listed_at:S", projection="KEYS_ONLY"),
            Index(TIME_INDEX, "time_shard:S", "listed_at:S", projection="KEYS_ONLY"),
        ],
        ttl="ttl",
    )


def tables() -> tuple[Table, ...]:
    """What `penstock tables apply jobs` makes."""
    return (jobs_table(),)
