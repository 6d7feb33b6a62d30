"""Processes that die in the middle of large work: kill -9 by their own hand, after so many steps of SQLite's machine.

    echo FILE WORK STEPS | python crash_chores.py

Says "dead" when the process was killed, "done" when its work ended before that.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from typing import Any

from penstock.client.database import connect
from penstock.engine import Engine, maintenance, ttl_sweeper
from penstock.engine.items import expiry_rows, index_backfill
from penstock.engine.recovery import restores
from penstock.engine.storage.database_file import Connection, Store
from penstock.errors import DynamoDBError

TABLE = "jobs"
ITEMS = 240
ENDED = 150
_EVERY_OPERATIONS = 100

DEFINITION: dict[str, Any] = {
    "TableName": TABLE,
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
INDEX = {
    "IndexName": "by-owner",
    "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}
ATTRIBUTES = [*DEFINITION["AttributeDefinitions"], {"AttributeName": "owner", "AttributeType": "S"}]
WITH_INDEX = DEFINITION | {"AttributeDefinitions": ATTRIBUTES, "GlobalSecondaryIndexes": [INDEX]}
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}


def item(number: int) -> dict[str, Any]:
    """The first ones ended long ago, the others never will."""
    ends = 1_700_000_000 + number if number < ENDED else 9_000_000_000
    return {
        "id": {"S": f"n{number}"},
        "owner": {"S": f"w{number % 7}"},
        "ends": {"N": str(ends)},
        "text": {"S": "x" * 200},
    }


def small_steps() -> None:
    """Makes the background work of a small table what it is for a large one."""
    index_backfill.FILL_AT_ONCE = expiry_rows.FILL_AT_ONCE = 50
    index_backfill.FILL_STEP = ttl_sweeper.FILL_STEP = 20
    setattr(ttl_sweeper, "SWEEP_STEP", 20)  # noqa: B010
    maintenance.AT_ONCE_ROWS = 50
    maintenance.MOST_ROWS = 20
    restores.RUN_ROWS = 60


def make(path: str, work: str) -> None:
    """The file before the work."""
    with Engine(path) as engine:
        engine.maintenance.stop()
        engine.execute("CreateTable", (DEFINITION if work in ("fill", "load") else WITH_INDEX) | STREAM)
        if work == "load":
            engine.execute("CreateTable", DEFINITION | {"TableName": "plain"})
            return
        puts = [{"PutRequest": {"Item": item(number)}} for number in range(ITEMS)]
        for start in range(0, ITEMS, 24):
            engine.execute("BatchWriteItem", {"RequestItems": {TABLE: puts[start : start + 24]}})
        if work in ("restore", "delete-backup"):
            engine.execute("CreateBackup", {"TableName": TABLE, "BackupName": "monday"})
            finish(engine)
        if work in ("recover", "delete-recovered"):
            recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
            engine.execute("UpdateContinuousBackups", {"TableName": TABLE} | recovery)
            engine.execute("DeleteItem", {"TableName": TABLE, "Key": {"id": {"S": "n1"}}})
            engine.execute("PutItem", {"TableName": TABLE, "Item": item(1)})


def fill(engine: Engine) -> None:
    create = {"AttributeDefinitions": ATTRIBUTES, "GlobalSecondaryIndexUpdates": [{"Create": INDEX}]}
    engine.execute("UpdateTable", {"TableName": TABLE} | create)
    engine.maintenance.stop()
    finish(engine)


def restore(engine: Engine) -> None:
    backup = engine.execute("ListBackups", {})["BackupSummaries"][0]["BackupArn"]
    engine.execute("RestoreTableFromBackup", {"TargetTableName": "again", "BackupArn": backup})
    engine.maintenance.stop()
    finish(engine)


def recover(engine: Engine) -> None:
    request = {"SourceTableName": TABLE, "TargetTableName": "again", "UseLatestRestorableTime": True}
    engine.execute("RestoreTableToPointInTime", request)
    engine.maintenance.stop()
    for number in range(0, ITEMS, 40):
        engine.maintenance.run_due()
        engine.execute("PutItem", {"TableName": TABLE, "Item": item(number) | {"text": {"S": "later"}}})
    finish(engine)


def back_up(engine: Engine) -> None:
    engine.execute("CreateBackup", {"TableName": TABLE, "BackupName": "monday"})
    engine.maintenance.stop()
    for number in range(0, ITEMS, 40):
        engine.maintenance.run_due()
        engine.execute("PutItem", {"TableName": TABLE, "Item": item(number) | {"text": {"S": "later"}}})
    finish(engine)


def delete(engine: Engine) -> None:
    engine.execute("DeleteTable", {"TableName": TABLE})
    engine.maintenance.stop()
    finish(engine)


def delete_backup(engine: Engine) -> None:
    backup = engine.execute("ListBackups", {})["BackupSummaries"][0]["BackupArn"]
    engine.execute("DeleteBackup", {"BackupArn": backup})
    engine.maintenance.stop()
    finish(engine)


def drop_index(engine: Engine) -> None:
    deletion = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": INDEX["IndexName"]}}]}
    engine.execute("UpdateTable", {"TableName": TABLE} | deletion)
    engine.maintenance.stop()
    finish(engine)


def sweep(engine: Engine) -> None:
    engine.maintenance.stop()
    ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ends"}}
    engine.execute("UpdateTimeToLive", {"TableName": TABLE} | ttl)
    finish(engine)


def finish(engine: Engine) -> None:
    """All the background work that there is."""
    for _ in range(300):
        if engine.maintenance.run_due() != 0.0:
            return


def load(path: str) -> None:
    with connect(path) as db, db.table("plain").batch() as batch:
        for number in range(1_000):
            batch.put({"id": f"n{number}", "number": number})


class _Killer:
    def __init__(self, maintenance: int) -> None:
        self.left = maintenance

    def __call__(self) -> int:
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0


def die_in_the_work(path: str, work: str, maintenance: int) -> None:
    killer = _Killer(maintenance)
    opened = Store._open

    def watched(store: Store) -> Connection:
        connection = opened(store)
        connection.set_progress_handler(killer, _EVERY_OPERATIONS)
        return connection

    setattr(Store, "_open", watched)  # noqa: B010
    if work == "load":
        load(path)
        return
    with Engine(path) as engine:
        WORKS[work](engine)


WORKS = {
    "fill": fill,
    "restore": restore,
    "recover": recover,
    "sweep": sweep,
    "back-up": back_up,
    "delete": delete,
    "delete-recovered": delete,
    "delete-backup": delete_backup,
    "drop-index": drop_index,
}


def main() -> None:
    small_steps()
    for line in sys.stdin:
        path, work, maintenance = line.split()
        pid = os.fork()
        if not pid:
            try:
                die_in_the_work(path, work, int(maintenance))
            except (DynamoDBError, sqlite3.Error) as error:
                sys.stderr.write(f"{error!r}\n")
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        os.write(1, b"dead\n" if os.WIFSIGNALED(status) else b"done\n" if not status else b"failed\n")


if __name__ == "__main__":
    main()
