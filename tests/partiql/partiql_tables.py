"""Tables that the tests of this folder make."""

from __future__ import annotations


def table(name, hash_kind="S", sort=None, **more):
    """A CreateTable request: partition key `pk`, sort key `sk` of the kind `sort`."""
    key = [("pk", hash_kind, "HASH")] + ([("sk", sort, "RANGE")] if sort else [])
    return {
        "TableName": name,
        "KeySchema": [{"AttributeName": n, "KeyType": role} for n, _, role in key],
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": kind} for n, kind, _ in key],
        "BillingMode": "PAY_PER_REQUEST",
        **more,
    }
