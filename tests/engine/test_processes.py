"""Several processes on one file. Two engines of one process share nothing either: most tests use those."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
from process_work import claim_in_process, count_up_in_process, put_many_in_process
from sample_tables import assert_indexes_agree, every_item, index, make, table, without_types

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.errors import ResourceNotFoundException, ValidationException

PLAIN = table("plain", "pk:S")
BY_A = index("by_a", "a:S")
GET = {"TableName": "plain", "Key": {"pk": {"S": "x"}}}
ON_BY_A = {
    "TableName": "plain",
    "IndexName": "by_a",
    "KeyConditionExpression": "a = :a",
    "ExpressionAttributeValues": {":a": {"S": "a1"}},
}


@pytest.fixture
def two(path: str) -> Iterator[tuple[Engine, Engine]]:
    """Two engines on one file that has the table `plain`; both have used it, and know it by heart."""
    with Engine(path, clock=ManualClock()) as here, Engine(path, clock=ManualClock()) as there:
        make(here, PLAIN)
        put(here, "x")
        put(there, "y")
        yield here, there


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        yield pool


def put(engine: Engine, key: str, **attributes: Any) -> None:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": key}, **attributes}})


def add_index(engine: Engine, one: dict[str, Any] = BY_A) -> None:
    definitions = [{"AttributeName": name, "AttributeType": kind} for name, kind in one["types"].items()]
    create = {"Create": without_types(one)}
    request = {
        "TableName": "plain",
        "AttributeDefinitions": definitions,
        "GlobalSecondaryIndexUpdates": [create],
    }
    engine.execute("UpdateTable", request)


def drop_index(engine: Engine) -> None:
    delete = [{"Delete": {"IndexName": "by_a"}}]
    engine.execute("UpdateTable", {"TableName": "plain", "GlobalSecondaryIndexUpdates": delete})


def status(engine: Engine) -> str:
    (one,) = engine.execute("DescribeTable", {"TableName": "plain"})["Table"]["GlobalSecondaryIndexes"]
    found: str = one["IndexStatus"]
    return found


Two = tuple[Engine, Engine]


def test_a_write_here_is_read_there(two: Two) -> None:
    here, there = two
    put(here, "new", a={"S": "1"})
    assert there.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "new"}}})["Item"]["a"] == {"S": "1"}


def test_a_table_made_there_is_seen_here(two: Two) -> None:
    here, there = two
    with pytest.raises(ResourceNotFoundException):
        here.execute("Scan", {"TableName": "later"})
    make(there, table("later", "pk:N"))
    assert here.execute("Scan", {"TableName": "later"})["Count"] == 0
    assert here.execute("ListTables", {})["TableNames"] == ["later", "plain"]


def test_a_table_deleted_there_is_gone_here(two: Two) -> None:
    here, there = two
    there.execute("DeleteTable", {"TableName": "plain"})
    for operation, request in (
        ("GetItem", GET),
        ("Scan", {"TableName": "plain"}),
        ("DescribeTable", {"TableName": "plain"}),
        ("BatchGetItem", {"RequestItems": {"plain": {"Keys": [GET["Key"]]}}}),
        ("TransactGetItems", {"TransactItems": [{"Get": GET}]}),
        ("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "x"}}}),
    ):
        with pytest.raises(ResourceNotFoundException):
            here.execute(operation, request)
    assert here.execute("ListTables", {})["TableNames"] == []


def test_a_table_deleted_and_made_anew_there_is_the_new_one_here(two: Two) -> None:
    here, there = two
    there.execute("DeleteTable", {"TableName": "plain"})
    make(there, table("plain", "id:N / at:S", globals_=(index("by_b", "b:S"),)))
    key = {"id": {"N": "1"}, "at": {"S": "now"}}
    assert here.execute("Scan", {"TableName": "plain"})["Count"] == 0
    here.execute("PutItem", {"TableName": "plain", "Item": {**key, "b": {"S": "b"}}})
    assert there.execute("GetItem", {"TableName": "plain", "Key": key})["Item"]["b"] == {"S": "b"}
    assert_indexes_agree(there, "plain")
    with pytest.raises(ValidationException):
        here.execute("GetItem", GET)


def test_a_key_of_the_new_table_is_read_here_at_once(two: Two) -> None:
    here, there = two
    there.execute("DeleteTable", {"TableName": "plain"})
    make(there, table("plain", "id:N"))
    assert here.execute("GetItem", {"TableName": "plain", "Key": {"id": {"N": "1"}}}) == {}


def test_a_table_made_anew_there_is_described_anew_here(two: Two) -> None:
    here, there = two
    before = here.execute("DescribeTable", {"TableName": "plain"})["Table"]
    there.execute("DeleteTable", {"TableName": "plain"})
    make(there, PLAIN)
    after = here.execute("DescribeTable", {"TableName": "plain"})["Table"]
    assert after["TableId"] != before["TableId"]
    assert after["ItemCount"] == 0


def test_an_index_made_there_is_kept_by_writes_here(two: Two) -> None:
    here, there = two
    add_index(there)
    put(here, "x", a={"S": "a1"})
    put(here, "z", a={"S": "a1"})
    assert_indexes_agree(there, "plain")
    assert here.execute("Query", ON_BY_A)["Count"] == 2
    assert there.execute("Query", ON_BY_A)["Count"] == 2


def test_an_index_made_there_is_read_here_without_writing(two: Two) -> None:
    here, there = two
    with pytest.raises(ValidationException, match="does not have the specified index"):
        here.execute("Query", ON_BY_A)
    add_index(there)
    assert here.execute("Query", ON_BY_A)["Count"] == 0
    assert status(here) == "ACTIVE"


def test_an_index_deleted_there_is_gone_here(two: Two) -> None:
    here, there = two
    add_index(there)
    here.execute("Query", ON_BY_A)
    drop_index(there)
    with pytest.raises(ValidationException, match="does not have the specified index"):
        here.execute("Query", ON_BY_A)
    put(here, "x", a={"S": "a1"})
    assert "GlobalSecondaryIndexes" not in here.execute("DescribeTable", {"TableName": "plain"})["Table"]


def test_an_index_deleted_and_made_anew_there_with_another_key_is_the_new_one_here(two: Two) -> None:
    here, there = two
    put(here, "x", a={"S": "a1"}, b={"N": "1"})
    add_index(there)
    assert here.execute("Query", ON_BY_A)["Count"] == 1
    drop_index(there)
    add_index(there, index("by_a", "b:N"))
    by_b = ON_BY_A | {"KeyConditionExpression": "b = :a", "ExpressionAttributeValues": {":a": {"N": "1"}}}
    assert here.execute("Query", by_b)["Count"] == 1


@pytest.fixture
def building_there(two: Two, monkeypatch: pytest.MonkeyPatch) -> Two:
    """The same two; the second one is filling an index step by step."""
    here, there = two
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_AT_ONCE", 10)
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_STEP", 10)
    for engine in two:
        engine.maintenance.stop()
    for number in range(45):
        put(there, f"k{number}", a={"S": "a1"})
    add_index(there)
    return here, there


def test_an_index_that_becomes_active_there_is_active_here(building_there: Two) -> None:
    here, there = building_there
    assert status(here) == "CREATING"
    with pytest.raises(ValidationException, match="backfilling"):
        here.execute("Query", ON_BY_A)
    while there.maintenance.run_due() == 0.0:
        pass
    assert status(there) == "ACTIVE"
    assert status(here) == "ACTIVE"
    assert here.execute("Query", ON_BY_A)["Count"] == 45


def test_an_index_is_filled_by_whoever_comes_first(building_there: Two) -> None:
    here, there = building_there
    while True:
        if here.maintenance.run_due() != 0.0 and there.maintenance.run_due() != 0.0:
            break
    assert status(here) == status(there) == "ACTIVE"
    assert_indexes_agree(here, "plain")


def test_an_index_whose_process_has_gone_is_filled_by_one_that_waits_for_it(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_AT_ONCE", 10)
    with Engine(path) as here:
        with Engine(path) as there:
            there.maintenance.stop()
            make(there, PLAIN)
            for number in range(45):
                put(there, f"k{number}", a={"S": "a1"})
            add_index(there)
        end = time.monotonic() + 30
        while status(here) != "ACTIVE":
            assert time.monotonic() < end
        assert here.execute("Query", ON_BY_A)["Count"] == 45


def test_items_expire_here_after_the_process_that_enabled_it_has_gone(path: str) -> None:
    settings = Settings(ttl_sweep_seconds=0.01)
    with Engine(path, settings=settings) as here:
        with Engine(path) as there:
            there.maintenance.stop()
            make(there, PLAIN)
            specification = {"Enabled": True, "AttributeName": "ends"}
            there.execute("UpdateTimeToLive", {"TableName": "plain", "TimeToLiveSpecification": specification})
            put(there, "old", ends={"N": str(int(time.time()) - 10)})
            put(there, "kept", ends={"N": str(int(time.time()) + 1_000)})
        end = time.monotonic() + 30
        while len(every_item(here, "Scan", {"TableName": "plain"})) == 2:
            assert time.monotonic() < end
        assert [item["pk"]["S"] for item in every_item(here, "Scan", {"TableName": "plain"})] == ["kept"]


def test_writes_here_while_the_index_is_filled_there_are_in_it(building_there: Two) -> None:
    here, there = building_there
    number = 0
    while there.maintenance.run_due() == 0.0:
        put(here, f"k{number}", a={"S": "changed"})
        put(here, f"new{number}", a={"S": "a1"})
        here.execute("DeleteItem", {"TableName": "plain", "Key": {"pk": {"S": f"k{44 - number}"}}})
        number += 1
    assert number
    assert_indexes_agree(there, "plain")


# ── real processes ───────────────────────────────────────────────────────────────────────────────


def run(pool: ProcessPoolExecutor, work: Callable[..., Any], *arguments: tuple[Any, ...]) -> list[Any]:
    futures: list[Future[Any]] = [pool.submit(work, *one) for one in arguments]
    return [future.result(timeout=120) for future in futures]


def test_counters_of_three_processes_add_up(path: str, pool: ProcessPoolExecutor) -> None:
    with Engine(path) as engine:
        make(engine, PLAIN)
        run(pool, count_up_in_process, *[(path, 150)] * 3)
        answer = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "counter"}}})
    assert answer["Item"]["n"] == {"N": "450"}


def test_each_item_is_claimed_by_one_process(path: str, pool: ProcessPoolExecutor) -> None:
    with Engine(path) as engine:
        make(engine, PLAIN)
        won = run(pool, claim_in_process, *[(path, f"process {number}", 100) for number in range(3)])
        owners = {item["pk"]["S"]: item["owner"]["S"] for item in every_item(engine, "Scan", {"TableName": "plain"})}
    assert sorted(number for one in won for number in one) == list(range(100))
    for process, numbers in enumerate(won):
        assert all(owners[f"claim {number}"] == f"process {process}" for number in numbers)


def test_an_index_made_while_other_processes_write_misses_nothing(path: str, pool: ProcessPoolExecutor) -> None:
    with Engine(path) as engine:
        make(engine, PLAIN)
        futures = [pool.submit(put_many_in_process, path, start, start + 400) for start in (0, 1_000, 2_000)]
        while engine.execute("Scan", {"TableName": "plain", "Select": "COUNT"})["Count"] < 100:
            pass
        add_index(engine)
        for future in futures:
            future.result(timeout=120)
        assert_indexes_agree(engine, "plain")
        assert len(every_item(engine, "Scan", {"TableName": "plain", "IndexName": "by_a"})) > 900


_FORK_IN_TRANSACTION = """
import os, sys
from penstock.engine import Engine
from penstock.errors import StorageError
engine = Engine(sys.argv[1])
engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "parent"}}})
with engine.writing():
    pid = os.fork()
    if not pid:
        code = 1
        try:
            engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "parent"}}})
        except StorageError as error:
            code = 0 if "fork" in str(error) else 2
        try:
            Engine(sys.argv[1])  # not even anew
            code = 3
        except StorageError as error:
            code = code if "fork" in str(error) else 4
        engine.close()
        os._exit(code)
