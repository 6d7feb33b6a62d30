"""S4.3–7: the two tables in both layouts, the record model and the user model."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from accounts_world import LAYOUTS, model, new_database, record, stored
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.database import Database
from penstock.client.items.values import InvalidValue
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.models.record import SHARDS, RecordMissing, RecordModel, pending_shard
from penstock.systems.account_records.models.user import UserMissing, UserModel
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.schema_variants import SchemaVariant


@pytest.fixture(params=[(layout, place) for layout in LAYOUTS for place in ("embedded", "http")], ids="-".join)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    layout, place = request.param
    with new_database(layout, place) as db:
        yield db


@pytest.fixture
def records(db: Database) -> RecordModel:
    return model(db)


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S4_3_create_tables_makes_users_and_records_once(layout: SchemaVariant) -> None:
    with new_database(layout) as db:
        assert db.tables() == ["Records", "Users"]
        assert create_tables(db, Config(), layout) == ()
        assert create_tables(db, Config(user_table="People", record_table="Runs"), layout) == ("People", "Runs")
        keys = {name: [part["AttributeName"] for part in _described(db, name)["KeySchema"]] for name in db.tables()}
    assert keys == {
        "People": ["pk", "sk"],
        "Users": ["pk", "sk"],
        "Records": ["AccountId", "RunTime"],
        "Runs": ["AccountId", "RunTime"],
    }


def test_S4_4_the_index_processed_is_a_number_in_compat() -> None:
    with new_database("compat") as db:
        described = _described(db, "Records")
    (index,) = described["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["KeySchema"]) == (
        "Processed",
        [{"AttributeName": "Processed", "KeyType": "HASH"}],
    )
    assert {"AttributeName": "Processed", "AttributeType": "N"} in described["AttributeDefinitions"]


def _described(db: Database, table: str) -> dict[str, Any]:
    found: dict[str, Any] = db.execute("DescribeTable", {"TableName": table})["Table"]
    return found


def test_S4_5_a_record_has_a_document_and_further_fields(records: RecordModel) -> None:
    written = record(1, amount=Decimal("12.50"), pages=[1, {"n": 2}], tags={"a", "b"}, note=None)
    assert records.put_item(written) == written
    assert records.get_item("ACC12345", written["RunTime"]) == written, "and nothing that the layout keeps"
    (shown,) = records.query_unprocessed()
    assert shown == written


# ── the record model ─────────────────────────────────────────────────────────────────────────────


def test_S4_6_put_get_delete(records: RecordModel) -> None:
    assert records.get_item("ACC12345", "2026") is None
    written = records.put_item({"AccountId": "ACC12345", "RunTime": "2026"})
    assert written == {"AccountId": "ACC12345", "RunTime": "2026", "Processed": 0}
    assert records.delete_item("ACC12345", "2026") == written
    assert records.delete_item("ACC12345", "2026") is None
    assert list(records.query_unprocessed()) == []


def test_S4_6_marking_moves_a_record_from_one_query_to_the_other(records: RecordModel) -> None:
    for number in range(3):
        records.put_item(record(number))
    marked = records.mark_as_processed("ACC12345", record(1)["RunTime"])
    assert marked == record(1, Processed=1)
    assert records.mark_as_processed("ACC12345", record(1)["RunTime"]) == marked, "again is the same"
    assert list(records.query_processed()) == [marked]
    unprocessed = sorted(one["DocumentId"] for one in records.query_unprocessed())
    assert unprocessed == ["DOC00000", "DOC00002"]


def test_S4_6_marking_what_is_not_there_makes_no_ghost(records: RecordModel) -> None:
    with pytest.raises(RecordMissing, match="There is no record of 'ACC12345' at '2026'"):
        records.mark_as_processed("ACC12345", "2026")
    assert stored(records.db) == []


def test_S4_6_a_record_that_is_put_again_is_to_be_done_again(records: RecordModel) -> None:
    records.put_item(record(1, Processed=1))
    assert [len(list(query)) for query in (records.query_unprocessed(), records.query_processed())] == [0, 1]
    records.put_item(record(1))
    assert [len(list(query)) for query in (records.query_unprocessed(), records.query_processed())] == [1, 0]


def test_S4_6_every_query_reads_on_past_a_page(records: RecordModel) -> None:
    """300 records of 10 KB are three pages of 1 MB."""
    for number in range(300):
        records.put_item(record(number, text="x" * 10_000))
    assert len(list(records.query_unprocessed())) == 300
    assert len(list(records.query_by_account("ACC12345"))) == 300
    assert len(list(records.query_unprocessed(limit=120))) == 120
    for number in range(150, 300):
        records.mark_as_processed("ACC12345", record(number)["RunTime"])
    assert len(list(records.query_processed())) == 150
    assert len(list(records.query_unprocessed())) == 150


def test_S4_6_an_account_is_read_in_the_order_of_its_times(records: RecordModel) -> None:
    for number in (5, 1, 3, 2, 4):
        records.put_item(record(number))
        records.put_item(record(number, account="ACC99999"))
    found = [one["DocumentId"][-1] for one in records.query_by_account("ACC12345")]
    assert found == ["1", "2", "3", "4", "5"]
    newest = records.query_by_account("ACC12345", newest_first=True, limit=2, since=record(2)["RunTime"])
    assert [one["DocumentId"][-1] for one in newest] == ["5", "4"]


def test_S4_6_since_leaves_out_what_is_older(records: RecordModel) -> None:
    for number in range(10):
        records.put_item(record(number, Processed=number % 2))
    unprocessed = records.query_unprocessed(since=record(4)["RunTime"])
    processed = records.query_processed(since=record(4)["RunTime"])
    assert sorted(int(one["DocumentId"][-1]) for one in unprocessed) == [4, 6, 8]
    assert sorted(int(one["DocumentId"][-1]) for one in processed) == [5, 7, 9]


def test_S4_6_in_the_safe_layout_what_is_to_be_done_comes_oldest_first() -> None:
    with new_database("safe") as db:
        records = model(db)
        for number in range(100):
            records.put_item(record((number * 37) % 100, account=f"ACC{number % 7}"))
        found = [one["RunTime"] for one in records.query_unprocessed()]
        assert found == sorted(found)
        assert [one["RunTime"] for one in records.query_unprocessed(limit=7)] == found[:7]
        assert len({pending_shard(one) for one in records.query_unprocessed()}) == SHARDS, "over all shards"


def test_S4_6_in_the_safe_layout_the_pending_index_has_nothing_that_is_done() -> None:
    with new_database("safe") as db:
        records = model(db)
        for number in range(20):
            records.put_item(record(number))
        for number in range(15):
            records.mark_as_processed("ACC12345", record(number)["RunTime"])
        assert sum(1 for _ in db.table("Records").scan(index="Pending")) == 5
        assert sum(1 for _ in db.table("Records").scan(index="Processed")) == 15


def test_S4_6_the_layout_is_asked_of_the_table() -> None:
    for layout in LAYOUTS:
        with new_database(layout) as db:
            assert model(db).layout == layout
            assert RecordModel(db, table="Records", layout="compat").layout == "compat"
    with new_database() as db, pytest.raises(ValueError, match="There is no layout 'wild'"):
        RecordModel(db, layout="wild")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"RunTime": "2026"}, "AccountId: a record has it"),
        ({"AccountId": "", "RunTime": "2026"}, "AccountId: a record has it"),
        ({"AccountId": "a", "RunTime": 2026}, "RunTime: a record has it, a text"),
        ({"AccountId": "a", "RunTime": "2026", "Processed": 2}, "Processed: it is 0"),
        ({"AccountId": "a", "RunTime": "2026", "Processed": "0"}, "Processed: it is 0"),
        ({"AccountId": "a", "RunTime": "2026", "Processed": True}, "Processed: it is 0"),
        ({"AccountId": "a", "RunTime": "2026", "Processed": None}, "Processed: it is 0"),
        ({"AccountId": "a", "RunTime": "2026", "Pending#shard": "01"}, "Pending#shard: the model keeps"),
        ({"AccountId": "a", "RunTime": "2026", "_penstock": "x"}, "_penstock: the model keeps"),
        ({"AccountId": "a", "RunTime": "2026", "n": [float("inf")]}, r"n\[0\]: "),
        ({"AccountId": "a" * 3000, "RunTime": "2026"}, "AccountId: "),
        ({"AccountId": "a", "RunTime": "2026", "text": "x" * 410_000}, "text: the item has"),
    ],
)
def test_S4_6_what_is_no_record_is_refused_with_its_path(form: dict[str, Any], told: str) -> None:
    for layout in LAYOUTS:
        with new_database(layout) as db:
            with pytest.raises(InvalidValue, match=f"^{told}"):
                model(db).put_item(form)
            assert stored(db) == []


COMMANDS = st.lists(
    st.tuples(st.sampled_from(["put", "mark", "delete"]), st.integers(0, 5), st.integers(0, 1)), max_size=25
)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40)
@given(commands=COMMANDS)
def test_S4_6_the_model_is_a_dict_whatever_is_done_to_it(
    layout: SchemaVariant, commands: list[tuple[str, int, int]]
) -> None:
    expected: dict[int, int] = {}
    with new_database(layout) as db:
        records = model(db)
        for command, number, state in commands:
            time = record(number)["RunTime"]
            if command == "put":
                records.put_item(record(number, Processed=state))
                expected[number] = state
            elif command == "delete":
                assert (records.delete_item("ACC12345", time) is None) == (expected.pop(number, None) is None)
            elif number in expected:
                records.mark_as_processed("ACC12345", time)
                expected[number] = 1
            else:
                with pytest.raises(RecordMissing):
                    records.mark_as_processed("ACC12345", time)
        for state, query in ((0, records.query_unprocessed()), (1, records.query_processed())):
            found = sorted(int(one["DocumentId"][3:]) for one in query)
            assert found == sorted(number for number, there in expected.items() if there == state)


# ── the user model ───────────────────────────────────────────────────────────────────────────────


def test_S4_7_a_user_is_kept_under_its_id(db: Database) -> None:
    users = UserModel(db, table="Users")
    ada = {"id": "123", "name": "Ada", "email": "ada@example.org"}
    assert users.get_item("123") is None
    assert users.put_item(ada) == ada
    assert db.table("Users").get({"pk": "USER#123", "sk": "PROFILE"}) == {**ada, "pk": "USER#123", "sk": "PROFILE"}
    assert users.get_item("123", consistent=True) == ada
    assert users.update_item("123", {"name": "Ada Lovelace"}) == {**ada, "name": "Ada Lovelace"}
    assert users.delete_item("123") == {**ada, "name": "Ada Lovelace"}
    assert users.delete_item("123") is None


def test_S4_7_a_user_that_is_not_there_is_not_made_by_a_change(db: Database) -> None:
    users = UserModel(db, table="Users")
    with pytest.raises(UserMissing, match="There is no user '123'"):
        users.update_item("123", {"name": "Ada"})
    assert users.get_item("123") is None


@pytest.mark.parametrize("user_id", ["", "a#b", "#", None, 7])
def test_S4_7_what_is_no_id_is_refused(user_id: Any) -> None:
    with new_database() as db:
        users = UserModel(db, table="Users")
        with pytest.raises(InvalidValue, match="id: a user's id is a text"):
            users.put_item({"id": user_id})
        with pytest.raises(InvalidValue):
            users.get_item(user_id)


def test_S4_7_the_key_is_the_models_own() -> None:
    with new_database() as db:
        users = UserModel(db, table="Users")
        with pytest.raises(InvalidValue, match="pk: the model makes"):
            users.put_item({"id": "1", "pk": "USER#2"})
        users.put_item({"id": "1"})
        for name in ("pk", "sk", "id"):
            with pytest.raises(InvalidValue, match="cannot be changed"):
                users.update_item("1", {name: "2"})
