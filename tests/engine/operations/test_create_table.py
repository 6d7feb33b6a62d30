"""CreateTable, DescribeTable, DeleteTable."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import ManualClock
from penstock.engine import Engine, Settings
from penstock.errors import DynamoDBError, ResourceInUseException, ResourceNotFoundException

INVALID = "One or more parameter values were invalid: "
UNITS = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
ALL = {"ProjectionType": "ALL"}


def definitions(names: str) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def key(*parts: str) -> list[dict[str, str]]:
    """key("a", "-b") has the partition key a and the sort key b."""
    return [
        {"AttributeName": part.lstrip("-"), "KeyType": "RANGE" if part.startswith("-") else "HASH"} for part in parts
    ]


def table(name: str = "jobs", **members: Any) -> dict[str, Any]:
    base = {"TableName": name, "AttributeDefinitions": definitions("a"), "KeySchema": key("a")}
    return base | ({} if "ProvisionedThroughput" in members else {"BillingMode": "PAY_PER_REQUEST"}) | members


def index(name: str, *parts: str, **members: Any) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": key(*parts), "Projection": ALL} | members


def refusal(engine: Engine, operation: str, request: dict[str, Any]) -> str:
    with pytest.raises(DynamoDBError) as refused:
        engine.execute(operation, request)
    return refused.value.message


NO_DEFINITION = "Invalid KeySchema: Some index key attribute have no definition"
SAME_NAME = "Both the Hash Key and the Range Key element in the KeySchema have the same name"
NOT_HASH = "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"
NOT_RANGE = "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"
AB = {"AttributeDefinitions": definitions("ab"), "KeySchema": key("a", "-b")}


def local(*indexes: dict[str, Any]) -> dict[str, Any]:
    return AB | {"LocalSecondaryIndexes": list(indexes)}


def world(*indexes: dict[str, Any], **members: Any) -> dict[str, Any]:
    return AB | {"GlobalSecondaryIndexes": list(indexes)} | members


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "provisioned without units",
        {"BillingMode": "PROVISIONED"},
        INVALID + "ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED",
    ),
    (
        "on demand with units",
        {"ProvisionedThroughput": UNITS, "BillingMode": "PAY_PER_REQUEST"},
        INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is "
        "PAY_PER_REQUEST",
    ),
    (
        "more units than there are",
        {"ProvisionedThroughput": UNITS | {"ReadCapacityUnits": 1_000_000_000_001}},
        "Given value 1000000000001 for ReadCapacityUnits is out of bounds",
    ),
    ("two keys, one definition", {"KeySchema": key("a", "-a")}, NO_DEFINITION),
    (
        "a key without its definition",
        {"AttributeDefinitions": definitions("b")},
        INVALID + "Some index key attributes are not defined in AttributeDefinitions. Keys: [a], "
        "AttributeDefinitions: [b]",
    ),
    ("a definition twice", {"AttributeDefinitions": definitions("aa")}, "Attribute Name is duplicated: a"),
    ("one name for both keys", AB | {"KeySchema": key("a", "a")}, SAME_NAME),
    ("the sort key first", AB | {"KeySchema": key("-a", "b")}, NOT_HASH),
    ("two partition keys", AB | {"KeySchema": key("a", "b")}, NOT_RANGE),
    (
        "a definition too many",
        {"AttributeDefinitions": definitions("ab")},
        INVALID + "Number of attributes in KeySchema does not exactly match number of attributes defined in "
        "AttributeDefinitions",
    ),
    ("an empty list of local indexes", local(), INVALID + "List of LocalSecondaryIndexes is empty"),
    ("an empty list of global indexes", world(), INVALID + "List of GlobalSecondaryIndexes is empty"),
    (
        "a local index on a table without a sort key",
        local(index("abc", "a", "-b")) | {"KeySchema": key("a")},
        INVALID + "Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex",
    ),
    (
        "an index of undefined attributes",
        local(index("abc", "-c", "-d")),
        INVALID + "Some index key attributes are not defined in AttributeDefinitions. Keys: [c, d], "
        "AttributeDefinitions: [a, b]",
    ),
    (
        "a local index without a sort key",
        local(index("abc", "a")),
        INVALID + "Index KeySchema does not have a range key for index: abc",
    ),
    (
        "a local index with another partition key",
        local(index("abc", "b", "-a")),
        INVALID + "Index KeySchema does not have the same leading hash key as table KeySchema for index: abc. "
        "index hash key: b, table hash key: a",
    ),
    ("a local index whose keys are one", local(index("abc", "a", "-a")), SAME_NAME),
    ("a local index with two partition keys", local(index("abc", "a", "b")), NOT_RANGE),
    ("a global index with the sort key first", world(index("abc", "-a")), NOT_HASH),
    ("a global index whose keys are one", world(index("abc", "a", "-a")), SAME_NAME),
    (
        "an attribute three times in a global key",
        world(index("abc", "a", "-b", "-b")),
        "The KeySchema contains multiple key attributes with the same name",
    ),
    (
        "partition attributes after sort attributes",
        world(index("abc", "a", "-b", "c"), AttributeDefinitions=definitions("abc")),
        INVALID + "All HASH key attributes must precede RANGE key attributes in the KeySchema",
    ),
    (
        "five partition attributes",
        world(index("abc", *"abcde"), AttributeDefinitions=definitions("abcde")),
        INVALID + "The KeySchema exceeds the maximum allowed number of HASH key attributes",
    ),
    (
        "five sort attributes",
        world(index("abc", "a", "-b", "-c", "-d", "-e", "-f"), AttributeDefinitions=definitions("abcdef")),
        INVALID + "The KeySchema exceeds the maximum allowed number of RANGE key attributes",
    ),
    (
        "a definition that no key uses",
        world(index("abc", "a"), AttributeDefinitions=definitions("abc")),
        INVALID + "Some AttributeDefinitions are not used. AttributeDefinitions: [a, b, c], keys used: [a, b]",
    ),
    (
        "no projection type",
        world(index("abc", "a", Projection={})),
        INVALID + "Unknown ProjectionType: null",
    ),
    (
        "names for a projection of keys",
        local(index("abc", "a", "-b", Projection={"ProjectionType": "KEYS_ONLY", "NonKeyAttributes": ["x"]})),
        INVALID + "ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified",
    ),
    (
        "no names to include",
        world(index("abc", "a", Projection={"ProjectionType": "INCLUDE"})),
        INVALID + "ProjectionType is INCLUDE, but NonKeyAttributes is not specified",
    ),
    (
        "a name included twice",
        world(index("abc", "a", Projection={"ProjectionType": "INCLUDE", "NonKeyAttributes": ["x", "x"]})),
        INVALID + "Duplicate element in NonKeyAttributes: x",
    ),
    (
        "two indexes of one name",
        world(index("abc", "a"), LocalSecondaryIndexes=[index("abc", "a", "-b")]),
        INVALID + "Duplicate index name: abc",
    ),
    (
        "units for an index of an on-demand table",
        world(index("abc", "a", ProvisionedThroughput=UNITS)),
        INVALID + "ProvisionedThroughput should not be specified for index: abc when BillingMode is PAY_PER_REQUEST",
    ),
    (
        "no units for an index of a provisioned table",
        world(index("abc", "a"), ProvisionedThroughput=UNITS),
        INVALID + "ProvisionedThroughput is not specified for index: abc",
    ),
    (
        "six local indexes",
        local(*(index(f"abc{n}", "a", "-b") for n in range(6))),
        INVALID + "Number of LocalSecondaryIndexes exceeds per-table limit of 5",
    ),
    (
        "twenty-one global indexes",
        world(*(index(f"abc{n}", "a") for n in range(21))),
        INVALID + "GlobalSecondaryIndex count exceeds the per-table limit of 20",
    ),
    (
        "a stream without a view",
        {"StreamSpecification": {"StreamEnabled": True}},
        INVALID + "Table is being created with a stream enabled, UpdateViewType is required",
    ),
    (
        "a view without a stream",
        {"StreamSpecification": {"StreamEnabled": False, "StreamViewType": "NEW_IMAGE"}},
        INVALID + "Table is being created with a stream disabled, UpdateViewType should not be specified",
    ),
    (
        "a maximum for a provisioned table",
        {"ProvisionedThroughput": UNITS, "OnDemandThroughput": {"MaxReadRequestUnits": 5}},
        INVALID + "MaxReadRequestUnits for OnDemandThroughput cannot be specified when table BillingMode is "
        "PROVISIONED.",
    ),
    (
        "a maximum of nothing",
        {"OnDemandThroughput": {"MaxReadRequestUnits": 0}},
        INVALID + "Requested MaxReadRequestUnits for OnDemandThroughput for table is outside of valid range",
    ),
    (
        "a cold warm throughput",
        {"WarmThroughput": {"ReadUnitsPerSecond": 100}},
        INVALID + "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than initial "
        "throughput for OnDemand",
    ),
    (
        "a key for encryption that is off",
        {"SSESpecification": {"Enabled": False, "KMSMasterKeyId": "x"}},
        INVALID + "KMSMasterKeyId can not be specified if Enabled is false",
    ),
    (
        "something that is not here",
        {"GlobalTableSourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/other"},
        INVALID + "GlobalTableSourceArn is not supported by this endpoint",
    ),
    (
        "a reserved tag",
        {"Tags": [{"Key": "aws:x", "Value": ""}]},
        "Tag Key cannot be prefixed with aws:, Key: aws:x",
    ),
]


@pytest.fixture(scope="module")
def empty() -> Any:
    with Engine() as engine:
        yield engine


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_a_wrong_definition_is_refused(empty: Engine, members: dict[str, Any], message: str) -> None:
    assert refusal(empty, "CreateTable", table(**members)) == message


def test_the_answer_to_a_plain_table_says_creating_and_no_more_than_it_must(engine: Engine) -> None:
    answer = engine.execute("CreateTable", table(ProvisionedThroughput=UNITS))["TableDescription"]
    assert {name for name in answer if name not in ("TableId", "CreationDateTime")} == {
        "AttributeDefinitions",
        "ItemCount",
        "KeySchema",
        "ProvisionedThroughput",
        "TableArn",
        "TableName",
        "TableSizeBytes",
        "TableStatus",
    }
    assert answer["TableStatus"] == "CREATING"
    assert answer["ProvisionedThroughput"] == UNITS | {"NumberOfDecreasesToday": 0}


def test_a_described_table_is_active_and_complete(engine: Engine) -> None:
    engine.execute(
        "CreateTable",
        table(
            AttributeDefinitions=definitions("bgae"),
            KeySchema=key("a", "-b"),
            LocalSecondaryIndexes=[index("by_e", "a", "-e")],
            GlobalSecondaryIndexes=[
                index("by_g", "g", Projection={"ProjectionType": "INCLUDE", "NonKeyAttributes": ["y", "x"]})
            ],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "abc"},
            TableClass="STANDARD_INFREQUENT_ACCESS",
            DeletionProtectionEnabled=True,
            OnDemandThroughput={"MaxReadRequestUnits": 5},
        ),
    )
    item = {"a": {"S": "1"}, "b": {"S": "2"}, "g": {"S": "3"}, "x": {"S": "4"}, "z": {"S": "5"}}
    engine.execute("PutItem", {"TableName": "jobs", "Item": item})
    described = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"
    assert described["TableArn"] == arn
    assert [one["AttributeName"] for one in described["AttributeDefinitions"]] == ["a", "b", "e", "g"]
    assert (described["TableStatus"], described["ItemCount"], described["TableSizeBytes"]) == ("ACTIVE", 1, 10)
    assert described["LocalSecondaryIndexes"] == [
        {
            "IndexName": "by_e",
            "KeySchema": key("a", "-e"),
            "Projection": ALL,
            "IndexArn": f"{arn}/index/by_e",
            "IndexSizeBytes": 0,
            "ItemCount": 0,
        }
    ]
    (by_g,) = described["GlobalSecondaryIndexes"]
    assert by_g["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["x", "y"]}
    assert (by_g["IndexStatus"], by_g["ItemCount"], by_g["IndexSizeBytes"]) == ("ACTIVE", 1, 8)
    assert "Backfilling" not in by_g
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["SSEDescription"] == {
        "Status": "ENABLED",
        "SSEType": "KMS",
        "KMSMasterKeyArn": "arn:aws:kms:us-east-1:000000000000:key/abc",
    }
    assert described["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert described["DeletionProtectionEnabled"] is True
    assert described["OnDemandThroughput"] == {"MaxReadRequestUnits": 5}
    assert described["WarmThroughput"] == {
        "ReadUnitsPerSecond": 12_000,
        "WriteUnitsPerSecond": 4_000,
        "Status": "ACTIVE",
    }
    assert described["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    assert described["LatestStreamArn"] == f"{arn}/stream/{described['LatestStreamLabel']}"


def test_a_global_key_may_have_four_partition_and_four_sort_attributes(engine: Engine) -> None:
    many = index("wide", *"bcde", "-f", "-g", "-h", "-i")
    names = definitions("abcdefghi")
    engine.execute("CreateTable", table(AttributeDefinitions=names, GlobalSecondaryIndexes=[many]))
    described = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    assert described["GlobalSecondaryIndexes"][0]["KeySchema"] == many["KeySchema"]


def test_a_name_is_given_once(engine: Engine) -> None:
    engine.execute("CreateTable", table())
    with pytest.raises(ResourceInUseException, match="Table already exists: jobs"):
        engine.execute("CreateTable", table())


def test_a_table_may_be_described_by_its_arn(engine: Engine) -> None:
    arn = engine.execute("CreateTable", table())["TableDescription"]["TableArn"]
    assert engine.execute("DescribeTable", {"TableName": arn})["Table"]["TableName"] == "jobs"


def test_a_table_may_be_made_by_its_arn(engine: Engine) -> None:
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"
    assert engine.execute("CreateTable", table(arn))["TableDescription"]["TableName"] == "jobs"
    for wrong in (arn.replace("us-east-1", "eu-west-2"), "arn:what"):
        assert "Invalid AWS region" in refusal(engine, "CreateTable", table(wrong))


def test_a_deleted_table_is_gone_and_its_name_is_free(engine: Engine) -> None:
    engine.execute("CreateTable", table())
    engine.execute("PutItem", {"TableName": "jobs", "Item": {"a": {"S": "1"}}})
    deleted = engine.execute("DeleteTable", {"TableName": "jobs"})["TableDescription"]
    assert deleted["TableStatus"] == "DELETING"
    missing = "Requested resource not found: Table: jobs not found"
    for operation in ("DescribeTable", "DeleteTable"):
        with pytest.raises(ResourceNotFoundException) as refused:
            engine.execute(operation, {"TableName": "jobs"})
        assert refused.value.message == missing
    engine.execute("CreateTable", table())
    assert engine.execute("Scan", {"TableName": "jobs"})["Items"] == []


def test_a_protected_table_is_not_deleted(engine: Engine) -> None:
    engine.execute("CreateTable", table(DeletionProtectionEnabled=True))
    assert refusal(engine, "DeleteTable", {"TableName": "jobs"}) == (
        "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first."
    )
    engine.execute("UpdateTable", {"TableName": "jobs", "DeletionProtectionEnabled": False})
    engine.execute("DeleteTable", {"TableName": "jobs"})


def status(engine: Engine) -> str:
    found: str = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]["TableStatus"]
    return found


def test_with_a_delay_a_table_is_created_and_deleted_in_its_own_time() -> None:
    clock = ManualClock()
    busy = "Attempt to change a resource which is still in use: Table is being "
    with Engine(clock=clock, settings=Settings(table_delay_seconds=10)) as engine:
        engine.execute("CreateTable", table())
        assert status(engine) == "CREATING"
        assert refusal(engine, "DeleteTable", {"TableName": "jobs"}) == busy + "created: jobs"
        assert refusal(engine, "Scan", {"TableName": "jobs"}) == "Requested resource not found"
        clock.advance(10)
        assert status(engine) == "ACTIVE"
        engine.execute("Scan", {"TableName": "jobs"})
        engine.execute("DeleteTable", {"TableName": "jobs"})
        assert status(engine) == "DELETING"
        assert refusal(engine, "DeleteTable", {"TableName": "jobs"}) == busy + "deleted: jobs"
        assert engine.execute("ListTables", {})["TableNames"] == ["jobs"]
        clock.advance(10)
        assert refusal(engine, "DescribeTable", {"TableName": "jobs"}).endswith("Table: jobs not found")
        assert engine.execute("ListTables", {})["TableNames"] == []
        engine.execute("CreateTable", table())
        assert status(engine) == "CREATING"


def test_the_background_sweeps_what_is_over(path: str) -> None:
    clock = ManualClock()
    with Engine(path, clock=clock, settings=Settings(table_delay_seconds=10)) as engine:
        engine.execute("CreateTable", table())
        engine.execute("CreateTable", table("kept"))
        clock.advance(11)
        engine.execute("DeleteTable", {"TableName": "jobs"})
        clock.advance(11)
        engine.maintenance.run_due()
        with engine.reading() as call:
            records = {one.name: one.record for one in engine.catalog.all(call.db)}
        assert set(records) == {"kept"}
        assert not {"unsettled", "active_at"} & set(records["kept"])
