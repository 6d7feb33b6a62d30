"""The real engine behind the server, called by boto3 and by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from raw_http import RawClient, request

from penstock.engine import Engine
from penstock.server.server import Options, ServerThread, running_server

TABLE = {
    "TableName": "Things",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def boto(url: str, key: str = "KEY", secret: str = "secret", region: str = "us-east-1") -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


def item(key: str, **others: str) -> dict[str, Any]:
    return {"pk": {"S": key}, **{name: {"S": value} for name, value in others.items()}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerThread]:
    with Engine(str(tmp_path / "things.db")) as engine, running_server(engine) as server:
        boto(server.url).create_table(**TABLE)
        yield server


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_boto3_puts_gets_and_scans(server: ServerThread) -> None:
    client = boto(server.url)
    client.put_item(TableName="Things", Item=item("a", colour="blue"))
    assert client.get_item(TableName="Things", Key=item("a"))["Item"] == item("a", colour="blue")
    assert client.scan(TableName="Things")["Count"] == 1
    with pytest.raises(ClientError) as error:
        client.get_item(TableName="Nothing", Key=item("a"))
    assert code_of(error) == "ResourceNotFoundException"


def test_boto3_reads_a_compressed_answer(server: ServerThread) -> None:
    client = boto(server.url)
    client.put_item(TableName="Things", Item=item("a", long="x" * 10_000))
    with RawClient(server.url) as raw:
        answer = raw.ask(request(body={"TableName": "Things", "Key": item("a")}, Accept_Encoding="gzip"))
    assert answer.headers["content-encoding"] == "gzip" and len(answer.body) < 500
    assert answer.json()["Item"]["long"]["S"] == "x" * 10_000


def test_a_failing_write_in_a_group_leaves_the_others_alone(server: ServerThread) -> None:
    calls = [
        request(
            "PutItem",
            {"TableName": "Things" if n % 3 else "Nothing", "Item": item(str(n))},
        )
        for n in range(30)
    ]
    with RawClient(server.url) as raw:
        raw.send(b"".join(calls))
        statuses = [raw.read().status for _ in calls]
    assert statuses == [200 if n % 3 else 400 for n in range(30)]
    assert boto(server.url).scan(TableName="Things")["Count"] == 20


def test_a_connection_reads_its_own_writes_when_pipelined(server: ServerThread) -> None:
    data = b"".join(
        request("PutItem", {"TableName": "Things", "Item": item("a", n=str(n))})
        + request("GetItem", {"TableName": "Things", "Key": item("a")})
        for n in range(40)
    )
    with RawClient(server.url) as raw:
        raw.send(data)
        answers = [raw.read().json() for _ in range(80)]
    assert [answer["Item"]["n"]["S"] for answer in answers[1::2]] == [str(n) for n in range(40)]


def test_what_many_connections_were_told_is_there(server: ServerThread) -> None:
    def write(worker: int) -> None:
        with RawClient(server.url) as raw:
            for n in range(50):
                body = {"TableName": "Things", "Item": item(f"{worker}/{n}")}
                assert raw.ask(request("PutItem", body)).status == 200

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert boto(server.url).scan(TableName="Things", Select="COUNT")["Count"] == 400


def test_only_the_right_secret_is_let_in() -> None:
    with Engine() as engine, running_server(engine, options=Options(secrets={"KEY": "secret"})) as server:
        assert boto(server.url).list_tables()["TableNames"] == []
        with pytest.raises(ClientError) as error:
            boto(server.url, secret="wrong").list_tables()
        assert code_of(error) == "InvalidSignatureException"
        with pytest.raises(ClientError) as error:
            boto(server.url, key="OTHER").list_tables()
        assert code_of(error) == "UnrecognizedClientException"


def test_per_account_keeps_accounts_and_regions_apart() -> None:
    with Engine() as engine, running_server(engine, options=Options(per_account=True)) as server:
        made = boto(server.url, key="111111111111", region="eu-west-2").create_table(**TABLE)
        assert made["TableDescription"]["TableArn"] == "arn:aws:dynamodb:eu-west-2:111111111111:table/Things"
        assert boto(server.url, key="111111111111").list_tables()["TableNames"] == []
        assert boto(server.url, key="222222222222", region="eu-west-2").list_tables()["TableNames"] == []
        assert boto(server.url, "111111111111", region="eu-west-2").list_tables()["TableNames"] == ["Things"]


def test_without_per_account_every_key_sees_the_same_tables(server: ServerThread) -> None:
    assert boto(server.url, key="OTHER", region="eu-west-2").list_tables()["TableNames"] == ["Things"]
