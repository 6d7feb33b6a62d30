"""A scan by several threads: everything once, in bounded memory, resumable, stoppable."""

from __future__ import annotations

import gc
import json
import threading
import time

import pytest

import penstock
from penstock.errors import InternalServerError

COUNT = 300


@pytest.fixture
def filled(expenses):
    expenses.batch_write({"company": f"c{n}", "number": n} for n in range(COUNT))
    return expenses


def numbers(items):
    return sorted(item["number"] for item in items)


class Watched:
    """A transport that counts its calls, and may hold them back or break them."""

    def __init__(self, inner, on_scan=lambda request: None):
        self.name = inner.name
        self._inner = inner
        self._on_scan = on_scan
        self.calls = 0

    def execute(self, operation, request):
        if operation == "Scan":
            self.calls += 1
            self._on_scan(request)
        return self._inner.execute(operation, request)

    def close(self):
        self._inner.close()


def scan_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-scan")]


def wait_for_no_threads():
    deadline = time.monotonic() + 60
    while scan_threads() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not scan_threads()


@pytest.mark.parametrize(("segments", "workers"), [(1, 1), (8, 4), (3, 9), (16, 2)])
def test_every_item_comes_once(filled, segments, workers):
    scan = filled.parallel_scan(segments=segments, workers=workers, page_size=11)
    assert numbers(scan) == list(range(COUNT))
    assert (scan.returned, scan.scanned) == (COUNT, COUNT)
    assert scan.tokens == [None] * segments
    wait_for_no_threads()


def test_workers_wait_for_the_reader(filled):
    watched = Watched(filled._database.transport)
    scan = penstock.Database(watched).table("expenses").parallel_scan(segments=4, workers=2, page_size=1)
    next(scan)
    time.sleep(0.1)
    # One page was taken; one waits, and each of two workers holds one.
    assert watched.calls <= 4
    scan.close()
    wait_for_no_threads()


def test_closing_stops_the_workers(filled):
    with filled.parallel_scan(page_size=5) as scan:
        next(scan)
        assert scan_threads()
    wait_for_no_threads()
    assert next(scan, None) is None


def test_forgetting_stops_the_workers(filled):
    scan = filled.parallel_scan(page_size=5)
    next(scan)
    del scan
    gc.collect()
    wait_for_no_threads()


@pytest.mark.parametrize("stop", [0, 1, 7, 100, 299])
def test_each_segment_is_resumed_where_it_stood(filled, stop):
    scan = filled.parallel_scan(segments=5, page_size=7)
    first = [next(scan) for _ in range(stop)]
    scan.close()
    tokens = json.loads(json.dumps(scan.tokens))
    rest = filled.parallel_scan(segments=5, workers=2, tokens=tokens)
    assert sorted(numbers(first) + numbers(rest)) == list(range(COUNT))


def test_a_segments_token_is_good_for_a_scan_of_that_segment(filled):
    scan = filled.parallel_scan(segments=3, page_size=7)
    first = [next(scan) for _ in range(50)]
    scan.close()
    rest = []
    for segment, token in enumerate(scan.tokens):
        if token is not None:
            rest += filled.scan(segment=segment, segments=3, token=token)
    assert sorted(numbers(first) + numbers(rest)) == list(range(COUNT))


def test_tokens_are_of_as_many_segments(filled):
    with pytest.raises(ValueError, match="2 tokens for 8 segments"):
        filled.parallel_scan(tokens=[None, None])
    with pytest.raises(ValueError, match="segments"):
        filled.parallel_scan(segments=0)
    with pytest.raises(ValueError, match="workers"):
        filled.parallel_scan(workers=0)


def test_a_scan_whose_segments_are_all_done_is_empty(filled):
    assert list(filled.parallel_scan(segments=2, tokens=[None, None])) == []


def test_the_error_of_one_segment_ends_the_scan_and_nothing_is_lost(filled):
    def break_segment_two(request):
        if request["Segment"] == 2 and "ExclusiveStartKey" in request:
            raise InternalServerError("broken")

    broken = penstock.Database(Watched(filled._database.transport, break_segment_two)).table("expenses")
    scan = broken.parallel_scan(segments=4, page_size=9)
    first = []
    with pytest.raises(InternalServerError, match="broken"):
        for item in scan:
            first.append(item)
    wait_for_no_threads()
    assert sorted(numbers(first) + numbers(filled.parallel_scan(segments=4, tokens=scan.tokens))) == list(range(COUNT))
