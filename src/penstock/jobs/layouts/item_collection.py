"""The default layout: each job is one item collection, so that all of it is read by one Query.

job_id          record                  what
job_…           main                    the job
job_…           progress#000000001      its numbered log
job_…           checkpoint#parsed       its checkpoints
job_…           event#00000003          what happened to it, long ago; the newest events are in main
job_…           file#report.xlsx        its files
job_…           payload#args            arguments or a result that are long
job_…           child#job_…             who waits for it
queue#default   main                    a queue's settings; likewise limit#…, unique#…; and tenants, workers,
                                        schedules and settings, of which there is one each
"""

from __future__ import annotations

from typing import Final

from penstock.clock import utc_seconds, utc_text
from penstock.jobs.layouts import tables
from penstock.jobs.layouts.attributes import (
    add_texts,
    file_of,
    file_value,
    maybe_text_of,
    number_of,
    number_text,
    payload_of,
    payload_value,
    text_of,
)
from penstock.jobs.layouts.layout import Call, ClaimIndex, Item, Listing, Record
from penstock.jobs.layouts.main_record import item_of, job_of
from penstock.jobs.model.job import Checkpoint, Entry, Event, History, Job, JobFile
from penstock.jobs.model.state import State
from penstock.tables.definitions.definition import Table

# Each shard of an index takes about 300 jobs a second on DynamoDB (1,000 writes a second for a partition).
DEFAULT_SHARDS: Final = 4


