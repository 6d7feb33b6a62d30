"""Traces that go on from the enqueuer through the attempts and their steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import penstock
from penstock.jobs import tracing
from penstock.retry import RetryPolicy


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))
    return exporter


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:") as app:

        @app.task(retries=RetryPolicy(1, base_seconds=0))
        def load(ctx: penstock.JobContext, bad: bool = False) -> int:
            rows = ctx.step("fetch", lambda: 3)
            if bad:
                raise ValueError("the password is hunter2")
            return rows

        @app.task()
        async def load_async(ctx: penstock.AsyncJobContext) -> int:
            async def fetch() -> int:
                return 3

            return await ctx.step("fetch", fetch)

        yield app


def by_name(spans: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in spans.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


@pytest.mark.parametrize("task", ["load", "load_async"])
def test_an_attempt_is_a_child_of_the_enqueue_and_a_step_of_the_attempt(
    app: penstock.App, spans: InMemorySpanExporter, task: str
):
    job = app.tasks[task].enqueue()
    penstock.Worker(app, burst=True).run()
    found = by_name(spans)
    (enqueue,), (run,), (step,) = found[f"enqueue {task}"], found[f"run {task}"], found["step fetch"]
    assert len({span.context.trace_id for span in (enqueue, run, step)}) == 1
    assert run.parent is not None and run.parent.span_id == enqueue.context.span_id and run.parent.is_remote
    assert step.parent is not None and step.parent.span_id == run.context.span_id
    assert run.attributes is not None and run.attributes["messaging.message.id"] == job.id
    assert app.get(job.id).traceparent == tracing._traceparent(enqueue.context)


def test_each_attempt_is_a_span_and_a_failed_one_an_error_without_its_text(
    app: penstock.App, spans: InMemorySpanExporter
):
    app.tasks["load"].enqueue(bad=True)
    penstock.Worker(app, burst=True).run()
    runs = by_name(spans)["run load"]
    assert [dict(run.attributes or {})["penstock.attempt"] for run in runs] == [1, 2]
    assert all(run.status.status_code is trace.StatusCode.ERROR for run in runs)
    assert "hunter2" not in "".join(run.to_json() for run in runs)
    assert len(by_name(spans)["step fetch"]) == 1  # the second attempt reuses the checkpoint


def test_a_requeue_is_no_error(app: penstock.App, spans: InMemorySpanExporter):
    with pytest.raises(penstock.JobRequeued), tracing.attempt_span(app.tasks["load"].enqueue()):
        raise penstock.JobRequeued("later")
    assert by_name(spans)["run load"][0].status.status_code is trace.StatusCode.UNSET


def test_jobs_enqueued_together_share_a_span(app: penstock.App, spans: InMemorySpanExporter):
    jobs = app.tasks["load"].enqueue_many([{}, {}, {}])
    (span,) = by_name(spans)["enqueue load"]
    assert dict(span.attributes or {})["messaging.batch.message_count"] == 3
    assert len({app.get(job.id).traceparent for job in jobs}) == 1


@pytest.mark.parametrize("text", ["", "00-0-0-0", "ff-" + "a" * 32 + "-" + "b" * 16 + "-01", "x" * 500])
def test_a_traceparent_that_is_none_begins_a_new_trace(text: str):
    assert tracing._parent(text) is None


def test_where_nobody_records_nothing_is_stored(app: penstock.App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace, "get_tracer", lambda name: trace.NoOpTracer())
    assert app.tasks["load"].enqueue().traceparent == ""
    monkeypatch.setattr(tracing, "is_loaded", lambda: False)
    assert app.tasks["load"].enqueue().traceparent == ""
