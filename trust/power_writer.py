"""The process whose power is cut: `python -m trust.power_writer FILE SYNC SEED WRITES`.

Each write is said before it begins ("try …") and after it was acknowledged ("done"). A write is a JSON object: the
version that each key has after it, or null where the item is gone.
"""

from __future__ import annotations

import json
import os
import sys
from random import Random
from typing import Any, Literal, cast

from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.engine.storage import checkpoints, database_file

TABLE = "jobs"
KEYS = 30
Write = dict[str, int | None]
Version = dict[str, int]

DEFINITION: dict[str, Any] = {
    "TableName": TABLE,
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "owner", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-owner",
            "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
}


def item(key: str, version: int) -> dict[str, Any]:
    """The index's key moves with the version; some items have pages of their own."""
    size = 12_000 if version % 9 == 0 else version % 700
    return {
        "id": {"S": key},
        "version": {"N": str(version)},
        "owner": {"S": f"o{version % 5}"},
        "text": {"S": f"{version} " * (size // 4)},
    }


def make(path: str) -> None:
    """The file that the writer begins with."""
    with Engine(path) as engine:
        engine.execute("CreateTable", DEFINITION)
        for number in range(KEYS // 2):
            engine.execute("PutItem", {"TableName": TABLE, "Item": item(f"k{number}", 0)})


def start() -> Version:
    return {f"k{number}": 0 for number in range(KEYS // 2)}


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def _write(engine: Engine, random: Random, version: int) -> None:
    keys = [f"k{number}" for number in random.sample(range(KEYS), random.choice((1, 1, 3, 6)))]
    gone = random.random() < 0.2
    left: Write = dict.fromkeys(keys, None if gone else version)
    _say("try " + json.dumps(left))
    if gone:
        actions: list[dict[str, Any]] = [{"Delete": {"TableName": TABLE, "Key": {"id": {"S": key}}}} for key in keys]
    else:
        actions = [{"Put": {"TableName": TABLE, "Item": item(key, version)}} for key in keys]
    engine.execute("TransactWriteItems", {"TransactItems": actions})
    _say("done")


def main() -> None:
    path, sync, seed, writes = sys.argv[1:]
    settings = Settings(synchronous=cast('Literal["normal", "full"]', sync))
    # Small, so that a short run sees the log copied and begun again many times.
    setattr(database_file, "CHECKPOINT_PAGES", 60)  # noqa: B010
    setattr(checkpoints, "ROWS", 25)  # noqa: B010
    random = Random(int(seed))
    engine = Engine(path, settings=settings)
    for version in range(1, int(writes) + 1):
        if random.random() < 0.04:
            engine.close()
            engine = Engine(path, settings=settings)
        _write(engine, random, version)
    engine.close()


if __name__ == "__main__":
    main()
