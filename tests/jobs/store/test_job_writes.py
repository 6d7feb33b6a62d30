"""How changes are written (conditional_writes.py, 1-4): one call; many writers at once; lost answers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_worlds import FAILURE, LEASE, START, claimed, counted, made, new_store, running, same_table, settle_all
from log_writer import write_lines

from penstock.client.database import Database, connect
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.errors import ConnectionFailed
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import Entry, Job, JobFile, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import ChangedJob, add_entry
from penstock.jobs.store.conditional_writes import JobWriter
from penstock.jobs.store.store import JobStore
from penstock.optimistic import Conflict

# ── one call ─────────────────────────────────────────────────────────────────────────────────────


def test_a_checkpoint_its_entry_and_the_renewal_are_one_write(store: JobStore, clock: ManualClock) -> None:
    """store.py, 3."""
    job = running(store)
    clock.advance(5)
    counting_store, counting = counted(store)
    after = counting_store.report(job, progress=40, step="parsing", checkpoint="parsed", value={"rows": 3})
    ((operation, request, _),) = counting.calls
    assert operation == "TransactWriteItems"
    records = [action["Put"]["Item"]["record"]["S"] for action in request["TransactItems"]]
    assert records == ["main", "progress#000000001", "checkpoint#parsed"]
    assert after.lease is not None
    assert after.lease.until == clock.now() + LEASE
    assert store.get(job.id) == after


@pytest.mark.parametrize(
    ("change", "event"),
    [
        (lambda store, job: store.complete(job, 1), "completed"),
        (lambda store, job: store.fail(job, FAILURE), "failed"),
        (lambda store, job: store.fail(job, FAILURE, retry_at=START), "retrying"),
        (lambda store, job: store.requeue(job, "stop"), "handed_over"),
        (lambda store, job: store.end_cancelled(job), "cancelled"),
    ],
)
def test_a_change_of_state_and_its_event_are_one_write(
    store: JobStore, change: Callable[[JobStore, Job], Job], event: str
) -> None:
    """conditional_writes.py, 1. With what it gives back, and without a read before."""
    job = running(store, unique_key="u", concurrency_key="k")
    counting_store, counting = counted(store)
    after = change(counting_store, job)
    assert counting.operations == ["TransactWriteItems"]
    last = store.history(job.id).events[-1]
    assert (last.type, last.number, last.at) == (event, after.version, after.updated_at)


def test_what_each_step_of_a_plain_job_costs(store: JobStore) -> None:
    """One call to make it, one to claim it, one to renew it, one to end it."""
    counting_store, counting = counted(store)
    job, _ = counting_store.create(NewJob("report", {"n": 1}))
    got = counting_store.claim(job, "w1", LEASE)
    assert got is not None
    got = counting_store.renew(got)
    counting_store.complete(got)
    assert len(counting.calls) == 4
    assert [event.type for event in store.history(job.id).events] == ["created", "started", "completed"]


def test_a_long_life_is_remembered_whole_and_in_order(store: JobStore, clock: ManualClock) -> None:
    job = made(store)
    wanted = ["created"]
    for number in range(30):
        clock.advance(1)
        got = claimed(store, job)
        store.requeue(got, f"stop {number}")
        wanted += ["started", "handed_over"]
    events = store.history(job.id).events
    assert [event.type for event in events] == wanted
    assert [event.number for event in events] == sorted({event.number for event in events})
    assert [event.detail for event in events if event.detail] == [f"stop {number}" for number in range(30)]
    main = store.layout.main(store.get(job.id))
    assert len(str(main)) < 10_000, "the main record does not grow with it"


# ── many writers ─────────────────────────────────────────────────────────────────────────────────


def test_two_writes_that_look_alike_are_told_apart(store: JobStore) -> None:
    """conditional_writes.py, 4: two lines of a log in one millisecond have the same main record; one is written."""
    job = made(store)
    writer = JobWriter(store.db, store.layout)

    def line(text: str) -> tuple[ChangedJob, list[Any]]:
        changed = add_entry(job, START, renew=False)
        return changed, [store.layout.entry(changed.job, Entry(changed.job.entries, START, message=text))]

    (one, its_record), (other, other_record) = line("one"), line("other")
    assert store.layout.main(one.job) == store.layout.main(other.job)
    writer.change(job, one, its_record)
    with pytest.raises(Conflict) as refused:
        writer.change(job, other, other_record)
    assert refused.value.current == store.get(job.id)
    assert [entry.message for entry in store.history(job.id).entries] == ["one"]


@pytest.mark.usefixtures("transactions_are_isolated")
def test_entries_by_many_threads_are_numbered_without_a_gap_and_none_is_overwritten(store: JobStore) -> None:
    job = running(store)
    troubles: list[BaseException] = []

    def write(name: str) -> None:
        try:
            write_lines(store, job.id, name, 15)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(15):
        job = store.report(job, message=f"holder {number}")
    for thread in threads:
        thread.join(120)
    assert troubles == []
    check_lines(store, job.id, ["holder", "t0", "t1", "t2", "t3"], 15)


def check_lines(store: JobStore, job_id: str, names: list[str], count: int) -> None:
    """store.py, 4."""
    entries = store.history(job_id).entries
    assert [entry.number for entry in entries] == list(range(1, len(names) * count + 1))
    messages = [entry.message for entry in entries]
    for name in names:
        assert [one for one in messages if one.startswith(name)] == [f"{name} {number}" for number in range(count)]


def test_entries_by_two_processes_and_four_threads_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    with connect(path) as db:
        store = new_store(db, ManualClock(START))
        job = made(store)
        script = str(Path(__file__).parent / "log_writer.py")
        others = [
            subprocess.Popen([sys.executable, script, path, "jobs", job.id, name, "40"], stderr=subprocess.PIPE)
            for name in ("p0", "p1")
        ]
        names = [f"t{number}" for number in range(4)]
        threads = [threading.Thread(target=write_lines, args=(store, job.id, name, 40)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        for other in others:
            _, trouble = other.communicate(timeout=120)
            assert other.returncode == 0, trouble.decode()
        check_lines(store, job.id, ["p0", "p1", *names], 40)


@pytest.mark.usefixtures("transactions_are_isolated")
def test_one_of_many_claims_at_once_is_granted(store: JobStore) -> None:
    jobs = [made(store) for _ in range(8)]
    granted: list[str] = []

    def work(owner: str) -> None:
        for job in jobs:
            if store.claim(job, owner, LEASE) is not None:
                granted.append(job.id)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(granted) == sorted(job.id for job in jobs)


@pytest.mark.usefixtures("transactions_are_isolated")
def test_no_more_slots_are_given_than_there_are_however_many_ask(store: JobStore) -> None:
    jobs = [made(store, concurrency_key="k", max_concurrent=3) for _ in range(12)]
    granted: list[str] = []

    def work(part: list[Job]) -> None:
        for job in part:
            try:
                if store.claim(job, "w", LEASE) is not None:
                    granted.append(job.id)
            except Exception as error:
                assert type(error).__name__ == "LimitReached"

    threads = [threading.Thread(target=work, args=(jobs[number::4],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(granted) == 3
    assert store.side_items.slot_holders("k") == sorted(granted)


def test_ids_are_new_however_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes may draw the same digits in one millisecond: then one draws again."""
    drawn = iter(["job_1_aaaaaa", "job_1_aaaaaa", "job_1_aaaaab"])
    monkeypatch.setattr("penstock.jobs.model.job._IDS.next", lambda at: next(drawn))
    with connect() as db:
        store = new_store(db, ManualClock(START))
        first, second = made(store, "report"), made(store, "bill")
        assert [first.id, second.id] == ["job_1_aaaaaa", "job_1_aaaaab"]
        assert len(store.find().jobs) == 2


