"""The process that is killed: writes without end, and says of each write that it is done once execute() has returned.

    echo FILE SEED | python crash_writer.py

A line on stdout is an acknowledged write: what it left, as [[key, version], …].
"""

from __future__ import annotations

import os
import sys
from random import Random
from typing import Any

import orjson

from penstock.engine import Engine, Pending
from penstock.errors import DynamoDBError

KEYS = 40
TABLE = "jobs"


def key(number: int) -> dict[str, Any]:
    return {"pk": {"S": f"p{number % 5}"}, "sk": {"N": str(number)}}


def item(number: int, version: int) -> dict[str, Any]:
    """The indexes' keys change with the version, so that every write moves rows."""
    return {
        **key(number),
        "version": {"N": str(version)},
        "owner": {"S": f"owner {version % 7}"},
        "due": {"N": str(version)},
        "text": {"S": "x" * (version % 300)},
    }


class Writer:
    def __init__(self, execute: Any, answer_many: Any, random: Random, version: int) -> None:
        self.execute = execute
        self.answer_many = answer_many
        self.random = random
        self.version = version

    def write(self) -> dict[int, int | None]:
        """Makes one write; what it left, by key: a version, or None where the item is gone."""
        self.version += 1
        return self.random.choice([self.put, self.update, self.delete, self.batch, self.transaction, self.group])()

    def number(self) -> int:
        return self.random.randrange(KEYS)

    def numbers(self) -> list[int]:
        return self.random.sample(range(KEYS), 6)

    def put(self) -> dict[int, int | None]:
        number = self.number()
        self.execute("PutItem", {"TableName": TABLE, "Item": item(number, self.version)})
        return {number: self.version}

    def update(self) -> dict[int, int | None]:
        number = self.number()
        self.execute("UpdateItem", self.update_request(number))
        return {number: self.version}

    def update_request(self, number: int) -> dict[str, Any]:
        new = {name: value for name, value in item(number, self.version).items() if name not in key(number)}
        return {
            "TableName": TABLE,
            "Key": key(number),
            "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in new),
            "ExpressionAttributeNames": {f"#{name}": name for name in new},
            "ExpressionAttributeValues": {f":{name}": value for name, value in new.items()},
        }

    def delete(self) -> dict[int, int | None]:
        number = self.number()
        self.execute("DeleteItem", {"TableName": TABLE, "Key": key(number)})
        return {number: None}

    def batch(self) -> dict[int, int | None]:
        numbers = self.numbers()
        puts = [{"PutRequest": {"Item": item(number, self.version)}} for number in numbers]
        self.execute("BatchWriteItem", {"RequestItems": {TABLE: puts}})
        return dict.fromkeys(numbers, self.version)

    def transaction(self) -> dict[int, int | None]:
        numbers = self.numbers()
        actions: list[dict[str, Any]] = [
            {"Put": {"TableName": TABLE, "Item": item(number, self.version)}} for number in numbers[:3]
        ]
        actions += [{"Update": self.update_request(number)} for number in numbers[3:]]
        self.execute("TransactWriteItems", {"TransactItems": actions})
        return dict.fromkeys(numbers, self.version)

    def group(self) -> dict[int, int | None]:
        numbers = self.numbers()
        calls = [Pending("PutItem", {"TableName": TABLE, "Item": item(number, self.version)}) for number in numbers]
        for answer in self.answer_many(calls):
            if isinstance(answer, DynamoDBError):
                raise answer
        return dict.fromkeys(numbers, self.version)


def write_until_killed(path: str, seed: int) -> None:
    engine = Engine(path)
    writer = Writer(engine.execute, engine.answer_many, Random(seed), seed * 1_000_000)
    _say(f"pid {os.getpid()}".encode())
    while True:
        _say(orjson.dumps(list(writer.write().items())))


def _say(line: bytes) -> None:
    # One short write to a pipe goes through whole or not at all, also when the process is killed in it.
    os.write(1, line + b"\n")


def main() -> None:
    """Forks a writer for each line "FILE SEED": it saves the imports. Says "dead" when that writer is."""
    for line in sys.stdin:
        path, seed = line.split()
        pid = os.fork()
        if not pid:
            write_until_killed(path, int(seed))
        os.waitpid(pid, 0)
        _say(b"dead")


if __name__ == "__main__":
    main()
