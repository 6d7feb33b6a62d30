"""The calls of `trust.linearizable` as DynamoDB's requests, and DynamoDB's answers as results.

A key of the model is "table/partition/sort"; the value of an item is its attribute v. Every call asks for what was
there before, so that a history says as much as it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import (
    ConditionalCheckFailedException,
    InternalServerError,
    PenstockError,
    TransactionCanceledException,
    TransportError,
)
from penstock.testing.item_model import ANY, Action, Add, Call, Change, Check, Delete, Get, Put, Result, Value, Wanted

TABLES = ("plain", "indexed")
INDEX = "by_group"

Json = dict[str, Any]

READS = ("GetItem", "GetItem eventually", "TransactGetItems", "Query", "Query index", "Scan", "BatchGetItem", "PartiQL")
"""How a Get is asked for."""
ONE_MOMENT = frozenset({"GetItem", "TransactGetItems", "PartiQL"})
"""Of these DynamoDB promises the state of one moment."""
PER_ITEM = frozenset({"Query", "Scan", "BatchGetItem", "BatchWriteItem"})
"""Of these it promises that of each item, each of a moment of its own; of the others nothing that could be checked."""


def tables() -> list[Json]:
    """One without anything beside its items, one with an index that is kept in step."""
    key = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    named = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    plain = {"TableName": TABLES[0], "KeySchema": key, "AttributeDefinitions": named, "BillingMode": "PAY_PER_REQUEST"}
    index = {
        "IndexName": INDEX,
        "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    more = [*named, {"AttributeName": "g", "AttributeType": "S"}]
    return [
        plain,
        {**plain, "TableName": TABLES[1], "AttributeDefinitions": more, "GlobalSecondaryIndexes": [index]},
    ]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


def request_of(kind: str, call: Call) -> tuple[str, Json]:
    """The operation and its request."""
    if isinstance(call, Get):
        return _read(kind, call)
    if kind == "TransactWriteItems":
        return kind, {"TransactItems": [_transacted(action) for action in call.actions]}
    if kind == "BatchWriteItem":
        return kind, {"RequestItems": _by_table((action.key, _batched(action)) for action in call.actions)}
    (action,) = call.actions
    if kind == "PartiQL":
        return "ExecuteStatement", _statement(action)
    return _alone(action)


def _read(kind: str, call: Get) -> tuple[str, Json]:
    table, partition, sort = call.keys[0].split("/")
    match kind:
        case "GetItem":
            return "GetItem", {"TableName": table, "Key": _key(call.keys[0]), "ConsistentRead": True}
        case "GetItem eventually":
            return "GetItem", {"TableName": table, "Key": _key(call.keys[0])}
        case "TransactGetItems":
            gets = [{"Get": {"TableName": key.split("/")[0], "Key": _key(key)}} for key in call.keys]
            return kind, {"TransactItems": gets}
        case "BatchGetItem":
            asked = _by_table((key, _key(key)) for key in call.keys)
            return kind, {
                "RequestItems": {name: {"Keys": keys, "ConsistentRead": True} for name, keys in asked.items()}
            }
        case "Scan":
            values = {":p": {"S": partition}}
            chosen: Json = {"FilterExpression": "pk = :p", "ExpressionAttributeValues": values}
            return kind, {"TableName": table, "ConsistentRead": True, **chosen}
        case "PartiQL":
            text = f'SELECT * FROM "{table}" WHERE pk = ? AND sk = ?'
            return "ExecuteStatement", {
                "Statement": text,
                "Parameters": [{"S": partition}, {"S": sort}],
                "ConsistentRead": True,
            }
    by = {"IndexName": INDEX} if kind == "Query index" else {"ConsistentRead": True}
    return "Query", {
        "TableName": table,
        "KeyConditionExpression": "g = :p" if kind == "Query index" else "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": partition}},
        **by,
    }


def _alone(action: Action) -> tuple[str, Json]:
    body = _conditional(action)
    match action:
        case Put():
            return "PutItem", {**body, "Item": _item(action), "ReturnValues": "ALL_OLD"}
        case Delete():
            return "DeleteItem", {**body, "Key": _key(action.key), "ReturnValues": "ALL_OLD"}
        case Add():
            return "UpdateItem", {**body, **_addition(action), "ReturnValues": "UPDATED_NEW"}
        case _:
            raise ValueError(f"{action} is part of a transaction")


def _transacted(action: Action) -> Json:
    body = _conditional(action)
    match action:
        case Put():
            return {"Put": {**body, "Item": _item(action)}}
        case Delete():
            return {"Delete": {**body, "Key": _key(action.key)}}
        case Add():
            return {"Update": {**body, **_addition(action)}}
        case Check():
            return {"ConditionCheck": {**body, "Key": _key(action.key)}}


def _batched(action: Action) -> Json:
    if isinstance(action, Put):
        return {"PutRequest": {"Item": _item(action)}}
    return {"DeleteRequest": {"Key": _key(action.key)}}


def _statement(action: Action) -> Json:
    """The update of an item that is there: PartiQL's has the key, and so the existence, as its condition."""
    assert isinstance(action, Put) and action.expected not in (ANY, None)
    table, partition, sort = action.key.split("/")
    values = [_typed(action.value), {"S": partition}, {"S": sort}, _typed(action.expected)]
    text = f'UPDATE "{table}" SET v = ? WHERE pk = ? AND sk = ? AND v = ?'
    return {"Statement": text, "Parameters": values}


