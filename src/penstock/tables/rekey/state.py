"""What is stored of a rekey: an item of the table `penstock-rekey`, in the same database.

1. One rekey a source table: the next one can begin when it is confirmed, and takes its place.
2. Every write of its item is conditional on the owner: of two processes, one works and the other is refused.
3. A process holds the rekey for `lease_seconds`, and renews that lease. The lease of one that was killed runs out.
   With proof that its process has ended (processes.py), it is taken at once.
4. A process that finds its lease lost writes nothing more, neither here nor to the new table.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import orjson

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import ConditionalCheckFailedException, PenstockError, ResourceNotFoundException
from penstock.leases import HeldLease, LeaseLost, LeaseRenewer
from penstock.processes import has_ended, this_process
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.own_tables import REKEY_TABLE as TABLE
from penstock.tables.rekey.new_table import TableOptions

LEASE_SECONDS = 30.0

Phase = Literal["preparing", "copying", "following", "summing", "comparing", "clearing", "ready", "confirmed"]
"""In their order. Summing finds where the tables may differ; there comparing looks whether every old item is in the new
table, and clearing whether nothing else is.
"""

_DEFINITION = Table(TABLE, key="source:S", tags={"ManagedBy": "penstock"})


class RekeyHeld(PenstockError):
    """Another process works on the rekey."""

    def __init__(self, source: str, held_by: str | None, until: float = 0.0) -> None:
        super().__init__(source, held_by, until)
        self.source = source
        self.held_by = held_by or "another run"
        self.until = until

    def __str__(self) -> str:
        ends = f" If it was killed, its lease ends at {utc_text(self.until)}." if self.until else ""
        return (
            f"The rekey of {self.source} is being worked on by {self.held_by}. Stop that run, or let it finish.{ends}"
        )


class RekeyLost(LeaseLost):
    """The lease ran out, and another process may work on the rekey."""

    def __str__(self) -> str:
        return "This run was held up so long that its lease ran out. Run it again: it continues, or says who has it."


@dataclass(slots=True)
class RekeyRun:
    """A rekey: what is wanted, and how far it is."""

    source: str
    into: str
    key: str
    map: str
    indexes: list[str]
    definition: str
    """The new table's, in export form: what it is when all is confirmed."""
    stream_is_ours: bool
    """The source had none before: it is switched off again at the end."""
    phase: Phase = "preparing"
    stream_arn: str | None = None
    """The stream that is followed."""
    places: dict[str, Any] | None = None
    """Where the scan of the phase stands; None at its beginning."""
    shards: dict[str, dict[str, Any]] = field(default_factory=dict)
    copied: int = 0
    followed: int = 0
    compared: int = 0
    """Items of the old table whose sums were compared with the new one's."""
    doubts: str | None = None
    """The buckets that the sums left in doubt (checksums.py); None: everything."""
    looked_up: int = 0
    """Items of both tables that were in doubt."""
    repaired: int = 0
    lag_seconds: float | None = None
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)
    """The first ones."""
    started_at: float = 0.0
    verified_at: float | None = None
    source_items: int = 0
    into_items: int = 0
    id: str = ""
    """Names it in the history; '' for one that was begun before there was any."""
    local_indexes: list[str] = field(default_factory=list)
    drop_indexes: list[str] = field(default_factory=list)
    into_is_ours: bool = False
    """The new table is made by this rekey, or was just about to be: rollback deletes no other."""
    is_stream_ending: bool = False
    """Confirm has compared for the last time, and switches the source's stream off, if it is ours."""
    is_deleted: bool = False
    """Rolled back, and the new table with it."""

    @property
    def options(self) -> TableOptions:
        """What was asked of the new table."""
        return TableOptions(self.key, tuple(self.indexes), tuple(self.local_indexes), tuple(self.drop_indexes))


