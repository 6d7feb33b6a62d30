"""`penstock jobs watch`."""

from __future__ import annotations

import click

from penstock.cli.jobs.following import follow
from penstock.cli.jobs.options import exit_of, job_argument, job_form, opened, place_options, print_json
from penstock.cli.jobs.show import entry_form, entry_line
from penstock.cli.kit.options import json_option
from penstock.jobs.explain import explain, gather


@click.command("watch")
@job_argument
@place_options
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Give up after so long (exit 1).")
@json_option
def command(job_id: str, url: str | None, table: str, timeout: float | None, as_json: bool) -> None:
    """Follow a job's numbered progress until it has ended. Ctrl-C stops watching, not the job.

    \b
    Examples:
      penstock jobs watch job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs watch job_mbzlks74_rfi5i0 --db app.db --json | jq .progress

    Exit codes: 0 it has completed, 3 it has failed or was cancelled, 4 there is no such job.
    """
    with opened(url, table) as store:
        state = ""
        try:
            for job, entries in follow(store, job_id, timeout):
                for entry in entries:
                    if as_json:
                        print_json({"job": job_id, **entry_form(entry)})
                    else:
                        click.echo(entry_line(entry))
                if job.state.value != state and not as_json:
                    click.echo(explain(job, gather(store, job)), err=True)
                state = job.state.value
        except TimeoutError as error:
            raise click.ClickException(str(error)) from error
        if as_json:
            print_json(job_form(job, store, payloads=True))
        raise SystemExit(exit_of(job))
