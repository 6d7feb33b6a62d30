"""The table `penstock-state`: leases on things, the history of tables, and records of runs that can be continued.

    state = StateTable(db)
    with state.lease(("table", "orders"), purpose="apply shop:tables") as lease:
        …                                             # lease.check() before each write
        state.append(Entry("apply", "orders", "+ index by-email"))
    for entry in state.history(table="orders"): …     # newest first

1. There is one such table in a database (an account and region, a server, a file). A physical name is there only once,
   so every environment and prefix shares it. PENSTOCK_STATE_TABLE gives it another name: two people who use different
   names do not see each other.
2. It is made by the first lease or write, pay per request. A read of a table that is not there finds nothing, and
   makes nothing.
3. A thing is a kind and a name, ("table", "orders"). A lease on it is granted by a conditional write: to one holder at
   a time, with a token that only grows (leases.py). Its item stays when it is released: tokens never begin again.
4. Every record keeps the largest token that has written it. A write with a smaller one is refused: the first write of
   a new holder shuts the one before it out, whatever the clocks say. Without a lease, the version alone decides.
5. A record is written only as the version that its writer has read; else `Conflict` says what it is now.
6. The history is append-only: an entry is never changed or deleted. Entries of one table that are appended under a
   lease on it are read in the order in which they were written, even if the clocks of their writers differ.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import (
    AccessDeniedException,
    ConditionalCheckFailedException,
    PenstockError,
    ResourceNotFoundException,
)
from penstock.leases import AbandonedLease, HeldLease, Lease, LeaseLost, LeaseRenewer, checked_seconds, grant, new_owner
from penstock.optimistic import Conflict
from penstock.processes import has_ended, this_process
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.own_tables import state_table_name
from penstock.tables.plan.failures import TableFailed

ACTOR_VARIABLE: Final = "PENSTOCK_ACTOR"
LEASE_SECONDS: Final = 30.0

_POLL_SECONDS: Final = 0.5
_LEASE_KEY: Final = "lease"
_HISTORY: Final = "history#"
_RECORD: Final = "record#"

Thing = tuple[str, str]
"""A kind and a name: ("table", "orders"), ("rekey", "orders"), ("migration", "orders")."""


def actor() -> str:
    """Who is named in leases and in the history: PENSTOCK_ACTOR, else user@host."""
    given = os.environ.get(ACTOR_VARIABLE)
    if given:
        return given
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that has no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _describe(thing: Thing) -> str:
    kind, name = thing
    return f"table {name}" if kind == "table" else f"{kind} of table {name}"


# ── what is stored ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease, what for, and since when."""

    who: str
    purpose: str
    since: float
    until: float
    owner: str
    process: str = ""

    def __str__(self) -> str:
        purpose = f" for `{self.purpose}`" if self.purpose else ""
        return f"{self.who} (process {self.owner}) since {utc_text(self.since)}{purpose}"


class LeaseHeld(PenstockError):
    """Somebody else works on the thing now; `holder` says who."""

    retryable = True

    def __init__(self, thing: Thing, holder: Holder | None) -> None:
        super().__init__(thing, holder)
        self.thing = thing
        self.holder = holder

    def __str__(self) -> str:
        held_by = self.holder or "another process"
        return (
            f"The {_describe(self.thing)} is held by {held_by}. Wait until that is done, or stop it: its lease expires."
        )