_, status = os.waitpid(pid, 0)
engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "after"}}})
sys.exit(os.waitstatus_to_exitcode(status))
"""

_FORK = """
import os, sys, threading
from penstock.engine import Engine
engine = Engine(sys.argv[1])

def put(name):
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": name}}})

def put_many():
    for number in range(300):
        put(f"thread {number}")

put("parent")
threads = [threading.Thread(target=put_many) for _ in range(2)]
for thread in threads:
    thread.start()
pids = []
for child in range(5):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            for number in range(20):
                put(f"child {child} {number}")
            found = engine.execute("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "parent"}}})
            grandchild = os.fork()
            if not grandchild:
                put(f"grandchild {child}")
                os._exit(0)
            code = 0 if "Item" in found and os.waitpid(grandchild, 0)[1] == 0 else 2
            engine.close()
        finally:
            os._exit(code)
    pids.append(pid)
    put(f"parent {child}")
for thread in threads:
    thread.join()
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
engine.close()
sys.exit(max(codes))
"""


_FORK_LATER = """
import os, sys
from penstock.engine import Engine
with Engine(sys.argv[1]) as engine:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "parent"}}})
pid = os.fork()
with Engine(sys.argv[1]) as engine:
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": f"{bool(pid)}"}}})
if pid:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_file_that_was_closed_before_the_fork_is_opened_by_both(path: str) -> None:
    with Engine(path) as engine:
        make(engine, PLAIN)
    assert subprocess.run([sys.executable, "-c", _FORK_LATER, path], timeout=60).returncode == 0
    with Engine(path) as engine:
        assert len(every_item(engine, "Scan", {"TableName": "plain"})) == 3


def test_a_database_that_was_open_at_a_fork_is_used_by_parent_and_children(path: str) -> None:
    with Engine(path) as engine:
        make(engine, PLAIN)
        assert subprocess.run([sys.executable, "-c", _FORK, path], timeout=120).returncode == 0
        assert len(every_item(engine, "Scan", {"TableName": "plain"})) == 1 + 300 + 5 * 20 + 5 + 5


def test_a_child_that_was_forked_in_a_transaction_may_not_use_the_parents_file(path: str) -> None:
    """SQLite's connections must not be used, nor even closed, in a child: the parent's file would be at risk.

    Nor may the child open the file anew: it would believe in the parent's locks, and lose what it was told is stored.
    """
    with Engine(path) as engine:
        make(engine, PLAIN)
        run = subprocess.run([sys.executable, "-c", _FORK_IN_TRANSACTION, path], timeout=60)
        assert run.returncode == 0
        assert len(every_item(engine, "Scan", {"TableName": "plain"})) == 2
