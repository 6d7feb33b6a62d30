"""Tasks, their options, and what a task's author is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from worker_worlds import ended, work

import penstock
from penstock.jobs.context import AsyncJobContext, Attempt, JobContext
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import BadJob, JobError, JobRequeued
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS, copy_with
from penstock.jobs.tasks import TaskSettings


@pytest.fixture
def report(app: penstock.App) -> penstock.Task[[], None]:
    @app.task()
    def report(ctx: penstock.JobContext) -> None: ...

    return report


@pytest.mark.parametrize("verb", ["delay", "apply_async", "send"])
def test_the_verbs_of_other_libraries_say_what_to_call_here(report: Any, verb: str) -> None:
    with pytest.raises(AttributeError, match=r"report\..*enqueue\(x=1\) enqueues it"):
        getattr(report, verb)(x=1)
    assert not hasattr(report, "nothing")


def test_a_delay_is_a_timedelta_or_seconds_from_when_the_job_is_enqueued(report: penstock.Task[[], None]) -> None:
    for delay in (timedelta(minutes=1), 60, 60.0):
        job = report.options(delay=delay).enqueue()
        assert job.run_at == pytest.approx(job.created_at + 60)


@pytest.mark.parametrize("delay", [1e12, 1e308, 10**400, timedelta.max])
def test_a_delay_of_more_than_a_hundred_years_is_refused(report: penstock.Task[[], None], delay: Any) -> None:
    with pytest.raises(BadJob, match="a hundred years"):
        report.options(delay=delay)


@pytest.mark.parametrize("delay", ["5", True, float("nan"), float("inf")])
def test_a_delay_that_is_no_time_is_refused(report: penstock.Task[[], None], delay: Any) -> None:
    with pytest.raises(BadJob, match="delay is a timedelta or a number of seconds"):
        report.options(delay=delay)


def test_a_job_runs_at_a_moment_whatever_its_time_zone(report: penstock.Task[[], None]) -> None:
    at = datetime(2030, 1, 31, 6, tzinfo=UTC)
    assert report.options(run_at=at).enqueue().run_at == at.timestamp()


def test_a_moment_without_a_time_zone_is_refused_and_says_what_to_do(report: penstock.Task[[], None]) -> None:
    with pytest.raises(BadJob, match=r"no time zone.*replace\(tzinfo=UTC\).*astimezone\(\)"):
        report.options(run_at=datetime(2030, 1, 31, 6))
    with pytest.raises(BadJob, match="run_at is a datetime"):
        report.options(run_at=1_900_000_000.0)  # type: ignore[arg-type]
    with pytest.raises(BadJob, match="not both"):
        report.options(run_at=datetime(2030, 1, 31, tzinfo=UTC), delay=1)


def test_the_soft_time_limit_is_nine_tenths_of_the_limit_unless_it_is_given() -> None:
    assert TaskSettings(time_limit_seconds=900).soft_time_limit_seconds == 810
    assert TaskSettings().soft_time_limit_seconds is None
    assert TaskSettings(soft_time_limit_seconds=5).soft_time_limit_seconds == 5
    for soft in (0, 11):
        with pytest.raises(BadJob, match="soft_time_limit_seconds is more than 0 and no more than the limit of 10"):
            TaskSettings(time_limit_seconds=10, soft_time_limit_seconds=soft)


def test_the_soft_time_limit_counts_from_the_start_and_needs_no_other(app: penstock.App, report: Any) -> None:
    attempt = Attempt(app.store, report.enqueue())
    attempt.begin(None, 1_000)
    attempt.stop_if_asked()
    attempt.begin(None, 1_000, at=attempt._renewed_at - 2_000)
    with pytest.raises(JobRequeued, match="its soft time limit is over"):
        attempt.stop_if_asked()


def test_a_task_that_asks_for_it_is_requeued(app: penstock.App) -> None:
    @app.task()
    def twice(ctx: penstock.JobContext) -> int:
        if ctx.attempt == 1:
            ctx.requeue("not yet")
        return ctx.attempt

    job = twice.enqueue()
    assert work(app).requeued == 1
    assert app.result(job.id) == 2
    (event,) = [event for event in ended(app, job).events if event.detail == "not yet"]
    assert (event.type, event.label) == ("handed_over", "requeued")


def test_a_context_has_only_what_a_task_may_call() -> None:
    names = {name for name in dir(JobContext) if not name.startswith("_")}
    assert names == {
        *("attempt", "cancelled", "checkpoint", "dependencies", "files", "id", "job", "log", "progress", "requeue"),
        *("results", "resume", "seconds_left", "step", "stop_if_asked", "tenant"),
        *("enqueue", "gather", "results_of", "sleep", "sleep_until", "version", "wait_for"),
    }


def test_an_async_context_has_whatever_the_other_one_has(app: penstock.App, report: penstock.Task[[], None]) -> None:
    def names(one: object) -> set[str]:
        return {name for name in dir(one) if not name.startswith("_")}

    context = JobContext(Attempt(app.store, report.enqueue()))
    assert names(AsyncJobContext(context)) == names(context) | {"blocking"}
    assert names(AsyncJobContext(context).files) == names(context.files)


def test_an_async_task_saves_and_reads_the_files_of_its_job(app: penstock.App) -> None:
    @app.task()
    async def keep(ctx: penstock.AsyncJobContext) -> list[Any]:
        await ctx.files.save("a.txt", b"hello")
        with await ctx.files.open("a.txt") as stream:
            return [stream.read().decode(), (await ctx.files.read("a.txt")).decode(), await ctx.files.exists("b")]

    job = keep.enqueue()
    work(app)
    assert app.result(job.id) == ["hello", "hello", False]


# ── which functions are given the context ────────────────────────────────────────────────────────


def test_a_function_without_a_context_gets_its_arguments_only(app: penstock.App) -> None:
    @app.task()
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task()
    async def add_async(a: int, b: int) -> int:
        return a + b

    @app.task()
    def nothing() -> int:
        return 0

    jobs = [add.enqueue(2, 3), add.enqueue(a=2), add_async.enqueue(2, b=4), nothing.enqueue()]
    assert work(app).completed == 4
    assert [app.result(job.id) for job in jobs] == [5, 3, 6, 0]
    assert add(2, 3) == 5


def test_a_first_parameter_named_ctx_or_annotated_as_a_context_gets_it(app: penstock.App) -> None:
    def by_name(ctx, x):  # type: ignore[no-untyped-def]
        return [ctx.id, x]

    def by_annotation(_: JobContext, x: int) -> list[Any]:
        return [_.id, x]

    def by_text(job: JobContext, x: int) -> list[Any]:
        return [job.id, x]

    def by_unknown_text(job: JobContext, x: int) -> list[Any]:
        return [job.id, x]

    by_annotation.__annotations__["_"] = JobContext
    by_text.__annotations__["job"] = "penstock.JobContext"
    by_unknown_text.__annotations__.update(job="elsewhere.JobContext", x="Unknown")

    async def by_name_async(ctx, x):  # type: ignore[no-untyped-def]
        await ctx.log("there")
        return [ctx.id, x]

    for function in (by_name, by_annotation, by_text, by_unknown_text, by_name_async):
        task: Any = app.task()(function)
        job = task.enqueue(x=1)
        work(app)
        assert app.result(job.id) == [job.id, 1], function


def test_a_missing_argument_of_a_function_without_a_context_says_who_gets_one(app: penstock.App) -> None:
    @app.task()
    def old(run: Any, x: int) -> None: ...

    with pytest.raises(BadJob, match=r"missing a required argument: 'run'.*named ctx, or annotated as a JobContext"):
        old.enqueue(x=1)  # type: ignore[call-arg]


def test_a_context_of_the_wrong_kind_is_refused_when_the_task_is_made(app: penstock.App) -> None:
    with pytest.raises(BadJob, match=r"`async def` with ctx: JobContext\. Annotate it as AsyncJobContext"):

        @app.task()
        async def one(ctx: penstock.JobContext) -> None: ...

    with pytest.raises(BadJob, match=r"`def` with c: AsyncJobContext\. Annotate it as JobContext"):

        @app.task()
        def other(c: penstock.AsyncJobContext) -> None: ...

    with pytest.raises(BadJob, match="it comes first"):

        @app.task()
        def last(*, ctx: penstock.JobContext) -> None: ...

    assert not app.tasks


# ── steps and reports ────────────────────────────────────────────────────────────────────────────


def test_a_step_gives_the_same_on_the_first_attempt_and_after_a_resume(app: penstock.App) -> None:
    seen: list[Any] = []

    @app.task()
    def steps(ctx: penstock.JobContext) -> None:
        seen.append(ctx.step("pair", lambda: {"at": (1, 2), "big": 2**70, "state": penstock.State.QUEUED}))
        if ctx.attempt == 1:
            ctx.requeue()

    @app.task()
    async def steps_async(ctx: penstock.AsyncJobContext) -> None:
        async def pair() -> tuple[int, int]:
            return 1, 2

        seen.append(await ctx.step("pair", pair))
        if ctx.attempt == 1:
            ctx.requeue()

    for task in (steps, steps_async):
        seen.clear()
        task.enqueue()
        work(app)
        first, again = seen
        assert repr(first) == repr(again)


@pytest.mark.parametrize("value", [{1: "a"}, datetime(2030, 1, 1), b"x", {1, 2}])
def test_a_step_that_returns_what_is_not_json_fails_before_it_is_used(app: penstock.App, value: Any) -> None:
    used: list[Any] = []

    @app.task()
    def wrong(ctx: penstock.JobContext) -> None:
        used.append(ctx.step("rows", lambda: [value]))

    job = wrong.enqueue()
    work(app)
    error = app.get(job.id).error
    assert error is not None and (error.kind, used) == ("NotJson", []) and "step rows[0]" in error.message


def test_what_is_too_long_for_a_report_is_shortened_and_says_so(app: penstock.App) -> None:
    long = "x" * 500_000

    @app.task()
    def talk(ctx: penstock.JobContext) -> None:
        ctx.log(long)
        ctx.log("data", rows=long)
        ctx.log("bytes", rows=long.encode())
        ctx.progress(5, step=long, message=long, **{long[:300]: long})
        ctx.progress(6, step=7, message=ValueError("no text"))  # type: ignore[arg-type]

    job = talk.enqueue()
    assert work(app).completed == 1
    log, data, of_bytes, progress, odd = app.store.entries(job.id)
    assert log.message.startswith("xxx") and log.message.endswith("… (shortened: it had 500,000 characters)")
    for entry in (data, of_bytes, progress):
        assert entry.data is not None and entry.data.startswith('{"shortened":"{') and "it had 500," in entry.data
    assert "shortened" in progress.message and len(progress.step) < 1_000
    assert (odd.step, odd.message) == ("7", "ValueError('no text')")


# ── whether a job is new ─────────────────────────────────────────────────────────────────────────


def test_enqueue_says_whether_the_job_is_new(app: penstock.App) -> None:
    @app.task()
    def add(a: int) -> int:
        return a

    by_key, unique = add.options(idempotency_key="k"), add.options(unique_key="u")
    first, other = by_key.enqueue(1), unique.enqueue(1)
    assert first.is_new and other.is_new
    assert not by_key.enqueue(1).is_new
    again = unique.enqueue(a=2)
    assert again.id == other.id and not again.is_new
    assert not app.get(first.id).is_new
    assert [job.is_new for job in add.enqueue_many([{"a": 1}, {"a": 2}])] == [True, True]
    assert [job.is_new for job in by_key.enqueue_many([{"a": 1}])] == [False]
    child = add.options(depends_on=[first.id], idempotency_key="child")
    assert [child.enqueue(1).is_new, child.enqueue(1).is_new] == [True, False]


# ── words of others ──────────────────────────────────────────────────────────────────────────────


def test_attributes_by_other_systems_words_are_refused_with_ours(
    app: penstock.App, report: penstock.Task[[], None]
) -> None:
    job = report.enqueue()
    context = JobContext(Attempt(app.store, job))
    for owner, word, ours in (
        (job, "get", r"A Job has no \.get here: app\.result\(job\.id\)"),
        (job, "status", r"app\.get\(job\.id\)\.state"),
        (context, "retry", r"A JobContext has no \.retry here: raise"),
        (AsyncJobContext(context), "update_state", r"ctx\.progress"),
        (app, "AsyncResult", r"An App has no \.AsyncResult here: app\.get\(job_id\)"),
        (app, "send_task", r"app\.task_named\('name'\)\.enqueue"),
    ):
        with pytest.raises(AttributeError, match=ours):
            getattr(owner, word)
        with pytest.raises(AttributeError, match="has no attribute 'nothing_such'"):
            owner.nothing_such  # noqa: B018


def test_words_that_are_stored_stay_as_they_were(app: penstock.App, report: penstock.Task[[], None]) -> None:
    first = report.enqueue()
    options = report.options(unique_key="u", concurrency_key="k", max_concurrent=3, depends_on=[first.id])
    job = copy_with(options.enqueue(), {"error": JobError(KILLED_WORKERS, "three")})
    layout = CollectionLayout()
    item = layout.main(job)
    assert item["unique"] == {"S": "u"} and item["limit_key"] == {"S": "k"} and item["limit"] == {"N": "3"}
    assert item["after"] == {"L": [{"S": first.id}]} and item["error"]["M"]["kind"] == {"S": "Parked"}
    again = layout.job(item)
    assert (again.unique_key, again.concurrency_key, again.max_concurrent) == ("u", "k", 3)
    assert (again.depends_on, again.error) == ((first.id,), job.error)


@pytest.mark.parametrize(("word", "ours"), [("countdown", "delay"), ("eta", "run_at"), ("task_id", "idempotency_key")])
def test_an_option_by_another_systems_word_is_refused_with_ours(
    report: penstock.Task[[], None], word: str, ours: str
) -> None:
    wrong: dict[str, Any] = {word: 5}
    with pytest.raises(TypeError, match=f"no option {word}: use {ours}"):
        report.options(**wrong)


def test_an_option_of_a_task_by_another_systems_word_is_refused_with_ours(app: penstock.App) -> None:
    wrong: dict[str, Any] = {"max_retries": 3}
    with pytest.raises(TypeError, match="use retries on the task"):
        app.task(**wrong)


def test_a_limit_without_a_key_is_refused(report: penstock.Task[[], None]) -> None:
    with pytest.raises(penstock.BadJob, match="needs a concurrency_key"):
        report.options(max_concurrent=2)


def test_an_empty_queue_is_refused(report: penstock.Task[[], None]) -> None:
    with pytest.raises(penstock.BadJob, match="queue"):
        report.options(queue="").enqueue()


def test_the_result_of_a_job_that_is_about_to_be_revived_is_waited_for(app: penstock.App) -> None:
    @app.task()
    def parent(ctx: penstock.JobContext) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    @app.task()
    def child(ctx: penstock.JobContext) -> str:
        return "done"

    first = parent.enqueue()
    second = child.options(depends_on=[first.id]).enqueue()
    work(app)
    assert app.wait(second.id).state is State.CANCELLED
    app.retry(first.id)
    with pytest.raises(TimeoutError):
        app.result(second.id, timeout_seconds=0.1)
    work(app)
    assert app.result(second.id) == "done"
