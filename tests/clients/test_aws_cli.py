"""The AWS CLI, each story a sequence of commands as one types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cli import Aws


@pytest.fixture
def aws(server: str, client_environment: dict[str, str]) -> Aws:
    return Aws(server, client_environment)


def dump(value: object) -> str:
    return json.dumps(value)


def key(number: int) -> str:
    return dump({"customer": {"S": "ada"}, "order": {"N": str(number)}})


def item(number: int, **more: Any) -> str:
    return dump({"customer": {"S": "ada"}, "order": {"N": str(number)}, **more})


def order_numbers(answer: dict[str, Any]) -> list[int]:
    return [int(found["order"]["N"]) for found in answer["Items"]]


def test_a_table_lives_from_create_to_delete(aws: Aws, table_name: str):
    made = aws(
        *("create-table", "--table-name", table_name, "--billing-mode", "PAY_PER_REQUEST"),
        *("--attribute-definitions", "AttributeName=id,AttributeType=S", "AttributeName=at,AttributeType=N"),
        *("--key-schema", "AttributeName=id,KeyType=HASH", "AttributeName=at,KeyType=RANGE"),
    )["TableDescription"]
    assert made["TableName"] == table_name
    assert made["TableStatus"] in ("CREATING", "ACTIVE")
    aws("wait", "table-exists", "--table-name", table_name)
    assert aws("describe-table", "--table-name", table_name, "--query", "Table.TableStatus") == "ACTIVE"
    assert table_name in aws("list-tables", "--page-size", "2")["TableNames"]

    updates = dump(
        [
            {
                "Create": {
                    "IndexName": "by_at",
                    "KeySchema": [{"AttributeName": "at", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            }
        ]
    )
    definition = ("--attribute-definitions", "AttributeName=at,AttributeType=N")
    aws("update-table", "--table-name", table_name, *definition, "--global-secondary-index-updates", updates)
    index = "Table.GlobalSecondaryIndexes[0].IndexName"
    assert aws("describe-table", "--table-name", table_name, "--query", index) == "by_at"

    aws("delete-table", "--table-name", table_name)
    aws("wait", "table-not-exists", "--table-name", table_name)
    assert "ResourceNotFoundException" in aws.refusal("describe-table", "--table-name", table_name)


def test_an_item_is_put_read_updated_and_deleted(aws: Aws, orders: str):
    aws("put-item", "--table-name", orders, "--item", item(1, cents={"N": "10"}, tags={"SS": ["b", "a"]}))
    read = aws("get-item", "--table-name", orders, "--key", key(1), "--consistent-read")["Item"]
    assert read["cents"] == {"N": "10"}
    assert sorted(read["tags"]["SS"]) == ["a", "b"]

    updated = aws(
        *("update-item", "--table-name", orders, "--key", key(1), "--return-values", "ALL_NEW"),
        *("--update-expression", "SET #t = #t + :more REMOVE tags"),
        *("--expression-attribute-names", '{"#t": "cents"}'),
        *("--expression-attribute-values", '{":more": {"N": "5"}}'),
    )
    assert updated["Attributes"] == json.loads(item(1, cents={"N": "15"}))

    gone = aws("delete-item", "--table-name", orders, "--key", key(1), "--return-values", "ALL_OLD")
    assert gone["Attributes"]["cents"] == {"N": "15"}
    assert aws("get-item", "--table-name", orders, "--key", key(1)) is None


def test_a_refused_condition_is_told_in_dynamodbs_words(aws: Aws, full_orders: str):
    assert aws.refusal(
        *("put-item", "--table-name", full_orders, "--item", item(1)),
        *("--condition-expression", "attribute_not_exists(customer)"),
    ).endswith(
        "An error occurred (ConditionalCheckFailedException) when calling the PutItem operation: "
        "The conditional request failed"
    )


def test_a_query_is_read_page_by_page(aws: Aws, full_orders: str):
    query = (
        *("query", "--table-name", full_orders, "--key-condition-expression", "customer = :c"),
        *("--expression-attribute-values", '{":c": {"S": "ada"}}'),
    )
    whole = aws(*query, "--page-size", "4")
    assert order_numbers(whole) == list(range(25))
    assert whole["Count"] == 25

    first = aws(*query, "--page-size", "4", "--max-items", "7")
    assert order_numbers(first) == list(range(7))
    rest = aws(*query, "--starting-token", first["NextToken"])
    assert order_numbers(rest) == list(range(7, 25))
    assert "NextToken" not in rest

    one_page = aws(*query, "--no-paginate", "--limit", "3", "--no-scan-index-forward")
    assert order_numbers(one_page) == [24, 23, 22]
    assert one_page["LastEvaluatedKey"] == json.loads(key(22))


def test_a_scan_is_read_page_by_page(aws: Aws, full_orders: str):
    filtered = (
        *("scan", "--table-name", full_orders, "--filter-expression", "cents >= :least"),
        *("--expression-attribute-values", '{":least": {"N": "200"}}'),
    )
    assert order_numbers(aws(*filtered, "--page-size", "10")) == [20, 21, 22, 23, 24]
    counted = aws("scan", "--table-name", full_orders, "--select", "COUNT", "--page-size", "6")
    assert (counted["Count"], counted["ScannedCount"]) == (25, 25)


def test_batches_write_and_read(aws: Aws, orders: str, tmp_path: Path):
    requests = tmp_path / "requests.json"
    puts = [{"PutRequest": {"Item": json.loads(item(number))}} for number in range(25)]
    requests.write_text(dump({orders: puts}))
    assert aws("batch-write-item", "--request-items", f"file://{requests}") == {"UnprocessedItems": {}}
    wanted = {orders: {"Keys": [json.loads(key(number)) for number in (3, 24, 99)]}}
    found = aws("batch-get-item", "--request-items", dump(wanted))["Responses"][orders]
    assert sorted(int(each["order"]["N"]) for each in found) == [3, 24]


def test_a_transaction_is_all_or_nothing(aws: Aws, full_orders: str):
    def condition(text: str) -> dict[str, Any]:
        return {"ConditionCheck": {"TableName": full_orders, "Key": json.loads(key(0)), "ConditionExpression": text}}

    put = {"Put": {"TableName": full_orders, "Item": json.loads(item(100))}}
    refused = aws.refusal("transact-write-items", "--transact-items", dump([put, condition("cents > customer")]))
    assert "TransactionCanceledException" in refused
    assert "[None, ConditionalCheckFailed]" in refused
    assert aws("get-item", "--table-name", full_orders, "--key", key(100)) is None

    aws("transact-write-items", "--transact-items", dump([put, condition("attribute_exists(cents)")]))
    gets = [{"Get": {"TableName": full_orders, "Key": json.loads(key(number))}} for number in (100, 101)]
    answer = aws("transact-get-items", "--transact-items", dump(gets))
    assert answer["Responses"] == [{"Item": json.loads(item(100))}, {}]


def test_partiql_inserts_selects_updates_and_deletes(aws: Aws, orders: str):
    def run(statement: str, *parameters: dict[str, str]) -> Any:
        given = ("--parameters", dump(parameters)) if parameters else ()
        return aws("execute-statement", "--statement", statement, *given)

    ada = {"S": "ada"}
    run(f"INSERT INTO \"{orders}\" VALUE {{'customer': ?, 'order': 1, 'cents': 10}}", ada)
    run(f'UPDATE "{orders}" SET cents = 11 WHERE customer = ? AND "order" = 1', ada)
    selected = run(f'SELECT cents FROM "{orders}" WHERE customer = ?', ada)
    assert selected["Items"] == [{"cents": {"N": "11"}}]

    reads = [
        {"Statement": f'SELECT * FROM "{orders}" WHERE customer = \'ada\' AND "order" = {number}'} for number in (1, 2)
    ]
    batch = aws("batch-execute-statement", "--statements", dump(reads))["Responses"]
    assert [answer.get("Item", {}).get("cents") for answer in batch] == [{"N": "11"}, None]
    insert = {"Statement": f"INSERT INTO \"{orders}\" VALUE {{'customer': 'ada', 'order': 2}}"}
    aws("execute-transaction", "--transact-statements", dump([insert]))
    run(f'DELETE FROM "{orders}" WHERE customer = ? AND "order" = 1', ada)
    left = run(f'SELECT "order" FROM "{orders}"')
    assert left["Items"] == [{"order": {"N": "2"}}]


def test_time_to_live_is_switched_on(aws: Aws, orders: str):
    specification = ("--time-to-live-specification", "Enabled=true,AttributeName=expires_at")
    answer = aws("update-time-to-live", "--table-name", orders, *specification)
    assert answer["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "expires_at"}
    described = aws("describe-time-to-live", "--table-name", orders)["TimeToLiveDescription"]
    assert described["AttributeName"] == "expires_at"
    assert described["TimeToLiveStatus"] in ("ENABLING", "ENABLED")


def test_a_stream_tells_what_happened(aws: Aws, make_table: Callable[..., str], dynamodb: Any):
    view = "NEW_AND_OLD_IMAGES"
    table = make_table(StreamSpecification={"StreamEnabled": True, "StreamViewType": view})
    dynamodb.put_item(TableName=table, Item=json.loads(item(1, cents={"N": "1"})))
    dynamodb.delete_item(TableName=table, Key=json.loads(key(1)))

    def ask(*words: str) -> Any:
        return aws(*words, service="dynamodbstreams")

    (stream,) = ask("list-streams", "--table-name", table)["Streams"]
    arn = stream["StreamArn"]
    description = ask("describe-stream", "--stream-arn", arn)["StreamDescription"]
    assert (description["StreamStatus"], description["StreamViewType"]) == ("ENABLED", view)
    shard = description["Shards"][0]["ShardId"]
    start = ("--shard-id", shard, "--shard-iterator-type", "TRIM_HORIZON")
    iterator = ask("get-shard-iterator", "--stream-arn", arn, *start)["ShardIterator"]
    records = ask("get-records", "--shard-iterator", iterator)["Records"]
    assert [record["eventName"] for record in records] == ["INSERT", "REMOVE"]
    assert records[0]["dynamodb"]["NewImage"] == records[1]["dynamodb"]["OldImage"]


def test_tags_are_set_listed_and_removed(aws: Aws, orders: str, dynamodb: Any):
    arn = dynamodb.describe_table(TableName=orders)["Table"]["TableArn"]
    on_it = ("--resource-arn", arn)
    aws("tag-resource", *on_it, "--tags", "Key=team,Value=ledger", "Key=stage,Value=test")
    aws("untag-resource", *on_it, "--tag-keys", "stage")
    assert aws("list-tags-of-resource", *on_it)["Tags"] == [{"Key": "team", "Value": "ledger"}]


def test_a_backup_is_made_listed_restored_and_deleted(aws: Aws, full_orders: str, dynamodb: Any):
    made = aws("create-backup", "--table-name", full_orders, "--backup-name", "nightly")["BackupDetails"]
    on_it = ("--backup-arn", made["BackupArn"])
    listed = aws("list-backups", "--table-name", full_orders)["BackupSummaries"]
    assert [backup["BackupName"] for backup in listed] == ["nightly"]
    status = aws("describe-backup", *on_it, "--query", "BackupDescription.BackupDetails.BackupStatus")
    assert status == "AVAILABLE"

    restored = f"{full_orders}-restored"
    aws("restore-table-from-backup", "--target-table-name", restored, *on_it)
    aws("wait", "table-exists", "--table-name", restored)
    assert dynamodb.scan(TableName=restored)["Count"] == 25
    dynamodb.delete_table(TableName=restored)
    assert aws("delete-backup", *on_it)["BackupDescription"]["BackupDetails"]["BackupStatus"] == "DELETED"


def test_a_table_is_restored_to_a_point_in_time(aws: Aws, full_orders: str, dynamodb: Any):
    enable = ("--point-in-time-recovery-specification", "PointInTimeRecoveryEnabled=true")
    aws("update-continuous-backups", "--table-name", full_orders, *enable)
    status = "ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus"
    described = aws("describe-continuous-backups", "--table-name", full_orders, "--query", status)
    assert described == "ENABLED"

    restored = f"{full_orders}-restored"
    names = ("--source-table-name", full_orders, "--target-table-name", restored)
    aws("restore-table-to-point-in-time", *names, "--use-latest-restorable-time")
    aws("wait", "table-exists", "--table-name", restored)
    assert dynamodb.scan(TableName=restored)["Count"] == 25
    dynamodb.delete_table(TableName=restored)


def test_limits_and_endpoints_are_described(aws: Aws):
    assert aws("describe-limits")["TableMaxReadCapacityUnits"] > 0
    assert aws("describe-endpoints")["Endpoints"][0]["Address"]
