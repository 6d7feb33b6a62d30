"""Microseconds a call, one subject a process: `python -m bench.calls SUBJECT`. Prints JSON.

Its own process, so that one subject's imports, threads and memory are not another's; only the standard library is
imported at the top, so that an interpreter which has nothing but moto can run it too.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import workload
from bench.workload import Execute, Json

PARTITIONS = 10
ROUNDS = 7
Calls = Iterator[tuple[str, Callable[[Json], Any]]]


def penstock_execute(path: Path) -> Execute:
    """The engine itself: DynamoDB's JSON in and out."""
    import penstock

    execute: Execute = penstock.connect(str(path / "bench.db")).execute
    return execute


def boto3_embedded(path: Path) -> Execute:
    """boto3 on the embedded engine."""
    import penstock

    return _through(penstock.boto3_client(str(path / "bench.db")))


def boto3_http(url: str) -> Execute:
    """boto3 to a server."""
    return _through(_client(url))


def boto3_alone() -> Execute:
    """boto3 with an answer at hand: all that a call costs without a network or a server."""
    import io

    from botocore.awsrequest import AWSResponse

    client = _client("http://127.0.0.1:1")
    answers = {
        "GetItem": json.dumps({"Item": workload.item(1, 42)}).encode(),
        "DescribeTable": json.dumps({"Table": {"TableStatus": "ACTIVE"}}).encode(),
    }

    class Raw(io.BytesIO):
        def stream(self, **_: object) -> Iterator[bytes]:
            yield self.read()

    def answer(request: Any, **_: object) -> AWSResponse:
        target = request.headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        headers: Any = {"Content-Type": "application/x-amz-json-1.0"}
        return AWSResponse(request.url, 200, headers, Raw(answers.get(operation, b"{}")))

    client.meta.events.register("before-send.dynamodb", answer)
    return _through(client)


@contextmanager
def moto_in_process() -> Iterator[Execute]:
    """boto3 under moto's mock."""
    from moto import mock_aws  # type: ignore[import-not-found]

    with mock_aws():
        yield _through(_client(None))


def _client(url: str | None) -> Any:
    import boto3

    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",
    )


def _through(client: Any) -> Execute:
    """A boto3 client as an `execute`; the method is looked up once, as a program's own code would."""
    methods = {
        "CreateTable": client.create_table,
        "DescribeTable": client.describe_table,
        "BatchWriteItem": client.batch_write_item,
        "GetItem": client.get_item,
        "PutItem": client.put_item,
        "Query": client.query,
    }

    def execute(operation: str, request: Json) -> Json:
        answer: Json = methods[operation](**request)
        return answer

    return execute


def microseconds(call: Callable[[], object], calls: int) -> dict[str, float]:
    """CPU and wall time of one call: the median of several rounds, after one that is not counted."""
    cpu, wall = [], []
    for _ in range(ROUNDS + 1):
        began, began_cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            call()
        cpu.append((time.process_time() - began_cpu) / calls * 1e6)
        wall.append((time.perf_counter() - began) / calls * 1e6)
    return {"cpu": statistics.median(cpu[1:]), "wall": statistics.median(wall[1:])}


def measure(execute: Execute, calls: int) -> dict[str, dict[str, float]]:
    workload.load(execute, workload.partitions(PARTITIONS))
    chooser = random.Random(7)
    places = [(chooser.randrange(PARTITIONS), chooser.randrange(100)) for _ in range(1000)]
    gets = _cycle([workload.get_item(*place) for place in places])
    puts = _cycle([workload.put_item(*place) for place in places])
    if len(execute("GetItem", next(gets))["Item"]) != 5:
        raise RuntimeError("GetItem did not find its item")
    return {
        "GetItem": microseconds(lambda: execute("GetItem", next(gets)), calls),
        "PutItem": microseconds(lambda: execute("PutItem", next(puts)), calls),
    }


def _cycle(requests: list[Json]) -> Iterator[Json]:
    while True:
        yield from requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=["execute", "boto3-embedded", "boto3-http", "boto3-alone", "moto"])
    parser.add_argument("--url")
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        path = Path(directory)
        if options.subject == "moto":
            with moto_in_process() as execute:
                told = measure(execute, options.calls)
        else:
            makers: dict[str, Callable[[], Execute]] = {
                "execute": lambda: penstock_execute(path),
                "boto3-embedded": lambda: boto3_embedded(path),
                "boto3-http": lambda: boto3_http(options.url),
                "boto3-alone": boto3_alone,
            }
            told = measure(makers[options.subject](), options.calls)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
