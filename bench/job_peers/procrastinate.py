"""Procrastinate on PostgreSQL."""

from __future__ import annotations

import asyncio

import psycopg  # type: ignore[import-not-found]
from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found]

from bench.job_peers import work

app = App(connector=PsycopgConnector(conninfo=work.url))


async def _no_op() -> None:
    work.no_op()


async def _steps() -> None:
    await asyncio.to_thread(work.all_steps)


app.task(name="no_op")(_no_op)
app.task(name="steps")(_steps)


def prepare() -> None:
    app.open()
    app.schema_manager.apply_schema()


def enqueue(count: int) -> None:
    job = app.configure_task("no_op")
    for _ in range(count):
        job.defer()


def enqueue_all(count: int) -> None:
    app.configure_task("no_op").batch_defer(*({} for _ in range(count)))


def enqueue_steps() -> None:
    app.configure_task("steps").defer()


def left() -> int:
    with psycopg.connect(work.url) as connection:
        row = connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')").fetchone()
    return int(row[0]) if row else 0
