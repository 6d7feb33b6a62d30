"""What the commands of `penstock jobs` share: where the jobs live, and how they are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.kit import databases
from penstock.cli.kit.exit_codes import CommandFailed
from penstock.clock import utc_text
from penstock.errors import PenstockError, ResourceNotFoundException, ValidationException
from penstock.files import Files, open_files
from penstock.jobs.app import FILES_VARIABLE
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.model.job import Job, JobNotFound, Payload
from penstock.jobs.model.json_text import to_json
from penstock.jobs.store.store import JobStore
from penstock.records.leases import LeaseLost

F = TypeVar("F", bound=Callable[..., Any])

FAILED = 3
NOT_FOUND = 4
LEASE_LOST = 6
_NAMES_CHARACTERS = 50

_url_option = click.option(
    "--url",
    "--db",
    envvar="PENSTOCK_URL",
    metavar="URL",
    help="Where the jobs live: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
)
_table_option = click.option(
    "--table",
    default=DEFAULT_TABLE,
    show_default=True,
    envvar="PENSTOCK_JOBS_TABLE",
    metavar="NAME",
    help="Their table.",
)
job_argument = click.argument("job_id", metavar="JOB")


def place_options(command: F) -> F:
    """--url and --table."""
    return _url_option(_table_option(command))


@contextmanager
def opened(url: str | None, table: str) -> Iterator[JobStore]:
    """The store; what is not found, lost or failed ends with its own exit code."""
    place = url or _only_database()
    with databases.open_database(place, maker="penstock worker") as db:
        try:
            yield JobStore.of_table(db, table, files=_files(place))
        except ResourceNotFoundException as error:
            raise PenstockError(
                f"{place} has no table {table}: no app has used it yet, or its jobs are in another one (--table)."
            ) from error
        except ValidationException as error:
            raise PenstockError(
                f"{table} of {place} is no table of jobs ({error}): name theirs with --table."
            ) from error
        except JobNotFound as error:
            raise CommandFailed(NOT_FOUND, str(error)) from error
        except LeaseLost as error:
            raise CommandFailed(LEASE_LOST, str(error)) from error


def _files(place: str) -> Files | None:
    """Where the app keeps its files: where PENSTOCK_FILES says, else beside a database file if it has any."""
    if said := os.environ.get(FILES_VARIABLE):
        return open_files(said)
    beside = f"{place}.files"
    return open_files(beside) if "://" not in place and Path(beside).is_dir() else None


def _only_database() -> str:
    """The one .db file of this folder, for people in a hurry."""
    found = sorted(str(path) for path in Path().glob("*.db"))
    if len(found) == 1:
        return found[0]
    seen = f" This folder has {', '.join(found)}." if found else ""
    raise click.UsageError(f"Where do the jobs live? Give --url, or set PENSTOCK_URL.{seen}")


def job_form(job: Job, store: JobStore, *, payloads: bool = False) -> dict[str, Any]:
    """A job as JSON."""
    form: dict[str, Any] = {
        "id": job.id,
        "task": job.task,
        "state": job.state.value,
        "queue": job.queue,
        "tenant": job.tenant,
        "priority": job.priority,
        "progress": job.progress,
        "step": job.step,
        "attempt": job.attempt,
        "failures": job.failures,
        "crashes": job.crashes,
        "created_at": utc_text(job.created_at),
        "updated_at": utc_text(job.updated_at),
        "run_at": utc_text(job.run_at),
        "started_at": None if job.started_at is None else utc_text(job.started_at),
        "ended_at": None if job.ended_at is None else utc_text(job.ended_at),
        "expires_at": utc_text(job.expires_at),
        "lease": None if job.lease is None else {"owner": job.lease.owner, "until": utc_text(job.lease.until)},
        "error": None if job.error is None else {"kind": job.error.kind, "message": job.error.message},
        "cancel_reason": job.cancel_reason,
        "waiting_for": sorted(job.waiting_for),
    }
    if payloads:
        form["args"], form["result"], form["unread"] = None, None, []
        for name, payload in (("args", job.args), ("result", job.result)):
            try:
                form[name] = store.load(job, payload)
            except PenstockError as error:
                form["unread"].append(why_unread(store, job, payload, error))
    return form


def why_unread(store: JobStore, job: Job, payload: Payload | None, error: PenstockError) -> str:
    """Why a payload cannot be shown; what is known of its job still can."""
    if isinstance(error, JobNotFound):
        raise error
    if payload is not None and payload.file is not None and store.files is None:
        return (
            f"{job.id}: it is in a file of {payload.file.size:,} bytes. PENSTOCK_FILES says where the app's files are."
        )
    return str(error)


def names_told(names: Collection[str]) -> str:
    """The first of them, as many as go on a line, and how many more there are."""
    told = sorted(names)
    while len(shown := ", ".join(told)) > _NAMES_CHARACTERS and len(told) > 1:
        told.pop()
    rest = len(names) - len(told)
    return f"{shown} and {rest} more" if rest else shown


def print_json(value: object) -> None:
    """On one line: commands that follow a job print one after the other."""
    click.echo(to_json(value, "what is shown").lstrip())


def exit_of(job: Job) -> int:
    """0 for a job that has completed, is running or waits; 3 for one that has failed or was cancelled."""
    return FAILED if job.state.value in ("failed", "cancelled") else 0
