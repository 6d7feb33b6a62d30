"""Members that DynamoDB does not know: it passes over them, at the top of a request and in every structure within it.

A conversation with every operation is held twice, once with a stranger in each structure: the answers are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.engine import Pending
from penstock.engine.requests import REQUESTS, aws_only
from penstock.engine.requests.shapes import AttributeValue, List, Map, Shape, Structure
from penstock.errors import DynamoDBError

Json = dict[str, Any]
Answers = list[tuple[str, Any]]
STRANGERS: Json = {"Stranger": {"S": ["x"]}, "tableName": 7, "": None}

KEY, OTHER = {"pk": {"S": "a"}, "sk": {"N": "1"}}, {"pk": {"S": "b"}, "sk": {"N": "1"}}
ITEM = {**KEY, "g": {"S": "g"}, "m": {"M": {"l": {"L": [{"N": "1"}]}}}, "set": {"SS": ["x"]}}
UNITS = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
DEMAND = {"MaxReadRequestUnits": 5, "MaxWriteRequestUnits": 5}
WARM = {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000}


def index(name: str, *key: str, **more: Any) -> Json:
    roles = zip(key, ("HASH", "RANGE"), strict=False)
    schema = [{"AttributeName": attribute, "KeyType": role} for attribute, role in roles]
    return {"IndexName": name, "KeySchema": schema, "Projection": {"ProjectionType": "KEYS_ONLY"}, **more}


TABLE: Json = {
    "TableName": "table",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": kind} for name, kind in (("pk", "S"), ("sk", "N"), ("g", "S"))
    ],
    "KeySchema": index("", "pk", "sk")["KeySchema"],
    "GlobalSecondaryIndexes": [index("by-g", "g", OnDemandThroughput=DEMAND, WarmThroughput=WARM)],
    "LocalSecondaryIndexes": [index("local", "pk", "g")],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    "SSESpecification": {"Enabled": True, "SSEType": "KMS"},
    "Tags": [{"Key": "k", "Value": "v"}],
    "OnDemandThroughput": DEMAND,
    "WarmThroughput": WARM,
}
PAID = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": UNITS}


def equals(value: Any) -> Json:
    return {"ComparisonOperator": "EQ", "AttributeValueList": [value]}


def control_plane(say: Callable[..., Any]) -> None:
    arn = say("CreateTable", **TABLE)["TableDescription"]["TableArn"]
    plain = {name: TABLE[name] for name in ("AttributeDefinitions", "KeySchema")}
    indexes = [index("by-g", "g", ProvisionedThroughput=UNITS)]
    say("CreateTable", TableName="paid", GlobalSecondaryIndexes=indexes, **plain, **PAID)
    say("ListTables", Limit=10)
    say("DescribeTable", TableName="table")
    say("DescribeLimits")
    say("DescribeEndpoints")
    create = {"Create": index("more", "g", OnDemandThroughput=DEMAND, WarmThroughput=WARM)}
    attributes = {"AttributeDefinitions": TABLE["AttributeDefinitions"]}
    say("UpdateTable", TableName="table", GlobalSecondaryIndexUpdates=[create], **attributes)
    gentle = {"IndexName": "by-g", "OnDemandThroughput": DEMAND, "WarmThroughput": WARM}
    say("UpdateTable", TableName="table", GlobalSecondaryIndexUpdates=[{"Update": gentle}])
    say("UpdateTable", TableName="table", GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "more"}}])
    more = {"IndexName": "by-g", "ProvisionedThroughput": {"ReadCapacityUnits": 2, "WriteCapacityUnits": 2}}
    say("UpdateTable", TableName="paid", GlobalSecondaryIndexUpdates=[{"Update": more}])
    paid = {"Create": index("more", "g", ProvisionedThroughput=UNITS)}
    say("UpdateTable", TableName="paid", GlobalSecondaryIndexUpdates=[paid], **attributes)
    say("UpdateTable", TableName="paid", ProvisionedThroughput={"ReadCapacityUnits": 3, "WriteCapacityUnits": 2})
    say("UpdateTable", TableName="table", StreamSpecification={"StreamEnabled": False})
    say("UpdateTable", TableName="table", StreamSpecification=TABLE["StreamSpecification"])
    say("UpdateTable", TableName="table", SSESpecification={"Enabled": False})
    say("UpdateTable", TableName="table", OnDemandThroughput={"MaxReadRequestUnits": 6, "MaxWriteRequestUnits": 6})
    say("UpdateTable", TableName="table", WarmThroughput=WARM)
    say("UpdateTimeToLive", TableName="table", TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True})
    say("DescribeTimeToLive", TableName="table")
    say("TagResource", ResourceArn=arn, Tags=[{"Key": "l", "Value": "w"}])
    say("UntagResource", ResourceArn=arn, TagKeys=["k"])
    say("ListTagsOfResource", ResourceArn=arn)
    allow = {"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": arn}
    say("PutResourcePolicy", ResourceArn=arn, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    say("GetResourcePolicy", ResourceArn=arn)
    say("DeleteResourcePolicy", ResourceArn=arn)
    say("DescribeTable", TableName="table")
    say("DescribeTable", TableName="paid")


def vectors(say: Callable[..., Any]) -> None:
    shape = {
        "VectorAttribute": {"AttributeName": "v"},
        "Dimensions": 2,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "ALL"},
        "SearchSchema": [{"AttributeName": "g", "SearchSchemaElementType": "HASH"}],
    }
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "g")]
    say(
        "CreateTable",
        TableName="vectors",
        AttributeDefinitions=attributes,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
        VectorIndexes=[{"IndexName": "near", **shape}],
    )
    say("UpdateTable", TableName="vectors", VectorIndexUpdates=[{"Create": {"IndexName": "more", **shape}}])
    say("UpdateTable", TableName="vectors", VectorIndexUpdates=[{"Delete": {"IndexName": "more"}}])
    vector = [{"N": "1"}, {"N": "2"}]
    say("PutItem", TableName="vectors", Item={"pk": {"S": "a"}, "g": {"S": "x"}, "v": {"L": vector}})
    say(
        "SearchVectors",
        TableName="vectors",
        IndexName="near",
        SearchVector=vector,
        TopK=1,
        SearchConditionExpression="g = :g",
        ExpressionAttributeValues={":g": {"S": "x"}},
    )


def reads_and_writes(say: Callable[..., Any]) -> None:
    expected = {"pk": {"ComparisonOperator": "NULL"}, "n": {"Value": {"N": "1"}, "Exists": True}}
    values = {"ExpressionAttributeValues": {":v": {"N": "1"}}, "ExpressionAttributeNames": {"#n": "n"}}
    say("PutItem", TableName="table", Item=ITEM)
    say("PutItem", TableName="paid", Item=KEY)
    say("PutItem", TableName="table", Item=ITEM, Expected=expected, ConditionalOperator="OR")
    say("PutItem", TableName="table", Item=ITEM, ConditionExpression="#n = :v", **values)
    say("GetItem", TableName="table", Key=KEY)
    say("GetItem", TableName="paid", Key=KEY)
    say("GetItem", TableName="table", Key=KEY, ProjectionExpression="#n", ExpressionAttributeNames={"#n": "m"})
    say("UpdateItem", TableName="table", Key=KEY, UpdateExpression="SET #n = :v", ReturnValues="ALL_NEW", **values)
    put = {"n": {"Action": "ADD", "Value": {"N": "1"}}}
    say("UpdateItem", TableName="table", Key=KEY, AttributeUpdates=put, Expected={"n": equals({"N": "1"})})
    say("DeleteItem", TableName="table", Key=OTHER, Expected={"n": {"Exists": False}})
    say("DeleteItem", TableName="table", Key=OTHER, ConditionExpression="#n <> :v", **values)
    start = {"ExclusiveStartKey": KEY}
    say("Query", TableName="table", KeyConditions={"pk": equals(KEY["pk"])}, QueryFilter={"n": equals({"N": "2"})})
    say(
        "Query",
        TableName="table",
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": {"S": "a"}},
        **start,
    )
    say("Scan", TableName="table", ScanFilter={"n": equals({"N": "2"})}, Limit=5, **start)
    say("Scan", TableName="table", FilterExpression="#n = :v", **values)
    say("Scan", TableName="table", Segment=0, TotalSegments=1)
    puts = [{"PutRequest": {"Item": OTHER}}, {"DeleteRequest": {"Key": {"pk": {"S": "c"}, "sk": {"N": "1"}}}}]
    say("BatchWriteItem", RequestItems={"table": puts})
    say("BatchWriteItem", RequestItems={"paid": puts[:1]})
    say("BatchGetItem", RequestItems={"table": {"Keys": [KEY, OTHER], "ProjectionExpression": "pk"}})
    say("TransactGetItems", TransactItems=[{"Get": {"TableName": "table", "Key": KEY}}])
    third = {"pk": {"S": "d"}, "sk": {"N": "1"}}
    actions: list[Json] = [
        {"Put": {"TableName": "table", "Item": third}},
        {"Update": {"TableName": "table", "Key": KEY, "UpdateExpression": "SET #n = :v", **values}},
        {"Delete": {"TableName": "paid", "Key": third}},
        {"ConditionCheck": {"TableName": "table", "Key": OTHER, "ConditionExpression": "attribute_exists(pk)"}},
    ]
    say("TransactWriteItems", TransactItems=actions, ClientRequestToken="token")
    say("TransactWriteItems", TransactItems=actions, ClientRequestToken="token", ReturnConsumedCapacity="TOTAL")
    select = {"Statement": 'SELECT * FROM "table" WHERE pk = ? AND sk = 1', "Parameters": [{"S": "a"}]}
    say("ExecuteStatement", **select)
    say("BatchExecuteStatement", Statements=[select])
    say("ExecuteTransaction", TransactStatements=[select])


def backups_and_streams(say: Callable[..., Any]) -> None:
    pitr = {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 7}
    say("UpdateContinuousBackups", TableName="table", PointInTimeRecoverySpecification=pitr)
    say("DescribeContinuousBackups", TableName="table")
    arn = say("CreateBackup", TableName="table", BackupName="backup")["BackupDetails"]["BackupArn"]
    say("ListBackups", TableName="table")
    say("DescribeBackup", BackupArn=arn)
    override = {
        "BillingModeOverride": "PROVISIONED",
        "ProvisionedThroughputOverride": UNITS,
        "GlobalSecondaryIndexOverride": [index("by-g", "g", ProvisionedThroughput=UNITS)],
        "LocalSecondaryIndexOverride": [index("local", "pk", "g")],
        "SSESpecificationOverride": {"Enabled": False},
    }
    say("RestoreTableFromBackup", TargetTableName="restored", BackupArn=arn, **override)
    demand = {"BillingModeOverride": "PAY_PER_REQUEST", "OnDemandThroughputOverride": DEMAND}
    latest = {"SourceTableName": "table", "UseLatestRestorableTime": True}
    say("RestoreTableToPointInTime", TargetTableName="again", **latest, **demand)
    say("DescribeTable", TableName="restored")
    say("DeleteBackup", BackupArn=arn)
    stream = say("ListStreams", TableName="table")["Streams"][0]["StreamArn"]
    shards = say(
        "DescribeStream", StreamArn=stream, ShardFilter={"Type": "CHILD_SHARDS", "ShardId": "shardId-" + "0" * 28}
    )
    shards = say("DescribeStream", StreamArn=stream)["StreamDescription"]["Shards"]
    place = {"StreamArn": stream, "ShardId": shards[0]["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    say("GetRecords", ShardIterator=say("GetShardIterator", **place)["ShardIterator"])
    say("DeleteTable", TableName="paid")


def exports_and_imports(say: Callable[..., Any]) -> None:
    """All but the lists are refused at the end of their checks: this engine has no buckets."""
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/table"
    say(
        "ExportTableToPointInTime",
        TableArn=arn,
        S3Bucket="bucket",
        ExportType="INCREMENTAL_EXPORT",
        IncrementalExportSpecification={"ExportFromTime": 1},
        FilterSpecification={"FilterExpression": "sk = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}},
    )
    say("DescribeExport", ExportArn=f"{arn}/export/01")
    say("ListExports", TableArn=arn)
    vector = {
        "IndexName": "near",
        "VectorAttribute": {"AttributeName": "v"},
        "Dimensions": 2,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "ALL"},
        "SearchSchema": [{"AttributeName": "g", "SearchSchemaElementType": "HASH"}],
    }
    members = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode", "SSESpecification")
    table = {name: TABLE[name] for name in (*members, "OnDemandThroughput")}
    say(
        "ImportTable",
        S3BucketSource={"S3Bucket": "bucket"},
        InputFormat="CSV",
        InputFormatOptions={"Csv": {"Delimiter": ";"}},
        TableCreationParameters={"TableName": "imported", "VectorIndexes": [vector], **table},
    )
    say("DescribeImport", ImportArn=f"{arn}/import/01")
    say("ListImports", TableArn=arn)


ERRORS = [
    "InvalidExportTimeException",
    "ExportNotFoundException",
    "ValidationException",
    "ImportNotFoundException",
]


def with_strangers(shape: Shape, value: Any, met: set[str]) -> Any:
    """The value with strangers in each structure of it; `met` are the structures."""
    if isinstance(shape, Structure) and isinstance(value, dict):
        met.add(shape.name)
        known = {name: with_strangers(shape.members[name], given, met) for name, given in value.items()}
        return {**STRANGERS, **known, "Zz": []}
    if isinstance(shape, AttributeValue):
        return {"X": 1, **value}
    if isinstance(shape, List):
        return [with_strangers(shape.of, one, met) for one in value]
    if isinstance(shape, Map):
        return {name: with_strangers(shape.of, one, met) for name, one in value.items()}
    return value


class Conversation:
    """Says requests to an engine of its own and notes the answers, without what differs from one to the next."""

    def __init__(self, ask: Callable[[Engine, str, Json], Any], *, strangers: bool) -> None:
        self.clock = ManualClock(1_800_000_000)
        self.engine = Engine(clock=self.clock)
        self.answers: Answers = []
        self.errors: list[str] = []
        self.met: set[str] = set()
        self._ask = ask
        self._strangers = strangers

    def say(self, operation: str, **request: Any) -> Any:
        sent: Json = request
        if self._strangers:
            sent = with_strangers(REQUESTS[operation].structure, request, self.met)
        self.clock.advance(700)  # whatever is being made is made by then
        try:
            answer = self._ask(self.engine, operation, sent)
        except DynamoDBError as error:
            answer = {"error": error.code, "message": error.message, **error.fields}
            self.errors.append(error.code)
        shown = re.sub(r"[0-9a-f-]{16,}|[0-9]{15,}|(?<=\|1\|)[^']+|(?<=-)[0-9a-f]{8}", "…", f"{request} → {answer}")
        self.answers.append((operation, shown))
        return answer


def execute(engine: Engine, operation: str, request: Json) -> Any:
    return engine.execute(operation, request)


def answer(engine: Engine, operation: str, request: Json) -> Any:
    return orjson.loads(engine.answer(operation, request))


def answer_in_group(engine: Engine, operation: str, request: Json) -> Any:
    told = engine.answer_many([Pending("ListTables", {}), Pending(operation, request)])[1]
    if isinstance(told, DynamoDBError):
        raise told
    return orjson.loads(told)


@pytest.mark.parametrize("ask", [execute, answer, answer_in_group])
def test_members_that_dynamodb_does_not_know_change_nothing(ask: Callable[[Engine, str, Json], Any]) -> None:
    plain, strange = Conversation(ask, strangers=False), Conversation(ask, strangers=True)
    for one in (plain, strange):
        with one.engine:
            for part in (control_plane, vectors, reads_and_writes, backups_and_streams, exports_and_imports):
                part(one.say)
    assert plain.errors == ["ConditionalCheckFailedException"] * 2 + ERRORS  # all other requests are right
    for expected, found in zip(plain.answers, strange.answers, strict=True):
        assert found == expected
    known = {shape.name for request in REQUESTS.values() for shape in _structures(request.structure)}
    assert strange.met == known - REFUSED


def _structures(shape: Shape) -> list[Structure]:
    if isinstance(shape, Structure):
        return [shape, *(inner for member in shape.members.values() for inner in _structures(member))]
    return _structures(shape.of) if isinstance(shape, List | Map) else []


# What is described as absent, or refused: its answer depends on no member.
REFUSED = {
    *(shape.name for request in aws_only.REQUESTS.values() for shape in _structures(request.structure)),
    *("ReplicationGroupUpdate", "GlobalTableWitnessGroupUpdate"),
    *(f"{verb}ReplicationGroupMemberAction" for verb in ("Create", "Update", "Delete", "Disassociate")),
    *(f"{verb}GlobalTableWitnessGroupMemberAction" for verb in ("Create", "Delete")),
}
