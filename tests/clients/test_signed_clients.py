"""A server that checks signatures accepts those that real clients make, and refuses a wrong one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_cli import Aws
from botocore.exceptions import ClientError
from javascript import run_steps
from orders import order, orders_table
from served import ACCESS_KEY, REGION, SECRET_KEY, serving


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that knows one access key."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys.json"
    keys.write_text(json.dumps({ACCESS_KEY: SECRET_KEY}))
    with serving(folder / "guarded.db", "--credentials", str(keys)) as url:
        yield url


def client_with(url: str, access_key: str, secret_key: str) -> Any:
    return boto3.session.Session(access_key, secret_key, region_name=REGION).client("dynamodb", endpoint_url=url)


def test_boto3s_signature_is_right_whatever_the_item_holds(guarded: str, table_name: str):
    client = client_with(guarded, ACCESS_KEY, SECRET_KEY)
    client.create_table(**orders_table(table_name))
    item = order("ada", 1) | {"note": {"S": 'é😀 "quoted" \\ \n'}, "bytes": {"B": b"\x00\xff"}}
    client.put_item(TableName=table_name, Item=item)
    assert client.scan(TableName=table_name)["Items"] == [item]


@pytest.mark.parametrize(
    ("access_key", "secret_key", "code"),
    [
        (ACCESS_KEY, "another secret", "InvalidSignatureException"),
        ("AKIDNOBODY", SECRET_KEY, "UnrecognizedClientException"),
    ],
)
def test_a_wrong_key_is_refused(guarded: str, access_key: str, secret_key: str, code: str):
    with pytest.raises(ClientError) as caught:
        client_with(guarded, access_key, secret_key).list_tables()
    assert caught.value.response["Error"]["Code"] == code


def test_the_aws_clis_signature_is_right(guarded: str, client_environment: dict[str, str]):
    assert "TableNames" in Aws(guarded, client_environment)("list-tables")
    wrong = Aws(guarded, client_environment | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert "InvalidSignatureException" in wrong.refusal("list-tables")


def test_the_javascript_sdks_signature_is_right(guarded: str, node_packages: Path, client_environment: dict[str, str]):
    done = run_steps(node_packages, guarded, client_environment)
    assert done.returncode == 0, done.stdout + done.stderr
