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
    }
    of_files = {"files"}  # save_file and read_file there
    assert names - of_files <= {name for name in dir(AsyncJobContext) if not name.startswith("_")}


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
