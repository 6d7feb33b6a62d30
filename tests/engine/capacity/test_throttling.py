"""The simulation of capacity (throttling.py, 1-8), under a clock that only the tests move."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import ManualClock
from penstock.engine import Engine, Pending
from penstock.engine.settings import Settings, Throttling
from penstock.errors import (
    ConditionalCheckFailedException,
    DynamoDBError,
    ProvisionedThroughputExceededException,
    ThrottlingException,
    TransactionCanceledException,
    ValidationException,
)
from penstock.wire.throttles import reasons_of

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"
NO_BURST = Throttling(burst_seconds=1.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(clock):
    """Makes an engine with a table `jobs` of so many units, or on demand."""
    engines: list[Engine] = []

    def made(
        reads: int | None = None, writes: int | None = None, *, rules: Throttling | None = NO_BURST, **more: Any
    ) -> Engine:
        engine = Engine(clock=clock, settings=Settings(throttling=rules, heat=True))
        engines.append(engine)
        engine.execute("CreateTable", table(reads, writes, **more))
        return engine

    yield made
    for engine in engines:
        engine.close()


def table(
    reads: int | None, writes: int | None, *, index: tuple[int, int] | None = None, **more: Any
) -> dict[str, Any]:
    def throughput(units: tuple[int | None, int | None]) -> dict[str, Any]:
        if units[0] is None:
            return {}
        return {"ProvisionedThroughput": {"ReadCapacityUnits": units[0], "WriteCapacityUnits": units[1]}}

    request: dict[str, Any] = {
        "TableName": "jobs",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST" if reads is None else "PROVISIONED",
        **throughput((reads, writes)),
        **more,
    }
    if index is not None:
        request["AttributeDefinitions"].append({"AttributeName": "state", "AttributeType": "S"})
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": "by-state",
                "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                **({} if reads is None else throughput(index)),
            }
        ]
    return request


def put(engine: Engine, name: str = "a", **more: Any) -> None:
    engine.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": name}, **more}})


def get(engine: Engine, name: str = "a", **more: Any) -> dict[str, Any]:
    return engine.execute("GetItem", {"TableName": "jobs", "Key": {"id": {"S": name}}, **more})


def until_throttled(work: Any, most: int = 10_000) -> tuple[int, DynamoDBError]:
    """How often it worked, and the throttle that ended it."""
    for times in range(most):
        try:
            work(times)
        except (ProvisionedThroughputExceededException, ThrottlingException) as error:
            return times, error
    raise AssertionError("never throttled")


def names(engine: Engine) -> set[str]:
    return {item["id"]["S"] for item in engine.execute("Scan", {"TableName": "jobs"})["Items"]}


# ── provisioned ──────────────────────────────────────────────────────────────────────────────────


def test_writes_beyond_the_provisioned_units_are_throttled(make):
    engine = make(100, 5)
    done, error = until_throttled(lambda n: put(engine, f"n{n}"))
    assert done == 5
    assert isinstance(error, ProvisionedThroughputExceededException)
    assert error.message == (
        "The level of configured provisioned throughput for the table was exceeded. "
        "Consider increasing your provisioning level with the UpdateTable API."
    )
    assert reasons_of(error) == [{"reason": "TableWriteProvisionedThroughputExceeded", "resource": ARN}]


def test_a_throttled_write_has_no_effect_and_costs_nothing(make, clock):
    engine = make(100, 5)
    until_throttled(lambda n: put(engine, f"n{n}"))
    for _ in range(20):
        with pytest.raises(ProvisionedThroughputExceededException):
            put(engine, "late")
    assert names(engine) == {"n0", "n1", "n2", "n3", "n4"}
    clock.advance(1)
    assert until_throttled(lambda n: put(engine, f"m{n}"))[0] == 5


def test_units_come_back_with_time(make, clock):
    engine = make(100, 10)
    until_throttled(lambda n: put(engine, f"n{n}"))
    clock.advance(0.3)
    assert until_throttled(lambda n: put(engine, f"m{n}"))[0] == 3


def test_what_is_not_used_is_saved_for_five_minutes(make, clock):
    engine = make(100, 2, rules=Throttling())
    clock.advance(100)
    assert until_throttled(lambda n: put(engine, f"n{n}"))[0] == 2 * 101
    clock.advance(3_600)
    assert until_throttled(lambda n: put(engine, f"m{n}"))[0] == 2 * 300


def test_reads_have_units_of_their_own_and_eventual_ones_cost_half(make, clock):
    engine = make(5, 5)
    put(engine)
    assert until_throttled(lambda n: get(engine))[0] == 10
    clock.advance(1)
    done, error = until_throttled(lambda n: get(engine, ConsistentRead=True))
    assert done == 5
    assert reasons_of(error)[0]["reason"] == "TableReadProvisionedThroughputExceeded"
    put(engine, "b")


def test_large_items_cost_more(make):
    engine = make(100, 10)
    done, _ = until_throttled(lambda n: put(engine, f"n{n}", data={"S": "x" * 4_000}))
    assert done == 2  # four units each: two are left, which is too few


def test_a_call_larger_than_a_second_goes_into_debt(make, clock):
    engine = make(100, 10)
    put(engine, data={"S": "x" * 50_000})
    clock.advance(3)
    with pytest.raises(ProvisionedThroughputExceededException):
        put(engine, "b")
    clock.advance(2)
    put(engine, "b")


def test_a_wrong_call_is_refused_as_wrong(make):
    engine = make(100, 1)
    put(engine)
    with pytest.raises(ValidationException):
        engine.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"N": "1"}}})


def test_a_failed_condition_costs_a_unit(make):
    engine = make(100, 5)
    put(engine)
    request = {"TableName": "jobs", "Item": {"id": {"S": "a"}}, "ConditionExpression": "attribute_not_exists(id)"}
    for _ in range(4):
        with pytest.raises(ConditionalCheckFailedException):
            engine.execute("PutItem", request)
    with pytest.raises(ProvisionedThroughputExceededException):
        engine.execute("PutItem", request)


def test_an_update_of_the_table_changes_its_limits_and_gives_nothing_away(make, clock):
    engine = make(100, 5)
    until_throttled(lambda n: put(engine, f"n{n}"))
    units = {"ReadCapacityUnits": 100, "WriteCapacityUnits": 50}
    engine.execute("UpdateTable", {"TableName": "jobs", "ProvisionedThroughput": units})
    with pytest.raises(ProvisionedThroughputExceededException):
        put(engine)
    clock.advance(1)
    assert until_throttled(lambda n: put(engine, f"m{n}"))[0] == 50


def test_the_control_plane_is_not_throttled(make):
    engine = make(1, 1)
    put(engine)
    for _ in range(50):
        engine.execute("DescribeTable", {"TableName": "jobs"})


# ── indexes ──────────────────────────────────────────────────────────────────────────────────────


def test_a_write_is_throttled_by_its_index(make):
    engine = make(100, 100, index=(100, 3))
    done, error = until_throttled(lambda n: put(engine, f"n{n}", state={"S": f"s{n}"}))
    assert done == 3
    assert reasons_of(error) == [
        {"reason": "IndexWriteProvisionedThroughputExceeded", "resource": f"{ARN}/index/by-state"}
    ]
    assert "global secondary indexes" in error.message
    put(engine, "without")  # has no row in the index


def test_a_write_that_both_refuse_has_both_reasons(make):
    engine = make(100, 3, index=(100, 3))
    _, error = until_throttled(lambda n: put(engine, f"n{n}", state={"S": f"s{n}"}))
    assert [reason["reason"] for reason in reasons_of(error)] == [
        "TableWriteProvisionedThroughputExceeded",
        "IndexWriteProvisionedThroughputExceeded",
    ]


def test_a_query_of_an_index_uses_the_indexs_units(make):
    engine = make(1, 100, index=(4, 100))
    put(engine, state={"S": "queued"})
    query = {
        "TableName": "jobs",
        "IndexName": "by-state",
        "KeyConditionExpression": "#s = :s",
        "ExpressionAttributeNames": {"#s": "state"},
        "ExpressionAttributeValues": {":s": {"S": "queued"}},
    }
    done, error = until_throttled(lambda n: engine.execute("Query", query))
    assert done == 8
    assert reasons_of(error)[0]["reason"] == "IndexReadProvisionedThroughputExceeded"
    get(engine)


# ── partitions and keys ──────────────────────────────────────────────────────────────────────────

SMALL = Throttling(partition_read_units=30, partition_write_units=10, burst_seconds=1, split_seconds=5)


def test_a_hot_key_is_throttled_although_its_table_has_units(make):
    engine = make(100, 100, rules=SMALL)
    done, error = until_throttled(lambda n: put(engine, "hot"))
    assert done == 10
    assert isinstance(error, ProvisionedThroughputExceededException)
    assert reasons_of(error) == [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": ARN}]


def test_spread_keys_get_what_the_table_has(make):
    engine = make(30, 60, rules=SMALL)
    done, error = until_throttled(lambda n: put(engine, f"n{n}"))
    assert done > 30
    assert reasons_of(error)[0]["reason"].startswith("TableWrite")


def test_real_partitions_give_a_key_a_thousand_writes_and_three_thousand_reads(make):
    engine = make(rules=Throttling())
    assert until_throttled(lambda n: put(engine, "hot"))[0] == 1_000
    assert until_throttled(lambda n: get(engine, "hot", ConsistentRead=True))[0] == 3_000


def neighbour_of(engine: Engine, hot: str) -> str:
    """A key that shares the hot one's partition: one that is throttled with it."""
    for n in range(1_000):
        try:
            put(engine, f"k{n}")
        except ProvisionedThroughputExceededException as error:
            if reasons_of(error)[0]["reason"].endswith("KeyRangeThroughputExceeded"):
                return f"k{n}"
    raise AssertionError("no neighbour")


