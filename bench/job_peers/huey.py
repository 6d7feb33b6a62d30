"""Huey on SQLite."""

from __future__ import annotations

from huey import SqliteHuey  # type: ignore[import-not-found]

from bench.job_peers import work

app = SqliteHuey(filename=str(work.place / "huey.db"), fsync=False if work.tuned and not work.synced else None)
no_op = app.task()(work.no_op)
steps = app.task()(work.all_steps)


def prepare() -> None:
    """The tables are made when the file is opened."""


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op()


def enqueue_steps() -> None:
    steps()


def left() -> int:
    return int(app.pending_count())
