"""How a job becomes items.

A layout is pure functions between values (job.py) and items in DynamoDB's JSON; the store does the rest. This one is
the default: each job is one item collection, so that all of it is read by one Query.

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol
from zlib import crc32

import orjson

from penstock.files.saved import SavedFile
from penstock.jobs import tables
from penstock.jobs.job import (
    DEFAULT_PRIORITY,
    HIGHEST_PRIORITY,
    Checkpoint,
    Entry,
    Event,
    History,
    Job,
    JobError,
    JobFile,
    Payload,
)
from penstock.jobs.state import State
from penstock.jobs.times import from_text, to_text
from penstock.records.leases import Lease
from penstock.tables.definitions import Table

Item = dict[str, Any]

WRITE_NAME: Final = "write"
"""The attribute of a main record that says which write it is by (writing.py, 4); no layout may use it otherwise."""

# Each shard of an index takes about 300 jobs a second on DynamoDB (1,000 writes a second for a partition).
DEFAULT_SHARDS: Final = 4


@dataclass(frozen=True, slots=True)
class Record:
    """An item, and the table it is for."""

    table: str
    item: Item


@dataclass(frozen=True, slots=True)
class Call:
    operation: str
    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClaimIndex:
    """The index that workers look at: `pool` and `order` are its key."""

    name: str
    pool: str
    order: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Which partitions of which index list the jobs wanted, newest first by `order`; the rest is filtered."""

    index: str
    hash: str
    partitions: tuple[str, ...]
    order: str


