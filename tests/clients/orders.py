"""What the clients keep: a customer's orders."""

from __future__ import annotations

from typing import Any


def orders_table(name: str) -> dict[str, Any]:
    return {
        "TableName": name,
        "KeySchema": [
            {"AttributeName": "customer", "KeyType": "HASH"},
            {"AttributeName": "order", "KeyType": "RANGE"},
        ],
        "AttributeDefinitions": [
            {"AttributeName": "customer", "AttributeType": "S"},
            {"AttributeName": "order", "AttributeType": "N"},
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }


def order(customer: str, number: int) -> dict[str, Any]:
    return {"customer": {"S": customer}, "order": {"N": str(number)}, "cents": {"N": str(number * 10)}}
