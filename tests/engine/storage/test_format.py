"""Files that are not ours, or cannot be used: refused by name, with what to do next, and left as they are."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sample_tables import make, table

from penstock.engine import Engine, Pending
from penstock.engine.settings import Settings
from penstock.engine.storage.file_format import APPLICATION_ID, NEWEST
from penstock.errors import DynamoDBError, PenstockError, StorageError

GET = {"TableName": "plain", "Key": {"pk": {"S": "a"}}}
PUT = {"TableName": "plain", "Item": {"pk": {"S": "a"}}}


def refusal(path: str) -> str:
    """Why the file cannot be opened; it must be as it was."""
    before = Path(path).read_bytes() if Path(path).is_file() else None
    with pytest.raises(StorageError) as caught:
        Engine(path)
    assert path in str(caught.value)
    after = Path(path).read_bytes() if Path(path).is_file() else None
    assert after == before
    return str(caught.value)


def pragma(path: str, text: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA {text}")
    db.close()


def written(path: str) -> str:
    """A file of ours with one item."""
    with Engine(path) as engine:
        make(engine, table("plain", "pk:S"))
        engine.execute("PutItem", PUT)
    return path


def test_a_newer_format_is_refused_with_advice_to_upgrade(path: str) -> None:
    written(path)
    pragma(path, f"user_version = {NEWEST + 1}")
    assert "newer Penstock" in refusal(path)
    assert "Upgrade" in refusal(path)


def test_another_applications_sqlite_file_is_refused(path: str) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (a)")
    db.commit()
    db.close()
    assert "another application" in refusal(path)


def test_another_applications_id_is_refused_even_where_its_file_is_empty(path: str) -> None:
    pragma(path, "application_id = 1234")
    assert "another application" in refusal(path)


@pytest.mark.parametrize("content", [b"Dear diary, today I learned about files. " * 50, b"xy", bytes(range(256)) * 40])
def test_a_file_that_is_no_database_is_refused(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    assert "not an SQLite file" in refusal(path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "folder exists" in refusal(str(tmp_path / "nowhere" / "engine.db"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "unable to open" in refusal(str(tmp_path))


def test_an_empty_file_becomes_ours(path: str) -> None:
    Path(path).touch()
    written(path)
    assert sqlite3.connect(path).execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_a_read_only_file_is_refused(path: str) -> None:
    written(path)
    Path(path).chmod(0o444)
    Path(path).parent.chmod(0o555)
    try:
        assert "read-only" in refusal(path)
    finally:
        Path(path).parent.chmod(0o755)


_READ_ONLY = """
import os, sys
from penstock.engine import Engine
os.setgid(65534); os.setuid(65534)
try:
    engine = Engine(sys.argv[1])
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "b"}}})
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_of_another_user_is_refused_as_read_only(tmp_path: Path) -> None:
    path = written(str(tmp_path / "engine.db"))
    before = Path(path).read_bytes()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    run = subprocess.run([sys.executable, "-c", _READ_ONLY, path], capture_output=True, text=True, timeout=60)
    assert "read-only" in run.stdout + run.stderr or "may be written" in run.stdout, run
    assert path in run.stdout
    assert Path(path).read_bytes() == before


def test_a_file_that_another_process_holds_times_out_with_advice(path: str) -> None:
    written(path)
    holder = sqlite3.connect(path, isolation_level=None)
    with Engine(path, settings=Settings(busy_seconds=0.05)) as engine:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(PenstockError) as caught:
            engine.execute("PutItem", PUT)
        assert path in str(caught.value) and "busy_seconds" in str(caught.value)
        assert engine.execute("GetItem", GET) == {"Item": PUT["Item"]}, "readers need not wait for a writer"
        holder.execute("ROLLBACK")
        engine.execute("PutItem", PUT)
    holder.close()


def test_a_group_on_a_held_file_gets_an_error_each(path: str) -> None:
    written(path)
    holder = sqlite3.connect(path, isolation_level=None)
    with Engine(path, settings=Settings(busy_seconds=0.05)) as engine:
        holder.execute("BEGIN IMMEDIATE")
        put, get = engine.answer_many([Pending("PutItem", PUT), Pending("GetItem", GET)])
        assert isinstance(put, DynamoDBError) and put.retryable
        assert isinstance(get, bytes)
    holder.close()


def test_a_closed_engine_says_so(path: str) -> None:
    written(path)
    engine = Engine(path)
    engine.close()
    found: list[Exception] = []

    def use() -> None:
        try:
            engine.execute("GetItem", GET)
        except Exception as error:
            found.append(error)

    use()
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(found) == 2
    assert all(isinstance(error, PenstockError) and "closed" in str(error) for error in found)


def test_closing_leaves_one_file(path: str) -> None:
    written(path)
    assert [one.name for one in Path(path).parent.iterdir()] == [Path(path).name]


@pytest.mark.parametrize("_", range(5))
def test_a_file_made_by_eight_engines_at_once_is_whole(path: str, _: int) -> None:
    engines: list[Engine] = []
    together = threading.Barrier(8)

    def open_one() -> None:
        together.wait(timeout=30)
        engines.append(Engine(path))

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engines) == 8
    make(engines[0], table("plain", "pk:S"))
    engines[1].execute("PutItem", PUT)
    assert engines[2].execute("GetItem", GET) == {"Item": PUT["Item"]}
    for engine in engines:
        engine.close()


def test_a_file_that_others_are_making_is_waited_for(path: str) -> None:
    class Locked:
        calls = 0

        def execute(self, statement: str) -> str:
            self.calls += 1
            if self.calls < 3:
                raise sqlite3.OperationalError("database is locked")
            return statement

    with Engine(path) as engine:
        assert engine.store._execute_when_free(Locked(), "PRAGMA user_version") == "PRAGMA user_version"  # type: ignore[arg-type,comparison-overlap]


def test_a_full_disk_refuses_the_write_and_keeps_the_rest(path: str) -> None:
    written(path)
    with Engine(path) as engine:
        db = engine.store.connection()
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 2}")
        large = {"pk": {"S": "large"}, "text": {"S": "x" * 300_000}}
        with pytest.raises(PenstockError) as caught:
            engine.execute("PutItem", {"TableName": "plain", "Item": large})
        assert path in str(caught.value) and "make room" in str(caught.value)
        assert engine.execute("Scan", {"TableName": "plain"})["Items"] == [PUT["Item"]]
        db.execute(f"PRAGMA max_page_count = {pages + 2_000}")
        engine.execute("PutItem", {"TableName": "plain", "Item": large})


def test_a_damaged_file_is_named_with_advice(path: str) -> None:
    with Engine(path) as engine:
        make(engine, table("plain", "pk:S"))
        for number in range(200):
            item = {"pk": {"S": f"item {number}"}, "text": {"S": "x" * 1_000}}
            engine.execute("PutItem", {"TableName": "plain", "Item": item})
    raw = bytearray(Path(path).read_bytes())
    raw[len(raw) // 2 :] = b"\xff" * (len(raw) - len(raw) // 2)
    Path(path).write_bytes(raw)
    with pytest.raises(PenstockError) as caught, Engine(path) as engine:
        engine.execute("Scan", {"TableName": "plain"})
    assert path in str(caught.value) and "restore a backup" in str(caught.value)
