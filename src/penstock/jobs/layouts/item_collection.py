"""The default layout: each job is one item collection, so that all of it is read by one Query.

job_id          record                  what
job_…           main                    the job
job_…           progress#000000001      its numbered log
job_…           checkpoint#parsed       its checkpoints
job_…           event#00000003          what happened to it, long ago; the newest events are in main
job_…           file#report.xlsx        its files
job_…           payload#args            arguments or a result that are long
job_…           child#job_…             who waits for it
job_…           depends_on#00           the ids of many jobs that it depends on
job_…           waiting_for#00          those of them that it still waits for
job_…           tag#import              one of its tags: in the index by time, in a partition of the tag's own
job_…           operation#sleep:1       what its task waits or waited for, by the operation's key
job_…           sent#approval#00000001  events that it has not taken
job_…           sent_id#…               events that were sent with an id
job_…           made#00000001           the ids of its children, in the order in which its task made them
queue#default   main                    a queue's settings; likewise limit#…, rate#…, unique#…, turn#…, schedule#…; and
                                        tenants, workers, schedules (of 0.1) and settings, of which there is one each
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import is_not, itemgetter
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import orjson

from penstock.clock import utc_seconds, utc_text
from penstock.jobs.layouts import tables
from penstock.jobs.layouts.layout import WRITE_NAME, ClaimIndex, Item, Listing, ReadCall, Record, shard_of
from penstock.jobs.model.job import (
    ALL_COMPLETED,
    DEFAULT_PRIORITY,
    HIGHEST_PRIORITY,
    LIMIT_POOL,
    RATE_POOL,
    TASK_POOL,
    Checkpoint,
    Entry,
    Event,
    History,
    Job,
    JobError,
    JobFile,
    Payload,
    Wait,
    job_of_fields,
)
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS
from penstock.jobs.model.workflow import Operation, SentEvent
from penstock.leases import Lease

if TYPE_CHECKING:
    from penstock.files.content import SavedFile
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
        """Also of the items beside the jobs, whose names no job can have (side_items.py, job.py)."""
        return {"job_id": {"S": job_id}, "record": {"S": "main"}}

    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing:
        if state is not None:
            return self._listing(tables.STATE_INDEX, "state_shard", f"{tenant}#{state.value}")
        if task is not None:
            return self._listing(tables.TASK_INDEX, "task_shard", f"{tenant}#{task}")
        return self._listing(tables.TIME_INDEX, "time_shard", tenant)

    def tag_listing(self, tenant: str, tag: str) -> Listing:
        """The jobs that have the tag. No tenant's name has a #: these partitions hold nothing else."""
        return self._listing(tables.TIME_INDEX, "time_shard", f"{tenant}#tag#{tag}")

    def place(self, job: Job) -> str:
        """Where the job stands in every list: the value of its `order`."""
        return f"{utc_text(job.created_at)}#{job.id}"

    def _listing(self, index: str, name: str, prefix: str) -> Listing:
        return Listing(index, name, tuple(f"{prefix}#{shard}" for shard in range(self.shards)), "listed_at")

    def reads(self, job_id: str) -> tuple[ReadCall, ...]:
        """The calls that read all of a job, page by page."""
        return (self._query(job_id),)

    def children(self, job_id: str) -> ReadCall:
        return self.records(job_id, "child#")

    def records(self, job_id: str, prefix: str) -> ReadCall:
        """Those of a job's records whose names begin so, in the order of their names."""
        return self._query(job_id, prefix)

    def entries(self, job_id: str, after: int) -> ReadCall:
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
        return ReadCall("Query", request)

    def child_of(self, item: Item) -> str:
        child: str = item["record"]["S"].partition("#")[2]
        return child

    def record_get(self, job_id: str, record: str) -> ReadCall:
        key = {"job_id": {"S": job_id}, "record": {"S": record}}
        return ReadCall("GetItem", {"TableName": self.table, "Key": key, "ConsistentRead": True})

    def _query(self, job_id: str, prefix: str = "") -> ReadCall:
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
        return ReadCall("Query", request)

    # ── values to items ──────────────────────────────────────────────────────────────────────────

    def main(self, job: Job) -> Item:
        return item_of(job, self.shards)

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
        item["data"] = _payload_value(checkpoint.data)
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

    def tags(self, job: Job) -> list[Record]:
        """A record for each tag, by which `tag_listing` finds the job."""
        shard = shard_of(job.id, self.shards)
        records = []
        for tag in job.tags:
            item = self._record(job, f"tag#{tag}", job.created_at)
            item["time_shard"] = {"S": f"{job.tenant}#tag#{tag}#{shard}"}
            item["listed_at"] = {"S": self.place(job)}
            records.append(Record(self.table, item))
        return records

    def dependencies(self, job: Job, ids: Sequence[str]) -> list[Record]:
        """The ids of the jobs that it depends on, which never change."""
        records = []
        for number, start in enumerate(range(0, len(ids), _DEPENDENCIES_TOGETHER)):
            item = self._record(job, f"depends_on#{number:02d}", job.updated_at)
            item["ids"] = {"L": [{"S": one} for one in ids[start : start + _DEPENDENCIES_TOGETHER]]}
            records.append(Record(self.table, item))
        return records

    def waiting(self, job: Job, part: int, ids: Collection[str]) -> Record:
        """Those of them that it waits for and that belong into this part."""
        item = self._record(job, f"waiting_for#{part:02d}", job.updated_at)
        if ids:
            item["ids"] = {"SS": sorted(ids)}
        return Record(self.table, item)

    def dependency_keys(self, job: Job) -> list[Item]:
        count = -(-job.dependency_count // _DEPENDENCIES_TOGETHER)
        return [self._record_key(job, f"depends_on#{number:02d}") for number in range(count)]

    def waiting_key(self, job: Job, part: int) -> Item:
        return self._record_key(job, f"waiting_for#{part:02d}")

    def ids_of(self, item: Item) -> list[str]:
        """The ids in a record of one of these kinds, in their order."""
        ids = item.get("ids", {})
        return [one["S"] for one in ids["L"]] if "L" in ids else list(ids.get("SS", ()))

    def operation(self, job: Job, operation: Operation) -> Record:
        item = self._record(job, f"operation#{operation.key}", job.updated_at)
        item["about"] = {"S": operation.about}
        item["done"] = {"BOOL": operation.is_done}
        item["parts"] = {"N": str(operation.parts)}
        if operation.until is not None:
            item["until"] = {"S": utc_text(operation.until)}
        if operation.data is not None:
            item["data"] = _payload_value(operation.data)
        return Record(self.table, item)

    def sent(self, job: Job, event: SentEvent) -> Record:
        item = self._record(job, _sent_record(event.name, event.number), event.at)
        item["data"] = _payload_value(event.data)
        return Record(self.table, item)

    def sent_key(self, job: Job, event: SentEvent) -> Item:
        return self._record_key(job, _sent_record(event.name, event.number))

    def sent_id(self, job: Job, event_id: str) -> Record:
        """That an event with this id has been sent; it stays when the event has been taken."""
        return Record(self.table, self._record(job, f"sent_id#{event_id}", job.updated_at))

    def made(self, job: Job, number: int, task: str, ids: Sequence[str]) -> Record:
        """Some of its children, all of one task; `number` is that of the first."""
        item = self._record(job, f"made#{number:08d}", job.updated_at)
        item["task"] = {"S": task}
        item["ids"] = {"L": [{"S": one} for one in ids]}
        return Record(self.table, item)

    def _record_key(self, job: Job, record: str) -> Item:
        key: Item = self.record_get(job.id, record).request["Key"]
        return key

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
            step=_text_from(get("step")),
            message=_text_from(get("message")),
            data=_maybe_text(get("data")),
            attempt=int(_number_from(get("attempt"))),
        )

    def event_of(self, item: Item) -> Event:
        get = item.get
        return Event(
            number=int(item["record"]["S"].partition("#")[2]),
            type=item["type"]["S"],
            at=utc_seconds(item["at"]["S"]),
            attempt=int(_number_from(get("attempt"))),
            owner=_text_from(get("owner")),
            detail=_text_from(get("detail")),
        )

    def checkpoint_of(self, item: Item) -> Checkpoint:
        return Checkpoint(
            name=item["record"]["S"].partition("#")[2],
            version=int(item["version"]["N"]),
            at=utc_seconds(item["at"]["S"]),
            data=_payload_from(item["data"]),
            summary=_text_from(item.get("summary")),
            attempt=int(_number_from(item.get("attempt"))),
        )

    def operation_of(self, item: Item) -> Operation:
        return Operation(
            key=item["record"]["S"].partition("#")[2],
            about=item["about"]["S"],
            until=utc_seconds(item["until"]["S"]) if "until" in item else None,
            is_done=item["done"]["BOOL"],
            data=_payload_from(item["data"]) if "data" in item else None,
            parts=int(item["parts"]["N"]),
        )

    def sent_of(self, item: Item) -> SentEvent:
        _, name, number = item["record"]["S"].split("#")
        return SentEvent(name, int(number), utc_seconds(item["at"]["S"]), _payload_from(item["data"]))

    def file_of(self, item: Item) -> JobFile:
        return JobFile(item["record"]["S"].partition("#")[2], _file_from(item["file"]["M"]))


