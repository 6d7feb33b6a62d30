"""Jobs as items of Delphi_JobQueue (S3.13): the one store of jobs, with Delphi's names at the edge.

1. A job is one item under its `job_id`. `status`, `created_at`, `conversation_id`, `job_type`, `priority` and
   `worker_id` are what the four indexes have: whoever reads them with another tool finds what was always there.
2. What belongs to a job and grows (its log, checkpoints, files) are items beside it: `{job_id}#progress#000000001`, in
   ConversationIndex under `records#{job_id}`, which is no conversation.
3. Only a job that somebody should look at is in ClaimIndex: the most urgent first, then the oldest; or by when its lock
   expires.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.files import Files
from penstock.jobs.layouts.item_collection import DEFAULT_SHARDS, CollectionLayout
from penstock.jobs.layouts.layout import ClaimIndex, Item, Listing, ReadCall
from penstock.jobs.model.job import BadJob, Checkpoint, History, Job
from penstock.jobs.model.state import State
from penstock.jobs.model.workflow import Operation, SentEvent
from penstock.jobs.sources import JobSource, StoreSource, TableDescription
from penstock.jobs.store.store import JobStore
from penstock.systems.delphi import tables
from penstock.tables.definitions.definition import Table

STATUSES: Final = {
    State.QUEUED: "PENDING",
    State.PROCESSING: "PROCESSING",
    State.COMPLETED: "COMPLETED",
    State.FAILED: "FAILED",
    State.CANCELLED: "CANCELLED",
}
_STATES: Final = {status: state.value for state, status in STATUSES.items()}

# Ours → Delphi's.
_NAMES: Final = {
    "task": "job_type",
    "state": "status",
    "args": "job_config",
    "result": "job_results",
    "failures": "retry_count",
    "retries": "max_retries",
    "ended_at": "completed_at",
    "lease_owner": "worker_id",
    "lease_token": "lock_token",
    "lease_until": "lock_expires_at",
    "lease_seconds": "lock_seconds",
    "claim_pool": tables.CLAIM_SHARD,
    "claim_order": tables.CLAIM_ORDER,
}
_OURS: Final = {theirs: ours for ours, theirs in _NAMES.items()}
_NOT_THEIRS: Final = ("record", "state_shard", "task_shard", "time_shard", "listed_at")
_RECORDS: Final = "records#"


class QueueLayout(CollectionLayout):
    """The default layout's items, under other names and keys."""

    claim_index = ClaimIndex(tables.CLAIM_INDEX, tables.CLAIM_SHARD, tables.CLAIM_ORDER)  # type: ignore[misc]  # the index is the table's own

    def __init__(self, *, shards: int = DEFAULT_SHARDS) -> None:
        super().__init__(tables.QUEUE, shards=shards)

    @property
    def definitions(self) -> tuple[Table, ...]:
        return (tables.queue(),)

    # ── the job itself ───────────────────────────────────────────────────────────────────────────

    def main_key(self, job_id: str) -> Item:
        return {"job_id": {"S": job_id}}

    def main(self, job: Job) -> Item:
        if job.tenant:
            raise BadJob(f"{job.id}: {self.table} has no tenants; the conversation is what tells jobs apart.")
        if job.tags:
            raise BadJob(f"{job.id}: {self.table} has no index for tags.")
        ours = super().main(job)
        item = {_NAMES.get(name, name): value for name, value in ours.items() if name not in _NOT_THEIRS}
        item["status"] = {"S": STATUSES[job.state]}
        item["priority"] = {"N": str(job.priority)}
        item["retry_count"] = {"N": str(job.failures)}
        item["max_retries"] = {"N": str(job.retries)}
        conversation = _conversation(job)
        if conversation:
            item["conversation_id"] = {"S": conversation}
        return item

    def job(self, item: Item) -> Job:
        ours = {_OURS.get(name, name): value for name, value in item.items()}
        ours["record"] = {"S": "main"}
        ours["state"] = {"S": _STATES[item["status"]["S"]]}
        return super().job(ours)

    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing:
        """By status and time; all statuses where none is wanted. JobTypeIndex is in the order of priority."""
        statuses = () if tenant else tuple(STATUSES.values()) if state is None else (STATUSES[state],)
        return Listing("StatusCreatedIndex", "status", statuses, "created_at")

    def place(self, job: Job) -> str:
        """Of jobs of the same millisecond that stand on both sides of a page's end, the next page has none: the
        indexes of this table have nothing finer."""
        return utc_text(job.created_at)

    # ── what lies beside it ──────────────────────────────────────────────────────────────────────

    def _record(self, job: Job, record: str, at: float) -> Item:
        """A record of the default layout under a key of its own (2)."""
        item = super()._record(job, record, at)
        item["job_id"], item["created_at"] = {"S": f"{job.id}#{record}"}, {"S": record}
        item["conversation_id"] = {"S": _RECORDS + job.id}
        del item["record"]
        return item

    def checkpoint_of(self, item: Item) -> Checkpoint:
        return super().checkpoint_of(_ours(item))

    def child_of(self, item: Item) -> str:
        return super().child_of(_ours(item))

    def operation_of(self, item: Item) -> Operation:
        return super().operation_of(_ours(item))

    def sent_of(self, item: Item) -> SentEvent:
        return super().sent_of(_ours(item))

    def history(self, items: list[Item]) -> History | None:
        return super().history([_ours(item) for item in items])

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def record_get(self, job_id: str, record: str) -> ReadCall:
        key = self.main_key(f"{job_id}#{record}")
        return ReadCall("GetItem", {"TableName": self.table, "Key": key, "ConsistentRead": True})

    def reads(self, job_id: str) -> tuple[ReadCall, ...]:
        main = {
            "TableName": self.table,
            "KeyConditionExpression": "#job = :job",
            "ExpressionAttributeNames": {"#job": "job_id"},
            "ExpressionAttributeValues": {":job": {"S": job_id}},
            "ConsistentRead": True,
        }
        return ReadCall("Query", main), self._records(job_id)

    def entries(self, job_id: str, after: int) -> ReadCall:
        return self._records(job_id, f"progress#{after + 1:09d}", "progress#~")

    def records(self, job_id: str, prefix: str) -> ReadCall:
        return self._records(job_id, prefix, f"{prefix}~")

    def _records(self, job_id: str, first: str = " ", last: str = "~") -> ReadCall:
        request: dict[str, Any] = {
            "TableName": self.table,
            "IndexName": tables.QUEUE_CONVERSATIONS,
            "KeyConditionExpression": "#conversation = :records AND #created BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#conversation": "conversation_id", "#created": "created_at"},
            "ExpressionAttributeValues": {
                ":records": {"S": _RECORDS + job_id},
                ":first": {"S": first},
                ":last": {"S": last},
            },
        }
        return ReadCall("Query", request)


def _ours(item: Item) -> Item:
    """The same back; a job's own item gets the name that the default layout has for it."""
    if "record" in item:
        return item  # it has been turned back already
    if "status" in item:
        return {**item, "record": {"S": "main"}}
    job_id, _, name = item["job_id"]["S"].partition("#")
    return {**item, "job_id": {"S": job_id}, "record": {"S": name}}


def _conversation(job: Job) -> str:
    """What the job is about: in its configuration, or as it was read."""
    if job.args.text is not None:
        found = orjson.loads(job.args.text).get("conversation_id")
        if found:
            return str(found)
    kept = job.others.get("conversation_id")
    return "" if kept is None else str(kept["S"])


def queue_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    """Delphi's queue, for `penstock jobs list` and the dashboard."""
    if table.name != tables.QUEUE or tables.CLAIM_INDEX not in table.indexes:
        return None
    return StoreSource(JobStore(db, QueueLayout(), files=files), "delphi", "penstock delphi")
