"""S4.8–17: the processor on the tables of account records, in both layouts. Its own tests are in tests/records."""

from __future__ import annotations

import inspect
import pickle
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from accounts_world import LAYOUTS, model, new_database, record, stored

import penstock
from penstock.client.database import connect
from penstock.retry import Backoff
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.demo import demo
from penstock.systems.account_records.models.record import Record, RecordModel
from penstock.systems.account_records.services import record_processor
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.account_records.services.record_processor import RecordProcessor

WAIT_SECONDS = 60.0  # for what takes milliseconds: a machine may be busy


@pytest.fixture(params=LAYOUTS)
def records(request: pytest.FixtureRequest) -> Iterator[RecordModel]:
    with new_database(request.param) as db:
        yield model(db)


def fill(records: RecordModel, number: int) -> None:
    for one in range(number):
        records.put_item(record(one))


def test_S4_8_process_all_gives_the_errors_and_marks_the_rest(records: RecordModel) -> None:
    fill(records, 30)

    def process_record(one: Record) -> None:
        assert one == records.get_item(one["AccountId"], one["RunTime"]), "it is given what was put"
        if one["DocumentId"] in ("DOC00007", "DOC00011"):
            raise ValueError(one["DocumentId"])

    report = RecordProcessor(records, max_retries=0).process_all(process_record)
    assert sorted(error.key["RunTime"] for error in report.errors) == [record(7)["RunTime"], record(11)["RunTime"]]
    assert {error.key["AccountId"] for error in report.errors} == {"ACC12345"}
    assert len(list(records.query_processed())) == 28
    assert sorted(one["DocumentId"] for one in records.query_unprocessed()) == ["DOC00007", "DOC00011"]


def test_S4_8_what_the_function_returns_is_stored_with_the_mark(records: RecordModel) -> None:
    fill(records, 5)
    RecordProcessor(records).process_all(lambda one: {"Result": one["DocumentId"].lower()})
    found = {one["DocumentId"]: one["Result"] for one in records.query_processed()}
    assert found == {f"DOC0000{n}": f"doc0000{n}" for n in range(5)}
    assert all("_penstock" not in item and "Pending#shard" not in item for item in stored(records.db))


def test_S4_9_workers_are_a_pool_and_never_wait_for_the_slowest(records: RecordModel) -> None:
    """One record ends only after all others have: in chunks of five it would never."""
    fill(records, 25)
    others, running, most = threading.Event(), Counter[str](), [0]
    lock = threading.Lock()
    done = [0]

    def process_record(one: Record) -> None:
        with lock:
            running["now"] += 1
            most[0] = max(most[0], running["now"])
        if one["DocumentId"] == "DOC00003":
            assert others.wait(WAIT_SECONDS)
        with lock:
            running["now"] -= 1
            done[0] += 1
            if done[0] == 24:
                others.set()

    report = RecordProcessor(records, max_workers=5).process_all(process_record)
    assert (report.processed, report.failed) == (25, 0)
    assert most[0] <= 5


def test_S4_9_as_many_records_run_at_once_as_there_are_workers(records: RecordModel) -> None:
    fill(records, 5)
    meeting = threading.Barrier(5)
    report = RecordProcessor(records, max_workers=5).process_all(lambda one: _met(meeting))
    assert report.processed == 5


def _met(meeting: threading.Barrier) -> None:
    meeting.wait(WAIT_SECONDS)


def test_S4_10_a_records_failure_stops_nothing(records: RecordModel) -> None:
    fill(records, 20)

    def process_record(one: Record) -> None:
        if one["DocumentId"].endswith("5"):
            raise SystemExit(1)

    report = RecordProcessor(records, max_retries=0).process_all(process_record)
    assert (report.processed, report.failed) == (18, 2)
    assert report.failures_by_kind == {"SystemExit": 2}


class Coded(Exception):
    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def test_S4_11_retries_are_by_code_and_never_by_text(records: RecordModel) -> None:
    fill(records, 2)
    tried: Counter[str] = Counter()

    def process_record(one: Record) -> None:
        tried[one["DocumentId"]] += 1
        if one["DocumentId"] == "DOC00000" and tried["DOC00000"] <= 2:
            raise Coded("ThrottlingException", "no reason to go on")
        if one["DocumentId"] == "DOC00001":
            raise Coded("Invalid", "ThrottlingException: please try again")

    processor = RecordProcessor(records, backoff_base_ms=1, retry_on=["ThrottlingException"])
    report = processor.process_all(process_record)
    assert tried == {"DOC00000": 3, "DOC00001": 1}
    assert (report.processed, report.failed, report.retried) == (1, 1, 2)


def test_S4_11_waits_grow_with_full_jitter_up_to_a_cap() -> None:
    backoff = Backoff(0.1, 2.0, 30.0)
    draw = random.Random(1)
    for failures, bound in ((1, 0.1), (2, 0.2), (3, 0.4), (20, 30.0)):
        waits = [backoff.wait(failures, draw.random) for _ in range(200)]
        assert 0 <= min(waits) < bound / 4
        assert bound * 0.75 < max(waits) <= bound


