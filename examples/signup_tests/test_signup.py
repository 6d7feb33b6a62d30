"""`dynamodb` is a fixture of Penstock's: a boto3 client on a DynamoDB in memory, new for each test."""

from __future__ import annotations

from typing import Any

import pytest
from signup import AlreadySignedUp, create_table, newest, sign_up


@pytest.fixture
def users(dynamodb: Any) -> Any:
    create_table(dynamodb)
    return dynamodb


def test_an_address_signs_up_once(users: Any) -> None:
    sign_up(users, "ada@example.org")
    with pytest.raises(AlreadySignedUp):
        sign_up(users, "ada@example.org", plan="paid")
    assert newest(users, "free") == ["ada@example.org"]
    assert newest(users, "paid") == []


def test_the_newest_are_listed_first(users: Any) -> None:
    for number in range(30):
        sign_up(users, f"user{number}@example.org", now=1_700_000_000 + number)
    assert newest(users, "free", limit=3) == ["user29@example.org", "user28@example.org", "user27@example.org"]
