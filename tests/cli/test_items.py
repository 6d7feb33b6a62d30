"""`penstock items`: typed keys, conditions, tables and JSON lines, writes that lose nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.kit.grid import Grid, text_width
from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Index, Table

ORDERS = Table("orders", ("customer:S", "number:N"), indexes=[Index("by-day", "day:S", "number:N")])


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty orders of four customers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DB", "shop.db")
    with connect("shop.db") as db:
        make(db, ORDERS, "orders")
        table = db.table("orders")
        table.batch_write(
            {"customer": f"c{at % 4}", "number": at, "day": f"d{at % 3}", "status": ("open", "paid")[at % 2]}
            for at in range(40)
        )


def run(*words: str, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(cli, ["items", *words], input=stdin)
    assert result.exit_code == code, result.output
    return result


def numbers(*words: str) -> list[int]:
    return [json.loads(line)["number"] for line in run(*words).stdout.splitlines()]


def test_a_key_has_the_type_of_the_schema() -> None:
    told = json.loads(run("get", "orders", "customer=c1", "number=5", "--dynamodb-json").stdout)
    assert told["number"] == {"N": "5"}
    assert "not a number" in run("get", "orders", "customer=c1", "number=x", code=1).output
    assert "customer=TEXT number=NUMBER" in run("get", "orders", "custmer=c1", code=1).output
    assert "has no item" in run("get", "orders", "customer=c1", "number=6", code=4).output


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        (">= 33", [33, 37]),
        ("= 33", [33]),
        ("between 30 and 36", [33]),
        ("number < 6", [1, 5]),
    ],
)
def test_a_query_takes_conditions_on_the_sort_key(sort: str, found: list[int]) -> None:
    assert numbers("query", "orders", "customer=c1", "--sk", sort) == found


def test_a_query_reads_an_index_from_its_end_and_stops_at_the_limit() -> None:
    words = ("query", "orders", "day=d0", "--index", "by-day", "--reverse", "--limit", "2")
    assert numbers(*words) == [39, 36]
    assert numbers(*words, "--where", "status = 'open'") == [36, 30]


@pytest.mark.parametrize("segments", ["1", "5"])
def test_a_scan_gives_every_item_once(segments: str) -> None:
    assert sorted(numbers("scan", "orders", "--segments", segments)) == list(range(40))


def test_words_that_dynamodb_reserves_are_names() -> None:
    run("put", "orders", '{"customer": "x", "number": 1, "date": "d", "user": {"name": "Ada"}}')
    assert numbers("scan", "orders", "--where", "date = 'd' AND user.name = 'Ada'") == [1]


def test_a_text_in_double_quotes_is_refused_with_the_right_spelling() -> None:
    assert "a text is written 'open'" in run("scan", "orders", "--where", 'status = "open"', code=1).output


def test_a_count_reads_no_items() -> None:
    assert run("count", "orders", "--where", "status = 'paid'", "--segments", "3").stdout == "20\n"
    assert json.loads(run("count", "orders", "customer=c1", "--json").stdout)["count"] == 10


def test_a_file_with_a_bad_line_writes_nothing(tmp_path: Path) -> None:
    Path("new.jsonl").write_text('{"customer": "n", "number": 1}\n{"customer": "n"}\n')
    assert "new.jsonl, line 2: number" in run("put", "orders", "--file", "new.jsonl", code=1).output
    assert run("count", "orders", "customer=n").stdout == "0\n"


@pytest.mark.parametrize(
    ("words", "text"), [((), '{"customer": "é", "number": 1}'), (("--csv",), "customer,number\né,1\n")]
)
def test_items_that_are_not_in_utf_8_are_refused_from_a_file_and_from_stdin(words: tuple[str, ...], text: str) -> None:
    Path("latin").write_bytes(text.encode("latin-1"))
    for result in (
        run("put", "orders", *words, "--file", "latin", code=1),
        CliRunner().invoke(cli, ["items", "put", "orders", *words], input=text.encode("latin-1")),
    ):
        assert result.exit_code == 1 and "it is not in UTF-8" in result.output, result.output
    assert run("count", "orders").stdout == "40\n"


def test_items_go_from_a_scan_to_a_put_and_those_that_are_there_stay() -> None:
    lines = run("scan", "orders", "--dynamodb-json").stdout
    run("update", "orders", "customer=c1", "number=1", "--set", "status = 'new'")
    told = run("put", "orders", "--dynamodb-json", "--if-absent", code=7, stdin=lines)
    assert told.stdout == "0 items written, 40 were there already\n"
    assert json.loads(run("get", "orders", "customer=c1", "number=1").stdout)["status"] == "new"
    assert run("put", "orders", "--dynamodb-json", stdin=lines).stdout == "40 items written\n"


def test_items_go_through_csv_and_back() -> None:
    run("put", "orders", '{"customer": "c1", "number": 1, "tags": ["a"], "empty": "", "status": 5}')
    text = run("query", "orders", "customer=c1", "--sk", "<= 5", "--csv").stdout
    assert text.splitlines()[0] == "customer:S,number:N,day:S,empty:S,status:N,tags:L,*"
    before = run("query", "orders", "customer=c1", "--dynamodb-json").stdout
    run("delete", "orders", "customer=c1", "number=1", "--yes")
    assert run("put", "orders", "--csv", stdin=text).stdout == "2 items written\n"
    after = run("query", "orders", "customer=c1", "--dynamodb-json").stdout
    assert [json.loads(line) for line in after.splitlines()] == [json.loads(line) for line in before.splitlines()]


def test_an_update_changes_only_an_item_that_is_there() -> None:
    words = ("update", "orders", "customer=c1", "number=1")
    told = json.loads(run(*words, "--set", "n = 1", "--remove", "day", "--where", "status = 'paid'").stdout)
    assert told == {"customer": "c1", "number": 1, "status": "paid", "n": 1}
    assert json.loads(run(*words, "--set", "n = n + 1").stdout)["n"] == 2
    run(*words, "--set", "n = 9", "--where", "n > 5", code=4)
    run("update", "orders", "customer=none", "number=1", "--set", "n = 1", code=4)
    assert run("count", "orders").stdout == "40\n"


def test_a_delete_needs_yes_and_shows_what_would_go() -> None:
    assert "Which items?" in run("delete", "orders", code=2).output
    told = run("delete", "orders", "--where", "status = 'paid'", code=2)
    assert "… and 15 more" in told.output and "--yes" in told.output
    assert run("delete", "orders", "--where", "status = 'paid'", "--dry-run").stdout == "20 items would be deleted\n"
    assert run("count", "orders").stdout == "40\n"
    assert run("delete", "orders", "--where", "status = 'paid'", "--yes").stdout == "20 items deleted\n"
    assert run("delete", "orders", "customer=c0", "--yes").stdout == "10 items deleted\n"
    assert run("delete", "orders", "customer=c2", "number=2", "--yes").stdout == "1 item deleted\n"
    run("delete", "orders", "customer=c2", "number=2", "--yes", code=4)
    assert run("delete", "orders", "--all", "--yes").stdout == "9 items deleted\n"


def test_a_table_has_the_key_first_and_fits() -> None:
    told = run("query", "orders", "customer=c1", "--limit", "1", "--table").stdout.splitlines()
    assert told[0].split() == ["customer", "number", "day", "status"]
    assert told[2].split() == ["c1", "1", "d1", "paid"]


@pytest.mark.parametrize("width", [8, 20, 33, 80])
def test_no_line_of_a_grid_is_wider_than_the_terminal(width: int) -> None:
    rows = [["日本語テスト" * 3, "e\u0301" * 30, "x\ny"], ["a", "b", "c"]]
    grid = Grid(["name", "accents", "third"], rows, width=width)
    lines = [*grid.header().splitlines(), *map(grid.row, rows)]
    assert max(text_width(line) for line in lines) < width
    assert len(lines) == 4
    assert any("…" in line for line in lines) == (width < 80)


def test_a_dash_in_place_of_the_json_is_stdin(shop: None) -> None:
    lines = '{"customer": "c9", "number": 1}\n{"customer": "c9", "number": 2}\n'
    assert run("put", "orders", "-", stdin=lines).stdout == "2 items written\n"
    assert "JSON, line 1: no JSON object" in run("put", "orders", '{"customer"', code=1).output
