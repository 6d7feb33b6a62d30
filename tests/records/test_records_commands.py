"""`penstock records` from the outside: what it prints, how it exits, and how it goes on after Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from record_worlds import filled, key, processed

from penstock.cli.main import cli
from penstock.cli.records import bar_text
from penstock.cli.records import command as records_group
from penstock.client.database import Database, connect
from penstock.records.run.report import Progress
from penstock.records.run_records import RUNS_TABLE, runs

MODULE = """
import time
from pathlib import Path

def handle(record):
    return {"Double": record["Number"] * 2}

def picky(record):
    if record["Number"] % 5 == 3:
        raise ValueError(f"record {record['Number']} has no price")

def slow(record):
    Path(f"begun-{record['Number']}").touch()
    for _ in range(12_000):
        if Path("go-on").exists():
            break
        time.sleep(0.01)

async def later(record):
    yield record
"""
PENDING = ["--index", "Processed", "--value", "0", "--set", "Processed=1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "record_work.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    monkeypatch.delitem(sys.modules, "record_work", raising=False)
    return tmp_path


@pytest.fixture
def app(folder: Path) -> Database:
    db = connect(folder / "app.db")
    filled(db, 10)
    return db


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["records", *arguments])


def process(function: str, *arguments: str) -> Result:
    return run("process", "Records", f"record_work:{function}", "--db", "app.db", *PENDING, *arguments)


def test_records_are_processed_and_the_run_is_kept(app: Database) -> None:
    result = process("handle")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("10 done in ")
    assert (app.table("Records").get(key(4)) or {})["Double"] == 8
    (kept,) = runs(app)
    assert (kept["state"], kept["processed"], kept["total"], kept["table"]) == ("completed", 10, 10, "Records")
    assert kept["ended_at"] >= kept["started_at"]


def test_a_dry_run_counts_and_changes_nothing(app: Database) -> None:
    assert process("handle", "--dry-run").stdout == (
        "10 records of Records are pending: record_work:handle would be run on them. Nothing was changed.\n"
    )
    assert json.loads(process("handle", "--dry-run", "--json").stdout) == {"pending": 10, "dry_run": True}
    assert processed(app.table("Records")) == set()
    assert RUNS_TABLE not in app.tables()


def test_failures_are_shown_grouped_and_redriven(app: Database) -> None:
    result = process("picky", "--retries", "0")
    assert result.exit_code == 3
    assert result.stdout.startswith("8 done, 2 failed (2 ValueError) in ")
    assert "ValueError: record 3 has no price (attempts: 1)" in result.stderr
    assert "penstock records failures Records --db app.db" in result.stderr
    shown = run("failures", "Records", "--db", "app.db").stdout
    assert "2  ValueError: record … has no price" in shown
    assert "AccountId=a3 RunTime=00003: record 3 has no price" in shown
    assert "2 failed, 1 kind of error." in shown
    refused = run("redrive", "Records", "--db", "app.db")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert run("redrive", "Records", "--db", "app.db", "--dry-run").stdout.startswith("2 would be pending")
    none = run("redrive", "Records", "--db", "app.db", "--kind", "KeyError", "--yes")
    assert none.stdout.startswith("None has failed with such an error: `penstock records failures Records`")
    redriven = run("redrive", "Records", "--db", "app.db", "--kind", "ValueError", "--yes", "--json")
    assert json.loads(redriven.stdout) == {"redriven": 2, "failed": 2, "dry_run": False}
    assert process("handle").exit_code == 0
    assert processed(app.table("Records")) == set(range(10))
    assert run("failures", "Records", "--db", "app.db").stdout == "No record has failed.\n"
    assert run("redrive", "Records", "--db", "app.db", "--yes").stdout == "None has failed.\n"


def test_json_has_the_counts_and_the_errors(app: Database) -> None:
    result = process("picky", "--retries", "0", "--json")
    told = json.loads(result.stdout)
    assert (told["processed"], told["failed"], told["failures_by_kind"]) == (8, 2, {"ValueError": 2})
    assert {one["key"]["RunTime"] for one in told["errors"]} == {"00003", "00008"}
    (group,) = json.loads(run("failures", "Records", "--db", "app.db", "--json").stdout)
    assert (group["kind"], group["count"]) == ("ValueError", 2)


def test_records_are_chosen_and_marked_without_an_index(app: Database) -> None:
    arguments = ["--where", "Number=4", "--set", "State=done", "--remove", "Processed"]
    result = run("process", "Records", "record_work:handle", "--db", "app.db", *arguments)
    assert result.stdout.startswith("1 done")
    assert app.table("Records").get(key(4)) == {**key(4), "Number": 4, "Double": 8, "State": "done"}


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["Records", "record_work"], "names no function", 2),
        (["Records", "record_work:nothing"], "has no function named nothing", 1),
        (["Records", "record_work:later"], "record_work:later: the function has a yield", 1),
        (["Records", "no_such_module:f"], "There is no module no_such_module", 1),
        (["Nothing", "record_work:handle"], "There is no table Nothing in app.db. It has: Records.", 1),
        (["Records", "record_work:handle", "--index", "Nope"], "has no index Nope. It has: Processed.", 1),
        (["Records", "record_work:handle", "--set", "x"], "--set is NAME=VALUE", 2),
        (["Records", "record_work:handle", "--value", "0"], "value= goes with index=", 1),
        (["Records", "record_work:handle", "--processes", "2", "--dask", "x"], "do not go together", 2),
        (["Records", "record_work:handle", "--lease", "0.1"], "--lease", 2),
    ],
)
def test_what_is_called_wrongly_is_told(app: Database, arguments: list[str], told: str, code: int) -> None:
    result = run("process", *arguments, "--db", "app.db")
    assert told in result.stderr
    assert result.exit_code == code


def test_the_extra_to_install_is_named(app: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = process("handle", "--dask", "tcp://127.0.0.1:1")
    assert "pip install 'penstock[dask]'" in result.stderr


def test_every_command_has_an_example() -> None:
    for name in records_group.commands:
        assert f"penstock records {name} " in run(name, "--help").stdout


def test_the_bar_tells_how_far_it_is() -> None:
    progress = Progress(done=390, failed=10, running=4, waiting=100, seconds=4.0, rate=100.0, total=1000)
    assert bar_text(progress) == (
        "[#########···············] 40%  390 of 1,000 done, 10 failed, 100 a second, 6.0 s left"
    )
    assert bar_text(Progress(5, 0, 1, 0, 1.0, 5.0)) == "5 done, 5 a second"


@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["threads", "processes"])
def test_ctrl_c_says_how_to_go_on_and_the_rest_is_done_then(app: Database, folder: Path, processes: list[str]) -> None:
    command = [sys.executable, "-m", "penstock", "records", "process", "Records", "record_work:slow"]
    options = ["--db", "app.db", *PENDING, "--workers", "2", *processes]
    started = subprocess.Popen([*command, *options], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for_a_run(folder, started)
        started.send_signal(signal.SIGINT)
        assert started.stderr is not None
        told = ""
        while "Once more to end at once" not in told:
            told += started.stderr.readline()
        (folder / "go-on").touch()
        told += started.communicate(timeout=60)[1]
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130, told
    assert "Stopping: running records may finish (30 s)" in told
    assert "To continue, run it again:\n  penstock records process Records record_work:slow --db app.db" in told
    done = processed(app.table("Records"))
    assert 0 < len(done) < 10
    assert next(runs(app))["state"] == "interrupted"
    assert process("handle").stdout.startswith(f"{10 - len(done)} done")


def _wait_for_a_run(folder: Path, started: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 60
    while not list(folder.glob("begun-*")):
        assert started.poll() is None, "it ended too soon"
        assert time.monotonic() < until
        time.sleep(0.01)