_MOST_SHARDS: Final = 256
_DEPENDENCIES_TOGETHER: Final = 1_000
"""Of 200 bytes at most: an item holds 400 KB."""


def _entry_record(number: int) -> str:
    return f"progress#{number:09d}"


def _sent_record(name: str, number: int) -> str:
    return f"sent#{name}#{number:08d}"


# ── parts of a job as attributes in DynamoDB's JSON, and back ────────────────────────────────────

_STORED_KINDS: Final = {KILLED_WORKERS: "Parked"}
"""Kinds of errors that are stored by another word: tables are older than the word."""
_READ_KINDS: Final = {stored: kind for kind, stored in _STORED_KINDS.items()}


def number_text(value: float) -> str:
    """A float exactly as Python writes it, a whole one without its `.0`."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _payload_value(payload: Payload) -> dict[str, Any]:
    if payload.text is not None:
        return {"S": payload.text}
    if payload.record is not None:
        return {"M": {"record": {"S": payload.record}}}
    if payload.file is None:
        raise ValueError("a payload has a text, a record or a file")
    return _file_value(payload.file)


def _payload_from(value: Mapping[str, Any]) -> Payload:
    if "S" in value:
        return Payload(value["S"])
    kept = value["M"]
    if "record" in kept:
        return Payload(record=kept["record"]["S"])
    return Payload(file=_file_from(kept))


def _file_value(file: SavedFile) -> dict[str, Any]:
    texts = {name: {"S": value} for name, value in file.form().items() if name != "size"}
    return {"M": {**texts, "size": {"N": str(file.size)}}}


def _file_from(kept: Mapping[str, Any]) -> SavedFile:
    from penstock.files.content import SavedFile

    return SavedFile.parse({name: value.get("S", value.get("N")) for name, value in kept.items()})


def _error_value(error: JobError) -> dict[str, Any]:
    kind = _STORED_KINDS.get(error.kind, error.kind)
    kept = {"kind": {"S": kind}, "message": {"S": error.message}}
    if error.trace:
        kept["trace"] = {"S": error.trace}
    return {"M": kept}


def _add_texts(item: Item, **texts: str) -> None:
    for name, text in texts.items():
        if text:
            item[name] = {"S": text}


def _text_from(value: Mapping[str, str] | None) -> str:
    return "" if value is None else value["S"]


def _maybe_text(value: Mapping[str, str] | None) -> str | None:
    return None if value is None else value["S"]


def _number_from(value: Mapping[str, str] | None, default: float = 0) -> float:
    return default if value is None else float(value["N"])


def _error_from(value: Mapping[str, Any]) -> JobError:
    error = value["M"]
    kind: str = error["kind"]["S"]
    return JobError(_READ_KINDS.get(kind, kind), error["message"]["S"], _text_from(error.get("trace")))


# ── where a job stands among those that wait ─────────────────────────────────────────────────────

_REGISTRATION_SECONDS: Final = 10
_REGISTRATION_SECONDS_EACH: Final = 0.01


def claim_place(job: Job) -> tuple[str, str] | None:
    """Where the job stands in the claim index: its pool and its order there; None where nobody should look at it.

    `ready`: it may be claimed now, the highest priority first, then tenants in turn, then the oldest. `wake`: something
    is to be done at a time: a job that is due later, a lease that runs out (both with their priority, so that the
    urgent ones of many are found by their keys: queries._find_urgent), an ended job whose children must be told (at
    once), a retried one whose children must be revived, or a job whose maker has died before all of those that it waits
    for knew. `keep`: it waits for other jobs, or for an event without a timeout; half of its time before it expires,
    somebody should see to it that it does not (retention.py). A job that could be claimed, and that its limit, its rate
    or the lack of its task keeps from starting, is in a pool of its concurrency key, its rate key or its task, in the
    order of `ready`. A copy that was pulled from another database is in none, whatever its state: no worker may start
    it, nor tell others of its end.
    """
    if job.pulled_from:
        return None
    if job.state is State.QUEUED:
        if job.reviving:
            return "wake", f"{utc_text(job.updated_at)}#{job.id}"
        if job.unregistered:
            seconds = _REGISTRATION_SECONDS + job.dependency_count * _REGISTRATION_SECONDS_EACH
            return "wake", f"{utc_text(job.updated_at + seconds)}#{job.id}"
        if job.is_waiting or job.parked:
            return "keep", f"{utc_text((job.updated_at + job.expires_at) / 2)}#{job.id}"
        if job.pool:
            return job.pool, ready_order(job)
        if job.run_at > job.updated_at:
            return "wake", f"{utc_text(job.run_at)}#{HIGHEST_PRIORITY - job.priority}#{job.id}"
        return "ready", ready_order(job)
    if job.state is State.PROCESSING:
        if job.lease is None:
            return None
        return "wake", f"{utc_text(job.lease.takeable_at)}#{HIGHEST_PRIORITY - job.priority}#{job.id}"
    return ("wake", f"{utc_text(job.updated_at)}#{job.id}") if job.has_children else None


def ready_order(job: Job) -> str:
    """Its place among the ready jobs, and in the pools of limits and tasks."""
    return f"{HIGHEST_PRIORITY - job.priority}#{utc_text(job.run_at if job.turn is None else job.turn)}#{job.id}"


def limit_pool(concurrency_key: str) -> str:
    """The jobs of all queues that wait for a slot of the key. No queue's name is empty."""
    return f"#{LIMIT_POOL}#{concurrency_key}"


