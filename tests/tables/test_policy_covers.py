"""S1.16: every call that a command really makes is allowed by the policy of that command, on just that resource."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.kit import databases
from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.client.wrappers.recording import Recording
from penstock.errors import AccessDeniedException
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Table

MODULE = """
from penstock.tables.definitions.definition import Index, Table

full = [Table("jobs", "id:S", ttl="ttl", pitr=True, tags={"team": "a"}, stream="NEW_AND_OLD_IMAGES",
              indexes=[Index("by-state", "state:S")])]
less = [Table("jobs", "id:S", pitr=False, tags={})]
"""
ACCOUNT = "arn:aws:dynamodb:us-east-1:000000000000:table/"
LOG = Path("calls.jsonl")


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with definitions; whatever the commands ask of their database is written to a file."""
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX", "AWS_REGION", "PENSTOCK_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "policed", raising=False)
    Path("policed.py").write_text(MODULE)
    monkeypatch.setattr(
        databases, "connect", lambda url, **more: Database(Recording(connect(url, **more).transport, LOG))
    )


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["tables", *words])
    assert result.exit_code == code, result.output
    return result.output


def on(definitions: str, *words: str) -> list[str]:
    return [definitions, "--db", "tables.db", "--prefix", "", *words]


def prepared(items: int = 3) -> None:
    run("apply", *on("policed:full", "--yes"))
    with connect("tables.db") as db:
        for number in range(items):
            item = {"id": {"S": str(number)}, "state": {"S": "new"}, "other": {"S": f"o{number}"}}
            db.execute("PutItem", {"TableName": "jobs", "Item": item})


def calls() -> Iterator[tuple[str, str]]:
    """(operation, ARN) of each call."""
    for line in LOG.read_bytes().splitlines():
        call = json.loads(line)
        for resource in _resources(call["operation"], call["request"]):
            yield call["operation"], resource


def _resources(operation: str, request: dict[str, Any]) -> list[str]:
    if operation == "ListTables":
        return ["*"]
    if operation == "GetRecords":
        return [f"{ACCOUNT}jobs/stream/2026"]  # an iterator names its stream in a way of the engine's own
    if "RequestItems" in request:
        return [ACCOUNT + name for name in request["RequestItems"]]
    arns = [request[name] for name in ("StreamArn", "BackupArn", "ResourceArn") if name in request]
    names = [request[name] for name in ("TableName", "SourceTableName", "TargetTableName") if name in request]
    return arns + [ACCOUNT + name for name in names]


def allows(document: dict[str, Any], operation: str, resource: str) -> bool:
    return any(
        f"dynamodb:{operation}" in one["Action"] and any(fnmatchcase(resource, pattern) for pattern in one["Resource"])
        for one in document["Statement"]
    )


def check(command: str, *policy: str) -> set[str]:
    """Fails unless the policy allows every recorded call; gives the operations."""
    document = json.loads(run("policy", *policy, "--for", command))
    made = set(calls())
    assert made
    assert [call for call in sorted(made) if not allows(document, *call)] == []
    return {operation for operation, _ in made}


DEFINED = ("policed:full", "--prefix", "")

SIMPLE: dict[str, list[str]] = {
    "plan": on("policed:less"),
    "verify": on("policed:full"),
    "export": on("policed:full"),
    "doctor": on("policed:full"),
    "orphans": on("policed:full"),
    "destroy": on("policed:full", "--yes", "--allow-destroy"),
    "add-index": on("policed:full", "--table", "jobs", "--index", "new", "--partition-key", "other", "--yes"),
    "change-index": on(
        "policed:full", "--table", "jobs", "--index", "by-state", "--sort-key", "other", "--yes", "--allow-destroy"
    ),
    "backup": ["jobs", "--db", "tables.db"],
    "dump": ["jobs", "--out", "dumped", "--db", "tables.db"],
}


@pytest.mark.parametrize("command", SIMPLE)
def test_the_policy_of_a_command_allows_what_it_does(command: str) -> None:
    prepared()
    LOG.unlink()
    run(command, *SIMPLE[command])
    check(command, *DEFINED)


