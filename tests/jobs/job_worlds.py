"""What tests of the job store share: a store, what is in its table, and how calls are counted."""

from __future__ import annotations

from typing import Any

from penstock.client.database import Database
from penstock.client.transports.base import Transport
from penstock.clock import Clock
from penstock.files import Files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.layouts.layout import Item
from penstock.jobs.model.job import Job, JobError, NewJob
from penstock.jobs.store.store import DEFAULT_KEEP_SECONDS, JobStore

START = 1_900_000_000.0
"""In 2030: no server whose clock is right takes what a test writes for expired."""

DAY = 24 * 3600.0
LEASE = 30.0
QUICK = ["memory", "file", "http"]
"""The databases for a test of very many calls: on moto's server each takes some milliseconds."""
FAILURE = JobError("ValueError", "no such project")


def new_store(
    db: Database,
    clock: Clock,
    table: str = "jobs",
    *,
    files: Files | None = None,
    keep_seconds: float = DEFAULT_KEEP_SECONDS,
    shards: int = 2,
) -> JobStore:
    store = JobStore(db, CollectionLayout(table, shards=shards), files=files, clock=clock, keep_seconds=keep_seconds)
    store.create_tables()
    return store


def same_table(store: JobStore, db: Database | None = None, **options: Any) -> JobStore:
    """Another store on the same table: another process, with its own connection or clock."""
    options = {"clock": store.clock, "files": store.files, "keep_seconds": store.keep_seconds, **options}
    return JobStore(db or store.db, store.layout, **options)


def made(store: JobStore, task: str = "report", args: dict[str, Any] | None = None, **options: Any) -> Job:
    return store.create(NewJob(task, args or {}, **options))[0]


def running(store: JobStore, owner: str = "w1", **options: Any) -> Job:
    """A job that this worker has claimed."""
    return claimed(store, made(store, **options), owner)


def claimed(store: JobStore, job: Job, owner: str = "w1", lease_seconds: float = LEASE) -> Job:
    got = store.claim(store.get(job.id), owner, lease_seconds)
    assert got is not None
    return got


def claimable(store: JobStore, queue: str = "default", limit: int = 100) -> list[str]:
    return [job.id for job in store.claimable(queue, limit).jobs]


def settle_all(store: JobStore, queue: str = "default") -> None:
    """What a worker does with what is left to do."""
    for _ in range(100):
        left = [job for job in store.claimable(queue, 100).jobs if job.needs_settling]
        if not left:
            return
        for job in left:
            store.settle(job)
    raise AssertionError("there is always something left to settle")


def items(store: JobStore) -> list[Item]:
    """All that is in the store's table."""
    found: list[Item] = []
    request: dict[str, Any] = {"TableName": store.layout.table, "ConsistentRead": True}
    while True:
        answer = store.db.execute("Scan", request)
        found += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return found
        request = {**request, "ExclusiveStartKey": answer["LastEvaluatedKey"]}


def expiries(store: JobStore, job_id: str) -> set[int]:
    """When the job's records expire: one moment, if all is well."""
    return {int(item["ttl"]["N"]) for item in items(store) if item["job_id"]["S"] == job_id}


def fill(store: JobStore, finished: int) -> None:
    """Puts so many finished jobs into the table, all alike."""
    template = store.layout.main(store.complete(running(store)))
    for start in range(0, finished, 25):
        ids = [f"job_{number}" for number in range(start, min(start + 25, finished))]
        puts = [{"PutRequest": {"Item": {**template, "job_id": {"S": job_id}}}} for job_id in ids]
        store.db.execute("BatchWriteItem", {"RequestItems": {store.layout.table: puts}})


class Counting:
    """A transport that notes each call; `fault` may raise instead of calling."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.name = inner.name
        self.calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation in ("Query", "GetItem", "BatchGetItem"):
            request = {**request, "ReturnConsumedCapacity": "TOTAL"}
        answer = self.inner.execute(operation, request)
        self.calls.append((operation, request, answer))
        return answer

    def close(self) -> None:
        self.inner.close()

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _, _ in self.calls]

    @property
    def scanned(self) -> int:
        """Items that queries have looked at."""
        return sum(answer.get("ScannedCount", 0) for _, _, answer in self.calls)


def counted(store: JobStore) -> tuple[JobStore, Counting]:
    """The same store, and the calls that it makes from now on."""
    counting = Counting(store.db.transport)
    return same_table(store, Database(counting)), counting
