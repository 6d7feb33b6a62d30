"""AWS's JSON: what is sent, and what is read of what is answered."""

from __future__ import annotations

from hypothesis import given
from table_checks import check_request
from table_strategies import tables

from penstock.tables.apply.requests import requests_of
from penstock.tables.definitions.aws_shapes import create_request, facts_of, from_description
from penstock.tables.definitions.definition import Index, Maximum, Table, Throughput
from penstock.tables.plan.plan import diff

KEYS = ("id:S", "sort:N")
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/things"

DESCRIPTION = {
    "Table": {
        "AttributeDefinitions": [
            {"AttributeName": "companyId", "AttributeType": "S"},
            {"AttributeName": "email", "AttributeType": "S"},
            {"AttributeName": "old", "AttributeType": "S"},
        ],
        "TableName": "construction-expenses-companies",
        "KeySchema": [{"AttributeName": "companyId", "KeyType": "HASH"}],
        "TableStatus": "UPDATING",
        "CreationDateTime": 1700000000.0,
        "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
        "TableSizeBytes": 2048,
        "ItemCount": 17,
        "TableArn": "arn:aws:dynamodb:us-east-1:123456789012:table/construction-expenses-companies",
        "TableId": "8a7b",
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST", "LastUpdateToPayPerRequestDateTime": 1700000000.0},
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "email-index",
                "KeySchema": [{"AttributeName": "email", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["b", "a"]},
                "IndexStatus": "CREATING",
                "Backfilling": True,
                "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
                "IndexSizeBytes": 0,
                "ItemCount": 0,
                "IndexArn": "arn:aws:dynamodb:us-east-1:123456789012:table/construction-expenses-companies/index/x",
                "WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000, "Status": "ACTIVE"},
            },
            {
                "IndexName": "old-index",
                "KeySchema": [{"AttributeName": "old", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                "IndexStatus": "DELETING",
            },
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        "LatestStreamLabel": "2025-01-01T00:00:00.000",
        "SSEDescription": {
            "Status": "ENABLED",
            "SSEType": "KMS",
            "KMSMasterKeyArn": "arn:aws:kms:us-east-1:123456789012:alias/aws/dynamodb",
        },
        "DeletionProtectionEnabled": True,
        "WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000, "Status": "ACTIVE"},
    }
}


def test_a_description_is_read_without_what_the_service_made() -> None:
    table = from_description(
        DESCRIPTION,
        ttl={"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLING", "AttributeName": "expiresAt"}},
        pitr={
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {
                    "PointInTimeRecoveryStatus": "ENABLED",
                    "EarliestRestorableDateTime": 1.0,
                },
            }
        },
        tags=[{"Key": "aws:cloudformation:stack-name", "Value": "x"}, {"Key": "Team", "Value": "blue"}],
        name="companies",
    )
    assert table == Table(
        "companies",
        "companyId:S",
        indexes=[Index("email-index", "email:S", projection=["a", "b"])],
        ttl="expiresAt",
        stream="NEW_AND_OLD_IMAGES",
        pitr=True,
        tags={"Team": "blue"},
        table_class="STANDARD",
        deletion_protection=True,
        sse=True,
    )


def test_states_and_sizes_are_facts_beside_the_definition() -> None:
    facts = facts_of(DESCRIPTION)
    assert (facts.status, facts.items, facts.bytes) == ("UPDATING", 17, 2048)
    assert (facts.filling, facts.leaving) == (("email-index",), ("old-index",))


def test_what_was_not_asked_for_is_not_known() -> None:
    table = from_description(DESCRIPTION)
    assert (table.name, table.ttl, table.pitr, table.tags) == ("construction-expenses-companies", None, None, None)


def test_a_table_without_a_billing_mode_was_always_provisioned() -> None:
    description = {
        "TableName": "old",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
    }
    assert from_description(description).billing == Throughput(3, 4)


def test_more_indexes_than_the_usual_quota_are_read() -> None:
    indexes = [Index(f"index-{n:02}", f"a{n:02}:S") for n in range(25)]
    wide = Table("wide", "id:S").replace(indexes=tuple(indexes))
    assert len(from_description(create_request(wide, "wide")).indexes) == 25


def test_a_request_has_only_what_there_is_to_say() -> None:
    table = Table("jobs", "id:S", on_demand_max=Maximum(5), tags={"b": "2"}, ttl="ttl", pitr=True)
    assert create_request(table, "app-jobs", {"a": "1", "b": "1"}) == {
        "TableName": "app-jobs",
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "OnDemandThroughput": {"MaxReadRequestUnits": 5},
        "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}],
    }


@given(tables(keys=KEYS), tables(keys=KEYS))
def test_every_request_is_one_that_DynamoDB_knows(live: Table, wanted: Table) -> None:
    for before in (None, live):
        for change in diff(before, wanted):
            for request in requests_of(change, "things", arn=ARN):
                check_request(request.operation, request.body)