class StateTableRefused(PenstockError):
    """IAM does not let us use the state table."""

    def __init__(self, table: str, reason: str, policy: str = "penstock tables policy") -> None:
        super().__init__(table, reason, policy)
        self.table = table
        self.reason = reason
        self.policy = policy

    def __str__(self) -> str:
        return (
            f"The table {self.table}, which keeps leases and the history of changes, may not be used: {self.reason} "
            f"Allow it (`{self.policy}` writes the policy), or give --no-lock: then nobody is kept from changing the "
            "same table at the same time, and its history has a gap."
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a table's history. `at` and `who` are filled in when it is appended."""

    kind: str
    """"apply", "rekey", "migration", …"""
    table: str
    """The physical table."""
    text: str
    """What was done, in words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Facts for programs: anything that JSON has."""
    at: float = 0.0
    who: str = ""
    id: str = ""

    def __str__(self) -> str:
        return f"{utc_text(self.at)}  {self.who}  {self.kind}: {self.text}"

    @property
    def form(self) -> dict[str, Any]:
        """As JSON, for --json."""
        return {
            "at": utc_text(self.at),
            "who": self.who,
            "kind": self.kind,
            "table": self.table,
            "text": self.text,
            "details": dict(self.details),
        }


@dataclass(frozen=True, slots=True)
class Record:
    """What a run remembers under a key of a thing. `version` 0: it is not stored yet."""

    thing: Thing
    key: str
    value: Any = None
    """Anything that JSON has."""
    version: int = 0

    def __str__(self) -> str:
        return f"{_describe(self.thing)}, {self.key}"


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


class StateLease(HeldLease):
    """A lease on a thing that this process holds; a LeaseRenewer renews it."""

    def __init__(self, thing: Thing, lease: Lease, write: Callable[[Lease], object], now: Callable[[], float]) -> None:
        super().__init__(f"The {_describe(thing)}", lease.seconds, self._write_later_end)
        self.thing = thing
        self._lease = lease
        self._write_lease = write
        self._now = now

    @property
    def token(self) -> int:
        return self._lease.token

    @property
    def owner(self) -> str:
        return self._lease.owner

    def _write_later_end(self) -> None:
        renewed = self._lease.renew(self._now())
        self._write_lease(renewed)
        self._lease = renewed


Waiting = Callable[[LeaseHeld], object]
"""Told again and again who is waited for."""


class StateTable:
    """The state table of a database, and the leases that this object holds in it. Safe for several threads."""

    def __init__(
        self,
        db: Database,
        name: str | None = None,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`name` is that of the table; without one, `state_table_name()`."""
        self._db = db
        self.name = name or state_table_name()
        self._lease_seconds = checked_seconds(lease_seconds)
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._held: dict[Thing, StateLease] = {}
        self._renewer: LeaseRenewer | None = None
        self._lock = threading.Lock()

    @contextmanager
    def lease(
        self, thing: Thing, *, purpose: str = "", wait_seconds: float = 0.0, on_wait: Waiting | None = None
    ) -> Iterator[StateLease]:
        """Holds a lease on the thing, which is renewed until the block ends; then others may have it at once.

        Raises LeaseHeld if somebody else has it, after waiting for `wait_seconds`. One whose holder's process has
        provably ended is taken at once. In the block, call `check()` before each write, or give the lease to `put`.
        """
        held = self.acquire(thing, purpose=purpose, wait_seconds=wait_seconds, on_wait=on_wait)
        try:
            yield held
        finally:
            self.release(held)

    @contextmanager
    def leases(
        self, things: Iterable[Thing], *, purpose: str = "", wait_seconds: float = 0.0, on_wait: Waiting | None = None
    ) -> Iterator[tuple[StateLease, ...]]:
        """All of them, taken in one order by everybody: nobody waits for one who waits for them."""
        with ExitStack() as stack:
            ends_at = time.monotonic() + wait_seconds
            held = []
            for thing in sorted(set(things)):
                left = max(0.0, ends_at - time.monotonic())
                held.append(stack.enter_context(self.lease(thing, purpose=purpose, wait_seconds=left, on_wait=on_wait)))
            yield tuple(held)

    def holder(self, thing: Thing) -> Holder | None:
        """Who holds a lease on the thing now; nobody, where its process has ended: the next one takes it at once."""
        item = self._get(thing, _LEASE_KEY)
        holder = None if item is None else _holder_of(item)
        if holder is None or holder.until <= self._clock.now() or has_ended(holder.process):
            return None
        return holder

    def acquire(
        self, thing: Thing, *, purpose: str = "", wait_seconds: float = 0.0, on_wait: Waiting | None = None
    ) -> StateLease:
        """The same as `lease`, for whoever cannot use `with`: `release` must follow."""
        ends_at = time.monotonic() + wait_seconds
        owner = new_owner()
        while True:
            item = self._get(thing, _LEASE_KEY, makes_table=True)
            if item is None or self._is_takeable(item):
                granted = self._try_grant(thing, item, owner, purpose)
                if granted is not None:
                    return self._hold(thing, granted)
            refused = LeaseHeld(thing, None if item is None else _holder_of(item))
            left = ends_at - time.monotonic()
            if left <= 0:
                raise refused
            if on_wait is not None:
                on_wait(refused)
            self._sleep(min(_POLL_SECONDS, self._lease_seconds / 4, left))

    def _is_takeable(self, item: dict[str, Any]) -> bool:
        holder, lease = _holder_of(item), _lease_of(item)
        if lease.until == 0.0:  # released
            return True
        abandoned = AbandonedLease(
            lease.owner, lease.token, lease.until, lease.seconds, has_ended=has_ended(holder.process)
        )
        return abandoned.takeable_at <= self._clock.now()

    def _try_grant(self, thing: Thing, last: dict[str, Any] | None, owner: str, purpose: str) -> Lease | None:
        """Conditional on what was read: of two that find it free, one is refused and looks again."""
        now = self._clock.now()
        lease = grant(0 if last is None else _lease_of(last).token, owner, now, self._lease_seconds)
        item = {
            **_key(thing, _LEASE_KEY),
            "owner": {"S": owner},
            "token": {"N": str(lease.token)},
            "until": {"N": repr(lease.until)},
            "seconds": {"N": repr(lease.seconds)},
            "since": {"N": repr(now)},
            "who": {"S": actor()},
            "purpose": {"S": purpose},
            "process": {"S": this_process()},
        }
        if last is None:
            condition = _Condition("attribute_not_exists(#pk)", {"#pk": "pk"})
        else:
            # A renewal that came in between moved the end.
            condition = _Condition(
                "#token = :token AND #until = :until",
                {"#token": "token", "#until": "until"},
                {":token": last["token"], ":until": last["until"]},
            )
        try:
            self._write("PutItem", {"Item": item}, condition)
        except ConditionalCheckFailedException:
            there = self._get(thing, _LEASE_KEY)  # a lost answer: the grant may be our own
            if there is None or there["owner"]["S"] != owner or _lease_of(there).token != lease.token:
                return None
        return lease

    def _hold(self, thing: Thing, granted: Lease) -> StateLease:
        held = StateLease(thing, granted, lambda lease: self._write_end(thing, lease, lease.until), self._clock.now)
        with self._lock:
            self._held[thing] = held
            if self._renewer is None:
                self._renewer = LeaseRenewer(self._leases_now, name="penstock-state-leases")
                self._renewer.start()
            else:
                self._renewer.wake()
        return held

    def _leases_now(self) -> tuple[StateLease, ...]:
        with self._lock:
            return tuple(self._held.values())

    def _write_end(self, thing: Thing, lease: Lease, until: float) -> None:
        """Moves the end of our own lease; raises LeaseLost where it is another's."""
        condition = _Condition(
            "#owner = :owner AND #token = :token",
            {"#owner": "owner", "#token": "token", "#until": "until"},
            {":owner": {"S": lease.owner}, ":token": {"N": str(lease.token)}, ":until": {"N": repr(until)}},
        )
        request = {"Key": _key(thing, _LEASE_KEY), "UpdateExpression": "SET #until = :until"}
        try:
            self._write("UpdateItem", request, condition)
        except ConditionalCheckFailedException:
            holder = self.holder(thing)
            raise LeaseLost(f"The {_describe(thing)}", None if holder is None else str(holder)) from None

    def release(self, held: StateLease) -> None:
        """Lets others have it at once; renews it no more. One that was lost is somebody else's."""
        with self._lock:
            if self._held.get(held.thing) is held:
                del self._held[held.thing]
            renewer = self._renewer if not self._held else None
            if renewer is not None:
                self._renewer = None
        if renewer is not None:
            renewer.stop()
        if held.lost is None:
            with suppress(LeaseLost):
                self._write_end(held.thing, held._lease, 0.0)

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def record(self, thing: Thing, key: str) -> Record:
        """The record as it is now, read consistently; one of version 0 where there is none."""
        item = self._get(thing, _RECORD + key)
        return Record(thing, key) if item is None else _record_of(item)

    def records(self, thing: Thing) -> Iterator[Record]:
        """All records of a thing, in the order of their keys."""
        for item in self._query(thing, _RECORD):
            yield _record_of(item)

    def put(self, record: Record, value: Any, *, lease: StateLease | None = None) -> Record:
        """Writes another value in the place of `record`; the record as it is stored then.

        Raises Conflict, with the record as it is now, if somebody has written it since it was read (5), and LeaseLost
        if the lease is over, or if a later holder has written the record (4).
        """
        if lease is not None:
            lease.check(margin_seconds=lease.seconds / 4)
        item: dict[str, Any] = {
            **_key(record.thing, _RECORD + record.key),
            "version": {"N": str(record.version + 1)},
            "fence": {"N": str(0 if lease is None else lease.token)},
            "value": {"S": orjson.dumps(value).decode()},
            "written_by": {"S": uuid.uuid4().hex},
        }
        if lease is None and record.version:
            # Whoever writes without a lease does not open the record to an old holder.
            item["fence"] = (self._get(record.thing, _RECORD + record.key) or item)["fence"]
        try:
            self._write("PutItem", {"Item": item}, _version_condition(record, lease))
        except ConditionalCheckFailedException:
            there = self._get(record.thing, _RECORD + record.key)
            if there is None or there["written_by"] != item["written_by"]:  # else only its answer was lost
                raise self._refusal(record, there, lease) from None
        return replace(record, value=value, version=record.version + 1)

    def delete(self, record: Record, *, lease: StateLease | None = None) -> None:
        """Forgets the record, as the version that was read; raises as `put` does. One that is gone is no error."""
        if lease is not None:
            lease.check(margin_seconds=lease.seconds / 4)
        key = _key(record.thing, _RECORD + record.key)
        if not record.version:
            return
        try:
            self._write("DeleteItem", {"Key": key}, _version_condition(record, lease))
        except ConditionalCheckFailedException:
            there = self._get(record.thing, _RECORD + record.key)
            if there is not None:
                raise self._refusal(record, there, lease) from None

    def _refusal(self, record: Record, there: dict[str, Any] | None, lease: StateLease | None) -> PenstockError:
        if lease is not None and there is not None and int(there["fence"]["N"]) > lease.token:
            holder = self.holder(lease.thing)
            lost = LeaseLost(lease.id, None if holder is None else str(holder))
            lease.give_up(lost)
            return lost
        return Conflict(str(record), None if there is None else _record_of(there))

    # ── history ──────────────────────────────────────────────────────────────────────────────────

    def append(self, entry: Entry) -> Entry:
        """Adds a line to the history of `entry.table`; the entry with its time and its author."""
        last = next(self.history(table=entry.table), None)
        at = entry.at or self._clock.now()
        if last is not None and at <= last.at:  # another clock goes ahead of ours (6)
            at = last.at + 0.001
        stored = replace(entry, at=at, who=entry.who or actor(), id=entry.id or uuid.uuid4().hex[:12])
        item = {
            **_key(("table", entry.table), f"{_HISTORY}{utc_text(at)}#{stored.id}"),
            "kind": {"S": stored.kind},
            "text": {"S": stored.text},
            "who": {"S": stored.who},
            "at": {"N": repr(at)},
            "details": {"S": orjson.dumps(dict(stored.details)).decode()},
        }
        with suppress(ConditionalCheckFailedException):  # the same entry again: the answer to the first was lost
            self._write("PutItem", {"Item": item}, _Condition("attribute_not_exists(#pk)", {"#pk": "pk"}))
        return stored

    def history(self, *, table: str | None = None, kind: str | None = None) -> Iterator[Entry]:
        """Entries, the newest first: those of one physical table, or of all of them (which reads the whole table)."""
        if table is not None:
            items: Iterable[dict[str, Any]] = self._query(("table", table), _HISTORY, newest_first=True)
        else:
            items = sorted(self._scan_history(), key=lambda item: float(item["at"]["N"]), reverse=True)
        for item in items:
            if kind is None or item["kind"]["S"] == kind:
                yield _entry_of(item)

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def _get(self, thing: Thing, sort: str, *, makes_table: bool = False) -> dict[str, Any] | None:
        """`makes_table`: what was looked for is written next, and would be refused without its table."""
        request = {"TableName": self.name, "Key": _key(thing, sort), "ConsistentRead": True}
        with self._refusals_told():
            try:
                found: dict[str, Any] | None = self._db.execute("GetItem", request).get("Item")
            except ResourceNotFoundException:
                if makes_table:
                    make(self._db, definition(self.name), self.name, is_missing=True)
                return None  # (2)
        return found

    def _query(self, thing: Thing, start: str, *, newest_first: bool = False) -> Iterator[dict[str, Any]]:
        request = {
            "TableName": self.name,
            "KeyConditionExpression": "#pk = :pk AND begins_with(#sk, :start)",
            "ExpressionAttributeNames": {"#pk": "pk", "#sk": "sk"},
            "ExpressionAttributeValues": {":pk": _key(thing, "")["pk"], ":start": {"S": start}},
            "ConsistentRead": True,
            "ScanIndexForward": not newest_first,
        }
        yield from self._pages("Query", request)

    def _scan_history(self) -> Iterator[dict[str, Any]]:
        request = {
            "TableName": self.name,
            "FilterExpression": "begins_with(#sk, :start)",
            "ExpressionAttributeNames": {"#sk": "sk"},
            "ExpressionAttributeValues": {":start": {"S": _HISTORY}},
            "ConsistentRead": True,
        }
        yield from self._pages("Scan", request)

    def _pages(self, operation: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        with self._refusals_told():
            try:
                for page in read_pages(self._db.execute, operation, request):
                    yield from page["Items"]
            except ResourceNotFoundException:
                return  # (2)

    def _write(self, operation: str, request: dict[str, Any], condition: _Condition) -> None:
        whole = {
            "TableName": self.name,
            **request,
            "ConditionExpression": condition.text,
            "ExpressionAttributeNames": dict(condition.names),
        }
        if condition.values:
            whole["ExpressionAttributeValues"] = dict(condition.values)
        with self._refusals_told():
            try:
                self._db.execute(operation, whole)
            except ResourceNotFoundException:
                make(self._db, definition(self.name), self.name, is_missing=True)  # (2)
                self._db.execute(operation, whole)

    @contextmanager
    def _refusals_told(self) -> Iterator[None]:
        try:
            yield
        except AccessDeniedException as error:
            raise StateTableRefused(self.name, f"{error.message.rstrip('.')}.") from error
        except TableFailed as error:
            if error.failure.code != AccessDeniedException.__name__:
                raise
            raise StateTableRefused(self.name, error.failure.reason) from error


def definition(name: str) -> Table:
    """The table itself: pay per request, and tagged as ours."""
    return Table(name, key=("pk:S", "sk:S"), tags={"ManagedBy": "penstock"})


@dataclass(frozen=True, slots=True)
class _Condition:
    text: str
    names: Mapping[str, str]
    values: Mapping[str, Any] = field(default_factory=dict)


def _version_condition(record: Record, lease: StateLease | None) -> _Condition:
    if not record.version:
        return _Condition("attribute_not_exists(#pk)", {"#pk": "pk"})
    text, names = "#version = :version", {"#version": "version"}
    values = {":version": {"N": str(record.version)}}
    if lease is None:
        return _Condition(text, names, values)
    return _Condition(
        f"{text} AND #fence <= :fence", names | {"#fence": "fence"}, values | {":fence": {"N": str(lease.token)}}
    )


def _key(thing: Thing, sort: str) -> dict[str, Any]:
    kind, name = thing
    return {"pk": {"S": f"{kind}#{name}"}, "sk": {"S": sort}}


def _thing_of(item: dict[str, Any]) -> Thing:
    kind, _, name = item["pk"]["S"].partition("#")
    return kind, name


def _lease_of(item: dict[str, Any]) -> Lease:
    return Lease(item["owner"]["S"], int(item["token"]["N"]), float(item["until"]["N"]), float(item["seconds"]["N"]))


def _holder_of(item: dict[str, Any]) -> Holder:
    return Holder(
        item["who"]["S"],
        item["purpose"]["S"],
        float(item["since"]["N"]),
        float(item["until"]["N"]),
        item["owner"]["S"],
        item["process"]["S"],
    )


def _record_of(item: dict[str, Any]) -> Record:
    key = item["sk"]["S"].removeprefix(_RECORD)
    return Record(_thing_of(item), key, orjson.loads(item["value"]["S"]), int(item["version"]["N"]))


def _entry_of(item: dict[str, Any]) -> Entry:
    return Entry(
        item["kind"]["S"],
        _thing_of(item)[1],
        item["text"]["S"],
        orjson.loads(item["details"]["S"]),
        float(item["at"]["N"]),
        item["who"]["S"],
        item["sk"]["S"].rpartition("#")[2],
    )
