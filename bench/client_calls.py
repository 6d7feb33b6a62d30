"""One client under measurement: `python -m bench.client_calls CLIENT URL`, led by `clients.py` over stdin and stdout.

A line `GetItem 300` makes 300 calls one after another; the answer is a line of JSON with CPU (this process's own, all
of its threads) and wall time in microseconds a call. A process a client, so that one client's imports, threads and
memory are not another's; only the standard library is imported at the top, so that any interpreter can run it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from typing import Any

from bench import workload

PARTITION, ROWS = 0, 250
REGION, KEY = "us-east-1", "bench"
OPERATIONS = ("GetItem", "PutItem", "BatchWriteItem", "Query")
Round = Callable[[int], None]
Client = dict[str, Round]


def blocking(calls: dict[str, Callable[[], Any]]) -> Client:
    def repeat(call: Callable[[], Any]) -> Round:
        def run(count: int) -> None:
            for _ in range(count):
                call()

        return run

    return {name: repeat(call) for name, call in calls.items()}


def waiting(loop: asyncio.AbstractEventLoop, calls: dict[str, Callable[[], Awaitable[Any]]]) -> Client:
    def repeat(call: Callable[[], Awaitable[Any]]) -> Round:
        async def run(count: int) -> None:
            for _ in range(count):
                await call()

        return lambda count: loop.run_until_complete(run(count))

    return {name: repeat(call) for name, call in calls.items()}


# ── DynamoDB's JSON in and out ───────────────────────────────────────────────────────────────────


def requests() -> dict[str, Iterator[workload.Json]]:
    rows = range(ROWS)
    return {
        "GetItem": cycle([workload.get_item(PARTITION, row) for row in rows]),
        "PutItem": cycle([workload.put_item(PARTITION, row) for row in rows]),
        "BatchWriteItem": cycle([workload.batch_write([workload.item(PARTITION, row) for row in rows[:25]])]),
        "Query": cycle([workload.query(PARTITION)]),
    }


def penstock(url: str) -> Client:
    """The remote transport."""
    from penstock.client.database import open_transport

    execute = open_transport(url).execute
    given = requests()
    return blocking({name: lambda name=name: execute(name, next(given[name])) for name in OPERATIONS})


def penstock_async(url: str) -> Client:
    """The remote transport on asyncio."""
    from penstock.client.async_database import open_async_transport

    execute = open_async_transport(url).execute
    given = requests()
    loop = asyncio.new_event_loop()
    return waiting(loop, {name: lambda name=name: execute(name, next(given[name])) for name in OPERATIONS})


METHODS = {"GetItem": "get_item", "PutItem": "put_item", "BatchWriteItem": "batch_write_item", "Query": "query"}
KEYS = {"region_name": REGION, "aws_access_key_id": KEY, "aws_secret_access_key": KEY}


def boto3(url: str) -> Client:
    """The low-level client."""
    import boto3

    client: Any = boto3.client("dynamodb", endpoint_url=url, **KEYS)  # type: ignore[call-overload]
    given = requests()
    methods = {name: getattr(client, method) for name, method in METHODS.items()}
    return blocking({name: lambda name=name: methods[name](**next(given[name])) for name in OPERATIONS})


def aiobotocore(url: str) -> Client:
    from aiobotocore.session import get_session

    loop = asyncio.new_event_loop()
    making: Any = get_session().create_client("dynamodb", endpoint_url=url, **KEYS)
    client = loop.run_until_complete(making.__aenter__())
    given = requests()
    methods = {name: getattr(client, method) for name, method in METHODS.items()}
    return waiting(loop, {name: lambda name=name: methods[name](**next(given[name])) for name in OPERATIONS})


# ── Python values in and out ─────────────────────────────────────────────────────────────────────


def plain(item: workload.Json) -> dict[str, Any]:
    return {name: int(value["N"]) if "N" in value else value["S"] for name, value in item.items()}


def plain_items() -> list[dict[str, Any]]:
    return [plain(workload.item(PARTITION, row)) for row in range(ROWS)]


def plain_keys() -> Iterator[dict[str, Any]]:
    return cycle([plain(workload.key(PARTITION, row)) for row in range(ROWS)])


def penstock_table(url: str) -> Client:
    """The Table handle: Python values."""
    import penstock as package

    database: Any = package.connect(url)
    table = database.table(workload.TABLE)
    keys, items, name = plain_keys(), plain_items(), workload.partition_name(PARTITION)
    puts = cycle(items)

    return blocking(
        {
            "GetItem": lambda: table.get(next(keys)),
            "PutItem": lambda: table.put(next(puts)),
            "BatchWriteItem": lambda: table.batch_write(items[:25]),
            "Query": lambda: list(table.query(pk=name)),
        }
    )


def penstock_typed(url: str) -> Client:
    """The handle of a class: instances in and out."""
    import penstock as package
    from penstock import Attr, attr, item

    class Row:
        pk: Attr[str] = attr(key=True)
        sk: Attr[str] = attr(sort=True)
        n: Attr[int]
        name: Attr[str]
        data: Attr[str]

    # The annotations are texts here, and name what this function has imported.
    Row.__annotations__ = {"pk": Attr[str], "sk": Attr[str], "n": Attr[int], "name": Attr[str], "data": Attr[str]}
    kind: Any = item(workload.TABLE)(Row)
    rows: Any = package.connect(url).table(kind)
    keys, items, name = plain_keys(), [kind(**one) for one in plain_items()], workload.partition_name(PARTITION)
    puts = cycle(items)

    def get() -> None:
        key = next(keys)
        rows.get((key["pk"], key["sk"]))

    return blocking(
        {
            "GetItem": get,
            "PutItem": lambda: rows.put(next(puts)),
            "BatchWriteItem": lambda: rows.batch_put(items[:25]),
            "Query": lambda: list(rows.query(kind.pk == name)),
        }
    )


def pydynox(url: str) -> Client:
    from pydynox import DynamoDBClient  # type: ignore[import-not-found]

    client = DynamoDBClient(region=REGION, access_key=KEY, secret_key=KEY, endpoint_url=url)
    keys, items = plain_keys(), plain_items()
    puts, values = cycle(items), {":pk": workload.partition_name(PARTITION)}
    return blocking(
        {
            "GetItem": lambda: client.sync_get_item(workload.TABLE, next(keys)),
            "PutItem": lambda: client.sync_put_item(workload.TABLE, next(puts)),
            "BatchWriteItem": lambda: client.sync_batch_write(workload.TABLE, put_items=items[:25]),
            "Query": lambda: list(
                client.sync_query(workload.TABLE, "pk = :pk", expression_attribute_values=dict(values))
            ),
        }
    )


def aiodynamo(url: str) -> Client:
    from aiodynamo.client import Client as TheirClient  # type: ignore[import-not-found]
    from aiodynamo.credentials import Key, StaticCredentials  # type: ignore[import-not-found]
    from aiodynamo.expressions import HashKey  # type: ignore[import-not-found]
    from aiodynamo.http.aiohttp import AIOHTTP  # type: ignore[import-not-found]
    from aiodynamo.models import BatchWriteRequest  # type: ignore[import-not-found]
    from aiohttp import ClientSession
    from yarl import URL

    loop = asyncio.new_event_loop()

    async def made() -> Any:
        return TheirClient(AIOHTTP(ClientSession()), StaticCredentials(Key(KEY, KEY)), REGION, URL(url))

    client = loop.run_until_complete(made())
    keys, items, name = plain_keys(), plain_items(), workload.partition_name(PARTITION)
    puts = cycle(items)
    batch = {workload.TABLE: BatchWriteRequest(items_to_put=items[:25])}

    async def query() -> list[Any]:
        return [item async for item in client.query(workload.TABLE, HashKey("pk", name))]

    return waiting(
        loop,
        {
            "GetItem": lambda: client.get_item(workload.TABLE, next(keys)),
            "PutItem": lambda: client.put_item(workload.TABLE, next(puts)),
            "BatchWriteItem": lambda: client.batch_write(batch),
            "Query": query,
        },
    )


def pynamodb(url: str) -> Client:
    from pynamodb.attributes import NumberAttribute, UnicodeAttribute
    from pynamodb.models import Model

    class Row(Model):
        class Meta:
            table_name = workload.TABLE
            host = url
            region = REGION
            aws_access_key_id = KEY
            aws_secret_access_key = KEY

        pk = UnicodeAttribute(hash_key=True)
        sk = UnicodeAttribute(range_key=True)
        n = NumberAttribute()
        name = UnicodeAttribute()
        data = UnicodeAttribute()

    keys, rows, partition = plain_keys(), [Row(**item) for item in plain_items()], workload.partition_name(PARTITION)
    puts = cycle(rows)

    def get() -> None:
        key = next(keys)
        Row.get(key["pk"], key["sk"])

    def batch() -> None:
        with Row.batch_write() as batch:
            for row in rows[:25]:
                batch.save(row)

    return blocking(
        {
            "GetItem": get,
            "PutItem": lambda: next(puts).save(),
            "BatchWriteItem": batch,
            "Query": lambda: list(Row.query(partition)),
        }
    )


CLIENTS: dict[str, Callable[[str], Client]] = {
    "penstock": penstock,
    "penstock-async": penstock_async,
    "penstock-table": penstock_table,
    "penstock-typed": penstock_typed,
    "boto3": boto3,
    "aiobotocore": aiobotocore,
    "pydynox": pydynox,
    "aiodynamo": aiodynamo,
    "pynamodb": pynamodb,
}


def timed(call: Round, count: int) -> dict[str, float]:
    began, began_cpu = time.perf_counter(), time.process_time()
    call(count)
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    return {"cpu": cpu / count * 1e6, "wall": wall / count * 1e6}


def main() -> None:
    name, url = sys.argv[1:]
    client = CLIENTS[name](url)
    for operation in OPERATIONS:
        client[operation](3)
    sys.stdout.write(json.dumps({"ready": True}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        operation, count = line.split()
        sys.stdout.write(json.dumps(timed(client[operation], int(count))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
