"""What strangers can do to, and learn from, the files that are made: permissions, planted links, names in SQL."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.database import connect
from penstock.engine import Engine
from penstock.engine.storage.file_copy import copy_file, new_file
from penstock.errors import DynamoDBError, StorageError
from penstock.tables.formats.export import write_whole

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")


@pytest.fixture
def generous() -> Iterator[None]:
    """A umask that withholds nothing from anybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_a_new_database_its_log_and_its_copy_are_their_owners_alone(tmp_path: Path, generous: None) -> None:
    path = tmp_path / "jobs.db"
    with Engine(str(path)):
        assert {file.name: mode(file) for file in tmp_path.iterdir()} == {
            "jobs.db": 0o600,
            "jobs.db-wal": 0o600,
            "jobs.db-shm": 0o600,
        }
        copy_file(str(path), str(tmp_path / "copy.db"))
    assert mode(tmp_path / "copy.db") == 0o600


@posix
def test_a_database_that_was_shared_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    Engine(str(path)).close()
    path.chmod(0o660)
    Engine(str(path)).close()
    assert mode(path) == 0o660


@posix
def test_an_export_is_readable_by_whom_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "orders.json", "{}")
    finally:
        os.umask(before)
    assert mode(tmp_path / "orders.json") == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["orders.json"]


@posix
def test_a_link_planted_where_a_copy_is_made_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("penstock.engine.storage.file_copy.token_hex", lambda count: "guessed")
    planted = tmp_path / f"copy.db.{os.getpid()}.guessed.part"
    planted.symlink_to(victim)
    with pytest.raises(StorageError), new_file(str(tmp_path / "copy.db"), replace=False) as part:
        part.write_text("overwritten")
    assert victim.read_text() == "precious"


NASTY = "x'; DROP TABLE tables; --\"`]\x00é💥"


def test_no_name_of_anything_is_part_of_a_statement(tmp_path: Path) -> None:
    """Attributes may have any name, of keys and of indexes too: SQLite never sees them."""
    path = tmp_path / "names.db"
    with Engine(str(path)) as engine:
        engine.execute(
            "CreateTable",
            {
                "TableName": "t.a-b_c",
                "KeySchema": [{"AttributeName": NASTY, "KeyType": "HASH"}],
                "AttributeDefinitions": [
                    {"AttributeName": NASTY, "AttributeType": "S"},
                    {"AttributeName": NASTY + "2", "AttributeType": "S"},
                ],
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": "by.x",
                        "KeySchema": [{"AttributeName": NASTY + "2", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": [NASTY + "3"]},
                    }
                ],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        item = {NASTY: {"S": NASTY}, NASTY + "2": {"S": NASTY}, NASTY + "3": {"S": NASTY}, "ttl": {"N": "1"}}
        engine.execute("PutItem", {"TableName": "t.a-b_c", "Item": item})
        asked = {
            "TableName": "t.a-b_c",
            "IndexName": "by.x",
            "KeyConditionExpression": "#k = :k",
            "ExpressionAttributeNames": {"#k": NASTY + "2"},
            "ExpressionAttributeValues": {":k": {"S": NASTY}},
        }
        assert engine.execute("Query", asked)["Count"] == 1
    with sqlite3.connect(path) as db:
        statements = [row[0] or "" for row in db.execute("SELECT sql FROM sqlite_master")]
    db.close()
    assert not [text for text in statements if "DROP" in text or "t.a" in text or "by.x" in text]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a;b", "a b", "../a", "a/b", "a\x00b", "é", "", "ab"])
def test_a_table_has_no_name_that_could_be_more_than_one(name: str) -> None:
    with connect(":memory:") as db, pytest.raises(DynamoDBError):
        db.execute(
            "CreateTable",
            {
                "TableName": name,
                "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
