"""Restores that finish the job: from a point in time, a backup, a dump."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from moving_samples import ORDERS, everything, filled, order

from penstock.cli.main import cli
from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.tables.apply.apply import make
from penstock.tables.data import backups
from penstock.tables.data import dump as dumping
from penstock.tables.data.backups import Backup, DumpFolder, NotAsBefore, PointInTime, parse_moment, restore
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import export_text
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import require_table

FULL = ORDERS.replace(deletion_protection=True)


def silent(text: str) -> None:
    del text


def is_as_before(db: Database, name: str, wanted: Table = FULL) -> bool:
    return diff(require_table(db, name).table, wanted.replace(name=name)) == ()


def test_a_point_in_time_comes_back_with_ttl_tags_stream_recovery_and_protection() -> None:
    clock = ManualClock()
    with connect(clock=clock) as db:
        make(db, FULL, "orders")
        orders = ItemTable.of(db, "orders")
        orders.write(order(number) for number in range(100))
        clock.advance(10)
        before = clock.now()
        clock.advance(10)
        orders.write([], [orders.key_of(order(number)) for number in range(60)])
        done = restore(db, PointInTime("orders", before), "again", tell=silent)
        assert done.items == 100
        assert is_as_before(db, "again")
        assert restore(db, PointInTime("orders", None), "latest", tell=silent).items == 40


def test_a_backup_comes_back_like_the_table_that_is_still_there() -> None:
    with filled(table=FULL) as db:
        made = backups.back_up(db, "orders", "nightly", tell=silent)
        done = restore(db, Backup(made["BackupDetails"]["BackupArn"]), "again", tell=silent)
        assert (done.items, done.settings_from, done.unknown) == (300, "the table orders", ())
        assert is_as_before(db, "again")
        assert everything(db, "again") == everything(db, "orders")


def test_a_backup_of_a_table_that_is_gone_tells_what_it_does_not_know() -> None:
    with filled() as db:
        arn = backups.back_up(db, "orders", "nightly", tell=silent)["BackupDetails"]["BackupArn"]
        db.execute("DeleteTable", {"TableName": "orders"})
        done = restore(db, Backup(arn), "again", tell=silent)
        found = require_table(db, "again").table
        assert (found.ttl, found.stream, found.indexes) == (ORDERS.ttl, ORDERS.stream, ORDERS.indexes)
        assert "tags" in done.unknown


def test_a_definition_that_was_kept_fills_what_a_backup_does_not_know(tmp_path: Path) -> None:
    with filled(table=FULL) as db:
        arn = backups.back_up(db, "orders", "nightly", tell=silent)["BackupDetails"]["BackupArn"]
        kept = tmp_path / "orders.json"
        kept.write_text(export_text(FULL))
        db.execute("UpdateTable", {"TableName": "orders", "DeletionProtectionEnabled": False})
        db.execute("DeleteTable", {"TableName": "orders"})
        assert restore(db, Backup(arn), "again", definition=kept, tell=silent).unknown == ()
        assert is_as_before(db, "again")


def test_a_dump_comes_back_in_another_database(tmp_path: Path) -> None:
    with filled(table=FULL) as db:
        dumping.dump(db, "orders", tmp_path / "out")
        items = everything(db, "orders")
    with connect() as other:
        assert restore(other, DumpFolder(tmp_path / "out"), "again", tell=silent).items == 300
        assert is_as_before(other, "again")
        assert everything(other, "again") == items


def test_a_restore_that_was_interrupted_before_its_settings_is_finished() -> None:
    with filled(table=FULL) as db:
        arn = backups.back_up(db, "orders", "nightly", tell=silent)["BackupDetails"]["BackupArn"]
        db.execute("RestoreTableFromBackup", {"BackupArn": arn, "TargetTableName": "again"})
        assert not is_as_before(db, "again")
        with pytest.raises(PenstockError, match="--finish"):
            restore(db, Backup(arn), "again", tell=silent)
        restore(db, Backup(arn), "again", finish=True, tell=silent)
        assert is_as_before(db, "again")
        with pytest.raises(PenstockError, match="no table other to finish"):
            restore(db, Backup(arn), "other", finish=True, tell=silent)


def test_a_dump_that_was_loaded_in_part_is_loaded_wholly_and_one_that_was_loaded_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(table=FULL) as db:
        dumping.dump(db, "orders", tmp_path / "out", part_bytes=4_000)
        real, calls = ItemTable.write, []

        def write(self: ItemTable, *actions: object, **more: object) -> int:
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(self, *actions, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ItemTable, "write", write)
        with pytest.raises(KeyboardInterrupt):
            restore(db, DumpFolder(tmp_path / "out"), "again", tell=silent)
        assert restore(db, DumpFolder(tmp_path / "out"), "again", tell=silent).items == 300
        with pytest.raises(PenstockError, match="--finish"):
            restore(db, DumpFolder(tmp_path / "out"), "again", tell=silent)
        restore(db, DumpFolder(tmp_path / "out"), "again", finish=True, tell=silent)
        assert is_as_before(db, "again")


def test_a_table_that_cannot_be_put_right_is_told(tmp_path: Path) -> None:
    with filled() as db:
        arn = backups.back_up(db, "orders", "nightly", tell=silent)["BackupDetails"]["BackupArn"]
        kept = tmp_path / "other.json"
        kept.write_text(export_text(Table("orders", key="other:S")))
        with pytest.raises(NotAsBefore, match="primary key"):
            restore(db, Backup(arn), "again", definition=kept, tell=silent)


def test_moments_are_read_as_people_write_them() -> None:
    assert parse_moment("latest") is None
    assert parse_moment("2025-06-16T21:19:33Z") == parse_moment("2025-06-16 21:19:33") == 1_750_108_773
    with pytest.raises(PenstockError, match="is no time"):
        parse_moment("yesterday")


def test_the_commands_walk_the_whole_way(tmp_path: Path) -> None:
    url, kept = str(tmp_path / "a.db"), str(tmp_path / "orders.json")
    with filled(url):
        pass

    def penstock(*words: str) -> tuple[int, str]:
        told = CliRunner().invoke(cli, ["tables", *words, "--db", url])
        return told.exit_code, told.output

    code, text = penstock("backup", "orders", "--name", "nightly", "--definition", kept, "--json")
    assert code == 0, text
    arn = json.loads(text)["arn"]
    code, text = penstock("restore", "again", "--backup", arn, "--definition", kept)
    assert code == 0, text
    assert text == f"again: restored with 300 items; its settings are those of {kept}, verified\n"
    assert penstock("diff-data", "orders", "again")[0] == 0
    assert penstock("restore", "third", "--from", "orders")[0] == 0
    assert penstock("restore", "fourth")[0] == 2
    assert penstock("restore", "fourth", "--from", "nothing") == (
        1,
        f"Error: There is no table nothing in {url}. There is third.\n",
    )
    assert penstock("backup", "nothing")[0] == 1
