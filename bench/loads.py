"""One load of many items, one subject a process: `python -m bench.loads SUBJECT`. Prints JSON.

The items are made before the clock starts: 1 KB each in DynamoDB's counting, eight attributes, keys in no order.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.workload import Json

TABLE = "load"
TEXT_CHARACTERS = 880
Item = dict[str, Any]


def definition(name: str = TABLE) -> Json:
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }


def items(count: int) -> list[Item]:
    """The same ones in every process; boto3 takes no float, so there is none."""
    chance = random.Random(20261115)
    text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz     ", k=TEXT_CHARACTERS + 1000))
    return [_item(number, chance, text) for number in range(count)]


def _item(number: int, chance: random.Random, text: str) -> Item:
    start = chance.randrange(1000)
    return {
        "id": f"{chance.getrandbits(128):032x}",
        "number": number,
        "amount": Decimal(chance.randrange(10_000_000)) / 100,
        "customer": f"customer-{chance.randrange(100_000):06d}",
        "created": f"2026-11-{number % 28 + 1:02d}T12:00:00Z",
        "paid": number % 3 == 0,
        "tags": ["north", "priority", f"batch-{number // 1000}"],
        "text": text[start : start + TEXT_CHARACTERS],
    }


def boto3_batch_writer(url: str, rows: list[Item]) -> Callable[[], object]:
    import boto3

    table = boto3.resource(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench",
    ).Table(TABLE)
    table.load()  # what a first call costs is not a load's

    def run() -> None:
        with table.batch_writer() as batch:
            for item in rows:
                batch.put_item(Item=item)

    return run


def penstock_batch(where: str, rows: list[Item]) -> Callable[[], object]:
    import penstock

    database = penstock.connect(where)
    if "://" not in where:
        database.execute("CreateTable", definition())
    table = database.table(TABLE)
    _ = table.key  # asked once, of any size of load

    def run() -> None:
        with table.batch() as batch:
            for item in rows:
                batch.put(item)

    return run


def sqlite_alone(where: str, rows: list[Item]) -> Callable[[], object]:
    """The same rows, ready-made and in order, in one transaction: no program on this file format is faster."""
    import sqlite3

    import orjson

    from penstock.client.items.values import encode_item
    from penstock.engine.catalog import row_keys
    from penstock.engine.storage import database_file

    made = sorted((row_keys.partition({"S": row["id"]}), 1024, orjson.dumps(encode_item(row))) for row in rows)
    connection = sqlite3.connect(where, isolation_level=None)
    connection.execute(f"PRAGMA page_size = {database_file.PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE t (key BLOB PRIMARY KEY, size INTEGER, item BLOB) WITHOUT ROWID")

    def run() -> None:
        with closing(connection):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", made)
            connection.execute("COMMIT")

    return run


def values_alone(where: str, rows: list[Item]) -> Callable[[], object]:
    """Python's values to DynamoDB's JSON, and nothing else."""
    from penstock.client.items.values import encode_sized

    def run() -> None:
        for item in rows:
            encode_sized(item)

    return run


SUBJECTS: dict[str, Callable[[str, list[Item]], Callable[[], object]]] = {
    "boto3": boto3_batch_writer,
    "penstock": penstock_batch,
    "sqlite": sqlite_alone,
    "values": values_alone,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=list(SUBJECTS))
    parser.add_argument("where", help="a URL or a new file")
    parser.add_argument("--items", type=int, default=100_000)
    options = parser.parse_args()
    run = SUBJECTS[options.subject](options.where, items(options.items))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, began_cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    wal = Path(f"{options.where}-wal")
    figures = {"wall": wall, "cpu": cpu, "grown": grown * 1024, "wal": wal.stat().st_size if wal.exists() else 0}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
