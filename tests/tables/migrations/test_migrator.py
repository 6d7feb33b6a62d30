"""Migrations on a table: in order, resumed, beside a writer, with failures, undone, verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.database import Database, connect
from penstock.client.items.values import Item
from penstock.client.wrappers.pacing import Pacer
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.server.server import running_server
from penstock.tables.apply.apply import make
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.migrations import run as run_module
from penstock.tables.migrations.migration import BadMigration, load_folder
from penstock.tables.migrations.migrator import Migrator, NotIdempotent, Options
from penstock.tables.migrations.run import TooManyFailed
from penstock.tables.migrations.store import MigrationStore
from penstock.tables.state.state_table import LeaseHeld

SPLIT = """
from penstock import F
table = "users"
where = F("name").exists()
def up(item):
    item["first"], item["last"] = item.pop("name").split(" ")
    return item
def down(item):
    if "first" in item:
        item["name"] = item.pop("first") + " " + item.pop("last")
    return item
"""
NEXT = """
table = "users"
def up(item):
    item["greeting"] = "Hello " + item.get("first", "?")
    return item
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as db:
        yield db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_split.py").write_text(SPLIT)
    return tmp_path


def filled(db: Database, count: int = 50, table: str = "users", **settings: Any) -> None:
    make(db, Table(table, key="id:S", **settings), table)
    with db.table(table).batch() as batch:
        for n in range(count):
            batch.put({"id": f"u{n}", "name": f"Ada L{n}"})


def migrator(db: Database, folder: Path, naming: Naming | None = None, **options: Any) -> Migrator:
    return Migrator(db, load_folder(folder), naming, Options(**{"backup": False, "segments": 4, **options}))


def items(db: Database, table: str = "users") -> dict[str, Item]:
    return {item["id"]: item for item in db.table(table).scan()}


def test_pending_ones_are_applied_in_order_once(db: Database, folder: Path) -> None:
    filled(db)
    (folder / "0002_greet.py").write_text(NEXT)
    done = list(migrator(db, folder).up())
    assert [(one.id, one.state) for one in done] == [("0001_split", "applied"), ("0002_greet", "applied")]
    assert items(db)["u7"] == {"id": "u7", "first": "Ada", "last": "L7", "greeting": "Hello Ada"}
    assert list(migrator(db, folder).up()) == []
    store = MigrationStore(db, "users")
    assert [one.text for one in store.state.history(table="users")] == [
        "0002_greet applied: 50 changed of 50 items",
        "0001_split applied: 50 changed of 50 items",
    ]


def test_to_ends_with_that_one_and_names_have_prefix_and_environment(db: Database, folder: Path) -> None:
    filled(db, 3, "shop-staging-users")
    (folder / "0002_greet.py").write_text(NEXT)
    work = migrator(db, folder, Naming("shop", "staging"))
    assert [one.id for one in work.up("1")] == ["0001_split"]
    assert [one.state for one in work.statuses()] == ["applied", "pending"]
    assert items(db, "shop-staging-users")["u1"] == {"id": "u1", "first": "Ada", "last": "L1"}


