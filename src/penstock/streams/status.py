"""Streams and groups, seen from outside: which there are, how far each shard is read, and by whom; reset, redrive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.streams.change import created_at
from penstock.streams.consumer import Start, start_text
from penstock.streams.errors import BadGroup, Gap, NoGroup, NoStream, NoTable, checked_group
from penstock.streams.group_table import (
    ACTIONS,
    STREAM_ACTIONS,
    Group,
    GroupTable,
    group_names,
)
from penstock.streams.member import stream_arn
from penstock.streams.shard_reader import ShardInfo, ShardReader, Trimmed, describe_shards, label_of
from penstock.streams.shard_tree import ShardState
from penstock.tables.definitions.own_tables import streams_table_name


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of a table."""

    table: str
    arn: str
    view: str
    status: str
    shards: tuple[ShardInfo, ...]

    @property
    def form(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "arn": self.arn,
            "status": self.status,
            "view": self.view,
            "shards": [{"id": one.id, "parent": one.parent, "closed": one.is_closed} for one in self.shards],
        }


def list_streams(db: Database, table: str | None = None) -> Iterator[StreamInfo]:
    """Streams, also those that were switched off in the last 24 hours; those of one table."""
    request: dict[str, Any] = {} if table is None else {"TableName": table}
    while True:
        answer = db.execute("ListStreams", request)
        for one in answer.get("Streams", []):
            arn = one["StreamArn"]
            try:
                described = db.execute("DescribeStream", {"StreamArn": arn, "Limit": 1})["StreamDescription"]
                shards = tuple(describe_shards(db, arn))
            except ResourceNotFoundException:  # it has just gone
                continue
            yield StreamInfo(one["TableName"], arn, described["StreamViewType"], described["StreamStatus"], shards)
        last = answer.get("LastEvaluatedStreamArn")
        if not last:
            return
        request["ExclusiveStartStreamArn"] = last


def enable_stream(db: Database, table: str, view: str) -> bool:
    """Switches the table's stream on; False if it is on already. Raises BadGroup if it is on with another view."""
    try:
        described = db.execute("DescribeTable", {"TableName": table})["Table"]
    except ResourceNotFoundException:
        raise NoTable(table, db.name) from None
    now = described.get("StreamSpecification") or {}
    if now.get("StreamEnabled"):
        if now.get("StreamViewType") != view:
            raise BadGroup(
                f"The stream of {table} is on with {now.get('StreamViewType')}. DynamoDB changes no view: switch it "
                "off first (`penstock tables apply` with another stream=… does both), which begins another stream."
            )
        return False
    specification = {"StreamEnabled": True, "StreamViewType": view}
    db.execute("UpdateTable", {"TableName": table, "StreamSpecification": specification})
    return True