def rate_pool(rate_key: str) -> str:
    """The jobs of all queues that wait for a slot of the rate key."""
    return f"#{RATE_POOL}#{rate_key}"


def task_pool(queue: str, task: str) -> str:
    """The jobs of a queue that wait for a worker that has their task."""
    return f"{queue}#{TASK_POOL}#{task}"


_REMEMBERED: Final = 4_096
"""Events are written again with each change of their job's main record."""


# ── a job's main record: to an item ──────────────────────────────────────────────────────────────
#
# Every job is written and read so a few times in its life, and short ones have little else to pay for: what a record
# does not have costs nothing here.


def item_of(job: Job, shards: int) -> Item:
    shard = crc32(job.id.encode()) % shards  # as shard_of: every write of every job comes here
    created = utc_text(job.created_at)
    item: Item = {
        **job.others,
        **_shared_values(job.task, job.state._value_, job.queue, job.tenant, shard),
        "job_id": {"S": job.id},
        "created_at": {"S": created},
        "updated_at": {"S": utc_text(job.updated_at)},
        "run_at": {"S": utc_text(job.run_at)},
        "ttl": {"N": str(job.expires_at)},
        "args": _payload_value(job.args),
        "version": {"N": str(job.version)},
        "listed_at": {"S": f"{created}#{job.id}"},
    }
    place = claim_place(job)
    if place is not None:
        pool = f"{job.queue}#{place[0]}#{shard}"
        if place[0] == LIMIT_POOL:
            pool = limit_pool(job.concurrency_key or "")
        elif place[0] == RATE_POOL:
            pool = rate_pool(job.rate_key or "")
        elif place[0] == TASK_POOL:
            pool = task_pool(job.queue, job.task)
        item["claim_pool"] = {"S": pool}
        item["claim_order"] = {"S": place[1]}
    lease = job.lease
    if lease is not None:
        item["lease_owner"] = {"S": lease.owner}
        item["lease_until"] = {"S": utc_text(lease.until)}
        item["lease_seconds"] = {"N": number_text(lease.seconds)}
    if job.entries:  # its reports may say 0 %
        item["progress"] = {"N": number_text(job.progress)}
    values = job.__dict__
    # Most are absent, and the very same object: those are passed over without a step of the interpreter's.
    for attribute, name, absent, wire, _ in compress(_FIELDS, map(is_not, _optional(values), _ABSENT_VALUES)):
        value = values[name]
        if value != absent:
            item[attribute] = wire(value)
    return item


