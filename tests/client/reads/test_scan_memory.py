"""A parallel scan of a table that is not in memory does not bring it there (scans.py, 1)."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

import penstock
from penstock.client.reads.pages import Page

ITEMS = 200
PAGES = 15  # a segment
SEGMENTS = 8


def answer_to(request):
    """Any page of any segment, made up when it is asked for."""
    number = int(request.get("ExclusiveStartKey", {"id": {"N": "-1"}})["id"]["N"]) + 1
    items = [
        {"id": {"N": str(number)}, "part": {"N": str(part)}, "text": {"S": f"{part} " + "x" * 50}}
        for part in range(ITEMS)
    ]
    answer = {"Items": items, "Count": ITEMS, "ScannedCount": ITEMS}
    return answer if number == PAGES - 1 else {**answer, "LastEvaluatedKey": {"id": {"N": str(number)}}}


class MadeUp:
    """A table without end, as a transport for threads."""

    name = "made up"

    def execute(self, operation, request):
        return answer_to(request)

    def close(self):
        pass


class MadeUpAsync:
    name = "made up"

    async def execute(self, operation, request):
        await asyncio.sleep(0)
        return answer_to(request)

    async def close(self):
        pass


def scanned_by_threads():
    return sum(1 for _ in penstock.Database(MadeUp()).table("t").parallel_scan(segments=SEGMENTS, workers=4))


def scanned_by_tasks():
    async def count():
        number = 0
        async for _ in penstock.AsyncDatabase(MadeUpAsync()).table("t").parallel_scan(segments=SEGMENTS, workers=4):
            number += 1
        return number

    return asyncio.run(count())


def peak_bytes(work):
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("scan", [scanned_by_threads, scanned_by_tasks])
def test_memory_holds_a_few_pages_however_long_the_table_is(scan):
    def read_one():
        answer = answer_to({})
        return answer, Page.of(answer)

    scan()  # imports, which stay in memory
    _, one_page = peak_bytes(read_one)
    count, scanning = peak_bytes(scan)
    assert count == ITEMS * PAGES * SEGMENTS
    # Four workers with a page each, one that waits and one that is read; the table has 120.
    assert scanning < 10 * one_page
