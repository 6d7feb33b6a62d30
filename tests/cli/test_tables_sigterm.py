"""SIGTERM ends every command of `penstock tables` as Ctrl-C does; --no-wait on the commands; targets without http://."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from test_tables import applied, here, on, put, run  # noqa: F401 - fixtures

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.tables.apply import apply as apply_module
from penstock.tables.data import dump as table_dump
from penstock.tables.data import item_files
from penstock.tables.data.transfers import ItemTable
from penstock.tables.migrations.migrator import Migrator
from penstock.tables.rekey.phases import Rekey
from penstock.tables.state.state_table import StateTable

pytestmark = pytest.mark.usefixtures("here")

MIGRATION = 'table = "app-dev-jobs"\n\n\ndef up(item):\n    item["new"] = 1\n    return item\n'


def terminated(*_: Any, **__: Any) -> Any:
    """In the place of what a command does: as if it was sent SIGTERM in the middle of it."""
    os.kill(os.getpid(), signal.SIGTERM)
    raise AssertionError("SIGTERM was not noticed")


AT = ("--db", "tables.db")
CASES = {
    "apply": (apply_module, "run_together", ("apply", *on("mine:after", "--yes")), "was at: not begun"),
    "add-index": (
        apply_module, "run_together",
        ("add-index", "--table", "app-dev-jobs", "--index", "by-k", "--partition-key", "k", "--yes", *AT),
        "was at: not begun",
    ),
    "dump": (table_dump, "dump", ("dump", "app-dev-jobs", "--out", "out", *AT), "holds what was written so far"),
    "load": (
        item_files, "load_file",
        ("load", "a.jsonl", "--table", "app-dev-jobs", *AT), "a part of the items is in app-dev-jobs",
    ),
    "rekey": (
        Rekey, "start", ("rekey", "app-dev-jobs", "--key", "other:S", "--into", "jobs2", *AT), "what was done is kept"
    ),
    "migrate": (Migrator, "up", ("migrate", "up", "--yes", *AT), "Interrupted"),
}  # fmt: skip


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("name", CASES)
def test_sigterm_leaves_a_summary(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, words, told = CASES[name]
    Path("migrations").mkdir()
    Path("migrations/0001_new.py").write_text(MIGRATION)
    Path("a.jsonl").write_text("")
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(place, attribute, terminated)
    assert told in run(*words, code=130).output
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_load_that_made_its_table_leaves_nothing_when_it_is_stopped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put({"id": {"S": "1"}})
    run("dump", "app-dev-jobs", "--out", "a.jsonl", *AT)
    stop = stopping_after_create(monkeypatch, getattr(signal, name))
    run("load", "a.jsonl", "--table", "copied", "--create", "--db", "new.db", code=130)
    assert stop() and not Path("new.db").exists()


def stopping_after_create(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> Callable[[], bool]:
    """Stops the process at the first item that is written."""
    stopped: list[bool] = []

    def stop(*_: Any, **__: Any) -> Any:
        stopped.append(True)
        os.kill(os.getpid(), number)

    monkeypatch.setattr(ItemTable, "write", stop)
    return lambda: bool(stopped)


# ── --no-wait ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("applied")
def test_no_wait_does_not_wait_for_a_lease() -> None:
    with connect("tables.db") as db, StateTable(db).lease(("table", "app-dev-jobs"), purpose="theirs"):
        told = run("apply", *on("mine:after", "--yes", "--no-wait"), code=1).output
    assert "The table app-dev-jobs is held by" in told and "Waiting" not in told
    told = run("apply", *on("mine:after", "--yes", "--no-wait")).output
    assert "1 changed" in told


# ── --db ─────────────────────────────────────────────────────────────────────────────────────────


def commands_with_db(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Option]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from commands_with_db(command, (*path, name))
        elif command is not None:
            for param in command.params:
                if isinstance(param, click.Option) and param.metavar == "TARGET" and param.expose_value:
                    yield (*path, name, param.opts[0]), param


def test_a_host_without_http_is_refused_by_every_command_before_it_does_anything() -> None:
    found = dict(commands_with_db(cli))
    assert len(found) > 60
    assert [words for words, option in found.items() if option.callback is None] == []


HOSTS = ["localhost:8000", "db.internal:8000/x", "127.0.0.1", "127.0.0.1:8000"]


@pytest.mark.parametrize("target", HOSTS)
@pytest.mark.parametrize(
    "words",
    [
        ("tables", "plan", "mine:before"),
        ("tables", "apply", "mine:before", "--yes"),
        ("tables", "list"),
        ("tables", "load", "x", "--table", "y", "--create"),
        ("items", "scan", "t"),
        ("sql", "-c", "SELECT * FROM t"),
        ("jobs", "list"),
        ("serve", "--port", "0"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_host_is_no_new_file(words: tuple[str, ...], target: str) -> None:
    before = sorted(Path().iterdir())
    result = CliRunner().invoke(cli, [*words, "--db", target])
    assert result.exit_code in (1, 2), result.output
    assert f"Write http://{target}; for the file, ./{target}." in result.output
    assert sorted(Path().iterdir()) == before
