"""Many threads on one engine: nothing is lost, nothing is seen half-done, and every error is DynamoDB's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from process_work import addition, claim, count_up, put_many
from sample_tables import assert_indexes_agree, every_item, index, make, table

from penstock.engine import Engine, Pending
from penstock.errors import DynamoDBError, InternalServerError, StorageError

PLAIN = table("plain", "pk:S")
INDEXED = table("plain", "pk:S", globals_=(index("by_a", "a:S"),))
THREADS = 4


def in_threads(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Runs `work(0)`, `work(1)`, … at the same time; their results."""
    barrier = threading.Barrier(threads)

    def start(number: int) -> Any:
        barrier.wait(timeout=30)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return [future.result(timeout=120) for future in [pool.submit(start, number) for number in range(threads)]]


def test_counters_of_four_threads_add_up(engine: Engine) -> None:
    make(engine, PLAIN)
    in_threads(lambda number: count_up(engine, 200))
    answer = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "counter"}}})
    assert answer["Item"]["n"] == {"N": "800"}


def test_groups_of_four_threads_add_up(engine: Engine) -> None:
    make(engine, PLAIN)
    calls = [Pending("UpdateItem", addition("counter"))] * 8
    in_threads(lambda number: [engine.answer_many(calls) for _ in range(20)])
    answer = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "counter"}}})
    assert answer["Item"]["n"] == {"N": "640"}


def test_each_item_is_claimed_by_one_thread(engine: Engine) -> None:
    make(engine, PLAIN)
    won = in_threads(lambda number: claim(engine, str(number), 100))
    assert sorted(number for one in won for number in one) == list(range(100))


def test_an_index_agrees_after_four_threads_wrote_the_same_items(engine: Engine) -> None:
    make(engine, INDEXED)
    in_threads(lambda number: put_many(engine, 0, 120))
    assert_indexes_agree(engine, "plain")


def test_readers_see_a_transaction_whole_or_not_at_all(engine: Engine) -> None:
    make(engine, PLAIN)
    keys = [{"pk": {"S": name}} for name in ("left", "right")]
    done = threading.Event()

    def write() -> None:
        for _ in range(150):
            actions = [{"Update": addition(name)} for name in ("left", "right")]
            engine.execute("TransactWriteItems", {"TransactItems": actions})
        done.set()

    def read(number: int) -> int:
        seen = 0
        while not done.is_set():
            seen += 1
            if number % 2:
                answer = engine.execute("BatchGetItem", {"RequestItems": {"plain": {"Keys": keys}}})
                items = answer["Responses"]["plain"]
            else:
                gets = [{"Get": {"TableName": "plain", "Key": key}} for key in keys]
                items = [
                    one.get("Item") for one in engine.execute("TransactGetItems", {"TransactItems": gets})["Responses"]
                ]
                items = [item for item in items if item]
            assert len({item["n"]["N"] for item in items}) <= 1, "half a transaction was seen"
            assert len(items) in (0, 2)
        return seen

    results = in_threads(lambda number: write() if number == 0 else read(number), 3)
    assert min(results[1:]) > 0


def test_tables_that_come_and_go_give_their_users_dynamodbs_errors(engine: Engine) -> None:
    """One thread makes and deletes the table; the others read and write it as if it were always there."""
    done = threading.Event()

    def come_and_go() -> None:
        for turn in range(40):
            make(engine, PLAIN if turn % 2 else INDEXED)
            engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "a"}, "a": {"S": "a"}}})
            engine.execute("DeleteTable", {"TableName": "plain"})
        done.set()

    def use(number: int) -> set[str]:
        random = Random(number)
        key = {"pk": {"S": "b"}}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("GetItem", {"TableName": "plain", "Key": key}),
            ("PutItem", {"TableName": "plain", "Item": {**key, "a": {"S": "a"}}}),
            ("Scan", {"TableName": "plain"}),
            ("Scan", {"TableName": "plain", "IndexName": "by_a"}),
            ("BatchGetItem", {"RequestItems": {"plain": {"Keys": [key]}}}),
            ("DescribeTable", {"TableName": "plain"}),
            ("UpdateItem", addition("b")),
        ]
        codes = set()
        while not done.is_set():
            try:
                engine.execute(*random.choice(calls))
            except DynamoDBError as error:
                assert not isinstance(error, InternalServerError), error
                codes.add(error.code)
        return codes

    results = in_threads(lambda number: come_and_go() if number == 0 else use(number))
    assert set().union(*results[1:]) <= {"ResourceNotFoundException", "ValidationException", "ResourceInUseException"}


def test_a_scan_goes_on_while_others_write(engine: Engine) -> None:
    make(engine, PLAIN)
    for number in range(300):
        engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": f"kept {number}"}}})
    done = threading.Event()

    def write() -> None:
        put_many(engine, 0, 200)
        done.set()

    def scan() -> None:
        while not done.is_set():
            found = every_item(engine, "Scan", {"TableName": "plain", "Limit": 50})
            assert sum(item["pk"]["S"].startswith("kept") for item in found) == 300

    in_threads(lambda number: write() if number == 0 else scan(), 3)


def test_threads_that_have_ended_leave_no_connections_behind(engine: Engine) -> None:
    make(engine, PLAIN)
    for _ in range(50):
        thread = threading.Thread(target=lambda: count_up(engine, 1))
        thread.start()
        thread.join()
    answer = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "counter"}}})
    assert answer["Item"]["n"] == {"N": "50"}
    assert len(engine.store._connections) <= 2


def test_closing_under_threads_that_read_gives_them_an_error_and_no_crash(tmp_path: Path) -> None:
    """Freeing a connection's memory while a thread steps through its rows used to end the whole process."""
    path = tmp_path / "closing.db"
    with Engine(str(path)) as engine:
        make(engine, PLAIN)
        for number in range(100):
            engine.execute(
                "PutItem", {"TableName": "plain", "Item": {"pk": {"S": str(number)}, "v": {"S": "v" * 5000}}}
            )
    for number in range(60):
        engine = Engine(str(path))
        started = threading.Barrier(9)

        def read(engine: Engine = engine, started: threading.Barrier = started) -> str:
            started.wait(timeout=30)
            while True:
                try:
                    assert engine.execute("Scan", {"TableName": "plain", "Limit": 3})["Count"] == 3
                except StorageError as error:
                    return str(error)

        with ThreadPoolExecutor(8) as pool:
            readers = [pool.submit(read) for _ in range(8)]
            started.wait(timeout=30)
            time.sleep(number % 10 / 1000)
            engine.close()
            assert all("closed" in reader.result(timeout=30) for reader in readers)
    assert not path.with_name("closing.db-wal").exists()
