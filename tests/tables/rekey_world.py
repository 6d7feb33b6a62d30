"""A table under change while its key is changed, and a checker that knows every write.

Run as a program it is a rekey in a process of its own, to be killed: `rekey_world.py FILE`.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

from moving_samples import Wire, everything

from penstock.client.database import Database, connect
from penstock.tables.apply.apply import make
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.rekey.phases import Options, Rekey, plan_rekey
from penstock.tables.rekey.state import RekeyRun, RekeyStore

OLD = Table(
    "old",
    key=("conversation_id:S", "comment_id:N"),
    indexes=[Index("by-author", "author:S"), Index("by-time", "conversation_id:S", "at:N", local=True)],
    ttl="expires",
    tags={"team": "delphi"},
)
NEW_KEY = "job_id:S,comment_id:N"
LEASE_SECONDS = 10.0
KILLED_LEASE_SECONDS = 1.5
"""Of a run that is to be killed: the next one waits for its end."""


def comment(number: int, version: int = 0, job: str | None = None) -> Wire:
    return {
        "conversation_id": {"S": f"c{number % 13}"},
        "comment_id": {"N": str(number)},
        "job_id": {"S": job or f"j{number % 29}"},
        "author": {"S": f"a{number % 5}"},
        "at": {"N": str(version)},
        "text": {"S": "x" * 60},
    }


def filled_world(url: str = ":memory:", count: int = 2_000, table: Table = OLD) -> Database:
    db = connect(url)
    make(db, table, table.name)
    ItemTable.of(db, table.name).write(comment(number) for number in range(count))
    return db


def rekeyed(
    db: Database, options: Options | None = None, lease_seconds: float = LEASE_SECONDS, **more: Any
) -> RekeyRun:
    """Begins the rekey, or goes on with it, until it is ready."""
    run = Rekey(db, RekeyStore(db, lease_seconds=lease_seconds), options or Options(page_items=200))
    if RekeyStore(db).read("old") is not None:
        return run.resume("old")
    return run.start(plan_rekey(db, "old", "new", NEW_KEY, **more))


class Writer(threading.Thread):
    """Puts, updates and deletes without rest, and remembers what was acknowledged: `known` is what must be there."""

    def __init__(self, db: Database, count: int, seed: int = 1, moves: bool = True) -> None:
        super().__init__(daemon=True)
        self._db = db
        self._random = random.Random(seed)
        self._count = count
        self._moves = moves
        self._stop_event = threading.Event()
        self.known: dict[int, Wire] = {number: comment(number) for number in range(count)}
        self.writes = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_event.is_set():
                self._write()
                time.sleep(0.0005)  # others want to run too
        except BaseException as error:
            self.error = error

    def _write(self) -> None:
        self.writes += 1
        # A few keys are hot: the same item is changed again before its last change was followed.
        number = self._random.choice((self._random.randrange(self._count + 200), self._random.randrange(5)))
        kind = self._random.random()
        if kind < 0.3:
            self._remove(number)
        elif kind < 0.6 and number in self.known:
            self._update(number)
        else:
            # A new job moves the item to another key of the new table.
            job = f"j{self._random.randrange(29)}" if self._moves and self._random.random() < 0.3 else None
            self._put(comment(number, self.writes, job))

    def _put(self, item: Wire) -> None:
        self._db.execute("PutItem", {"TableName": "old", "Item": item})
        self.known[int(item["comment_id"]["N"])] = item

    def _key(self, number: int) -> Wire:
        return {name: comment(number)[name] for name in ("conversation_id", "comment_id")}

    def _update(self, number: int) -> None:
        value = {"N": str(self.writes)}
        request = {"TableName": "old", "Key": self._key(number), "UpdateExpression": "SET #at = :at"}
        names = {"ExpressionAttributeNames": {"#at": "at"}, "ExpressionAttributeValues": {":at": value}}
        self._db.execute("UpdateItem", request | names)
        self.known[number] = {**self.known[number], "at": value}

    def _remove(self, number: int) -> None:
        self._db.execute("DeleteItem", {"TableName": "old", "Key": self._key(number)})
        self.known.pop(number, None)

    def goes_on(self, _: object) -> None:
        """Returns when some more was written: a busy machine must not keep the writer from writing."""
        enough = self.writes + 5
        while self.writes < enough and self.is_alive():
            time.sleep(0.0005)

    def finish(self) -> None:
        self._stop_event.set()
        self.join()
        if self.error is not None:
            raise self.error


def check_new_table(db: Database, known: dict[int, Wire]) -> None:
    """Fails unless the new table has exactly the items that the writer knows, each under its new key."""
    found = everything(db, "new")
    expected = {(item["job_id"]["S"], item["comment_id"]["N"]): item for item in known.values()}
    lost = expected.keys() - found.keys()
    resurrected = found.keys() - expected.keys()
    old = {key for key in expected.keys() & found.keys() if expected[key] != found[key]}
    assert (lost, resurrected, old) == (set(), set(), set())


def main(path: str) -> None:
    """Says its phase whenever it has saved how far it is; its parent kills it at one of these lines."""
    with connect(path) as db:
        options = Options(page_items=20, save_seconds=0.0, tell=lambda run: print(run.phase, flush=True))
        rekeyed(db, options, KILLED_LEASE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
