"""Random requests to what stands beside items: refused in DynamoDB's words, never with a server error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_tables import create_table, items, iterator, open_engine, put, shard_id, stream_arn, switch_recovery

from penstock.engine.engine import Engine
from penstock.errors import DynamoDBError, InternalServerError

MEMBERS: dict[str, tuple[str, ...]] = {
    "ListStreams": ("TableName", "Limit", "ExclusiveStartStreamArn"),
    "DescribeStream": ("StreamArn", "Limit", "ExclusiveStartShardId"),
    "GetShardIterator": ("StreamArn", "ShardId", "ShardIteratorType", "SequenceNumber", "Timestamp"),
    "GetRecords": ("ShardIterator", "Limit"),
    "DescribeBackup": ("BackupArn",),
    "ListBackups": ("TableName", "Limit", "TimeRangeLowerBound", "TimeRangeUpperBound", "ExclusiveStartBackupArn"),
    "RestoreTableFromBackup": ("BackupArn", "TargetTableName"),
    "RestoreTableToPointInTime": ("SourceTableName", "SourceTableArn", "TargetTableName", "RestoreDateTime"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_engine() as engine:
        create_table(engine, view="NEW_IMAGE")
        switch_recovery(engine)
        put(engine, "a")
        engine.execute("CreateBackup", {"TableName": "jobs", "BackupName": "backup"})
        yield engine


def likely(engine: Engine) -> list[Any]:
    """Values that are right somewhere."""
    arn = stream_arn(engine)
    backup = engine.execute("ListBackups", {})["BackupSummaries"][0]["BackupArn"]
    place = iterator(engine, arn)
    number = "1" + 19 * "0" + "1"
    return [
        arn,
        backup,
        shard_id(engine, arn),
        place,
        place[:-2] + "A=",
        "jobs",
        "LATEST",
        "AT_SEQUENCE_NUMBER",
        number,
    ]


@settings(max_examples=400)
@given(data=st.data())
def test_no_request_is_answered_with_a_server_error(engine: Engine, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(sorted(MEMBERS)))
    value = st.one_of(
        st.sampled_from(likely(engine)),
        st.text(max_size=60),
        st.integers(),
        st.floats(),
        st.none(),
        st.booleans(),
        st.lists(st.integers(), max_size=2),
    )
    request = data.draw(st.dictionaries(st.sampled_from(MEMBERS[operation]), value))
    try:
        engine.execute(operation, request)
    except DynamoDBError as error:
        assert not isinstance(error, InternalServerError)
    assert list(items(engine)) == ["a"]