def test_S4_12_every_setting_can_be_given(records: RecordModel) -> None:
    fill(records, 3)
    tried: Counter[str] = Counter()

    def process_record(one: Record) -> None:
        tried[one["DocumentId"]] += 1
        raise TimeoutError

    processor = RecordProcessor(
        records, max_workers=2, max_retries=5, backoff_base_ms=0, backoff_multiplier=3, max_iterations=2
    )
    processor.process_all(process_record)
    assert set(tried.values()) == {6}
    with pytest.raises(ValueError, match="max_workers is 1 to"):
        RecordProcessor(records, max_workers=0)


def test_S4_13_two_processors_never_run_the_same_record(records: RecordModel) -> None:
    fill(records, 60)
    runs: Counter[str] = Counter()
    lock = threading.Lock()

    def process_record(one: Record) -> None:
        with lock:
            runs[one["DocumentId"]] += 1

    def work(_: int) -> int:
        return RecordProcessor(model(records.db), max_workers=3).process_all(process_record).processed

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(work, range(3)))
    assert sum(done) == 60
    assert set(runs.values()) == {1}
    assert len(runs) == 60


def test_S4_14_the_defaults_are_the_documents() -> None:
    given = inspect.signature(penstock.RecordProcessor).parameters
    wanted = {
        "max_workers": 5,
        "max_retries": 3,
        "backoff_base_ms": 100,
        "backoff_multiplier": 2,
        "max_iterations": 10,
    }
    assert {name: given[name].default for name in wanted} == wanted


def test_S4_15_what_fails_is_retried_and_then_listed_once(records: RecordModel) -> None:
    fill(records, 3)

    def process_record(one: Record) -> None:
        if one["DocumentId"] == "DOC00001":
            raise ConnectionError("gone")

    report = RecordProcessor(records, max_retries=2, backoff_base_ms=0).process_all(process_record)
    (error,) = report.errors
    assert (error.kind, error.attempts, error.message) == ("ConnectionError", 3, "gone")


def test_S4_16_poison_is_parked_with_its_attempts_until_it_is_redriven(records: RecordModel) -> None:
    fill(records, 4)

    def broken(one: Record) -> None:
        raise ValueError(f"document {one['DocumentId']} is broken")

    processor = RecordProcessor(records, max_retries=1, backoff_base_ms=0)
    assert processor.process_all(broken).failed == 4
    again: list[Any] = []
    assert processor.process_all(again.append).processed == 0, "parked"
    assert again == []
    (group,) = processor.failures()
    assert (group.kind, group.count) == ("ValueError", 4)
    assert processor.redrive(kind="TimeoutError") == 0
    assert processor.redrive(kind="ValueError", limit=3) == 3
    assert processor.process_all(lambda one: None).processed == 3
    marked = records.mark_as_processed(**_names(next(records.query_unprocessed())))
    assert marked["Processed"] == 1
    assert processor.failures() == [], "one that was marked by hand has not failed any more"


def _names(one: Record) -> dict[str, str]:
    return {"account_id": one["AccountId"], "run_time": one["RunTime"]}


def test_S4_17_the_report_has_the_metrics(records: RecordModel) -> None:
    fill(records, 10)
    told = []

    def process_record(one: Record) -> None:
        if one["DocumentId"] == "DOC00009":
            raise ValueError

    processor = RecordProcessor(records, max_retries=1, backoff_base_ms=0)
    report = processor.process_all(process_record, progress=lambda progress, _: told.append(progress))
    assert (report.processed, report.attempts, report.failed, report.success_rate) == (9, 11, 1, 0.9)
    assert str(report).startswith("9 done, 1 failed (1 ValueError) in ")


def test_a_record_that_is_put_again_while_it_runs_is_run_again(records: RecordModel) -> None:
    """The condition decides, not the last writer: what was put meanwhile is not marked unseen."""
    fill(records, 1)
    seen: list[str] = []

    def process_record(one: Record) -> None:
        seen.append(one["DocumentId"])
        if len(seen) == 1:
            records.put_item(record(0, DocumentId="DOC-NEW"))

    report = RecordProcessor(records, backoff_base_ms=0).process_all(process_record)
    assert seen == ["DOC00000", "DOC-NEW"]
    assert report.processed == 1


def test_the_demo_shows_all_of_it(tmp_path: Path) -> None:
    told: list[float] = []
    with connect(":memory:") as db:
        facts = demo(db, tmp_path, lambda part, text: told.append(part))
    assert (facts["processed at first"], facts["failed"], facts["redriven"], facts["left to do"]) == (288, 32, 32, 0)
    assert told == sorted(told)
    assert len((tmp_path / "accounts-failed.txt").read_text().splitlines()) == 32


def test_records_are_processed_by_other_processes_too(tmp_path: Path) -> None:
    """What is given to an executor can be sent to another process."""
    with connect(tmp_path / "a.db") as db:
        create_tables(db, Config())
        records = model(db)
        fill(records, 3)
        with ThreadPoolExecutor(2) as pool:
            report = RecordProcessor(records, executor=pool).process_all(nothing)
        assert report.processed == 3
    shown = record_processor.partial(record_processor._on_plain_record, nothing)
    assert pickle.loads(pickle.dumps(shown))({"AccountId": "a", "Pending#shard": "01"}) is None


def nothing(one: Record) -> None:
    assert "Pending#shard" not in one
