"""What a task gives its jobs by default: keys made of their arguments, limits, a rate, a tenant."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.jobs.model.job import BadJob


def test_keys_are_made_of_arguments_by_a_text_or_a_function() -> None:
    with penstock.App(":memory:") as app:

        @app.task(
            unique_key="{project}-{month}",
            concurrency_key=lambda project: project.upper(),
            max_concurrent=3,
            rate="100/m burst 5",
            rate_key="host {project}",
            tenant=lambda month, project: project if month > 6 else None,
        )
        def report(ctx: penstock.JobContext, project: str, month: int = 7) -> None: ...

        job = app.get(report.enqueue("acme").id)
        assert (job.unique_key, job.concurrency_key, job.max_concurrent) == ("acme-7", "ACME", 3)
        assert (job.rate_key, job.rate, job.tenant) == ("host acme", "100/m burst 5", "acme")
        assert report.enqueue(project="b", month=1).tenant == ""


def test_options_go_before_the_tasks_defaults() -> None:
    with penstock.App(":memory:") as app:

        @app.task(concurrency_key="{project}", max_concurrent=3, rate="1/s", tenant="{project}")
        def report(project: str) -> None: ...

        given = report.options(concurrency_key="other", rate_key="api", tenant="").enqueue(project="a")
        assert (given.concurrency_key, given.max_concurrent, given.rate_key, given.tenant) == ("other", 3, "api", "")
        assert report.options(max_concurrent=9).enqueue(project="a").max_concurrent == 9
        assert report.enqueue_many([{"project": "b"}])[0].tenant == "b"


def test_a_limit_without_a_key_is_the_tasks_own() -> None:
    with penstock.App(":memory:") as app:

        @app.task("with {braces}", max_concurrent=2, rate="5/s")
        def some() -> None: ...

        job = some.enqueue()
        assert (job.concurrency_key, job.max_concurrent, job.rate_key) == ("with {braces}", 2, "with {braces}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": "many"}, "rate is a count and a time, such as '10/s'"),
        ({"rate_key": "{project}"}, "has a rate_key and no rate"),
        ({"unique_key": "{nobody}"}, "'nobody', which the task does not take: it has project, month"),
        ({"unique_key": lambda nobody: nobody}, "'nobody', which the task does not take"),
        ({"unique_key": "{project.__class__}"}, "only names of parameters"),
        ({"unique_key": "{project!r}"}, "only names of parameters"),
        ({"unique_key": "{}"}, "only names of parameters"),
        ({"unique_key": "{project"}, "cannot be read"),
        ({"unique_key": 7}, "is a text such as '{project}' or a function, not 7"),
        ({"max_concurrent": 0}, "from 1 to 10,000, not 0"),
    ],
)
def test_a_default_that_cannot_be_is_refused_when_the_task_is_made(options: dict[str, Any], said: str) -> None:
    app = penstock.App(":memory:")
    with pytest.raises(BadJob, match=said):

        @app.task(**options)
        def report(ctx: penstock.JobContext, project: str, month: int = 7) -> None: ...

    assert not app.tasks


def test_a_key_that_cannot_be_made_of_the_arguments_is_refused_when_a_job_is_enqueued() -> None:
    with penstock.App(":memory:") as app:

        @app.task(unique_key="{project}", concurrency_key=lambda project: project["no"])
        def report(project: Any) -> None: ...

        with pytest.raises(BadJob, match=r"project, of which unique_key is made, is \{\}; a key is made of texts"):
            report.enqueue(project={})
        with pytest.raises(BadJob, match="concurrency_key of the task report could not be made: TypeError"):
            report.enqueue(project="a")
        with pytest.raises(BadJob, match="text of 1 to 1,000 bytes"):
            report.options(concurrency_key="k").enqueue(project="")
        assert not app.store.find().jobs


def test_a_rate_key_needs_a_rate() -> None:
    with penstock.App(":memory:") as app:

        @app.task()
        def report() -> None: ...

        with pytest.raises(BadJob, match=r"report has no rate: @app\.task\(rate="):
            report.options(rate_key="k")