def test_a_hot_key_is_isolated_and_keeps_its_ceiling(make, clock):
    engine = make(10, 1_000, rules=SMALL)
    until_throttled(lambda n: put(engine, "hot"))
    neighbour = neighbour_of(engine, "hot")
    for _ in range(60):  # six seconds of too many writes
        clock.advance(0.1)
        for _ in range(5):
            try:
                put(engine, "hot")
            except ProvisionedThroughputExceededException:
                continue
    put(engine, neighbour)
    clock.advance(1)
    done, error = until_throttled(lambda n: put(engine, "hot"))
    assert done == 10, "isolation does not raise the ceiling"
    assert reasons_of(error)[0]["reason"] == "TableWriteKeyRangeThroughputExceeded"
    put(engine, neighbour)


def test_a_hot_index_key_is_named_as_the_indexs(make):
    engine = make(100, 100, index=(100, 100), rules=SMALL)
    done, error = until_throttled(lambda n: put(engine, f"n{n}", state={"S": "queued"}))
    assert done <= 10
    found = {reason["reason"]: reason["resource"] for reason in reasons_of(error)}
    assert found["IndexWriteKeyRangeThroughputExceeded"] == f"{ARN}/index/by-state"


# ── on demand ────────────────────────────────────────────────────────────────────────────────────


