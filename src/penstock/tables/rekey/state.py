"""What is known of a rekey between its runs: an item of the table `penstock-rekey`, in the same database.

1. One job a source table.
2. Every write of a job's item is conditional on the run's own token: of two runs, one works and the other is refused.
3. A run holds the job for `lease_seconds` and renews that all the time. One that was killed lets go by itself.
4. A run that finds its lease lost writes nothing more, neither here nor to the new table.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import orjson

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.errors import ConditionalCheckFailedException, PenstockError, ResourceNotFoundException
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table

TABLE = "penstock-rekey"
LEASE_SECONDS = 30.0

Phase = Literal["preparing", "copying", "following", "summing", "comparing", "clearing", "ready", "confirmed"]
"""In their order. Summing finds where the tables may differ; there comparing looks whether every old item is in the new
table, and clearing whether nothing else is.
"""

_DEFINITION = Table(TABLE, key="source:S", tags={"ManagedBy": "penstock"})


class JobHeld(PenstockError):
    """Another run works on the job."""

    def __init__(self, source: str, held_by: str) -> None:
        super().__init__(source, held_by)
        self.source = source
        self.held_by = held_by

    def __str__(self) -> str:
        return f"The rekey of {self.source} is being worked on by {self.held_by}. Stop that run, or let it finish."


class JobLost(PenstockError):
    """The lease ran out, and another run may have the job."""

    def __str__(self) -> str:
        return "This run was held up so long that its lease ran out. Run it again: it continues, or says who has it."


@dataclass(slots=True)
class Job:
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
    """The buckets that the sums left in doubt (rekey_sums); None: everything."""
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


class JobStore:
    """The jobs of a database, and this run's hold on one of them."""

    def __init__(self, db: Database, *, lease_seconds: float = LEASE_SECONDS, clock: Clock | None = None) -> None:
        self._db = db
        self._lease_seconds = lease_seconds
        self._clock = clock or SystemClock()
        self.owner = f"{socket.gethostname()} pid {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._beat: threading.Thread | None = None
        self._stop = threading.Event()
        self._good_until = 0.0

    def read(self, source: str) -> Job | None:
        """The job, whoever works on it."""
        item = self._item(source)
        return None if item is None else _job(item)

    def holder(self, source: str) -> str | None:
        """Who works on the job now."""
        item = self._item(source)
        if item is None or float(item["lease_until"]["N"]) <= self._clock.now():
            return None
        return str(item["owner"]["S"])

    def _item(self, source: str) -> dict[str, Any] | None:
        request = {"TableName": TABLE, "Key": {"source": {"S": source}}, "ConsistentRead": True}
        try:
            found: dict[str, Any] | None = self._db.execute("GetItem", request).get("Item")
        except ResourceNotFoundException:
            return None
        return found

    # ── holding ──────────────────────────────────────────────────────────────────────────────────

    def begin(self, job: Job) -> None:
        """A new job, held by this run; raises JobHeld if another run was faster."""
        make(self._db, _DEFINITION, TABLE)
        try:
            self._put(job, "attribute_not_exists(#source)", {})
        except ConditionalCheckFailedException:
            raise JobHeld(job.source, self.holder(job.source) or "another run") from None
        self._hold(job.source)

    def take(self, source: str, *, sleep: Callable[[float], object] = time.sleep) -> Job:
        """Holds a job that exists; waits once for the lease of a run that was killed."""
        ends_at = time.monotonic() + self._lease_seconds + 1.0
        while not self._grasp(source):
            if time.monotonic() > ends_at:
                raise JobHeld(source, self.holder(source) or "another run")
            sleep(min(0.25, self._lease_seconds / 4))
        self._hold(source)
        job = self.read(source)
        assert job is not None  # it was there when it was grasped, and only its holder deletes it
        return job

    def _grasp(self, source: str) -> bool:
        now = self._clock.now()
        try:
            self._update(source, self._until(), "#lease <= :now OR #owner = :owner", {":now": {"N": repr(now)}})
        except ConditionalCheckFailedException:
            return False
        return True

    def _hold(self, source: str) -> None:
        self._good_until = time.monotonic() + self._lease_seconds
        self._stop.clear()
        self._beat = threading.Thread(target=self._renew, args=(source,), name="penstock-rekey-lease", daemon=True)
        self._beat.start()

    def _renew(self, source: str) -> None:
        while not self._stop.wait(self._lease_seconds / 4):
            sent_at = time.monotonic()
            try:
                self._update(source, self._until(), "#owner = :owner", {})
            except ConditionalCheckFailedException:
                self._good_until = 0.0
                return
            except PenstockError:
                continue  # the lease has time left; if not, check() says so
            self._good_until = sent_at + self._lease_seconds

    def check(self) -> None:
        """Raises JobLost unless this run holds the job for a while yet. Asked before each write."""
        if time.monotonic() > self._good_until - self._lease_seconds / 4:
            raise JobLost

    def save(self, job: Job) -> None:
        self.check()
        try:
            self._put(job, "#owner = :owner", {":owner": {"S": self.owner}})
        except ConditionalCheckFailedException:
            self._good_until = 0.0
            raise JobLost from None

    def release(self, source: str) -> None:
        """Lets another run have the job at once."""
        self._stop.set()
        if self._beat is not None:
            self._beat.join()
        if self._good_until > 0.0:
            self._good_until = 0.0
            # Otherwise it is somebody else's by now, or gone.
            with suppress(ConditionalCheckFailedException, ResourceNotFoundException):
                self._update(source, 0.0, "#owner = :owner", {})

    def delete(self, source: str) -> None:
        """Forgets the job that this run holds."""
        self.check()
        self._stop.set()
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
        self._good_until = 0.0

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _until(self) -> float:
        return self._clock.now() + self._lease_seconds

    def _put(self, job: Job, condition: str, values: dict[str, Any]) -> None:
        request: dict[str, Any] = {
            "TableName": TABLE,
            "Item": {
                "source": {"S": job.source},
                "phase": {"S": job.phase},
                "owner": {"S": self.owner},
                "lease_until": {"N": repr(self._until())},
                "job": {"S": orjson.dumps(asdict(job)).decode()},
            },
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#owner": "owner"} if values else {"#source": "source"},
        }
        if values:
            request["ExpressionAttributeValues"] = values
        self._db.execute("PutItem", request)

    def _update(self, source: str, until: float, condition: str, values: dict[str, Any]) -> None:
        self._db.execute(
            "UpdateItem",
            {
                "TableName": TABLE,
                "Key": {"source": {"S": source}},
                "UpdateExpression": "SET #lease = :until, #owner = :owner",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": {"#lease": "lease_until", "#owner": "owner"},
                "ExpressionAttributeValues": {":until": {"N": repr(until)}, ":owner": {"S": self.owner}, **values},
            },
        )


def _job(item: dict[str, Any]) -> Job:
    return Job(**orjson.loads(item["job"]["S"]))
