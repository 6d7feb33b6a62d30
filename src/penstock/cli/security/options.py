"""What the commands of `penstock security` share: where jobs and files are, and how a job is shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from penstock.cli.kit.exit_codes import CommandFailed
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.files import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.systems.security_assistant.job import DrawingJob, counted
from penstock.systems.security_assistant.processor import Processor
from penstock.systems.security_assistant.settings import Settings, opened_storage
from penstock.systems.security_assistant.shelf import NothingThere
from penstock.systems.security_assistant.stages import stages_of
from penstock.systems.security_assistant.storage import Storage

F = TypeVar("F", bound=Callable[..., Any])

JOB_FAILED = 3
NOT_FOUND = 4
NOT_READY = 5

job_argument = click.argument("job_id", metavar="JOB")
company_option = click.option("--company", metavar="NAME", help="Only what is this company's.")
agents_option = click.option(
    "--agents", metavar="MODULE:NAME", help="A function that gives other agents than those that ship."
)

_STORAGE_OPTIONS = (
    click.option("--folder", metavar="DIR", help="Jobs in DIR/jobs.json, files in DIR. Also LOCAL_OUTPUT_DIR."),
    click.option("--url", "--db", metavar="URL", help="Jobs in tables of this database: a file, http://…, aws://…."),
    click.option("--files", metavar="HOME", help="With --url: where files are; a folder, or s3://bucket/prefix."),
    click.option("--table", metavar="NAME", help="With --url: the jobs' table. Also DYNAMODB_TABLE."),
    click.option(
        "--layout", type=click.Choice(["safe", "compat"]), default="safe", show_default=True, help="Of the tables."
    ),
)


def storage_options(command: F) -> F:
    """--folder, --url, --files, --table and --layout."""
    for option in reversed(_STORAGE_OPTIONS):
        command = option(command)
    return command


def settings_of(place: dict[str, str | None]) -> Settings:
    """The environment's settings, and over them what was said on the command line."""
    environment = dict(os.environ)
    url, folder = place.get("url"), place.get("folder")
    if url and folder:
        raise click.UsageError("Give --folder or --url: jobs are in a folder or in tables.")
    if folder:
        environment |= {"STORAGE_MODE": "local", "LOCAL_OUTPUT_DIR": folder}
    if url:
        environment |= {"STORAGE_MODE": "aws", "PENSTOCK_URL": url}
        if "://" not in url and not place.get("files") and not environment.get("PENSTOCK_FILES"):
            environment["PENSTOCK_FILES"] = f"{url}.files"
    if place.get("files"):
        environment["PENSTOCK_FILES"] = str(place["files"])
    if place.get("table"):
        environment["DYNAMODB_TABLE"] = str(place["table"])
    return Settings.from_environment(environment, layout=place.get("layout") or "safe")


@contextmanager
def opened(place: dict[str, str | None], company: str | None = None, *, make: bool = False) -> Iterator[Storage]:
    """The storage, or the company's part of it; what is not found ends with exit code 4.

    A command that only looks makes no file and no table.
    """
    try:
        with opened_storage(settings_of(place), make=make) as storage:
            yield storage if company is None else storage.for_company(company)
    except (JobNotFound, FileMissing, NothingThere) as error:
        raise CommandFailed(NOT_FOUND, str(error)) from error


def job_form(job: DrawingJob) -> dict[str, Any]:
    """A job as JSON: its item."""
    return job.item()


def line_of(job: DrawingJob) -> str:
    """A job in a list."""
    found = job.checkpoints.get("components_extracted")
    count = counted(found.summary["total_components"], "component") if found is not None and found.summary else ""
    names = f"{job.company}  {job.client_name}, {job.project_name}"
    return f"{job.id:22}  {job.state.value:10}  {utc_text(job.created_at)}  {names}  {count}".rstrip()


def show_job(job: DrawingJob, *, stages: bool = True) -> None:
    """All that a person wants to know of it; without its stages where those have been shown."""
    click.echo(f"{job.id} is {job.state.value}: {job.client_name}, {job.project_name} ({job.company})")
    for stage in stages_of(job) if stages else ():
        point = job.checkpoints.get(stage.checkpoint)
        told = "" if point is None else f"{point.timestamp}  v{point.version}  {summary_text(point.summary)}"
        click.echo(f"  {stage.name:11} {told or '-'}")
    for kind, key in job.output_files.items():
        click.echo(f"  {kind + ':':11} {key}")
    if job.error is not None:
        click.echo(f"  error in {job.error.get('stage') or 'claiming'}: {job.error['message']}")


def summary_text(summary: Any) -> str:
    if not summary:
        return ""
    if "by_type" in summary:
        counts = ", ".join(f"{count} {kind}" for kind, count in summary["by_type"].items())
        return f"{counted(summary['total_components'], 'component')}: {counts}"
    return ", ".join(f"{name} {value}" for name, value in summary.items())


def finished(processor: Processor, job: DrawingJob) -> DrawingJob:
    """Works on it until it has ended: a part that was handed over is gone on with here."""
    while True:
        done = processor.process(job)
        if done is None:
            raise PenstockError(f"{job.id} is being processed by another worker, or waits for its next attempt.")
        if done.state is not State.QUEUED or done.retry_at is not None:
            return done
        job = done


def end_with(job: DrawingJob) -> None:
    """Exit code 3 for a job that has failed."""
    if job.state is State.FAILED:
        raise click.exceptions.Exit(JOB_FAILED)
