"""`penstock backup`: a copy of a file in use is the file at one moment, or is not there (storage/file_copy.py, 1-3)."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.engine import Engine
from penstock.engine.storage import file_copy
from penstock.errors import StorageError

TABLES = ("debits", "credits")


def definition(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }


def put(engine: Engine, number: int) -> None:
    """The same number into both tables, in one transaction."""
    item = {"id": {"S": f"n{number % 50}"}, "number": {"N": str(number)}, "text": {"S": "x" * 1000}}
    engine.execute("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": t, "Item": item}} for t in TABLES]})


def numbers(path: str, name: str) -> list[str]:
    with Engine(path) as engine:
        items = engine.execute("Scan", {"TableName": name})["Items"]
    return sorted(item["number"]["N"] for item in items)


@pytest.fixture
def source(path: str) -> str:
    with Engine(path) as engine:
        for name in TABLES:
            engine.execute("CreateTable", definition(name))
        for number in range(50):
            put(engine, number)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["backup", *arguments])


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_file_that_is_written_to_is_copied_as_it_was_at_one_moment(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy, "STEP_PAGES", 1)
    with Engine(source) as engine:
        for number in range(100, 160):
            put(engine, number)
        copies: list[int] = []

        def write_between_two_steps(done: int, total: int) -> None:
            copies.append(done)
            for number in range(200 + 5 * len(copies), 205 + 5 * len(copies)):
                put(engine, number)

        copied = file_copy.copy_file(source, str(tmp_path / "copy.db"), progress=write_between_two_steps)
        assert len(copies) == copied.bytes // 8192, "it must not begin again because somebody writes"
    first, second = (numbers(copied.copy, name) for name in TABLES)
    assert first == second == sorted(str(number) for number in range(110, 160))


def test_the_command_tells_what_it_copied(source: str, tmp_path: Path) -> None:
    result = run(source, str(tmp_path / "copy.db"), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["tables"] == 2 and told["bytes"] == Path(source).stat().st_size
    assert names(tmp_path) == ["copy.db", "engine.db"]
    assert "2 tables" in run(source, str(tmp_path / "second.db")).output


def test_what_is_there_is_replaced_only_with_yes(source: str, tmp_path: Path) -> None:
    there = tmp_path / "copy.db"
    there.write_text("precious")
    refused = run(source, str(there))
    assert refused.exit_code == 2 and "--yes" in refused.output and there.read_text() == "precious"
    assert run(source, str(there), "--yes").exit_code == 0
    assert numbers(str(there), "debits") == sorted(map(str, range(50)))


def test_a_database_that_somebody_has_open_is_not_replaced(source: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    with Engine(other):
        refused = run(source, other, "--yes")
    assert refused.exit_code == 1 and "other.db-wal lies beside it" in refused.output


@pytest.mark.parametrize(
    ("source_name", "dest", "told"),
    [
        ("engine.db", "engine.db", "the source itself"),
        ("missing.db", "copy.db", "there is no such file"),
        ("text.db", "copy.db", "not a database"),
        ("engine.db", "nowhere/copy.db", "folder does not exist"),
        ("engine.db", "", "a folder"),
        ("http://localhost:8000", "copy.db", "penstock tables dump"),
    ],
)
def test_what_cannot_be_copied_is_named(source: str, tmp_path: Path, source_name: str, dest: str, told: str) -> None:
    (tmp_path / "text.db").write_text("Dear diary. " * 500)
    start = source_name if "://" in source_name else str(tmp_path / source_name)
    refused = run(start, str(tmp_path / dest), "--yes")
    assert refused.exit_code == 1 and told in refused.output, refused.output
    assert names(tmp_path) == ["engine.db", "text.db"]


def test_ctrl_c_leaves_what_was_there(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "copy.db"
    there.write_text("precious")
    monkeypatch.setattr(file_copy, "STEP_PAGES", 1)

    def interrupted(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file_copy.copy_file(source, str(there), replace=True, progress=interrupted)
    assert there.read_text() == "precious" and names(tmp_path) == ["copy.db", "engine.db"]


def test_a_name_that_is_taken_meanwhile_is_left_to_its_owner(source: str, tmp_path: Path) -> None:
    there = tmp_path / "copy.db"
    with pytest.raises(StorageError, match="somebody else"):
        file_copy.copy_file(source, str(there), progress=lambda _done, _total: there.write_text("precious") and None)
    assert there.read_text() == "precious" and names(tmp_path) == ["copy.db", "engine.db"]


def limited(bytes_: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def test_where_there_is_no_room_nothing_is_left(source: str, tmp_path: Path) -> None:
    there = tmp_path / "copy.db"
    there.write_text("precious")
    program = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program, "backup", source, str(there), "--yes"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limited(50_000))
    assert ended.returncode == 1, ended
    assert f"{there}: " in ended.stderr and "Make room" in ended.stderr and "Traceback" not in ended.stderr
    assert there.read_text() == "precious" and names(tmp_path) == ["copy.db", "engine.db"]


def test_a_damaged_file_has_no_copy_that_looks_like_a_good_one(source: str, tmp_path: Path) -> None:
    raw = bytearray(Path(source).read_bytes())
    raw[len(raw) // 2 :] = b"\xff" * (len(raw) - len(raw) // 2)
    Path(source).write_bytes(raw)
    refused = run(source, str(tmp_path / "copy.db"))
    assert refused.exit_code == 1 and f"penstock repair {source}" in refused.output
    assert names(tmp_path) == ["engine.db"]


def test_a_read_only_file_in_a_read_only_folder_is_copied(source: str, tmp_path: Path) -> None:
    kept, out = tmp_path / "kept", tmp_path / "out"
    kept.mkdir()
    out.mkdir()
    there = kept / "engine.db"
    Path(source).rename(there)
    there.chmod(0o444)
    kept.chmod(0o555)
    out.chmod(0o777)
    try:
        command = [sys.executable, "-c", _AS_NOBODY, str(there), str(out / "copy.db")]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert names(kept) == ["engine.db"]
    finally:
        kept.chmod(0o755)


# Root may write everywhere: it becomes somebody else, whom the folders above the test's own must let through.
_AS_NOBODY = """
import os, pathlib, sys
from penstock.engine.storage.file_copy import copy_file
if os.geteuid() == 0:
    for folder in list(pathlib.Path(sys.argv[1]).parents)[1:]:
        if len(folder.parts) > 2:
            folder.chmod(0o755)
    os.setgid(65534); os.setuid(65534)
copy_file(*sys.argv[1:])
"""


def test_a_copy_is_its_owners_alone_unless_the_file_it_replaces_was_shared(source: str, tmp_path: Path) -> None:
    there = tmp_path / "copy.db"
    assert run(source, str(there)).exit_code == 0 and there.stat().st_mode & 0o777 == 0o600
    there.chmod(0o640)
    assert run(source, str(there), "--yes").exit_code == 0 and there.stat().st_mode & 0o777 == 0o640


def test_two_copies_at_once_are_both_whole(source: str, tmp_path: Path) -> None:
    places = [str(tmp_path / f"copy{n}.db") for n in range(4)]
    threads = [threading.Thread(target=file_copy.copy_file, args=(source, place)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The first page has a counter of changes, the second one the id of the file, which no two have in common.
    assert {Path(place).read_bytes()[2 * 8192 :] for place in places} == {Path(source).read_bytes()[2 * 8192 :]}
    assert len({Path(place).read_bytes()[8192 : 2 * 8192] for place in [*places, source]}) == 5