@lru_cache(_REMEMBERED)
def _shared_values(task: str, state: str, queue: str, tenant: str, shard: int) -> Item:
    """What is the same in the records of many jobs; nobody changes it."""
    return {
        "record": {"S": "main"},
        "task": {"S": task},
        "state": {"S": state},
        "queue": {"S": queue},
        "state_shard": {"S": f"{tenant}#{state}#{shard}"},
        "task_shard": {"S": f"{tenant}#{task}#{shard}"},
        "time_shard": {"S": f"{tenant}#{shard}"},
    }


@lru_cache(_REMEMBERED)
def _event_text(event: Event) -> str:
    form: dict[str, Any] = {"number": event.number, "type": event.type, "at": utc_text(event.at)}
    form["attempt"] = event.attempt
    if event.owner:
        form["owner"] = event.owner
    if event.detail:
        form["detail"] = event.detail
    return orjson.dumps(form).decode()


# ── a job's main record: from an item ────────────────────────────────────────────────────────────


def job_of(item: Item) -> Job:
    state: str = item["state"]["S"]
    fields: dict[str, Any] = {
        **_ABSENT,
        "id": item["job_id"]["S"],
        "task": item["task"]["S"],
        "state": _STATES.get(state) or State(state),
        "created_at": utc_seconds(item["created_at"]["S"]),
        "updated_at": utc_seconds(item["updated_at"]["S"]),
        "run_at": utc_seconds(item["run_at"]["S"]),
        "expires_at": int(item["ttl"]["N"]),
        "queue": item["queue"]["S"],
        "args": _payload_from(item["args"]),
        "version": int(item["version"]["N"]),
        "others": {},
    }
    if not _ALWAYS.issuperset(item):
        _add_rest(fields, item)
    return job_of_fields(fields)


