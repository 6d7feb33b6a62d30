"""A boto3 client on the embedded engine looks like any boto3 client."""

from __future__ import annotations

import io
import socket
from datetime import datetime

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError
from botocore.stub import Stubber

import penstock


def test_an_item_goes_in_and_comes_out_with_bytes(dynamodb, jobs):
    item = {
        "id": {"S": "1"},
        "at": {"N": "7"},
        "body": {"B": b"\x00\xff"},
        "parts": {"BS": [b"a", b"b"]},
        "deep": {"M": {"list": {"L": [{"B": b"x"}, {"NULL": True}, {"BOOL": False}, {"SS": ["p", "q"]}]}}},
    }
    dynamodb.put_item(TableName=jobs, Item=item)
    answer = dynamodb.get_item(TableName=jobs, Key={"id": {"S": "1"}, "at": {"N": "7"}})
    assert answer["Item"] == item


def test_an_answer_has_botocores_metadata(dynamodb):
    first, second = dynamodb.list_tables()["ResponseMetadata"], dynamodb.list_tables()["ResponseMetadata"]
    assert first["HTTPStatusCode"] == 200
    assert first["RetryAttempts"] == 0
    assert first["HTTPHeaders"]["x-amzn-requestid"] == first["RequestId"]
    assert first["RequestId"] != second["RequestId"]


def test_times_are_datetimes(dynamodb, jobs):
    table = dynamodb.describe_table(TableName=jobs)["Table"]
    assert isinstance(table["CreationDateTime"], datetime)
    assert table["CreationDateTime"].tzinfo is not None


def test_a_time_given_as_a_datetime_reaches_the_engine(dynamodb, jobs):
    found = dynamodb.list_backups(TableName=jobs, TimeRangeLowerBound=datetime(2020, 1, 1))
    assert found["BackupSummaries"] == []


@pytest.mark.parametrize("blob", [b"hi", bytearray(b"hi"), "hi"])
def test_bytes_may_be_given_in_each_way_that_botocore_takes(dynamodb, jobs, blob):
    dynamodb.put_item(TableName=jobs, Item={"id": {"S": "1"}, "at": {"N": "1"}, "b": {"B": blob}})
    assert dynamodb.scan(TableName=jobs)["Items"][0]["b"] == {"B": b"hi"}


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({}, 'Missing required parameter in input: "TableName"'),
        ({"TableName": 7, "Item": {}}, "Invalid type for parameter TableName, value: 7"),
        ({"TableName": "jobs", "Item": {"a": "x"}}, "Invalid type for parameter Item.a, value: x"),
        ({"TableName": "jobs", "Item": {"a": {"X": "x"}}}, 'Unknown parameter in Item.a: "X"'),
        ({"TableName": "jobs", "Item": {"a": {"B": 7}}}, "Invalid type for parameter Item.a.B, value: 7"),
        ({"TableName": "jobs", "Item": {}, "Extra": 1}, 'Unknown parameter in input: "Extra"'),
        ({"TableName": "", "Item": {}}, "Invalid length for parameter TableName"),
    ],
)
def test_wrong_parameters_are_refused_by_botocore_itself(dynamodb, params, complaint):
    with pytest.raises(ParamValidationError, match="Parameter validation failed") as refused:
        dynamodb.put_item(**params)
    assert complaint in str(refused.value)


def test_what_botocore_lets_pass_the_engine_refuses(dynamodb, jobs):
    with pytest.raises(ClientError) as refused:
        dynamodb.put_item(TableName=jobs, Item={"id": {}, "at": {"N": "1"}})
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_positional_arguments_are_refused_as_ever(dynamodb):
    with pytest.raises(TypeError, match="only accepts keyword arguments"):
        dynamodb.list_tables("jobs")


def test_botocores_events_are_emitted_in_order(dynamodb):
    seen = []
    for event in ("provide-client-params", "before-parameter-build", "before-call", "after-call"):
        dynamodb.meta.events.register(f"{event}.dynamodb.ListTables", lambda event_name, **_: seen.append(event_name))
    dynamodb.list_tables()
    assert seen == [
        f"{event}.dynamodb.ListTables"
        for event in ("provide-client-params", "before-parameter-build", "before-call", "after-call")
    ]


