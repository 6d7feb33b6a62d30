"""Every operation's answer is what botocore's model describes: names, types, enums, required members."""

from __future__ import annotations

from collections.abc import Iterator
from time import sleep
from typing import Any

import boto3
import pytest
from answer_shapes import differences
from botocore.exceptions import ClientError
from orders import order, orders_table

from penstock.engine.registry import OPERATIONS

KEY = {name: order("ada", 1)[name] for name in ("customer", "order")}
EVERYTHING = {"ReturnConsumedCapacity": "INDEXES"}
EVERYTHING_OF_A_WRITE = EVERYTHING | {"ReturnItemCollectionMetrics": "SIZE"}
ITEM = order("ada", 1) | {
    "state": {"S": "open"},
    "all": {"L": [{"M": {"x": {"NULL": True}}}, {"BOOL": False}, {"B": b"\x00"}, {"SS": ["a"]}, {"NS": ["1"]}]},
    "blobs": {"BS": [b"\xff"]},
}
POLICY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "000000000000"}, '
    '"Action": "dynamodb:GetItem", "Resource": "*"}]}'
)


def table_with_everything(name: str) -> dict[str, Any]:
    table = orders_table(name)
    table["AttributeDefinitions"].append({"AttributeName": "state", "AttributeType": "S"})
    by_state = {"AttributeName": "state", "KeyType": "HASH"}
    by_customer = [table["KeySchema"][0], {"AttributeName": "state", "KeyType": "RANGE"}]
    some = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["cents"]}
    return table | {
        "GlobalSecondaryIndexes": [{"IndexName": "by_state", "KeySchema": [by_state], "Projection": some}],
        "LocalSecondaryIndexes": [
            {"IndexName": "local", "KeySchema": by_customer, "Projection": {"ProjectionType": "ALL"}}
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        "SSESpecification": {"Enabled": True},
        "Tags": [{"Key": "team", "Value": "ledger"}],
        "TableClass": "STANDARD_INFREQUENT_ACCESS",
        "OnDemandThroughput": {"MaxReadRequestUnits": 10, "MaxWriteRequestUnits": 10},
    }


@pytest.fixture
def asked(dynamodb: Any, streams: Any) -> Iterator[set[str]]:
    """The names of the operations that the test has called."""
    names: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        names.add(model.name)

    for client in (dynamodb, streams):
        client.meta.events.register("before-call.*", note)
    yield names
    for client in (dynamodb, streams):
        client.meta.events.unregister("before-call.*", note)


def test_every_operation_answers_what_its_model_describes(
    dynamodb: Any, streams: Any, table_name: str, asked: set[str]
):
    table = dynamodb.create_table(**table_with_everything(table_name))["TableDescription"]
    dynamodb.get_waiter("table_exists").wait(TableName=table_name, WaiterConfig={"Delay": 1})
    _items(dynamodb, table_name)
    _batches_and_transactions(dynamodb, table_name)
    _statements(dynamodb, table_name)
    _stream(streams, table["LatestStreamArn"], table_name)
    _settings(dynamodb, table)
    _backups(dynamodb, table_name)
    _vectors(dynamodb, f"{table_name}-vectors")
    _transfers(dynamodb, table)
    _what_only_aws_has(dynamodb, table_name)
    dynamodb.delete_table(TableName=table_name)
    models = (dynamodb.meta.service_model, streams.meta.service_model)
    assert asked == set(OPERATIONS) & {name for model in models for name in model.operation_names}


def _items(dynamodb: Any, table: str) -> None:
    dynamodb.put_item(TableName=table, Item=ITEM, ReturnValues="ALL_OLD", **EVERYTHING_OF_A_WRITE)
    dynamodb.get_item(TableName=table, Key=KEY, **EVERYTHING)
    dynamodb.update_item(
        TableName=table,
        Key=KEY,
        UpdateExpression="ADD cents :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="ALL_NEW",
        **EVERYTHING_OF_A_WRITE,
    )
    by_state = {"KeyConditionExpression": "#s = :s", "ExpressionAttributeNames": {"#s": "state"}}
    values = {":s": {"S": "open"}}
    dynamodb.query(
        TableName=table, IndexName="by_state", Limit=1, ExpressionAttributeValues=values, **by_state, **EVERYTHING
    )
    dynamodb.scan(TableName=table, Limit=1, **EVERYTHING)
    dynamodb.delete_item(TableName=table, Key=KEY, ReturnValues="ALL_OLD", **EVERYTHING_OF_A_WRITE)


def _batches_and_transactions(dynamodb: Any, table: str) -> None:
    put = {"Item": ITEM}
    dynamodb.batch_write_item(RequestItems={table: [{"PutRequest": put}]}, **EVERYTHING_OF_A_WRITE)
    dynamodb.batch_get_item(RequestItems={table: {"Keys": [KEY]}}, **EVERYTHING)
    dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": table, **put}}], **EVERYTHING_OF_A_WRITE)
    dynamodb.transact_get_items(TransactItems=[{"Get": {"TableName": table, "Key": KEY}}], **EVERYTHING)


def _statements(dynamodb: Any, table: str) -> None:
    one = f'SELECT * FROM "{table}" WHERE customer = \'ada\' AND "order" = 1'
    missing = {"Statement": 'SELECT * FROM "no-such-table" WHERE id = 1'}
    dynamodb.execute_statement(Statement=f'SELECT * FROM "{table}"', Limit=1, **EVERYTHING)
    dynamodb.batch_execute_statement(Statements=[{"Statement": one}, missing], **EVERYTHING)
    dynamodb.execute_transaction(TransactStatements=[{"Statement": one}], **EVERYTHING)


def _stream(streams: Any, arn: str, table: str) -> None:
    streams.list_streams(TableName=table)
    (shard, *_) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    start = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    assert streams.get_records(ShardIterator=streams.get_shard_iterator(**start)["ShardIterator"])["Records"]


def _settings(dynamodb: Any, table: dict[str, Any]) -> None:
    name, arn = table["TableName"], table["TableArn"]
    ttl = {"Enabled": True, "AttributeName": "expires_at"}
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=ttl)
    dynamodb.describe_time_to_live(TableName=name)
    dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    dynamodb.untag_resource(ResourceArn=arn, TagKeys=["stage"])
    dynamodb.list_tags_of_resource(ResourceArn=arn)
    dynamodb.put_resource_policy(ResourceArn=arn, Policy=POLICY)
    dynamodb.get_resource_policy(ResourceArn=arn)
    dynamodb.delete_resource_policy(ResourceArn=arn)
    provisioned = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
    index = {"Update": {"IndexName": "by_state", "ProvisionedThroughput": provisioned}}
    dynamodb.update_table(
        TableName=name,
        BillingMode="PROVISIONED",
        ProvisionedThroughput=provisioned,
        GlobalSecondaryIndexUpdates=[index],
    )
    dynamodb.describe_table(TableName=name)
    dynamodb.list_tables(Limit=1)
    dynamodb.describe_limits()
    dynamodb.describe_endpoints()


