"""`penstock jobs wait`."""

from __future__ import annotations

import click

from penstock.cli.jobs.following import follow
from penstock.cli.jobs.options import exit_of, job_argument, job_form, opened, place_options, print_json
from penstock.cli.kit.options import json_option
from penstock.jobs.explain import explain, gather


@click.command("wait")
@job_argument
@place_options
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Give up after so long (exit 1).")
@json_option
def command(job_id: str, url: str | None, table: str, timeout: float | None, as_json: bool) -> None:
    """Wait until a job has ended, then say how.

    \b
    Examples:
      penstock jobs wait job_mbzlks74_rfi5i0 --db reports.db && echo done
      penstock jobs wait job_mbzlks74_rfi5i0 --db reports.db --timeout 600 --json

    Exit codes: 0 it has completed, 3 it has failed or was cancelled, 4 there is no such job.
    """
    with opened(url, table) as store:
        try:
            *_, (job, _) = follow(store, job_id, timeout)
        except TimeoutError as error:
            raise click.ClickException(str(error)) from error
        if as_json:
            print_json(job_form(job, store, payloads=True))
        else:
            click.echo(explain(job, gather(store, job)))
        raise SystemExit(exit_of(job))
