"""`penstock jobs cancel`."""

from __future__ import annotations

import click

from penstock.cli.jobs.choosing import Choice, choice_options, run_on_jobs
from penstock.jobs.model.state import State


@click.command("cancel")
@choice_options
@click.option("--reason", default="", metavar="TEXT", help="Kept with the job.")
def command(choice: Choice, reason: str) -> None:
    """Cancel jobs: queued ones at once, running ones at their next report.

    \b
    Examples:
      penstock jobs cancel job_mbzlks74_rfi5i0 --db reports.db --reason "twice"
      penstock jobs cancel --state queued --task report --db reports.db --dry-run
    """
    run_on_jobs("cancel", lambda store, job_id: store.cancel(job_id, reason), (State.QUEUED, State.PROCESSING), choice)