class Layout(Protocol):
    """What the store asks of a layout. CollectionLayout says what each does."""

    @property
    def definitions(self) -> tuple[Table, ...]: ...
    @property
    def table(self) -> str: ...
    @property
    def shards(self) -> int: ...
    @property
    def version_name(self) -> str: ...
    @property
    def ttl_name(self) -> str: ...
    @property
    def claim_index(self) -> ClaimIndex: ...
    @property
    def keeps_events(self) -> bool: ...

    def main_key(self, job_id: str) -> Item: ...
    def main(self, job: Job) -> Item: ...
    def job(self, item: Item) -> Job: ...
    def entry(self, job: Job, entry: Entry) -> Record: ...
    def event(self, job: Job, event: Event) -> Record: ...
    def entry_of(self, item: Item) -> Entry: ...
    def checkpoint(self, job: Job, checkpoint: Checkpoint) -> Record: ...
    def checkpoint_of(self, item: Item) -> Checkpoint: ...
    def file(self, job: Job, file: JobFile) -> Record: ...
    def payload(self, job: Job, name: str, text: str) -> Record: ...
    def child(self, parent: Job, child_id: str) -> Record: ...
    def child_of(self, item: Item) -> str: ...

    def record_get(self, job_id: str, record: str) -> Call: ...
    def entries(self, job_id: str, after: int) -> Call: ...
    def children(self, job_id: str) -> Call: ...
    def reads(self, job_id: str) -> tuple[Call, ...]: ...
    def history(self, items: list[Item]) -> History | None: ...
    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing: ...
    def place(self, job: Job) -> str: ...


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
        """Also of the items beside the jobs, whose names no job can have (queues.py, new.py)."""
        return {"job_id": {"S": job_id}, "record": {"S": "main"}}

    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing:
        if state is not None:
            return self._listing(tables.STATE_INDEX, "state_shard", f"{tenant}#{state.value}")
        if task is not None:
            return self._listing(tables.TASK_INDEX, "task_shard", f"{tenant}#{task}")
        return self._listing(tables.TIME_INDEX, "time_shard", tenant)

    def place(self, job: Job) -> str:
        """Where the job stands in every list: the value of its `order`."""
        return f"{to_text(job.created_at)}#{job.id}"

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
        shard = shard_of(job.id, self.shards)
        created = to_text(job.created_at)
        item: Item = {
            **job.others,
            "job_id": {"S": job.id},
            "record": _MAIN,
            "task": {"S": job.task},
            "state": {"S": job.state.value},
            "created_at": {"S": created},
            "updated_at": {"S": to_text(job.updated_at)},
            "run_at": {"S": to_text(job.run_at)},
            "ttl": {"N": str(job.expires_at)},
            "queue": {"S": job.queue},
            "args": payload_value(job.args),
            "version": {"N": str(job.version)},
            "state_shard": {"S": f"{job.tenant}#{job.state.value}#{shard}"},
            "task_shard": {"S": f"{job.tenant}#{job.task}#{shard}"},
            "time_shard": {"S": f"{job.tenant}#{shard}"},
            "listed_at": {"S": f"{created}#{job.id}"},
        }
        place = claim_place(job)
        if place is not None:
            item["claim_pool"] = {"S": f"{job.queue}#{place[0]}#{shard}"}
            item["claim_order"] = {"S": place[1]}
        if job.events:
            item["events"] = {"L": [{"S": _event_text(event)} for event in job.events]}
        _add_counts(item, job)
        _add_options(item, job)
        _add_outcome(item, job)
        return item

    def entry(self, job: Job, entry: Entry) -> Record:
        item = self._record(job, _entry_record(entry.number), entry.at)
        item["number"] = {"N": str(entry.number)}
        item["attempt"] = {"N": str(entry.attempt)}
        if entry.progress is not None:
            item["progress"] = {"N": number_text(entry.progress)}
        _add_texts(item, step=entry.step, message=entry.message, data=entry.data or "")
        return Record(self.table, item)

    def event(self, job: Job, event: Event) -> Record:
        item = self._record(job, f"event#{event.number:08d}", event.at)
        item["type"] = {"S": event.type}
        item["attempt"] = {"N": str(event.attempt)}
        _add_texts(item, owner=event.owner, detail=event.detail)
        return Record(self.table, item)

    def checkpoint(self, job: Job, checkpoint: Checkpoint) -> Record:
        item = self._record(job, f"checkpoint#{checkpoint.name}", checkpoint.at)
        item["version"] = {"N": str(checkpoint.version)}
        item["attempt"] = {"N": str(checkpoint.attempt)}
        item["data"] = payload_value(checkpoint.data)
        _add_texts(item, summary=checkpoint.summary)
        return Record(self.table, item)

    def file(self, job: Job, file: JobFile) -> Record:
        item = self._record(job, f"file#{file.name}", job.updated_at)
        item["file"] = _file_value(file.saved)
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
            "at": {"S": to_text(at)},
            "ttl": {"N": str(job.expires_at)},
        }

    # ── items to values ──────────────────────────────────────────────────────────────────────────

    def job(self, item: Item) -> Job:
        get = item.get
        lease_owner = get("lease_owner")
        token = int(_number(get("lease_token")))
        lease = None
        if lease_owner is not None:
            seconds = float(item["lease_seconds"]["N"])
            lease = Lease(lease_owner["S"], token, from_text(item["lease_until"]["S"]), seconds)
        return Job(
            id=item["job_id"]["S"],
            task=item["task"]["S"],
            state=State(item["state"]["S"]),
            created_at=from_text(item["created_at"]["S"]),
            updated_at=from_text(item["updated_at"]["S"]),
            run_at=from_text(item["run_at"]["S"]),
            expires_at=int(item["ttl"]["N"]),
            queue=item["queue"]["S"],
            tenant=_text(get("tenant")),
            args=payload_of(item["args"]),
            priority=int(_number(get("priority"), DEFAULT_PRIORITY)),
            retries=int(_number(get("retries"))),
            version=int(item["version"]["N"]),
            attempt=int(_number(get("attempt"))),
            failures=int(_number(get("failures"))),
            crashes=int(_number(get("crashes"))),
            token=token,
            lease=lease,
            progress=_number(get("progress")),
            step=_text(get("step")),
            entries=int(_number(get("entries"))),
            result=payload_of(item["result"]) if "result" in item else None,
            error=_error_of(get("error")),
            cancel_reason=_maybe_text(get("cancel_reason")),
            waiting_for=frozenset(item["waiting_for"]["SS"]) if "waiting_for" in item else frozenset(),
            after=tuple(one["S"] for one in item["after"]["L"]) if "after" in item else (),
            unregistered="unregistered" in item,
            has_children="has_children" in item,
            unique=_maybe_text(get("unique")),
            limit_key=_maybe_text(get("limit_key")),
            limit=int(_number(get("limit"))),
            started_at=_maybe_time(get("started_at")),
            ended_at=_maybe_time(get("ended_at")),
            events=tuple(_event_from(one["S"]) for one in item["events"]["L"]) if "events" in item else (),
            others={} if _KNOWN.issuperset(item) else {name: item[name] for name in item if name not in _KNOWN},
        )

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
            at=from_text(item["at"]["S"]),
            progress=float(item["progress"]["N"]) if "progress" in item else None,
            step=_text(get("step")),
            message=_text(get("message")),
            data=_maybe_text(get("data")),
            attempt=int(_number(get("attempt"))),
        )

    def event_of(self, item: Item) -> Event:
        get = item.get
        number = int(item["record"]["S"].partition("#")[2])
        attempt = int(_number(get("attempt")))
        return Event(
            number, item["type"]["S"], from_text(item["at"]["S"]), attempt, _text(get("owner")), _text(get("detail"))
        )

    def checkpoint_of(self, item: Item) -> Checkpoint:
        return Checkpoint(
            name=item["record"]["S"].partition("#")[2],
            version=int(item["version"]["N"]),
            at=from_text(item["at"]["S"]),
            data=payload_of(item["data"]),
            summary=_text(item.get("summary")),
            attempt=int(_number(item.get("attempt"))),
        )

    def file_of(self, item: Item) -> JobFile:
        return JobFile(item["record"]["S"].partition("#")[2], _file_of(item["file"]["M"]))


