"""Opening transports by URL, and the embedded engine under asyncio."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from penstock.client.async_database import open_async_transport
from penstock.client.database import open_transport
from penstock.client.transports.async_http import AsyncRemoteTransport, AsyncThreadedTransport
from penstock.client.transports.boto import BotoTransport
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.transports.http import RemoteTransport
from penstock.engine import Engine
from penstock.errors import BadUrl, ConnectionFailed, StorageError, ValidationException
from penstock.server import running_server

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


async def fifty_items(transport):
    """Writes fifty items at once and reads them at once."""
    await transport.execute("CreateTable", TABLE)
    items = [{"id": {"S": str(number)}, "n": {"N": str(number)}} for number in range(50)]
    await asyncio.gather(*(transport.execute("PutItem", {"TableName": "jobs", "Item": item}) for item in items))
    keys = [{"TableName": "jobs", "Key": {"id": item["id"]}} for item in items]
    answers = await asyncio.gather(*(transport.execute("GetItem", key) for key in keys))
    await transport.close()
    assert [answer["Item"] for answer in answers] == items


def test_calls_made_together_on_the_embedded_engine(path):
    asyncio.run(fifty_items(open_async_transport(path)))
    asyncio.run(fifty_items(open_async_transport(":memory:")))


def test_calls_made_together_on_a_server():
    with Engine() as engine, running_server(engine) as server:
        transport = open_async_transport(server.url)
        assert isinstance(transport, AsyncRemoteTransport)
        asyncio.run(fifty_items(transport))


def test_calls_made_together_through_boto():
    with Engine() as engine, running_server(engine) as server:
        asyncio.run(fifty_items(open_async_transport(server.url, via="boto")))


def test_the_remote_path_starts_no_thread():
    with Engine() as engine, running_server(engine) as server:
        asyncio.run(fifty_items(open_async_transport(server.url)))

    async def threads_of_the_loop():
        transport = open_async_transport(server.url)
        with suppress(ConnectionFailed):
            await transport.execute("ListTables", {})
        return [thread.name for thread in threading.enumerate() if thread.name.startswith(("asyncio", "penstock_"))]

    assert asyncio.run(threads_of_the_loop()) == []


def test_the_event_loop_goes_on_while_the_engine_works():
    async def work():
        transport = open_async_transport(":memory:")
        assert isinstance(transport, AsyncThreadedTransport)
        entered, release = threading.Event(), threading.Event()

        def slow(operation, request):
            entered.set()
            release.wait(5)
            return {}

        transport.inner.execute = slow
        call = asyncio.create_task(transport.execute("ListTables", {}))
        while not entered.is_set():
            await asyncio.sleep(0)
        release.set()  # reached only if the loop was free
        assert await call == {}
        await transport.close()

    asyncio.run(work())


def test_errors_of_the_engine_come_through():
    async def work():
        transport = open_async_transport(":memory:")
        with pytest.raises(ValidationException):
            await transport.execute("CreateTable", {"TableName": "x"})
        await transport.close()
        await transport.close()
        with pytest.raises(StorageError, match="closed"):
            await transport.execute("ListTables", {})

    asyncio.run(work())


def test_a_url_opens_its_transport(path):
    for url, kind in ((path, EmbeddedTransport), (":memory:", EmbeddedTransport), ("http://h:1", RemoteTransport)):
        transport = open_transport(url)
        assert isinstance(transport, kind)
        assert transport.name == url
        transport.close()
    assert isinstance(open_transport("http://h:1", via="boto"), BotoTransport)
    with pytest.raises(BadUrl):
        open_transport("gopher://h")


def test_a_closed_embedded_transport_says_so():
    transport = open_transport(":memory:")
    transport.close()
    transport.close()
    with pytest.raises(StorageError, match="closed"):
        transport.execute("ListTables", {})
