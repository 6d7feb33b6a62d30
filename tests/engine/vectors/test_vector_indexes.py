"""The life of vector indexes: made, filled, searched, deleted, described, backed up, restored, rescued."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from vector_tables import delete_request, found, put, search, vector, vector_index, vector_table

from penstock.engine import Engine, maintenance
from penstock.engine.items import index_backfill, vector_rows
from penstock.engine.repair.examine import examine
from penstock.engine.repair.rescue import rescue
from penstock.engine.settings import Settings
from penstock.engine.storage.file_format import FORMAT, NEWEST
from penstock.engine.vectors import cache
from penstock.errors import (
    DynamoDBError,
    LimitExceededException,
    ResourceInUseException,
    ResourceNotFoundException,
    ValidationException,
)
from penstock.testing.clock import MovableClock

INVALID = "One or more parameter values were invalid: "


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def create(index: dict[str, Any]) -> dict[str, Any]:
    return {"TableName": "things", "VectorIndexUpdates": [{"Create": index}]}


def delete(name: str) -> dict[str, Any]:
    return delete_request("things", name)


def described(engine: Engine, table: str = "things") -> dict[str, Any]:
    told: dict[str, Any] = engine.execute("DescribeTable", {"TableName": table})["Table"]
    return told


# ── definitions that are refused ──────────────────────────────────────────────────────────────────

_FILTERS = [f"f{number}" for number in range(19)]
CREATION = [
    (
        [vector_index()],
        {"BillingMode": "PROVISIONED", "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}},
        f"{INVALID}Vector indexes are only supported for PAY_PER_REQUEST tables",
    ),
    (
        [vector_index(hash_="tenant")],
        {"AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]},
        f"{INVALID}One element in SearchSchema is not defined in attribute definitions",
    ),
    (
        [vector_index(dimensions=4097)],
        {},
        f"{INVALID}Number of dimensions must be between 1 and 4096 inclusive.",
    ),
    (
        [vector_index(f"vix-{number}") for number in range(6)],
        {},
        f"{INVALID}VectorIndex count exceeds the per-table limit of 5",
    ),
    (
        [vector_index(), vector_index("other", dimensions=4)],
        {},
        f"{INVALID}Conflicting attribute definition for 'embedding'. All VectorIndexes on the same vector attribute "
        "must use the same dimensions.",
    ),
    (
        [vector_index(attribute="kind"), vector_index("other", filters=["kind"])],
        {},
        f"{INVALID}Conflicting attribute definition for 'kind'. An attribute cannot be defined in "
        "AttributeDefinitions when used as a VectorAttribute.",
    ),
    ([], {"VectorIndexes": []}, f"{INVALID}List of VectorIndexes is empty"),
    (
        [vector_index(filters=["kind", "kind"])],
        {},
        f"{INVALID}SearchSchema contains a duplicate AttributeName",
    ),
    ([vector_index(), vector_index()], {}, f"{INVALID}Duplicate index name: near"),
    (
        [vector_index(dimensions=0)],
        {},
        "1 validation error detected: Value '0' at 'vectorIndexes.1.member.dimensions' failed to satisfy constraint: "
        "Member must have value greater than or equal to 1",
    ),
]


@pytest.mark.parametrize(("indexes", "more", "message"), CREATION)
def test_a_wrong_definition_is_refused_in_dynamodbs_words(
    engine: Engine, indexes: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationException) as caught:
        engine.execute("CreateTable", vector_table("things", *indexes) | more)
    assert caught.value.message == message
    assert engine.execute("ListTables", {})["TableNames"] == []


def test_a_search_schema_has_one_hash_and_18_filters(engine: Engine) -> None:
    two = vector_index(hash_="a")
    two["SearchSchema"].append({"AttributeName": "b", "SearchSchemaElementType": "HASH"})
    with pytest.raises(ValidationException, match="Value '2' at 'SearchSchema' failed to satisfy constraint: Member"):
        engine.execute("CreateTable", vector_table("things", two))
    with pytest.raises(ValidationException, match="INLINE_FILTER count less than or equal to 18"):
        engine.execute("CreateTable", vector_table("things", vector_index(filters=_FILTERS)))
    engine.execute("CreateTable", vector_table("things", vector_index(filters=_FILTERS[:18], hash_="h")))


UPDATES = [
    (create(vector_index()), ValidationException, "Attempting to create an index which already exists"),
    (
        delete("nowhere"),
        ResourceNotFoundException,
        "Requested resource not found: Index nowhere for table things",
    ),
    (
        {"TableName": "things", "VectorIndexUpdates": [{}]},
        ValidationException,
        f"{INVALID}One of VectorIndexUpdate.Create, VectorIndexUpdate.Delete must not be null",
    ),
    (
        {
            "TableName": "things",
            "VectorIndexUpdates": [{"Create": vector_index("b12"), "Delete": {"IndexName": "near"}}],
        },
        ValidationException,
        f"{INVALID}Only one vector index action is allowed per VectorIndexUpdate object",
    ),
    (
        {
            "TableName": "things",
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
        },
        ValidationException,
        f"{INVALID}Tables with vector indexes must be in PAY_PER_REQUEST mode",
    ),
    (
        {
            "TableName": "things",
            "VectorIndexUpdates": [{"Create": vector_index("b12")}, {"Create": vector_index("c12")}],
        },
        LimitExceededException,
        "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table",
    ),
    (
        create(vector_index("wide", dimensions=4)),
        ValidationException,
        f"{INVALID}Conflicting attribute definition for 'embedding'. All VectorIndexes on the same vector attribute "
        "must use the same dimensions.",
    ),
]


@pytest.mark.parametrize(("request_", "kind", "message"), UPDATES)
def test_a_wrong_change_is_refused_in_dynamodbs_words(
    engine: Engine, request_: dict[str, Any], kind: type[DynamoDBError], message: str
) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    with pytest.raises(kind) as caught:
        engine.execute("UpdateTable", request_)
    assert caught.value.message == message


def _new_global_index(key: str, kind: str) -> dict[str, Any]:
    index = {
        "IndexName": "by-key",
        "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    return {
        "TableName": "things",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": kind}],
        "GlobalSecondaryIndexUpdates": [{"Create": index}],
    }


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("embedding", "S", "Conflicting attribute definition for 'embedding'"),
        ("kind", "N", "Attributes cannot be redefined. .* Attribute: kind"),
    ],
)
def test_a_global_index_that_no_item_could_be_in_beside_the_vector_index_is_refused(
    engine: Engine, key: str, kind: str, text: str
) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index(filters=["kind"])))
    with pytest.raises(ValidationException, match=text):
        engine.execute("UpdateTable", _new_global_index(key, kind))
    engine.execute("UpdateTable", _new_global_index("kind", "S"))
    engine.execute("UpdateTable", create(vector_index("another")))


# ── phases by the clock ───────────────────────────────────────────────────────────────────────────


def test_an_index_made_with_its_table_is_ready_with_it() -> None:
    clock = MovableClock()
    with Engine(clock=clock, settings=Settings(table_delay_seconds=5)) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index(dimensions=4096)))
        for status in ("CREATING", "ACTIVE"):
            table = described(engine)
            (index,) = table["VectorIndexes"]
            assert table["TableStatus"] == index["IndexStatus"] == status
            assert "Backfilling" not in index
            clock.advance(6)
        assert index["Dimensions"] == 4096 and index["IndexArn"].endswith("/index/near")
        assert index["ItemCount"] == index["IndexSizeBytes"] == 0


@pytest.fixture
def phases() -> Iterator[tuple[Engine, MovableClock]]:
    """A table whose index is being allocated."""
    clock = MovableClock()
    with Engine(clock=clock, settings=Settings(table_delay_seconds=30, index_delay_seconds=100)) as engine:
        engine.execute("CreateTable", vector_table("things"))
        clock.advance(31)
        for number in range(5):
            put(engine, "things", f"k{number}", number, 1, 0)
        answer = engine.execute("UpdateTable", create(vector_index()))["TableDescription"]
        assert answer["TableStatus"] == "UPDATING"
        assert answer["VectorIndexes"][0]["IndexStatus"] == "CREATING"
        yield engine, clock


def _state(engine: Engine) -> tuple[str, str, bool | None]:
    table = described(engine)
    (index,) = table["VectorIndexes"]
    return table["TableStatus"], index["IndexStatus"], index.get("Backfilling")


IN_USE = "Attempt to change a resource which is still in use: "
NOT_NOW = f"{IN_USE}Cannot delete table while indexes are being created, updated, or deleted."


def test_a_new_index_is_allocated_filled_and_ready(phases: tuple[Engine, MovableClock]) -> None:
    engine, clock = phases
    assert _state(engine) == ("UPDATING", "CREATING", False)
    with pytest.raises(ValidationException, match=r"^The table does not have the specified index: near$"):
        search(engine, "things", 1, 1, 0)
    with pytest.raises(ResourceInUseException) as caught:
        engine.execute("UpdateTable", delete("near"))
    assert caught.value.message == (
        f"{IN_USE}Index creation is in resource allocation phase. Retry deletion during backfilling phase or when "
        "the index is active. Table: things Index: near"
    )
    clock.advance(31)
    assert _state(engine) == ("ACTIVE", "CREATING", True)
    with pytest.raises(ValidationException, match=r"^Cannot search backfilling vector index: near$"):
        search(engine, "things", 1, 1, 0)
    with pytest.raises(ResourceInUseException) as caught:
        engine.execute("DeleteTable", {"TableName": "things"})
    assert caught.value.message == NOT_NOW
    with pytest.raises(LimitExceededException, match="Only 1 online index"):
        engine.execute("UpdateTable", create(vector_index("another")))
    put(engine, "things", "late", 1, 1, 0)
    clock.advance(100)
    assert _state(engine) == ("ACTIVE", "ACTIVE", None)
    assert len(found(engine, "things", 1, 1, 0)) == 6
    engine.execute("DeleteTable", {"TableName": "things"})


def test_an_index_that_is_being_filled_can_be_given_up(phases: tuple[Engine, MovableClock]) -> None:
    engine, clock = phases
    clock.advance(31)
    engine.execute("UpdateTable", delete("near"))
    assert described(engine)["VectorIndexes"][0]["IndexStatus"] == "DELETING"
    clock.advance(31)
    assert "VectorIndexes" not in described(engine)
    engine.execute("DeleteTable", {"TableName": "things"})


def test_a_global_index_and_a_vector_index_are_not_made_at_once(phases: tuple[Engine, MovableClock]) -> None:
    engine, clock = phases
    clock.advance(31)
    request = {
        "TableName": "things",
        "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
        "GlobalSecondaryIndexUpdates": [
            {
                "Create": {
                    "IndexName": "by-k",
                    "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            }
        ],
    }
    with pytest.raises(LimitExceededException, match="Only 1 online index"):
        engine.execute("UpdateTable", request)


def test_a_deleted_index_can_be_made_again_with_another_shape(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index()))
    put(engine, "things", "a", 1, 0, 0)
    assert found(engine, "things", 1, 0, 0) == ["a"]
    engine.execute("UpdateTable", delete("near"))
    with pytest.raises(ValidationException, match="does not have the specified index"):
        search(engine, "things", 1, 0, 0)
    put(engine, "things", "b", 1, 0)
    engine.execute("UpdateTable", create(vector_index(dimensions=2, function="EUCLIDEAN")))
    assert found(engine, "things", 1, 0) == ["b"], "what does not fit was passed over"
    assert described(engine)["VectorIndexes"][0]["ItemCount"] == 1


def test_a_large_table_is_filled_in_the_background(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_backfill, "FILL_AT_ONCE", 10)
    monkeypatch.setattr(index_backfill, "FILL_STEP", 7)
    engine.execute("CreateTable", vector_table("things"))
    for number in range(40):
        put(engine, "things", f"k{number:02}", 1, number, 0)
    put(engine, "things", "odd", kind={"S": "no vector"})
    engine.execute("UpdateTable", create(vector_index()))
    engine.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": "k39"}}})
    while index_backfill.fill_indexes(engine) is not None:
        pass
    assert set(found(engine, "things", 1, 0, 0, top=100)) == {f"k{number:02}" for number in range(39)}


# ── the matrix follows the file ───────────────────────────────────────────────────────────────────


def test_a_search_reads_what_has_changed_and_nothing_else(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = cache.CachedIndex._take

    def counted(self: cache.CachedIndex, rows: list[Any]) -> None:
        taken.append(len(rows))
        take(self, rows)

    monkeypatch.setattr(cache.CachedIndex, "_take", counted)
    engine.execute("CreateTable", vector_table("things", vector_index(filters=["kind"])))
    for number in range(50):
        put(engine, "things", f"k{number}", 1, number, 0)
    found(engine, "things", 1, 0, 0)
    found(engine, "things", 1, 0, 0)
    put(engine, "things", "k3", 1, 0, 0, note={"S": "the vector stays as it was"})
    put(engine, "things", "k7", 0, 0, 1)
    engine.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": "k9"}}})
    put(engine, "things", "k7", 0, 0, 1, note={"S": "only the rest"})
    found(engine, "things", 1, 0, 0)
    assert taken == [50, 3]


def test_two_processes_on_one_file_see_each_others_vectors(path: str) -> None:
    """Two engines stand for two processes: they share nothing but the file."""
    with Engine(path) as one, Engine(path) as other:
        one.execute("CreateTable", vector_table("things", vector_index(filters=["kind"])))
        for number in range(20):
            put(one, "things", f"k{number}", 1, number, 0, kind={"S": "a"})
        assert found(other, "things", 1, 0, 0, top=1) == ["k0"]
        put(one, "things", "k0", 0, 0, 1, kind={"S": "a"})
        assert found(other, "things", 1, 0, 0, top=1) == ["k1"]
        other.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": "k1"}}})
        put(other, "things", "new", 1, 0, 0, kind={"S": "b"})
        assert found(one, "things", 1, 0, 0, top=2) == ["new", "k2"]
        where = {"SearchConditionExpression": "kind = :k", "ExpressionAttributeValues": {":k": {"S": "b"}}}
        assert found(one, "things", 1, 0, 0, **where) == found(other, "things", 1, 0, 0, **where) == ["new"]
        one.execute("UpdateTable", delete("near"))
        with pytest.raises(ValidationException, match="does not have the specified index"):
            search(other, "things", 1, 0, 0)


def test_rows_of_items_that_are_gone_are_swept_and_others_notice(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_rows, "_MANY", 10)
    with Engine(path) as one, Engine(path) as other:
        one.execute("CreateTable", vector_table("things", vector_index()))
        for number in range(30):
            put(one, "things", f"k{number:02}", 1, number, 0)
        assert len(found(other, "things", 1, 0, 0, top=100)) == 30
        for number in range(25):
            one.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": f"k{number:02}"}}})
        vector_rows.sweep_removed_rows(one)
        with one.reading() as context:
            (rows,) = context.db.execute("SELECT count(*) FROM t1_i0").fetchone()
        assert rows == 5 + 1
        assert found(other, "things", 1, 0, 0, top=100) == [f"k{number}" for number in range(25, 30)]
        assert found(one, "things", 1, 0, 0, top=100) == [f"k{number}" for number in range(25, 30)]


def test_matrices_take_no_more_memory_than_they_may(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.execute("CreateTable", vector_table("things", *(vector_index(f"near{number}") for number in range(4))))
    for number in range(20):
        put(engine, "things", f"k{number}", 1, number, 0)
    expected = found(engine, "things", 1, 0, 0, index="near0")
    kept = cache._CACHES[engine]
    monkeypatch.setattr(cache, "MOST_BYTES", 2 * sum(one.memory for one in kept.values()))
    for _ in range(2):
        for number in range(4):
            assert found(engine, "things", 1, 0, 0, index=f"near{number}") == expected
            assert len(kept) <= 2


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def version(path: str) -> int:
    db = sqlite3.connect(path)
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    return found


def test_the_file_gets_the_newest_format_with_its_first_vector_index(path: str) -> None:
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("plain"))
    assert version(path) == FORMAT, "an older program can still open it"
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("things"))
        engine.execute("UpdateTable", create(vector_index()))
    assert version(path) == NEWEST
    with Engine(path) as engine:
        assert described(engine)["VectorIndexes"]


def test_vectors_are_little_endian_numbers_of_32_bits_in_the_file(path: str) -> None:
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index()))
        put(engine, "things", "a", 1, -2, "0.5")
    db = sqlite3.connect(path)
    assert db.execute("SELECT vector FROM t1_i0").fetchone() == (bytes.fromhex("0000803f000000c00000003f"),)
    db.close()


def test_a_file_is_examined_and_rescued_with_its_vector_indexes(path: str, tmp_path: Path) -> None:
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index(filters=["kind"])))
        for number in range(10):
            put(engine, "things", f"k{number}", 1, number, 0, kind={"S": "a"})
    assert examine(path).sound
    saved = tmp_path / "rescued.db"
    rescue(path, str(saved))
    with Engine(str(saved)) as engine:
        where = {"SearchConditionExpression": "kind = :k", "ExpressionAttributeValues": {":k": {"S": "a"}}}
        assert found(engine, "things", 1, 0, 0, top=3, **where) == ["k0", "k1", "k2"]
        put(engine, "things", "k0", 0, 0, 1, kind={"S": "a"})
        assert found(engine, "things", 1, 0, 0, top=2) == ["k1", "k2"]


# ── backups ───────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_knows_vector_indexes_and_a_restore_makes_them(engine: Engine) -> None:
    engine.execute("CreateTable", vector_table("things", vector_index(filters=["kind"]), vector_index("other")))
    for number in range(5):
        put(engine, "things", f"k{number}", 1, number, 0, kind={"S": "a"})
    backup = engine.execute("CreateBackup", {"TableName": "things", "BackupName": "saved"})["BackupDetails"]
    arn = {"BackupArn": backup["BackupArn"]}
    features = engine.execute("DescribeBackup", arn)["BackupDescription"]["SourceTableFeatureDetails"]
    assert [one["IndexName"] for one in features["VectorIndexes"]] == ["near", "other"]
    engine.execute("RestoreTableFromBackup", {"TargetTableName": "all", **arn})
    for index in ("near", "other"):
        assert found(engine, "all", 1, 0, 0, index=index) == [f"k{number}" for number in range(5)]
    one = vector_index("renamed", filters=["kind"])
    engine.execute("RestoreTableFromBackup", {"TargetTableName": "some", "VectorIndexOverride": [one], **arn})
    assert [index["IndexName"] for index in described(engine, "some")["VectorIndexes"]] == ["renamed"]
    assert found(engine, "some", 1, 0, 0, index="renamed", top=1) == ["k0"]
    engine.execute("RestoreTableFromBackup", {"TargetTableName": "none", "VectorIndexOverride": [], **arn})
    assert "VectorIndexes" not in described(engine, "none")
    with pytest.raises(ValidationException, match="Index fresh does not match"):
        override = {"VectorIndexOverride": [vector_index("fresh", dimensions=4)]}
        engine.execute("RestoreTableFromBackup", {"TargetTableName": "bad", **override, **arn})
    with pytest.raises(ValidationException, match="Duplicate index name: near"):
        override = {"VectorIndexOverride": [vector_index("near"), vector_index("near", filters=["kind"])]}
        engine.execute("RestoreTableFromBackup", {"TargetTableName": "bad", **override, **arn})


def test_a_restore_to_a_moment_has_the_vectors_of_that_moment() -> None:
    clock = MovableClock()
    with Engine(clock=clock) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index()))
        on = {"PointInTimeRecoveryEnabled": True}
        engine.execute("UpdateContinuousBackups", {"TableName": "things", "PointInTimeRecoverySpecification": on})
        put(engine, "things", "a", 1, 0, 0)
        clock.advance(10)
        moment = clock.now()
        clock.advance(10)
        put(engine, "things", "a", 0, 1, 0)
        put(engine, "things", "b", 1, 0, 0)
        request = {"SourceTableName": "things", "TargetTableName": "then", "RestoreDateTime": moment}
        engine.execute("RestoreTableToPointInTime", request)
        (one,) = search(engine, "then", 1, 0, 0)["SearchResults"]
        assert (one["Item"]["pk"]["S"], one["Score"]) == ("a", 0.0)


# ── crashes ───────────────────────────────────────────────────────────────────────────────────────

_WRITER = """
import sys, random
sys.path.insert(0, sys.argv[2])
from vector_tables import put, vector_index, create_request, delete_request
from penstock.engine import Engine, maintenance
from penstock.engine.items import index_backfill
index_backfill.FILL_AT_ONCE, index_backfill.FILL_STEP = 10, 5
maintenance.AT_ONCE_ROWS, maintenance.MOST_ROWS = 10, 2
chance = random.Random(int(sys.argv[3]))
with Engine(sys.argv[1]) as engine:
    if sys.argv[4] == "fill":
        engine.execute("UpdateTable", create_request("things", vector_index("later")))
    if sys.argv[4] == "drop":
        engine.execute("UpdateTable", delete_request("things", "near"))
    print("ready", flush=True)
    while True:
        key = f"k{chance.randrange(80):02}"
        if chance.random() < 0.3:
            engine.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": key}}})
        else:
            put(engine, "things", key, chance.random(), chance.random(), 1, kind={"S": "a"})
