"""Calls answered together get the answers, and have the effects, that they would have one after the other."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sample_tables import assert_indexes_agree, rows
from test_model_walk import TABLES, Walk

from penstock.engine import Engine, Pending
from penstock.errors import DynamoDBError

GROUPS = 60


def a_call(walk: Walk) -> Pending:
    """A random call; many of them fail in one way or another, some of those after they have begun to write."""
    match walk.random.randrange(9):
        case 0 | 1:
            request = walk.conditional(walk.maybe_condition(), Item=walk.item(), ReturnValues="ALL_OLD")
            return Pending("PutItem", request)
        case 2 | 3:
            key, actions = walk.key(), walk.actions()
            request = walk.conditional(walk.maybe_condition(), actions, Key=key, ReturnValues="UPDATED_NEW")
            return Pending("UpdateItem", request)
        case 4:
            return Pending("DeleteItem", walk.conditional(walk.maybe_condition(), Key=walk.key()))
        case 5:
            puts = [{"PutRequest": {"Item": walk.item()}} for _ in range(3)]
            return Pending("BatchWriteItem", {"RequestItems": {walk.name: puts}})
        case 6:
            actions = [{"Put": walk.conditional(walk.maybe_condition(), Item=walk.item())} for _ in range(3)]
            return Pending("TransactWriteItems", {"TransactItems": actions})
        case 7:
            return Pending("GetItem", walk.request(Key=walk.key()))
    return Pending("Scan", walk.request(Limit=5))


def outcome(answer: bytes | DynamoDBError) -> Any:
    return (answer.code, answer.message) if isinstance(answer, DynamoDBError) else orjson.loads(answer)


def alone(engine: Engine, call: Pending) -> Any:
    try:
        return engine.execute(*call)
    except DynamoDBError as error:
        return error.code, error.message


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["hash", "texts"])
def test_a_group_is_its_calls_in_their_order(engine: Engine, kind: str, seed: int) -> None:
    together = Walk(engine, TABLES[kind], seed)
    with Engine() as other:
        apart = Walk(other, TABLES[kind], seed)
        for group in range(GROUPS):
            calls = [a_call(together) for _ in range(together.random.randint(1, 16))]
            answers = engine.answer_many(calls)
            expected = [alone(apart.engine, call) for call in calls]
            assert list(map(outcome, answers)) == expected, f"seed {seed}, group {group}: {calls}"
            assert list(rows(engine, kind).values()) == list(rows(other, kind).values())
    assert_indexes_agree(engine, kind)