def test_apply_may_switch_on_and_off_what_the_definition_says() -> None:
    run("apply", *on("policed:full", "--yes"))
    check("apply", *DEFINED)
    LOG.unlink()
    run("apply", *on("policed:less", "--yes", "--allow-destroy"))
    assert {"UpdateTimeToLive", "UntagResource", "UpdateTable"} <= check("apply", "policed:less", "--prefix", "")


def test_load_makes_the_table_with_its_settings() -> None:
    prepared()
    run("dump", "jobs", "--out", "dumped", "--db", "tables.db")
    LOG.unlink()
    run("load", "dumped", "--table", "jobs2", "--create", "--db", "tables.db")
    assert {"CreateTable", "UpdateTimeToLive", "UpdateContinuousBackups"} <= check("load", "--name", "jobs2")


@pytest.mark.parametrize("source", ["point in time", "backup", "dump"])
def test_restore_puts_the_settings_back(source: str) -> None:
    prepared()
    arn = json.loads(run("backup", "jobs", "--db", "tables.db", "--json"))["arn"]
    run("dump", "jobs", "--out", "dumped", "--db", "tables.db")
    LOG.unlink()
    words = {"point in time": ["--from", "jobs"], "backup": ["--backup", arn], "dump": ["--dump", "dumped"]}
    run("restore", "again", *words[source], "--db", "tables.db")
    check("restore", *DEFINED, "--name", "again")


def test_diff_data_reads_both() -> None:
    prepared()
    LOG.unlink()
    run("diff-data", "jobs", "jobs", "--db", "tables.db")
    check("diff-data", "--name", "jobs")


@pytest.mark.parametrize("definitions", ["full", "less"])
def test_rekey_follows_the_stream_and_keeps_its_state(definitions: str) -> None:
    run("apply", *on(f"policed:{definitions}", "--yes"))
    with connect("tables.db") as db:
        db.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": "1"}, "other": {"S": "o"}}})
    LOG.unlink()
    url = ("--db", "tables.db")
    begin = ("rekey", "jobs", "--key", "other:S", "--into", "jobs2", *url)
    run(*begin)
    run("rekey", "rollback", "jobs", "--yes", *url)
    run(*begin)
    with connect("tables.db") as db:
        db.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": "2"}, "other": {"S": "p"}}})
    run("rekey", "jobs", *url)
    run("rekey", "confirm", "jobs", *url)
    run("rekey", "status", "jobs", *url)
    made = check("rekey", f"policed:{definitions}", "--prefix", "", "--name", "jobs2")
    assert {"GetShardIterator", "GetRecords", "DescribeStream", "BatchGetItem", "DeleteTable"} <= made


@pytest.mark.parametrize(
    ("words", "writer"),
    [
        (["dump", "jobs", "--out", "x"], "penstock tables policy --for dump --name jobs"),
        (["diff-data", "jobs", "bees"], "penstock tables policy --for diff-data --name jobs --name bees"),
        (
            ["rekey", "jobs", "--key", "other:S", "--into", "new"],
            "penstock tables policy --for rekey --name jobs --name new",
        ),
        (["verify", "policed:full", "--prefix", ""], "penstock tables policy policed:full --for verify"),
    ],
    ids=lambda words: words[0],
)
def test_a_missing_right_is_told_with_the_command_that_writes_the_policy(
    words: list[str], writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared()
    with connect("tables.db") as db:
        make(db, Table("jobs", "id:S"), "bees")
    real: Callable[..., Any] = Recording.execute

    def refused(self: Recording, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation in ("Scan", "DescribeTimeToLive"):
            raise AccessDeniedException(f"User: arn:aws:iam::1:user/x may not perform: dynamodb:{operation} on jobs")
        answer: dict[str, Any] = real(self, operation, request)
        return answer

    monkeypatch.setattr(Recording, "execute", refused)
    told = run(*words, "--db", "tables.db", code=1)
    assert "dynamodb:" in told
    assert f"`{writer}" in told