def test_an_on_demand_maximum_is_enforced(make):
    engine = make(OnDemandThroughput={"MaxReadRequestUnits": 10, "MaxWriteRequestUnits": 4})
    done, error = until_throttled(lambda n: put(engine, f"n{n}"))
    assert done == 4
    assert isinstance(error, ThrottlingException)
    assert error.message == "Throughput exceeds the maximum OnDemandThroughput configured on table or index"
    assert reasons_of(error) == [{"reason": "TableWriteMaxOnDemandThroughputExceeded", "resource": ARN}]


def test_a_hot_key_of_an_on_demand_table_is_told_so(make):
    engine = make(rules=SMALL)
    _, error = until_throttled(lambda n: put(engine, "hot"))
    assert isinstance(error, ThrottlingException)
    assert "hot key" in error.message
    assert reasons_of(error)[0]["reason"] == "TableWriteKeyRangeThroughputExceeded"


# ── batches and transactions ─────────────────────────────────────────────────────────────────────


def batch(*items: str) -> dict[str, Any]:
    return {"RequestItems": {"jobs": [{"PutRequest": {"Item": {"id": {"S": name}}}} for name in items]}}


def test_what_a_batch_cannot_pay_for_comes_back(make, clock):
    engine = make(100, 10)
    wanted = [f"n{n}" for n in range(25)]
    answer = engine.execute("BatchWriteItem", {**batch(*wanted), "ReturnConsumedCapacity": "TOTAL"})
    back = {one["PutRequest"]["Item"]["id"]["S"] for one in answer["UnprocessedItems"]["jobs"]}
    assert len(back) == 15
    assert names(engine) == set(wanted) - back
    assert answer["ConsumedCapacity"] == [{"TableName": "jobs", "CapacityUnits": 10.0}]
    with pytest.raises(ProvisionedThroughputExceededException):
        engine.execute("BatchWriteItem", batch("x", "y"))
    clock.advance(1)
    assert engine.execute("BatchWriteItem", batch("x", "y")) == {"UnprocessedItems": {}}


