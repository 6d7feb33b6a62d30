"""`penstock excel`: reports of a project's products and users, as .xlsx files."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.excel"

# name → (file, what `penstock excel --help` says of it)
COMMANDS = {
    "generate": (f"{_HERE}.generate", "Make a report, and watch it being made."),
    "list": (f"{_HERE}.listing", "List jobs, newest first."),
    "logs": (f"{_HERE}.logs", "Show a job's numbered records."),
    "retry": (f"{_HERE}.retry", "Give a failed report another attempt."),
    "serve": (f"{_HERE}.serve", "Take wishes for reports by HTTP, and make them."),
    "status": (f"{_HERE}.status", "Show how far a report is."),
    "worker": (f"{_HERE}.worker", "Make the reports that are asked for."),
}


@click.group("excel", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Reports of a project's products and users, as .xlsx files, with the progress of each in numbered records.

    \b
    Examples:
      penstock excel generate mlab_bodwassho_usa_3 --db reports.db
      penstock excel status job_mbzlks74_rfi5i0 --db reports.db
      penstock excel serve --db reports.db --port 8080

    The table is made when it is missing; `penstock tables apply|plan|destroy excel-reports` also knows it. JOBS_TABLE
    and JOB_TTL_HOURS name it and how long a job is kept; --layout compat is the table with `recordId` alone as its key.
    Exit codes: 3 the report has failed, 4 there is no such job.
    """
