"""Words of other job systems, and of earlier versions, with what to use here: an error that says it saves a search."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, NoReturn, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")
Class = TypeVar("Class")

OPTIONS: Final = {
    "acks_late": "nothing: a job is always acknowledged after it has run",
    "after": "depends_on",
    "autoretry_for": "retries=RetryPolicy(3, on=(…,)) on the task",
    "bind": "nothing: a first parameter that is named ctx, or annotated as a JobContext, is given the context",
    "countdown": "delay",
    "eta": "run_at",
    "key": "idempotency_key",
    "kwargs": "the arguments themselves in task.enqueue(x=1); for a schedule, cron_args",
    "limit": "max_concurrent",
    "limit_key": "concurrency_key",
    "max_instances": "cron_overlap=True, without which a schedule's jobs never overlap",
    "max_retries": "retries on the task",
    "rate_limit": "rate='100/m' on the task, with a rate_key if its jobs are to be told apart",
    "retry_backoff": "retries=RetryPolicy(…) on the task",
    "run_in_seconds": "delay",
    "soft_time_limit": "soft_time_limit_seconds on the task",
    "task_id": "idempotency_key",
    "time_limit": "time_limit_seconds on the task",
    "trigger_rule": "depends_on_policy",
    "unique": "unique_key",
}

OF_TASKS: Final = {
    "apply_async": "task.options(delay=60, queue='slow').enqueue(x=1) enqueues it with options",
    "delay": "task.enqueue(x=1) enqueues it",
    "s": "task.options(depends_on=[job.id]).enqueue(x=1) runs it after another job",
    "send": "task.enqueue(x=1) enqueues it",
    "signature": "task.options(depends_on=[job.id]).enqueue(x=1) runs it after another job",
}
OF_JOBS: Final = {
    "cancel": "app.cancel(job.id) cancels it",
    "get": "app.result(job.id) waits for what the task returned",
    "get_status": "app.get(job.id).state reads its state again",
    "ready": "app.get(job.id).is_terminal says whether it has ended",
    "refresh": "app.get(job.id) reads it again; a Job is as it was when it was read",
    "retry": "app.retry(job.id) gives a failed job another attempt",
    "return_value": "app.result(job.id) waits for what the task returned",
    "revoke": "app.cancel(job.id) cancels it",
    "status": "app.get(job.id).state reads its state again",
    "successful": "app.get(job.id).state is 'completed' then",
    "wait": "app.wait(job.id) waits for its end, app.result(job.id) for what the task returned",
}
OF_CONTEXTS: Final = {
    "job_id": "ctx.id is the job's id",
    "meta": "ctx.progress(40, step='fetching', rows=7) stores data with the progress",
    "request": "ctx.id, ctx.attempt and ctx.job tell of the job",
    "retry": "raise penstock.RetryIn(60), or any exception: the task's retries=… decides",
    "save": "ctx.checkpoint(name, value) keeps a value",
    "set_progress": "ctx.progress(40) reports progress",
    "update_state": "ctx.progress(40, step='fetching') reports progress",
}
OF_APPS: Final = {
    "AsyncResult": "app.get(job_id) reads a job, app.result(job_id) waits for what its task returned",
    "actor": "@app.task() makes a function a task",
    "add_periodic_task": "@app.task(cron='30 6 * * *') schedules a task",
    "autodiscover_tasks": "App(…, discover='myproject'): a worker imports the modules named tasks in it",
    "conf": "options are given to App(…), @app.task(…) and Worker(…)",
    "control": "app.cancel(job_id) cancels a job; app.jobs.pause('default') pauses a queue",
    "cron": "@app.task(cron='30 6 * * *') schedules a task",
    "enqueue": "task.enqueue(x=1) enqueues a job",
    "fetch_job": "app.get(job_id) reads a job",
    "periodic_task": "@app.task(cron='30 6 * * *') schedules a task",
    "run_worker": "penstock.Worker(app).run(), or `penstock worker module:app`, runs its jobs",
    "schedule": "@app.task(cron='30 6 * * *') schedules a task",
    "send_task": "app.task_named('name').enqueue(x=1) enqueues a job by its task's name",
    "start": "penstock.Worker(app).run(), or `penstock worker module:app`, runs its jobs",
    "worker_main": "penstock.Worker(app).run(), or `penstock worker module:app`, runs its jobs",
}


def with_hints(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """A function that names our word where it is given an option by another system's, which is none of its own."""
    others = OPTIONS.keys() - inspect.signature(function).parameters.keys()

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        for name in kwargs:
            if name in others:
                raise TypeError(f"There is no option {name}: use {OPTIONS[name]}. docs/glossary.md has more words.")
        return function(*args, **kwargs)

    return call


def no_attribute(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """For `__getattr__` of what other systems have more methods of."""
    kind, hint = type(owner).__name__, hints.get(name)
    if hint is None:
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)
    return AttributeError(f"{'An' if kind[0] in 'AEIOU' else 'A'} {kind} has no .{name} here: {hint}.")


class _OtherWord:
    """A word of other systems as an attribute of a class: to read it raises an error that names ours.

    A `__getattr__` would do the same, and make every attribute of every instance slow to read.
    """

    def __init__(self, hints: Mapping[str, str], name: str) -> None:
        self._hints = hints
        self._name = name

    def __get__(self, owner: object | None, kind: type) -> NoReturn:
        if owner is None:
            raise AttributeError(f"type object {kind.__name__!r} has no attribute {self._name!r}")
        raise no_attribute(owner, self._name, self._hints)


def with_other_words(hints: Mapping[str, str]) -> Callable[[type[Class]], type[Class]]:
    """A class whose instances name our word to who asks for one of these."""

    def add(kind: type[Class]) -> type[Class]:
        for name in hints:
            setattr(kind, name, _OtherWord(hints, name))
        return kind

    return add
