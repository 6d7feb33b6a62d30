"""Every paginator and every waiter that boto3 has for DynamoDB."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, WaiterError

QUICK = {"Delay": 0, "MaxAttempts": 2}


def test_these_are_all_paginators_and_waiters(dynamodb):
    pageable = [name for name in dynamodb.meta.method_to_api_mapping if dynamodb.can_paginate(name)]
    assert sorted(pageable) == ["list_backups", "list_tables", "list_tags_of_resource", "query", "scan"]
    assert {"table_exists", "table_not_exists"} <= set(dynamodb.waiter_names)


def test_query_pages_follow_on(dynamodb, twelve):
    def pages():
        return dynamodb.get_paginator("query").paginate(
            TableName=twelve,
            KeyConditionExpression="id = :a",
            ExpressionAttributeValues={":a": {"S": "a"}},
            PaginationConfig={"PageSize": 5},
        )

    assert [page["Count"] for page in pages()] == [5, 5, 2]
    whole = pages().build_full_result()
    assert [item["at"]["N"] for item in whole["Items"]] == [str(at) for at in range(12)]
    assert whole["Count"] == 12


def test_scan_pages_follow_on_and_can_be_resumed(dynamodb, twelve):
    paginator = dynamodb.get_paginator("scan")
    first = paginator.paginate(TableName=twelve, PaginationConfig={"PageSize": 4, "MaxItems": 6}).build_full_result()
    assert len(first["Items"]) == 6
    rest = paginator.paginate(
        TableName=twelve, PaginationConfig={"StartingToken": first["NextToken"]}
    ).build_full_result()
    assert len(first["Items"]) + len(rest["Items"]) == 12


def test_scan_pages_can_be_searched(dynamodb, twelve):
    pages = dynamodb.get_paginator("scan").paginate(TableName=twelve, PaginationConfig={"PageSize": 5})
    assert sorted(int(at) for at in pages.search("Items[].at.N")) == list(range(12))


def test_table_names_come_in_pages(dynamodb):
    for name in ("aaa", "bbb", "ccc"):
        dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    pages = dynamodb.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 2})
    assert [page["TableNames"] for page in pages] == [["aaa", "bbb"], ["ccc"]]


def test_backups_come_in_pages(dynamodb, jobs):
    for name in ("one", "two", "three"):
        dynamodb.create_backup(TableName=jobs, BackupName=name)
    pages = dynamodb.get_paginator("list_backups").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["BackupSummaries"]) for page in pages] == [2, 1]


def test_tags_come_in_pages(dynamodb, jobs):
    arn = dynamodb.describe_table(TableName=jobs)["Table"]["TableArn"]
    tags = [{"Key": f"k{at}", "Value": "v"} for at in range(15)]
    dynamodb.tag_resource(ResourceArn=arn, Tags=tags)
    whole = dynamodb.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn).build_full_result()
    assert sorted(tag["Key"] for tag in whole["Tags"]) == sorted(tag["Key"] for tag in tags)


def test_table_exists_waits_until_it_does(dynamodb, jobs):
    dynamodb.get_waiter("table_exists").wait(TableName=jobs, WaiterConfig=QUICK)
    with pytest.raises(WaiterError, match="Max attempts exceeded"):
        dynamodb.get_waiter("table_exists").wait(TableName="other", WaiterConfig=QUICK)


def test_table_not_exists_waits_until_it_does_not(dynamodb, jobs):
    with pytest.raises(WaiterError, match="Max attempts exceeded"):
        dynamodb.get_waiter("table_not_exists").wait(TableName=jobs, WaiterConfig=QUICK)
    dynamodb.delete_table(TableName=jobs)
    dynamodb.get_waiter("table_not_exists").wait(TableName=jobs, WaiterConfig=QUICK)


@pytest.mark.parametrize(
    ("waiter", "params"),
    [
        ("contributor_insights_enabled", {"TableName": "none"}),
        ("export_completed", {"ExportArn": "a" * 40}),
        ("import_completed", {"ImportArn": "a" * 40}),
        ("kinesis_streaming_destination_active", {"TableName": "none"}),
    ],
)
def test_waiters_for_what_is_not_there_end_with_the_answer(dynamodb, waiter, params):
    if waiter not in dynamodb.waiter_names:
        pytest.skip("this botocore does not have the waiter")
    with pytest.raises((WaiterError, ClientError), match=r"not found|Invalid (Export|Import) ARN"):
        dynamodb.get_waiter(waiter).wait(**params, WaiterConfig=QUICK)
