"""dynamodb-admin: its pages, made from what the server answers."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from orders import order

_READY_SECONDS = 20


@pytest.fixture(scope="module")
def admin(server: str, node_packages: Path, client_environment: dict[str, str]) -> Iterator[str]:
    """The URL of a dynamodb-admin that looks at the server."""
    port = _free_port()
    script = node_packages / "node_modules" / "dynamodb-admin" / "dist" / "dynamodb-admin.js"
    command = ["node", script, "--host", "127.0.0.1", "--port", str(port), "--dynamo-endpoint", server]
    process = subprocess.Popen(command, env=client_environment, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_it_answers(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "dynamodb-admin ended"
        try:
            urllib.request.urlopen(url, timeout=_READY_SECONDS).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("dynamodb-admin does not answer")


def ask(url: str, method: str = "GET", body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=_READY_SECONDS) as answer:
        return str(answer.read().decode())


def test_the_list_of_tables_shows_a_table_and_how_many_items_it_has(admin: str, full_orders: str):
    assert f"/tables/{full_orders}" in ask(f"{admin}/")
    (listed,) = [table for table in json.loads(ask(f"{admin}/api/tables")) if table["TableName"] == full_orders]
    assert listed["ItemCount"] == 25
    assert listed["TableStatus"] == "ACTIVE"


def test_a_tables_page_and_its_items_page_by_page(admin: str, full_orders: str):
    page = ask(f"{admin}/tables/{full_orders}")
    assert full_orders in page
    assert "customer" in page
    first = json.loads(ask(f"{admin}/tables/{full_orders}/items?pageSize=20"))
    assert [item["order"] for item in first["Items"]] == list(range(20))
    assert first["uniqueKeys"] == ["customer", "order", "cents"]
    second = json.loads(ask(f"{admin}/tables/{full_orders}/items?pageSize=20&startKey={first['nextKey']}"))
    assert [item["order"] for item in second["Items"]] == list(range(20, 25))
    assert second["nextKey"] is None


def test_a_filter_and_a_query_find_items(admin: str, full_orders: str):
    filters = {"cents": {"type": "N", "operator": ">=", "value": "230"}}
    scanned = json.loads(ask(f"{admin}/tables/{full_orders}/items?filters={quote(json.dumps(filters))}"))
    assert [item["order"] for item in scanned["Items"]] == [23, 24]
    filters = {
        "customer": {"type": "S", "operator": "=", "value": "ada"},
        "order": {"type": "N", "operator": "<", "value": "2"},
    }
    asked = f"operationType=query&filters={quote(json.dumps(filters))}"
    queried = json.loads(ask(f"{admin}/tables/{full_orders}/items?{asked}"))
    assert [item["order"] for item in queried["Items"]] == [0, 1]


def test_an_items_page_shows_it_and_saves_it(admin: str, full_orders: str, dynamodb: Any):
    url = f"{admin}/tables/{full_orders}/items/ada,7"
    assert "cents" in ask(url)
    saved = json.loads(ask(url, "PUT", {"customer": "ada", "order": 7, "cents": 71}))
    assert saved["cents"] == 71
    ask(url, "DELETE")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(url)
    assert dynamodb.scan(TableName=full_orders, Select="COUNT")["Count"] == 24


def test_its_meta_and_ttl_pages_open(admin: str, orders: str, dynamodb: Any):
    dynamodb.put_item(TableName=orders, Item=order("ada", 1))
    assert "AttributeDefinitions" in ask(f"{admin}/tables/{orders}/meta")
    assert "DISABLED" in ask(f"{admin}/tables/{orders}/ttl")


def test_a_table_is_made_and_purged_with_it(admin: str, table_name: str, dynamodb: Any, make_table: Callable[..., str]):
    definition = {
        "TableName": f"{table_name}-made",
        "HashAttributeName": "id",
        "HashAttributeType": "S",
        "ReadCapacityUnits": 3,
        "WriteCapacityUnits": 3,
    }
    index = {
        "IndexName": "by_state",
        "IndexType": "global",
        "HashAttributeName": "state",
        "HashAttributeType": "S",
        "ReadCapacityUnits": 1,
        "WriteCapacityUnits": 1,
    }
    ask(f"{admin}/create-table", "POST", {"TableDefinition": definition, "SecondaryIndexes": [index]})
    made = dynamodb.describe_table(TableName=f"{table_name}-made")["Table"]
    assert made["GlobalSecondaryIndexes"][0]["IndexName"] == "by_state"
    ask(f"{admin}/tables/{table_name}-made", "DELETE")

    purged = make_table()
    for number in range(30):
        dynamodb.put_item(TableName=purged, Item=order(f"c{number}", number))
    ask(f"{admin}/tables/{purged}/all", "DELETE")
    assert dynamodb.scan(TableName=purged)["Count"] == 0
