"""Dumps: whole, exact, checked, and continued after an interruption."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from hashlib import md5
from pathlib import Path

import pytest
from click.testing import CliRunner
from moving_samples import ORDERS, everything, filled, order

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.errors import PenstockError
from penstock.tables.data import dump as dumping
from penstock.tables.data.dump import FolderError, open_dump, read_part
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.export_file import read_export

SMALL = 4_000
"""Bytes of a part, so that a few hundred items are many parts."""


def test_every_item_is_in_the_dump_exactly_as_it_is_stored(tmp_path: Path) -> None:
    with filled() as db:
        done = dumping.dump(db, "orders", tmp_path / "out", part_bytes=SMALL)
        texts = [gzip.decompress(part.read_bytes()) for part in (tmp_path / "out/data").glob("*.gz")]
        lines = [line for text in texts for line in text.splitlines()]
        read = [json.loads(line)["Item"] for line in lines]
        assert sorted(read, key=lambda one: int(one["number"]["N"])) == [order(number) for number in range(300)]
        assert done.items == 300
        assert len(done.parts) > 1


def test_the_definition_lies_beside_the_items(tmp_path: Path) -> None:
    with filled() as db:
        dumping.dump(db, "orders", tmp_path / "out")
    table = read_export((tmp_path / "out/table.json").read_bytes(), "table.json")
    assert (table.key, table.indexes, table.ttl, table.tags) == (ORDERS.key, ORDERS.indexes, ORDERS.ttl, ORDERS.tags)


def test_two_dumps_of_the_same_table_are_the_same_bytes(tmp_path: Path) -> None:
    with filled() as db:
        first, second = (dumping.dump(db, "orders", tmp_path / name, part_bytes=SMALL) for name in ("a", "b"))
    assert first.parts == second.parts


def test_an_empty_table_is_a_dump_of_no_parts(tmp_path: Path) -> None:
    with filled(count=0) as db:
        assert dumping.dump(db, "orders", tmp_path / "out").parts == ()


class Stopped(BaseException):
    """Ctrl-C, at a place that a test chooses."""


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_an_interrupted_dump_is_refused_by_name_and_then_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    folder, closed = tmp_path / "out", []
    real = dumping._close

    def close(*parts: object) -> None:
        if len(closed) == after:
            raise Stopped
        closed.append(parts)
        real(*parts)  # type: ignore[arg-type]

    paged = ItemTable.page
    monkeypatch.setattr(ItemTable, "page", lambda *a, **k: paged(*a, **{**k, "limit": 10}))
    with filled() as db:
        monkeypatch.setattr(dumping, "_close", close)
        with pytest.raises(Stopped):
            dumping.dump(db, "orders", folder, part_bytes=SMALL)
        with pytest.raises(FolderError, match=r"half written.*Run the same"):
            open_dump(folder)
        monkeypatch.setattr(dumping, "_close", real)
        done = dumping.dump(db, "orders", folder, part_bytes=SMALL)
        assert not list(folder.glob("**/*.part"))
        items = [item for part in done.parts for item in read_part(folder, part)]
        assert len(items) == 300
        assert {ItemTable.of(db, "orders").text_of(item) for item in items} == set(everything(db, "orders"))


def test_a_state_that_counts_less_than_was_written_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the part and the state: the part's number is given again."""
    folder = tmp_path / "out"
    with filled() as db:
        monkeypatch.setattr(dumping.DumpState, "save", _save_until_the_second(dumping.DumpState.save))
        with pytest.raises(Stopped):
            dumping.dump(db, "orders", folder, part_bytes=SMALL)
        monkeypatch.undo()
        assert (folder / "data/00000.json.gz").exists()
        assert dumping.dump(db, "orders", folder, part_bytes=SMALL).items == 300


def _save_until_the_second(real: object) -> object:
    saved: list[object] = []

    def save(self: object, folder: Path) -> None:
        saved.append(folder)
        if len(saved) > 1:
            raise Stopped
        real(self, folder)  # type: ignore[operator]

    return save


def test_a_folder_with_a_dump_or_something_else_in_it_is_not_touched(tmp_path: Path) -> None:
    with filled(count=3) as db:
        dumping.dump(db, "orders", tmp_path / "out")
        with pytest.raises(FolderError, match="whole dump"):
            dumping.dump(db, "orders", tmp_path / "out")
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/letter.txt").write_text("dear")
        with pytest.raises(FolderError, match="not empty"):
            dumping.dump(db, "orders", tmp_path / "mine")
        with pytest.raises(PenstockError, match="no table nothing"):
            dumping.dump(db, "nothing", tmp_path / "other")


