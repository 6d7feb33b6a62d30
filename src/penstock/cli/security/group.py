"""`penstock security`: drawings to component schedules."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.security"

# name → (file, what `penstock security --help` says of it)
COMMANDS = {
    "cleanup": (f"{_HERE}.cleanup", "Remove jobs that have expired, and files of no job."),
    "download": (f"{_HERE}.download", "Write a file of a job to disk."),
    "events": (f"{_HERE}.events", "Show what happened to a job."),
    "export": (f"{_HERE}.exporting", "Write the jobs of a storage into a jobs.json."),
    "import": (f"{_HERE}.importing", "Read the jobs of a jobs.json into a storage."),
    "list": (f"{_HERE}.listing", "List jobs by status, client, month or dates, newest first."),
    "process": (f"{_HERE}.process", "Make a component schedule of a drawing."),
    "resume": (f"{_HERE}.resume", "Go on with jobs that were interrupted or have failed."),
    "sample": (f"{_HERE}.sample", "Write a drawing to try it with."),
    "serve": (f"{_HERE}.serve", "Take drawings over HTTP."),
    "status": (f"{_HERE}.status", "Show a job."),
    "worker": (f"{_HERE}.worker", "Process jobs as they come."),
}


@click.group("security", cls=Group, lazy=COMMANDS)
def command() -> None:
    """A security drawing (PDF) in, a component schedule (.xlsx) out.

    \b
    Examples:
      penstock security sample drawing.pdf
      penstock security process drawing.pdf --company 7central --client "St. Mary's Hospital" --project "Emergency Wing"
      penstock security list --status completed --company 7central
      penstock security download job_mbzlks74_rfi5i0 excel
      penstock security serve --port 8080

    Jobs and files are in the folder local_output (LOCAL_OUTPUT_DIR). With STORAGE_MODE=aws they are in S3_BUCKET and
    DYNAMODB_TABLE; with --url, in that database. Exit codes: 1 failed, 2 called wrongly, 3 the job has failed, 4 there
    is no such job or file, 5 it is not ready yet.
    """
