"""`penstock jobs`: see jobs, wait for them, and say what should become of them."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.jobs"

# name → (file, what `penstock jobs --help` says of it)
COMMANDS = {
    "cancel": (f"{_HERE}.cancel", "Cancel jobs."),
    "list": (f"{_HERE}.listing", "List jobs, newest first."),
    "pause": (f"{_HERE}.pause", "Take nothing more from a queue."),
    "policy": (f"{_HERE}.policy", "Write the least IAM policy for programs that use jobs."),
    "report": (f"{_HERE}.report", "Write all of a job into one HTML file."),
    "resume": (f"{_HERE}.resume", "Take jobs from a paused queue again."),
    "retry": (f"{_HERE}.retry", "Give failed jobs another attempt."),
    "show": (f"{_HERE}.show", "Show a job with its history."),
    "wait": (f"{_HERE}.wait", "Wait until a job has ended."),
    "watch": (f"{_HERE}.watch", "Follow a job's progress until it has ended."),
    "why": (f"{_HERE}.why", "Say why a job is not running."),
    "workers": (f"{_HERE}.workers", "List the workers that live."),
}


@click.group("jobs", cls=Group, lazy=COMMANDS)
def command() -> None:
    """See jobs, wait for them, and say what should become of them.

    \b
    Examples:
      penstock jobs list --db reports.db --state failed
      penstock jobs watch job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs why job_mbzlks74_rfi5i0 --db reports.db
      penstock jobs retry --state failed --task report --db reports.db --dry-run

    Without --db (or --url), PENSTOCK_URL names the database, or the only .db file of this folder is taken. Exit codes:
    3 the job has failed or was cancelled, 4 there is no such job, 6 its lease was lost.
    """
