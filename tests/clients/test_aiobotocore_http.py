"""aiobotocore: the same client, many calls at once on one loop."""

from __future__ import annotations

import asyncio
from typing import Any

from aiobotocore.session import get_session
from botocore.config import Config
from orders import order, orders_table
from served import ACCESS_KEY, REGION, SECRET_KEY

CONNECTIONS = 16


def client_of(server: str) -> Any:
    return get_session().create_client(
        "dynamodb",
        endpoint_url=server,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(max_pool_connections=CONNECTIONS),
    )


def test_many_calls_at_once_are_each_answered(server: str, table_name: str):
    asyncio.run(_many_calls_at_once(server, table_name))


async def _many_calls_at_once(server: str, table: str) -> None:
    async with client_of(server) as client:
        await client.create_table(**orders_table(table))
        await client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
        puts = (client.put_item(TableName=table, Item=order("ada", number)) for number in range(100))
        await asyncio.gather(*puts)

        keys = [{name: order("ada", number)[name] for name in ("customer", "order")} for number in range(100)]
        answers = await asyncio.gather(*(client.get_item(TableName=table, Key=key) for key in keys))
        assert [answer["Item"] for answer in answers] == [order("ada", number) for number in range(100)]

        assert await _pages_of_a_query(client, table) == [30, 30, 30, 10]
        await client.delete_table(TableName=table)
        await client.get_waiter("table_not_exists").wait(TableName=table, WaiterConfig={"Delay": 1})


async def _pages_of_a_query(client: Any, table: str) -> list[int]:
    pages = client.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="customer = :c",
        ExpressionAttributeValues={":c": {"S": "ada"}},
        PaginationConfig={"PageSize": 30},
    )
    return [page["Count"] async for page in pages]


def test_an_error_has_its_class(server: str):
    async def ask() -> str:
        async with client_of(server) as client:
            try:
                await client.describe_table(TableName="no-such-table")
            except client.exceptions.ResourceNotFoundException as error:
                return str(error.response["Error"]["Code"])
        return "no error"

    assert asyncio.run(ask()) == "ResourceNotFoundException"


def test_of_many_conditional_puts_one_wins(server: str, orders: str):
    async def race() -> list[str]:
        async with client_of(server) as client:

            async def put(number: int) -> str:
                item = order("ada", 1) | {"by": {"N": str(number)}}
                try:
                    await client.put_item(
                        TableName=orders, Item=item, ConditionExpression="attribute_not_exists(customer)"
                    )
                except client.exceptions.ConditionalCheckFailedException:
                    return "lost"
                return "won"

            return await asyncio.gather(*(put(number) for number in range(40)))

    assert sorted(asyncio.run(race())) == ["lost"] * 39 + ["won"]
