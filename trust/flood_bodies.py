"""Bodies that are made to hurt: small when packed, and up to 16 MB, or millions of values, when they are not.

Each is sent once, packed with gzip. None may kill the server, make it large, or keep the others waiting for longer than
the longest legal body does.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Iterator
from typing import Final

from trust.flood_attacks import MEGABYTE, TABLE, answer, connected, head

LIMIT: Final = 16 * MEGABYTE
_NAME: Final = b'{"TableName":"' + TABLE.encode() + b'",'
_ITEM: Final = _NAME + b'"Item":{"pk":{"S":"hostile"},"sk":{"N":"1"},"l":'
_KEY: Final = _NAME + b'"Key":{"pk":{"S":"hostile"},"sk":{"N":"1"}},'

_REPEATED: Final = (
    # operation, before, what is repeated until it is 16 MB, after
    ("PutItem", b"", b"[", b""),
    ("PutItem", b"", b'{"a":', b""),
    ("PutItem", b"[" * 2_000_001 + b'"', b'\\"', b""),
    ("PutItem", b'"', b"\\", b""),
    ("PutItem", b"[", b'"",', b'""]'),
    ("PutItem", b"[", b"{},", b"{}]"),
    ("PutItem", b"[", b"[],", b"[]]"),
    ("PutItem", b"[", b"1,", b"1]"),
    ("PutItem", b"", b" ", b"{}"),
    ("PutItem", b"", b"9", b""),
    ("PutItem", b'{"a":"', b"\\ud800", b'"}'),
    ("PutItem", b'{"a":"', b"\xff", b'"}'),
    ("PutItem", b"{", b'"a":1,', b'"a":1}'),
    ("PutItem", _ITEM + b'{"L":[', b'{"L":[]},', b'{"L":[]}]}}}'),
    ("PutItem", _ITEM + b'{"L":[', b'{"N":"1"},', b'{"N":"1"}]}}}'),
    ("PutItem", _ITEM + b'{"L":[', b'{"S":1},', b'{"S":1}]}}}'),
    ("PutItem", _ITEM, b'{"L":[', b""),
    ("PutItem", _ITEM + b'{"SS":[', b'"a",', b'"a"]}}}'),
    ("PutItem", _ITEM + b'{"N":"', b"9", b'"}}}'),
    ("PutItem", _ITEM + b'{"B":"', b"A", b'"}}}'),
    ("PutItem", _ITEM + b'{"S":"x"}},"ConditionExpression":"', b"(", b'"}'),
    ("PutItem", _ITEM + b'{"S":"x"}},"ConditionExpression":"', b"a AND ", b'a"}'),
    ("UpdateItem", _KEY + b'"UpdateExpression":"SET ', b"#", b'"}'),
    ("UpdateItem", _KEY + b'"UpdateExpression":"SET a=', b"a+", b'a"}'),
    ("GetItem", _KEY + b'"AttributesToGet":[', b'"a",', b'"a"]}'),
    ("GetItem", _KEY + b'"ProjectionExpression":"a', b"[0]", b'"}'),
    ("Query", _NAME + b'"KeyConditionExpression":"', b" ", b'"}'),
    ("BatchWriteItem", b'{"RequestItems":{"' + TABLE.encode() + b'":[', b"{},", b"{}]}}"),
    ("BatchGetItem", b'{"RequestItems":{"' + TABLE.encode() + b'":{"Keys":[', b"{},", b"{}]}}}"),
    ("TransactWriteItems", b'{"TransactItems":[', b"{},", b"{}]}"),
    ("TransactWriteItems", b'{"TransactItems":[', b'{"Put":{}},', b"{}]}"),
    ("TransactWriteItems", b'{"TransactItems":[', b'{"Put":{"TableName":"flood","Item":{}}},', b"{}]}"),
    ("TagResource", b'{"ResourceArn":"', b":", b'","Tags":[]}'),
    ("TagResource", b'{"ResourceArn":"a:","Tags":[', b'{"Key":"a","Value":"b"},', b"{}]}"),
    ("DescribeTable", b'{"TableName":"', b"arn:", b'"}'),
    ("CreateTable", _NAME + b'"KeySchema":[', b"{},", b"{}]}"),
    ("PutResourcePolicy", b'{"ResourceArn":"a:","Policy":"', b"{", b'"}'),
    ("ExecuteStatement", b'{"Statement":"', b"(", b'"}'),
    ("ExecuteStatement", b'{"Statement":"SELECT * FROM flood WHERE ', b"a=1 OR ", b'a=1"}'),
    ("ExecuteStatement", b'{"Statement":"SELECT * FROM flood","Parameters":[', b'{"N":"1"},', b"{}]}"),
)


def _numbered(before: bytes, one: bytes, after: bytes) -> bytes:
    """As many as fit, each with a number of its own."""
    count = (LIMIT - len(before) - len(after)) // (len(one) + 6)
    return before + b",".join(one % number for number in range(1_000_000, 1_000_000 + count)) + after


def bodies() -> Iterator[tuple[str, bytes]]:
    """An operation and a body, one after another: all at once would be half a gigabyte."""
    for operation, before, repeated, after in _REPEATED:
        count = (LIMIT - len(before) - len(after)) // len(repeated)
        yield operation, before + repeated * count + after
    yield "PutItem", _numbered(_ITEM[:-4], b'"%d":{"S":""}', b"}}")
    yield "PutItem", _numbered(_ITEM + b'{"NS":[', b'"%d"', b"]}}}")
    yield "PutItem", _numbered(_NAME + b'"Item":{},"ExpressionAttributeNames":{', b'"#%d":"a"', b"}}")
    yield "UpdateItem", _numbered(_KEY + b'"ExpressionAttributeValues":{', b'":%d":{"S":""}', b"}}")
    yield "Scan", _numbered(_NAME + b'"ScanFilter":{', b'"%d":{"ComparisonOperator":"NULL"}', b"}}")


def packed_requests() -> Iterator[bytes]:
    for operation, body in bodies():
        yield _packed(operation, gzip.compress(body, 1), b"gzip")
    yield _packed("GetItem", zlib.compress(b" " * (100 * LIMIT), 9), b"deflate")
    yield _packed("GetItem", gzip.compress(b"") * 50_000, b"gzip")
    yield _packed("GetItem", gzip.compress(b"[" * LIMIT)[:-20], b"gzip")


def _packed(operation: str, data: bytes, coding: bytes) -> bytes:
    return head(operation, b"Content-Encoding: " + coding, b"Content-Length: %d" % len(data)) + b"\r\n" + data


async def send_all(port: int) -> None:
    """Sends each, and reads what it is told. A thread makes them, so that those who measure are not held up."""
    requests = packed_requests()
    while one := await asyncio.to_thread(next, requests, b""):
        reader, writer = await connected(port)
        try:
            writer.write(one)
            await answer(reader)
        except (OSError, EOFError):
            pass  # refused and closed while it was being sent
        finally:
            writer.close()
