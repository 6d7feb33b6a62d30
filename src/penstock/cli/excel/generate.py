"""`penstock excel generate`."""

from __future__ import annotations

import threading
import time
from typing import Any

import click

from penstock.cli.excel.options import Place, end_with, job_line, log_line, place_options
from penstock.cli.kit.options import json_option, resumable
from penstock.cli.kit.output import print_json
from penstock.systems.excel_reports.records import JobWithLogs, job_form
from penstock.systems.excel_reports.service import ExcelReports

_LOOK_SECONDS = 0.05


@click.command("generate")
@click.argument("project")
@place_options
@click.option("--products", type=int, help="How many products the project has.  [default: 200]")
@click.option("--users", type=int, help="How many users it has.  [default: 60]")
@click.option("--images", type=int, help="How many products have their picture in it.  [default: 24]")
@click.option("--by-category", "byCategory", is_flag=True, default=None, help="A sheet more for each category.")
@click.option("--seed", type=int, help="Another seed gives another project of the same name.")
@click.option("--title", help="Over the summary; without one, the project's name.")
@click.option("--no-wait", is_flag=True, help="Only ask for it: a worker, or `penstock excel serve`, makes it.")
@json_option
def command(project: str, place: Place, no_wait: bool, as_json: bool, **options: Any) -> None:
    """Make a report of PROJECT, and watch it being made.

    \b
    Examples:
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db --products 20000 --by-category
      penstock excel generate mlab_bodwassho_usa_3 --url aws://us-west-2 --files s3://bucket/reports --no-wait

    If this is interrupted, or killed, `penstock excel worker --burst` goes on with what was made.
    Exit codes: 0 made, 2 there is no such option or value, 3 it has failed.
    """
    given = {name: value for name, value in options.items() if value is not None}
    with place.opened("made") as service:
        job = service.generate(project, given)
        if no_wait:
            print_json(job_form(job)) if as_json else click.echo(job.job_id)
            return
        with resumable(f"{job.job_id} is not finished; `penstock excel worker --burst` goes on with it."):
            found = _watched(service, job.job_id, quiet=as_json)
        if as_json:
            print_json(job_form(found.job))
        else:
            _tell(found)
        end_with(found.job)


def _watched(service: ExcelReports, job_id: str, *, quiet: bool) -> JobWithLogs:
    """Works in a thread until the job has ended; each record is shown once."""
    worker = service.worker(concurrency=1)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    seen = 0
    try:
        while True:
            ended = not thread.is_alive()
            job = service.jobs.get_job(job_id)  # one item, in either layout; its history only if there is more
            if job.is_terminal or ended or (not quiet and (job.last_number or 0) > seen):
                found = service.read(job_id)
                seen = _show_new(found, seen, quiet)
                if found.job.is_terminal or ended:
                    return found
            time.sleep(_LOOK_SECONDS)
    finally:
        worker.stop("the command ends")
        thread.join()


def _show_new(found: JobWithLogs, seen: int, quiet: bool) -> int:
    for log in found.progress:
        if log.number > seen and not quiet:
            click.echo(log_line(log), err=True)
    return max([seen, *(log.number for log in found.logs)])


def _tell(found: JobWithLogs) -> None:
    job = found.job
    click.echo(job_line(job))
    if job.result is not None:
        click.echo(f"made in {job.result['processingTime']}: {job.result['downloadUrl']}")
    if job.error is not None:
        click.echo(f"{job.error['category']}: {job.error['message']}", err=True)