class CollectionLayout:
    """The default layout, on a table of tables.jobs_table()."""

    version_name: Final = "version"
    keeps_events: Final = True
    """The newest events are in the main record: a change of state is then one write of one item."""
    ttl_name: Final = "ttl"
    claim_index: Final = ClaimIndex(tables.CLAIM_INDEX, "claim_pool", "claim_order")

    def __init__(self, table: str = tables.DEFAULT_TABLE, *, shards: int = DEFAULT_SHARDS) -> None:
        if not 1 <= shards <= _MOST_SHARDS:
            raise ValueError(f"shards is 1 to {_MOST_SHARDS}, not {shards}")
        self.table = table
        self.shards = shards

    @property
    def definitions(self) -> tuple[Table, ...]:
        return (tables.jobs_table(self.table),)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    def main_key(self, job_id: str) -> Item:
        """Also of the items beside the jobs, whose names no job can have (side_items.py, new_job.py)."""
        return {"job_id": {"S": job_id}, "record": {"S": "main"}}

    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing:
        if state is not None:
            return self._listing(tables.STATE_INDEX, "state_shard", f"{tenant}#{state.value}")
        if task is not None:
            return self._listing(tables.TASK_INDEX, "task_shard", f"{tenant}#{task}")
        return self._listing(tables.TIME_INDEX, "time_shard", tenant)

    def place(self, job: Job) -> str:
        """Where the job stands in every list: the value of its `order`."""
        return f"{utc_text(job.created_at)}#{job.id}"

    def _listing(self, index: str, name: str, prefix: str) -> Listing:
        return Listing(index, name, tuple(f"{prefix}#{shard}" for shard in range(self.shards)), "listed_at")

    def reads(self, job_id: str) -> tuple[Call, ...]:
        """The calls that read all of a job, page by page."""
        return (self._query(job_id),)

    def children(self, job_id: str) -> Call:
        return self._query(job_id, "child#")

    def entries(self, job_id: str, after: int) -> Call:
        request = {
            "TableName": self.table,
            "KeyConditionExpression": "#job = :job AND #record BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#job": "job_id", "#record": "record"},
            "ExpressionAttributeValues": {
                ":job": {"S": job_id},
                ":first": {"S": _entry_record(after + 1)},
                ":last": {"S": "progress#~"},
            },
            "ConsistentRead": True,
        }
        return Call("Query", request)

    def child_of(self, item: Item) -> str:
        child: str = item["record"]["S"].partition("#")[2]
        return child

    def record_get(self, job_id: str, record: str) -> Call:
        key = {"job_id": {"S": job_id}, "record": {"S": record}}
        return Call("GetItem", {"TableName": self.table, "Key": key, "ConsistentRead": True})

    def _query(self, job_id: str, prefix: str = "") -> Call:
        names, values = {"#job": "job_id"}, {":job": {"S": job_id}}
        condition = "#job = :job"
        if prefix:
            names["#record"], values[":prefix"] = "record", {"S": prefix}
            condition += " AND begins_with(#record, :prefix)"
        request = {
            "TableName": self.table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ConsistentRead": True,
        }
        return Call("Query", request)

    # ── values to items ──────────────────────────────────────────────────────────────────────────

    def main(self, job: Job) -> Item:
        return item_of(job, self.shards)

    def entry(self, job: Job, entry: Entry) -> Record:
        item = self._record(job, _entry_record(entry.number), entry.at)
        item["number"] = {"N": str(entry.number)}
        item["attempt"] = {"N": str(entry.attempt)}
        if entry.progress is not None:
            item["progress"] = {"N": number_text(entry.progress)}
        add_texts(item, step=entry.step, message=entry.message, data=entry.data or "")
        return Record(self.table, item)

    def event(self, job: Job, event: Event) -> Record:
        item = self._record(job, f"event#{event.number:08d}", event.at)
        item["type"] = {"S": event.type}
        item["attempt"] = {"N": str(event.attempt)}
        add_texts(item, owner=event.owner, detail=event.detail)
        return Record(self.table, item)

    def checkpoint(self, job: Job, checkpoint: Checkpoint) -> Record:
        item = self._record(job, f"checkpoint#{checkpoint.name}", checkpoint.at)
        item["version"] = {"N": str(checkpoint.version)}
        item["attempt"] = {"N": str(checkpoint.attempt)}
        item["data"] = payload_value(checkpoint.data)
        add_texts(item, summary=checkpoint.summary)
        return Record(self.table, item)

    def file(self, job: Job, file: JobFile) -> Record:
        item = self._record(job, f"file#{file.name}", job.updated_at)
        item["file"] = file_value(file.saved)
        return Record(self.table, item)

    def payload(self, job: Job, name: str, text: str) -> Record:
        item = self._record(job, f"payload#{name}", job.updated_at)
        item["data"] = {"S": text}
        return Record(self.table, item)

    def child(self, parent: Job, child_id: str) -> Record:
        return Record(self.table, self._record(parent, f"child#{child_id}", parent.updated_at))

    def _record(self, job: Job, record: str, at: float) -> Item:
        return {
            "job_id": {"S": job.id},
            "record": {"S": record},
            "at": {"S": utc_text(at)},
            "ttl": {"N": str(job.expires_at)},
        }

    # ── items to values ──────────────────────────────────────────────────────────────────────────

    def job(self, item: Item) -> Job:
        return job_of(item)

    def history(self, items: list[Item]) -> History | None:
        """What those calls have read, put together; None without a main record."""
        kinds: dict[str, list[Item]] = {}
        for item in items:
            kinds.setdefault(item["record"]["S"].partition("#")[0], []).append(item)
        if "main" not in kinds:
            return None
        checkpoints = [self.checkpoint_of(item) for item in kinds.get("checkpoint", ())]
        job = self.job(kinds["main"][0])
        return History(
            job,
            tuple(self.entry_of(item) for item in kinds.get("progress", ())),
            tuple(sorted(checkpoints, key=lambda checkpoint: checkpoint.at)),
            (*(self.event_of(item) for item in kinds.get("event", ())), *job.events),
            tuple(self.file_of(item) for item in kinds.get("file", ())),
        )

    def entry_of(self, item: Item) -> Entry:
        get = item.get
        return Entry(
            number=int(item["number"]["N"]),
            at=utc_seconds(item["at"]["S"]),
            progress=float(item["progress"]["N"]) if "progress" in item else None,
            step=text_of(get("step")),
            message=text_of(get("message")),
            data=maybe_text_of(get("data")),
            attempt=int(number_of(get("attempt"))),
        )

    def event_of(self, item: Item) -> Event:
        get = item.get
        return Event(
            number=int(item["record"]["S"].partition("#")[2]),
            type=item["type"]["S"],
            at=utc_seconds(item["at"]["S"]),
            attempt=int(number_of(get("attempt"))),
            owner=text_of(get("owner")),
            detail=text_of(get("detail")),
        )

    def checkpoint_of(self, item: Item) -> Checkpoint:
        return Checkpoint(
            name=item["record"]["S"].partition("#")[2],
            version=int(item["version"]["N"]),
            at=utc_seconds(item["at"]["S"]),
            data=payload_of(item["data"]),
            summary=text_of(item.get("summary")),
            attempt=int(number_of(item.get("attempt"))),
        )

    def file_of(self, item: Item) -> JobFile:
        return JobFile(item["record"]["S"].partition("#")[2], file_of(item["file"]["M"]))


_MOST_SHARDS: Final = 256


def _entry_record(number: int) -> str:
    return f"progress#{number:09d}"
