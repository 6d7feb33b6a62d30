"""The least IAM policy that some commands need for some tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.definitions.own_tables import REKEY_TABLE, state_table_name

Scope = Literal["table", "stream", "backup", "others", "all"]
"""What an action is about: the table itself, its streams, its backups, every table whose name begins as these do, or
(ListTables) no resource."""

Needs = frozenset[tuple[Scope, str]]


def _table(*actions: str) -> Needs:
    return frozenset(("table", action) for action in actions)


_LOOK = _table("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "ListTagsOfResource")
_BESIDE = _table("DescribeContributorInsights", "DescribeKinesisStreamingDestination")
"""What is named as not managed. Without these rights it is told as not known."""
_LIST: Needs = frozenset({("all", "ListTables")})
# Whose a table is, its tags tell; the orphans are tables that no definition names.
_ORPHANS: Needs = _LIST | {("others", "DescribeTable"), ("others", "ListTagsOfResource")}
_STREAM: Needs = frozenset(("stream", action) for action in ("DescribeStream", "GetRecords", "GetShardIterator"))
_MAKE = _LOOK | _table("CreateTable", "UpdateTable")
_BACKUPS: Needs = frozenset({("backup", "DescribeBackup"), ("table", "CreateBackup")})
# DynamoDB writes a restored table with the caller's own rights.
_RESTORES: Needs = (
    _table("BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem")
    | _table("RestoreTableToPointInTime", "RestoreTableFromBackup")
    | frozenset({("backup", "RestoreTableFromBackup"), ("backup", "DescribeBackup")})
)

_COMMANDS: dict[str, Needs] = {
    "plan": _LOOK | _BESIDE | _ORPHANS | _table("Scan"),
    "verify": _LOOK | _BESIDE | _LIST,
    "export": _LOOK | _LIST | _table("GetResourcePolicy"),
    "import": _LOOK | _BESIDE | _LIST | _table("GetResourcePolicy"),
    "apply": _MAKE | _table("Scan"),
    "add-index": _table("DescribeTable", "UpdateTable", "Scan"),
    "change-index": _table("DescribeTable", "UpdateTable", "Scan"),
    "destroy": _table("DescribeTable", "DeleteTable"),
    "orphans": _ORPHANS,
    "doctor": _LOOK | _table("Scan"),
    "backup": _LOOK | _BACKUPS,
    "restore": _MAKE | _RESTORES,
    "dump": _LOOK | _table("Scan"),
    "load": _MAKE | _table("BatchWriteItem", "Scan"),
    "diff-data": _table("BatchGetItem", "DescribeTable", "Scan"),
    "rekey": _MAKE | _STREAM | _table("BatchGetItem", "BatchWriteItem", "DeleteTable", "Scan"),
    "migrate": _LOOK | _BACKUPS | _table("BatchGetItem", "DeleteItem", "Scan", "UpdateItem"),
    "list": _LIST | _table("DescribeTable"),
    "show": _LOOK,
    "backups": _table("DescribeTable") | frozenset({("all", "ListBackups")}),
    "delete-backup": frozenset({("backup", "DeleteBackup"), ("backup", "DescribeBackup")}),
    "policy": frozenset(),
    "cloudformation": frozenset(),
    "terraform": frozenset(),
}

COMMANDS = tuple(_COMMANDS)

_COMPARING = frozenset({"plan", "verify", "apply"})
"""Commands that compare what a definition says, and read a resource policy where it has one."""

_SETTING = frozenset({"apply", "load", "rekey", "restore"})
"""Commands that put a table's settings right, and so need what its definition uses."""

_STATE = _table("CreateTable", "DeleteItem", "DescribeTable", "GetItem", "PutItem", "Scan", "TagResource", "UpdateItem")
"""What rekey does with the table in which it keeps its jobs."""

_LOCKS = _table(
    "CreateTable", "DeleteItem", "DescribeTable", "GetItem", "PutItem", "Query", "TagResource", "UpdateItem"
)
"""What a command does with the table of leases and history; CreateTable for the first one."""

_STATE_WRITERS = frozenset({"apply", "destroy", "add-index", "change-index", "rekey", "migrate"})
"""Commands that hold leases there, and write to the history."""

