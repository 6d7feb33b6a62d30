"""A long batch is sent in the order in which Penstock keeps items, and loses nothing by it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import orjson
import pytest

import penstock
from penstock.client.batches import batch_queue
from penstock.client.batches.batches import BatchOptions
from penstock.client.items.keys import TableKey
from penstock.client.transports.base import Capabilities
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import ManualClock
from penstock.errors import AccessDeniedException
from penstock.server import running_server

TABLE = {
    "TableName": "readings",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
    "BillingMode": "PAY_PER_REQUEST",
}
place = batch_queue.places(TableKey.parse("id:N"))


class Endpoint:
    """A transport to somewhere that is not AWS, whose requests a test sees, and may answer."""

    name = "endpoint"
    capabilities = Capabilities(local_order=True)

    def __init__(self, inner, answer=None):
        self._inner = inner
        self._answer = answer or (lambda request: self._inner.execute("BatchWriteItem", request))
        self.requests = []

    def execute(self, operation, request):
        request = orjson.loads(orjson.dumps(request))
        if operation != "BatchWriteItem":
            return self._inner.execute(operation, request)
        self.requests.append(request["RequestItems"]["readings"])
        return self._answer(request)

    def close(self):
        self._inner.close()


@pytest.fixture
def local():
    with penstock.connect() as local:
        local.execute("CreateTable", TABLE)
        yield local


@pytest.fixture
def short(monkeypatch):
    """A batch is long after 100 actions."""
    monkeypatch.setattr("penstock.client.batches.batch_queue.LONG_BATCH", 100)
    monkeypatch.setattr(batch_queue, "LONG_BATCH", 100)


def in_no_order(count):
    return Random(1).sample(range(1_000_000), count)


def falls(requests):
    """How often an action stands before the one that was sent before it."""
    sent = [place(one["PutRequest"]["Item"]) for request in requests for one in request]
    return sum(later < earlier for earlier, later in pairwise(sent))


@pytest.mark.usefixtures("short")
def test_a_long_batch_is_a_few_sorted_runs(local):
    endpoint = Endpoint(local.transport)
    numbers = in_no_order(3_200)
    report = penstock.Database(endpoint).table("readings").batch_write(({"id": n} for n in numbers), workers=1)
    assert (report.done, report.requests) == (3_200, 129)  # one action waited when holding back began
    assert falls(endpoint.requests[:4]) > 30  # a short batch is sent as it comes
    assert falls(endpoint.requests[4:]) <= 6  # 100, 100, 200, 400, … are held back
    assert sorted(item["id"] for item in local.table("readings").scan()) == sorted(numbers)


@pytest.mark.usefixtures("short")
def test_several_requests_are_in_flight_meanwhile(local):
    endpoint = Endpoint(local.transport)
    numbers = in_no_order(3_200)
    penstock.Database(endpoint).table("readings").batch_write({"id": n} for n in numbers)
    ordered = [[place(one["PutRequest"]["Item"]) for one in request] for request in endpoint.requests[4:]]
    assert all(request == sorted(request) for request in ordered)
    assert len(list(local.table("readings").scan())) == 3_200


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("seed", range(6))
def test_the_last_action_on_a_key_wins_although_some_come_back(local, seed):
    chance = Random(seed)
    expected = {}

    def answer(request):
        actions = request["RequestItems"]["readings"]
        back = [one for one in actions if chance.random() < 0.1]
        done = [one for one in actions if one not in back]
        if done:
            local.execute("BatchWriteItem", {"RequestItems": {"readings": done}})
        return {"UnprocessedItems": {"readings": back} if back else {}}

    clock = ManualClock()
    options = {"clock": clock, "sleep": clock.advance, "workers": 1 + seed % 2 * 3}
    with (
        penstock.Database(Endpoint(local.transport, answer)).table("readings")._batch(BatchOptions(**options)) as batch
    ):
        for turn in range(3_000):
            number = chance.randrange(600)
            if chance.random() < 0.2:
                batch.delete({"id": number})
                expected.pop(number, None)
            else:
                batch.put({"id": number, "turn": turn})
                expected[number] = turn
    assert {item["id"]: item["turn"] for item in local.table("readings").scan()} == expected
    assert batch.report.done + batch.report.replaced == 3_000


@pytest.mark.usefixtures("short")
def test_a_block_that_raises_sends_no_more_and_knows_what_was_held(local):
    endpoint = Endpoint(local.transport)
    with (
        pytest.raises(RuntimeError),
        penstock.Database(endpoint).table("readings").batch(workers=1) as batch,
    ):
        for number in range(190):
            batch.put({"id": number})
        raise RuntimeError("no more rows")
    assert len(endpoint.requests) < 8
    assert batch.done + len(batch.failed) == 190
    written = {item["id"] for item in local.table("readings").scan()}
    assert written | {each.item["id"] for each in batch.failed} == set(range(190)) and len(written) == batch.done


@pytest.mark.usefixtures("short")
def test_a_refusal_names_every_action_that_was_held(local):
    count = 0

    def answer(request):
        nonlocal count
        count += 1
        if count > 6:
            raise AccessDeniedException("no")
        return local.execute("BatchWriteItem", request)

    with pytest.raises(penstock.BatchIncomplete) as caught:
        penstock.Database(Endpoint(local.transport, answer)).table("readings").batch_write(
            ({"id": number} for number in range(225)), workers=1
        )
    written = {item["id"] for item in local.table("readings").scan()}
    failed = {each.item["id"] for each in caught.value.failed}
    assert caught.value.done == len(written) > 100
    assert len(failed) > 50 and written | failed == set(range(len(written) + len(failed)))


@pytest.mark.usefixtures("short")
def test_actions_of_a_slow_source_are_held_for_a_few_seconds_at_most(local):
    clock, endpoint = ManualClock(), Endpoint(local.transport)
    options = BatchOptions(clock=clock, sleep=clock.advance, workers=1)
    with penstock.Database(endpoint).table("readings")._batch(options) as batch:
        for number in range(1_000):
            clock.advance(1.0)
            batch.put({"id": number})
            assert number - batch.done <= 75


@pytest.mark.usefixtures("short")
def test_a_batch_that_is_paced_is_sent_as_it_comes(local):
    endpoint = Endpoint(local.transport)
    clock = ManualClock()
    options = BatchOptions(pace=Pacer(1_000_000), clock=clock, sleep=clock.advance, workers=1)
    with penstock.Database(endpoint).table("readings")._batch(options) as batch:
        for number in in_no_order(1_000):
            batch.put({"id": number})
    assert falls(endpoint.requests[4:]) > 100


@pytest.mark.parametrize(
    ("url", "sorts"),
    [
        ("http://localhost:8000", True),
        ("http://10.1.2.3:8000", True),
        ("aws://eu-west-2", False),
        ("https://dynamodb.eu-west-2.amazonaws.com", False),
        ("https://vpce-1a2b.dynamodb.eu-west-2.vpce.amazonaws.com", False),
        ("https://123456789012.ddb.eu-west-2.api.aws", False),
    ],
)
def test_at_aws_nothing_is_sorted_because_neighbours_are_one_partitions(url, sorts):
    with penstock.connect(url) as database:
        assert database.capabilities.local_order is sorts


def test_a_load_over_http_is_all_there(local):
    with running_server(local.engine) as server, penstock.connect(server.url) as remote:
        assert remote.capabilities.local_order
        report = remote.table("readings").batch_write({"id": n, "text": "é" * 20} for n in in_no_order(4_000))
        assert report.done == 4_000
        found = {item["id"]: item["text"] for item in local.table("readings").scan()}
        assert found == dict.fromkeys(in_no_order(4_000), "é" * 20)
