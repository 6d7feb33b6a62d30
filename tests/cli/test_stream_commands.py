"""`penstock streams` from the outside: what it prints, and how it exits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock import Table, connect
from penstock.cli.main import cli
from penstock.client.database import Database
from penstock.tables.apply.apply import make


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["streams", *words, "--db", "shop.db"], catch_exceptions=False)


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.chdir(tmp_path)
    with connect("shop.db") as opened:
        make(opened, Table("orders", key="id:S"), "orders")
        yield opened


def test_a_stream_is_enabled_followed_and_listed(db: Database) -> None:
    refused = run("tail", "orders")
    assert refused.exit_code == 1 and "penstock streams enable orders" in refused.output
    assert "No streams" in run("list").output
    assert run("enable", "orders").output == "The stream of orders is on (NEW_AND_OLD_IMAGES).\n"
    assert "already" in run("enable", "orders").output
    assert run("enable", "orders", "--view", "KEYS_ONLY").exit_code == 1
    orders = db.table("orders")
    orders.put({"id": "1", "note": "a\x1b[2Jb"})
    orders.delete({"id": "1"})
    lines = run("tail", "orders", "--from", "oldest", "--until-empty").output.splitlines()
    assert [line.split()[1] for line in lines] == ["insert", "remove"]
    assert "\x1b" not in lines[0]
    told = run("tail", "orders", "--from", "oldest", "--until-empty", "--json", "--kind", "insert").output
    assert json.loads(told)["new"] == {"id": {"S": "1"}, "note": {"S": "a\x1b[2Jb"}}
    assert len(run("tail", "orders", "--from", "oldest", "--limit", "1").output.splitlines()) == 1
    assert run("tail", "orders", "--from", "yesterday").exit_code == 2
    assert [run(word, "nothing").exit_code for word in ("tail", "status", "list")] == [4, 4, 4]
    assert run("status", "orders").exit_code == 0
    assert db.tables() == ["orders"], "tail writes nothing"


def test_status_tells_lag_and_holder_and_a_reset_begins_anew(db: Database) -> None:
    run("enable", "orders")
    orders = db.table("orders")
    orders.put({"id": "1"})
    assert len(list(orders.changes("mailer", start="oldest", follow=False))) == 1
    assert "no group" in run("list").output.replace("No group", "no group") or "mailer" in run("list").output
    assert run("status", "orders", "--group", "nobody").exit_code == 4
    told = json.loads(run("status", "orders", "--json").output)["groups"][0]
    assert told["group"] == "mailer" and told["lag_seconds"] == 0 and told["shards"][0]["holder"] is None
    assert "nobody reads it" in run("status", "orders").output
    asked = run("reset", "orders", "--group", "mailer", "--to", "oldest")
    assert asked.exit_code == 2 and "--yes" in asked.output
    assert run("reset", "orders", "--group", "mailer", "--to", "oldest", "--yes").exit_code == 0
    assert len(list(orders.changes("mailer", follow=False))) == 1
    assert run("delete", "orders", "--group", "mailer", "--yes").exit_code == 0
    assert run("status", "orders", "--group", "mailer").exit_code == 4


def test_failed_changes_are_listed_and_redriven(db: Database) -> None:
    run("enable", "orders")
    orders = db.table("orders")
    orders.put({"id": "1"})
    orders.changes("mailer", start="oldest", follow=False).process(lambda _: 1 / 0, retries=0, on_failure="keep")
    shown = run("failed", "orders", "--group", "mailer").output
    assert "ZeroDivisionError: division by zero" in shown
    assert json.loads(run("failed", "orders", "--group", "mailer", "--json").output)["failures"] == 1
    assert run("redrive", "orders", "--group", "mailer").output == "1 failed change is handled again.\n"
    orders.changes("mailer", follow=False).process(lambda _: None, on_failure="keep")
    assert run("redrive", "orders", "--group", "mailer").output == "No such failed changes.\n"


def test_the_policy_names_the_stream_and_the_table_of_the_groups() -> None:
    words = ["streams", "policy", "orders", "--region", "eu-west-2", "--account", "123456789012"]
    text = CliRunner().invoke(cli, words).output
    assert "table/orders/stream/*" in text and "table/penstock-streams" in text and "GetRecords" in text


def test_ctrl_c_ends_tail_without_a_traceback(db: Database, tmp_path: Path) -> None:
    run("enable", "orders")
    words = [sys.executable, "-m", "penstock", "streams", "tail", "orders", "--from", "oldest", "--json"]
    child = subprocess.Popen([*words, "--db", "shop.db"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    db.table("orders").put({"id": "1"})
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["kind"] == "insert"
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert errors.strip() == "Interrupted."
