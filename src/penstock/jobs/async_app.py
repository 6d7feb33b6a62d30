"""`app.aio`: the same verbs, awaited.

    job = await app.aio.enqueue(report.options(priority=9), project="bodwassho")
    print(await app.aio.result(job.id))
    async for job in app.aio.jobs.find(state="failed"):
        ...

1. Nothing blocks the event loop: each call of the database runs in a thread of the app's own. `asyncio.to_thread` and
   other libraries' threads are not held up by a database that is away.
2. `wait` and `result` hold a thread only while they read: thousands may wait at once.
3. A call that is cancelled may still be carried out: its thread has begun it. An enqueue that may be repeated has an
   idempotency key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from penstock.jobs.job_queries import BulkChange, Jobs
from penstock.jobs.model.job import Entry, Event, History, Job, JobPage
from penstock.jobs.tasks import Task
from penstock.retry import Backoff

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

POLLS: Final = Backoff(0.02, 1.5, 1.0)
"""How often `wait` reads the job."""
_THREADS: Final = 16
"""Calls at once; further ones take turns. On a file they take turns all the same."""
_PAGE: Final = 100


class BlockingApp(Protocol):
    """What it is the other face of."""

    @property
    def jobs(self) -> Jobs: ...
    def get(self, job_id: str) -> Job: ...
    def cancel(self, job_id: str, reason: str = "", *, cancel_children: bool = False) -> Job: ...
    def send_event(self, job_id: str, event: str, data: Any = None, *, event_id: str | None = None) -> Job: ...
    def retry(self, job_id: str) -> Job: ...
    def ended(self, job_id: str, end: float | None = None) -> tuple[Job, bool]: ...
    def result_of(self, job: Job, end: float | None = None) -> Any: ...


class AsyncApp:
    """An app for code that runs on an event loop."""

    def __init__(self, app: BlockingApp) -> None:
        self._app = app
        self._executor = ThreadPoolExecutor(_THREADS, "penstock-aio")
        self.jobs = AsyncJobs(app.jobs, self.call)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs any blocking function of the app in one of its threads, with the caller's context variables."""
        run = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, run)

    async def enqueue(self, task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Job:
        """Makes a job of the task, or of `task.options(…)`."""
        return await self.call(task.enqueue, *args, **kwargs)

    async def enqueue_many(self, task: Task[P, R], arguments: Iterable[dict[str, Any]]) -> list[Job]:
        """A job for each dict of arguments."""
        return await self.call(task.enqueue_many, arguments)

    async def get(self, job_id: str) -> Job:
        """Raises JobNotFound."""
        return await self.call(self._app.get, job_id)

    async def cancel(self, job_id: str, reason: str = "", *, cancel_children: bool = False) -> Job:
        """Raises BadTransition."""
        return await self.call(self._app.cancel, job_id, reason, cancel_children=cancel_children)

    async def send_event(self, job_id: str, event: str, data: Any = None, *, event_id: str | None = None) -> Job:
        """Sends an event with data (JSON) to a job. Raises JobNotFound, BadJob."""
        return await self.call(self._app.send_event, job_id, event, data, event_id=event_id)

    async def retry(self, job_id: str) -> Job:
        """Raises BadTransition."""
        return await self.call(self._app.retry, job_id)

    async def wait(self, job_id: str, *, timeout_seconds: float | None = None) -> Job:
        """The job when it has ended. Raises TimeoutError."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        polls = 0
        while True:
            job, has_ended = await self.call(self._app.ended, job_id, end)
            if has_ended:
                return job
            polls += 1
            pause = POLLS.bound(polls)
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"{job_id} is still {job.state} after {timeout_seconds:g} s")
            await asyncio.sleep(pause)

    async def result(self, job_id: str, *, timeout_seconds: float | None = None) -> Any:
        """What the task returned, when it has. Raises JobFailed, TimeoutError."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        job = await self.wait(job_id, timeout_seconds=timeout_seconds)
        return await self.call(self._app.result_of, job, end)

    def close(self) -> None:
        """Ends its threads; `app.close()` calls it."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class AsyncJobs:
    """`app.aio.jobs`: as `app.jobs`, awaited."""

    def __init__(self, jobs: Jobs, call: Callable[..., Any]) -> None:
        self._jobs = jobs
        self._call = call

    async def find(self, *, limit: int | None = None, **query: Any) -> AsyncIterator[Job]:
        """Jobs, newest first: `async for job in app.aio.jobs.find(state="failed")`."""
        left, token = limit, None
        while True:
            page = await self.page(**query, limit=_PAGE if left is None else min(_PAGE, left), token=token)
            for job in page.jobs:
                yield job
            token = page.token
            if left is not None:
                left -= len(page.jobs)
            if token is None or left == 0:
                return

    async def page(self, **query: Any) -> JobPage:
        """One page, and the token for the next."""
        page: JobPage = await self._call(self._jobs.page, **query)
        return page

    async def log(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Its numbered log, from the entry after `after` on. Raises JobNotFound."""
        entries: list[Entry] = await self._call(self._jobs.log, job_id, after=after, limit=limit)
        return entries

    async def events(self, job_id: str) -> tuple[Event, ...]:
        """What happened to it, oldest first. Raises JobNotFound."""
        events: tuple[Event, ...] = await self._call(self._jobs.events, job_id)
        return events

    async def history(self, job_id: str) -> History:
        """The job with its log, checkpoints, events and files. Raises JobNotFound."""
        history: History = await self._call(self._jobs.history, job_id)
        return history

    async def pause(self, queue: str = "default", reason: str = "") -> None:
        """Workers take no more jobs from the queue; running ones continue."""
        await self._call(self._jobs.pause, queue, reason)

    async def resume(self, queue: str = "default") -> None:
        """Workers take its jobs again."""
        await self._call(self._jobs.resume, queue)

    async def retry_all(self, **filters: Any) -> BulkChange:
        """Gives failed jobs another attempt, as `app.jobs.retry_all`."""
        changed: BulkChange = await self._call(self._jobs.retry_all, **filters)
        return changed

    async def cancel_all(self, **filters: Any) -> BulkChange:
        """Cancels jobs, as `app.jobs.cancel_all`."""
        changed: BulkChange = await self._call(self._jobs.cancel_all, **filters)
        return changed