_MAIN: Final = {"S": "main"}
_REMEMBERED: Final = 4_096
"""Events are written again with each change of their job's main record."""
_MOST_SHARDS: Final = 256
_REGISTRATION_SECONDS: Final = 10
_KNOWN: Final = frozenset(
    {
        *("job_id", "record", "task", "state", "created_at", "updated_at", "run_at", "ttl", "queue", "tenant", "args"),
        *("priority", "retries", "version", "attempt", "failures", "crashes", "lease_owner", "lease_token"),
        *("lease_until", "lease_seconds", "progress", "step", "entries", "result", "error", "cancel_reason"),
        *("waiting_for", "after", "unregistered", "has_children", "unique", "limit_key", "limit", "started_at"),
        *("ended_at", "claim_pool", "claim_order", "events", "state_shard", "task_shard", "time_shard", "listed_at"),
        WRITE_NAME,
    }
)


def _entry_record(number: int) -> str:
    return f"progress#{number:09d}"


@lru_cache(_REMEMBERED)
def _event_text(event: Event) -> str:
    form: dict[str, Any] = {"number": event.number, "type": event.type, "at": to_text(event.at)}
    form["attempt"] = event.attempt
    if event.owner:
        form["owner"] = event.owner
    if event.detail:
        form["detail"] = event.detail
    return orjson.dumps(form).decode()


@lru_cache(_REMEMBERED)
def _event_from(text: str) -> Event:
    form = orjson.loads(text)
    at = from_text(form["at"])
    return Event(form["number"], form["type"], at, form["attempt"], form.get("owner", ""), form.get("detail", ""))


def shard_of(job_id: str, shards: int) -> int:
    return crc32(job_id.encode()) % shards


def claim_place(job: Job) -> tuple[str, str] | None:
    """Where the job stands in the claim index: its pool and its order there; None where nobody should look at it.

    `ready`: it may be claimed now, the highest priority and the oldest first. `wake`: something is to be done at a
    time: a job that is due later, a lease that runs out, an ended job whose children must be told (at once), or a job
    whose maker has died before all of those that it waits for knew. `keep`: it waits for other jobs; half of its time
    before it expires, somebody should see to it that it does not (expiry.py).
    """
    if job.state is State.QUEUED:
        if job.unregistered:
            return "wake", f"{to_text(job.updated_at + _REGISTRATION_SECONDS)}#{job.id}"
        if job.waiting_for:
            return "keep", f"{to_text((job.updated_at + job.expires_at) / 2)}#{job.id}"
        if job.run_at > job.updated_at:
            return "wake", f"{to_text(job.run_at)}#{job.id}"
        return "ready", f"{HIGHEST_PRIORITY - job.priority}#{to_text(job.run_at)}#{job.id}"
    if job.state is State.PROCESSING:
        if job.lease is None:
            return None
        return "wake", f"{to_text(job.lease.takeable_at)}#{job.id}"
    return ("wake", f"{to_text(job.updated_at)}#{job.id}") if job.has_children else None


