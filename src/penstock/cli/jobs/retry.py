"""`penstock jobs retry`."""

from __future__ import annotations

import click

from penstock.cli.jobs.choosing import Choice, choice_options, run_on_jobs
from penstock.jobs.model.state import State


@click.command("retry")
@choice_options
def command(choice: Choice) -> None:
    """Give failed jobs another attempt: they go on at their last checkpoint.

    \b
    Examples:
      penstock jobs retry job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs retry --state failed --task report --db reports.db --yes
    """
    run_on_jobs("retry", lambda store, job_id: store.retry(job_id), (State.FAILED,), choice)
