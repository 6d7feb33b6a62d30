"""Requests of DynamoDB Streams."""

from __future__ import annotations

from penstock.engine.requests.common import INDEX_NAME
from penstock.engine.requests.shapes import Enum, Integer, String, Timestamp
from penstock.engine.requests.structures import Request, Required, Structure

_STREAM_ARN = String(37, 1024)
_SHARD_ID = String(28, 65)

DESCRIBE_STREAM = Structure(
    "DescribeStreamInput",
    StreamArn=Required(_STREAM_ARN),
    Limit=Integer(1, 100),
    ExclusiveStartShardId=_SHARD_ID,
    ShardFilter=Structure("ShardFilter", Type=Enum("CHILD_SHARDS"), ShardId=_SHARD_ID),
)
GET_SHARD_ITERATOR = Structure(
    "GetShardIteratorInput",
    StreamArn=Required(_STREAM_ARN),
    ShardId=Required(_SHARD_ID),
    ShardIteratorType=Required(
        Enum("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP")
    ),
    SequenceNumber=String(21, 40),
    Timestamp=Timestamp(),
)

REQUESTS = {
    "ListStreams": Request(
        Structure(
            "ListStreamsInput",
            TableName=INDEX_NAME,
            Limit=Integer(1, 100),
            ExclusiveStartStreamArn=_STREAM_ARN,
        )
    ),
    "DescribeStream": Request(DESCRIBE_STREAM),
    "GetShardIterator": Request(GET_SHARD_ITERATOR),
    "GetRecords": Request(
        Structure("GetRecordsInput", ShardIterator=Required(String(1, 2048)), Limit=Integer(1, 1000))
    ),
}
