"""The table `penstock-streams`: groups of consumers, the checkpoints and leases of their shards, failed changes, gaps.

    pk                 sk
    groups             {table}#{group}                     the names of all groups
    {table}#{group}    group                               where it began, its generation, when shards were last found
                       shard#{generation}#{stream}#{id}    how far it is read, and who holds it (leases.py)
                       failed#{stream}#{sequence number}   a change whose handler has failed, kept aside
                       gap#{time}#{shard}                  changes that may be lost

1. It is made by the first write, pay per request. A read of a table that is not there finds nothing, and makes nothing.
   PENSTOCK_STREAMS_TABLE gives it another name: consumers that use different names do not see each other.
2. What a holder writes to its shard is conditional on its lease's owner and token: one that was frozen, and wakes up
   after another was granted the shard, is refused.
3. A checkpoint moves the end of the lease too. Whoever reads a shard without a break writes no renewals.
4. A reset begins another generation: consumers of the old one find their shards gone, and take part in the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import AccessDeniedException, ConditionalCheckFailedException, ResourceNotFoundException
from penstock.leases import Lease, LeaseLost, grant
from penstock.processes import this_process
from penstock.retry import Failure
from penstock.streams.change import Change, change_of_form
from penstock.streams.errors import Gap, StreamError, checked_group
from penstock.streams.shard_tree import ShardState
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.own_tables import streams_table_name
from penstock.tables.plan.failures import TableFailed
from penstock.tables.state.state_table import actor

ACTIONS: Final = (
    "CreateTable",
    "DeleteItem",
    "DescribeTable",
    "GetItem",
    "PutItem",
    "Query",
    "TagResource",
    "UpdateItem",
)
"""What consumers do with the table: IAM's names."""
STREAM_ACTIONS: Final = ("DescribeStream", "GetRecords", "GetShardIterator")
"""What they do with the stream that they read; DescribeTable on its table."""

_GROUPS: Final = "groups"
_GROUP: Final = "group"
_SHARD: Final = "shard#"
_FAILED: Final = "failed#"
_GAP: Final = "gap#"
_KEPT_BYTES: Final = 300_000
"""Of a failed change's images; larger ones are left out, since an item has 400 KB."""

Item = dict[str, Any]


class StreamsTableRefused(StreamError):
    """IAM does not let us use the table of the groups."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"The table {table}, which keeps the checkpoints of stream consumers, may not be used: {reason} "
            "Allow it: `penstock streams policy TABLE` writes the policy."
        )


@dataclass(frozen=True, slots=True)
class Group:
    """A group of consumers of one table's changes."""

    table: str
    name: str
    generation: int
    start: str
    """"oldest", "latest", or the time that it began at."""
    began_at: float
    ready: bool
    """All shards that there were when it began are written down."""
    found_at: float
    """When somebody last looked for new shards."""
    redrive_at: float = 0.0
    """When somebody last asked for failed changes to be handled again."""


@dataclass(frozen=True, slots=True)
class FailedChange:
    """A change that was kept aside."""

    id: str
    change: Change
    error: str
    failures: int
    at: float
    redrive: bool
    """It is to be handled again."""
    is_whole: bool
    """Its images are there; they are left out of a very large one."""


def definition(name: str) -> Table:
    """The table itself: pay per request, and tagged as ours."""
    return Table(name, key=("pk:S", "sk:S"), tags={"ManagedBy": "penstock"})


