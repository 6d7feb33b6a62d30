"""Vector search over HTTP: `python -m bench vectors`.

Vectors of random numbers, seven digits each, are loaded with BatchWriteItem, 25 at a time, by one client; then it
searches for the ten nearest to random vectors, one after the other. Bodies are made beforehand: what is measured is the
server. Each answer is compared with what NumPy finds in the same vectors. Dynoxide is measured with the smaller number.
"""

from __future__ import annotations

import http.client
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import HEADERS, Server, Subject, find_peers, penstock, running

TABLE, INDEX = "Vectors", "near"
BATCH = 25
TOP = 10


@dataclass(frozen=True)
class Plan:
    small: int
    large: int
    """0: only the small one."""
    dimensions: int
    searches: int
    puts: int


PLANS = {
    "full": Plan(10_000, 100_000, 384, 60, 500),
    "quick": Plan(500, 0, 64, 10, 50),
}


@dataclass(frozen=True)
class Measured:
    loaded: float
    put: float
    first: float
    median: float
    worst: float
    exact: int
    megabytes: float
    load_cpu: float
    """Milliseconds of the server's CPU an item."""
    search_cpu: float


class Caller:
    """One connection, and requests that are bytes already."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)

    def call(self, operation: str, body: bytes) -> bytes:
        self._connection.request("POST", "/", body, {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{operation}: {response.status} {answer[:300]!r}")
        return answer


def create(server: Server, dimensions: int) -> None:
    index = {
        "IndexName": INDEX,
        "VectorAttribute": {"AttributeName": "embedding"},
        "Dimensions": dimensions,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "ALL"},
    }
    server.execute(
        "CreateTable",
        {
            "TableName": TABLE,
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
            "VectorIndexes": [index],
        },
    )
    while server.execute("DescribeTable", {"TableName": TABLE})["Table"]["TableStatus"] != "ACTIVE":
        time.sleep(0.05)


def numbers(row: Any) -> list[dict[str, str]]:
    return [{"N": f"{value:.7f}".rstrip("0").rstrip(".")} for value in row]


def item(number: int, row: Any) -> dict[str, Any]:
    return {"pk": {"S": f"k{number:06}"}, "text": {"S": "some words"}, "embedding": {"L": numbers(row)}}


def load(caller: Caller, rows: Any) -> float:
    """Items a second."""
    spent = 0.0
    for start in range(0, len(rows), BATCH):
        puts = [{"PutRequest": {"Item": item(start + at, row)}} for at, row in enumerate(rows[start : start + BATCH])]
        body = orjson.dumps({"RequestItems": {TABLE: puts}})
        began = time.perf_counter()
        answer = orjson.loads(caller.call("BatchWriteItem", body))
        spent += time.perf_counter() - began
        if answer.get("UnprocessedItems"):
            raise RuntimeError("a batch was not written whole")
    return len(rows) / spent


def measure(subject: Subject, size: int, plan: Plan) -> Measured:
    chance = np.random.default_rng(size)
    rows = np.round(chance.standard_normal((size, plan.dimensions)), 7).astype(np.float32)
    queries = np.round(chance.standard_normal((plan.searches + 1, plan.dimensions)), 7).astype(np.float32)
    units = rows / np.linalg.norm(rows, axis=1)[:, None]
    with tempfile.TemporaryDirectory(prefix="bench-") as name, running(subject, Path(name)) as server:
        create(server, plan.dimensions)
        caller = Caller(server)
        before = server.cpu_seconds()
        loaded = load(caller, rows)
        load_cpu = (server.cpu_seconds() - before) / size * 1e3
        puts = [orjson.dumps({"TableName": TABLE, "Item": item(at, rows[at])}) for at in range(plan.puts)]
        began = time.perf_counter()
        for body in puts:
            caller.call("PutItem", body)
        put = plan.puts / (time.perf_counter() - began)
        times, exact, before = [], 0, 0.0
        for query in queries:
            before = before or (server.cpu_seconds() if times else 0.0)  # after the first
            request = {"TableName": TABLE, "IndexName": INDEX, "SearchVector": numbers(query), "TopK": TOP}
            body = orjson.dumps(request)
            began = time.perf_counter()
            answer = caller.call("SearchVectors", body)
            times.append((time.perf_counter() - began) * 1e3)
            nearest = np.argsort(-(units @ (query / np.linalg.norm(query))))[:TOP]
            got = [one["Item"]["pk"]["S"] for one in orjson.loads(answer)["SearchResults"]]
            exact += set(got) == {f"k{at:06}" for at in nearest}
        later = times[1:]
        cpu = (server.cpu_seconds() - before) / len(later) * 1e3
        resident = server.memory()["VmRSS"] / 1e6
        return Measured(loaded, put, times[0], statistics.median(later), max(later), exact, resident, load_cpu, cpu)


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    columns = ["", "load, items/s", "CPU an item", "PutItem/s", "first search", "search, median", "worst"]
    columns += ["CPU a search", "as NumPy", "resident"]
    table = Table(f"Vectors of {plan.dimensions} dimensions, the {TOP} nearest, one client over HTTP", columns)
    section = Section("vectors", "Vector search", [table])
    peers = [one for one in find_peers(options)[0] if one.name == "dynoxide"]
    sizes = [size for size in (plan.small, plan.large) if size]
    asked = [(penstock(), size) for size in sizes] + [(peer, plan.small) for peer in peers]
    for subject, size in asked:
        told = measure(subject, size, plan)
        searches = plan.searches + 1
        table.rows.append(
            [
                f"{subject.name}, {size:,}",
                f"{told.loaded:,.0f}",
                f"{told.load_cpu:.2f} ms",
                f"{told.put:,.0f}",
                f"{told.first:.0f} ms",
                f"{told.median:.1f} ms",
                f"{told.worst:.1f} ms",
                f"{told.search_cpu:.1f} ms",
                f"{told.exact} of {searches}",
                f"{told.megabytes:.0f} MB",
            ]
        )
        key = f"{subject.name}/{size}"
        section.figures |= {f"{key}/load": told.loaded, f"{key}/search": told.median, f"{key}/exact": told.exact}
    section.notes = [
        f"Batches of {BATCH}; searches one after the other, {plan.searches} after the first, which reads the index "
        "into memory. `as NumPy` counts the answers with exactly the items that a matrix product in 32 bits finds.",
    ]
    return section


if __name__ == "__main__":
    alone("vectors")