"""


@pytest.mark.parametrize("what", ["write", "fill", "drop"])
@pytest.mark.parametrize("seed", range(3))
def test_an_index_agrees_with_its_table_after_a_kill(path: str, what: str, seed: int) -> None:
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index(filters=["kind"])))
        for number in range(60):
            put(engine, "things", f"k{number:02}", 1, number, 0)
    command = [sys.executable, "-c", _WRITER, path, str(Path(__file__).parent.parent), str(seed), what]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    try:
        process.wait(0.05 + seed * 0.1)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with Engine(path) as engine:
        if what == "drop":
            while maintenance.sweep_garbage(engine) is not None:
                pass
            with engine.reading() as context:
                tables = context.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            assert [name for (name,) in tables if "t1_i" in name] == []
            assert "VectorIndexes" not in described(engine)
            engine.execute("UpdateTable", create(vector_index()))
        while index_backfill.fill_indexes(engine) is not None:
            pass
        items = {one["pk"]["S"]: one for one in engine.execute("Scan", {"TableName": "things"})["Items"]}
        for index in ("near", "later") if what == "fill" else ("near",):
            results = search(
                engine, "things", 1, 1, 1, index=index, top=100, ProjectionExpression="pk, embedding, kind"
            )["SearchResults"]
            got = {one["Item"]["pk"]["S"]: one["Item"] for one in results}
            assert got.keys() == items.keys()
            for key, item in got.items():
                assert item.get("kind") == items[key].get("kind")
                kept = [float(one["N"]) for one in item["embedding"]["L"]]
                assert kept == pytest.approx([float(one["N"]) for one in items[key]["embedding"]["L"]], rel=1e-6)


def test_a_vector_that_is_no_list_is_shown_by_the_table_as_it_is(engine: Engine) -> None:
    """What was there before the index, and does not fit, stays readable and can be mended."""
    engine.execute("CreateTable", vector_table("things"))
    engine.execute("PutItem", {"TableName": "things", "Item": {"pk": {"S": "a"}, "embedding": {"S": "text"}}})
    engine.execute("UpdateTable", create(vector_index()))
    assert found(engine, "things", 1, 0, 0) == []
    request = {"TableName": "things", "Key": {"pk": {"S": "a"}}, "UpdateExpression": "SET n = :n"}
    engine.execute("UpdateItem", request | {"ExpressionAttributeValues": {":n": {"N": "1"}}})
    request["UpdateExpression"] = "SET embedding = :v"
    engine.execute("UpdateItem", request | {"ExpressionAttributeValues": {":v": vector(1, 0, 0)}})
    assert found(engine, "things", 1, 0, 0) == ["a"]
