"""A file that is deleted, replaced or overwritten under a process: nothing is acknowledged (`Watch`)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from replaced_files import LOST, OF_THE_LOG, WAYS, copy_over, delete, delete_log, get, keys, put, rename_over, writer
from sample_tables import make, table

from penstock.engine import Engine, Pending
from penstock.engine.storage import file_watch
from penstock.engine.storage.file_copy import copy_file
from penstock.engine.storage.file_format import FORMAT
from penstock.errors import DatabaseLost, InternalServerError, StorageError

Way = Callable[[Path, Path], None]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody delete or replace a file that is open")
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@pytest.fixture(autouse=True)
def read_marks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "MARK_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a file that has a table and one item."""
    folder = tmp_path / "data"
    folder.mkdir()
    with Engine(str(folder / "jobs.db")) as engine:
        make(engine, table("plain", "pk:S"))
        put(engine, "first")
    return folder / "jobs.db"


@pytest.fixture
def other(path: Path, tmp_path: Path) -> Path:
    copy_file(str(path), str(tmp_path / "monday.db"))
    return tmp_path / "monday.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    with Engine(str(path)) as engine:
        yield engine


def copy_log(engine: Engine) -> None:
    engine.store.connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


# ── in one process ───────────────────────────────────────────────────────────────────────────────


@every_way
@pytest.mark.parametrize("is_copied", [True, False], ids=["after a checkpoint", "before one"])
def test_a_write_is_not_acknowledged_once_its_file_is_lost(
    way: Way, is_copied: bool, engine: Engine, path: Path, other: Path
) -> None:
    put(engine, "second")
    if is_copied:
        copy_log(engine)
        put(engine, "third")
    way(path, other)
    with pytest.raises(DatabaseLost) as lost:
        put(engine, "fourth")
    assert str(lost.value).startswith(f"{path}: {WAYS[way]}")
    assert "start again" in str(lost.value)