def _conditional(action: Action) -> Json:
    body: Json = {"TableName": action.key.split("/")[0]}
    if action.expected is ANY:
        return body
    body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if action.expected is None:
        return {**body, "ConditionExpression": "attribute_not_exists(pk)"}
    return {
        **body,
        "ConditionExpression": "v = :expected",
        "ExpressionAttributeValues": {":expected": _typed(action.expected)},
    }


def _addition(action: Add) -> Json:
    values = {":amount": {"N": str(action.amount)}}
    if action.expected not in (ANY, None):
        values[":expected"] = _typed(action.expected)
    return {"Key": _key(action.key), "UpdateExpression": "ADD v :amount", "ExpressionAttributeValues": values}


def _item(action: Put) -> Json:
    return {**_key(action.key), "v": _typed(action.value), "g": {"S": action.key.split("/")[1]}}


def _key(key: str) -> Json:
    _, partition, sort = key.split("/")
    return {"pk": {"S": partition}, "sk": {"S": sort}}


def _typed(value: Wanted) -> Json:
    return {"N": str(value)} if isinstance(value, int) else {"S": value}


def _by_table(parts: Iterable[tuple[str, Json]]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for key, part in parts:
        found.setdefault(key.split("/")[0], []).append(part)
    return found


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def result_of(kind: str, call: Call, answer: Json) -> Result:
    """What an answer tells."""
    if isinstance(call, Get):
        return Result(True, _told(kind, call, answer))
    if len(call.actions) > 1 or kind in ("PartiQL", "BatchWriteItem", "TransactWriteItems"):
        assert not answer.get("UnprocessedItems"), "nothing here is throttled"
        return Result(True, (ANY,) * len(call.actions))
    (action,) = call.actions
    if isinstance(action, Add):
        after = int(answer["Attributes"]["v"]["N"])
        return Result(True, (after - action.amount or None,))  # nothing here ever stands at 0
    return Result(True, (_value(answer.get("Attributes")),))


def _told(kind: str, call: Get, answer: Json) -> tuple[Value, ...]:
    if kind.startswith("GetItem"):
        return (_value(answer.get("Item")),)
    if kind == "TransactGetItems":
        return tuple(_value(one.get("Item")) for one in answer["Responses"])
    assert "LastEvaluatedKey" not in answer and not answer.get("UnprocessedKeys"), "a page holds these few items"
    items = answer["Items"] if "Items" in answer else [one for some in answer["Responses"].values() for one in some]
    by_key = {(one["pk"]["S"], one["sk"]["S"]): _value(one) for one in items}
    return tuple(by_key.get((key.split("/")[1], key.split("/")[2])) for key in call.keys)


class NoEffect(Exception):
    """The call is known to have done nothing: it does not belong into the history."""


def refusal_of(kind: str, call: Call, error: PenstockError) -> Result | None:
    """What an error tells; None: nobody knows what came of the call. Raises NoEffect, or the error if it is odd."""
    match error:
        case ConditionalCheckFailedException():
            # The item was asked for, so that there is none where none is told; PartiQL was not asked.
            return Result(False, (ANY if kind == "PartiQL" else _value(error.item),))
        case TransactionCanceledException():
            return _cancelled(call, error)
        case TransportError():
            if error.sent:
                return None
            raise NoEffect from error
        case InternalServerError():
            return None
    if error.retryable:
        raise NoEffect from error
    raise error


def _cancelled(call: Call, error: TransactionCanceledException) -> Result:
    reasons = error.fields["CancellationReasons"]
    if any(reason["Code"] not in ("None", "ConditionalCheckFailed") for reason in reasons):
        raise NoEffect from error  # a conflict with another transaction
    assert isinstance(call, Change)
    told = (ANY if reason["Code"] == "None" else _value(reason.get("Item")) for reason in reasons)
    return Result(False, tuple(told))


def _value(item: Json | None) -> Value:
    if item is None:
        return None
    ((kind, value),) = item["v"].items()
    return int(value) if kind == "N" else str(value)
