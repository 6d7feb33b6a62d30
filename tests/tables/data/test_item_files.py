"""Tables to files, stdout, S3 and several at once, and back: whole or refused."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from click.testing import CliRunner, Result
from moving_samples import ORDERS, everything, filled, order

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.client.transports.credentials import new_session
from penstock.tables.apply.apply import make
from penstock.tables.data import dump as dumping
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import inspect

OTHER = Table("other", "id:S", deletion_protection=True)
ODD = {"id": {"S": 'a\u200e\x7f\u2028\r\n,"b"'}, "text": {"S": ""}, "raw": {"B": "AAE="}}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filled("shop.db", count=30) as db:
        make(db, OTHER, "other")
        ItemTable.of(db, "other").write([ODD, {"id": {"S": "b"}, "text": {"N": "1"}}])
        make(db, Table("empty", "id:S"), "empty")


def run(*words: str, code: int = 0, db: str = "shop.db", stdin: bytes | None = None) -> Result:
    told = CliRunner().invoke(cli, ["tables", *words, "--db", db], input=stdin)
    assert told.exit_code == code, told.output
    return told


def same(table: str, other: str = "copy.db", name: str | None = None) -> bool:
    with connect("shop.db") as db, connect(other) as copy:
        return everything(db, table) == everything(copy, name or table)


def names(url: str = "copy.db") -> list[str]:
    with connect(url) as db:
        return db.tables()


# ── one table ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", ["orders", "other", "empty"])
@pytest.mark.parametrize("file", ["-", "t.jsonl", "t.jsonl.gz", "t.csv", "t.csv.gz"])
def test_a_table_goes_through_a_file_and_back_exactly(table: str, file: str) -> None:
    text = run("dump", table, "--out", file).stdout_bytes
    if ".csv" in file:
        with connect("copy.db") as db:
            make(db, {"orders": ORDERS, "other": OTHER}.get(table, Table("empty", "id:S")), table)
    run("load", file, "--table", table, "--create", db="copy.db", stdin=text)
    assert same(table)
    with connect("copy.db") as db:
        found = inspect(db, "orders")
        assert found is None or diff(found.table, ORDERS) == ()


def test_a_file_that_is_there_is_not_written_over() -> None:
    run("dump", "orders", "--out", "t.jsonl")
    before = Path("t.jsonl").read_bytes()
    assert "there is such a file already" in run("dump", "other", "--out", "t.jsonl", code=1).output
    assert Path("t.jsonl").read_bytes() == before


@pytest.mark.parametrize("kept", ["no end", "half a line", "one item less", "more"])
def test_half_a_dump_is_never_taken_for_a_whole_one(kept: str) -> None:
    run("dump", "orders", "--out", "t.jsonl")
    lines = Path("t.jsonl").read_bytes().splitlines(keepends=True)
    cut = {
        "no end": lines[:-1],
        "half a line": [*lines[:10], lines[10][:20]],
        "one item less": [*lines[:5], *lines[6:]],
        "more": [*lines, lines[3]],
    }[kept]
    Path("cut.jsonl").write_bytes(b"".join(cut))
    run("load", "cut.jsonl", "--table", "copy", "--create", code=1)
    assert "copy" not in names("shop.db")
    run("load", "-", "--table", "copy", "--create", code=1, stdin=b"".join(cut))
    assert "copy" not in names("shop.db")
    run("load", "-", "--table", "copy", "--create", code=1, stdin=b"".join(cut), db="new.db")
    assert not Path("new.db").exists()


def test_a_cut_archive_and_a_wrong_key_write_nothing() -> None:
    run("dump", "orders", "--out", "t.jsonl.gz")
    Path("cut.jsonl.gz").write_bytes(Path("t.jsonl.gz").read_bytes()[:-12])
    assert "cut off" in run("load", "cut.jsonl.gz", "--table", "copy", "--create", code=1).output
    told = run("load", "t.jsonl.gz", "--table", "empty", code=1).output
    assert "line 2: the key needs id:S, and the item has none" in told
    with connect("shop.db") as db:
        assert not everything(db, "empty")


def test_lines_that_others_wrote_are_loaded_into_a_table_that_is_there() -> None:
    lines = b'{"id": {"S": "1"}}\n\n{"Item": {"id": {"S": "2"}}}\n{"End": {"S": "x"}, "id": {"S": "3"}}\n'
    assert "no definition" in run("load", "-", "--table", "new", "--create", code=1, stdin=lines).output
    assert run("load", "-", "--table", "empty", stdin=lines).stdout == "empty: 3 items loaded\n"
    assert "--merge" in run("load", "-", "--table", "empty", code=1, stdin=lines).output
    assert run("load", "-", "--table", "empty", "--merge", stdin=lines).stdout == "empty: 3 items loaded\n"


def test_a_failed_load_that_made_the_table_leaves_nothing() -> None:
    """An item that the index does not take: the definition in the folder was changed."""
    run("dump", "orders", "--out", "d")
    definition = ORDERS.replace(indexes=[Index("by-exact", "exact:S")], deletion_protection=True)
    Path("d/table.json").write_text(dumping.export_text(definition))
    assert "does not take the item" in run("load", "d", "--table", "copy", "--create", code=1).output
    assert "copy" not in names("shop.db")
    assert not list(Path("d").glob("load-state*"))
    run("load", "d", "--table", "copy", "--create", code=1, db="new.db")
    assert not Path("new.db").exists()


def test_a_dump_that_is_killed_leaves_no_file_of_its_name() -> None:
    """Stopped before its last block, by a signal that nothing can catch."""
    script = (
        "import os, signal, penstock.tables.data.item_files as f\n"
        "def write(file, blocks):\n"
        "    file.write(next(blocks)); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "f._write = write\n"
        "from penstock.cli.main import cli\n"
        "cli(['tables', 'dump', 'orders', '--out', 't.jsonl', '--db', 'shop.db'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    assert not Path("t.jsonl").exists()
    run("dump", "orders", "--out", "t.jsonl")
    assert len(Path("t.jsonl").read_bytes().splitlines()) == 32


# ── several tables ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format", [None, "jsonl", "csv"])
def test_all_tables_go_into_a_folder_and_back(format: str | None) -> None:
    told = run("dump", "--all", "--out", "d", *(["--format", format] if format else [])).stdout
    assert told == "empty: 0 items\norders: 30 items\nother: 2 items\n3 tables, 32 items, in d\n"
    assert "whole dump" in run("dump", "--all", "--out", "d", code=1).output
    dry = run("load", "d", "--create", "--dry-run", db="copy.db").stdout
    assert "orders (made as it was dumped): 30 items would be loaded\n" in dry
    assert not Path("copy.db").exists()
    run("load", "d", "--create", db="copy.db")
    assert all(same(one) for one in ("empty", "orders", "other"))
    run("load", "d", "--table", "orders", "--create", db="one.db")
    assert names("one.db") == ["orders"]
    assert (
        "no table ordrs in this dump. There is empty, orders, other"
        in run("load", "d", "--table", "ordrs", code=1).output
    )


def test_a_prefix_and_names_choose_tables() -> None:
    assert "2 tables" in run("dump", "--prefix", "o", "--out", "d").stdout
    assert sorted(one.name for one in Path("d").iterdir()) == ["orders", "other", "tables.json"]
    assert json.loads(run("dump", "empty", "other", "--out", "e", "--json").stdout)["items"] == 2
    assert "Which tables?" in run("dump", "--out", "f", code=2).output
    assert "Which tables?" in run("dump", "orders", "--all", "--out", "f", code=2).output
    assert "not into one file" in run("dump", "--all", "--out", "-", code=2).output
    assert "no tables that begin with x" in run("dump", "--prefix", "x", "--out", "f", code=1).output
    assert not Path("f").exists()


def test_penstocks_own_tables_are_not_all_tables_and_a_load_into_a_database_that_has_them_works() -> None:
    """What they hold, such as leases and places in a stream, is of one database and would be wrong in another."""
    own = ("penstock-state", "penstock-rekey", "penstock-streams")
    for file in ("shop.db", "copy.db"):
        with connect(file) as db:
            for name in own:
                make(db, Table(name, ("pk:S", "sk:S")), name)
                db.table(name).put({"pk": "table#orders", "sk": "lease", "of": file})
    assert "3 tables, 32 items" in run("dump", "--all", "--out", "d").stdout
    assert "no tables that begin with penstock-" in run("dump", "--prefix", "penstock-", "--out", "e", code=1).output
    run("load", "d", "--create", db="copy.db")
    with connect("copy.db") as db:
        assert [item["of"] for name in own for item in db.table(name).scan()] == ["copy.db"] * 3
    assert "1 item" in run("dump", "penstock-state", "--out", "s.jsonl").stdout


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("format", [None, "jsonl"])
def test_a_stopped_dump_of_all_is_refused_and_goes_on(format: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("dump", "--all", "--out", "d", *(["--format", format] if format else []))
    real = ItemTable.page

    def page(self: ItemTable, *where: Any, **more: Any) -> Any:
        if self.name == "orders":
            raise Stopped
        return real(self, *where, **more)

    with monkeypatch.context() as patch:
        patch.setattr(ItemTable, "page", page)
        with pytest.raises(Stopped):
            CliRunner().invoke(cli, ["tables", *words, "--db", "shop.db"])
    assert "half written" in run("load", "d", "--create", code=1, db="copy.db").output
    assert not Path("copy.db").exists()
    assert "a dump of empty, orders, other" in run("dump", "orders", "other", "--out", "d", code=1).output
    run(*words)
    run("load", "d", "--create", db="copy.db")
    assert same("orders") and same("other")


@pytest.mark.parametrize("format", [None, "jsonl"])
def test_a_stopped_load_of_all_is_repeated(format: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    run("dump", "--all", "--out", "d", *(["--format", format] if format else []))
    real = ItemTable.write

    def write(self: ItemTable, *items: Any, **more: Any) -> int:
        done = real(self, *items, **more)
        if self.name == "other":
            raise Stopped
        return done

    with monkeypatch.context() as patch:
        patch.setattr(ItemTable, "write", write)
        with pytest.raises(Stopped):
            CliRunner().invoke(cli, ["tables", "load", "d", "--create", "--db", "copy.db"])
    run("load", "d", "--create", db="copy.db")
    assert same("orders") and same("other")
    assert not list(Path("d").glob("load-state*"))


def test_a_broken_part_of_one_table_writes_none() -> None:
    run("dump", "--all", "--out", "d")
    part = next(Path("d/other/data").iterdir())
    part.write_bytes(part.read_bytes()[:-3])
    run("load", "d", "--create", code=1, db="copy.db")
    assert not Path("copy.db").exists()


# ── S3 ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def bucket(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    for name, value in {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        "AWS_ENDPOINT_URL_S3": moto_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    name = f"dumps-{token_hex(6)}"
    new_session(None).create_client("s3").create_bucket(Bucket=name)
    yield f"s3://{name}"


def test_a_table_goes_to_s3_and_back(bucket: str) -> None:
    url = f"{bucket}/a/orders.jsonl.gz"
    assert run("dump", "orders", "--out", url).stdout.startswith("orders: 30 items, ")
    assert "already" in run("dump", "orders", "--out", url, code=1).output
    run("load", url, "--table", "orders", "--create", db="copy.db")
    assert same("orders")
    assert "Name the object" in run("dump", "orders", "--out", f"{bucket}/a", code=2).output
    assert "no file" in run("load", f"{bucket}/b.csv", "--table", "orders", "--merge", code=1).output.replace(
        "no such file", "no file"
    )
    assert "no such bucket" in run("dump", "orders", "--out", "s3://none-such-x/o.csv", code=1).output


def test_all_tables_go_to_s3_and_back(bucket: str) -> None:
    assert "3 tables, 32 items" in run("dump", "--all", "--out", f"{bucket}/nightly").stdout
    run("load", f"{bucket}/nightly", "--create", db="copy.db")
    assert all(same(one) for one in ("empty", "orders", "other"))
    assert "no dump of several tables" in run("load", f"{bucket}/x", "--table", "orders", code=1).output


def test_a_large_upload_is_in_parts_and_nothing_is_left_of_a_failed_one(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.files import bucket as buckets
    from penstock.tables.data import item_files

    size = 5 * 1024 * 1024
    monkeypatch.setattr(buckets, "PART_BYTES", size)
    with connect("shop.db") as db:
        big = {"id": {"S": ""}, "text": {"S": "x" * 300_000}}
        ItemTable.of(db, "empty").write({**big, "id": {"S": str(at)}} for at in range(40))
    real = item_files._json_lines

    def broken(*given: Any) -> Iterator[bytes]:
        yield from list(real(*given))[:30]
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(item_files, "_json_lines", broken)
        with pytest.raises(Stopped):
            CliRunner().invoke(cli, ["tables", "dump", "empty", "--out", f"{bucket}/e.jsonl", "--db", "shop.db"])
    assert not item_files.ItemFile(f"{bucket}/e.jsonl", "jsonl").exists()
    run("dump", "empty", "--out", f"{bucket}/e.jsonl")
    assert run("load", f"{bucket}/e.jsonl", "--table", "copy", "--create").stdout.endswith("40 items loaded\n")
    assert same("empty", "shop.db", "copy")


def test_gzip_of_the_same_items_is_the_same_bytes() -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        run("dump", "orders", "--out", name)
    assert Path("a.jsonl.gz").read_bytes() == Path("b.jsonl.gz").read_bytes()
    lines = gzip.decompress(Path("a.jsonl.gz").read_bytes()).splitlines()
    assert json.loads(lines[-1]) == {"End": {"items": 30}} and order(0) in [json.loads(x).get("Item") for x in lines]
