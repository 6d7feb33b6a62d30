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
from penstock.jobs.model.job import BadJob, Job, JobFailed
from penstock.jobs.model.json_text import NotJson, from_json
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker
from penstock.retry import BadRetryPolicy, RetryPolicy
from penstock.testing.invariants import check


def test_a_task_gets_its_arguments_and_its_result_is_kept(app: penstock.App) -> None:
    @app.task()
    def add(ctx: penstock.JobContext, a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    first, second = add.enqueue(1), add.enqueue(a=3, b=4)
    assert work(app).completed == 2
    assert [app.result(job.id, timeout_seconds=30) for job in (first, second)] == [{"sum": 3}, {"sum": 7}]
    assert ended(app, first).progress == 100


def test_a_task_that_raises_is_retried_and_then_failed(app: penstock.App) -> None:
    attempts = []

    @app.task(retries=AT_ONCE)
    def bad(ctx: penstock.JobContext) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("no\ud800")  # and its text is not even Unicode

    job = bad.enqueue()
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
    @app.task(retries=RetryPolicy(5, on=(OSError,), never_on=(FileNotFoundError,), base_seconds=0))
    def picky(ctx: penstock.JobContext, which: str) -> None:
        raise {"retried": ConnectionError, "other": KeyError, "never": FileNotFoundError}[which](which)

    jobs = {which: picky.enqueue(which=which) for which in ("retried", "other", "never")}
    work(app)
    assert {which: ended(app, job).attempt for which, job in jobs.items()} == {"retried": 6, "other": 1, "never": 1}


def test_a_failed_job_is_retried_by_hand_and_goes_on_at_its_checkpoint(app: penstock.App) -> None:
    broken = [True]

    @app.task()
    def report(ctx: penstock.JobContext) -> int:
        rows = ctx.step("rows", lambda: [1, 2, 3])
        if broken[0]:
            raise RuntimeError("the printer is on fire")
        return len(rows)

    job = report.enqueue()
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
    def large(ctx: penstock.JobContext) -> str:
        ctx.log(b"\x00\xff")
        ctx.log("half a pair: \ud800", data=[1])
        ctx.log("odd", blob=b"\x01", half="\ud800", rows=3)
        ctx.progress(50, step="half", blob=b"\x02")
        return "x" * 10_000_000

    job = large.enqueue()
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
    def wrong(ctx: penstock.JobContext) -> object:
        return {"rows": [1, {2, 3}]}

    job = wrong.enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert "result.rows[1] is a set" in failed.error.message


def test_arguments_are_checked_when_they_are_enqueued(app: penstock.App) -> None:
    @app.task()
    def take(ctx: penstock.JobContext, value: object) -> None: ...

    with pytest.raises(NotJson, match=r"args\.value\[0\]\.when is a datetime"):
        import datetime

        take.enqueue(value=[{"when": datetime.datetime.now(datetime.UTC)}])
    with pytest.raises(BadJob, match="missing a required argument"):
        take.enqueue()  # type: ignore[call-arg]
    with pytest.raises(BadJob, match="unexpected keyword"):
        take.enqueue(value=1, other=2)  # type: ignore[call-arg]
    with pytest.raises(penstock.PenstockError, match=r"\[1\] is no dict of arguments"):
        take.enqueue_many([{"value": 1}, [1]])  # type: ignore[list-item]
    assert not app.store.find().jobs


@pytest.mark.parametrize("percent", [140, -1, float("nan"), float("inf"), "50", True])
def test_progress_is_a_number_from_0_to_100(app: penstock.App, percent: Any) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> None:
        ctx.progress(percent)

    job = report.enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert "progress is a number from 0 to 100" in failed.error.message


@pytest.mark.parametrize("name", ["a/b", "", "..", "a#b", "x" * 201])
def test_a_checkpoints_name_is_no_path(app: penstock.App, name: str) -> None:
    @app.task()
    def keep(ctx: penstock.JobContext) -> None:
        ctx.checkpoint(name, 1)

    job = keep.enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert failed.error.kind == "BadJob"


def test_jobs_of_another_app_on_the_same_table_are_left_alone_and_hide_nothing(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as mine, penstock.App(tmp_path / "jobs.db") as theirs:

        @mine.task()
        def ours(ctx: penstock.JobContext) -> int:
            return 1

        @theirs.task()
        def foreign(ctx: penstock.JobContext) -> int:
            return 2

        for _ in range(60):
            foreign.options(priority=9).enqueue()
        job = ours.enqueue()
        assert work(mine).completed == 1
        assert mine.result(job.id, timeout_seconds=30) == 1
        assert len(theirs.store.find(state=State.QUEUED, limit=100).jobs) == 60


def test_async_tasks_run_side_by_side_on_one_event_loop(app: penstock.App) -> None:
    waiting = []

    @app.task()
    async def meet(ctx: penstock.AsyncJobContext, who: int) -> int:
        waiting.append(who)
        await ctx.progress(10, step="waiting")
        while len(waiting) < 3:  # all three must be under way at once
            await asyncio.sleep(0.01)
        value = await ctx.step("value", lambda: asyncio.sleep(0, result=who * 2))
        await ctx.checkpoint("done", value)
        return int(await ctx.resume("done"))

    jobs = [meet.enqueue(who=who) for who in range(3)]
    work(app, concurrency=3)
    assert [app.result(job.id, timeout_seconds=30) for job in jobs] == [0, 2, 4]


def test_an_async_task_past_its_limit_is_cancelled(app: penstock.App) -> None:
    cancelled = threading.Event()

    @app.task(time_limit_seconds=0.2, soft_time_limit_seconds=0.2)
    async def hang(ctx: penstock.AsyncJobContext) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    job = hang.enqueue()
    work(app, concurrency=1)
    assert ended(app, job).state is State.FAILED
    assert cancelled.wait(30)


def test_the_highest_priority_and_the_oldest_come_first(app: penstock.App) -> None:
    order = []

    @app.task()
    def note(ctx: penstock.JobContext, name: str) -> None:
        order.append(name)

    for name, priority in (("a", 5), ("b", 1), ("c", 9), ("d", 5), ("e", 9)):
        note.options(priority=priority).enqueue(name=name)
    work(app, concurrency=1)
    assert order == ["c", "e", "a", "d", "b"]


def test_jobs_that_wait_for_others_get_their_results(app: penstock.App) -> None:
    @app.task()
    def part(ctx: penstock.JobContext, n: int) -> int:
        return n * n

    @app.task()
    def total(ctx: penstock.JobContext) -> int:
        return sum(ctx.results.values())

    parts = [part.enqueue(n=n) for n in range(5)]
    sums = total.options(depends_on=[job.id for job in parts]).enqueue()
    work(app, concurrency=4)
    assert app.result(sums.id, timeout_seconds=30) == 30


def test_a_job_whose_dependency_fails_is_cancelled_and_says_why(app: penstock.App) -> None:
    @app.task()
    def bad(ctx: penstock.JobContext) -> None:
        raise ValueError("no")

    @app.task()
    def never(ctx: penstock.JobContext) -> None: ...

    first = bad.enqueue()
    second = never.options(depends_on=[first.id]).enqueue()
    third = never.options(depends_on=[second.id]).enqueue()
    work(app)
    assert ended(app, second).state is State.CANCELLED
    assert first.id in (ended(app, second).cancel_reason or "")
    assert ended(app, third).state is State.CANCELLED


@pytest.mark.parametrize("size", [4, 40])
def test_a_job_that_collects_failures_sees_what_became_of_each(app: penstock.App, size: int) -> None:
    @app.task()
    def part(ctx: penstock.JobContext, n: int) -> int:
        if n == 1:
            raise ValueError("no such part")
        return n

    @app.task()
    def collect(ctx: penstock.JobContext) -> dict[str, Any]:
        failed = {one.id: one.error.message for one in ctx.dependencies.values() if one is not None and one.error}
        states = sorted({"gone" if one is None else one.state.value for one in ctx.dependencies.values()})
        return {"sum": sum(ctx.results.values()), "failed": failed, "states": states}

    @app.task()
    async def collect_too(ctx: penstock.AsyncJobContext) -> int:
        return len(await ctx.dependencies()) - len(await ctx.results())

    parts = part.enqueue_many([{"n": n} for n in range(size)])
    ids = [job.id for job in parts]
    first = collect.options(depends_on=ids, depends_on_policy="all_ended").enqueue()
    second = collect_too.options(depends_on=ids, depends_on_policy="all_ended").enqueue()
    work(app)
    assert app.result(first.id, timeout_seconds=30) == {
        "sum": sum(range(size)) - 1,
        "failed": {ids[1]: "no such part"},
        "states": ["completed", "failed"],
    }
    assert app.result(second.id, timeout_seconds=30) == 1


def test_a_retried_job_and_what_its_failure_cancelled_run(app: penstock.App) -> None:
    broken = [True]

    @app.task()
    def first(ctx: penstock.JobContext) -> int:
        if broken:
            raise ValueError("no")
        return 1

    @app.task()
    def then(ctx: penstock.JobContext) -> int:
        return 1 + sum(ctx.results.values())

    one = first.enqueue()
    two = then.options(depends_on=[one.id]).enqueue()
    three = then.options(depends_on=[two.id]).enqueue()
    work(app)
    assert ended(app, three).state is State.CANCELLED
    broken.clear()
    app.retry(one.id)
    work(app)
    assert app.result(three.id, timeout_seconds=30) == 3


def test_no_more_jobs_than_the_limit_run_at_once(app: penstock.App) -> None:
    running, most = [], []
    lock = threading.Lock()

    @app.task()
    def limited(ctx: penstock.JobContext) -> None:
        with lock:
            running.append(ctx.id)
            most.append(len(running))
        time.sleep(0.03)
        with lock:
            running.remove(ctx.id)

    for _ in range(6):
        limited.options(concurrency_key="bank", max_concurrent=2).enqueue()
    work(app, concurrency=6)
    assert max(most) <= 2
    assert len(most) == 6
    assert app.store.side_items.slot_holders("bank") == []


def test_a_unique_job_is_enqueued_once_until_it_has_ended(app: penstock.App) -> None:
    @app.task()
    def sync(ctx: penstock.JobContext) -> None: ...

    first = sync.options(unique_key="sync").enqueue()
    assert sync.options(unique_key="sync").enqueue().id == first.id
    work(app)
    assert sync.options(unique_key="sync").enqueue().id != first.id


def test_a_paused_queue_is_left_alone_until_it_is_resumed(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    job = noop.enqueue()
    app.store.pause("default", "lunch")
    assert work(app).completed == 0
    app.store.resume("default")
    assert work(app).completed == 1
    assert ended(app, job).state is State.COMPLETED


def test_a_cancelled_run_sees_it_and_ends(app: penstock.App) -> None:
    @app.task()
    def patient(ctx: penstock.JobContext) -> None:
        app.cancel(ctx.id, "changed my mind")
        while not ctx.cancelled:
            time.sleep(0.05)
        ctx.progress(99)

    job = patient.enqueue()
    assert work(app).cancelled == 1
    assert ended(app, job).state is State.CANCELLED
    assert ended(app, job).cancel_reason == "changed my mind"


def test_files_are_saved_listed_and_read_by_the_next_attempt(app: penstock.App) -> None:
    @app.task(retries=AT_ONCE)
    def report(ctx: penstock.JobContext) -> str:
        if ctx.attempt == 1:
            ctx.files.save("out/report.txt", b"ready")
            raise RuntimeError("after the file")
        return ctx.files.read("out/report.txt").decode()

    job = report.enqueue()
    work(app)
    assert app.result(job.id, timeout_seconds=30) == "ready"
    (file,) = app.store.history(job.id).files
    assert (file.name, file.saved.size) == ("out/report.txt", 5)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_stopping_worker_gives_back_what_does_not_stop(app: penstock.App, is_cancelled: bool) -> None:
    begun, release = threading.Event(), threading.Event()

    @app.task()
    def deaf(ctx: penstock.JobContext) -> None:
        begun.set()
        release.wait(30)

    job = deaf.enqueue()
    worker = Worker(app, concurrency=1, grace_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(30)
    if is_cancelled:
        app.cancel(job.id)
    worker.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert ended(app, job).state is (State.CANCELLED if is_cancelled else State.QUEUED)
    assert (worker.counts.cancelled, worker.counts.requeued, worker.counts.lost) == (is_cancelled, not is_cancelled, 0)
    release.set()
    check(app.store, [job.id], ended=is_cancelled)


def test_an_idle_worker_asks_less_and_less(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    worker = Worker(app, concurrency=8, idle_seconds=5)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(1)
    worker.stop()
    thread.join(30)
    asked = worker.fetcher.polls
    assert worker.fetcher.read_units == asked * 5
    assert asked <= 10  # 0.04 s, 0.08 s, … and not once for each of its eight threads


def test_a_job_enqueued_in_the_same_process_wakes_an_idle_worker(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    worker = Worker(app, concurrency=1, idle_seconds=60)
    thread = threading.Thread(target=worker.run)
    thread.start()
    time.sleep(0.5)  # by now it would wait for long
    job = noop.enqueue()
    assert app.wait(job.id, timeout_seconds=30).state is State.COMPLETED
    worker.stop()
    thread.join(30)


def test_a_worker_gives_signs_of_life_and_signs_off(app: penstock.App) -> None:
    from penstock.jobs.worker.registry import WorkerRegistry

    seen: list[str] = []
    registry = WorkerRegistry(app.store.db, app.store.layout)

    @app.task()
    def look(ctx: penstock.JobContext) -> None:
        seen.extend(worker.name for worker in registry.workers(app.store.clock.now()))

    look.options(delay=0.3).enqueue()
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
        def drift(ctx: penstock.JobContext) -> list[float]:
            clock.shift = -3600.0
            ctx.progress(10)
            ctx.checkpoint("a", 1)
            return [1.0]

        job = drift.enqueue()
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
        def one(ctx: penstock.JobContext) -> None: ...

        with pytest.raises(penstock.PenstockError, match="two tasks named one"):
            app.task("one")(one.function)
        with pytest.raises(penstock.PenstockError, match="parentheses"):
            app.task(lambda ctx: None)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match="parameters without a name"):
            app.task()(_no_names)
        with pytest.raises(penstock.PenstockError, match="concurrency"):
            Worker(app, concurrency=0)
        with pytest.raises(penstock.PenstockError, match="lease_seconds"):
            app.task("short", lease_seconds=0)(one.function)
        with pytest.raises(BadRetryPolicy, match="retries is a whole number from 0"):
            app.task("less", retries=-1)(one.function)
        with pytest.raises(BadRetryPolicy, match=r"RetryPolicy\(on=…\) has types of exceptions"):
            RetryPolicy(1, on=("OSError",))
        assert RetryPolicy(1, on=[OSError]).allows(OSError(), 0)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match=r"A schedule gives its cron_args.*'name'"):
            app.task("hourly", cron="@hourly")(_greet)
        for parents in ("job_1", [one.enqueue()]):
            with pytest.raises(BadJob, match=r"depends_on is a list of the ids of other jobs, such as \[job.id\]"):
                one.options(depends_on=parents)  # type: ignore[arg-type]
        with pytest.raises(BadJob, match="delay is a timedelta or a number of seconds, not '5'"):
            one.options(delay="5")  # type: ignore[arg-type]
        with pytest.raises(penstock.PenstockError, match="keep_seconds=60 is less than 4 leases of 30 s"):
            penstock.App(":memory:", keep_seconds=60).task()(_greet)
        assert set(app.tasks) == {"one"}


def _no_names(*values: int) -> None: ...


def _greet(ctx: penstock.JobContext, name: str) -> None: ...


def test_an_app_without_a_url_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_DB", raising=False)
    with pytest.raises(penstock.PenstockError, match="PENSTOCK_DB"):
        _ = penstock.App().store


def test_importing_the_front_door_does_not_import_the_worker() -> None:
    import subprocess

    code = "import sys, penstock; assert not [n for n in sys.modules if n.startswith('penstock.jobs')]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_short_job_and_the_next_ones_claim_share_a_commit(tmp_path: Path, undisturbed: None) -> None:
    """Most of what a short job costs is its commits: two for the first, then one for each."""
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def noop(ctx: penstock.JobContext) -> None: ...

        for _ in range(20):
            noop.enqueue()
        commits = []
        app.store.db.engine.store.connection()  # opened before it is watched
        answer_many = app.store.db.engine.answer_many

        def watched(calls: Any) -> Any:
            if calls[0].operation != "Query":  # a poll's
                commits.append([call.operation for call in calls])
            return answer_many(calls)

        app.store.db.engine.answer_many = watched  # type: ignore[method-assign]
        work(app, concurrency=1)
        assert commits == [*[["PutItem", "PutItem"]] * 19, ["PutItem"]]
        assert len(app.store.find(state=State.COMPLETED, limit=100).jobs) == 20


def test_a_candidate_that_another_worker_has_taken_delays_nobody(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def steal(ctx: penstock.JobContext) -> str:
            rest = [job for job in app.store.find(state=State.QUEUED, limit=10).jobs if job.id != ctx.id]
            for job in rest[:1]:
                app.store.claim(job, "thief", 30)
            return "done"

        first, second, third = (steal.enqueue() for _ in range(3))
        worker = Worker(app, concurrency=1, idle_seconds=0.05)
        thread = threading.Thread(target=worker.run)
        thread.start()
        for job in (first, second, third):
            end = time.monotonic() + 30
            while not is_ended_or_stolen(app.get(job.id)) and time.monotonic() < end:
                time.sleep(0.01)
        worker.stop()
        thread.join(30)
        states = [app.get(job.id).state for job in (first, second, third)]
        assert State.QUEUED not in states
        assert states.count(State.COMPLETED) >= 1
        check(app.store, [first.id, second.id, third.id], ended=False)


def is_ended_or_stolen(job: Job) -> bool:
    """One that the worker has only claimed would be requeued when it stops."""
    return job.is_terminal or (job.lease is not None and job.lease.owner == "thief")


def test_what_cannot_share_a_commit_is_done_apart(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext, size: int = 0) -> str:
        return "x" * size

    plain = [noop.enqueue() for _ in range(2)]
    unique = [noop.options(unique_key=str(number)).enqueue() for number in range(2)]
    limited = [noop.options(concurrency_key="one").enqueue() for _ in range(2)]
    large = [noop.enqueue(size=50_000) for _ in range(2)]
    work(app, concurrency=1)
    jobs = [*plain, *unique, *limited, *large]
    assert {ended(app, job).state for job in jobs} == {State.COMPLETED}
    assert app.store.side_items.slot_holders("one") == []
    assert noop.options(unique_key="0").enqueue().id != unique[0].id


def test_many_jobs_share_a_commit_and_wake_the_workers(tmp_path: Path) -> None:
    app = penstock.App(tmp_path / "jobs.db")

    @app.task()
    def noop(ctx: penstock.JobContext, n: int) -> None: ...

    woken: list[int] = []
    app.when_enqueued(lambda: woken.append(1))
    commits: list[str] = []
    engine = app.store.db.transport.engine  # type: ignore[attr-defined]
    engine.store.connection().set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    jobs = noop.enqueue_many({"n": n} for n in range(200))
    assert len({job.id for job in jobs}) == 200
    assert len(commits) == 2
    assert woken == [1]