class RekeyStore:
    """The rekeys of a database, and this process's lease on one of them."""

    def __init__(self, db: Database, *, lease_seconds: float = LEASE_SECONDS, clock: Clock | None = None) -> None:
        self._db = db
        self._lease_seconds = lease_seconds
        self._clock = clock or SystemClock()
        self.owner = f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._lease: HeldLease | None = None
        self._renewer: LeaseRenewer | None = None

    def read(self, source: str) -> RekeyRun | None:
        """The rekey, whoever works on it."""
        item = self._item(source)
        return None if item is None else _run_of(item)

    def unfinished(self) -> Iterator[RekeyRun]:
        """The rekeys that are neither confirmed nor rolled back, of all tables."""
        with suppress(ResourceNotFoundException):
            for page in read_pages(self._db.execute, "Scan", {"TableName": TABLE, "ConsistentRead": True}):
                for run in map(_run_of, page["Items"]):
                    if run.phase != "confirmed":
                        yield run

    def _held(self, source: str) -> RekeyHeld:
        item = self._item(source)
        until = 0.0 if item is None else float(item["lease_until"]["N"])
        return RekeyHeld(source, self.holder(source), until)

    def holder(self, source: str) -> str | None:
        """Who works on the rekey now."""
        item = self._item(source)
        if item is None or float(item["lease_until"]["N"]) <= self._clock.now():
            return None
        if has_ended(item.get("process", {}).get("S", "")):
            return None  # killed: the next run takes its lease (3)
        return str(item["owner"]["S"])

    def _item(self, source: str) -> dict[str, Any] | None:
        request = {"TableName": TABLE, "Key": {"source": {"S": source}}, "ConsistentRead": True}
        try:
            found: dict[str, Any] | None = self._db.execute("GetItem", request).get("Item")
        except ResourceNotFoundException:
            return None
        return found

    # ── the lease ────────────────────────────────────────────────────────────────────────────────

    def begin(self, run: RekeyRun) -> None:
        """A new rekey, held by this process; raises RekeyHeld if another one was faster."""
        make(self._db, _DEFINITION, TABLE)
        try:
            self._put(run, "attribute_not_exists(#phase) OR #phase = :confirmed", "phase", confirmed="confirmed")
        except ConditionalCheckFailedException:
            raise self._held(run.source) from None
        self._hold(run.source)

    def take(self, source: str, *, sleep: Callable[[float], object] = time.sleep) -> RekeyRun:
        """Holds a rekey that exists; waits once for the lease of a process that was killed."""
        ends_at = time.monotonic() + self._lease_seconds + 1.0
        while not self._claim(source):
            if self._item(source) is None:
                raise PenstockError(f"The rekey of {source} was rolled back by somebody else.")
            if time.monotonic() > ends_at:
                raise self._held(source)
            sleep(min(0.25, self._lease_seconds / 4))
        self._hold(source)
        run = self.read(source)
        assert run is not None  # it was there when it was claimed, and only its holder deletes it
        return run

    def _claim(self, source: str) -> bool:
        item = self._item(source)
        if item is None:
            return False
        # Of a process that is known to have ended, nobody waits for the lease.
        is_free = has_ended(item.get("process", {}).get("S", ""))
        values = {":now": {"N": repr(self._clock.now())}, ":holder": item["owner"]}
        condition = "#owner = :holder" if is_free else "#owner = :holder AND (#lease <= :now OR #owner = :owner)"
        if is_free:
            del values[":now"]
        try:
            self._update(source, self._until(), condition, values)
        except ConditionalCheckFailedException:
            return False
        return True

    def _hold(self, source: str) -> None:
        lease = HeldLease(f"The rekey of {source}", self._lease_seconds, lambda: self._renew(source))
        self._lease = lease
        self._renewer = LeaseRenewer(lambda: (lease,), name="penstock-rekey-lease")
        self._renewer.start()

    def _renew(self, source: str) -> None:
        try:
            self._update(source, self._until(), "#owner = :owner", {})
        except ConditionalCheckFailedException:
            raise RekeyLost(source) from None

    def check(self) -> None:
        """Raises RekeyLost unless this process holds the rekey for a while yet. Asked before each write."""
        try:
            if self._lease is None:
                raise RekeyLost("the rekey")
            self._lease.check(margin_seconds=self._lease_seconds / 4)
        except LeaseLost as lost:
            raise RekeyLost(lost.record) from None

    def save(self, run: RekeyRun) -> None:
        self.check()
        try:
            self._put(run, "#owner = :owner", "owner", owner=self.owner)
        except ConditionalCheckFailedException:
            self._lease = None
            raise RekeyLost(run.source) from None

    def release(self, source: str) -> None:
        """Lets another process have the rekey at once."""
        lease = self._stop_renewing()
        if lease is not None and lease.lost is None:
            # Otherwise it is somebody else's by now, or gone.
            with suppress(ConditionalCheckFailedException, ResourceNotFoundException):
                self._update(source, 0.0, "#owner = :owner", {})

    def delete(self, source: str) -> None:
        """Forgets the rekey that this process holds."""
        self.check()
        self._stop_renewing()
        self._db.execute(
            "DeleteItem",
            {
                "TableName": TABLE,
                "Key": {"source": {"S": source}},
                "ConditionExpression": "#owner = :owner",
                "ExpressionAttributeNames": {"#owner": "owner"},
                "ExpressionAttributeValues": {":owner": {"S": self.owner}},
            },
        )

    def _stop_renewing(self) -> HeldLease | None:
        """The lease as it is when nothing renews it any more."""
        if self._renewer is not None:
            self._renewer.stop()
            self._renewer = None
        lease, self._lease = self._lease, None
        return lease

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _until(self) -> float:
        return self._clock.now() + self._lease_seconds

    def _put(self, run: RekeyRun, condition: str, name: str, **values: str) -> None:
        """Writes the item if the condition on the attribute `name` holds."""
        self._db.execute(
            "PutItem",
            {
                "TableName": TABLE,
                "Item": {
                    "source": {"S": run.source},
                    "phase": {"S": run.phase},
                    "owner": {"S": self.owner},
                    "lease_until": {"N": repr(self._until())},
                    "process": {"S": this_process()},
                    "job": {"S": orjson.dumps(asdict(run)).decode()},
                },
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {f"#{name}": name},
                "ExpressionAttributeValues": {f":{word}": {"S": value} for word, value in values.items()},
            },
        )

    def _update(self, source: str, until: float, condition: str, values: dict[str, Any]) -> None:
        self._db.execute(
            "UpdateItem",
            {
                "TableName": TABLE,
                "Key": {"source": {"S": source}},
                "UpdateExpression": "SET #lease = :until, #owner = :owner, #process = :process",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {"#lease": "lease_until", "#owner": "owner", "#process": "process"},
                "ExpressionAttributeValues": {
                    ":until": {"N": repr(until)},
                    ":owner": {"S": self.owner},
                    ":process": {"S": this_process()},
                    **values,
                },
            },
        )


def _run_of(item: dict[str, Any]) -> RekeyRun:
    return RekeyRun(**orjson.loads(item["job"]["S"]))
