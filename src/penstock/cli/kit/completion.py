"""What a shell completes: database files, table names, job ids and definitions.

Completion runs at every press of Tab. It reads local files only, never a network; after an error it completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from penstock.client.database import Database

_MOST = 100


def complete_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, and the .db files of this folder first."""
    here = [CompletionItem(str(path)) for path in sorted(Path().glob("*.db")) if str(path).startswith(incomplete)]
    return here or [CompletionItem(incomplete, type="file")]


def complete_tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tables of the command's database file."""
    return _without_errors(lambda: _table_names(ctx, incomplete))


def complete_jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The newest jobs of the command's database file, those of systems too, with their tasks and states."""
    return _without_errors(lambda: _jobs(ctx, incomplete))


def complete_definitions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Systems, then folders."""
    return _without_errors(lambda: _systems(incomplete)) or [CompletionItem(incomplete, type="dir")]


def _without_errors(complete: Callable[[], list[CompletionItem]]) -> list[CompletionItem]:
    try:
        return complete()
    except Exception:  # an error message in the middle of a command line helps nobody
        return []


@contextmanager
def _open_file(ctx: click.Context) -> Iterator[Database]:
    """The file that --db, PENSTOCK_DB or this folder names. Raises for a target that is not a file."""
    from penstock.cli.kit.databases import only_database_file, open_database

    target = ctx.params.get("target") or os.environ.get("PENSTOCK_DB") or only_database_file()
    if not Path(target).is_file():
        raise click.UsageError(f"{target} is not a file.")
    with open_database(target) as db:
        yield db


def _table_names(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    with _open_file(ctx) as db:
        names = [name for name in db.tables() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names[:_MOST]]


def _jobs(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from penstock.jobs.sources import AllJobs, JobQuery, StoreSource
    from penstock.jobs.store.store import JobStore
    from penstock.registry import job_source_types

    table = ctx.params.get("table")
    with _open_file(ctx) as db:
        if table is None:
            jobs = AllJobs.in_database(db, job_source_types())
        else:
            jobs = AllJobs([StoreSource(JobStore.of_table(db, table))])
        newest = jobs.find(JobQuery(limit=_MOST)).jobs
    return [CompletionItem(job.id, help=f"{job.task} {job.state}") for job in newest if job.id.startswith(incomplete)]


def _systems(incomplete: str) -> list[CompletionItem]:
    from penstock.registry import system_tables

    return [CompletionItem(name) for name in system_tables() if name.startswith(incomplete)]