@every_way
def test_no_call_is_answered_afterwards(way: Way, engine: Engine, path: Path, other: Path) -> None:
    put(engine, "second")
    way(path, other)
    reasons = set()
    for call in (put, get, put, get):
        with pytest.raises(DatabaseLost) as lost:
            call(engine, "second")
        reasons.add(str(lost.value))
        engine.store.watch.due = min(engine.store.watch.due, 0.0)
    assert len(reasons) == 1
    answers = engine.answer_many([Pending("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "x"}}})] * 3)
    assert all(isinstance(answer, InternalServerError) and str(answer) in reasons for answer in answers)


@every_way
def test_a_group_whose_file_is_lost_is_refused_whole(way: Way, engine: Engine, path: Path, other: Path) -> None:
    way(path, other)
    calls = [Pending("PutItem", {"TableName": "plain", "Item": {"pk": {"S": str(number)}}}) for number in range(3)]
    assert all(isinstance(answer, InternalServerError) for answer in engine.answer_many(calls))


@every_way
def test_a_reader_finds_out_at_its_next_look(way: Way, engine: Engine, path: Path, other: Path) -> None:
    get(engine, "first")
    way(path, other)
    engine.store.watch.due = 0.0  # a second later
    with pytest.raises(DatabaseLost):
        get(engine, "first")
    with pytest.raises(DatabaseLost):
        engine.execute("Scan", {"TableName": "plain"})


def test_readers_look_once_a_second_and_not_at_each_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    now = 100.0
    monkeypatch.setattr("penstock.engine.engine.monotonic", lambda: now)
    monkeypatch.setattr(file_watch.time, "monotonic", lambda: now)
    monkeypatch.setattr(engine.store.watch, "check", lambda: looks.append(now))
    for _ in range(5):
        get(engine, "first")
        engine.execute("Scan", {"TableName": "plain"})
    now += file_watch.LOOK_SECONDS
    get(engine, "first")
    assert looks == [100.0, 101.0]


def test_a_group_commit_is_checked_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    monkeypatch.setattr(engine.store.watch, "check", lambda: checks.append(1))
    engine.answer_many(
        [Pending("PutItem", {"TableName": "plain", "Item": {"pk": {"S": str(number)}}}) for number in range(25)]
    )
    assert len(checks) == 1


@pytest.mark.parametrize("way", OF_THE_LOG, ids=lambda way: way.__name__)
def test_what_was_acknowledged_is_in_the_file_when_only_its_log_is_gone(way: Way, path: Path, other: Path) -> None:
    with Engine(str(path)) as engine:
        put(engine, "second")
        way(path, other)
        with pytest.raises(DatabaseLost):
            put(engine, "third")
    assert keys(path) >= {"first", "second"}


@pytest.mark.parametrize("way", [rename_over, copy_over])
@pytest.mark.parametrize("is_copied", [True, False], ids=["after a checkpoint", "before one"])
def test_a_restored_copy_is_not_damaged(way: Way, is_copied: bool, path: Path, other: Path) -> None:
    """Neither by the close of the old one's connections nor by the old log that lay beside it."""
    with Engine(str(path)) as engine:
        for number in range(200):
            put(engine, f"later {number}")
        if is_copied:
            copy_log(engine)
            put(engine, "last")
        way(path, other)
        with pytest.raises(DatabaseLost):
            put(engine, "lost")
    assert keys(path) == {"first"}


def test_the_log_of_a_file_that_was_moved_is_kept_and_makes_it_whole(path: Path) -> None:
    moved = path.with_name("moved.db")
    with Engine(str(path)) as engine:
        put(engine, "second")
        path.rename(moved)
        with pytest.raises(DatabaseLost, match="its log, which is now ") as lost:
            put(engine, "third")
    (kept,) = path.parent.glob("*.lost")
    assert str(kept) in str(lost.value)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    kept.rename(f"{moved}-wal")
    assert keys(moved) >= {"first", "second"}


def test_an_older_copy_of_the_file_itself_is_noticed(path: Path, tmp_path: Path) -> None:
    shutil.copyfile(path, tmp_path / "sunday.db")  # while nobody has it open: its id is the file's own
    with Engine(str(path)) as engine:
        put(engine, "second")
        copy_log(engine)
        put(engine, "third")
        shutil.copyfile(tmp_path / "sunday.db", path)
        with pytest.raises(DatabaseLost, match="overwritten with an older copy of itself"):
            put(engine, "fourth")
    assert keys(path) == {"first"}


def test_a_file_that_is_only_touched_is_still_ours(engine: Engine, path: Path) -> None:
    put(engine, "second")
    copy_log(engine)
    put(engine, "third")
    os.utime(path)
    put(engine, "fourth")
    os.utime(path, (0, 0))
    put(engine, "fifth")


def test_checkpoints_of_ours_and_of_others_are_no_alarm(engine: Engine, path: Path) -> None:
    for number in range(20):
        put(engine, str(number))
        with closing(sqlite3.connect(path)) as their:
            their.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if number % 2 else 'PASSIVE'})").fetchall()
    with Engine(str(path)) as second:
        put(second, "second")
    put(engine, "last")
    get(engine, "last")


def test_a_link_that_is_led_elsewhere_is_noticed(path: Path, other: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with Engine(str(link)) as engine:
        put(engine, "second")
        link.unlink()
        link.symlink_to(other)
        with pytest.raises(DatabaseLost, match="replaced by another file"):
            put(engine, "third")
    assert keys(path) >= {"first", "second"}
    assert keys(other) == {"first"}


def test_a_thread_that_comes_later_opens_the_same_file_wherever_the_process_is(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    with Engine(path.name) as engine:
        monkeypatch.chdir(tmp_path)
        thread = threading.Thread(target=put, args=(engine, "second"))
        thread.start()
        thread.join()
    assert not (tmp_path / path.name).exists()
    assert keys(path) == {"first", "second"}


def test_the_same_process_may_open_the_new_file_and_does_not_die(path: Path, other: Path) -> None:
    """SQLite, which does not see the locks of its own process, would cut the old index: SIGBUS."""
    script = """
import os, sys
sys.path.insert(0, sys.argv[3])
from replaced_files import get, put
from penstock.engine import Engine
from penstock.errors import DatabaseLost
old = Engine(sys.argv[1])
put(old, "old")
os.replace(sys.argv[2], sys.argv[1])
with Engine(sys.argv[1]) as new:
    put(new, "new")
    for call in (get, put):
        try:
            call(old, "old")
        except DatabaseLost:
            print("lost")
    old.close()
    put(new, "newer")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(other), str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["lost", "lost"]), done.stderr
    assert keys(path) == {"first", "new", "newer"}


def test_background_work_ends_with_the_file(engine: Engine, path: Path, other: Path) -> None:
    engine.maintenance.wake()
    delete(path, other)
    with pytest.raises(DatabaseLost):
        put(engine, "second")
    engine.maintenance.wake()
    thread = engine.maintenance._thread
    assert thread is not None
    thread.join(timeout=60)
    assert not thread.is_alive()


# ── files of older programs, and marks ───────────────────────────────────────────────────────────


def test_a_file_without_a_mark_is_given_one_and_its_format_stays(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM meta WHERE name != 'catalog'")
    Engine(str(path)).close()
    with closing(sqlite3.connect(path)) as db:
        first = file_watch.read_mark(db)
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    assert first is not None
    Engine(str(path)).close()
    with closing(sqlite3.connect(path)) as db:
        assert file_watch.read_mark(db) == first


def test_a_copy_has_an_id_of_its_own(path: Path, other: Path) -> None:
    marks = []
    for one in (path, other):
        with closing(sqlite3.connect(one)) as db:
            marks.append(file_watch.read_mark(db))
    assert None not in marks and marks[0] != marks[1]


# ── several processes ────────────────────────────────────────────────────────────────────────────


def wait_for_keys(ledger: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len(ledger.read_text().splitlines()) < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_process_that_stops_copies_a_deleted_log_also_while_another_has_it_open(path: Path, tmp_path: Path) -> None:
    with Engine(str(path)) as staying:
        get(staying, "first")
        stopping = Engine(str(path))
        put(stopping, "second")
        delete_log(path, path)
        with pytest.raises(DatabaseLost):
            put(stopping, "third")
        stopping.close()
        # Not by this process, whose locks on the file would be gone.
        subprocess.run(["cp", str(path), str(tmp_path / "copy.db")], check=True)
    assert keys(tmp_path / "copy.db") >= {"first", "second"}


@every_way
def test_two_processes_that_write_both_stop_and_lose_nothing_that_they_acknowledged(
    way: Way, path: Path, other: Path, tmp_path: Path
) -> None:
    ledgers = [tmp_path / "one", tmp_path / "two"]
    writers = [writer(path, ledger) for ledger in ledgers]
    try:
        for ledger in ledgers:
            wait_for_keys(ledger, 20)
        way(path, other)
        told = [one.communicate(timeout=60)[1] for one in writers]
    finally:
        for one in writers:
            one.kill()
    assert [one.returncode for one in writers] == [LOST, LOST], told
    assert all(text.startswith(f"{path}: ") for text in told)
    if way in OF_THE_LOG:
        assert keys(path) >= {line for ledger in ledgers for line in ledger.read_text().splitlines()}
    # A copy is made into the file itself: a checkpoint that is under way in one process, while the other one sees the
    # change, may still write into it.
    if way is rename_over:
        assert keys(path) == {"first"}


def test_a_process_that_opens_a_restored_copy_beside_an_old_log_does_not_take_it_for_its_own(
    path: Path, other: Path, tmp_path: Path
) -> None:
    stopped = writer(path, tmp_path / "one")
    try:
        wait_for_keys(tmp_path / "one", 20)
        os.kill(stopped.pid, signal.SIGSTOP)
        rename_over(path, other)
        with pytest.raises(DatabaseLost, match="beside the file was another file's"):
            Engine(str(path))
        with pytest.raises(DatabaseLost, match="End the process"):
            Engine(str(path))
        assert keys(path) == {"first"}
    finally:
        stopped.kill()
        stopped.communicate()
    assert keys(path) == {"first"}


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────


def call(url: str, operation: str, request: object) -> None:
    headers = {
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=0",
        "X-Amz-Date": "20260101T000000Z",
    }
    asked = urllib.request.Request(url, json.dumps(request).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        answer.read()


@every_way
def test_a_server_says_so_and_ends_with_an_error(way: Way, path: Path, other: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--db", str(path), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    acknowledged: set[str] = set()
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        for number in range(20):
            call(url, "PutItem", {"TableName": "plain", "Item": {"pk": {"S": str(number)}}})
            acknowledged.add(str(number))
        way(path, other)
        refused = ""
        for number in range(20, 100_000):
            try:
                call(url, "PutItem", {"TableName": "plain", "Item": {"pk": {"S": str(number)}}})
            except urllib.error.HTTPError as error:
                refused = error.read().decode()
                break
        _, told = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 1
    assert WAYS[way] in refused
    assert f"Stopping: {path}: {WAYS[way]}" in told
    if way in OF_THE_LOG:
        assert keys(path) >= {"first"} | acknowledged
    if way in (rename_over, copy_over):
        assert keys(path) == {"first"}


def test_a_server_that_nobody_calls_finds_out_too(path: Path, other: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--db", str(path), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        server.stdout.readline()
        delete(path, other)
        _, told = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 1
    assert f"Stopping: {path}: the file was deleted or moved" in told


# ── permissions ──────────────────────────────────────────────────────────────────────────────────


def test_files_that_come_anew_are_their_owners_alone_whatever_the_umask(path: Path, other: Path) -> None:
    before = os.umask(0)
    try:
        with Engine(str(path)) as engine:
            delete(path, other)
            for work in (put, get):
                with suppress(StorageError):
                    thread = threading.Thread(target=_quietly, args=(work, engine))
                    thread.start()
                    thread.join()
            with Engine(str(path)) as new:
                make(new, table("plain", "pk:S"))
                put(new, "new")
                modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes
    assert {"jobs.db", "jobs.db-wal", "jobs.db-shm"} <= set(modes)


def test_sqlite_never_makes_the_file_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode would be the umask's, where the file is deleted just before it is opened."""
    path.unlink()
    monkeypatch.setattr("penstock.engine.storage.database_file.make_if_absent", lambda path: None)
    with pytest.raises(StorageError, match="unable to open"):
        Engine(str(path))
    assert list(path.parent.iterdir()) == []


def _quietly(work: Callable[[Engine, str], None], engine: Engine) -> None:
    with suppress(StorageError):
        work(engine, "x")


def test_a_log_that_lies_beside_no_file_is_kept_and_not_used(path: Path) -> None:
    stray = Path(f"{path}-wal")
    path.unlink()
    stray.write_bytes(b"precious")
    with Engine(str(path)) as engine:
        make(engine, table("plain", "pk:S"))
    assert [kept.read_bytes() for kept in path.parent.glob("*.lost")] == [b"precious"]
