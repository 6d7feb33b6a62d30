"""connect_async(): the same operations, awaited; in memory, on a file and over HTTP."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest
from expenses import EXPENSES

import penstock
from penstock import F
from penstock.client.batches.batches import BatchOptions
from penstock.client.items.failures import TransactionFailed
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import ManualClock
from penstock.errors import AccessDeniedException, InternalServerError

COUNT = 150


def item(number, **more):
    return {"company": "c1", "number": number, **more}


def key(number):
    return {"company": "c1", "number": number}


ELSEWHERE = os.environ.get("PENSTOCK_TEST_URL")


@pytest.fixture(params=["elsewhere"] if ELSEWHERE else ["memory", "file", "http"])
def run(request, tmp_path):
    """Runs a test's coroutine function with a fresh database and its table."""
    url = {"memory": ":memory:", "file": tmp_path / "expenses.db", "elsewhere": ELSEWHERE, "http": None}[request.param]
    if url is None:
        url = request.getfixturevalue("penstock_server")

    def run(work):
        async def opened():
            async with penstock.connect_async(url) as db:
                await db.execute("CreateTable", EXPENSES)
                try:
                    await work(db, db.table("expenses"))
                finally:
                    await db.execute("DeleteTable", {"TableName": "expenses"})

        asyncio.run(opened())

    return run


class Between:
    """A transport that lets a test answer in the place of the database."""

    def __init__(self, inner, answer):
        self.name = inner.name
        self._inner = inner
        self._answer = answer

    async def execute(self, operation, request):
        return await self._answer(operation, request, self._inner.execute)

    async def close(self):
        await self._inner.close()


def test_single_items(run):
    async def work(db, table):
        assert await db.tables() == ["expenses"]
        await table.put(item(1, n=1), if_=F("company").missing())
        with pytest.raises(penstock.ConditionFailed) as failed:
            await table.put(item(1), if_=F("company").missing())
        assert failed.value.item == item(1, n=1)
        assert await table.update(key(1), set={"n": F("n") + 1}, return_new=True) == item(1, n=2)
        assert await table.get(key(1), select=["n"]) == {"n": 2}
        assert await table.delete(key(1), return_old=True) == item(1, n=2)
        assert await table.get(key(1)) is None
        assert repr(db).startswith("AsyncDatabase(")

    run(work)


def test_pages_and_tokens(run):
    async def work(db, table):
        await table.batch_write(item(n) for n in range(COUNT))
        assert [each["number"] async for each in table.query(company="c1", page_size=40)] == list(range(COUNT))
        items = table.query(company="c1", page_size=40)
        first = [(await anext(items))["number"] for _ in range(50)]
        rest = [each["number"] for each in await table.query(company="c1", token=items.token).all()]
        assert first + rest == list(range(COUNT))
        assert (items.scanned, items.returned, items.requests) == (80, 50, 2)
        assert [len(page) async for page in table.scan(page_size=60).pages()] == [60, 60, 30]

    run(work)


def test_batches(run):
    async def work(db, table):
        async with table.batch(workers=3) as batch:
            for n in range(COUNT):
                await batch.put(item(n))
            await batch.delete(key(3))
        assert batch.report.done + batch.report.replaced == COUNT + 1
        found = [each["number"] async for each in table.batch_get(key(n) for n in range(COUNT))]
        assert found == [n for n in range(COUNT) if n != 3]
        report = await table.batch_write(deletes=[key(1)], pace=Pacer())
        assert report.done == 1

    run(work)


def test_a_block_that_raises_sends_no_more(run):
    async def work(db, table):
        with pytest.raises(KeyError) as raised:
            async with table.batch() as batch:
                for n in range(60):
                    await batch.put(item(n))
                raise KeyError
        assert batch.done == 50
        assert len(batch.failed) == 10
        assert raised.value.__notes__
        assert len(await table.scan().all()) == 50

    run(work)


def test_batches_through_a_database_that_leaves_things_undone(run):
    async def work(db, table):
        random = Random(4)

        async def leave_some(operation, request, go):
            if operation != "BatchWriteItem":
                return await go(operation, request)
            if random.random() < 0.2:
                raise InternalServerError("again")
            (writes,) = request["RequestItems"].values()
            back = [write for write in writes if random.random() < 0.3]
            on = [write for write in writes if write not in back]
            if on:
                await go(operation, {"RequestItems": {"expenses": on}})
            return {"UnprocessedItems": {"expenses": back} if back else {}}

        clock = ManualClock()
        options = BatchOptions(workers=3, clock=clock, sleep=clock.advance)
        faulty = penstock.AsyncDatabase(Between(db.transport, leave_some)).table("expenses")
        report = await faulty.batch_write((item(n) for n in range(COUNT)), options=options)
        assert report.done == COUNT
        assert len(await table.scan().all()) == COUNT

        async def deny(operation, request, go):
            if operation.startswith("Batch"):
                raise AccessDeniedException("no")
            return await go(operation, request)

        denied = penstock.AsyncDatabase(Between(db.transport, deny)).table("expenses")
        with pytest.raises(penstock.BatchIncomplete) as failed:
            await denied.batch_write(item(n) for n in range(10))
        assert len(failed.value.failed) == 10
        with pytest.raises(penstock.BatchIncomplete) as failed:
            _ = [each async for each in denied.batch_get([key(1)])]
        assert failed.value.failed[0].item == key(1)

    run(work)


def test_a_parallel_scan(run):
    async def work(db, table):
        await table.batch_write({"company": f"c{n}", "number": n} for n in range(COUNT))
        everything = [each["number"] async for each in table.parallel_scan(segments=5, workers=3, page_size=7)]
        assert sorted(everything) == list(range(COUNT))
        async with table.parallel_scan(segments=5, workers=3, page_size=7) as scan:
            first = [(await anext(scan))["number"] for _ in range(40)]
        rest = [each["number"] async for each in table.parallel_scan(segments=5, tokens=scan.tokens)]
        assert sorted(first + rest) == list(range(COUNT))

    run(work)


def test_the_error_of_a_segment_is_raised(run):
    async def work(db, table):
        async def break_one(operation, request, go):
            if request.get("Segment") == 1:
                raise InternalServerError("broken")
            return await go(operation, request)

        broken = penstock.AsyncDatabase(Between(db.transport, break_one)).table("expenses")
        with pytest.raises(InternalServerError, match="broken"):
            _ = [each async for each in broken.parallel_scan(segments=3)]
        assert len(asyncio.all_tasks()) == 1

    run(work)


def test_transactions(run):
    async def work(db, table):
        async with db.transaction() as tx:
            tx.put(table, item(1))
            tx.update(table, key(2), add={"n": 1})
        assert await db.transact_get([table.get_action(key(2))]) == [item(2, n=1)]
        with pytest.raises(TransactionFailed) as failed:
            async with db.transaction() as tx:
                tx.put(table, item(1), if_=F("company").missing())
        assert failed.value.reasons[0].item == item(1)

    run(work)


def test_many_calls_go_on_at_once(run):
    async def work(db, table):
        await asyncio.gather(*(table.put(item(n)) for n in range(COUNT)))
        found = await asyncio.gather(*(table.get(key(n)) for n in range(COUNT)))
        assert [each["number"] for each in found] == list(range(COUNT))

    run(work)
