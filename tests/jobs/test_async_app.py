"""app.aio: the verbs of an app, awaited, while the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from worker_worlds import work

import penstock
from penstock.jobs.worker.worker import Worker


@pytest.fixture
def app() -> Iterator[penstock.App]:
    with penstock.App(":memory:") as app:

        @app.task(tags=["sums"])
        def add(a: int, b: int = 1) -> int:
            if a < 0:
                raise ValueError("negative")
            return a + b

        yield app


@contextmanager
def running_worker(app: penstock.App) -> Iterator[None]:
    worker = Worker(app, concurrency=2, idle_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(30)


def test_a_job_is_enqueued_and_its_result_awaited(app: penstock.App):
    async def main() -> None:
        add = app.tasks["add"]
        job = await app.aio.enqueue(add.options(priority=9), 1, b=2)
        assert job.priority == 9 and (await app.aio.get(job.id)).id == job.id
        assert await app.aio.result(job.id, timeout_seconds=30) == 3
        bad = await app.aio.enqueue(add, -1)
        with pytest.raises(penstock.JobFailed, match="negative"):
            await app.aio.result(bad.id, timeout_seconds=30)

    with running_worker(app):
        asyncio.run(main())


def test_many_waits_hold_no_thread_and_do_not_block_the_loop(app: penstock.App):
    async def main() -> None:
        jobs = await app.aio.enqueue_many(app.tasks["add"], [{"a": n} for n in range(100)])
        waits = [asyncio.create_task(app.aio.wait(job.id, timeout_seconds=60)) for job in jobs]
        for _ in range(20):  # the loop turns while they wait; a hundred waits in sixteen threads would hold them all
            await asyncio.sleep(0)
            assert (await app.aio.get(jobs[0].id)).state == "queued"
        work_done = asyncio.create_task(asyncio.to_thread(work, app))
        ended = await asyncio.gather(*waits)
        assert {job.state for job in ended} == {penstock.State.COMPLETED}
        await work_done

    asyncio.run(main())


def test_a_wait_that_takes_too_long_raises_a_timeout(app: penstock.App):
    async def main() -> None:
        job = await app.aio.enqueue(app.tasks["add"], 1)
        with pytest.raises(TimeoutError, match="still queued"):
            await app.aio.wait(job.id, timeout_seconds=0.05)

    asyncio.run(main())


def test_jobs_are_found_cancelled_and_retried(app: penstock.App):
    async def main() -> None:
        aio = app.aio
        one, two = await aio.enqueue(app.tasks["add"], 1), await aio.enqueue(app.tasks["add"], -1)
        assert {job.id async for job in aio.jobs.find(tag="sums")} == {one.id, two.id}
        assert len([job async for job in aio.jobs.find(limit=1)]) == 1
        assert (await aio.cancel(one.id, "no")).state == "cancelled"
        await asyncio.to_thread(work, app)
        assert (await aio.get(two.id)).state == "failed"
        assert (await aio.retry(two.id)).state == "queued"
        await asyncio.to_thread(work, app)
        assert (await aio.jobs.retry_all(dry_run=True)).matched == 1
        assert (await aio.jobs.retry_all(error="ValueError")).changed == 1
        assert (await aio.jobs.cancel_all()).changed == 1
        await aio.jobs.pause("default", "later")
        assert app.store.queue("default").paused
        await aio.jobs.resume("default")
        assert (await aio.jobs.events(two.id))[0].type == "created"
        assert (await aio.jobs.history(two.id)).job.id == two.id
        assert await aio.jobs.log(two.id) == []

    asyncio.run(main())


def test_another_event_loop_may_use_the_same_app(app: penstock.App):
    async def main() -> str:
        return (await app.aio.enqueue(app.tasks["add"], 1)).id

    assert asyncio.run(main()) != asyncio.run(main())


def test_a_verb_that_it_does_not_have_is_called_by_call(app: penstock.App):
    async def main() -> bool:
        job = await app.aio.enqueue(app.tasks["add"], 1)
        return await app.aio.call(app.store.has_ended, job)

    assert asyncio.run(main()) is False
