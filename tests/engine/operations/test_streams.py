"""What streams hold: which records, in which order, for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_tables import (
    create_table,
    delete,
    enable_ttl,
    items,
    iterator,
    open_engine,
    pages,
    put,
    records,
    run_all_due,
    stream_arn,
)

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.errors import DynamoDBError, ResourceNotFoundException, TrimmedDataAccessException

DAY = 24 * 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        yield engine


def close(engine: Engine) -> None:
    engine.execute("UpdateTable", {"TableName": "jobs", "StreamSpecification": {"StreamEnabled": False}})


def facts(record: dict[str, Any]) -> tuple[str, Any, Any, Any]:
    body = record["dynamodb"]
    return record["eventName"], body["Keys"], body.get("NewImage"), body.get("OldImage")


@pytest.mark.parametrize("view", ["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_each_view_shows_its_images_of_an_insert_a_change_and_a_removal(engine: Engine, view: str) -> None:
    create_table(engine, view=view)
    put(engine, "a", n={"N": "1"})
    put(engine, "a", n={"N": "2"})
    delete(engine, "a")
    key = {"id": {"S": "a"}}
    one, two = key | {"n": {"N": "1"}}, key | {"n": {"N": "2"}}
    new, old = "NEW" in view, "OLD" in view
    assert [facts(record) for record in records(engine)] == [
        ("INSERT", key, one if new else None, None),
        ("MODIFY", key, two if new else None, one if old else None),
        ("REMOVE", key, None, two if old else None),
    ]
    assert {record["dynamodb"]["StreamViewType"] for record in records(engine)} == {view}


def test_a_record_has_all_of_dynamodbs_members(engine: Engine) -> None:
    create_table(engine, view="NEW_AND_OLD_IMAGES")
    put(engine, "a", text={"S": "xyz"})
    (record,) = records(engine)
    assert len(record["eventID"]) == 32
    assert int(record["eventID"], 16) >= 0
    assert (record["eventVersion"], record["eventSource"], record["awsRegion"]) == ("1.1", "aws:dynamodb", "us-east-1")
    assert "userIdentity" not in record
    body = record["dynamodb"]
    assert body["ApproximateCreationDateTime"] == 1_700_000_000
    assert len(body["SequenceNumber"]) == 21
    assert body["SizeBytes"] == len("ida") + len("idatextxyz")


@pytest.mark.parametrize(
    "again", [{"S": "x"}, {"SS": ["b", "a"]}, {"L": [{"SS": ["b", "a"]}]}], ids=["equal", "set", "nested set"]
)
def test_a_write_that_changes_nothing_leaves_no_record(engine: Engine, again: dict[str, Any]) -> None:
    first = {"S": "x"} if "S" in again else {"SS": ["a", "b"]} if "SS" in again else {"L": [{"SS": ["a", "b"]}]}
    create_table(engine, view="NEW_IMAGE")
    put(engine, "a", value=first)
    put(engine, "a", value=again)
    delete(engine, "not there")
    assert len(records(engine)) == 1


def test_sequence_numbers_grow_and_ids_differ(engine: Engine) -> None:
    create_table(engine, view="KEYS_ONLY")
    create_table(engine, "others", view="KEYS_ONLY")
    for n in range(20):
        put(engine, f"k{n}")
        put(engine, f"k{n}", "others")
    found = records(engine)
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in found]
    assert numbers == sorted(set(numbers))
    assert len({record["eventID"] for record in found + records(engine, "others")}) == 40


def test_a_failed_transaction_leaves_no_record(engine: Engine) -> None:
    create_table(engine, view="KEYS_ONLY")
    writes = [
        {"Put": {"TableName": "jobs", "Item": {"id": {"S": "a"}}}},
        {"Delete": {"TableName": "jobs", "Key": {"id": {"S": "b"}}, "ConditionExpression": "attribute_exists(id)"}},
    ]
    with pytest.raises(DynamoDBError):
        engine.execute("TransactWriteItems", {"TransactItems": writes})
    assert records(engine) == []


def test_every_way_of_writing_is_seen(engine: Engine) -> None:
    create_table(engine, view="KEYS_ONLY")
    put(engine, "put")
    engine.execute("UpdateItem", {"TableName": "jobs", "Key": {"id": {"S": "update"}}})
    batch = {"jobs": [{"PutRequest": {"Item": {"id": {"S": "batch"}}}}]}
    engine.execute("BatchWriteItem", {"RequestItems": batch})
    action = {"Put": {"TableName": "jobs", "Item": {"id": {"S": "transaction"}}}}
    engine.execute("TransactWriteItems", {"TransactItems": [action]})
    names = [record["dynamodb"]["Keys"]["id"]["S"] for record in records(engine)]
    assert names == ["put", "update", "batch", "transaction"]


def test_an_expired_item_is_removed_by_the_service(engine: Engine, clock: ManualClock) -> None:
    create_table(engine, view="OLD_IMAGE")
    enable_ttl(engine)
    put(engine, "a", ends={"N": str(int(clock.now()) + 10)})
    clock.advance(11)
    run_all_due(engine)
    removal = records(engine)[-1]
    assert removal["eventName"] == "REMOVE"
    assert removal["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert removal["dynamodb"]["OldImage"]["id"] == {"S": "a"}


def test_records_are_trimmed_after_a_day(engine: Engine, clock: ManualClock) -> None:
    create_table(engine, view="KEYS_ONLY")
    put(engine, "old")
    clock.advance(DAY / 2)
    put(engine, "new")
    clock.advance(DAY / 2 - 300)
    place = iterator(engine, stream_arn(engine))
    clock.advance(300)
    run_all_due(engine)
    assert [record["dynamodb"]["Keys"]["id"]["S"] for record in records(engine)] == ["new"]
    with pytest.raises(TrimmedDataAccessException):
        engine.execute("GetRecords", {"ShardIterator": place})


def test_numbers_go_on_growing_when_all_records_were_trimmed(engine: Engine, clock: ManualClock) -> None:
    create_table(engine, view="KEYS_ONLY")
    put(engine, "a")
    (before,) = records(engine)
    clock.advance(DAY + 1)
    run_all_due(engine)
    assert records(engine) == []
    put(engine, "b")
    (after,) = records(engine)
    assert after["dynamodb"]["SequenceNumber"] > before["dynamodb"]["SequenceNumber"]


@pytest.mark.parametrize("end", ["disabled", "deleted"])
def test_a_stream_is_read_to_its_end_for_a_day_after_it_was_closed(
    engine: Engine, clock: ManualClock, end: str
) -> None:
    create_table(engine, view="NEW_IMAGE")
    put(engine, "a")
    put(engine, "b")
    arn = stream_arn(engine)
    if end == "disabled":
        close(engine)
        put(engine, "unseen")
    else:
        engine.execute("DeleteTable", {"TableName": "jobs"})
    clock.advance(DAY - 60)
    run_all_due(engine)
    description = engine.execute("DescribeStream", {"StreamArn": arn})["StreamDescription"]
    assert description["StreamStatus"] == "DISABLED"
    assert "EndingSequenceNumber" in description["Shards"][0]["SequenceNumberRange"]
    assert [len(page) for page in pages(engine, iterator(engine, arn))] == [2]
    place = iterator(engine, arn, "LATEST")
    assert engine.execute("GetRecords", {"ShardIterator": place}) == {"Records": []}
    clock.advance(61)
    run_all_due(engine)
    with pytest.raises(ResourceNotFoundException, match="not found"):
        engine.execute("DescribeStream", {"StreamArn": arn})


def test_a_stream_switched_on_again_is_another_stream(engine: Engine) -> None:
    create_table(engine, view="KEYS_ONLY")
    first = stream_arn(engine)
    close(engine)
    specification = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    engine.execute("UpdateTable", {"TableName": "jobs", "StreamSpecification": specification})
    assert stream_arn(engine) != first
    put(engine, "a")
    assert [len(page) for page in pages(engine, iterator(engine, first))] == []
    assert len(records(engine)) == 1


def test_a_forgotten_stream_leaves_at_most_one_row_behind(engine: Engine, clock: ManualClock) -> None:
    for n in range(3):
        create_table(engine, view="NEW_IMAGE")
        put(engine, f"{n}")
        engine.execute("DeleteTable", {"TableName": "jobs"})
        clock.advance(DAY + 1)
        run_all_due(engine)
    with engine.reading() as call:
        assert call.db.execute("SELECT count(*) FROM stream_records").fetchone() == (1,)
        assert call.db.execute("SELECT count(*) FROM streams").fetchone() == (0,)


def statements_of_a_put(engine: Engine, table: str) -> int:
    put(engine, "a", table, n={"N": "1"})
    seen: list[str] = []
    with engine.reading() as call:
        call.db.set_trace_callback(seen.append)
        put(engine, "a", table, n={"N": "2"})
        call.db.set_trace_callback(None)
    return len(seen)


def test_a_stream_costs_a_put_two_statements(engine: Engine) -> None:
    create_table(engine, "plain")
    create_table(engine, "streamed", view="NEW_AND_OLD_IMAGES")
    assert statements_of_a_put(engine, "streamed") <= statements_of_a_put(engine, "plain") + 2


KEYS = st.sampled_from("abc")
STEPS = st.lists(st.tuples(st.sampled_from(["put", "delete"]), KEYS, st.integers(0, 3)), max_size=40)


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_a_stream_replayed_makes_the_table_again(steps: list[tuple[str, str, int]]) -> None:
    with open_engine() as engine:
        create_table(engine, view="NEW_AND_OLD_IMAGES")
        for kind, key, n in steps:
            if kind == "put":
                put(engine, key, n={"N": str(n)})
            else:
                delete(engine, key)
        replayed: dict[str, Any] = {}
        for record in records(engine):
            _, key, new, old = facts(record)
            assert replayed.get(key["id"]["S"]) == old
            replayed[key["id"]["S"]] = new
        assert {key: item for key, item in replayed.items() if item is not None} == items(engine)
