"""`penstock tables list|show|backups|delete-backup`: what a database has, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.errors import AccessDeniedException
from penstock.tables.apply.apply import make
from penstock.tables.data.backups import list_backups
from penstock.tables.definitions.definition import Index, Table, Throughput

ORDERS = Table(
    "shop-orders",
    ("customer:S", "number:N"),
    indexes=[
        Index("by-day", "day:S", projection=("total", "note")),
        Index("by-total", "customer:S", "total:N", local=True, projection="KEYS_ONLY"),
    ],
    ttl="expires",
    stream="NEW_IMAGE",
    pitr=7,
    tags={"team": "sales", "cost": "α"},
    deletion_protection=True,
)
PLAIN = Table("other", "id:S", billing=Throughput(3, 4))


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DB", "shop.db")
    monkeypatch.setenv("COLUMNS", "150")
    with connect("shop.db") as db:
        for table in (ORDERS, PLAIN):
            make(db, table, table.name)
        db.table("shop-orders").put({"customer": "c", "number": 1, "day": "d", "total": 2})


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["tables", *words])
    assert result.exit_code == code, result.output
    return result


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*words).stdout.splitlines()]


def test_a_list_is_json_lines_in_a_pipe_and_a_table_when_asked() -> None:
    second, first = lines("list")
    assert first["name"] == "shop-orders" and first["items"] == 1 and first["status"] == "ACTIVE"
    assert first["key"] == ["customer:S", "number:N"] and first["indexes"] == ["by-day", "by-total"]
    assert second["billing"] == "3 read, 4 write units"
    told = run("list", "--table")
    assert told.stdout.splitlines()[0].split() == ["name", "status", "items", "size", "key", "billing", "indexes"]
    assert told.stderr == "2 tables, 1 item\n"


def test_a_prefix_chooses_and_nothing_is_no_error() -> None:
    assert [one["name"] for one in lines("list", "--prefix", "shop-")] == ["shop-orders"]
    assert lines("list", "--prefix", "none") == []
    assert run("list", "--prefix", "none", "--table").stderr == "No tables that begin with none.\n"


def test_more_tables_than_a_page_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect("shop.db") as db:
        for at in range(105):
            db.execute("CreateTable", {
                "TableName": f"many-{at:03d}", "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            })  # fmt: skip
    assert len(lines("list", "--prefix", "many-")) == 105


def test_a_table_that_may_not_be_looked_at_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Database.execute

    def execute(self: Database, operation: str, request: dict[str, Any]) -> Any:
        if operation == "DescribeTable" and request["TableName"] == "other":
            raise AccessDeniedException("not yours")
        return real(self, operation, request)

    monkeypatch.setattr(Database, "execute", execute)
    told = run("list", code=1)
    assert [json.loads(line)["name"] for line in told.stdout.splitlines()] == ["shop-orders"]
    assert told.stderr.startswith("other: looking at it: AccessDeniedException: not yours")


def test_show_tells_every_setting() -> None:
    (told,) = lines("show", "shop-orders")
    assert (told["ttl"], told["stream"], told["pitr_days"]) == ("expires", "NEW_IMAGE", 7)
    assert told["tags"] == {"team": "sales", "cost": "α"} and told["deletion_protection"] is True
    by_day, by_total = told["indexes"]
    assert (by_day["kind"], by_day["projection"], by_day["status"]) == ("global", ["note", "total"], "ACTIVE")
    assert (by_total["kind"], by_total["projection"], by_total["items"]) == ("local", "KEYS_ONLY", 1)
    text = run("show", "shop-orders", "--table").stdout
    for line in ("recovery    7 days", "protection  on", "tags        cost=α, team=sales", "stream      NEW_IMAGE"):
        assert f"  {line}\n" in text
    assert "by-day    global  day:S " in text
    assert "There is shop-orders." in run("show", "shop-order", code=1).output


def test_backups_are_listed_and_deleted_by_their_arn() -> None:
    assert lines("backups") == []
    for name in ("one", "two"):
        run("backup", "shop-orders", "--name", name)
    one, two = lines("backups", "shop-orders")
    assert (one["name"], two["name"], one["status"], one["kind"]) == ("one", "two", "AVAILABLE", "USER")
    assert f"\n  {one['arn']}\n" in run("backups", "--table").stdout
    assert "--yes", "--allow-destroy" in run("delete-backup", one["arn"], code=2).output
    assert run("delete-backup", one["arn"], "--dry-run").stdout == "Would delete the backup one of shop-orders\n"
    assert len(lines("backups")) == 2
    assert (
        run("delete-backup", one["arn"], "--yes", "--allow-destroy").stdout == "Deleted the backup one of shop-orders\n"
    )
    assert [each["name"] for each in lines("backups")] == ["two"]
    assert "There is no backup" in run("delete-backup", one["arn"], "--yes", "--allow-destroy", code=4).output
    assert "There is shop-orders" in run("backups", "shop-order", code=1).output


def test_backups_of_a_deleted_table_and_of_more_than_a_page_are_listed() -> None:
    with connect("shop.db") as db:
        for at in range(102):
            db.execute("CreateBackup", {"TableName": "other", "BackupName": f"n-{at}"})
        db.execute("DeleteTable", {"TableName": "other"})
        assert len(list_backups(db, "other")) >= 102
    assert len(lines("backups", "other")) >= 102
