"""`penstock delphi show`."""

from __future__ import annotations

import click

from penstock.cli.delphi.options import job_form, job_line, queue, url_option
from penstock.cli.jobs.show import entry_form, entry_line
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json


@click.command("show")
@click.argument("job_id", metavar="JOB")
@url_option
@json_option
def command(job_id: str, url: str, as_json: bool) -> None:
    """Show a job of the queue, with the lines that its process has printed.

    \b
    Example:
      penstock delphi show job_mwimjl2f_5wro67 --db delphi.db
    """
    with queue(url) as found:
        history = found.app.store.history(job_id)
    if as_json:
        print_json({**job_form(history.job), "log": [entry_form(entry) for entry in history.entries]})
        return
    click.echo(job_line(history.job))
    if history.job.error is not None:
        click.echo(f"error: {history.job.error.message}")
    for entry in history.entries:
        click.echo(entry_line(entry))
