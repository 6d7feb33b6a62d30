"""How a job becomes items: what the store asks of a layout.

A layout is pure functions between values (job.py) and items in DynamoDB's JSON; the store does the rest. The default is
CollectionLayout (item_collection.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from zlib import crc32

from penstock.jobs.model.job import Checkpoint, Entry, Event, History, Job, JobFile
from penstock.jobs.model.state import State
from penstock.tables.definitions.definition import Table

Item = dict[str, Any]

WRITE_NAME: Final = "write"
"""The attribute of a main record that says which write it is by (conditional_writes.py, 4). No layout may use it."""


@dataclass(frozen=True, slots=True)
class Record:
    """An item, and the table it is for."""

    table: str
    item: Item


@dataclass(frozen=True, slots=True)
class ReadCall:
    """An operation that reads, and its request."""

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
    def dependencies(self, job: Job, ids: Sequence[str]) -> list[Record]: ...
    def waiting(self, job: Job, part: int, ids: Collection[str]) -> Record: ...
    def dependency_keys(self, job: Job) -> list[Item]: ...
    def waiting_key(self, job: Job, part: int) -> Item: ...
    def ids_of(self, item: Item) -> list[str]: ...

    def record_get(self, job_id: str, record: str) -> ReadCall: ...
    def entries(self, job_id: str, after: int) -> ReadCall: ...
    def children(self, job_id: str) -> ReadCall: ...
    def reads(self, job_id: str) -> tuple[ReadCall, ...]: ...
    def history(self, items: list[Item]) -> History | None: ...
    def listing(self, tenant: str, state: State | None, task: str | None) -> Listing: ...
    def place(self, job: Job) -> str: ...


def shard_of(job_id: str, shards: int) -> int:
    return crc32(job_id.encode()) % shards
