"""Delphi_JobQueue and its poller (S3.7, S3.13)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import delphi_world as world
import pytest

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.jobs.app import App
from penstock.jobs.copies.transfer import fork, pull
from penstock.jobs.model.job import BadJob, Job, JobError, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.leases import LeaseLost
from penstock.systems.delphi.queue.layout import QueueLayout
from penstock.systems.delphi.queue.poller import JobQueue
from penstock.systems.delphi.results import Results

PATIENCE_SECONDS = 120


def says(code: str) -> Callable[[str, Any], list[str]]:
    return lambda job_id, config: [sys.executable, "-c", code]


COMMANDS = {
    "ECHO": says("import os; print('one'); print(os.environ['DELPHI_JOB_ID']); print(os.environ['DELPHI_REPORT_ID'])"),
    "FAIL": says("import sys; print('no luck'); sys.exit(3)"),
    # A child with a child of its own, both deaf to a polite end.
    "STUBBORN": says(
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    ),
}


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[JobQueue]:
    found = JobQueue(tmp_path / "queue.db", commands=COMMANDS)
    yield found
    found.close()


def enqueue(queue: JobQueue, job_type: str, **options: Any) -> Job:
    return queue.enqueue("comments.csv", conversation_id="town", job_type=job_type, **options)


def polled(queue: JobQueue) -> None:
    queue.poller(burst=True, interval_seconds=0.05, max_workers=2).run()


def items(queue: JobQueue, index: str, **key: Any) -> list[dict[str, Any]]:
    return list(queue.app.store.db.table("Delphi_JobQueue").query(index=index, key=key))


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has asked after is not alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def waited_for(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def test_S3_13_a_job_is_one_item_with_the_queues_own_names_in_all_its_indexes(queue: JobQueue):
    job = enqueue(queue, "ECHO", priority=7, report_id="r1")
    [item] = items(queue, "StatusCreatedIndex", status="PENDING")
    assert item["job_id"] == job.id
    assert (item["job_type"], item["priority"], item["retry_count"], item["max_retries"]) == ("ECHO", 7, 0, 3)
    assert items(queue, "ConversationIndex", conversation_id="town") == [item]
    assert items(queue, "JobTypeIndex", job_type="ECHO") == [item]
    claimed = queue.app.store.claim(queue.app.get(job.id), "worker-1", 30)
    assert claimed is not None
    [item] = items(queue, "WorkerStatusIndex", worker_id="worker-1")
    assert item["status"] == "PROCESSING"
    assert item["lock_expires_at"] > item["started_at"]


def test_S3_13_the_claim_index_is_sparse_and_in_the_order_of_priority_and_age():
    clock = ManualClock(time.time())  # the engine expires items by its own
    with App(":memory:", layout=QueueLayout(shards=1), clock=clock) as app:
        table = app.store.db.table("Delphi_JobQueue")
        ids = []
        for priority in (5, 9, 5, 0):
            clock.advance(1)
            ids.append(app.store.create(NewJob("ECHO", {"conversation_id": "c"}, priority=priority))[0].id)
        found = list(table.query(index="ClaimIndex", key={"claim#shard": "default#ready#0"}))
        assert [item["job_id"] for item in found] == [ids[1], ids[0], ids[2], ids[3]]
        job = app.store.claim(app.get(ids[1]), "worker-1", 30)
        assert job is not None
        app.store.complete(job, {})
        everything = list(table.scan(index="ClaimIndex"))
        assert ids[1] not in {item["job_id"] for item in everything}


def test_S3_13_a_lock_that_has_run_out_is_taken_over_and_its_old_holder_is_fenced():
    clock = ManualClock(time.time())  # the engine expires items by its own
    with App(":memory:", layout=QueueLayout(), clock=clock) as app:
        app.store.create(NewJob("ECHO", {"conversation_id": "c"}, id="j"))
        first = app.store.claim(app.get("j"), "worker-1", 30)
        assert first is not None
        clock.advance(20)
        first = app.store.renew(first)
        clock.advance(20)
        assert app.store.claim(app.get("j"), "worker-2", 30) is None
        clock.advance(20)
        second = app.store.claim(app.get("j"), "worker-2", 30)
        assert second is not None
        with pytest.raises(LeaseLost):
            app.store.report(first, message="I was only asleep")
        app.store.report(second, message="mine")
        assert [entry.message for entry in app.store.history("j").entries] == ["mine"]


def test_S3_7_the_child_gets_the_jobs_id_and_the_reports(queue: JobQueue):
    job = enqueue(queue, "ECHO", report_id="r7")
    other = enqueue(queue, "ECHO")
    polled(queue)
    assert [entry.message for entry in queue.app.store.history(job.id).entries] == ["one", job.id, "r7"]
    assert [entry.message for entry in queue.app.store.history(other.id).entries] == ["one", other.id, "town"]
    assert {item["status"] for item in items(queue, "ConversationIndex", conversation_id="town")} == {"COMPLETED"}


def test_S3_13_a_failed_job_is_retried_as_often_as_it_says_and_lines_are_only_ever_appended(queue: JobQueue):
    job = enqueue(queue, "FAIL", retries=1)
    polled(queue)
    history = queue.app.store.history(job.id)
    assert history.job.state is State.FAILED
    assert history.job.failures == 2
    assert [(entry.number, entry.message) for entry in history.entries] == [(1, "no luck"), (2, "no luck")]
    [item] = items(queue, "StatusCreatedIndex", status="FAILED")
    assert item["error"]["message"] == "its process ended with exit code 3: no luck"


@pytest.mark.crash
def test_S3_13_at_the_time_limit_the_whole_process_group_is_killed(queue: JobQueue):
    job = enqueue(queue, "STUBBORN", retries=0, timeout_seconds=3)
    polled(queue)
    history = queue.app.store.history(job.id)
    assert history.job.error is not None
    assert "longer than its time limit of 3 s" in history.job.error.message
    for entry in history.entries:  # none where the machine was so busy that nothing was started in time
        waited_for(lambda pid=int(entry.message): not is_alive(pid))


@pytest.mark.crash
def test_S3_13_a_cancelled_job_ends_with_everything_that_it_started(queue: JobQueue):
    job = enqueue(queue, "STUBBORN")
    poller = threading.Thread(target=polled, args=(queue,), daemon=True)
    poller.start()
    [entry, *_] = waited_for(lambda: queue.app.store.history(job.id).entries)
    queue.app.cancel(job.id, "not wanted any more")
    poller.join(PATIENCE_SECONDS)
    assert queue.app.get(job.id).state is State.CANCELLED
    waited_for(lambda: not is_alive(int(entry.message)))


def test_S3_13_lists_show_the_newest_first_and_only_the_wanted_status(queue: JobQueue):
    ids = []
    for _ in range(5):
        ids.append(enqueue(queue, "ECHO").id)
        time.sleep(0.002)  # the time of making has milliseconds
    queue.app.cancel(ids[2])
    store = queue.app.store
    assert [job.id for job in store.find().jobs] == ids[::-1]
    assert [job.id for job in store.find(state=State.CANCELLED).jobs] == [ids[2]]
    page = store.find(limit=2)
    assert [job.id for job in store.find(limit=2, token=page.token).jobs] == [ids[2], ids[1]]


def test_a_job_that_cannot_be_is_refused(queue: JobQueue):
    with pytest.raises(BadJob, match="at most 8 KB"):
        enqueue(queue, "ECHO", note="x" * 9_000)
    with pytest.raises(BadJob, match="has no tenants"):
        queue.app.store.create(NewJob("ECHO", {}, tenant="acme"))
    assert queue.app.store.find().jobs == ()
    with pytest.raises(BadJob, match="timeout_seconds is more than 0"):
        enqueue(queue, "ECHO", timeout_seconds=0)


@pytest.mark.crash
def test_S3_13_the_poller_runs_a_conversation_to_its_topics(tmp_path: Path):
    pytest.importorskip("wordllama", reason="needs the extra: pip install 'penstock[delphi]'")
    database = str(tmp_path / "delphi.db")
    penstock = [sys.executable, "-m", "penstock", "delphi"]
    made = subprocess.run(
        [*penstock, "enqueue", str(world.SAMPLE), "--db", database, "--conversation", "town", "--report-id", "r9"],
        check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    job_id = made.stdout.strip()
    command = [*penstock, "poller", "--db", database, "--burst", "--interval", "0.1", "--max-workers", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DELPHI_")}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, env=environment)
    assert ended.returncode == 0, ended.stderr
    with App(database) as app:
        results = Results(app.store.db)
        assert results.latest_job_id("town") == job_id
        assert results.config(job_id)["metadata"]["report_id"] == "r9"


def test_a_job_of_the_queue_is_pulled_and_forked_with_its_own_names(tmp_path: Path):
    with connect(tmp_path / "production.db") as db, connect(tmp_path / "debug.db") as file:
        clock = ManualClock(time.time())
        production, home = JobStore(db, QueueLayout(), clock=clock), JobStore(file, QueueLayout(), clock=clock)
        production.create_tables()
        made, _ = production.create(NewJob("topics", {"conversation_id": "c1"}))
        job = production.claim(production.get(made.id), "w1", 30)
        assert job is not None
        for step in ("read", "cluster"):
            clock.advance(1)  # checkpoints of one millisecond are in the order of their names
            job = production.report(job, checkpoint=step, value=step)
        production.fail(job, JobError("ValueError", "no topics"))
        pull(production, home, made.id)
        copy = home.history(made.id)
        assert [point.name for point in copy.checkpoints] == ["read", "cluster"]
        assert copy.job.others["conversation_id"] == {"S": "c1"}
        home.retry(made.id)
        assert home.claimable("default", 10).jobs == ()
        new = fork(production, made.id, from_step="cluster").job
        assert new is not None
        assert [point.name for point in production.history(new.id).checkpoints] == ["read"]
        assert [one.id for one in production.claimable("default", 10).jobs] == [new.id]
