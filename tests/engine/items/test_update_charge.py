"""UpdateItem is refused by the larger of the finished item and what its statement is charged."""

from __future__ import annotations

from typing import Any

import pytest
from golden import make_tables, s

from penstock.engine import Engine
from penstock.errors import ConditionalCheckFailedException, DynamoDBError, ValidationException

LIMIT = 409_600
TOO_LARGE = "Item size to update has exceeded the maximum allowed size"
PAD = 3 + 19 + len("b")


@pytest.fixture
def tables() -> Engine:
    return make_tables(Engine())


def set_b(engine: Engine, padding: int) -> None:
    request = {"TableName": "plain", "Key": {"pk": s("K")}, "UpdateExpression": "SET b = :b"}
    engine.execute("UpdateItem", request | {"ExpressionAttributeValues": {":b": s("x" * padding)}})


def test_a_short_key_leaves_room_for_the_charge_only(tables: Engine) -> None:
    set_b(tables, LIMIT - PAD)
    with pytest.raises(ValidationException, match=TOO_LARGE):
        set_b(tables, LIMIT - PAD + 1)


def test_no_finished_item_is_larger_than_the_limit_however_long_its_key(tables: Engine) -> None:
    key = {"pk": s("k" * 1024)}
    for padding, fits in ((LIMIT - 1026 - 1, True), (LIMIT - 1026, False)):
        request = {"TableName": "plain", "Key": key, "UpdateExpression": "SET b = :b"}
        request["ExpressionAttributeValues"] = {":b": s("x" * padding)}
        if fits:
            tables.execute("UpdateItem", request)
        else:
            with pytest.raises(ValidationException, match=TOO_LARGE):
                tables.execute("UpdateItem", request)


def test_the_charge_comes_before_the_condition(tables: Engine) -> None:
    request = {
        "TableName": "plain",
        "Key": {"pk": s("a")},
        "UpdateExpression": "SET words = if_not_exists(words, :huge)",
        "ConditionExpression": "attribute_exists(nothing)",
        "ExpressionAttributeValues": {":huge": s("x" * LIMIT)},
    }
    with pytest.raises(ValidationException, match=TOO_LARGE):
        tables.execute("UpdateItem", request)
    with pytest.raises(ConditionalCheckFailedException):
        tables.execute("UpdateItem", request | {"ExpressionAttributeValues": {":huge": s("small")}})


def test_a_value_is_charged_at_every_use(tables: Engine) -> None:
    expression = "SET " + ", ".join(f"a{number} = if_not_exists(words, :v)" for number in range(80))
    request = {"TableName": "plain", "Key": {"pk": s("a")}, "UpdateExpression": expression}
    with pytest.raises(ValidationException, match=TOO_LARGE):
        tables.execute("UpdateItem", request | {"ExpressionAttributeValues": {":v": s("x" * 5_100)}})
    tables.execute("UpdateItem", request | {"ExpressionAttributeValues": {":v": s("x" * 4_900)}})


@pytest.mark.parametrize("way", ["AttributeUpdates", "transaction", "PartiQL"])
def test_other_ways_to_update_are_measured_by_the_finished_item(tables: Engine, way: str) -> None:
    for padding, fits in ((LIMIT - 4, True), (LIMIT - 3, False)):
        try:
            _update_by(tables, way, s("x" * padding))
            assert fits
        except DynamoDBError:
            assert not fits


def _update_by(engine: Engine, way: str, value: dict[str, Any]) -> None:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": s("K")}})
    key = {"TableName": "plain", "Key": {"pk": s("K")}}
    if way == "AttributeUpdates":
        engine.execute("UpdateItem", key | {"AttributeUpdates": {"b": {"Action": "PUT", "Value": value}}})
    elif way == "transaction":
        change = key | {"UpdateExpression": "SET b = :b", "ExpressionAttributeValues": {":b": value}}
        engine.execute("TransactWriteItems", {"TransactItems": [{"Update": change}]})
    else:
        statement = "UPDATE plain SET b = ? WHERE pk = 'K'"
        engine.execute("ExecuteStatement", {"Statement": statement, "Parameters": [value]})
