"""A small part of somebody's service: it knows boto3, and nothing of Penstock."""

from __future__ import annotations

import time
from typing import Any

TABLE = "users"


class AlreadySignedUp(Exception):
    """The address has an account."""


def create_table(dynamodb: Any) -> None:
    dynamodb.create_table(
        TableName=TABLE,
        AttributeDefinitions=[
            {"AttributeName": "email", "AttributeType": "S"},
            {"AttributeName": "plan", "AttributeType": "S"},
            {"AttributeName": "signed_up", "AttributeType": "N"},
        ],
        KeySchema=[{"AttributeName": "email", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by-plan",
                "KeySchema": [
                    {"AttributeName": "plan", "KeyType": "HASH"},
                    {"AttributeName": "signed_up", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def sign_up(dynamodb: Any, email: str, plan: str = "free", now: float | None = None) -> None:
    """Raises AlreadySignedUp."""
    at = time.time() if now is None else now
    try:
        dynamodb.put_item(
            TableName=TABLE,
            Item={"email": {"S": email}, "plan": {"S": plan}, "signed_up": {"N": str(int(at))}},
            ConditionExpression="attribute_not_exists(email)",
        )
    except dynamodb.exceptions.ConditionalCheckFailedException:
        raise AlreadySignedUp(email) from None


def newest(dynamodb: Any, plan: str, limit: int = 10) -> list[str]:
    answer = dynamodb.query(
        TableName=TABLE,
        IndexName="by-plan",
        KeyConditionExpression="#plan = :plan",
        ExpressionAttributeNames={"#plan": "plan"},
        ExpressionAttributeValues={":plan": {"S": plan}},
        ScanIndexForward=False,
        Limit=limit,
    )
    return [item["email"]["S"] for item in answer["Items"]]