def _add_rest(fields: dict[str, Any], item: Item) -> None:
    others: Item = fields["others"]
    for name, value in item.items():
        if name in _ALWAYS:
            continue
        field = _READ.get(name)
        if field is not None:
            fields[field[0]] = field[1](value)
        elif name not in _OF_LEASE:
            others[name] = value
    if "lease_owner" in item:
        seconds, until = float(item["lease_seconds"]["N"]), utc_seconds(item["lease_until"]["S"])
        fields["lease"] = Lease(item["lease_owner"]["S"], fields["token"], until, seconds)


def _whole(value: Mapping[str, str]) -> int:
    return int(float(value["N"]))


def _texts(value: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["S"] for one in value["L"])


def _events(value: Mapping[str, Any]) -> tuple[Event, ...]:
    return tuple([_event_from(one["S"]) for one in value["L"]])


@lru_cache(_REMEMBERED)
def _event_from(text: str) -> Event:
    form = orjson.loads(text)
    at = utc_seconds(form["at"])
    return Event(form["number"], form["type"], at, form["attempt"], form.get("owner", ""), form.get("detail", ""))


_STATES: Final = {state.value: state for state in State}


def _text_value(value: str) -> Item:
    return {"S": value}


def _whole_value(value: int) -> Item:
    return {"N": str(value)}


def _time_value(value: float) -> Item:
    return {"S": utc_text(value)}


def _time_from(value: Mapping[str, str]) -> float:
    return utc_seconds(value["S"])


def _true_value(value: bool) -> Item:
    return {"BOOL": value}