_STATE_READERS = frozenset({"plan", "verify", "apply"})
"""Commands that ask it whether a rekey reads a stream that a definition has not."""


def policy(
    commands: Iterable[str],
    tables: Sequence[Table],
    naming: Naming,
    *,
    region: str | None = None,
    account: str = "*",
    partition: str = "aws",
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """The policy document, for the tables that are defined and for those of the full names `also`.

    Only what the definitions use is in it: without point-in-time recovery in any of them, no UpdateContinuousBackups. A
    table that is only named may use everything. Raises ValueError for an unknown command.
    """
    asked, others = tuple(dict.fromkeys(commands)), tuple(also)
    needs = frozenset[tuple[Scope, str]]().union(*(_needs(one, tables, named=bool(others)) for one in asked))
    start = f"arn:{partition}:dynamodb:{region or naming.region}:{account}:table/"
    names = sorted({*(naming.full_name(table.name) for table in tables), *others})
    statements = [
        _statement("Tables", _actions(needs, "table"), [start + name for name in names]),
        _statement("Streams", _actions(needs, "stream"), [f"{start}{name}/stream/*" for name in names]),
        _statement("Backups", _actions(needs, "backup"), [f"{start}{name}/backup/*" for name in names]),
        _statement("RekeyState", _actions(_rekey_needs(asked), "table"), [start + REKEY_TABLE]),
        _statement("State", _actions(_lock_needs(asked), "table"), [start + state_table_name()]),
        _statement("Others", _actions(needs, "others"), [f"{start}{naming.start}*"]),
        # AWS ties ListTables and ListBackups to no resource.
        _statement("List", _actions(needs, "all"), ["*"]),
        _statement("Keys", _key_actions(asked, tables), _keys(tables, partition, region or naming.region, account)),
    ]
    return {"Version": "2012-10-17", "Statement": [one for one in statements if one["Action"] and one["Resource"]]}


def policy_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _needs(command: str, tables: Sequence[Table], *, named: bool) -> Needs:
    if command not in _COMMANDS:
        raise ValueError(f"There is no command {command!r}; there are {', '.join(COMMANDS)}")
    needs = _COMMANDS[command]
    if command in _COMPARING and any(table.resource_policy is not None for table in tables):
        needs |= _table("GetResourcePolicy")
    return needs | _settings(tables, named=named) if command in _SETTING else needs


def _rekey_needs(commands: Iterable[str]) -> Needs:
    if "rekey" in commands:
        return _STATE
    return frozenset() if _STATE_READERS.isdisjoint(commands) else _table("GetItem")


def _lock_needs(commands: Iterable[str]) -> Needs:
    return frozenset() if _STATE_WRITERS.isdisjoint(commands) else _LOCKS


def _settings(tables: Sequence[Table], *, named: bool) -> Needs:
    """New tables are always tagged, and TTL that no definition has is switched off; the rest is as they say."""
    needs = _table("TagResource", "UpdateTimeToLive")
    if named or any(table.tags is not None for table in tables):
        needs |= _table("UntagResource")
    if named or any(table.pitr is not None for table in tables):
        needs |= _table("UpdateContinuousBackups")
    if any(table.resource_policy is not None for table in tables):
        needs |= _table("DeleteResourcePolicy", "GetResourcePolicy", "PutResourcePolicy")
    return needs


def _actions(needs: Needs, scope: Scope) -> list[str]:
    return sorted(f"dynamodb:{action}" for where, action in needs if where == scope)


def _key_actions(commands: Iterable[str], tables: Sequence[Table]) -> list[str]:
    """DynamoDB uses a customer's KMS key by a grant that the caller gives it."""
    wanted = any(isinstance(table.sse, str) for table in tables) and not _SETTING.isdisjoint(commands)
    return ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey"] if wanted else []


def _keys(tables: Sequence[Table], partition: str, region: str, account: str) -> list[str]:
    """An alias is no resource of a policy: it stands for any key of the account."""
    keys = {table.sse for table in tables if isinstance(table.sse, str)}
    start = f"arn:{partition}:kms:{region}:{account}:key/"
    return sorted({key if key.startswith("arn:") else start + ("*" if "alias/" in key else key) for key in keys})


def _statement(sid: str, actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
