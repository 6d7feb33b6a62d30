"""process_all: every record once, whatever the function does. records/run/run.py (1-4)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from record_worlds import NAME, eventually, filled, key, processed, processor

from penstock.client.database import Database, connect
from penstock.client.items.expressions import F
from penstock.client.transports.base import Transport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.errors import ThrottlingException
from penstock.records.processor import RecordProcessor
from penstock.records.record_state import BOOKKEEPING, Claim
from penstock.records.run.report import Progress, Report
from penstock.records.run.run import Interrupted, ProcessingStopped
from penstock.records.source import BadWork, Candidate
from penstock.systems.account_records.tables import tables
from penstock.tables.apply.apply import make
from penstock.tables.definitions.definition import Index, Table


class OneByOne:
    """A transport that takes its calls one by one, as a remote one does: there the workers claim and mark."""

    def __init__(self, inner: Transport) -> None:
        self.name = inner.name
        self.execute = inner.execute
        self.close = inner.close


@pytest.fixture(params=["by a group writer", "by the workers"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with connect(tmp_path / "records.db") as db:
        yield db if request.param == "by a group writer" else Database(OneByOne(db.transport))


def test_every_record_is_processed_once(any_db: Database) -> None:
    table = filled(any_db, 30)
    runs: Counter[int] = Counter()

    def handle(record: dict[str, Any]) -> dict[str, Any]:
        runs[record["Number"]] += 1
        return {"Double": record["Number"] * 2}

    report = processor(table, max_workers=4).process_all(handle)
    assert runs == Counter(range(30))
    assert processed(table) == set(range(30))
    assert table.get(key(9)) == {**key(9), "Processed": 1, "Number": 9, "Double": 18}
    assert (report.processed, report.attempts, report.failed, report.errors) == (30, 30, 0, [])
    assert report.success_rate == 1.0
    assert str(report).startswith("30 done in ")


def test_a_whole_table_is_processed_without_an_index_and_without_marks(db: Database) -> None:
    table = filled(db, 450)
    plain = RecordProcessor(table, where=F("Number") < 440)
    assert plain.count() == 440
    assert plain.process_all(lambda record: None).processed == 440
    assert plain.count() == 0
    assert plain.process_all(lambda record: None).attempts == 0
    item = table.get(key(3))
    assert item is not None
    assert item[BOOKKEEPING].startswith("done ")


def test_the_sharded_index_of_the_account_records_is_processed(db: Database) -> None:
    make(db, tables("safe")[1], NAME)
    table = db.table(NAME)
    table.batch_write({**key(number), "Number": number, "Pending#shard": f"0#{number % 4:02}"} for number in range(40))
    safe = RecordProcessor(
        table,
        index="Pending",
        values=[f"0#{shard:02}" for shard in range(4)],
        set={"Processed#shard": lambda record: f"1#{record['Number'] % 4:02}"},
        remove=["Pending#shard"],
    )
    assert safe.count() == 40
    assert safe.process_all(lambda record: None).processed == 40
    assert len(list(table.query(index="Processed", key={"Processed#shard": "1#03"}))) == 10
    assert safe.count() == 0
    # The index is sparse: what is in it at all is pending.
    table.update(key(5), set={"Pending#shard": "0#09"})
    assert RecordProcessor(table, index="Pending", remove=["Pending#shard"]).process_all(len_of).processed == 1


def test_an_index_that_has_only_keys_is_processed_too(db: Database) -> None:
    index = Index("Processed", "Processed:N", projection="KEYS_ONLY")
    make(db, Table(NAME, ("AccountId:S", "RunTime:S"), indexes=(index,)), NAME)
    table = filled(db, 12)
    records = processor(table, where=F("Number") < 10, max_retries=0)
    report = records.process_all(raising(ValueError, range(2)))
    assert (report.processed, report.failed, report.skipped) == (8, 2, 2 * report.passes)
    assert records.process_all(len_of).attempts == 0


def len_of(record: dict[str, Any]) -> None:
    len(record)


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def raising(error: Callable[[], BaseException], numbers: range) -> Callable[[dict[str, Any]], None]:
    def handle(record: dict[str, Any]) -> None:
        if record["Number"] in numbers:
            raise error()

    return handle


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "kind", "attempts"),
    [
        (lambda: ValueError("no \ud800"), "ValueError", 3),
        (lambda: Unspeakable(), "Unspeakable", 3),
        (lambda: ThrottlingException("slow"), "ThrottlingException", 3),
        (lambda: SystemExit(3), "SystemExit", 1),
        (lambda: KeyboardInterrupt(), "KeyboardInterrupt", 1),
        (lambda: GeneratorExit(), "GeneratorExit", 1),
    ],
)
def test_one_records_failure_stops_nothing(
    db: Database, error: Callable[[], BaseException], kind: str, attempts: int
) -> None:
    table = filled(db, 12)
    report = processor(table, max_retries=2).process_all(raising(error, range(3, 5)))
    assert processed(table) == set(range(12)) - {3, 4}
    assert report.failures_by_kind == {kind: 2}
    assert sorted(one.key["RunTime"] for one in report.errors) == ["00003", "00004"]
    assert {one.attempts for one in report.errors} == {attempts}
    assert report.success_rate == 10 / 12
    assert f"2 failed (2 {kind})" in str(report)


def test_a_failed_record_succeeds_at_a_later_attempt(db: Database) -> None:
    table, seen = filled(db, 5), Counter[int]()

    def handle(record: dict[str, Any]) -> None:
        seen[record["Number"]] += 1
        if seen[record["Number"]] <= 2:
            raise ConnectionError

    report = processor(table).process_all(handle)
    assert (report.processed, report.attempts, report.retried, report.failed) == (5, 15, 10, 0)
    assert BOOKKEEPING not in (table.get(key(1)) or {})


@pytest.mark.parametrize(
    ("rules", "attempts"),
    [
        ({"give_up_on": [LookupError]}, 1),
        ({"give_up_on": ["NoSuchKey"]}, 3),
        ({"retry_on": [ValueError]}, 1),
        ({"retry_on": [LookupError]}, 3),
        ({"max_retries": 0}, 1),
    ],
)
def test_what_is_tried_again_is_decided_by_type(db: Database, rules: dict[str, Any], attempts: int) -> None:
    report = processor(filled(db, 1), **{"max_retries": 2, **rules}).process_all(raising(KeyError, range(1)))
    assert report.attempts == attempts


def test_what_is_tried_again_is_decided_by_error_code(db: Database) -> None:
    from botocore.exceptions import ClientError

    table = filled(db, 1)
    error = ClientError({"Error": {"Code": "SlowDown", "Message": "m"}}, "PutObject")
    report = processor(table, retry_on=["SlowDown"], max_retries=1).process_all(raising(lambda: error, range(1)))
    assert (report.attempts, report.failures_by_kind) == (2, {"SlowDown": 1})
    redriven = processor(table, give_up_on=["SlowDown"])
    assert redriven.redrive() == 1
    assert redriven.process_all(raising(lambda: error, range(1))).attempts == 1


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda: (n for n in range(3)), "returned a generator: nothing of its body has run"),
        (lambda: 7, "returned a int. It returns None, or a dict"),
        (lambda: {"AccountId": "x"}, "returned AccountId, which is part of the key"),
        (lambda: {BOOKKEEPING: "x"}, f"returned {BOOKKEEPING}"),
        (lambda: {"Handle": object()}, "Handle: "),
        (lambda: {"Large": "x" * 410_000}, "Item size"),
        (lambda: {"Processed": "text"}, "Processed"),
    ],
)
def test_a_result_that_cannot_be_stored_parks_its_record_at_once(
    db: Database, returned: Callable[[], Any], told: str
) -> None:
    table = filled(db, 3)
    report = processor(table).process_all(lambda record: returned() if record["Number"] == 1 else None)
    assert processed(table) == {0, 2}
    (error,) = report.errors
    assert told in error.message
    assert error.attempts == 1


async def an_async_generator(record: dict[str, Any]) -> Any:
    yield record


def a_generator_function(record: dict[str, Any]) -> Any:
    yield record


@pytest.mark.parametrize(
    ("function", "told"), [(an_async_generator, "yield"), (a_generator_function, "yield"), ("x", "not 'x'")]
)
def test_a_function_that_can_never_work_is_refused_at_once(db: Database, function: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        processor(filled(db, 1)).process_all(function)


def test_an_async_function_runs_with_all_others_on_one_event_loop(db: Database) -> None:
    table = filled(db, 12)
    loops, meeting = set(), asyncio.Barrier(4)

    async def handle(record: dict[str, Any]) -> dict[str, Any]:
        loops.add(asyncio.get_running_loop())
        await meeting.wait()  # four are here at once, or nobody goes on
        if record["Number"] == 1:
            raise SystemExit(1)
        return {"Double": record["Number"] * 2}

    report = processor(table, max_workers=4, max_retries=0, timeout_seconds=60).process_all(handle)
    assert (report.processed, report.failures_by_kind) == (11, {"SystemExit": 1})
    assert len(loops) == 1
    assert {item["Double"] for item in table.scan() if "Double" in item} == {n * 2 for n in range(12) if n != 1}


def test_a_function_that_returns_a_coroutine_is_awaited(db: Database) -> None:
    async def handle(record: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    assert processor(filled(db, 2)).process_all(lambda record: handle(record)).processed == 2


def test_parked_records_are_listed_by_error_and_redriven_by_kind(db: Database) -> None:
    table = filled(db, 12)

    def handle(record: dict[str, Any]) -> None:
        number = record["Number"]
        if number < 5:
            raise ValueError(f"record {number} has no price")
        if number < 7:
            raise KeyError("currency")

    records = processor(table, max_retries=0)
    assert records.process_all(handle).failed == 7
    first, second = records.failures()
    assert (first.kind, first.message, first.count) == ("ValueError", "record … has no price", 5)
    assert (second.kind, second.count) == ("KeyError", 2)
    assert len(first.examples) == 5
    assert records.process_all(handle).attempts == 0  # parked ones are left alone
    assert records.redrive(kind="ValueError", limit=3) == 3
    assert records.process_all(lambda record: None).processed == 3
    assert records.redrive(kind="KeyError", message="other") == 0
    assert records.redrive() == 4
    assert records.process_all(lambda record: None).processed == 4
    assert processed(table) == set(range(12))
    assert records.failures() == []


def test_a_report_names_so_many_errors_and_counts_the_rest(db: Database) -> None:
    records = processor(filled(db, 9), max_retries=0, max_errors=4)
    report = records.process_all(raising(ValueError, range(9)))
    assert (len(report.errors), report.failed, report.failures_by_kind) == (4, 9, {"ValueError": 9})


# ── others at the same records ───────────────────────────────────────────────────────────────────


def test_a_record_that_is_changed_while_it_runs_is_run_again_as_it_is_then(db: Database) -> None:
    table, seen = filled(db, 3), []

    def handle(record: dict[str, Any]) -> dict[str, Any]:
        if record["RunTime"] == "00001":
            seen.append(record["Number"])
            if len(seen) == 1:
                table.update(key(1), set={"Number": 50})
        return {"Double": record["Number"] * 2}

    report = processor(table).process_all(handle)
    assert seen == [1, 50]
    assert (report.processed, report.changed) == (3, 1)
    assert (table.get(key(1)) or {})["Double"] == 100


def test_a_record_that_is_changed_at_every_attempt_is_parked(db: Database) -> None:
    table = filled(db, 1)

    def handle(record: dict[str, Any]) -> None:
        table.update(key(0), set={"Number": record["Number"] + 1})

    report = processor(table, max_retries=2).process_all(handle)
    assert report.failures_by_kind == {"RecordChanged": 1}
    assert "(Number)" in report.errors[0].message


def test_a_record_that_is_deleted_while_it_runs_is_not_made_again(db: Database) -> None:
    table = filled(db, 3)

    def handle(record: dict[str, Any]) -> None:
        if record["Number"] == 1:
            table.delete(key(1))

    report = processor(table).process_all(handle)
    assert (report.processed, report.deleted, report.failed) == (2, 1, 0)
    assert table.get(key(1)) is None


def test_a_record_that_was_deleted_before_a_retry_is_skipped(db: Database) -> None:
    table = filled(db, 1)

    def handle(record: dict[str, Any]) -> None:
        table.delete(key(0))
        raise ValueError

    assert processor(table).process_all(handle).deleted == 1
    assert table.get(key(0)) is None


def test_a_lease_is_renewed_while_the_function_runs(db: Database) -> None:
    table, untils = filled(db, 1), []

    def handle(record: dict[str, Any]) -> None:
        def renewed() -> bool:
            text = (table.get(key(0)) or {})[BOOKKEEPING]
            if text not in untils:
                untils.append(text)
            return len(untils) == 3

        eventually(renewed)

    report = processor(table, lease_seconds=0.5).process_all(handle)
    assert (report.processed, report.lost) == (1, 0)


def test_what_a_dead_processor_held_is_taken_over_when_its_lease_has_ended(db: Database) -> None:
    table = filled(db, 4)
    dead = processor(table, lease_seconds=0.5)
    (found, *_) = next(dead._source.pages(dead._draw))
    dead._store.claim(found)
    report = processor(table).process_all(lambda record: None)
    assert (report.processed, report.held) == (4, 0)


def test_a_claim_that_was_held_up_until_its_lease_ended_is_not_run(db: Database) -> None:
    table, runs = filled(db, 3), Counter[int]()
    records = processor(table)
    claim_steps, late = records._store.claim_steps, list[Claim]()

    def held_up(found: Candidate) -> Any:
        answer = yield from claim_steps(found)
        if not late and isinstance(answer, Claim):
            late.append(answer)
            answer.believed_until = 0.0
        return answer

    records._store.claim_steps = held_up  # type: ignore[method-assign]
    report = records.process_all(lambda record: runs.update([record["Number"]]))
    assert runs == Counter(range(3))
    assert (report.processed, report.attempts, report.given_back) == (3, 3, 1)


def test_two_processors_share_the_records(db: Database) -> None:
    table, runs, reports = filled(db, 200), Counter[int](), list[Report]()

    def handle(record: dict[str, Any]) -> None:
        runs[record["Number"]] += 1

    def go() -> None:
        reports.append(processor(table, max_workers=3).process_all(handle))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert runs == Counter(range(200))
    assert sum(report.processed for report in reports) == 200


# ── time and stopping ────────────────────────────────────────────────────────────────────────────


def test_a_function_that_hangs_is_failed_and_its_late_end_stores_nothing(db: Database) -> None:
    table, released, ended = filled(db, 6), threading.Event(), threading.Event()

    def handle(record: dict[str, Any]) -> dict[str, Any]:
        if record["Number"] == 2:
            released.wait(120)
            ended.set()
        return {"Late": True}

    records = processor(table, max_workers=2, timeout_seconds=1.5, max_retries=0)
    report = records.process_all(handle)
    assert report.failures_by_kind == {"TimeoutError": 1}
    assert report.timed_out == 1
    assert "still running after 1.5 s" in report.errors[0].message
    before = table.get(key(2))
    released.set()
    assert ended.wait(60)
    time.sleep(0.05)  # were it to write, it would do so now
    assert table.get(key(2)) == before
    assert processed(table) == {0, 1, 3, 4, 5}


def test_functions_that_all_hang_end_the_run_with_advice(db: Database) -> None:
    table, released = filled(db, 40), threading.Event()
    records = processor(table, timeout_seconds=0.05, max_retries=0, max_workers=5, grace_seconds=0)
    with pytest.raises(ProcessingStopped, match="a thread cannot be ended"):
        records.process_all(lambda record: released.wait(120) and None)
    released.set()


def test_a_stop_lets_what_runs_finish_and_begins_nothing_more(db: Database) -> None:
    table, running, go_on = filled(db, 50), threading.Event(), threading.Event()
    records = processor(table, max_workers=2)

    def handle(record: dict[str, Any]) -> None:
        running.set()
        go_on.wait(120)

    def stop() -> None:
        running.wait(120)
        records.stop()
        go_on.set()

    threading.Thread(target=stop).start()
    report = records.process_all(handle)
    assert report.interrupted
    assert 1 <= report.processed <= 2
    assert report.left == 0
    assert records.process_all(lambda record: None).processed == 50 - report.processed


def test_ctrl_c_raises_with_the_report_and_the_rest_is_done_the_next_time(db: Database) -> None:
    table, begun, go_on = filled(db, 50), list[int](), threading.Event()
    records = processor(table, max_workers=2)

    def handle(record: dict[str, Any]) -> None:
        begun.append(record["Number"])
        if len(begun) > 4:
            go_on.wait(120)

    def interrupt(progress: Progress, report: Report) -> None:
        if report.interrupted:
            go_on.set()
        elif progress.done:
            raise KeyboardInterrupt  # where a signal would: in the thread that waits

    with pytest.raises(Interrupted) as caught:
        records.process_all(handle, progress=interrupt)
    report = caught.value.report
    assert report.interrupted
    assert 4 <= report.processed <= 6
    assert records.process_all(lambda record: None).processed == 50 - report.processed


def test_what_still_runs_after_the_grace_time_keeps_its_lease(db: Database) -> None:
    table, running, go_on = filled(db, 1), threading.Event(), threading.Event()
    records = processor(table, max_workers=1, grace_seconds=0.0)

    def handle(record: dict[str, Any]) -> None:
        running.set()
        go_on.wait(120)

    threading.Thread(target=lambda: running.wait(120) and records.stop()).start()
    report = records.process_all(handle)
    assert (report.left, report.processed) == (1, 0)
    before = (table.get(key(0)) or {})[BOOKKEEPING]
    assert before.startswith("leased ")
    go_on.set()
    time.sleep(0.05)  # were it to write, it would do so now
    assert (table.get(key(0)) or {})[BOOKKEEPING] == before


def test_a_progress_that_fails_ends_the_run(db: Database) -> None:
    table = filled(db, 200)

    def tell(progress: Progress, report: Report) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        processor(table, max_workers=1).process_all(lambda record: time.sleep(0.05), progress=tell)
    before = len(processed(table))
    assert before < 200
    time.sleep(0.2)  # were anybody still at work, there would be more
    assert len(processed(table)) <= before + 3


def test_progress_tells_the_rate_and_what_is_left(db: Database) -> None:
    table, told = filled(db, 20), list[Progress]()
    records = processor(table, max_workers=1)
    records.process_all(lambda record: time.sleep(0.02), progress=lambda one, _: told.append(one), total=20)
    assert told[-1].done == 20
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].eta_seconds == 0
    assert told[-1].rate > 0


# ── the database ─────────────────────────────────────────────────────────────────────────────────


def test_a_database_that_fails_for_good_stops_the_run_and_says_why(db: Database) -> None:
    table = filled(db, 5)
    records = processor(table)
    with pytest.raises(ProcessingStopped, match=r"Stopped after .*: .*resource not found"):
        records.process_all(lambda record: db.execute("DeleteTable", {"TableName": NAME}) and None)


def test_passing_troubles_of_the_database_are_waited_out(db: Database) -> None:
    table = filled(db, 20)
    rates = Rates(throttle=0.1, internal_error_after=0.05, reset_after=0.05)
    policy = RequestRetries(base_seconds=0.001, repeat_unsafe=True)
    flaky = Database(Retrying(Faults(db.transport, rates, seed=3), policy))
    report = processor(flaky.table(table.name)).process_all(lambda record: None)
    assert (report.processed, report.lost, report.failed) == (20, 0, 0)
    assert processed(table) == set(range(20))


# ── what is called wrongly ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"index": "Nope"}, "Records has no index Nope. It has: Processed."),
        ({"index": None}, "value= goes with index="),
        ({"value": "0"}, "The index Processed is by Processed, which is a number: not '0'"),
        ({"set": {"AccountId": "x"}}, "AccountId is part of the key"),
        ({"set": {BOOKKEEPING: 1}}, "for the bookkeeping"),
        ({"remove": "Processed"}, "a list of attributes"),
        ({"where": "a = 1"}, "made from F"),
        ({"max_workers": 0}, "max_workers is 1 to 1,000, not 0"),
        ({"max_retries": -1}, "max_retries"),
        ({"timeout_seconds": 0}, "timeout_seconds is more than 0"),
        ({"lease_seconds": 0.1}, "lease_seconds is 0.5 to"),
        ({"backoff_multiplier": 0.5}, "multiplier of 1 or more"),
    ],
)
def test_wrong_options_are_refused_by_name(db: Database, options: dict[str, Any], told: str) -> None:
    table = filled(db, 0)
    with pytest.raises((ValueError, BadWork), match=told.replace(".", r"\.")):
        processor(table, **options)


def test_marks_that_leave_records_pending_stop_the_run_instead_of_running_them_again_and_again(db: Database) -> None:
    table = filled(db, 10)
    runs: Counter[int] = Counter()

    def handle(record: dict[str, Any]) -> None:
        runs[record["Number"]] += 1

    with pytest.raises(ProcessingStopped, match=r"stay in the index Processed.*nothing changes its Processed"):
        processor(table, set={"Seen": 1}, max_workers=2).process_all(handle)
    assert max(runs.values()) == 1
    # The function may do it instead, or a condition.
    table = filled(db, 10)
    assert processor(table, set={"Seen": 1}).process_all(lambda record: {"Processed": 2}).processed == 10
    table = filled(db, 10)
    assert processor(table, set={"Seen": 2}, where=F("Seen") != 2).process_all(lambda record: None).processed == 10


@pytest.mark.parametrize("source", [{}, {"index": None, "value": None}])
def test_a_result_that_leaves_its_record_pending_is_refused(db: Database, source: dict[str, Any]) -> None:
    table = filled(db, 3)
    report = processor(table, **source).process_all(lambda record: {"Processed": 0 if record["Number"] == 1 else 1})
    assert (report.processed, report.attempts) == (2, 3)
    (error,) = report.errors
    assert (error.kind, "a Processed with which the record is still pending" in error.message) == ("BadResult", True)


def test_a_record_with_too_many_attributes_says_what_to_name() -> None:
    with connect(":memory:") as db:
        table = filled(db, 1, **{f"A{number}": number for number in range(200)})
        (error,) = processor(table).process_all(lambda record: None).errors
        assert 'unchanged=["version"]' in error.message
        records = processor(table, unchanged=["Number"])
        records.redrive()
        assert records.process_all(lambda record: None).processed == 1