def number_text(value: float) -> str:
    """A float exactly as Python writes it, a whole one without its `.0`."""
    return str(int(value)) if value == int(value) else repr(float(value))


def payload_value(payload: Payload) -> dict[str, Any]:
    if payload.text is not None:
        return {"S": payload.text}
    if payload.record is not None:
        return {"M": {"record": {"S": payload.record}}}
    if payload.file is None:
        raise ValueError("a payload has a text, a record or a file")
    return _file_value(payload.file)


def payload_of(value: Mapping[str, Any]) -> Payload:
    if "S" in value:
        return Payload(value["S"])
    kept = value["M"]
    if "record" in kept:
        return Payload(record=kept["record"]["S"])
    return Payload(file=_file_of(kept))


def _file_value(file: SavedFile) -> dict[str, Any]:
    texts = {name: {"S": value} for name, value in file.form().items() if name != "size"}
    return {"M": {**texts, "size": {"N": str(file.size)}}}


def _file_of(kept: Mapping[str, Any]) -> SavedFile:
    return SavedFile.parse({name: value.get("S", value.get("N")) for name, value in kept.items()})


def _add_counts(item: Item, job: Job) -> None:
    if job.token:
        item["lease_token"] = {"N": str(job.token)}
        item["attempt"] = {"N": str(job.attempt)}
    if job.failures:
        item["failures"] = {"N": str(job.failures)}
    if job.crashes:
        item["crashes"] = {"N": str(job.crashes)}
    if job.entries:
        item["entries"] = {"N": str(job.entries)}
        item["progress"] = {"N": number_text(job.progress)}
    elif job.progress:
        item["progress"] = {"N": number_text(job.progress)}
    if job.lease is not None:
        item["lease_owner"] = {"S": job.lease.owner}
        item["lease_until"] = {"S": to_text(job.lease.until)}
        item["lease_seconds"] = {"N": number_text(job.lease.seconds)}


def _add_options(item: Item, job: Job) -> None:
    if job.tenant:
        item["tenant"] = {"S": job.tenant}
    if job.priority != DEFAULT_PRIORITY:
        item["priority"] = {"N": str(job.priority)}
    if job.retries:
        item["retries"] = {"N": str(job.retries)}
    if job.after:
        item["after"] = {"L": [{"S": one} for one in job.after]}
    if job.waiting_for:
        item["waiting_for"] = {"SS": sorted(job.waiting_for)}
    if job.unregistered:
        item["unregistered"] = {"BOOL": True}
    if job.has_children:
        item["has_children"] = {"BOOL": True}
    if job.unique is not None:
        item["unique"] = {"S": job.unique}
    if job.limit_key is not None:
        item["limit_key"] = {"S": job.limit_key}
        item["limit"] = {"N": str(job.limit)}


def _add_outcome(item: Item, job: Job) -> None:
    if job.step:
        item["step"] = {"S": job.step}
    if job.started_at is not None:
        item["started_at"] = {"S": to_text(job.started_at)}
    if job.ended_at is not None:
        item["ended_at"] = {"S": to_text(job.ended_at)}
    if job.result is not None:
        item["result"] = payload_value(job.result)
    if job.cancel_reason is not None:
        item["cancel_reason"] = {"S": job.cancel_reason}
    if job.error is not None:
        error = {"kind": {"S": job.error.kind}, "message": {"S": job.error.message}}
        if job.error.trace:
            error["trace"] = {"S": job.error.trace}
        item["error"] = {"M": error}


def _add_texts(item: Item, **texts: str) -> None:
    for name, text in texts.items():
        if text:
            item[name] = {"S": text}


def _text(value: Mapping[str, str] | None) -> str:
    return "" if value is None else value["S"]


def _maybe_text(value: Mapping[str, str] | None) -> str | None:
    return None if value is None else value["S"]


def _number(value: Mapping[str, str] | None, default: float = 0) -> float:
    return default if value is None else float(value["N"])


def _maybe_time(value: Mapping[str, str] | None) -> float | None:
    return None if value is None else from_text(value["S"])


def _error_of(value: Mapping[str, Any] | None) -> JobError | None:
    if value is None:
        return None
    error = value["M"]
    return JobError(error["kind"]["S"], error["message"]["S"], _text(error.get("trace")))
