"""ListStreams, DescribeStream, GetShardIterator and GetRecords: pages, iterators and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from watched_tables import create_table, iterator, open_engine, pages, put, records, run_all_due, shard_id, stream_arn

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.engine.settings import Scope
from penstock.errors import (
    DynamoDBError,
    ExpiredIteratorException,
    ResourceNotFoundException,
    TrimmedDataAccessException,
    ValidationException,
)

NO_ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/none/stream/2020-01-01T00:00:00.000"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        create_table(engine, view="NEW_IMAGE")
        yield engine


def test_streams_are_listed_in_pages(engine: Engine) -> None:
    for n in range(4):
        create_table(engine, f"table{n}", view="KEYS_ONLY")
    create_table(engine, "without")
    seen: list[str] = []
    request: dict[str, Any] = {"Limit": 2}
    while True:
        page = engine.execute("ListStreams", request)
        seen += [stream["TableName"] for stream in page["Streams"]]
        if "LastEvaluatedStreamArn" not in page:
            break
        request["ExclusiveStartStreamArn"] = page["LastEvaluatedStreamArn"]
    assert seen == ["jobs", "table0", "table1", "table2", "table3"]


def test_streams_are_listed_by_table(engine: Engine) -> None:
    create_table(engine, "others", view="KEYS_ONLY")
    (stream,) = engine.execute("ListStreams", {"TableName": "others"})["Streams"]
    assert stream["StreamArn"] == stream_arn(engine, "others")
    assert stream["StreamArn"].endswith(f"table/others/stream/{stream['StreamLabel']}")
    assert engine.execute("ListStreams", {"TableName": "unknown"}) == {"Streams": []}


def test_another_accounts_streams_are_not_seen(engine: Engine) -> None:
    other = Scope("111111111111")
    assert engine.execute("ListStreams", {}, other) == {"Streams": []}
    with pytest.raises(ResourceNotFoundException):
        engine.execute("DescribeStream", {"StreamArn": stream_arn(engine)}, other)


def test_a_stream_is_described(engine: Engine) -> None:
    arn = stream_arn(engine)
    description = engine.execute("DescribeStream", {"StreamArn": arn})["StreamDescription"]
    (shard,) = description.pop("Shards")
    assert description == {
        "StreamArn": arn,
        "StreamLabel": arn.rpartition("/")[2],
        "StreamStatus": "ENABLED",
        "StreamViewType": "NEW_IMAGE",
        "CreationRequestDateTime": 1_700_000_000.0,
        "TableName": "jobs",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    }
    assert 28 <= len(shard["ShardId"]) <= 65
    assert list(shard["SequenceNumberRange"]) == ["StartingSequenceNumber"]


def test_shards_come_after_the_exclusive_start(engine: Engine) -> None:
    arn = stream_arn(engine)
    shard = shard_id(engine, arn)

    def after(start: str) -> int:
        request = {"StreamArn": arn, "ExclusiveStartShardId": start, "Limit": 1}
        return len(engine.execute("DescribeStream", request)["StreamDescription"]["Shards"])

    assert after(shard) == 0
    assert after("z" * 30) == 0
    assert after("a" * 30) == 1


def test_the_only_shard_has_no_children(engine: Engine) -> None:
    arn = stream_arn(engine)
    children = {"Type": "CHILD_SHARDS", "ShardId": shard_id(engine, arn)}
    request = {"StreamArn": arn, "ShardFilter": children}
    assert engine.execute("DescribeStream", request)["StreamDescription"]["Shards"] == []


@pytest.mark.parametrize("missing", ["Type", "ShardId"])
def test_a_filter_of_shards_names_its_type_and_a_shard(engine: Engine, missing: str) -> None:
    arn = stream_arn(engine)
    children = {"Type": "CHILD_SHARDS", "ShardId": shard_id(engine, arn)}
    del children[missing]
    with pytest.raises(ValidationException, match=f"{missing} must be specified"):
        engine.execute("DescribeStream", {"StreamArn": arn, "ShardFilter": children})


@pytest.mark.parametrize(("arn", "error"), [("x" * 50, ValidationException), (NO_ARN, ResourceNotFoundException)])
def test_an_arn_of_no_stream_is_refused(engine: Engine, arn: str, error: type[DynamoDBError]) -> None:
    with pytest.raises(error):
        engine.execute("DescribeStream", {"StreamArn": arn})
    request = {"StreamArn": arn, "ShardId": "s" * 30, "ShardIteratorType": "LATEST"}
    with pytest.raises(error):
        engine.execute("GetShardIterator", request)


def names(found: Iterator[list[dict[str, Any]]]) -> list[str]:
    return [record["dynamodb"]["Keys"]["id"]["S"] for page in found for record in page]


def test_iterators_begin_where_their_type_says(engine: Engine, clock: ManualClock) -> None:
    put(engine, "a")
    put(engine, "b")
    clock.advance(10)
    put(engine, "c")
    arn = stream_arn(engine)
    second = records(engine)[1]["dynamodb"]["SequenceNumber"]
    latest = iterator(engine, arn, "LATEST")
    put(engine, "d")
    assert names(pages(engine, iterator(engine, arn, "TRIM_HORIZON"))) == list("abcd")
    assert names(pages(engine, iterator(engine, arn, "AT_SEQUENCE_NUMBER", SequenceNumber=second))) == list("bcd")
    assert names(pages(engine, iterator(engine, arn, "AFTER_SEQUENCE_NUMBER", SequenceNumber=second))) == list("cd")
    assert names(pages(engine, iterator(engine, arn, "AT_TIMESTAMP", Timestamp=clock.now()))) == list("cd")
    assert names(pages(engine, latest)) == ["d"]


def test_the_shards_start_is_a_place_before_there_is_a_record(engine: Engine) -> None:
    arn = stream_arn(engine)
    shards = engine.execute("DescribeStream", {"StreamArn": arn})["StreamDescription"]["Shards"]
    start = shards[0]["SequenceNumberRange"]["StartingSequenceNumber"]
    place = iterator(engine, arn, "AT_SEQUENCE_NUMBER", SequenceNumber=start)
    put(engine, "a")
    assert names(pages(engine, place)) == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER"},
        {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER"},
        {"ShardIteratorType": "AT_TIMESTAMP"},
        {"ShardIteratorType": "LATEST", "SequenceNumber": "1" + 20 * "0"},
        {"ShardIteratorType": "TRIM_HORIZON", "SequenceNumber": "1" + 20 * "0"},
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": "9" * 40},
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": "x" * 21},
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": "1"},
        {"ShardIteratorType": "SOMEWHERE"},
    ],
)
def test_an_iterator_with_the_wrong_parameters_is_refused(engine: Engine, wrong: dict[str, str]) -> None:
    arn = stream_arn(engine)
    with pytest.raises(ValidationException):
        engine.execute("GetShardIterator", {"StreamArn": arn, "ShardId": shard_id(engine, arn), **wrong})


def test_an_unknown_shard_is_not_found(engine: Engine) -> None:
    request = {"StreamArn": stream_arn(engine), "ShardId": "shardId-" + "0" * 29, "ShardIteratorType": "LATEST"}
    with pytest.raises(ResourceNotFoundException):
        engine.execute("GetShardIterator", request)


def test_an_iterator_at_a_trimmed_record_is_refused(engine: Engine, clock: ManualClock) -> None:
    put(engine, "a")
    (record,) = records(engine)
    clock.advance(24 * 3600.0 + 1)
    run_all_due(engine)
    with pytest.raises(TrimmedDataAccessException):
        iterator(
            engine,
            stream_arn(engine),
            "AT_SEQUENCE_NUMBER",
            SequenceNumber=record["dynamodb"]["SequenceNumber"],
        )


def test_an_iterator_lives_for_fifteen_minutes(engine: Engine, clock: ManualClock) -> None:
    place = iterator(engine, stream_arn(engine))
    clock.advance(15 * 60)
    engine.execute("GetRecords", {"ShardIterator": place})
    clock.advance(1)
    with pytest.raises(ExpiredIteratorException):
        engine.execute("GetRecords", {"ShardIterator": place})


@pytest.mark.parametrize("change", ["token", "stream", "empty", "text"])
def test_a_changed_iterator_is_refused(engine: Engine, change: str) -> None:
    create_table(engine, "others", view="NEW_IMAGE")
    arn, mark, token = iterator(engine, stream_arn(engine)).split("|")
    changed = {
        "token": f"{arn}|{mark}|{'B' if token[0] != 'B' else 'C'}{token[1:]}",
        "stream": f"{stream_arn(engine, 'others')}|{mark}|{token}",
        "empty": f"{arn}|{mark}|",
        "text": "sdfsdfsgagaddafgagasgasg",
    }[change]
    with pytest.raises(ValidationException, match="Invalid ShardIterator"):
        engine.execute("GetRecords", {"ShardIterator": changed})


def test_an_iterator_of_one_process_works_in_another(tmp_path: Any) -> None:
    path, clock = str(tmp_path / "file.db"), ManualClock()
    with open_engine(path, clock) as first, open_engine(path, clock) as second:
        create_table(first, view="KEYS_ONLY")
        place = iterator(first, stream_arn(first))
        put(second, "a")
        assert names(pages(second, place)) == ["a"]


def test_pages_hold_at_most_the_limit(engine: Engine) -> None:
    for n in range(7):
        put(engine, f"{n}")
    found = list(pages(engine, iterator(engine, stream_arn(engine)), Limit=3))
    assert [len(page) for page in found] == [3, 3, 1]


def test_pages_hold_at_most_a_megabyte(engine: Engine) -> None:
    for n in range(5):
        put(engine, f"{n}", text={"S": "x" * 390_000})
    found = list(pages(engine, iterator(engine, stream_arn(engine))))
    assert [len(page) for page in found] == [2, 2, 1]


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_limit_out_of_range_is_refused(engine: Engine, limit: int) -> None:
    place = iterator(engine, stream_arn(engine))
    with pytest.raises(ValidationException):
        engine.execute("GetRecords", {"ShardIterator": place, "Limit": limit})