class GroupTable:
    """The items of one group. Safe for several threads."""

    def __init__(
        self, db: Database, table: str, group: str, *, name: str | None = None, clock: Clock | None = None
    ) -> None:
        self.db = db
        self.table = table
        self.group = group
        self.name = name or streams_table_name()
        self.clock = clock or SystemClock()
        self._pk = {"S": f"{table}#{group}"}

    # ── the group ────────────────────────────────────────────────────────────────────────────────

    def read(self) -> tuple[Group | None, list[ShardState]]:
        """The group and the shards of its generation, read consistently: one Query."""
        group: Group | None = None
        items: list[Item] = []
        for item in self._query(_GROUP, between=(_GROUP, f"{_SHARD}~")):
            if item["sk"]["S"] == _GROUP:
                group = self._group_of(item)
            else:
                items.append(item)
        if group is None:
            return None, []
        start = self._shard_start(group.generation)
        return group, [_shard_of(item) for item in items if item["sk"]["S"].startswith(start)]

    def create(self, start: str) -> None:
        """Makes the group, unless somebody else has."""
        now = self.clock.now()
        self._write("PutItem", {"Item": {"pk": {"S": _GROUPS}, "sk": self._pk, "began_at": _number(now)}})
        item = {**self._key(_GROUP), **_group_fields(1, start, now), "redrive_at": _number(0.0)}
        with suppress(ConditionalCheckFailedException):
            self._write("PutItem", {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"})

    def reset(self, group: Group, start: str) -> None:
        """Begins another generation (4); the shards of the old one are deleted."""
        fields = _group_fields(group.generation + 1, start, self.clock.now())
        self._update(_GROUP, fields, "generation = :was", {":was": _number(group.generation)})
        for item in list(self._query(self._shard_start(group.generation))):
            self._write("DeleteItem", {"Key": self._key(item["sk"]["S"])})

    def delete(self) -> None:
        """Forgets the group, and all that is kept of it."""
        self._write("DeleteItem", {"Key": {"pk": {"S": _GROUPS}, "sk": self._pk}})
        for item in list(self._query("")):
            self._write("DeleteItem", {"Key": self._key(item["sk"]["S"])})

    def begin_search(self, group: Group) -> bool:
        """Whether it is for us to look for new shards: of several consumers, one does."""
        fields = {"found_at": _number(self.clock.now())}
        return self._is_done(_GROUP, fields, "found_at = :was", {":was": _number(group.found_at)})

    def end_search(self, group: Group) -> None:
        """All shards of the group's beginning are written down."""
        self._is_done(_GROUP, {"ready": {"BOOL": True}}, "generation = :was", {":was": _number(group.generation)})

    def _group_of(self, item: Item) -> Group:
        return Group(
            self.table,
            self.group,
            int(item["generation"]["N"]),
            item["start"]["S"],
            float(item["began_at"]["N"]),
            item["ready"]["BOOL"],
            float(item["found_at"]["N"]),
            float(item["redrive_at"]["N"]),
        )

    # ── shards ───────────────────────────────────────────────────────────────────────────────────

    def add(self, group: Group, shards: Iterable[ShardState]) -> None:
        """Writes down shards that are new; one that is there already is left as it is."""
        for shard in shards:
            item = {**self._key(self._shard_key(group.generation, shard)), **_new_shard_fields(shard)}
            with suppress(ConditionalCheckFailedException):
                self._write("PutItem", {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"})

    def forget(self, group: Group, shard: ShardState) -> None:
        """Deletes a shard that was read, and that the stream no longer has."""
        self._write("DeleteItem", {"Key": self._key(self._shard_key(group.generation, shard))})

    def give_up(self, group: Group, shard: ShardState) -> bool:
        """A shard that nobody holds, and that is gone: there is nothing to read. Whether it was for us to say so."""
        condition, values = "#token = :was AND ended = :no", {":was": _number(shard.token), ":no": {"BOOL": False}}
        return self._is_done(
            self._shard_key(group.generation, shard), {"ended": {"BOOL": True}}, condition, values, {"#token": "token"}
        )

    def take(self, group: Group, shard: ShardState, owner: str, seconds: float) -> Lease | None:
        """A lease on a shard that may be taken; None if somebody else was faster."""
        lease = grant(shard.token, owner, self.clock.now(), seconds)
        fields = _lease_fields(lease) | {
            "process": {"S": this_process()},
            "who": {"S": actor()},
            "wanted_until": _number(0.0),
        }
        was = {":was": _number(shard.token), ":end": _number(shard.lease.until if shard.lease else 0.0)}
        condition = "#token = :was AND #until = :end AND ended = :no"
        key, names = self._shard_key(group.generation, shard), {"#token": "token", "#until": "until"}
        if self._is_done(key, fields, condition, was | {":no": {"BOOL": False}}, names):
            return lease
        # A lost answer: the grant may be our own.
        there = self._get(key)
        is_own = there is not None and there["owner"]["S"] == owner and int(there["token"]["N"]) == lease.token
        return lease if is_own else None

    def ask_for(self, group: Group, shard: ShardState, owner: str, seconds: float) -> bool:
        """Asks the holder to hand the shard over; False if it is asked for already, or is another's by now."""
        now = self.clock.now()
        fields = {"wanted_by": {"S": owner}, "wanted_until": _number(now + seconds)}
        values = {":was": _number(shard.token), ":now": _number(now), ":no": {"BOOL": False}}
        condition = "#token = :was AND wanted_until < :now AND ended = :no"
        return self._is_done(self._shard_key(group.generation, shard), fields, condition, values, {"#token": "token"})

    def write_held(self, group: Group, shard: ShardState, lease: Lease, fields: Item) -> None:
        """What the holder of a shard writes: its lease's end, its checkpoint. Raises LeaseLost (2)."""
        values = {":me": {"S": lease.owner}, ":mine": _number(lease.token)}
        condition = "#owner = :me AND #token = :mine"
        key, names = self._shard_key(group.generation, shard), {"#owner": "owner", "#token": "token"}
        if not self._is_done(key, {"until": _number(lease.until)} | fields, condition, values, names):
            there = self._get(key)
            held_by = None if there is None else there["owner"]["S"]
            raise LeaseLost(f"{self.table}, group {self.group}, the shard {shard.id}", held_by or None)

    def _shard_start(self, generation: int) -> str:
        return f"{_SHARD}{generation:06d}#"

    def _shard_key(self, generation: int, shard: ShardState) -> str:
        return f"{self._shard_start(generation)}{shard.stream}#{shard.id}"

    # ── failed changes, gaps ─────────────────────────────────────────────────────────────────────

    def keep_failed(self, change: Change, failure: Failure, failures: int) -> None:
        """Keeps a change aside whose handler has failed. The same change again replaces it."""
        form, is_whole = change.form, True
        if len(orjson.dumps(form)) > _KEPT_BYTES:
            form, is_whole = form | {"new": None, "old": None}, False
        item = {
            **self._key(f"{_FAILED}{change.sequence_number}"),
            "change": {"S": orjson.dumps(form).decode()},
            "whole": {"BOOL": is_whole},
            "error": {"S": failure.reason},
            "failures": _number(failures),
            "at": _number(self.clock.now()),
            "redrive": {"BOOL": False},
            "taken_until": _number(0.0),
        }
        self._write("PutItem", {"Item": item})

    def failed(self) -> Iterator[FailedChange]:
        """Those that were kept aside, in the order of their sequence numbers."""
        for item in self._query(_FAILED):
            yield FailedChange(
                item["sk"]["S"].removeprefix(_FAILED),
                change_of_form(orjson.loads(item["change"]["S"])),
                item["error"]["S"],
                int(item["failures"]["N"]),
                float(item["at"]["N"]),
                item["redrive"]["BOOL"],
                item["whole"]["BOOL"],
            )

    def redrive(self, ids: Iterable[str]) -> int:
        """Asks for failed changes to be handled again; how many there were."""
        count = 0
        for id in ids:
            count += self._is_done(_FAILED + id, {"redrive": {"BOOL": True}}, "attribute_exists(pk)", {})
        if count:
            self._is_done(_GROUP, {"redrive_at": _number(self.clock.now())}, "attribute_exists(pk)", {})
        return count

    def take_failed(self, id: str, seconds: float) -> bool:
        """Whether a redriven change is ours to handle, for so long."""
        now = self.clock.now()
        values = {":yes": {"BOOL": True}, ":now": _number(now)}
        fields = {"taken_until": _number(now + seconds)}
        return self._is_done(_FAILED + id, fields, "redrive = :yes AND taken_until < :now", values)

    def forget_failed(self, id: str) -> None:
        self._write("DeleteItem", {"Key": self._key(_FAILED + id)})

    def note_gap(self, gap: Gap) -> None:
        """Keeps a note of changes that may be lost."""
        item = {
            **self._key(f"{_GAP}{utc_text(gap.found_at)}#{gap.shard}"),
            "gap": {"S": orjson.dumps([gap.shard, gap.after, gap.last_at, gap.found_at]).decode()},
        }
        self._write("PutItem", {"Item": item})

    def gaps(self) -> Iterator[Gap]:
        for item in self._query(_GAP):
            yield Gap(self.table, self.group, *orjson.loads(item["gap"]["S"]))

    # ── requests ─────────────────────────────────────────────────────────────────────────────────

    def _key(self, sort: str) -> Item:
        return {"pk": self._pk, "sk": {"S": sort}}

    def _get(self, sort: str) -> Item | None:
        request = {"TableName": self.name, "Key": self._key(sort), "ConsistentRead": True}
        found: Item | None = self._execute("GetItem", request).get("Item")
        return found

    def _query(self, start: str, between: tuple[str, str] | None = None) -> Iterator[Item]:
        sorts = {":low": {"S": start}} if between is None else {":low": {"S": between[0]}, ":high": {"S": between[1]}}
        condition = "begins_with(sk, :low)" if between is None else "sk BETWEEN :low AND :high"
        if not start:
            sorts, condition = {}, ""
        request = {
            "TableName": self.name,
            "KeyConditionExpression": f"pk = :pk AND {condition}" if condition else "pk = :pk",
            "ExpressionAttributeValues": {":pk": self._pk, **sorts},
            "ConsistentRead": True,
        }
        yield from query_items(self._execute, request)

    def _is_done(
        self, sort: str, fields: Item, condition: str, values: Item, names: dict[str, str] | None = None
    ) -> bool:
        try:
            self._update(sort, fields, condition, values, names)
        except ConditionalCheckFailedException:
            return False
        return True

    def _update(
        self, sort: str, fields: Item, condition: str, values: Item, names: dict[str, str] | None = None
    ) -> None:
        """Sets the fields; one that is None is removed."""
        aliases = {f"#f{place}": name for place, name in enumerate(fields)}
        given = {f":f{place}": value for place, value in enumerate(fields.values()) if value is not None}
        sets = ", ".join(f"{name} = :f{name[2:]}" for name in aliases if f":f{name[2:]}" in given)
        removed = ", ".join(name for name in aliases if f":f{name[2:]}" not in given)
        request: dict[str, Any] = {
            "Key": self._key(sort),
            "UpdateExpression": f"SET {sets}" + (f" REMOVE {removed}" if removed else ""),
            "ConditionExpression": condition,
            "ExpressionAttributeNames": aliases | (names or {}),
        }
        request["ExpressionAttributeValues"] = given | values
        self._write("UpdateItem", request)

    def _write(self, operation: str, request: dict[str, Any]) -> None:
        whole = {"TableName": self.name, **request}
        try:
            self._execute(operation, whole)
        except ResourceNotFoundException:
            try:
                make(self.db, definition(self.name), self.name)  # (1)
            except TableFailed as error:
                if error.failure.code != AccessDeniedException.__name__:
                    raise
                raise StreamsTableRefused(self.name, error.failure.reason) from error
            self._execute(operation, whole)

    def _execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.db.execute(operation, request)
        except AccessDeniedException as error:
            raise StreamsTableRefused(self.name, f"{error.message.rstrip('.')}.") from error
        except ResourceNotFoundException:
            if operation in ("GetItem", "Query"):
                return {"Items": []}  # (1)
            raise


def group_names(db: Database, table: str | None = None) -> list[tuple[str, str]]:
    """The tables and groups that there are; those of one table."""
    condition, values = "pk = :pk", {":pk": {"S": _GROUPS}}
    if table is not None:
        condition, values = f"{condition} AND begins_with(sk, :start)", values | {":start": {"S": f"{table}#"}}
    request = {
        "TableName": streams_table_name(),
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ConsistentRead": True,
    }
    try:
        found = [item["sk"]["S"].partition("#") for item in query_items(db.execute, request)]
    except ResourceNotFoundException:
        return []
    return [(one, checked_group(group)) for one, _, group in found]


def query_items(execute: Any, request: dict[str, Any]) -> Iterator[Item]:
    for page in read_pages(execute, "Query", request):
        yield from page["Items"]


def checkpoint_fields(after: str | None, last_at: float | None) -> Item:
    """How far a shard is done. The iterator of its beginning is not needed from then on."""
    if after is None:
        return {}
    return {"after": {"S": after}, "last_at": _number(last_at or 0.0), "iterator": None}


RELEASED: Final[Item] = {"until": {"N": "0.0"}}
"""A shard that others may take at once."""
ENDED: Final[Item] = RELEASED | {"ended": {"BOOL": True}}


def _number(value: float) -> Item:
    return {"N": repr(value)}


def _group_fields(generation: int, start: str, now: float) -> Item:
    return {
        "generation": _number(generation),
        "start": {"S": start},
        "began_at": _number(now),
        "ready": {"BOOL": False},
        "found_at": _number(0.0),
    }


def _lease_fields(lease: Lease) -> Item:
    return {
        "owner": {"S": lease.owner},
        "token": _number(lease.token),
        "until": _number(lease.until),
        "seconds": _number(lease.seconds),
    }


def _new_shard_fields(shard: ShardState) -> Item:
    fields: Item = {
        "owner": {"S": ""},
        "token": _number(0),
        "until": _number(0.0),
        "seconds": _number(0.0),
        "wanted_until": _number(0.0),
        "ended": {"BOOL": shard.ended},
    }
    if shard.parent is not None:
        fields["parent"] = {"S": shard.parent}
    if shard.since is not None:
        fields["since"] = _number(shard.since)
    if shard.iterator is not None:
        fields["iterator"] = {"S": shard.iterator}
    return fields


def _shard_of(item: Item) -> ShardState:
    _, _, stream, id = item["sk"]["S"].split("#", 3)
    until, token = float(item["until"]["N"]), int(item["token"]["N"])
    lease = Lease(item["owner"]["S"], token, until, float(item["seconds"]["N"])) if until else None
    return ShardState(
        stream,
        id,
        parent=_text(item, "parent"),
        after=_text(item, "after"),
        last_at=_float(item, "last_at"),
        since=_float(item, "since"),
        iterator=_text(item, "iterator"),
        ended=item["ended"]["BOOL"],
        lease=lease,
        process=_text(item, "process") or "",
        who=_text(item, "who") or "",
        token=token,
        wanted_by=_text(item, "wanted_by"),
        wanted_until=float(item["wanted_until"]["N"]),
    )


def _text(item: Item, name: str) -> str | None:
    return item[name]["S"] if name in item else None


def _float(item: Item, name: str) -> float | None:
    return float(item[name]["N"]) if name in item else None