def _backups(dynamodb: Any, table: str) -> None:
    pitr = {"PointInTimeRecoveryEnabled": True}
    dynamodb.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=pitr)
    dynamodb.describe_continuous_backups(TableName=table)
    backup = dynamodb.create_backup(TableName=table, BackupName="nightly")["BackupDetails"]["BackupArn"]
    dynamodb.describe_backup(BackupArn=backup)
    dynamodb.list_backups(TableName=table)
    names = [f"{table}-from-backup", f"{table}-from-time"]
    dynamodb.restore_table_from_backup(TargetTableName=names[0], BackupArn=backup)
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=table, TargetTableName=names[1], UseLatestRestorableTime=True
    )
    for name in names:
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        dynamodb.delete_table(TableName=name)
    dynamodb.delete_backup(BackupArn=backup)


def _vectors(dynamodb: Any, table: str) -> None:
    index = {
        "IndexName": "by_meaning",
        "VectorAttribute": {"AttributeName": "meaning"},
        "Dimensions": 2,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "ALL"},
    }
    dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        VectorIndexes=[index],
    )
    dynamodb.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
    vector = [{"N": "1"}, {"N": "0.5"}]
    dynamodb.put_item(TableName=table, Item={"id": {"S": "a"}, "meaning": {"L": vector}}, **EVERYTHING_OF_A_WRITE)
    dynamodb.search_vectors(TableName=table, IndexName="by_meaning", SearchVector=vector, TopK=1, **EVERYTHING)
    dynamodb.delete_table(TableName=table)