def test_a_live_writer_loses_nothing(db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reading and the writing of each page, somebody renames one item, deletes one and counts in all."""
    filled(db, 40)
    users, write_each, renamed, deleted = db.table("users"), ItemTable.write_each, [], []

    def meanwhile(self: ItemTable, calls: Any, **options: Any) -> Any:
        keys = [request["Key"]["id"]["S"] for _, request, _ in calls]
        if len(keys) > 2 and keys[0] not in renamed:
            renamed.append(keys[0])
            users.update({"id": keys[0]}, set={"name": "Eve New"})
            deleted.append(keys[1])
            users.delete({"id": keys[1]})
            for key in keys[2:]:
                users.update({"id": key}, add={"hits": 1})
        return write_each(self, calls, **options)

    monkeypatch.setattr(ItemTable, "write_each", meanwhile)
    (done,) = migrator(db, folder).up()
    assert renamed
    assert done.progress is not None
    # What up() did not see, hits, is no conflict: the write leaves it alone.
    assert done.progress.counts.conflicts == 2 * len(renamed)
    found = items(db)
    assert all("name" not in item for item in found.values())
    assert not set(deleted) & set(found)
    for key in renamed:
        assert (found[key]["first"], found[key]["last"]) == ("Eve", "New")
    others = [item for key, item in found.items() if key not in renamed]
    assert all(item["hits"] == 1 for item in others)


def test_a_write_whose_answer_was_lost_counts_as_ours(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(db, 20)
    write_each = ItemTable.write_each

    def twice(self: ItemTable, calls: Any, **options: Any) -> Any:
        write_each(self, calls, **options)  # the answers are lost, and the client sends the requests again
        return write_each(self, calls, **options)

    monkeypatch.setattr(ItemTable, "write_each", twice)
    (done,) = migrator(db, folder).up()
    assert done.progress is not None
    assert (done.progress.counts.changed, done.progress.counts.conflicts) == (20, 0)


def test_failed_items_are_kept_with_their_errors_and_hold_back_the_next(db: Database, folder: Path) -> None:
    filled(db)
    (folder / "0002_greet.py").write_text(NEXT)
    db.table("users").put({"id": "x", "name": "Plato"})
    (done,) = migrator(db, folder).up()
    assert [(one.key, one.error.kind) for one in done.failed] == [({"id": {"S": "x"}}, "ValueError")]
    with pytest.raises(PenstockError, match=r"failed for 1 item of users.*--retry-failed"):
        list(migrator(db, folder).up())
    (again,) = migrator(db, folder).retry_failed()
    assert len(again.failed) == 1
    # The file may be mended now: it is not over.
    (folder / "0001_split.py").write_text(SPLIT.replace('split(" ")', 'partition(" ")[::2]'))
    (mended,) = migrator(db, folder).retry_failed()
    assert mended.failed == ()
    assert items(db)["x"] == {"id": "x", "first": "Plato", "last": ""}
    assert [one.id for one in migrator(db, folder).up()] == ["0002_greet"]


def test_a_run_that_was_broken_off_continues_where_it_was(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(db, 200)
    monkeypatch.setattr(run_module, "PAGE_ITEMS", 10)
    monkeypatch.setattr(run_module, "_CHECKPOINT_SECONDS", 0.0)
    scanned: list[int] = []

    def stop(progress: Any) -> None:
        scanned.append(progress.counts.scanned)
        if len(scanned) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(migrator(db, folder, tell=stop).up())
    (status,) = migrator(db, folder).statuses()
    assert status.state == "running"
    assert status.holder is None
    left = sum("name" in item for item in items(db).values())
    assert 0 < left < 200
    seen: list[int] = []
    (done,) = migrator(db, folder, tell=lambda progress: seen.append(progress.counts.scanned)).up()
    assert seen[0] > scanned[1], "it went on from the checkpoint"
    assert done.state == "applied"
    assert not any("name" in item for item in items(db).values())


def test_a_file_that_changed_before_the_run_was_over_starts_it_again(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(db, 100)
    monkeypatch.setattr(run_module, "PAGE_ITEMS", 10)

    def stop(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(migrator(db, folder, tell=stop).up())
    (folder / "0001_split.py").write_text(SPLIT + "# another\n")
    said: list[str] = []
    (done,) = migrator(db, folder, say=said.append).up()
    assert "it starts over" in said[0]
    assert done.progress is not None
    assert done.progress.counts.scanned == 100


def test_one_process_works_on_a_table_at_a_time(db: Database, folder: Path) -> None:
    filled(db)
    store = MigrationStore(db, "users")
    with (
        store.state.lease(store.thing, purpose="migrate up"),
        pytest.raises(LeaseHeld, match="migration of table users is held"),
    ):
        list(migrator(db, folder).up())
    both = [migrator(db, folder), migrator(db, folder)]
    chosen = [list(one.to_apply()) for one in both]
    assert [len(one) for one in chosen] == [1, 1]
    assert [one.state for one in both[0].up()] == ["applied"]
    assert both[1]._run(load_folder(folder)[0], "up").progress is not None  # it was there first: nothing runs twice
    assert len(list(store.state.history(table="users"))) == 1


def test_a_changed_applied_file_is_told_and_can_be_accepted(db: Database, folder: Path) -> None:
    filled(db, 3)
    list(migrator(db, folder).up())
    (folder / "0001_split.py").write_text(SPLIT + "# a comment\n")
    with pytest.raises(BadMigration, match="has changed since it was applied to users"):
        migrator(db, folder).to_apply()
    assert migrator(db, folder).statuses()[0].changed_file
    assert list(migrator(db, folder, accept_changed=True).up()) == []
    assert migrator(db, folder).to_apply() == []


def test_a_number_before_an_applied_one_is_refused_and_a_missing_file_is_told(db: Database, folder: Path) -> None:
    filled(db, 3)
    (folder / "0001_split.py").rename(folder / "0002_split.py")
    list(migrator(db, folder).up())
    (folder / "0001_greet.py").write_text(NEXT)
    with pytest.raises(BadMigration, match="0001_greet comes before 0002_split"):
        migrator(db, folder).to_apply()
    (folder / "0001_greet.py").rename(folder / "0003_greet.py")
    (folder / "0002_split.py").unlink()
    assert [(one.id, one.migration is None) for one in migrator(db, folder).statuses()] == [
        ("0002_split", True),
        ("0003_greet", False),
    ]


def test_an_up_that_is_not_idempotent_is_refused_before_it_writes(db: Database, folder: Path) -> None:
    filled(db, 3)
    text = 'table = "users"\ndef up(item):\n    item["n"] = item.get("n", 0) + 1\n    return item\n'
    (folder / "0001_split.py").write_text(text)
    assert migrator(db, folder).preview(load_folder(folder)[0]).is_refused
    with pytest.raises(NotIdempotent, match="a second time changes 3 of 3 sampled items"):
        list(migrator(db, folder).up())
    assert not any("n" in item for item in items(db).values())
    assert migrator(db, folder).statuses()[0].state == "pending"
    (folder / "0001_split.py").write_text('version = "schema"\n' + text)
    list(migrator(db, folder).up())
    list(migrator(db, folder).again())
    assert {(item["n"], item["schema"]) for item in items(db).values()} == {(1, 1)}


def test_down_undoes_the_last_one_and_is_refused_without_a_function(db: Database, folder: Path) -> None:
    filled(db, 5)
    before = items(db)
    list(migrator(db, folder).up())
    (done,) = migrator(db, folder).down()
    assert (done.state, items(db)) == ("pending", before)
    (folder / "0002_greet.py").write_text(NEXT)
    list(migrator(db, folder).up())
    with pytest.raises(PenstockError, match=r"no function down\(item\)"):
        list(migrator(db, folder).down("0"))


def test_verify_counts_what_live_writers_have_added_and_again_migrates_it(db: Database, folder: Path) -> None:
    filled(db, 5)
    list(migrator(db, folder).up())
    assert migrator(db, folder).verify()[0].old == 0
    db.table("users").put({"id": "late", "name": "Grace Hopper"})
    (found,) = migrator(db, folder).verify()
    assert (found.old, found.keys) == (1, [{"id": {"S": "late"}}])
    list(migrator(db, folder).again())
    assert items(db)["late"] == {"id": "late", "first": "Grace", "last": "Hopper"}
    assert migrator(db, folder).verify()[0].old == 0


@pytest.mark.parametrize("pitr", [True, False])
def test_there_is_a_backup_or_a_point_in_time_before(db: Database, folder: Path, pitr: bool) -> None:
    filled(db, 5, pitr=pitr)
    (done,) = migrator(db, folder, backup=True).up()
    assert done.progress is not None
    assert done.progress.mark.startswith("point in time 20" if pitr else "backup arn:")
    backups = db.execute("ListBackups", {"TableName": "users"})["BackupSummaries"]
    assert len(backups) == (0 if pitr else 1)


def test_too_many_failures_stop_the_run(db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(db, 30)
    monkeypatch.setattr(run_module, "MOST_FAILED", 5)
    (folder / "0001_split.py").write_text('table = "users"\ndef up(item):\n    raise ValueError("no")\n')
    with pytest.raises(TooManyFailed):
        list(migrator(db, folder).up())
    (status,) = migrator(db, folder).statuses()
    assert (status.state, len(status.failed)) == ("running", 6)
    (folder / "0001_split.py").write_text(SPLIT)
    (done,) = migrator(db, folder).up()
    assert done.failed == ()


def test_the_preview_counts_and_costs_and_writes_nothing(db: Database, folder: Path) -> None:
    filled(db, 600)
    before = items(db)
    found = migrator(db, folder, sample=50).preview(load_folder(folder)[0])
    assert (found.expected, found.items, found.failed) == (600, 600, [])
    assert found.scanned < 600
    assert found.write_units == 600
    assert items(db) == before
    assert db.tables() == ["users"]


@pytest.mark.parametrize("rate", [None, 5_000.0])
def test_over_http_writes_go_side_by_side_and_conflicts_are_redone(
    folder: Path, rate: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with Engine() as engine, running_server(engine) as server, connect(server.url) as db:
        filled(db, 60)
        db.table("users").put({"id": "x", "name": "Plato"})
        (done,) = migrator(db, folder, pacer=Pacer(rate), workers=3).up()
        assert done.progress is not None
        assert (done.progress.counts.changed, len(done.failed)) == (60, 1)
        assert items(db)["u7"] == {"id": "u7", "first": "Ada", "last": "L7"}


def test_moto_takes_the_writes_too(folder: Path, empty_moto_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with connect(empty_moto_url) as db:
        filled(db, 5)
        (done,) = migrator(db, folder, backup=True).up()
        assert done.state == "applied"
        assert items(db)["u3"] == {"id": "u3", "first": "Ada", "last": "L3"}
        (undone,) = migrator(db, folder).down()
        assert (undone.state, items(db)["u3"]) == ("pending", {"id": "u3", "name": "Ada L3"})
