"""boto3 over HTTP: paginators, waiters, the resource's Table and batch_writer, threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.types import Binary
from botocore.exceptions import ClientError, WaiterError
from orders import order, orders_table
from served import serving

_PATIENCE_SECONDS = 15.0


def names_of_tables(pages: Any) -> list[str]:
    return [name for page in pages for name in page["TableNames"]]


class TestPaginators:
    """Every paginator that boto3 has for DynamoDB."""

    def test_list_tables(self, dynamodb: Any, table_name: str):
        made = [f"{table_name}.{letter}" for letter in "abcde"]
        for name in made:
            dynamodb.create_table(**orders_table(name))
        pages = list(dynamodb.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 2}))
        assert len(pages) >= 3
        assert [name for name in names_of_tables(pages) if name.startswith(f"{table_name}.")] == made
        for name in made:
            dynamodb.delete_table(TableName=name)

    def test_query(self, dynamodb: Any, full_orders: str):
        pages = dynamodb.get_paginator("query").paginate(
            TableName=full_orders,
            KeyConditionExpression="customer = :c",
            ExpressionAttributeValues={":c": {"S": "ada"}},
            PaginationConfig={"PageSize": 10},
        )
        assert [page["Count"] for page in pages] == [10, 10, 5]

    def test_a_query_taken_up_again_where_it_stopped(self, dynamodb: Any, full_orders: str):
        request = {
            "TableName": full_orders,
            "KeyConditionExpression": "customer = :c",
            "ExpressionAttributeValues": {":c": {"S": "ada"}},
        }
        paginator = dynamodb.get_paginator("query")
        first = paginator.paginate(**request, PaginationConfig={"MaxItems": 7, "PageSize": 4}).build_full_result()
        again = {"StartingToken": first["NextToken"]}
        rest = paginator.paginate(**request, PaginationConfig=again).build_full_result()
        assert [int(each["order"]["N"]) for each in first["Items"] + rest["Items"]] == list(range(25))

    def test_scan_by_segments(self, dynamodb: Any, orders: str):
        for number in range(30):
            dynamodb.put_item(TableName=orders, Item=order(f"customer-{number}", number))
        found: list[int] = []
        for segment in range(3):
            pages = dynamodb.get_paginator("scan").paginate(
                TableName=orders, Segment=segment, TotalSegments=3, PaginationConfig={"PageSize": 4}
            )
            found += [int(each["order"]["N"]) for page in pages for each in page["Items"]]
        assert sorted(found) == list(range(30))

    def test_list_backups(self, dynamodb: Any, orders: str):
        names = [f"backup-{number}" for number in range(5)]
        for name in names:
            dynamodb.create_backup(TableName=orders, BackupName=name)
        paginator = dynamodb.get_paginator("list_backups")
        pages = list(paginator.paginate(TableName=orders, PaginationConfig={"PageSize": 2}))
        backups = [backup for page in pages for backup in page["BackupSummaries"]]
        assert len(pages) >= 3
        assert sorted(backup["BackupName"] for backup in backups) == names
        for backup in backups:
            dynamodb.delete_backup(BackupArn=backup["BackupArn"])

    def test_list_tags_of_resource(self, dynamodb: Any, orders: str):
        arn = dynamodb.describe_table(TableName=orders)["Table"]["TableArn"]
        tags = [{"Key": f"tag-{number:02}", "Value": str(number)} for number in range(30)]
        dynamodb.tag_resource(ResourceArn=arn, Tags=tags)
        pages = dynamodb.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn)
        found = [tag for page in pages for tag in page["Tags"]]
        assert sorted(found, key=lambda tag: tag["Key"]) == tags

    def test_none_is_missing_here(self, dynamodb: Any):
        tried = {"list_tables", "query", "scan", "list_backups", "list_tags_of_resource"}
        methods = dynamodb.meta.method_to_api_mapping
        assert {name for name in methods if dynamodb.can_paginate(name)} == tried


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory, boto_session: boto3.session.Session) -> Iterator[Any]:
    """A client of a server whose tables take their time."""
    with serving(tmp_path_factory.mktemp("slow") / "slow.db", "--table-delay", "0.4") as url:
        yield boto_session.client("dynamodb", endpoint_url=url)


class TestWaiters:
    """Every waiter that boto3 has for DynamoDB."""

    def test_a_table_is_waited_for_at_both_ends_of_its_life(self, slow: Any, table_name: str):
        config = {"Delay": 0.1, "MaxAttempts": 100}
        made = slow.create_table(**orders_table(table_name))
        assert made["TableDescription"]["TableStatus"] == "CREATING"
        slow.get_waiter("table_exists").wait(TableName=table_name, WaiterConfig=config)
        assert slow.describe_table(TableName=table_name)["Table"]["TableStatus"] == "ACTIVE"
        slow.delete_table(TableName=table_name)
        slow.get_waiter("table_not_exists").wait(TableName=table_name, WaiterConfig=config)
        assert slow.list_tables()["TableNames"] == []

    def test_waiting_for_a_table_that_never_comes_ends(self, slow: Any):
        config = {"Delay": 0.1, "MaxAttempts": 2}
        with pytest.raises(WaiterError, match="Max attempts exceeded"):
            slow.get_waiter("table_exists").wait(TableName="never", WaiterConfig=config)

    @pytest.mark.parametrize(
        ("waiter", "request_"),
        [
            ("contributor_insights_enabled", {"TableName": "orders"}),
            ("export_completed", {"ExportArn": f"arn:aws:dynamodb:us-east-1:000000000000:table/{'x' * 37}"}),
            ("import_completed", {"ImportArn": f"arn:aws:dynamodb:us-east-1:000000000000:table/{'x' * 37}"}),
            ("kinesis_streaming_destination_active", {"TableName": "orders"}),
        ],
    )
    def test_what_is_not_there_is_not_waited_for(self, slow: Any, waiter: str, request_: dict[str, str]):
        with pytest.raises(WaiterError, match=r"not found|Invalid (Export|Import) ARN"):
            slow.get_waiter(waiter).wait(**request_)

    def test_none_is_missing_here(self, slow: Any):
        others = {"contributor_insights_enabled", "export_completed", "import_completed"}
        ours = {"table_exists", "table_not_exists", "kinesis_streaming_destination_active"}
        assert set(slow.waiter_names) == others | ours


class TestResource:
    @pytest.fixture
    def table(self, server: str, boto_session: boto3.session.Session, orders: str) -> Any:
        return boto_session.resource("dynamodb", endpoint_url=server).Table(orders)

    def test_pythons_values_come_back_as_they_went(self, table: Any):
        item = {
            "customer": "ada",
            "order": Decimal("1"),
            "price": Decimal("12345678901234567890.123456789012345678"),
            "small": Decimal("1E-120"),
            "paid": True,
            "note": None,
            "tags": {"red", "green"},
            "sizes": {Decimal(1), Decimal("2.5")},
            "blobs": {Binary(b"\x00"), Binary(b"\xff")},
            "photo": Binary(b"\x00\x01\xff"),
            "basket": [{"sku": "a-1", "count": Decimal(2)}, "gift", []],
            "address": {"city": "Zürich 🏔", "geo": {}},
        }
        table.put_item(Item=item)
        assert table.get_item(Key={"customer": "ada", "order": 1})["Item"] == item

    def test_conditions_are_built_and_understood(self, table: Any):
        with table.batch_writer() as batch:
            for number in range(10):
                batch.put_item(Item={"customer": "ada", "order": number, "cents": number * 10, "name": f"n{number}"})
        found = table.query(
            KeyConditionExpression=Key("customer").eq("ada") & Key("order").between(2, 7),
            FilterExpression=(Attr("cents").gt(30) & ~Attr("name").contains("6")) | Attr("name").is_in(["n2"]),
            ProjectionExpression="#o",
            ExpressionAttributeNames={"#o": "order"},
            ScanIndexForward=False,
        )
        assert found["Items"] == [{"order": Decimal(number)} for number in (7, 5, 4, 2)]
        assert (found["Count"], found["ScannedCount"]) == (4, 6)

    def test_an_update_answers_what_it_changed(self, table: Any):
        key = {"customer": "ada", "order": 1}
        table.put_item(Item={**key, "basket": [{"count": 1}], "cents": 1})
        answer = table.update_item(
            Key=key,
            UpdateExpression="SET basket[0].#c = basket[0].#c + :one, seen = if_not_exists(seen, :one) ADD cents :one",
            ConditionExpression=Attr("cents").eq(1),
            ExpressionAttributeNames={"#c": "count"},
            ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW",
        )
        assert answer["Attributes"] == {"basket": [{"count": Decimal(2)}], "seen": Decimal(1), "cents": Decimal(2)}

    def test_a_batch_writer_sends_more_than_one_batch(self, table: Any):
        with table.batch_writer(overwrite_by_pkeys=["customer", "order"]) as batch:
            for number in range(60):
                batch.put_item(Item={"customer": "ada", "order": number})
            batch.put_item(Item={"customer": "ada", "order": 59, "last": True})
            batch.delete_item(Key={"customer": "ada", "order": 0})
        assert table.scan(Select="COUNT")["Count"] == 59
        assert table.get_item(Key={"customer": "ada", "order": 59})["Item"]["last"] is True

    def test_a_table_knows_itself(self, table: Any):
        table.put_item(Item={"customer": "ada", "order": 1})
        table.reload()
        assert table.table_status == "ACTIVE"
        assert [part["AttributeName"] for part in table.key_schema] == ["customer", "order"]
        assert table.creation_date_time.timestamp() == pytest.approx(time.time(), abs=60)
        assert table.table_arn.endswith(f":table/{table.name}")

    def test_a_batch_is_read_and_the_tables_are_listed(
        self, server: str, boto_session: boto3.session.Session, full_orders: str
    ):
        resource = boto_session.resource("dynamodb", endpoint_url=server)
        keys = [{"customer": "ada", "order": number} for number in (1, 2, 77)]
        answer = resource.batch_get_item(RequestItems={full_orders: {"Keys": keys}})
        assert sorted(each["order"] for each in answer["Responses"][full_orders]) == [1, 2]
        assert answer["UnprocessedKeys"] == {}
        assert full_orders in [table.name for table in resource.tables.all()]


class TestErrors:
    def test_a_failed_condition_can_show_the_item(self, dynamodb: Any, full_orders: str):
        with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as caught:
            dynamodb.put_item(
                TableName=full_orders,
                Item=order("ada", 1),
                ConditionExpression="attribute_not_exists(customer)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        assert caught.value.response["Item"] == order("ada", 1)

    def test_a_cancelled_transaction_tells_its_reasons(self, dynamodb: Any, full_orders: str):
        put = {"TableName": full_orders, "Item": order("ada", 1)}
        refused = put | {"ConditionExpression": "attribute_not_exists(customer)"}
        with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as caught:
            dynamodb.transact_write_items(TransactItems=[{"Put": refused}, {"Put": put | {"Item": order("ada", 2)}}])
        reasons = caught.value.response["CancellationReasons"]
        assert [reason["Code"] for reason in reasons] == ["ConditionalCheckFailed", "None"]

    def test_an_unknown_table_is_named_by_its_error(self, dynamodb: Any):
        with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
            dynamodb.get_item(TableName="no-such-table", Key={"id": {"S": "1"}})

    def test_every_answer_has_a_request_id(self, dynamodb: Any):
        answer = dynamodb.list_tables()["ResponseMetadata"]
        assert answer["HTTPStatusCode"] == 200
        assert answer["RetryAttempts"] == 0
        assert len(answer["RequestId"]) == 52
        with pytest.raises(ClientError) as caught:
            dynamodb.describe_table(TableName="no-such-table")
        assert caught.value.response["ResponseMetadata"]["RequestId"] != answer["RequestId"]


def test_threads_share_one_client(dynamodb: Any, orders: str):
    def add_one(_: int) -> None:
        dynamodb.update_item(
            TableName=orders,
            Key={"customer": {"S": "ada"}, "order": {"N": "0"}},
            UpdateExpression="ADD cents :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, range(200)))
    (item,) = dynamodb.scan(TableName=orders)["Items"]
    assert item["cents"] == {"N": "200"}


def test_an_expired_item_is_deleted_and_the_stream_says_by_whom(
    dynamodb: Any, streams: Any, make_table: Callable[..., str]
):
    table = make_table(StreamSpecification={"StreamEnabled": True, "StreamViewType": "OLD_IMAGE"})
    specification = {"Enabled": True, "AttributeName": "expires_at"}
    dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
    past = str(int(time.time()) - 60)
    dynamodb.put_item(TableName=table, Item=order("ada", 1) | {"expires_at": {"N": past}})
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while dynamodb.scan(TableName=table)["Count"] and time.monotonic() < deadline:
        time.sleep(0.1)
    (inserted, removed) = records_of(streams, dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"])
    assert (inserted["eventName"], removed["eventName"]) == ("INSERT", "REMOVE")
    assert removed["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


def records_of(streams: Any, arn: str) -> list[dict[str, Any]]:
    """All records of a stream, shard after shard, from its beginning."""
    records: list[dict[str, Any]] = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records += streams.get_records(ShardIterator=iterator)["Records"]
    return records


def test_what_was_written_is_there_after_a_restart(tmp_path: Path, boto_session: boto3.session.Session):
    db = tmp_path / "kept.db"
    with serving(db) as url:
        client = boto_session.client("dynamodb", endpoint_url=url)
        client.create_table(**orders_table("kept"))
        client.put_item(TableName="kept", Item=order("ada", 1))
    with serving(db) as url:
        client = boto_session.client("dynamodb", endpoint_url=url)
        assert client.scan(TableName="kept")["Items"] == [order("ada", 1)]