def _set(value: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(value["SS"])


def _wait_value(wait: Wait) -> Item:
    value: Item = {"key": {"S": wait.key}}
    if wait.until is not None:
        value["until"] = {"S": utc_text(wait.until)}
    if wait.event:
        value["event"] = {"S": wait.event}
    if wait.children:
        value["children"] = {"N": str(wait.children)}
    if wait.about:
        value["about"] = {"S": wait.about}
    if wait.beside:
        value["beside"] = {"L": [{"S": one} for one in wait.beside]}
    return {"M": value}


def _wait_from(value: Mapping[str, Any]) -> Wait:
    kept = value["M"]
    return Wait(
        kept["key"]["S"],
        utc_seconds(kept["until"]["S"]) if "until" in kept else None,
        _text_from(kept.get("event")),
        int(_number_from(kept.get("children"))),
        _text_from(kept.get("about")),
        _texts(kept["beside"]) if "beside" in kept else (),
    )


_text: Final = itemgetter("S")
_true: Final = itemgetter("BOOL")
_Field = tuple[str, str, Any, Callable[[Any], Item], Callable[[Any], Any]]
_FIELDS: Final[tuple[_Field, ...]] = (
    ("tenant", "tenant", "", _text_value, _text),
    ("priority", "priority", DEFAULT_PRIORITY, _whole_value, _whole),
    ("retries", "retries", 0, _whole_value, _whole),
    ("lease_token", "token", 0, _whole_value, _whole),
    ("attempt", "attempt", 0, _whole_value, _whole),
    ("failures", "failures", 0, _whole_value, _whole),
    ("crashes", "crashes", 0, _whole_value, _whole),
    ("requeues", "requeues", 0, _whole_value, _whole),
    ("suspect", "suspect", False, _true_value, _true),
    ("entries", "entries", 0, _whole_value, _whole),
    ("progress", "progress", 0.0, lambda value: {"N": number_text(value)}, lambda value: float(value["N"])),
    ("step", "step", "", _text_value, _text),
    ("events", "events", (), lambda value: {"L": [{"S": _event_text(one)} for one in value]}, _events),
    ("started_at", "started_at", None, _time_value, _time_from),
    ("ended_at", "ended_at", None, _time_value, _time_from),
    ("result", "result", None, _payload_value, _payload_from),
    ("error", "error", None, _error_value, _error_from),
    ("cancel_reason", "cancel_reason", None, _text_value, _text),
    ("after", "depends_on", (), lambda value: {"L": [{"S": one} for one in value]}, _texts),
    (
        "waiting_for",
        "waiting_for",
        frozenset(),
        lambda value: {"SS": sorted(value)},
        lambda value: frozenset(value["SS"]),
    ),
    ("depends_on_policy", "depends_on_policy", ALL_COMPLETED, _text_value, _text),
    ("dependency_count", "dependency_count", 0, _whole_value, _whole),
    ("waiting_parts", "waiting_parts", 0, _whole_value, _whole),
    ("unregistered", "unregistered", False, _true_value, _true),
    ("has_children", "has_children", False, _true_value, _true),
    ("children_told", "children_told", False, _true_value, _true),
    ("reviving", "reviving", False, _true_value, _true),
    ("cancelled_by", "cancelled_by", None, _text_value, _text),
    ("turn", "turn", None, _time_value, _time_from),
    ("pool", "pool", "", _text_value, _text),
    ("wait", "wait", None, _wait_value, _wait_from),
    ("parked", "parked", False, _true_value, _true),
    ("sent", "sent", 0, _whole_value, _whole),
    ("unread", "unread", 0, _whole_value, _whole),
    ("parent_id", "parent_id", None, _text_value, _text),
    ("child_count", "child_count", 0, _whole_value, _whole),
    ("cancel_children", "cancel_children", False, _true_value, _true),
    ("task_version", "task_version", 1, _whole_value, _whole),
    ("unique", "unique_key", None, _text_value, _text),
    ("limit_key", "concurrency_key", None, _text_value, _text),
    ("limit", "max_concurrent", 0, _whole_value, _whole),
    ("rate_key", "rate_key", None, _text_value, _text),
    ("rate", "rate", "", _text_value, _text),
    ("rate_at", "rate_at", None, _time_value, _time_from),
    ("schedule", "schedule", "", _text_value, _text),
    ("secret", "secret", (), lambda value: {"L": [{"S": one} for one in value]}, _texts),
    ("tags", "tags", (), lambda value: {"L": [{"S": one} for one in value]}, _texts),
    ("traceparent", "traceparent", "", _text_value, _text),
    ("webhook", "webhook", None, _text_value, _text),
    ("forked_from", "forked_from", "", _text_value, _text),
    ("pulled_from", "pulled_from", "", _text_value, _text),
    ("masked", "masked", (), lambda value: {"L": [{"S": one} for one in value]}, _texts),
)
"""What a record may lack: its attribute, the job's field (tables are older than some of their names), the field's value
where the attribute is absent, and how it is written and read.
"""

_optional: Final = itemgetter(*(name for _, name, _, _, _ in _FIELDS))
_ABSENT_VALUES: Final = tuple(absent for _, _, absent, _, _ in _FIELDS)
_READ: Final = {attribute: (name, read) for attribute, name, _, _, read in _FIELDS}
_OF_LEASE: Final = frozenset({"lease_owner", "lease_until", "lease_seconds"})
_ALWAYS: Final = frozenset(
    {
        *("job_id", "record", "task", "state", "created_at", "updated_at", "run_at", "ttl", "queue", "args", "version"),
        *("state_shard", "task_shard", "time_shard", "listed_at", "claim_pool", "claim_order", WRITE_NAME),
    }
)
"""What nearly every record has, and nothing is left to be read of."""

_ABSENT: Final = {"lease": None, **{name: absent for _, name, absent, _, _ in _FIELDS}}
"""What a job is where its record does not say."""