# ── groups ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard of a group. `lag_seconds` is the age of the oldest change that is not done; None if it is not known."""

    state: ShardState
    lag_seconds: float | None
    holder: str | None
    is_trimmed: bool = False

    @property
    def form(self) -> dict[str, Any]:
        state = self.state
        return {
            "shard": state.id,
            "stream": state.stream,
            "parent": state.parent,
            "state": "ended" if state.ended else "trimmed" if self.is_trimmed else "open",
            "after": state.after,
            "last_at": None if state.last_at is None else utc_text(state.last_at),
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 1),
            "holder": self.holder,
            "wanted_by": state.wanted_by if state.wanted_until else None,
        }


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group and its shards."""

    group: Group
    shards: tuple[ShardStatus, ...]
    failed: int
    gaps: tuple[Gap, ...]

    @property
    def lag_seconds(self) -> float:
        """Of the shard that is furthest behind."""
        return max((one.lag_seconds or 0.0 for one in self.shards), default=0.0)

    @property
    def form(self) -> dict[str, Any]:
        return {
            "table": self.group.table,
            "group": self.group.name,
            "start": self.group.start,
            "began_at": utc_text(self.group.began_at),
            "lag_seconds": round(self.lag_seconds, 1),
            "holders": sorted({one.holder for one in self.shards if one.holder}),
            "failed": self.failed,
            "gaps": [gap.form for gap in self.gaps],
            "shards": [one.form for one in self.shards],
        }


def groups_of(db: Database, table: str | None = None) -> list[tuple[str, str]]:
    """The tables and groups that there are. Raises NoTable for a name that is neither a table nor in a group."""
    found = group_names(db, table)
    if not found and table is not None:
        with suppress(NoStream):
            stream_arn(db, table)
    return found


def group_status(db: Database, table: str, group: str, *, clock: Clock | None = None) -> GroupStatus:
    """How far the group is: reads one record of each open shard. Raises NoGroup."""
    clock = clock or SystemClock()
    groups, found, shards = _find(db, table, group, clock)
    try:
        prefix = stream_arn(db, table)[0].rpartition("/")[0]
    except (NoStream, NoTable):
        prefix = ""
    rows = tuple(_shard_status(db, prefix, one, clock.now()) for one in shards)
    return GroupStatus(found, rows, sum(1 for _ in groups.failed()), tuple(groups.gaps()))


def _shard_status(db: Database, prefix: str, shard: ShardState, now: float) -> ShardStatus:
    lease = shard.lease
    holder = f"{shard.who} {lease.owner}" if lease is not None and lease.until > now else None
    if shard.ended:
        return ShardStatus(shard, 0.0, holder)
    try:
        records = ShardReader(db, f"{prefix}/{shard.stream}", shard).read(1).records
    except Trimmed:
        return ShardStatus(shard, None, holder, is_trimmed=True)
    except PenstockError as error:
        if not error.retryable:
            raise
        return ShardStatus(shard, None, holder)
    return ShardStatus(shard, max(0.0, now - created_at(records[0])) if records else 0.0, holder)


def reset_group(db: Database, table: str, group: str, to: Start, *, clock: Clock | None = None) -> None:
    """The group begins anew: its consumers read from there on. Raises NoGroup, BadGroup."""
    groups, found, _ = _find(db, table, group, clock)
    groups.reset(found, start_text(to))


def delete_group(db: Database, table: str, group: str) -> None:
    """Forgets the group. A consumer that runs makes it anew. Raises NoGroup."""
    _find(db, table, group, None)[0].delete()


def failed_changes(db: Database, table: str, group: str) -> GroupTable:
    """The group's table, whose `failed` and `redrive` are about changes that were kept aside. Raises NoGroup."""
    return _find(db, table, group, None)[0]


def _find(db: Database, table: str, group: str, clock: Clock | None) -> tuple[GroupTable, Group, list[ShardState]]:
    groups = GroupTable(db, table, checked_group(group), clock=clock)
    found, shards = groups.read()
    if found is None:
        raise NoGroup(table, group)
    return groups, found, shards


# ── IAM ──────────────────────────────────────────────────────────────────────────────────────────


def consumer_policy(table: str, *, region: str = "*", account: str = "*", partition: str = "aws") -> dict[str, Any]:
    """The least IAM policy for consumers of a table's changes."""
    start = f"arn:{partition}:dynamodb:{region}:{account}:table/"
    statements = [
        ("Table", ("DescribeTable",), [start + table]),
        ("Stream", STREAM_ACTIONS, [f"{start}{table}/stream/*"]),
        ("Groups", ACTIONS, [start + streams_table_name()]),
        ("Streams", ("ListStreams",), ["*"]),
    ]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": sid,
                "Effect": "Allow",
                "Action": [f"dynamodb:{action}" for action in actions],
                "Resource": resources,
            }
            for sid, actions, resources in statements
        ],
    }


__all__ = [
    "GroupStatus",
    "ShardStatus",
    "StreamInfo",
    "consumer_policy",
    "delete_group",
    "enable_stream",
    "failed_changes",
    "group_status",
    "groups_of",
    "label_of",
    "list_streams",
    "reset_group",
]
