"""What the commands of `penstock delphi` share: where the results live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import orjson

from penstock.cli.kit import databases
from penstock.cli.kit.exit_codes import NOT_FOUND, CommandFailed
from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.app import FILES_VARIABLE, App
from penstock.jobs.model.job import Job, JobNotFound
from penstock.systems.delphi.pipeline import Delphi
from penstock.systems.delphi.poller import JobQueue
from penstock.systems.delphi.queue_layout import STATUSES
from penstock.systems.delphi.results import Results, RunNotFound
from penstock.systems.delphi.topics import Namer

DEFAULT_DATABASE = "delphi.db"

url_option = click.option(
    "--url",
    "--db",
    envvar="PENSTOCK_URL",
    default=DEFAULT_DATABASE,
    show_default=True,
    metavar="URL",
    help="Where the tables are: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
)
files_option = click.option(
    "--files",
    metavar="HOME",
    help=f"Where the files of runs lie: a folder, s3://bucket/prefix. Also {FILES_VARIABLE}; else beside the database.",
)
job_option = click.option("--job-id", metavar="ID", help="The run; the latest of the conversation without it.")
conversation_option = click.option(
    "--conversation", metavar="ID", help="The conversation's id; else the name of its folder or file."
)


@contextmanager
def working(url: str, files: str | None, namer: Namer) -> Iterator[Delphi]:
    """A Delphi that may write; what is missing is made."""
    home = files or os.environ.get(FILES_VARIABLE) or (f"{DEFAULT_DATABASE}.files" if "://" in url else None)
    with App(url, files=home) as app, not_found_apart():
        yield Delphi(app.store, namer)


@contextmanager
def looking(url: str) -> Iterator[tuple[Database, Results]]:
    """The results, for reading: no file is made."""
    with databases.open_database(url, maker="penstock delphi run") as db, not_found_apart():
        try:
            yield db, Results(db)
        except ResourceNotFoundException as error:
            raise PenstockError(f"{url} has no tables of Delphi yet: `penstock delphi run` makes them.") from error


@contextmanager
def queue(url: str, files: str | None = None, *, may_make: bool = False) -> Iterator[JobQueue]:
    """The queue of jobs. Only what puts jobs into it, or runs them, makes a database."""
    if not may_make:
        with databases.open_database(url, maker="penstock delphi enqueue"):
            pass
    found = JobQueue(url, files=files)
    try:
        yield found
    except JobNotFound as error:
        raise CommandFailed(NOT_FOUND, str(error)) from error
    finally:
        found.close()


@contextmanager
def not_found_apart() -> Iterator[None]:
    """What is not there has an exit code of its own."""
    try:
        yield
    except RunNotFound as error:
        raise CommandFailed(NOT_FOUND, str(error)) from error


def conversation_of(file: Path, given: str | None) -> str:
    """The id that was given; else the name of the folder of a comments.csv, or of any other file."""
    if given:
        return given
    file = file.absolute()
    if file.is_dir():
        return file.name
    return file.parent.name or file.stem if file.stem == "comments" else file.stem


def job_of(results: Results, job_id: str | None, conversation: str | None) -> str:
    """The run that is meant: by its id, the latest of a conversation, or the newest of all. Raises RunNotFound."""
    if job_id is not None:
        return job_id
    if conversation is not None:
        return results.latest_job_id(conversation)
    runs = results.runs()
    if not runs:
        raise RunNotFound("There is no complete run yet: `penstock delphi run comments.csv` makes one.")
    return str(runs[0]["job_id"])


def job_form(job: Job) -> dict[str, Any]:
    """A job of the queue as JSON, in the queue's own words."""
    return {
        "job_id": job.id,
        "job_type": job.task,
        "status": STATUSES[job.state],
        "job_config": orjson.loads(job.args.text or "{}"),
        "priority": job.priority,
        "retry_count": job.failures,
        "max_retries": job.retries,
        "created_at": utc_text(job.created_at),
        "updated_at": utc_text(job.updated_at),
        "worker_id": None if job.lease is None else job.lease.owner,
        "lock_expires_at": None if job.lease is None else utc_text(job.lease.until),
        "error": None if job.error is None else job.error.message,
    }


def job_line(job: Job) -> str:
    form = job_form(job)
    about = form["job_config"].get("conversation_id", "")
    return f"{form['created_at']}  {job.id}  {form['status']:<10}  {job.priority}  {job.task}  {about}".rstrip()
