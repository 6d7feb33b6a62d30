"""On executors: threads, processes that die and hang, and a cluster whose worker is killed midway."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from record_worlds import (
    eventually,
    filled,
    hangs_once,
    key,
    kills_its_worker,
    leaves,
    processed,
    processor,
    returns_a_generator,
    work,
)

from penstock.client.database import Database
from penstock.records.executors import process_pool
from penstock.records.run.run import ProcessingStopped


def two_processes() -> Executor:
    return process_pool(2)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with process_pool(2) as pool:
        yield pool


def test_records_run_on_threads_of_an_executor(db: Database) -> None:
    table = filled(db, 20)
    with ThreadPoolExecutor(3) as threads:
        assert processor(table, executor=threads).process_all(work).processed == 20
    assert (table.get(key(7)) or {})["Double"] == 14


def test_records_run_in_processes(db: Database, pool: Executor) -> None:
    table = filled(db, 20)
    assert processor(table, executor=pool).process_all(work).processed == 20
    assert (table.get(key(7)) or {})["Double"] == 14


def test_what_ends_a_process_elsewhere_is_a_failure_of_its_record(db: Database, pool: Executor) -> None:
    report = processor(filled(db, 3), executor=pool).process_all(leaves)
    assert (report.failures_by_kind, report.crashed) == ({"SystemExit": 3}, 0)


def test_a_generator_is_refused_before_it_is_sent_back(db: Database, pool: Executor) -> None:
    report = processor(filled(db, 2), executor=pool).process_all(returns_a_generator)
    assert report.failures_by_kind == {"BadResult": 2}


def test_a_function_that_cannot_be_sent_is_refused_at_once(db: Database, pool: Executor) -> None:
    with pytest.raises(TypeError, match="a module's top level"):
        processor(filled(db, 1), executor=pool).process_all(lambda record: None)


def test_a_record_that_kills_its_worker_is_parked_and_the_others_are_done(db: Database) -> None:
    table = filled(db, 12)
    table.update(key(5), set={"Deadly": True})
    records = processor(table, max_workers=3, max_crashes=2, executor=two_processes)
    report = records.process_all(kills_its_worker)
    assert report.failures_by_kind == {"WorkerDied": 1}
    assert report.errors[0].key == key(5)
    assert processed(table) == set(range(12)) - {5}


def test_an_executor_that_nobody_can_make_again_ends_the_run_with_advice(db: Database) -> None:
    table = filled(db, 4, Deadly=True)
    with two_processes() as pool, pytest.raises(ProcessingStopped, match="Give a function that makes one"):
        processor(table, executor=pool).process_all(kills_its_worker)
    stood = [item["_penstock"] for item in table.scan() if "_penstock" in item]
    assert stood
    assert not [text for text in stood if text.startswith("leased ")]  # nobody has to wait for a lease


def test_a_closed_executor_is_told_and_holds_nothing(db: Database) -> None:
    table = filled(db, 3)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ProcessingStopped, match="takes nothing more"):
        processor(table, executor=pool).process_all(work)
    assert processor(table).process_all(work).processed == 3


def test_a_process_that_hangs_is_killed_and_its_record_tried_again(db: Database, tmp_path: Path) -> None:
    table = filled(db, 6)
    table.update(key(3), set={"Flag": str(tmp_path / "begun")})
    # Where processes take longer than this to start, more attempts than the one that hangs are out of time.
    records = processor(table, max_workers=2, timeout_seconds=4.0, max_retries=50, executor=two_processes)
    report = records.process_all(hangs_once)
    assert processed(table) == set(range(6))
    assert report.timed_out >= 1
    assert (report.failed, report.crashed) == (0, 0)


def test_threads_that_hang_in_an_executor_end_the_run_with_advice(db: Database) -> None:
    released = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        records = processor(filled(db, 9), executor=threads, max_workers=2, max_retries=0, timeout_seconds=0.1)
        with pytest.raises(ProcessingStopped, match="hang in the executor"):
            records.process_all(lambda record: released.wait(120) and None)
        released.set()


def test_a_stop_gives_back_what_the_executor_has_not_begun(db: Database) -> None:
    table, running, go_on = filled(db, 20), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        records = processor(table, executor=threads, max_workers=4)

        def handle(record: dict[str, Any]) -> None:
            running.set()
            go_on.wait(120)

        def stop() -> None:
            running.wait(120)
            eventually(lambda: threads._work_queue.qsize() == 3)
            records.stop()
            go_on.set()

        threading.Thread(target=stop).start()
        report = records.process_all(handle)
    assert (report.processed, report.given_back, report.left) == (1, 3, 0)
    assert processor(table).process_all(work).processed == 19


class Stillborn(Executor):
    def submit(self, *arguments: Any, **named: Any) -> Any:
        raise BrokenExecutor("dead from the start")


def test_an_executor_whose_workers_cannot_even_start_is_given_up(db: Database) -> None:
    table = filled(db, 2)
    with pytest.raises(ProcessingStopped, match="die as soon as they are started"):
        processor(table, executor=Stillborn).process_all(work)
    assert processor(table).process_all(work).processed == 2


# ── Dask ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_cluster_goes_on_when_one_of_its_workers_is_killed(db: Database) -> None:
    distributed = pytest.importorskip("distributed", reason="pip install 'penstock[dask]'")
    table = filled(db, 40)
    killed = []

    def handle(record: dict[str, Any]) -> dict[str, Any]:
        import os
        import time

        time.sleep(0.02)
        return {"Pid": os.getpid()}

    with (
        distributed.LocalCluster(
            n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill_one(progress: Any, report: Any) -> None:
            if progress.done >= 5 and not killed:
                pids = list(client.run(os.getpid).values())
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        records = processor(table, executor=client.get_executor(), max_workers=4)
        report = records.process_all(handle, progress=kill_one)
    assert killed
    assert (report.processed, report.failed) == (40, 0)
    assert processed(table) == set(range(40))