def _transfers(dynamodb: Any, table: dict[str, Any]) -> None:
    bucket = "clients"
    export = dynamodb.export_table_to_point_in_time(TableArn=table["TableArn"], S3Bucket=bucket)["ExportDescription"]
    while export["ExportStatus"] == "IN_PROGRESS":
        export = dynamodb.describe_export(ExportArn=export["ExportArn"])["ExportDescription"]
        sleep(0.05)
    assert export["ItemCount"]
    dynamodb.list_exports(TableArn=table["TableArn"])
    name = f"{table['TableName']}-imported"
    keys = {one["AttributeName"] for one in table["KeySchema"]}
    told = dynamodb.import_table(
        S3BucketSource={
            "S3Bucket": bucket,
            "S3KeyPrefix": export["ExportManifest"].replace("manifest-summary.json", "data/"),
        },
        InputFormat="DYNAMODB_JSON",
        InputCompressionType="GZIP",
        TableCreationParameters={
            "TableName": name,
            "KeySchema": table["KeySchema"],
            "AttributeDefinitions": [one for one in table["AttributeDefinitions"] if one["AttributeName"] in keys],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )["ImportTableDescription"]
    while told["ImportStatus"] == "IN_PROGRESS":
        told = dynamodb.describe_import(ImportArn=told["ImportArn"])["ImportTableDescription"]
        sleep(0.05)
    assert told["ImportedItemCount"] == export["ItemCount"]
    dynamodb.list_imports()
    dynamodb.delete_table(TableName=name)


def _what_only_aws_has(dynamodb: Any, table: str) -> None:
    """Described as absent, or refused; tests/engine/operations/test_aws_only.py has the texts."""
    dynamodb.describe_contributor_insights(TableName=table)
    dynamodb.list_contributor_insights()
    dynamodb.update_contributor_insights(TableName=table, ContributorInsightsAction="DISABLE")
    dynamodb.describe_kinesis_streaming_destination(TableName=table)
    dynamodb.list_global_tables()
    stream = {"TableName": table, "StreamArn": "arn:aws:kinesis:us-east-1:000000000000:stream/changes"}
    named = {"GlobalTableName": table}
    for call, request in (
        (dynamodb.enable_kinesis_streaming_destination, stream),
        (dynamodb.disable_kinesis_streaming_destination, stream),
        (dynamodb.update_kinesis_streaming_destination, stream),
        (dynamodb.create_global_table, {**named, "ReplicationGroup": []}),
        (dynamodb.update_global_table, {**named, "ReplicaUpdates": []}),
        (dynamodb.describe_global_table, named),
        (dynamodb.describe_global_table_settings, named),
        (dynamodb.update_global_table_settings, named),
        (dynamodb.describe_table_replica_auto_scaling, {"TableName": table}),
        (dynamodb.update_table_replica_auto_scaling, {"TableName": table}),
    ):
        with pytest.raises(ClientError):
            call(**request)


def test_a_wrong_answer_would_be_noticed(boto_session: boto3.session.Session):
    shape = boto_session.client("dynamodb").meta.service_model.operation_model("DescribeTable").output_shape
    answer = {"Table": {"TableName": 1, "TableStatus": "READY", "Items": 3, "ItemCount": "3"}}
    assert sorted(differences(shape, answer, "answer")) == [
        "answer.Table.ItemCount: '3' is not a long",
        "answer.Table.TableName: 1 is not a string",
        f"answer.Table.TableStatus: 'READY' is none of {shape.members['Table'].members['TableStatus'].enum}",
        "answer.Table: unknown member Items",
    ]
