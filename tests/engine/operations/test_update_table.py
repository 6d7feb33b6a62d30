"""UpdateTable: capacity, indexes, streams and settings."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import ManualClock
from penstock.engine import Engine, Settings
from penstock.errors import DynamoDBError

INVALID = "One or more parameter values were invalid: "
IN_USE = "Attempt to change a resource which is still in use: "
ONE_INDEX = "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
ALL = {"ProjectionType": "ALL"}


def units(read: int, write: int) -> dict[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def create(engine: Engine, *, provisioned: bool = False, indexes: str = "", **members: Any) -> None:
    capacity = {"ProvisionedThroughput": units(5, 5)} if provisioned else {}
    world = [
        {"IndexName": f"by_{name}", "KeySchema": hash_key(name), "Projection": ALL, **capacity} for name in indexes
    ]
    request: dict[str, Any] = {
        "TableName": "jobs",
        "AttributeDefinitions": definitions("a" + indexes),
        "KeySchema": hash_key("a"),
        "BillingMode": "PROVISIONED" if provisioned else "PAY_PER_REQUEST",
        **capacity,
        **({"GlobalSecondaryIndexes": world} if world else {}),
        **members,
    }
    engine.execute("CreateTable", request)


def definitions(names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def hash_key(name: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": "HASH"}]


def update(engine: Engine, **members: Any) -> dict[str, Any]:
    answer: dict[str, Any] = engine.execute("UpdateTable", {"TableName": "jobs", **members})
    return answer["TableDescription"]  # type: ignore[no-any-return]


def describe(engine: Engine) -> dict[str, Any]:
    answer: dict[str, Any] = engine.execute("DescribeTable", {"TableName": "jobs"})
    return answer["Table"]  # type: ignore[no-any-return]


def refusal(engine: Engine, **members: Any) -> str:
    with pytest.raises(DynamoDBError) as refused:
        update(engine, **members)
    return refused.value.message


def made(name: str, **members: Any) -> dict[str, Any]:
    index = {"IndexName": f"by_{name}", "KeySchema": hash_key(name), "Projection": ALL, **members}
    return {"AttributeDefinitions": definitions(name), "GlobalSecondaryIndexUpdates": [{"Create": index}]}


def deleted(*names: str) -> dict[str, Any]:
    return {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": name}} for name in names]}


def resized(name: str, **members: Any) -> dict[str, Any]:
    return {"GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": name, **members}}]}


NOTHING = (
    "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates, "
    "SSESpecification, ReplicaUpdates, MultiAccountReplicaReady, ReplicaTransitRoleArn, MultiRegionConsistency, "
    "DeletionProtectionEnabled, OnDemandThroughput, WarmThroughput or TableClass is required"
)
ALONE = "must be the only operation in the request"
STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
BEFORE_THE_TABLE: list[tuple[dict[str, Any], str]] = [
    ({}, NOTHING),
    ({"GlobalSecondaryIndexUpdates": []}, NOTHING),
    ({"AttributeDefinitions": definitions("b")}, NOTHING),
    (
        {"BillingMode": "PROVISIONED"},
        INVALID + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
    ),
    (
        {"ProvisionedThroughput": units(1_000_000_000_001, 1)},
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
    ),
    (
        {"GlobalSecondaryIndexUpdates": [], "DeletionProtectionEnabled": True},
        INVALID + "List of GlobalSecondaryIndexUpdates is empty",
    ),
    (
        {"GlobalSecondaryIndexUpdates": [{}]},
        INVALID + "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
        "GlobalSecondaryIndexUpdate.Delete must not be null",
    ),
    (
        deleted("abc", "abc"),
        INVALID + "Only one global secondary index update per index is allowed simultaneously. Index: abc",
    ),
    (
        {
            "GlobalSecondaryIndexUpdates": [
                {
                    "Delete": {"IndexName": "abc"},
                    "Update": {"IndexName": "abc", "ProvisionedThroughput": units(1, 1)},
                }
            ]
        },
        INVALID + "Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object",
    ),
    (
        {"SSESpecification": {"Enabled": True}, "DeletionProtectionEnabled": True},
        INVALID + f"Server-Side Encryption modification {ALONE}",
    ),
    (
        {"TableClass": "STANDARD", "DeletionProtectionEnabled": True},
        INVALID + f"TableClass modification {ALONE}",
    ),
    (
        {"DeletionProtectionEnabled": True, "BillingMode": "PAY_PER_REQUEST"},
        INVALID + f"DeletionProtection modification {ALONE}",
    ),
    (
        {"StreamSpecification": STREAM, "ProvisionedThroughput": units(1, 1)},
        INVALID + "You cannot modify stream status while updating table IOPS",
    ),
    (
        made("b") | {"ProvisionedThroughput": units(1, 1)},
        INVALID + "You cannot create or delete index while updating table IOPS",
    ),
    (
        made("b") | {"StreamSpecification": STREAM},
        INVALID + "You cannot create or delete index while changing stream status",
    ),
    (
        {"StreamSpecification": {"StreamEnabled": True}},
        INVALID + "If stream is being enabled then UpdateViewType is required",
    ),
    # What the request has is left out of the list; alone it is no change (seen on AWS, October 2026).
    ({"MultiRegionConsistency": "STRONG"}, NOTHING.replace("MultiRegionConsistency, ", "")),
    ({"ReplicaUpdates": [{}]}, "There are no actions specified in the Replica Update Action of the request."),
    (
        {"ReplicaUpdates": [{"Create": {"RegionName": one}} for one in ("eu-west-1", "eu-west-2")]},
        "Update table operation with more than one create or delete replica actions not allowed",
    ),
    (
        {"ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}], "MultiRegionConsistency": "STRONG"},
        "Unsupported replica count for global tables with MultiRegionConsistency set to STRONG.",
    ),
    (
        {"ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}], "DeletionProtectionEnabled": True},
        INVALID + f"DeletionProtection modification {ALONE}",
    ),
    (
        {"ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}], "BillingMode": "PAY_PER_REQUEST"},
        INVALID + f"Replica modification {ALONE}",
    ),
]


@pytest.mark.parametrize(("members", "message"), BEFORE_THE_TABLE)
def test_a_wrong_request_is_refused_before_the_table_is_looked_for(members: Any, message: str) -> None:
    with Engine() as engine:
        assert refusal(engine, **members) == message


def test_a_missing_table_is_named(engine: Engine) -> None:
    assert refusal(engine, DeletionProtectionEnabled=True) == ("Requested resource not found: Table: jobs not found")


def test_throughput_is_answered_as_it_was_and_described_as_it_is(engine: Engine) -> None:
    create(engine, provisioned=True)
    answered = update(engine, ProvisionedThroughput=units(10, 10))
    assert answered["TableStatus"] == "UPDATING"
    assert answered["ProvisionedThroughput"]["ReadCapacityUnits"] == 5
    raised = describe(engine)["ProvisionedThroughput"]
    assert (raised["ReadCapacityUnits"], raised["NumberOfDecreasesToday"]) == (10, 0)
    assert raised["LastIncreaseDateTime"] > answered["ProvisionedThroughput"]["LastIncreaseDateTime"]
    answered = update(engine, ProvisionedThroughput=units(5, 10))
    assert answered["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0
    lowered = describe(engine)["ProvisionedThroughput"]
    assert lowered["NumberOfDecreasesToday"] == 1
    assert lowered["LastIncreaseDateTime"] == raised["LastIncreaseDateTime"]
    assert lowered["LastDecreaseDateTime"] > answered["ProvisionedThroughput"]["LastDecreaseDateTime"]


def test_throughput_that_would_not_change_is_refused(engine: Engine) -> None:
    create(engine, provisioned=True, indexes="b")
    told = (
        "The provisioned throughput for {0} will not change. The requested value equals the current value. "
        "Current ReadCapacityUnits provisioned for {1}: 5. Requested ReadCapacityUnits: 5. "
        "Current WriteCapacityUnits provisioned for {1}: 5. Requested WriteCapacityUnits: 5. "
        "Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
    )
    assert refusal(engine, ProvisionedThroughput=units(5, 5)) == told.format("the table", "the table")
    assert refusal(engine, **resized("by_b", ProvisionedThroughput=units(5, 5))) == (
        told.format("the index by_b", "index by_b")
    )


def test_the_capacity_mode_goes_there_and_back(engine: Engine) -> None:
    create(engine, provisioned=True, indexes="b")
    update(engine, BillingMode="PAY_PER_REQUEST")
    described = describe(engine)
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["ProvisionedThroughput"]["ReadCapacityUnits"] == 0
    assert described["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]["ReadCapacityUnits"] == 0
    back = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units(2, 3)}
    assert refusal(engine, **back) == INVALID + "ProvisionedThroughput must be specified for index: by_b"
    update(engine, **back, **resized("by_b", ProvisionedThroughput=units(4, 5)))
    described = describe(engine)
    assert described["BillingModeSummary"]["BillingMode"] == "PROVISIONED"
    assert described["ProvisionedThroughput"]["WriteCapacityUnits"] == 3
    assert described["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]["WriteCapacityUnits"] == 5


def test_the_capacity_mode_that_a_table_has_may_be_named_again(engine: Engine) -> None:
    create(engine)
    assert update(engine, BillingMode="PAY_PER_REQUEST")["TableStatus"] == "ACTIVE"


def test_an_on_demand_table_takes_no_units(engine: Engine) -> None:
    create(engine, indexes="b")
    neither = "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified "
    assert refusal(engine, ProvisionedThroughput=units(1, 1)) == (
        f"{INVALID}{neither}when BillingMode is PAY_PER_REQUEST"
    )
    assert refusal(engine, **resized("by_b", ProvisionedThroughput=units(1, 1))) == (
        f"{INVALID}{neither}for index: by_b when BillingMode is PAY_PER_REQUEST"
    )


def test_an_on_demand_maximum_is_merged_and_taken_away(engine: Engine) -> None:
    create(engine)
    update(engine, OnDemandThroughput={"MaxReadRequestUnits": 5})
    update(engine, OnDemandThroughput={"MaxWriteRequestUnits": 6})
    assert describe(engine)["OnDemandThroughput"] == {"MaxReadRequestUnits": 5, "MaxWriteRequestUnits": 6}
    update(engine, OnDemandThroughput={"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": -1})
    assert "OnDemandThroughput" not in describe(engine)


def test_warm_throughput_rises_and_never_falls(engine: Engine) -> None:
    create(engine)
    update(engine, WarmThroughput={"ReadUnitsPerSecond": 13_000})
    assert describe(engine)["WarmThroughput"]["ReadUnitsPerSecond"] == 13_000
    assert refusal(engine, WarmThroughput={"ReadUnitsPerSecond": 12_500}) == (
        INVALID + "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than current "
        "WarmThroughput, decreasing WarmThroughput is not supported"
    )


def test_an_index_is_made_of_the_items_that_are_there(engine: Engine) -> None:
    create(engine)
    for number in range(3):
        item = {"a": {"S": str(number)}, "b": {"S": "x"}}
        engine.execute("PutItem", {"TableName": "jobs", "Item": item})
    answered = update(engine, **made("b"))
    assert answered["TableStatus"] == "UPDATING"
    (index,) = answered["GlobalSecondaryIndexes"]
    assert (index["IndexStatus"], index["Backfilling"]) == ("CREATING", False)
    described = describe(engine)
    assert described["AttributeDefinitions"] == definitions("ab")
    (index,) = described["GlobalSecondaryIndexes"]
    assert (index["IndexStatus"], index["ItemCount"]) == ("ACTIVE", 3)


def test_a_deleted_index_takes_its_definition_along(engine: Engine) -> None:
    create(engine, indexes="bc")
    answered = update(engine, **deleted("by_b"))
    statuses = {one["IndexName"]: one["IndexStatus"] for one in answered["GlobalSecondaryIndexes"]}
    assert statuses == {"by_b": "DELETING", "by_c": "ACTIVE"}
    described = describe(engine)
    assert described["AttributeDefinitions"] == definitions("ac")
    assert [one["IndexName"] for one in described["GlobalSecondaryIndexes"]] == ["by_c"]
    update(engine, **made("b"))
    assert len(describe(engine)["GlobalSecondaryIndexes"]) == 2


INDEX_REFUSALS: list[tuple[dict[str, Any], str]] = [
    (made("b"), "Attempting to create an index which already exists"),
    (
        made("c") | {"AttributeDefinitions": []},
        INVALID + "AttributeDefinitions is not specified for index: by_c",
    ),
    (
        made("c") | {"AttributeDefinitions": definitions("a")},
        INVALID + "Some index key attributes are not defined in AttributeDefinitions. Keys: [c], "
        "AttributeDefinitions: [a]",
    ),
    (
        made("c", ProvisionedThroughput=units(1, 1)),
        INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: by_c when "
        "BillingMode is PAY_PER_REQUEST",
    ),
    (deleted("ghost"), "Requested resource not found: Index ghost for table jobs"),
    (
        resized("ghost", OnDemandThroughput={"MaxReadRequestUnits": 1}),
        "Requested resource not found: Index ghost for table jobs",
    ),
    (
        resized("ghost", ProvisionedThroughput=units(1_000_000_000_001, 1)),
        "This operation cannot be performed with given input values. Please contact DynamoDB service team for "
        "more info: Action Blocked: IndexUpdate",
    ),
    (deleted("one", "two"), ONE_INDEX),
]


@pytest.mark.parametrize(("members", "message"), INDEX_REFUSALS)
def test_wrong_changes_of_indexes_are_refused(members: Any, message: str) -> None:
    with Engine() as engine:
        create(engine, indexes="b")
        assert refusal(engine, **members) == message


def test_a_local_index_stays_as_it_is(engine: Engine) -> None:
    sort = {"AttributeName": "s", "KeyType": "RANGE"}
    local = {"IndexName": "by_s", "KeySchema": [*hash_key("a"), sort], "Projection": ALL}
    create(
        engine,
        AttributeDefinitions=definitions("as"),
        KeySchema=[*hash_key("a"), sort],
        LocalSecondaryIndexes=[local],
    )
    assert refusal(engine, **deleted("by_s")) == ("Cannot delete an index that is not a GlobalSecondaryIndex: by_s")


def test_a_table_has_twenty_global_indexes(engine: Engine) -> None:
    create(engine, indexes="bcdefghijklmnopqrstu")
    assert refusal(engine, **made("v")) == (
        "Subscriber limit exceeded: Number of global secondary indexes exceeds per-table limit of 20"
    )


def test_a_stream_is_switched_on_once_and_off_once(engine: Engine) -> None:
    create(engine)
    off = {"StreamSpecification": {"StreamEnabled": False}}
    assert refusal(engine, **off) == "Table has no stream to disable: TableName: jobs"
    update(engine, StreamSpecification=STREAM)
    described = describe(engine)
    assert described["StreamSpecification"] == STREAM
    assert refusal(engine, StreamSpecification=STREAM) == "Table already has an enabled stream: TableName: jobs"
    update(engine, **off)
    after = describe(engine)
    assert "StreamSpecification" not in after
    assert after["LatestStreamArn"] == described["LatestStreamArn"]


def test_settings_are_kept(engine: Engine) -> None:
    create(engine)
    update(engine, TableClass="STANDARD_INFREQUENT_ACCESS")
    update(engine, SSESpecification={"Enabled": True, "SSEType": "KMS"})
    update(engine, DeletionProtectionEnabled=True)
    described = describe(engine)
    assert described["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert described["SSEDescription"]["Status"] == "ENABLED"
    assert described["DeletionProtectionEnabled"] is True


def test_encryption_that_is_on_by_default_is_not_switched_off(engine: Engine) -> None:
    create(engine)
    assert refusal(engine, SSESpecification={"Enabled": False}) == INVALID + "Table is already encrypted by default"


@pytest.fixture
def slow() -> Any:
    clock = ManualClock()
    settings = Settings(table_delay_seconds=10, index_delay_seconds=60)
    with Engine(clock=clock, settings=settings) as engine:
        create(engine, provisioned=True, indexes="b")
        clock.advance(10)
        yield engine, clock


def seen(engine: Engine) -> tuple[str, dict[str, tuple[str, bool | None]]]:
    described = describe(engine)
    world = described.get("GlobalSecondaryIndexes", [])
    return described["TableStatus"], {i["IndexName"]: (i["IndexStatus"], i.get("Backfilling")) for i in world}


def test_a_new_index_is_allocated_and_then_filled(slow: tuple[Engine, ManualClock]) -> None:
    engine, clock = slow
    update(engine, **made("c", ProvisionedThroughput=units(1, 1)))
    assert seen(engine) == ("UPDATING", {"by_b": ("ACTIVE", None), "by_c": ("CREATING", False)})
    assert refusal(engine, **deleted("by_c")).startswith(IN_USE + "Index creation is in resource allocation")
    assert refusal(engine, ProvisionedThroughput=units(6, 6)) == (
        f"{IN_USE}Can't change table IOPS when an index is being created. Table: jobs Indexes: [by_c]"
    )
    clock.advance(10)
    assert seen(engine) == ("ACTIVE", {"by_b": ("ACTIVE", None), "by_c": ("CREATING", True)})
    assert refusal(engine, **made("d", ProvisionedThroughput=units(1, 1))) == ONE_INDEX
    assert refusal(engine, **deleted("by_b")) == ONE_INDEX
    with pytest.raises(DynamoDBError, match="Cannot delete table while indexes are being created"):
        engine.execute("DeleteTable", {"TableName": "jobs"})
    clock.advance(50)
    assert seen(engine) == ("ACTIVE", {"by_b": ("ACTIVE", None), "by_c": ("ACTIVE", None)})


def test_an_index_that_is_being_filled_may_be_deleted(slow: tuple[Engine, ManualClock]) -> None:
    engine, clock = slow
    update(engine, **made("c", ProvisionedThroughput=units(1, 1)))
    clock.advance(10)
    update(engine, **deleted("by_c"))
    assert seen(engine)[1]["by_c"] == ("DELETING", None)
    again = made("c", ProvisionedThroughput=units(1, 1))
    assert refusal(engine, **again) == f"{IN_USE}Index is being deleted. Table: jobs Index: by_c"
    assert refusal(engine, ProvisionedThroughput=units(6, 6)) == (
        f"{IN_USE}Can't change table IOPS when an index is being deleted. Table: jobs Indexes: [by_c]"
    )
    clock.advance(10)
    assert seen(engine) == ("ACTIVE", {"by_b": ("ACTIVE", None)})


def test_a_table_is_updated_one_change_at_a_time(slow: tuple[Engine, ManualClock]) -> None:
    engine, clock = slow
    update(engine, ProvisionedThroughput=units(6, 6))
    assert seen(engine)[0] == "UPDATING"
    assert refusal(engine, ProvisionedThroughput=units(7, 7)) == IN_USE + "Table is being updated: jobs"
    clock.advance(10)
    update(engine, ProvisionedThroughput=units(7, 7))


def test_only_the_index_is_updating_while_its_throughput_changes(slow: tuple[Engine, ManualClock]) -> None:
    engine, clock = slow
    update(engine, **resized("by_b", ProvisionedThroughput=units(6, 6)))
    assert seen(engine) == ("ACTIVE", {"by_b": ("UPDATING", None)})
    clock.advance(10)
    assert seen(engine) == ("ACTIVE", {"by_b": ("ACTIVE", None)})


def test_a_key_attribute_keeps_its_type_in_every_index(engine: Engine) -> None:
    create(engine, indexes="b")
    index = {"IndexName": "again", "KeySchema": hash_key("b"), "Projection": ALL}
    redefined = [{"AttributeName": "b", "AttributeType": "N"}]
    assert refusal(engine, AttributeDefinitions=redefined, GlobalSecondaryIndexUpdates=[{"Create": index}]) == (
        INVALID + "Attributes cannot be redefined. Please check that your attribute has the same type as previously "
        "defined. Existing schema: Schema:[SchemaElement: key{b:S:HASH}] New schema: "
        "Schema:[SchemaElement: key{b:N:HASH}]"
    )


def test_an_action_on_an_index_that_there_is_not_is_none(engine: Engine) -> None:
    create(engine, indexes="b")
    paint = {"Paint": {"IndexName": "by_b", "KeySchema": hash_key("b"), "Projection": ALL}}
    assert refusal(engine, GlobalSecondaryIndexUpdates=[paint]) == (
        INVALID + "One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
        "GlobalSecondaryIndexUpdate.Delete must not be null"
    )
    update(engine, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by_b"}, **paint}])
    assert "GlobalSecondaryIndexes" not in describe(engine)


def test_a_table_that_goes_tells_little_of_itself(engine: Engine) -> None:
    create(engine, indexes="b")
    told = engine.execute("DeleteTable", {"TableName": "jobs"})["TableDescription"]
    assert told["TableStatus"] == "DELETING" and told["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert not told.keys() & {"KeySchema", "AttributeDefinitions", "CreationDateTime", "GlobalSecondaryIndexes"}


@pytest.mark.parametrize("other", ["S", "N"])
def test_an_attribute_that_is_defined_twice_is_refused(engine: Engine, other: str) -> None:
    create(engine)
    twice = [*definitions("b"), {"AttributeName": "b", "AttributeType": other}]
    assert "Attribute Name is duplicated: b" in refusal(
        engine, AttributeDefinitions=twice, GlobalSecondaryIndexUpdates=made("b")["GlobalSecondaryIndexUpdates"]
    )
    assert [one["AttributeName"] for one in describe(engine)["AttributeDefinitions"]] == ["a"]