@pytest.mark.parametrize(
    "line",
    ["[]", "1", "{}", '{"dataFileS3Key": null, "itemCount": 1, "md5Checksum": ""}',
     '{"dataFileS3Key": "data/a", "itemCount": {}, "md5Checksum": ""}',
     '{"dataFileS3Key": "data/a", "itemCount": 1, "md5Checksum": 7}'],
)  # fmt: skip
def test_a_list_of_parts_that_somebody_else_wrote_is_refused_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "manifest-summary.json").write_text('{"itemCount": 1}')
    (tmp_path / "manifest-files.json").write_text(line + "\n")
    with pytest.raises(FolderError, match="line 1 is no part of a dump"):
        open_dump(tmp_path)


def exported(folder: Path, raw: bytes) -> None:
    """An export of one item by somebody else, its checksums right."""
    (folder / "data").mkdir()
    (folder / "data/a.json.gz").write_bytes(raw)
    part = {"dataFileS3Key": "x/data/a.json.gz", "itemCount": 1, "md5Checksum": b64encode(md5(raw).digest()).decode()}
    (folder / "manifest-files.json").write_text(json.dumps(part) + "\n")
    (folder / "manifest-summary.json").write_text(json.dumps({"itemCount": 1, "tableName": "orders"}))


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (gzip.compress(b'{"Item":null}\n', mtime=0), "record 1 is no item"),
        (gzip.compress(b'{"Item":{"id":{"S":1}}}\n', mtime=0), "record 1 is no item"),
        (gzip.compress(b"[]\n", mtime=0), "record 1 is no item"),
        (gzip.compress(b"garbage\n", mtime=0), "after 0 items: the line is not JSON"),
        (gzip.compress(b'{"Item":{"id":{"S":"1"}}}\n', mtime=0)[:-9], "after 0 items: Compressed file ended"),
        (b"garbage", "after 0 items: Not a gzipped file"),
        (gzip.compress(b"x" * 9_000_000, mtime=0), "a record has more than 8,388,608 bytes"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_with_its_fault(tmp_path: Path, raw: bytes, fault: str) -> None:
    exported(tmp_path, raw)
    dumped = open_dump(tmp_path)
    with pytest.raises(FolderError, match=rf"a\.json\.gz: .*{fault}"):
        list(read_part(tmp_path, dumped.parts[0]))


def test_a_half_dump_of_another_table_is_not_continued(tmp_path: Path) -> None:
    with filled(count=3) as db:
        dumping.dump(db, "orders", tmp_path / "out")
        (tmp_path / "out/manifest-summary.json").unlink()
        state = {"table": "other", "database": db.name, "started_at": "", "parts": []}
        state["places"] = {"segments": 1, "starts": [None], "read": []}
        (tmp_path / "out/dump-state.json").write_text(json.dumps(state))
        with pytest.raises(FolderError, match="a dump of other"):
            dumping.dump(db, "orders", tmp_path / "out")


def test_the_commands_dump_and_load(tmp_path: Path) -> None:
    source, target, out = str(tmp_path / "a.db"), str(tmp_path / "b.db"), str(tmp_path / "out")
    with filled(source):
        pass
    run = CliRunner()
    told = run.invoke(cli, ["tables", "dump", "orders", "--out", out, "--db", source])
    assert told.exit_code == 0, told.output
    assert told.output.startswith("orders: 300 items in 1 part, ")
    told = run.invoke(cli, ["tables", "load", out, "--table", "copy", "--db", target])
    assert told.exit_code == 1
    assert "--create` makes a new one" in told.output
    told = run.invoke(cli, ["tables", "load", out, "--table", "copy", "--db", target, "--create", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output) == {
        "table": "copy",
        "items": 300,
        "parts": 1,
        "parts_before": 0,
        "created": True,
    }
    with connect(target) as db:
        assert len(everything(db, "copy")) == 300


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = str(tmp_path / "a.db"), str(tmp_path / "out")
    with filled(source):
        pass

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ItemTable, "rounds", interrupted)
    told = CliRunner().invoke(cli, ["tables", "dump", "orders", "--out", out, "--db", source])
    assert told.exit_code == 130
    assert "To continue, run it again" in told.output
    monkeypatch.undo()
    assert CliRunner().invoke(cli, ["tables", "dump", "orders", "--out", out, "--db", source]).exit_code == 0
