"""arq: coroutines of one process; a blocking job goes to a thread."""

from __future__ import annotations

import asyncio
from typing import Any

from arq import create_pool  # type: ignore[import-not-found]
from arq.connections import RedisSettings  # type: ignore[import-not-found]

from bench.job_peers import work

settings = RedisSettings.from_dsn(work.url)
loop = asyncio.new_event_loop()
pool: Any = None


async def no_op(_: dict[str, Any]) -> None:
    work.no_op()


async def steps(_: dict[str, Any]) -> None:
    await asyncio.to_thread(work.all_steps)


class WorkerSettings:
    functions = (no_op, steps)
    redis_settings = settings
    max_jobs = work.concurrency
    log_results = False
    if work.tuned:
        poll_delay = 0.001  # by default 0.5: at most `max_jobs` are begun in each
        keep_result = 0


def prepare() -> None:
    global pool
    pool = loop.run_until_complete(create_pool(settings))


def enqueue(count: int) -> None:
    async def each() -> None:
        for _ in range(count):
            await pool.enqueue_job("no_op")

    loop.run_until_complete(each())


def enqueue_steps() -> None:
    loop.run_until_complete(pool.enqueue_job("steps"))


def left() -> int:
    return int(loop.run_until_complete(pool.zcard("arq:queue")))
