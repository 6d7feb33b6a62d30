"""Loads: only what was dumped, all of it, and continued after an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moving_samples import ORDERS, everything, filled, order

from penstock.client.batches.batch_queue import RefusalBackoff
from penstock.client.batches.batches import BatchOptions
from penstock.client.database import Database, connect
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.retry import Backoff
from penstock.tables.apply.apply import make
from penstock.tables.data import dump as dumping
from penstock.tables.data.dump import FolderError, load
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import inspect

SMALL = 4_000


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    with filled() as db:
        dumping.dump(db, "orders", tmp_path / "out", part_bytes=SMALL)
    return tmp_path / "out"


def test_a_dumped_table_comes_back_with_its_settings_and_all_its_items(dumped: Path) -> None:
    with connect() as db:
        done = load(db, dumped, "copy", create=True)
        assert done.created
        assert done.items == 300
        assert list(everything(db, "copy").values()) == _sorted(db)
        found = inspect(db, "copy")
        assert found is not None
        assert diff(found.table, ORDERS.replace(name="copy")) == ()
        assert not list(dumped.glob("load-state*"))


def _sorted(db: object) -> list[object]:
    found = {(one["customer"]["S"], one["number"]["N"]): one for one in map(order, range(300))}
    return [found[key] for key in everything(db, "copy")]  # type: ignore[index, arg-type]


def test_a_part_with_one_wrong_byte_is_refused_before_anything_is_written(dumped: Path) -> None:
    part = sorted((dumped / "data").iterdir())[-1]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with connect() as db:
        with pytest.raises(FolderError, match=r"json\.gz: the part is not what was written: its checksum differs"):
            load(db, dumped, "copy", create=True)
        assert db.tables() == []


def test_a_part_that_is_cut_or_missing_is_refused(dumped: Path) -> None:
    part = sorted((dumped / "data").iterdir())[0]
    part.write_bytes(part.read_bytes()[:-20])
    with connect() as db:
        with pytest.raises(FolderError, match="bytes instead of"):
            load(db, dumped, "copy", create=True)
        part.unlink()
        with pytest.raises(FolderError, match="missing"):
            load(db, dumped, "copy", create=True)


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("manifest-summary.json", "{", "broken JSON"),
        ("manifest-summary.json", "[]", "no JSON object"),
        ("manifest-files.json", "", "not what the summary was written for"),
    ],
)
def test_broken_manifests_are_told_by_name(dumped: Path, file: str, content: str, expected: str) -> None:
    (dumped / file).write_text(content)
    with connect() as db, pytest.raises(FolderError, match=f"{file}: .*{expected}"):
        load(db, dumped, "copy", create=True)


def test_a_half_written_dump_is_refused(dumped: Path) -> None:
    (dumped / "manifest-summary.json").unlink()
    with connect() as db, pytest.raises(FolderError, match=r"manifest-summary\.json"):
        load(db, dumped, "copy", create=True)


def test_an_export_as_aws_writes_it_is_loaded(dumped: Path) -> None:
    """Its parts are named by their place in the bucket, and have no SHA-256."""
    lines = [json.loads(line) for line in (dumped / "manifest-files.json").read_text().splitlines()]
    theirs = [
        {
            "itemCount": one["itemCount"],
            "md5Checksum": one["md5Checksum"],
            "etag": "x-1",
            "dataFileS3Key": f"AWSDynamoDB/0169/{one['dataFileS3Key']}",
        }
        for one in lines
    ]
    (dumped / "manifest-files.json").write_text("".join(json.dumps(one) + "\n" for one in theirs))
    (dumped / "manifest-summary.json").write_text(json.dumps({"version": "2020-06-30", "itemCount": 300}))
    with connect() as db:
        assert load(db, dumped, "copy", create=True).items == 300


def test_a_table_with_items_is_not_written_over_unless_asked(dumped: Path) -> None:
    with filled(count=1) as db:
        with pytest.raises(PenstockError, match="--merge"):
            load(db, dumped, "orders")
        assert load(db, dumped, "orders", merge=True).items == 300


def test_a_table_with_another_key_is_refused_before_anything_is_written(dumped: Path) -> None:
    with connect() as db:
        make(db, Table("other", key="job_id:S"), "other")
        with pytest.raises(PenstockError, match=r"no job_id.*rekey"):
            load(db, dumped, "other")


def test_an_item_that_the_table_does_not_take_is_named(dumped: Path) -> None:
    with connect() as db:
        make(db, Table("other", key=("customer:S", "number:N"), indexes=[Index("by-exact", "exact:S")]), "other")
        with pytest.raises(PenstockError, match=r"other does not take the item customer=c\d, number=\d+: .*exact"):
            load(db, dumped, "other")


class Stopped(BaseException):
    pass


def test_an_interrupted_load_goes_on_with_the_part_it_was_at(dumped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = ItemTable.write, []

    def write(self: ItemTable, puts: object, deletes: object = (), **more: object) -> int:
        calls.append(1)
        if len(calls) == 3:
            raise Stopped
        return real(self, puts, deletes)  # type: ignore[arg-type]

    monkeypatch.setattr(ItemTable, "write", write)
    with connect() as db:
        with pytest.raises(Stopped):
            load(db, dumped, "copy", create=True)
        assert 0 < len(everything(db, "copy")) < 300
        done = load(db, dumped, "copy")
        assert done.parts_before == 2
        assert len(everything(db, "copy")) == 300


def test_a_fixed_rate_is_kept(dumped: Path) -> None:
    clock = ManualClock()
    begun = clock.now()
    with connect() as db:
        load(db, dumped, "copy", create=True, pacer=Pacer(100, clock=clock, sleep=clock.advance))
    assert clock.now() - begun > 1.0


def test_nothing_is_lost_where_batches_are_turned_away_in_part(dumped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchOptions, "backoff", lambda self: RefusalBackoff(Backoff(0.0, 2.0, 0.0), lambda: 0.0))
    with connect() as inner:
        faulty = Faults(inner.transport, Rates(), seed=7, by_operation={"BatchWriteItem": Rates.every_kind(0.3)})
        done = load(Database(faulty), dumped, "copy", create=True)
        assert done.items == 300
        assert faulty.counts
        assert len(everything(inner, "copy")) == 300