def test_a_hook_may_change_the_parameters(dynamodb, jobs):
    def first_only(params, **_):
        params["Limit"] = 1

    for at in "12":
        dynamodb.put_item(TableName=jobs, Item={"id": {"S": "a"}, "at": {"N": at}})
    dynamodb.meta.events.register("before-parameter-build.dynamodb.Scan", first_only)
    assert dynamodb.scan(TableName=jobs)["Count"] == 1


def test_a_hook_sees_the_answer(dynamodb):
    seen = {}

    def remember(http_response, parsed, model, context, **_):
        seen.update(status=http_response.status_code, body=http_response.text, parsed=parsed, name=model.name)

    dynamodb.meta.events.register("after-call.dynamodb", remember)
    dynamodb.list_tables()
    assert (seen["status"], seen["body"], seen["name"]) == (200, '{"TableNames":[]}', "ListTables")
    assert seen["parsed"]["TableNames"] == []


def test_botocores_stubber_works(dynamodb):
    with Stubber(dynamodb) as stubber:
        stubber.add_response("list_tables", {"TableNames": ["stubbed"]}, {})
        assert dynamodb.list_tables()["TableNames"] == ["stubbed"]
    assert dynamodb.list_tables()["TableNames"] == []


def test_an_idempotency_token_is_made_as_botocore_makes_it(dynamodb, jobs):
    sent = {}
    dynamodb.meta.events.register(
        "before-call.dynamodb.TransactWriteItems", lambda params, **_: sent.update(body=params["body"])
    )
    put = {"Put": {"TableName": jobs, "Item": {"id": {"S": "1"}, "at": {"N": "1"}}}}
    dynamodb.transact_write_items(TransactItems=[put])
    assert b"ClientRequestToken" in sent["body"]


def test_validation_can_be_switched_off():
    client = penstock.boto3_client(config=Config(parameter_validation=False))
    with pytest.raises(ClientError) as refused:
        client.get_item(TableName="jobs")
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    client.close()


def test_no_setting_of_the_environment_is_used_and_nothing_is_sent(monkeypatch, tmp_path):
    config = tmp_path / "config"
    config.write_text("[profile elsewhere]\nregion = ap-south-1\nendpoint_url = http://elsewhere.invalid\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere.invalid")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://elsewhere.invalid")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "required")
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a socket was opened"))
    penstock.client.boto3.clients._session.cache_clear()
    client = penstock.boto3_client()
    assert client.meta.region_name == "us-east-1"
    assert client.meta.endpoint_url == "http://penstock.invalid"
    assert client._request_signer._credentials.access_key == "penstock"
    assert client.list_tables()["TableNames"] == []
    client.close()


def test_a_region_may_be_named():
    client = penstock.boto3_client(region_name="eu-west-2")
    assert client.meta.region_name == "eu-west-2"
    client.close()


def test_other_services_are_not_offered():
    with pytest.raises(ValueError, match="not 's3'"):
        penstock.boto3_client(service="s3")


def test_a_boto3_client_of_ones_own_is_not_touched():
    client = boto3.session.Session().client("dynamodb", region_name="eu-west-2")
    assert "amazonaws.com" in client.meta.endpoint_url
    assert not hasattr(type(client), "_attach")


def test_an_open_file_is_a_blob_for_botocore_only(dynamodb, jobs):
    # botocore's validator takes a file and its JSON serialiser then does not: the same happens here.
    with pytest.raises(TypeError):
        dynamodb.put_item(TableName=jobs, Item={"id": {"S": "1"}, "at": {"N": "1"}, "b": {"B": io.BytesIO(b"hi")}})


def test_streams_have_a_client(dynamodb, dynamodb_streams, jobs):
    dynamodb.update_table(TableName=jobs, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    item = {"id": {"S": "1"}, "at": {"N": "1"}, "b": {"B": b"hi"}}
    dynamodb.put_item(TableName=jobs, Item=item)
    [stream] = dynamodb_streams.list_streams(TableName=jobs)["Streams"]
    arn = stream["StreamArn"]
    [shard] = dynamodb_streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = dynamodb_streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    [record] = dynamodb_streams.get_records(ShardIterator=iterator)["Records"]
    assert record["dynamodb"]["NewImage"] == item
    assert isinstance(record["dynamodb"]["ApproximateCreationDateTime"], datetime)
