"""A worker in this process: what becomes of jobs, whatever their tasks do."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from worker_worlds import AT_ONCE, ended, work

import penstock
from penstock.jobs.app import JobFailed
from penstock.jobs.model.json_text import NotJson, from_json
from penstock.jobs.model.new_job import BadJob
from penstock.jobs.model.state import State
from penstock.jobs.tasks import Retries
from penstock.jobs.worker.worker import Worker
from penstock.testing.invariants import check


def test_a_task_gets_its_arguments_and_its_result_is_kept(app: penstock.App) -> None:
    @app.task()
    def add(run: penstock.Run, a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    first, second = app.enqueue(add, 1), app.enqueue(add, a=3, b=4)
    assert work(app).completed == 2
    assert [app.result(job.id, timeout_seconds=30) for job in (first, second)] == [{"sum": 3}, {"sum": 7}]
    assert ended(app, first).progress == 100


def test_a_task_that_raises_is_retried_and_then_failed(app: penstock.App) -> None:
    attempts = []

    @app.task(retries=AT_ONCE)
    def bad(run: penstock.Run) -> None:
        attempts.append(run.attempt)
        raise ValueError("no\ud800")  # and its text is not even Unicode

    job = app.enqueue(bad)
    counts = work(app)
    assert (counts.retried, counts.failed) == (2, 1)
    assert attempts == [1, 2, 3]
    failed = ended(app, job)
    assert failed.state is State.FAILED
    assert failed.error is not None
    assert (failed.error.kind, failed.error.message) == ("ValueError", "no\\ud800")
    assert "raise ValueError" in failed.error.trace
    with pytest.raises(JobFailed, match="ValueError"):
        app.result(job.id, timeout_seconds=30)


def test_only_the_named_exceptions_are_retried(app: penstock.App) -> None:
    @app.task(retries=Retries(5, on=(OSError,), never_on=(FileNotFoundError,), base_seconds=0))
    def picky(run: penstock.Run, which: str) -> None:
        raise {"retried": ConnectionError, "other": KeyError, "never": FileNotFoundError}[which](which)

    jobs = {which: app.enqueue(picky, which=which) for which in ("retried", "other", "never")}
    work(app)
    assert {which: ended(app, job).attempt for which, job in jobs.items()} == {"retried": 6, "other": 1, "never": 1}


def test_a_failed_job_is_retried_by_hand_and_goes_on_at_its_checkpoint(app: penstock.App) -> None:
    broken = [True]

    @app.task()
    def report(run: penstock.Run) -> int:
        rows = run.step("rows", lambda: [1, 2, 3])
        if broken[0]:
            raise RuntimeError("the printer is on fire")
        return len(rows)

    job = app.enqueue(report)
    work(app)
    assert ended(app, job).state is State.FAILED
    broken[0] = False
    app.retry(job.id)
    work(app)
    assert app.result(job.id, timeout_seconds=30) == 3
    assert [event.type for event in app.store.history(job.id).events] == [
        *("created", "started", "failed", "retried", "started", "completed")
    ]


def test_ten_megabytes_come_back_and_binary_is_logged_as_python_shows_it(app: penstock.App) -> None:
    @app.task()
    def large(run: penstock.Run) -> str:
        run.log(b"\x00\xff")
        run.log("half a pair: \ud800", data=[1])
        run.log("odd", blob=b"\x01", half="\ud800", rows=3)
        run.progress(50, step="half", blob=b"\x02")
        return "x" * 10_000_000

    job = app.enqueue(large)
    work(app)
    assert app.result(job.id, timeout_seconds=30) == "x" * 10_000_000
    entries = app.store.history(job.id).entries
    assert [entry.message for entry in entries] == ["b'\\x00\\xff'", "half a pair: \\ud800", "odd", ""]
    assert [from_json(entry.data) for entry in entries[2:] if entry.data] == [
        {"blob": "b'\\x01'", "half": "'\\ud800'", "rows": 3},
        {"blob": "b'\\x02'"},
    ]


def test_a_result_that_is_not_json_fails_the_job_and_says_where(app: penstock.App) -> None:
    @app.task()
    def wrong(run: penstock.Run) -> object:
        return {"rows": [1, {2, 3}]}

    job = app.enqueue(wrong)
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert "result.rows[1] is a set" in failed.error.message


def test_arguments_are_checked_when_they_are_enqueued(app: penstock.App) -> None:
    @app.task()
    def take(run: penstock.Run, value: object) -> None: ...

    with pytest.raises(NotJson, match=r"args\.value\[0\]\.when is a datetime"):
        import datetime

        app.enqueue(take, value=[{"when": datetime.datetime.now(datetime.UTC)}])
    with pytest.raises(BadJob, match="missing a required argument"):
        app.enqueue(take)  # type: ignore[call-arg]
    with pytest.raises(BadJob, match="unexpected keyword"):
        app.enqueue(take, value=1, other=2)  # type: ignore[call-arg]
    with pytest.raises(penstock.PenstockError, match="'take' is no task:"):
        app.enqueue("take", value=1)  # type: ignore[arg-type]
    with pytest.raises(penstock.PenstockError, match=r"\[1\] is no dict of arguments"):
        app.enqueue_all(take, [{"value": 1}, [1]])  # type: ignore[list-item]
    assert not app.store.find().jobs


@pytest.mark.parametrize("percent", [140, -1, float("nan"), float("inf"), "50", True])
def test_progress_is_a_number_from_0_to_100(app: penstock.App, percent: Any) -> None:
    @app.task()
    def report(run: penstock.Run) -> None:
        run.progress(percent)

    job = app.enqueue(report)
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert "progress is a number from 0 to 100" in failed.error.message


@pytest.mark.parametrize("name", ["a/b", "", "..", "a#b", "x" * 201])
def test_a_checkpoints_name_is_no_path(app: penstock.App, name: str) -> None:
    @app.task()
    def keep(run: penstock.Run) -> None:
        run.checkpoint(name, 1)

    job = app.enqueue(keep)
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert failed.error.kind == "BadJob"


def test_jobs_of_another_app_on_the_same_table_are_left_alone_and_hide_nothing(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as mine, penstock.App(tmp_path / "jobs.db") as theirs:

        @mine.task()
        def ours(run: penstock.Run) -> int:
            return 1

        @theirs.task()
        def foreign(run: penstock.Run) -> int:
            return 2

        for _ in range(60):
            theirs.enqueue(foreign.options(priority=9))
        job = mine.enqueue(ours)
        assert work(mine).completed == 1
        assert mine.result(job.id, timeout_seconds=30) == 1
        assert len(theirs.store.find(state=State.QUEUED, limit=100).jobs) == 60


def test_async_tasks_run_side_by_side_on_one_event_loop(app: penstock.App) -> None:
    waiting = []

    @app.task()
    async def meet(run: penstock.AsyncRun, who: int) -> int:
        waiting.append(who)
        await run.progress(10, step="waiting")
        while len(waiting) < 3:  # all three must be under way at once
            await asyncio.sleep(0.01)
        value = await run.step("value", lambda: asyncio.sleep(0, result=who * 2))
        await run.checkpoint("done", value)
        return int(await run.resume("done"))

    jobs = [app.enqueue(meet, who=who) for who in range(3)]
    work(app, concurrency=3)
    assert [app.result(job.id, timeout_seconds=30) for job in jobs] == [0, 2, 4]


def test_an_async_task_past_its_limit_is_cancelled(app: penstock.App) -> None:
    cancelled = threading.Event()

    @app.task(time_limit_seconds=0.2, margin_seconds=0)
    async def hang(run: penstock.AsyncRun) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    job = app.enqueue(hang)
    work(app, concurrency=1)
    assert ended(app, job).state is State.FAILED
    assert cancelled.wait(30)


def test_the_highest_priority_and_the_oldest_come_first(app: penstock.App) -> None:
    order = []

    @app.task()
    def note(run: penstock.Run, name: str) -> None:
        order.append(name)

    for name, priority in (("a", 5), ("b", 1), ("c", 9), ("d", 5), ("e", 9)):
        app.enqueue(note.options(priority=priority), name=name)
    work(app, concurrency=1)
    assert order == ["c", "e", "a", "d", "b"]


def test_jobs_that_wait_for_others_get_their_results(app: penstock.App) -> None:
    @app.task()
    def part(run: penstock.Run, n: int) -> int:
        return n * n

    @app.task()
    def total(run: penstock.Run) -> int:
        return sum(run.results.values())

    parts = [app.enqueue(part, n=n) for n in range(5)]
    sums = app.enqueue(total.options(after=[job.id for job in parts]))
    work(app, concurrency=4)
    assert app.result(sums.id, timeout_seconds=30) == 30


def test_a_job_whose_dependency_fails_is_cancelled_and_says_why(app: penstock.App) -> None:
    @app.task()
    def bad(run: penstock.Run) -> None:
        raise ValueError("no")

    @app.task()
    def never(run: penstock.Run) -> None: ...

    first = app.enqueue(bad)
    second = app.enqueue(never.options(after=[first.id]))
    third = app.enqueue(never.options(after=[second.id]))
    work(app)
    assert ended(app, second).state is State.CANCELLED
    assert first.id in (ended(app, second).cancel_reason or "")
    assert ended(app, third).state is State.CANCELLED


def test_no_more_jobs_than_the_limit_run_at_once(app: penstock.App) -> None:
    running, most = [], []
    lock = threading.Lock()

    @app.task()
    def limited(run: penstock.Run) -> None:
        with lock:
            running.append(run.id)
            most.append(len(running))
        time.sleep(0.03)
        with lock:
            running.remove(run.id)

    for _ in range(6):
        app.enqueue(limited.options(limit_key="bank", limit=2))
    work(app, concurrency=6)
    assert max(most) <= 2
    assert len(most) == 6
    assert app.store.sides.slot_holders("bank") == []


def test_a_unique_job_is_enqueued_once_until_it_has_ended(app: penstock.App) -> None:
    @app.task()
    def sync(run: penstock.Run) -> None: ...

    first = app.enqueue(sync.options(unique="sync"))
    assert app.enqueue(sync.options(unique="sync")).id == first.id
    work(app)
    assert app.enqueue(sync.options(unique="sync")).id != first.id


def test_a_paused_queue_is_left_alone_until_it_is_resumed(app: penstock.App) -> None:
    @app.task()
    def noop(run: penstock.Run) -> None: ...

    job = app.enqueue(noop)
    app.store.pause("default", "lunch")
    assert work(app).completed == 0
    app.store.resume("default")
    assert work(app).completed == 1
    assert ended(app, job).state is State.COMPLETED


def test_a_cancelled_run_sees_it_and_ends(app: penstock.App) -> None:
    @app.task()
    def patient(run: penstock.Run) -> None:
        app.cancel(run.id, "changed my mind")
        while not run.cancelled:
            time.sleep(0.05)
        run.progress(99)

    job = app.enqueue(patient)
    assert work(app).cancelled == 1
    assert ended(app, job).state is State.CANCELLED
    assert ended(app, job).cancel_reason == "changed my mind"


def test_files_are_saved_listed_and_read_by_the_next_attempt(app: penstock.App) -> None:
    @app.task(retries=AT_ONCE)
    def report(run: penstock.Run) -> str:
        if run.attempt == 1:
            run.files.save("out/report.txt", b"ready")
            raise RuntimeError("after the file")
        return run.files.read("out/report.txt").decode()

    job = app.enqueue(report)
    work(app)
    assert app.result(job.id, timeout_seconds=30) == "ready"
    (file,) = app.store.history(job.id).files
    assert (file.name, file.saved.size) == ("out/report.txt", 5)


def test_a_stopping_worker_gives_back_what_does_not_stop(app: penstock.App) -> None:
    begun, release = threading.Event(), threading.Event()

    @app.task()
    def deaf(run: penstock.Run) -> None:
        begun.set()
        release.wait(30)

    job = app.enqueue(deaf)
    worker = Worker(app, concurrency=1, grace_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(30)
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert ended(app, job).state is State.QUEUED
    release.set()
    check(app.store, [job.id], ended=False)


def test_an_idle_worker_asks_less_and_less(app: penstock.App) -> None:
    @app.task()
    def noop(run: penstock.Run) -> None: ...

    worker = Worker(app, concurrency=8, idle_seconds=5)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(1)
    worker.stop()
    thread.join(30)
    asked = worker.feed.polls
    assert worker.feed.read_units == asked * 5
    assert asked <= 10  # 0.04 s, 0.08 s, … and not once for each of its eight threads


def test_a_job_enqueued_in_the_same_process_wakes_an_idle_worker(app: penstock.App) -> None:
    @app.task()
    def noop(run: penstock.Run) -> None: ...

    worker = Worker(app, concurrency=1, idle_seconds=60)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(0.5)  # by now it would wait for long
    job = app.enqueue(noop)
    assert app.wait(job.id, timeout_seconds=30).state is State.COMPLETED
    worker.stop()
    thread.join(30)


def test_a_worker_gives_signs_of_life_and_signs_off(app: penstock.App) -> None:
    from penstock.jobs.worker.registry import Registry

    seen: list[str] = []
    registry = Registry(app.store.db, app.store.layout)

    @app.task()
    def look(run: penstock.Run) -> None:
        seen.extend(worker.name for worker in registry.workers(app.store.clock.now()))

    app.enqueue(look.options(run_in_seconds=0.3))
    work(app, name="me")
    assert seen == ["me"]
    assert registry.workers(app.store.clock.now()) == []


def test_a_clock_that_was_set_back_confuses_nothing(tmp_path: Path) -> None:
    class Wanderer:
        shift = 0.0

        def now(self) -> float:
            return time.time() + self.shift

    clock = Wanderer()
    with penstock.App(tmp_path / "jobs.db", clock=clock) as app:

        @app.task()
        def drift(run: penstock.Run) -> list[float]:
            clock.shift = -3600.0
            run.progress(10)
            run.checkpoint("a", 1)
            return [1.0]

        job = app.enqueue(drift)
        work(app)
        history = app.store.history(job.id)
        assert history.job.state is State.COMPLETED
        times = [event.at for event in history.events]
        assert times == sorted(times)


def test_the_app_refuses_what_makes_no_sense() -> None:
    with penstock.App(":memory:") as app:
        with pytest.raises(penstock.PenstockError, match="no task"):
            Worker(app)

        @app.task()
        def one(run: penstock.Run) -> None: ...

        with pytest.raises(penstock.PenstockError, match="two tasks named one"):
            app.task("one")(one.function)
        with pytest.raises(penstock.PenstockError, match="parentheses"):
            app.task(lambda run: None)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match="takes no run"):
            app.task()(_no_run)  # type: ignore[arg-type]
        with pytest.raises(penstock.PenstockError, match="concurrency"):
            Worker(app, concurrency=0)
        with pytest.raises(penstock.PenstockError, match="lease_seconds"):
            app.task("short", lease_seconds=0)(one.function)
        with pytest.raises(BadJob, match="retries is a whole number from 0"):
            app.task("less", retries=-1)(one.function)
        with pytest.raises(BadJob, match=r"Retries\(on=…\) has types of exceptions"):
            Retries(1, on=("OSError",))  # type: ignore[arg-type]
        assert Retries(1, on=[OSError]).allows(OSError(), 0)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match=r"A schedule gives no arguments.*'name'"):
            app.task("hourly", cron="@hourly")(_greet)
        for after in ("job_1", [app.enqueue(one)]):
            with pytest.raises(BadJob, match=r"after is a list of the ids of other jobs, such as \[job.id\]"):
                one.options(after=after)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match="run_in_seconds is a number of seconds, not '5'"):
            one.options(run_in_seconds="5")  # type: ignore[arg-type]
        with pytest.raises(penstock.PenstockError, match="keep_seconds=60 is less than 4 leases of 30 s"):
            penstock.App(":memory:", keep_seconds=60).task()(_greet)
        assert set(app.tasks) == {"one"}


def _no_run() -> None: ...


def _greet(run: penstock.Run, name: str) -> None: ...


def test_an_app_without_a_url_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    with pytest.raises(penstock.PenstockError, match="PENSTOCK_DB"):
        _ = penstock.App().store


def test_importing_the_front_door_does_not_import_the_worker() -> None:
    import subprocess

    code = "import sys, penstock; assert not [n for n in sys.modules if n.startswith('penstock.jobs')]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_short_job_and_the_next_ones_claim_share_a_commit(tmp_path: Path) -> None:
    """Most of what a short job costs is its commits: two for the first, then one for each."""
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def noop(run: penstock.Run) -> None: ...

        for _ in range(20):
            app.enqueue(noop)
        commits = []
        app.store.db.engine.store.connection()  # opened before it is watched
        answer_many = app.store.db.engine.answer_many

        def watched(calls: Any) -> Any:
            commits.append([call.operation for call in calls])
            return answer_many(calls)

        app.store.db.engine.answer_many = watched  # type: ignore[method-assign]
        work(app, concurrency=1)
        assert commits == [*[["PutItem", "PutItem"]] * 19, ["PutItem"]]
        assert len(app.store.find(state=State.COMPLETED, limit=100).jobs) == 20


def test_a_candidate_that_another_worker_has_taken_delays_nobody(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def steal(run: penstock.Run) -> str:
            rest = [job for job in app.store.find(state=State.QUEUED, limit=10).jobs if job.id != run.id]
            for job in rest[:1]:
                app.store.claim(job, "thief", 30)
            return "done"

        first, second, third = (app.enqueue(steal) for _ in range(3))
        worker = Worker(app, concurrency=1, idle_seconds=0.05)
        thread = threading.Thread(target=worker.run)
        thread.start()
        for job in (first, second, third):
            end = time.monotonic() + 30
            while app.get(job.id).state is State.QUEUED and time.monotonic() < end:
                time.sleep(0.01)
        worker.stop()
        thread.join(30)
        states = [app.get(job.id).state for job in (first, second, third)]
        assert State.QUEUED not in states
        assert states.count(State.COMPLETED) >= 1
        check(app.store, [first.id, second.id, third.id], ended=False)


def test_what_cannot_share_a_commit_is_done_apart(app: penstock.App) -> None:
    @app.task()
    def noop(run: penstock.Run, size: int = 0) -> str:
        return "x" * size

    plain = [app.enqueue(noop) for _ in range(2)]
    unique = [app.enqueue(noop.options(unique=str(number))) for number in range(2)]
    limited = [app.enqueue(noop.options(limit_key="one")) for _ in range(2)]
    large = [app.enqueue(noop, size=50_000) for _ in range(2)]
    work(app, concurrency=1)
    jobs = [*plain, *unique, *limited, *large]
    assert {ended(app, job).state for job in jobs} == {State.COMPLETED}
    assert app.store.sides.slot_holders("one") == []
    assert app.enqueue(noop.options(unique="0")).id != unique[0].id


def test_many_jobs_share_a_commit_and_wake_the_workers(tmp_path: Path) -> None:
    app = penstock.App(tmp_path / "jobs.db")

    @app.task()
    def noop(run: penstock.Run, n: int) -> None: ...

    woken: list[int] = []
    app.when_enqueued(lambda: woken.append(1))
    commits: list[str] = []
    engine = app.store.db.transport.engine  # type: ignore[attr-defined]
    engine.store.connection().set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    jobs = app.enqueue_all(noop, ({"n": n} for n in range(200)))
    assert len({job.id for job in jobs}) == 200
    assert len(commits) == 2
    assert woken == [1]
