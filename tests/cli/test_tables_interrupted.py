"""A real Ctrl-C (SIGINT) to a real process, over HTTP; and the line of progress that a terminal shows."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.cli.tables.schema import Screen, progress_text
from penstock.client.database import connect
from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.server.server import running_server
from penstock.tables.apply.apply import make
from penstock.tables.apply.table_changer import Finished, Progress
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Table
from penstock.wire.values import Item

PROGRAM = "from penstock.cli.main import main; main()"
MODULE = """
from penstock.tables.definitions.definition import Index, Table

before = Table("jobs", "id:S")
after = Table("jobs", "id:S", indexes=[Index("by-state", "state:S"), Index("by-due", "due:N")], ttl="expires")
"""


def started(url: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, "tables", *arguments, "--db", url, "--prefix", ""]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(url: str, folder: Path, *arguments: str) -> int:
    process = started(url, folder, *arguments)
    process.communicate(timeout=60)
    return process.returncode


def test_ctrl_c_leaves_at_once_and_running_it_again_finishes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    with Engine(settings=Settings(index_delay_seconds=1.5)) as engine, running_server(engine) as server:
        assert finished(server.url, tmp_path, "apply", "mine:before", "--yes") == 0
        process = started(server.url, tmp_path, "apply", "mine:after", "--yes")
        _wait_for_an_index(engine)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "jobs: done: nothing; was at: + index by-due (due)" in told
        assert finished(server.url, tmp_path, "apply", "mine:after", "--yes") == 0
        assert finished(server.url, tmp_path, "verify", "mine:after") == 0


def _wait_for_an_index(engine: Engine) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if engine.execute("DescribeTable", {"TableName": "jobs"})["Table"].get("GlobalSecondaryIndexes"):
            return
        time.sleep(0.02)
    raise AssertionError("no index was begun")


FILLING = Progress("jobs", "+ index by-due (due)", "CREATING", 12.4, index="by-due", backfilling=True, percent=42)


def test_progress_is_one_line() -> None:
    assert progress_text(FILLING) == "CREATING, filling, about 42 %, 12 s: jobs + index by-due (due)"


def test_a_terminal_shows_progress_and_clears_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    screen = Screen()
    screen.report(FILLING)
    screen.report(Progress("logs", "+ table (id)", "CREATING", 1))
    screen.report(Finished("jobs", "+ index by-due (due)"))
    screen.end()
    shown = capsys.readouterr()
    assert "about 42 %" in shown.err and "2 tables under way; " in shown.err
    assert shown.err.endswith("\r") and "\n" not in shown.err
    assert shown.out == "  done  jobs   + index by-due (due)\n"


def test_without_a_terminal_only_what_is_done_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.report(FILLING)
    screen.report(Finished("jobs", "+ index by-due (due)"))
    shown = capsys.readouterr()
    assert (shown.err, shown.out) == ("", "  done  jobs   + index by-due (due)\n")


@pytest.mark.parametrize("there", [False, True], ids=["made by the load", "there before"])
def test_ctrl_c_in_a_load_of_a_file_says_what_is_left_and_how_to_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = Table("logs", "id:S")
    with connect("from.db") as db:
        make(db, logs, "logs")
        ItemTable.of(db, "logs").write({"id": {"S": str(number)}} for number in range(2_000))
    CliRunner().invoke(cli, ["tables", "dump", "logs", "--out", "logs.jsonl", "--db", "from.db"])
    if there:
        with connect("logs.db") as db:
            make(db, logs, "logs")
    words = ["tables", "load", "logs.jsonl", "--table", "logs", "--create", "--db", "logs.db"]
    monkeypatch.setattr("sys.argv", ["penstock", *words])

    def interrupted(self: ItemTable, items: Iterable[Item]) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ItemTable, "write", interrupted)
        told = CliRunner().invoke(cli, words)
    assert told.exit_code == 130, told.output
    left = "a part of the items is in logs" if there else "logs was deleted again"
    assert f"Interrupted: {left}. To load it from the beginning:\n  penstock " in told.output
    again = shlex.split(told.output.splitlines()[-1])[1:]
    assert ("--merge" in again) == there == Path("logs.db").exists()
    assert "2,000 items loaded" in CliRunner().invoke(cli, again).output


def test_a_file_has_no_state_of_a_load(tmp_path: Path) -> None:
    words = ["tables", "load", "logs.jsonl", "--table", "logs", "--db", ":memory:", "--state", "state.json"]
    told = CliRunner().invoke(cli, words)
    assert told.exit_code == 2 and "again with --merge" in told.output