def test_a_wrong_batch_is_refused_whole(make):
    engine = make(100, 10)
    with pytest.raises(ValidationException, match="duplicates"):
        engine.execute("BatchWriteItem", batch("a", "a"))
    assert names(engine) == set()


def test_a_batch_of_reads_comes_back_in_part(make, clock):
    engine = make(2, 100)
    for n in range(10):
        put(engine, f"n{n}")
    keys = [{"id": {"S": f"n{n}"}} for n in range(10)]
    asked = {"RequestItems": {"jobs": {"Keys": keys, "ConsistentRead": True}}}
    answer = engine.execute("BatchGetItem", asked)
    assert len(answer["Responses"]["jobs"]) == 2
    assert len(answer["UnprocessedKeys"]["jobs"]["Keys"]) == 8
    assert answer["UnprocessedKeys"]["jobs"]["ConsistentRead"] is True
    with pytest.raises(ProvisionedThroughputExceededException):
        engine.execute("BatchGetItem", asked)


def test_a_transaction_that_cannot_be_paid_for_is_cancelled_and_costs_nothing(make, clock):
    engine = make(100, 6)
    actions = [{"Put": {"TableName": "jobs", "Item": {"id": {"S": f"n{n}"}}}} for n in range(4)]
    request = {"TransactItems": actions, "ClientRequestToken": "token"}
    with pytest.raises(TransactionCanceledException) as raised:
        engine.execute("TransactWriteItems", request)
    reasons = raised.value.fields["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "None", "None", "ProvisionedThroughputExceeded"]
    assert names(engine) == set()
    engine.execute("TransactWriteItems", {"TransactItems": actions[:3]})


def test_an_on_demand_transaction_is_cancelled_by_a_throttling_error(make):
    engine = make(rules=SMALL)
    until_throttled(lambda n: put(engine, "hot"))
    with pytest.raises(TransactionCanceledException) as raised:
        engine.execute(
            "TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "jobs", "Item": {"id": {"S": "hot"}}}}]}
        )
    assert raised.value.fields["CancellationReasons"][0]["Code"] == "ThrottlingError"


def test_a_transaction_of_reads_is_cancelled_too(make):
    engine = make(3, 10)
    gets = [{"Get": {"TableName": "jobs", "Key": {"id": {"S": f"n{n}"}}}} for n in range(2)]
    with pytest.raises(TransactionCanceledException) as raised:
        engine.execute("TransactGetItems", {"TransactItems": gets})
    codes = [reason["Code"] for reason in raised.value.fields["CancellationReasons"]]
    assert codes == ["None", "ProvisionedThroughputExceeded"]


# ── statements, groups, threads ──────────────────────────────────────────────────────────────────


def test_statements_are_throttled_and_undone(make):
    engine = make(100, 3)

    def insert(n: int) -> None:
        engine.execute("ExecuteStatement", {"Statement": f"INSERT INTO jobs VALUE {{'id': 'n{n}'}}"})

    assert until_throttled(insert)[0] == 3
    assert names(engine) == {"n0", "n1", "n2"}
    with pytest.raises(TransactionCanceledException) as raised:
        statement = {"Statement": "INSERT INTO jobs VALUE {'id': 'x'}"}
        engine.execute("ExecuteTransaction", {"TransactStatements": [statement]})
    assert raised.value.fields["CancellationReasons"][0]["Code"] == "ProvisionedThroughputExceeded"


def test_statements_heat_their_keys(make):
    engine = make(rules=SMALL)

    def update(n: int) -> None:
        engine.execute("ExecuteStatement", {"Statement": "UPDATE jobs SET n = 1 WHERE id = 'hot'"})

    put(engine, "hot")
    done, error = until_throttled(update)
    assert done == 9
    assert reasons_of(error)[0]["reason"] == "TableWriteKeyRangeThroughputExceeded"
    engine.execute("ExecuteStatement", {"Statement": "SELECT * FROM jobs WHERE id = 'hot'"})
    batch = [
        {"Statement": "SELECT * FROM jobs WHERE id = 'hot'"},
        {"Statement": "SELECT * FROM nothing WHERE id = 'x'"},
    ]
    engine.execute("BatchExecuteStatement", {"Statements": batch})
    assert engine.simulation is not None
    (key,) = engine.simulation.heat_report()["resources"][0]["keys"]
    assert (key["key"], key["reads"], key["writes"], key["throttled"]) == ("hot", 1.0, 10.0, 1)


def test_a_select_pays_for_what_it_reads(make):
    engine = make(2, 10)
    done, _ = until_throttled(lambda n: engine.execute("ExecuteStatement", {"Statement": "SELECT * FROM jobs"}))
    assert done == 4


def test_calls_that_arrive_together_are_throttled_one_by_one(make):
    engine = make(100, 3)
    calls = [Pending("PutItem", {"TableName": "jobs", "Item": {"id": {"S": f"n{n}"}}}) for n in range(5)]
    answers = engine.answer_many(calls)
    assert [isinstance(answer, bytes) for answer in answers] == [True, True, True, False, False]
    assert len(names(engine)) == 3


def test_a_scan_is_throttled(make):
    engine = make(1, 100)
    done, error = until_throttled(lambda n: engine.execute("Scan", {"TableName": "jobs"}))
    assert done == 2
    assert reasons_of(error)[0]["reason"] == "TableReadProvisionedThroughputExceeded"


# ── off ──────────────────────────────────────────────────────────────────────────────────────────


def test_by_default_nothing_is_throttled_or_counted():
    with Engine() as engine:
        engine.execute("CreateTable", table(1, 1))
        for n in range(200):
            put(engine, f"n{n}")
        assert engine.simulation is None


def test_heat_alone_throttles_nothing(make):
    engine = make(1, 1, rules=None)
    for n in range(200):
        put(engine, f"n{n}")


def test_an_answer_shows_capacity_as_the_caller_asked(make):
    engine = make(100, 100, index=(100, 100))
    item = {"id": {"S": "a"}, "state": {"S": "queued"}}

    def consumed(mode: str) -> Any:
        request = {"TableName": "jobs", "Item": item, "ReturnConsumedCapacity": mode}
        engine.execute("DeleteItem", {"TableName": "jobs", "Key": {"id": {"S": "a"}}})
        return engine.execute("PutItem", request).get("ConsumedCapacity")

    assert consumed("NONE") is None
    assert consumed("TOTAL") == {"TableName": "jobs", "CapacityUnits": 2.0}
    assert consumed("INDEXES")["GlobalSecondaryIndexes"] == {"by-state": {"CapacityUnits": 1.0}}
