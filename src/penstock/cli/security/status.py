"""`penstock security status`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import (
    company_option,
    end_with,
    job_argument,
    job_form,
    opened,
    show_job,
    storage_options,
)


@click.command("status")
@job_argument
@company_option
@storage_options
@json_option
def command(job_id: str, company: str | None, as_json: bool, **place: str | None) -> None:
    """Show JOB: its stages, its files, what is wrong with it.

    \b
    Examples:
      penstock security status job_mbzlks74_rfi5i0
      penstock security status job_mbzlks74_rfi5i0 --company 7central --db jobs.db --json

    Exit codes: 0, or 3 if the job has failed, 4 if there is none.
    """
    with opened(place, company) as storage:
        job = storage.job(job_id)
        if as_json:
            print_json(job_form(job))
        else:
            show_job(job)
    end_with(job)
