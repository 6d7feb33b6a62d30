"""One server for all clients, and a boto3 client that prepares what the others look at.

PENSTOCK_CLIENTS_URL=http://… runs the same tests against any other DynamoDB endpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from answer_shapes import watch
from node_packages import NotInstalled, installed
from orders import order, orders_table
from served import ACCESS_KEY, REGION, SECRET_KEY, serving

_numbers = count(1)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == _HERE:
            item.add_marker(pytest.mark.clients)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server under test: `penstock serve` on a file."""
    if given := os.environ.get("PENSTOCK_CLIENTS_URL"):
        yield given
        return
    home = tmp_path_factory.mktemp("clients")
    (home / "buckets" / "clients").mkdir(parents=True)
    with serving(home / "clients.db", "--buckets", str(home / "buckets")) as url:
        yield url


@pytest.fixture(scope="session")
def client_environment() -> dict[str, str]:
    """The environment of a client's process: our credentials, and nothing of the user's AWS configuration."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_PAGER": "",
    }


@pytest.fixture(scope="session")
def node_packages() -> Path:
    """The folder of the Node clients' node_modules."""
    try:
        return installed()
    except NotInstalled as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def boto_session() -> boto3.session.Session:
    return boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)


@pytest.fixture(scope="session")
def dynamodb(server: str, boto_session: boto3.session.Session) -> Any:
    """A boto3 client that speaks HTTP with the server, and accepts only what its model describes."""
    client = boto_session.client("dynamodb", endpoint_url=server)
    watch(client)
    return client


@pytest.fixture(scope="session")
def streams(server: str, boto_session: boto3.session.Session) -> Any:
    client = boto_session.client("dynamodbstreams", endpoint_url=server)
    watch(client)
    return client


@pytest.fixture
def table_name() -> str:
    """A name that no other test has used."""
    return f"clients-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def make_table(dynamodb: Any, table_name: str) -> Iterator[Callable[..., str]]:
    """Makes a table of customers' orders (`customer` HASH, `order` RANGE), dropped after the test."""

    def make(**more: Any) -> str:
        dynamodb.create_table(**orders_table(table_name), **more)
        dynamodb.get_waiter("table_exists").wait(TableName=table_name, WaiterConfig={"Delay": 1})
        return table_name

    yield make
    dynamodb.delete_table(TableName=table_name)


@pytest.fixture
def orders(make_table: Callable[..., str]) -> str:
    """The name of an empty table of orders."""
    return make_table()


@pytest.fixture
def full_orders(dynamodb: Any, orders: str) -> str:
    """The name of a table of 25 orders of one customer, ada."""
    puts = [{"PutRequest": {"Item": order("ada", number)}} for number in range(25)]
    dynamodb.batch_write_item(RequestItems={orders: puts})
    return orders
