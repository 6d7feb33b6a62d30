"""Traces that go on from where a job was enqueued: spans for the enqueue, for each attempt, and for each step.

1. Nothing of OpenTelemetry is imported here. A program that traces has loaded it; in one that does not, all that this
   costs is a look whether it is loaded.
2. A job keeps the span that it was enqueued in (`traceparent`, as W3C Trace Context writes it). Its attempts are
   children of it, in whatever process, however much later; steps are children of their attempt.
3. Spans have names, counts and ids: never an argument, a result, or the text of an exception.
4. An attempt that is requeued, suspended, cancelled or lost to another worker is no error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from penstock.jobs.model.job import Job, JobCancelled, JobRequeued, NewJob
from penstock.jobs.model.workflow import JobSuspended
from penstock.leases import LeaseLost

_MODULE: Final = "opentelemetry.trace"
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NO_ERRORS: Final = (JobRequeued, JobCancelled, JobSuspended, LeaseLost)


def is_loaded() -> bool:
    """Whether this program has OpenTelemetry's traces (1)."""
    return _MODULE in sys.modules


@contextmanager
def enqueue_span(new: NewJob, jobs: int = 1) -> Iterator[str]:
    """A span for making jobs of a task; its traceparent, "" where nobody records it."""
    kind = _trace().SpanKind.PRODUCER
    attributes = {**_attributes(new.task, new.queue), "messaging.operation.type": "send"}
    if jobs > 1:
        attributes["messaging.batch.message_count"] = jobs
    with _span(f"enqueue {new.task}", kind, attributes) as span:
        yield _traceparent(span.get_span_context())


@contextmanager
def attempt_span(job: Job) -> Iterator[None]:
    """A span for an attempt: a child of the one that the job was enqueued in (2)."""
    attributes = {
        **_attributes(job.task, job.queue),
        "messaging.operation.type": "process",
        "messaging.message.id": job.id,
        "penstock.attempt": job.attempt,
    }
    with _span(f"run {job.task}", _trace().SpanKind.CONSUMER, attributes, _parent(job.traceparent)):
        yield


def step_span(name: str) -> AbstractContextManager[Any]:
    """In which a step's function runs, where this program traces."""
    if not is_loaded():
        return nullcontext()
    return _span(f"step {name}", _trace().SpanKind.INTERNAL, {"penstock.step": name})


def _trace() -> Any:
    return sys.modules[_MODULE]


def _attributes(task: str, queue: str) -> dict[str, Any]:
    return {"messaging.system": "penstock", "messaging.destination.name": queue, "penstock.task": task}


@contextmanager
def _span(name: str, kind: Any, attributes: Mapping[str, Any], parent: Any = None) -> Iterator[Any]:
    trace = _trace()
    with trace.get_tracer("penstock").start_as_current_span(
        name,
        context=parent,
        kind=kind,
        attributes=attributes,
        record_exception=False,  # its text may hold what should not leave the process (3)
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            kind_name = type(error).__name__
            if not isinstance(error, _NO_ERRORS):
                span.set_attribute("error.type", kind_name)
                span.set_status(trace.Status(trace.StatusCode.ERROR, kind_name))
            raise


def _traceparent(context: Any) -> str:
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _parent(traceparent: str) -> Any:
    """The context whose span that is; None, which is the present one, where there is none."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace = _trace()
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(context))