# ── lost answers ─────────────────────────────────────────────────────────────────────────────────

AFTER = Rates(timeout_after=0.12, reset_after=0.12, internal_error_after=0.06)
EVERY_KIND = Rates.every_kind(0.3)
PATIENT = RequestRetries(attempts=60, base_seconds=0.0, deadline_seconds=None)


def unreliable(store: JobStore, rates: Rates, seed: int) -> tuple[JobStore, Faults]:
    faults = Faults(store.db.transport, rates, seed=seed, sleep=lambda seconds: None)
    retrying = Retrying(faults, PATIENT, unlimited=True, sleep=lambda seconds: None)
    return same_table(store, Database(retrying)), faults


@pytest.mark.parametrize("rates", [AFTER, EVERY_KIND], ids=["after the effect", "every kind"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_done_twice_when_answers_are_lost(store: JobStore, rates: Rates, seed: int) -> None:
    shaky, faults = unreliable(store, rates, seed)
    jobs = [made(shaky, args={"n": n}, unique_key=f"u{n}", concurrency_key="k", max_concurrent=50) for n in range(4)]
    child = made(shaky, depends_on=tuple(job.id for job in jobs))
    for job in jobs:
        got = shaky.claim(shaky.get(job.id), "w1", LEASE)
        assert got is not None, "granted, though the answer was lost"
        got = shaky.renew(got)
        for number in range(3):
            got = shaky.report(got, progress=number, message=f"m{number}", checkpoint="c", value=number)
        shaky.log(job.id, "from outside")
        shaky.complete(got, {"n": 1})
    settle_all(shaky)
    assert faults.counts.total() > 10
    assert len(store.find().jobs) == 5
    for job in jobs:
        history = store.history(job.id)
        assert history.job.state is State.COMPLETED
        assert [entry.message for entry in history.entries] == ["m0", "m1", "m2", "from outside"]
        assert [event.type for event in history.events] == ["created", "started", "completed"]
        assert history.job.attempt == history.job.token == 1
    assert store.side_items.slot_holders("k") == []
    assert store.get(child.id).waiting_for == frozenset()
    assert claimed(store, child).state is State.PROCESSING


class LosingPuts:
    """Loses the answer of every plain put, and sends it again as a client without tokens would."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = inner.name

    def execute(self, operation: str, request: dict[str, Any]) -> Any:
        if operation in ("PutItem", "TransactWriteItems"):
            self.inner.execute(operation, request)
        return self.inner.execute(operation, request)

    def close(self) -> None:
        pass


def test_a_repeated_write_without_a_token_is_known_by_its_name(store: JobStore) -> None:
    """conditional_writes.py, 4: servers that keep no tokens (moto's) refuse the repeat, and that is a success."""
    twice = same_table(store, Database(LosingPuts(store.db.transport)))
    job = made(twice, unique_key="u")
    got = twice.claim(job, "w1", LEASE)
    assert got is not None
    got = twice.report(got, message="once")
    got = twice.renew(got)
    twice.log(job.id, "twice?")
    twice.complete(got)
    history = store.history(job.id)
    assert [entry.message for entry in history.entries] == ["once", "twice?"]
    assert [event.type for event in history.events] == ["created", "started", "completed"]


def test_a_lost_answer_that_is_not_retried_is_told(store: JobStore) -> None:
    job = running(store)
    faults = Faults(store.db.transport, Rates(reset_after=1.0), sleep=lambda seconds: None)
    with pytest.raises(ConnectionFailed):
        same_table(store, Database(faults)).complete(job, 1)
    assert store.get(job.id).state is State.COMPLETED


def test_a_file_is_attached_with_its_entry(store: JobStore) -> None:
    from penstock.files.content import SavedFile

    saved = SavedFile("j/report.xlsx", 5, "ab", "2030-01-01T00:00:00.000Z")
    counting_store, counting = counted(store)
    job = counting_store.attach(running(store), JobFile("report.xlsx", saved))
    assert counting.operations == ["TransactWriteItems"]
    history = store.history(job.id)
    assert history.files == (JobFile("report.xlsx", saved),)
    assert history.entries[0].message == "saved report.xlsx"


def test_a_job_that_was_deleted_under_its_worker_is_not_found() -> None:
    with connect() as db:
        store = JobStore(db, CollectionLayout("jobs"), clock=ManualClock(START))
        store.create_tables()
        job = running(store)
        db.execute("DeleteItem", {"TableName": "jobs", "Key": store.layout.main_key(job.id)})
        for write in (lambda: store.renew(job), lambda: store.complete(job), lambda: store.report(job, progress=1)):
            with pytest.raises(Exception, match="There is no job"):
                write()
        assert store.claim(job, "w2", LEASE) is None
