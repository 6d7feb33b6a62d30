"""`penstock repair`: what is damaged is named, what is not is saved, and the file itself is left as it is."""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.engine import Engine, Pending
from penstock.engine.catalog import row_keys
from penstock.engine.repair.damaged_tables import Reading, key_text
from penstock.engine.repair.examine import Findings, examine
from penstock.engine.repair.file_snapshot import Snapshot
from penstock.engine.repair.rescue import rescue
from penstock.engine.repair.sqlite_pages import Lost, Trees
from penstock.errors import InternalServerError, PenstockError, StorageError

PAGE = 8192
DAMAGED = 3
ITEMS = 150
NAMES = ("orders", "customers")
Items = dict[str, dict[str, Any]]


def definition(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
            {"AttributeName": "owner", "AttributeType": "S"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "by-owner",
                "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    }


def item(number: int) -> dict[str, Any]:
    long = 9_000 if number % 50 == 0 else 500  # some have pages of their own
    return {
        "id": {"S": f"o{number}"},
        "at": {"N": str(number - 200)},
        "owner": {"S": f"w{number % 7}"},
        "ends": {"N": str(4_000_000_000 + number)},
        "text": {"S": f"{number} " * (long // 4)},
    }


def fill(path: str) -> None:
    with Engine(path) as engine:
        for name in NAMES:
            engine.execute("CreateTable", definition(name))
            pitr = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
            engine.execute("UpdateContinuousBackups", {"TableName": name} | pitr)
            ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ends"}}
            engine.execute("UpdateTimeToLive", {"TableName": name} | ttl)
            for start in range(0, ITEMS, 50):
                puts = [Pending("PutItem", {"TableName": name, "Item": item(n)}) for n in range(start, start + 50)]
                engine.answer_many(puts)
            engine.execute("CreateBackup", {"TableName": name, "BackupName": "monday"})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A sound file with two tables and everything that can stand beside one."""
    path = str(tmp_path_factory.mktemp("whole") / "shop.db")
    fill(path)
    return path


@pytest.fixture
def shop(whole: str, tmp_path: Path) -> str:
    """A copy of it to be damaged."""
    path = str(tmp_path / "shop.db")
    shutil.copy(whole, path)
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["repair", *arguments])


def storage(path: str, table: str, kind: str = "") -> str:
    """The SQL table of a table, or of its index ("_i0") or TTL ("_ttl")."""
    db = sqlite3.connect(path)
    (number,) = db.execute("SELECT id FROM tables WHERE name = ?", (table,)).fetchone()
    db.close()
    return f"t{number}{kind}"


def pages_of(path: str, name: str) -> dict[str, list[int]]:
    """By kind ("leaf", "internal", "overflow"), the pages of an SQL table: the root is the first internal one."""
    trees = Trees(Path(path))
    try:
        root, _ = trees._schema()[name]
        reached: set[int] = set()
        trees._reach(root, reached)
        found: dict[str, list[int]] = {"leaf": [], "internal": [], "overflow": []}
        for number in sorted(reached, key=lambda page: (page != root, page)):
            kind = {2: "internal", 10: "leaf"}.get(trees._page(number)[0], "overflow")
            found[kind].append(number)
        return found
    finally:
        trees.close()


def spoil(path: str, pages: list[int], filling: bytes = bytes(PAGE)) -> None:
    with Path(path).open("r+b") as file:
        for number in pages:
            file.seek((number - 1) * PAGE)
            file.write(filling)


def items(path: str, table: str) -> Items:
    with Engine(path) as engine:
        found: Items = {}
        start: dict[str, Any] = {}
        while True:
            page = engine.execute("Scan", {"TableName": table} | start)
            found |= {one["id"]["S"]: one for one in page["Items"]}
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


EVERYTHING: Items = {f"o{number}": item(number) for number in range(ITEMS)}


def test_a_sound_file_is_said_to_be_sound(whole: str) -> None:
    result = run(whole)
    assert result.exit_code == 0 and "sound (" in result.output and "150 items, sound" in result.output
    told = json.loads(run(whole, "--json").output)
    assert told["sound"] is True and [table["items"] for table in told["tables"]] == [ITEMS, ITEMS]
    assert [one.name for one in Path(whole).parent.iterdir()] == ["shop.db"], "a look leaves nothing behind"


def test_the_trees_are_read_as_sqlite_reads_them(whole: str) -> None:
    db = sqlite3.connect(whole)
    trees = Trees(Path(whole))
    names = trees.names()
    assert {"tables", "stream_records", "journal", storage(whole, "orders"), "b1"} <= set(names)
    for name in names:
        assert list(trees.rows(name)) == db.execute(f"SELECT * FROM {name}").fetchall(), name
    assert list(trees.orphans()) == []
    trees.close()
    db.close()


def test_a_lost_leaf_is_named_and_all_else_is_saved(shop: str, tmp_path: Path) -> None:
    leaf = pages_of(shop, storage(shop, "orders"))["leaf"][3]
    spoil(shop, [leaf])
    before = Path(shop).read_bytes()
    found = examine(shop)
    orders, customers = found.tables
    assert customers.sound and not orders.sound
    assert orders.lost_pages == 1 and orders.items + orders.known_lost == ITEMS
    assert run(shop).exit_code == DAMAGED
    result = run(shop, "--into", str(tmp_path / "new.db"))
    assert result.exit_code == DAMAGED and f"lost: {orders.known_lost} items" in result.output, result.output
    saved = items(str(tmp_path / "new.db"), "orders")
    assert len(saved) == orders.items and all(EVERYTHING[key] == one for key, one in saved.items())
    lost = {key.split(",")[0].removeprefix("id=") for key in orders.keys}
    assert lost and lost.isdisjoint(saved)
    assert items(str(tmp_path / "new.db"), "customers") == EVERYTHING
    assert examine(str(tmp_path / "new.db")).sound
    assert Path(shop).read_bytes() == before


def test_where_the_root_is_lost_the_leaves_are_still_found(shop: str, tmp_path: Path) -> None:
    pages = pages_of(shop, storage(shop, "orders"))
    spoil(shop, pages["internal"][:1], b"\xff" * PAGE)
    done = rescue(shop, str(tmp_path / "new.db"))
    saved = items(str(tmp_path / "new.db"), "orders")
    assert len(saved) == done.tables[0].items > ITEMS * 0.9
    assert done.tables[0].items + done.tables[0].lost == ITEMS
    assert all(EVERYTHING[key] == one for key, one in saved.items())


def test_a_lost_index_is_made_anew_from_the_items(shop: str, tmp_path: Path) -> None:
    spoil(shop, pages_of(shop, storage(shop, "orders", "_i0"))["leaf"])
    found = examine(shop).tables[0]
    assert found.lost == 0 and found.indexes[0].missing > 0
    result = run(shop, "--into", str(tmp_path / "new.db"), "--json")
    assert result.exit_code == 0 and json.loads(result.output)["complete"] is True, "nothing is lost"
    with Engine(str(tmp_path / "new.db")) as engine:
        request = {"TableName": "orders", "IndexName": "by-owner", "Select": "COUNT"}
        assert engine.execute("Scan", request)["Count"] == ITEMS


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM {index} WHERE key = (SELECT min(key) FROM {index})", "1 item without a row"),
        ("DELETE FROM {items} WHERE key = (SELECT min(key) FROM {items})", "1 row that point at no item"),
        (
            "UPDATE {index} SET key = CAST(key || x'00' AS BLOB) WHERE key = (SELECT min(key) FROM {index})",
            "1 row with other values",
        ),
        ("UPDATE {items} SET size = size + 1 WHERE key = (SELECT min(key) FROM {items})", "1 item of another size"),
        ("UPDATE {items} SET item = x'7b' WHERE key = (SELECT min(key) FROM {items})", "1 item cannot be what"),
        (
            "UPDATE {items} SET key = CAST(key || x'00' AS BLOB) WHERE key = (SELECT min(key) FROM {items})",
            "1 item cannot be what",
        ),
        ("DELETE FROM {ttl} WHERE at = 4000000007", "149 are noted where the items call for 150"),
        ("DROP TABLE {index}", "150 items without a row"),
        ("DROP TABLE b1", "the backup"),
        ("UPDATE tables SET record = x'7b' WHERE id = 1", "the definition of a table cannot be read"),
    ],
)
def test_what_does_not_agree_is_told(shop: str, statement: str, told: str) -> None:
    names = {"items": "", "index": "_i0", "ttl": "_ttl"}
    db = sqlite3.connect(shop)
    db.execute(statement.format(**{name: storage(shop, "orders", kind) for name, kind in names.items()}))
    db.commit()
    db.close()
    result = run(shop)
    assert result.exit_code == DAMAGED and told in result.output, result.output


def test_keys_are_named_in_words(whole: str) -> None:
    with Snapshot(whole) as snapshot, Reading(snapshot) as reading:
        table = reading.tables[0]
        for number in (-12.5, -1, 0, 1, 100, 12345.678):
            key = {"id": {"S": "größe, 1"}, "at": {"N": str(number)}}
            assert key_text(table, row_keys.row_key(table, key)) == f"id=größe, 1, at={number}"


def test_a_file_whose_end_is_missing_gives_what_is_left(shop: str, tmp_path: Path) -> None:
    raw = Path(shop).read_bytes()
    Path(shop).write_bytes(raw[: len(raw) * 3 // 4])
    with pytest.raises(StorageError, match="penstock repair"):
        Engine(shop)
    done = rescue(shop, str(tmp_path / "new.db"))
    assert items(str(tmp_path / "new.db"), "orders") == EVERYTHING
    assert not done.complete


@pytest.mark.parametrize("seed", range(3))
def test_whatever_pages_are_lost_nothing_is_invented(shop: str, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    count = Path(shop).stat().st_size // PAGE
    lost = random.sample(range(4, count + 1), random.choice([1, 5, 25]))
    for number in lost:
        spoil(
            shop, [number], random.choice([bytes(PAGE), random.randbytes(PAGE), b"\x0a" + random.randbytes(PAGE - 1)])
        )
    before = Path(shop).read_bytes()
    new = str(tmp_path / "new.db")
    try:
        done = rescue(shop, new)
    except StorageError as error:
        assert shop in str(error) and not Path(new).exists()
        return
    assert Path(shop).read_bytes() == before
    for table in done.tables:
        saved = items(new, table.name)
        assert len(saved) == table.items
        # An item of several pages may have lost one of them: only what SQLite's pages cannot tell may differ.
        differing = [key for key, one in saved.items() if EVERYTHING[key] != one]
        assert all(int(key[1:]) % 50 == 0 for key in differing)


def test_a_page_of_another_table_is_found_out_although_it_is_well_made(shop: str, tmp_path: Path) -> None:
    one = pages_of(shop, storage(shop, "orders"))["leaf"][2]
    two = pages_of(shop, storage(shop, "customers"))["leaf"][5]
    raw = bytearray(Path(shop).read_bytes())
    raw[(one - 1) * PAGE : one * PAGE] = raw[(two - 1) * PAGE : two * PAGE]
    Path(shop).write_bytes(raw)
    found = examine(shop)
    assert not found.tables[0].sound and found.tables[1].sound
    done = rescue(shop, str(tmp_path / "new.db"))
    saved = items(str(tmp_path / "new.db"), "orders")
    assert 0 < done.tables[0].items == len(saved) < ITEMS
    assert done.tables[0].items + done.tables[0].lost >= ITEMS


def test_a_file_that_is_written_to_meanwhile_is_examined_at_one_moment(shop: str) -> None:
    with Engine(shop) as engine:
        with Snapshot(shop) as snapshot, Reading(snapshot) as reading:
            for number in range(ITEMS):
                engine.execute("DeleteItem", {"TableName": "orders", "Key": _key(number)})
            found = Findings(shop, 0)
            assert sum(not isinstance(one, Lost) for one in reading.items(reading.tables[0])) == ITEMS
            assert found.sound
        assert examine(shop).sound


def _key(number: int) -> dict[str, Any]:
    return {name: item(number)[name] for name in ("id", "at")}


@pytest.mark.parametrize(
    ("name", "told"), [("missing.db", "no such file"), ("text.db", "not an SQLite file"), ("theirs.db", "Penstock's")]
)
def test_what_is_no_database_of_ours_is_refused(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "text.db").write_text("Dear diary. " * 1000)
    db = sqlite3.connect(tmp_path / "theirs.db")
    db.execute("CREATE TABLE theirs (a)")
    db.close()
    result = run(str(tmp_path / name))
    assert result.exit_code == 1 and told in result.output


def test_a_new_file_replaces_nothing_unasked(shop: str, tmp_path: Path) -> None:
    there = tmp_path / "new.db"
    there.write_text("precious")
    assert run(shop, "--into", str(there)).exit_code == 2
    assert run(shop, "--into", shop, "--yes").exit_code == 1
    assert there.read_text() == "precious"
    assert run(shop, "--into", str(there), "--yes").exit_code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new.db", "shop.db"]


def test_what_stands_beside_the_tables_comes_along(shop: str, tmp_path: Path) -> None:
    new = str(tmp_path / "new.db")
    assert rescue(shop, new).complete
    with Engine(shop) as old, Engine(new) as engine:
        for operation, request in (
            ("ListBackups", {}),
            ("ListStreams", {}),
            ("DescribeTable", {"TableName": "orders"}),
            ("DescribeTimeToLive", {"TableName": "orders"}),
        ):
            assert engine.execute(operation, request) == old.execute(operation, request), operation
        backup = engine.execute("ListBackups", {})["BackupSummaries"][0]["BackupArn"]
        engine.execute("RestoreTableFromBackup", {"TargetTableName": "again", "BackupArn": backup})
        restored = {"SourceTableName": "orders", "TargetTableName": "then", "UseLatestRestorableTime": True}
        engine.execute("RestoreTableToPointInTime", restored)
    assert items(new, "again") == items(new, "then") == EVERYTHING


# ── the engine's own calls on a damaged file ─────────────────────────────────────────────────────


def test_a_call_that_meets_damage_names_the_file_the_table_and_the_next_step(shop: str) -> None:
    spoil(shop, pages_of(shop, storage(shop, "orders"))["leaf"][3:4])
    lost = {key.split(",")[0].removeprefix("id=") for key in examine(shop).tables[0].keys}
    with Engine(shop) as engine:
        for number in range(ITEMS):
            for operation, request in (("GetItem", {"Key": _key(number)}), ("PutItem", {"Item": item(number)})):
                try:
                    engine.execute(operation, {"TableName": "orders"} | request)
                    assert f"o{number}" not in lost
                except InternalServerError as error:
                    assert f"{shop}: table orders: " in error.message and f"penstock repair {shop}" in error.message
        assert engine.execute("Query", _partition("customers", 7))["Count"] == 1
        with pytest.raises(InternalServerError, match="table orders"):
            engine.execute("BatchGetItem", {"RequestItems": {"orders": {"Keys": [_key(int(n[1:])) for n in lost]}}})
    assert items(shop, "customers") == EVERYTHING


def _partition(table: str, number: int) -> dict[str, Any]:
    return {
        "TableName": table,
        "KeyConditionExpression": "id = :id",
        "ExpressionAttributeValues": {":id": {"S": f"o{number}"}},
        "Select": "COUNT",
    }


@pytest.mark.parametrize("request_", [{"Key": _key(0)}, {"Key": _key(0), "ProjectionExpression": "ends"}])
def test_an_item_whose_rest_is_overwritten_is_an_error_that_names_its_table(shop: str, request_: Any) -> None:
    spoil(shop, pages_of(shop, storage(shop, "orders"))["overflow"])
    with Engine(shop) as engine, pytest.raises(PenstockError, match=r"table orders: .*penstock repair"):
        engine.execute("GetItem", {"TableName": "orders"} | request_)


def test_background_work_on_a_damaged_table_does_not_stop_that_of_others(shop: str) -> None:
    spoil(shop, pages_of(shop, storage(shop, "orders", "_ttl"))["leaf"])
    with Engine(shop) as engine:
        engine.maintenance.stop()
        engine.execute("PutItem", {"TableName": "customers", "Item": item(1) | {"ends": {"N": "1700000000"}}})
        engine.maintenance.run_due()
        assert "Item" not in engine.execute("GetItem", {"TableName": "customers", "Key": _key(1)})
        assert orjson.loads(engine.answer("GetItem", {"TableName": "customers", "Key": _key(2)}))["Item"] == item(2)


@pytest.mark.parametrize("where", ["new file", "temporary folder"])
def test_where_there_is_no_room_for_it_nothing_is_left(shop: str, tmp_path: Path, where: str) -> None:
    spoil(shop, pages_of(shop, storage(shop, "orders"))["leaf"][3:4])
    room = Path(shop).stat().st_size * 2 if where == "new file" else 50_000
    program = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program, "repair", shop, "--into", str(tmp_path / "new.db")]
    if where == "new file":
        # The new file is no larger than what is put aside on the way: only its own part of the disk is small.
        command[2] = (
            "import resource; from penstock.engine.repair import rescue; was = rescue._Writer.write\n"
            "def write(self):\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY)); return was(self)\n"
            f"rescue._Writer.write = write\n{program}"
        )
    limit = (room, resource.RLIM_INFINITY)
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.stderr
    assert ("new.db: " if where == "new file" else "TMPDIR") in ended.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["shop.db"]


def test_the_run_that_damages_files_finds_nothing_that_was_invented() -> None:
    command = [sys.executable, "-m", "trust.damage", "--rounds", "6", "--seed", "1"]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0 and "nothing was invented" in ended.stdout, ended
