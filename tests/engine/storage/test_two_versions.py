"""Two versions of the program on one file: the newer upgrades it, the older never writes to what it cannot know."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from typing import Any

import pytest
from sample_tables import make, table

from penstock.engine import Engine, Pending
from penstock.engine.repair.examine import examine
from penstock.engine.storage.file_format import FORMAT, NEWEST
from penstock.errors import InternalServerError, StorageError

NEXT = NEWEST + 1

# A program of the next format, whose upgrade gives the file a table more. It ends as its first argument says.
_NEWER = """
import os, signal, sys
from penstock.engine import Engine
from penstock.engine.storage import file_format

def upgrade(connection):
    connection.execute("CREATE TABLE novelty (a)")
    if sys.argv[1] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)

file_format.FORMAT = file_format.NEWEST = file_format.NEWEST + 1
file_format._UPGRADES = (*file_format._UPGRADES, lambda connection: None, upgrade)
with Engine(sys.argv[2]) as engine:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "newer"}}})
    print(engine.execute("Scan", {"TableName": "plain", "Select": "COUNT"})["Count"])
"""


def newer(path: str, how: str = "works") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _NEWER, how, path]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def put(engine: Engine, key: str) -> None:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": key}}})


@pytest.fixture
def file(path: str) -> str:
    with Engine(path) as engine:
        make(engine, table("plain", "pk:S"))
        put(engine, "older")
    return path


def version(path: str) -> int:
    db = sqlite3.connect(path)
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return found


def test_a_newer_program_upgrades_the_file_and_the_older_one_then_refuses_it(file: str) -> None:
    ended = newer(file)
    assert ended.stdout == "2\n", ended
    assert version(file) == NEXT
    with pytest.raises(StorageError, match=f"format {NEXT} was written by a newer Penstock.*Upgrade penstock"):
        Engine(file)
    with pytest.raises(StorageError, match="newer Penstock"):
        examine(file)


def test_an_upgrade_that_is_killed_has_not_happened(file: str) -> None:
    assert newer(file, "dies").returncode == -signal.SIGKILL
    assert version(file) == FORMAT
    assert examine(file).sound
    with Engine(file) as engine:
        assert engine.execute("Scan", {"TableName": "plain"})["Items"] == [{"pk": {"S": "older"}}]


def test_a_process_that_has_the_file_open_writes_nothing_more_after_an_upgrade(file: str) -> None:
    with Engine(file) as engine:
        put(engine, "before")
        assert newer(file).stdout == "3\n"
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{file}: format {NEXT} was written by a newer Penstock"):
                put(engine, "after")
        got = engine.answer_many([Pending("PutItem", _put("group")), Pending("GetItem", _get("older"))])
        assert isinstance(got[0], InternalServerError) and "newer Penstock" in got[0].message
        assert engine.execute("GetItem", _get("newer"))["Item"] == {"pk": {"S": "newer"}}, "what is as it was is read"
    db = sqlite3.connect(file)
    assert db.execute("SELECT count(*) FROM t1").fetchone()[0] == 3
    db.close()


def _put(key: str) -> dict[str, Any]:
    return {"TableName": "plain", "Item": {"pk": {"S": key}}}


def _get(key: str) -> dict[str, Any]:
    return {"TableName": "plain", "Key": {"pk": {"S": key}}}
