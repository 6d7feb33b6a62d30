"""`penstock sql`: scripts, errors with their place, costs, completion, history, and the shell on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.items.sql import is_command
from penstock.cli.items.sql_prompt import MOST_LINES, Completer, History
from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.expressions.partiql.scripts import Splitter, failing_place, split
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Index, Table

ORDERS = Table("orders", ("customer:S", "number:N"), indexes=[Index("by-day", "day:S", "number:N")])


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty orders of four customers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DB", "shop.db")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with connect("shop.db") as db:
        make(db, ORDERS, "orders")
        db.table("orders").batch_write(
            {"customer": f"c{at % 4}", "number": at, "day": f"d{at % 3}", "note": "x" * 40_000} for at in range(40)
        )


def run(*words: str, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["sql", *words], input=stdin)
    assert result.exit_code == code, result.output
    return result


def test_pages_are_followed_and_a_scan_is_named() -> None:
    told = run("-v", "-c", "SELECT number FROM orders")
    assert sorted(json.loads(line)["number"] for line in told.stdout.splitlines()) == list(range(40))
    assert "2 requests" in told.stderr
    assert "this read the whole table: " in told.stderr


def test_a_limit_ends_a_select_early() -> None:
    told = run("-v", "--limit", "3", "-c", "SELECT number FROM orders WHERE customer = 'c1'")
    assert [json.loads(line)["number"] for line in told.stdout.splitlines()] == [1, 5, 9]
    assert "ended by --limit" in told.stderr
    assert len(run("--limit", "2", "-c", "SELECT number FROM orders WHERE day = 'd0'").stdout.splitlines()) == 2


def test_values_are_bound_to_question_marks() -> None:
    words = ("-c", "SELECT number FROM orders WHERE customer = ? AND number = ?")
    assert run(*words, "--param", "c1", "--param", "5").stdout == '{"number":5}\n'
    assert "has 2 ?, and 1 values" in run(*words, "--param", "c1", code=1).output


SCRIPT = """-- a; comment
INSERT INTO orders VALUE {'customer': 'é;', 'number': 1};
SELECT *
FROM WHERE; SELECT number FROM orders WHERE customer = 'é;'"""


def test_a_script_stops_at_its_first_error_or_keeps_going() -> None:
    stopped = run(stdin=SCRIPT, code=1)
    assert stopped.stdout == ""
    assert "stdin, line 4: ValidationException" in stopped.stderr
    assert "  FROM WHERE\n       ^^^^^" in stopped.stderr
    Path("s.sql").write_text(SCRIPT, encoding="utf-8")
    assert run("-f", "s.sql", "--keep-going", code=1).stdout == '{"number":1}\n'


@pytest.mark.parametrize("word", ["UPDATE orders SET a = 1", "DELETE FROM orders"])
def test_a_write_without_its_key_says_what_is_needed(word: str) -> None:
    told = run("-c", f"{word} WHERE customer = 'c1'", code=1).output
    assert "customer = … AND number = …. Here number is missing" in told


def test_errors_say_what_to_do() -> None:
    assert "There is orders" in run("-c", "SELECT * FROM ordrs", code=1).output
    assert "give --limit N" in run("-c", "SELECT * FROM orders LIMIT 3", code=1).output
    for start in ("SELECT * FROM", "DELETE FROM", "UPDATE"):
        told = run("-c", f"{start} shop-orders SET a = 1 WHERE customer = 'c1'", code=1).output
        assert f'a name with - stands in double quotes: {start.split()[-1]} "shop-orders"' in told
    assert "double quotes" not in run("-c", "SELECT * FROM orders WHERE note = 'from a-b' LIMIT 3", code=1).output
    told = run("--json", "-c", "SELECT * FROM orders WHERE date = 1", code=1)
    assert 'written "date"' in json.loads(told.stderr)["error"]["message"]


def test_commands_show_tables() -> None:
    assert run("-c", ".tables").stdout == '{"table":"orders"}\n'
    assert "index by-day: key day (text), number (number)" in run("--table", "-c", "\\d orders").stdout
    assert "There is no command" in run("-c", ".nix", code=1).output


def test_statements_are_split_outside_of_quotes_and_comments() -> None:
    found = split("a 'x;''y'; /* ; */ b \"c;d\" -- ;\n;\n\n c")
    assert [(one.text.split()[-1], one.line) for one in found] == [("'x;''y'", 1), (";", 1), ("c", 4)]
    splitter = Splitter()
    assert list(splitter.feed("SELECT 'a\n")) == []
    assert splitter.unfinished == "a text in '…' that began on line 1"


@pytest.mark.parametrize(
    ("statement", "place"),
    [("SELECT * FROM WHERE a", "1:15:5"), ("SELECT a\nFROM x WHERE a # 1", "2:16:1"), ("SELEC * FROM x", "1:1:5")],
)
def test_the_place_of_a_fault_is_found(statement: str, place: str) -> None:
    assert str(failing_place(statement)) == place


def test_completion_knows_where_it_is() -> None:
    completer = Completer(lambda: ["orders", "my-table"], lambda table: ["by-day"], lambda table: ["customer", "date"])
    assert completer.complete("select * from ", "my") == ['"my-table"']
    assert completer.complete("select * from ", 'orders."by') == ['orders."by-day"']
    assert completer.complete("select * from orders where ", "da") == ['"date"']
    assert completer.complete("", "sel") == ["select "]
    assert completer.complete("", ".q") == [".quit"]


def test_history_is_private_and_bounded(tmp_path: Path) -> None:
    history = History(tmp_path / "new" / "history")
    for number in range(MOST_LINES + 5):
        history.add(f"line {number}")
    assert history.load()[0] == "line 5"
    assert len(history.path.read_text().splitlines()) == MOST_LINES
    assert history.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("line", "expected"),
    [("exit", True), (" Quit ;", True), ("help", True), (".tables", True), ("\\d x", True), ("exit x", False)],
)
def test_words_that_other_shells_know_are_commands_too(line: str, expected: bool) -> None:
    assert is_command(line) == expected


def test_the_shell_on_a_terminal(tmp_path: Path) -> None:
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "sql"], stdin=other, stdout=other, stderr=other, start_new_session=True
    )
    os.close(other)

    def until(text: bytes) -> str:
        said, end = b"", time.monotonic() + 60
        while text not in said and time.monotonic() < end:
            if select.select([main], [], [], 0.2)[0]:
                said += os.read(main, 4096)
        return said.decode()

    until(b"sql> ")
    os.write(main, b"SELECT number FROM orders\n")
    until(b"-> ")
    os.write(main, b"WHERE customer = 'c1' AND number = 5;\n")
    assert "1 item, 1 request" in until(b"sql> ")  # Ctrl-D before the prompt would be the terminal's, not readline's
    os.write(main, b"\x04")
    assert process.wait(timeout=60) == 0
    os.close(main)
    kept = (tmp_path / "state/penstock/sql_history").read_text()
    assert kept == "SELECT number FROM orders WHERE customer = 'c1' AND number = 5;\n"
