"""`penstock`: the group of commands. A command's file is imported when the command is used."""

from __future__ import annotations

import sys

import click

from penstock import __version__
from penstock.cli.kit.groups import Group

# name → (file, what `penstock --help` says of it)
COMMANDS = {
    "accounts": ("penstock.cli.accounts.group", "Account records: add, process in parallel, see failures, redrive."),
    "backup": ("penstock.cli.backup", "Copy a database file while it is in use."),
    "construction": ("penstock.cli.construction.group", "Construction expenses: companies, webhooks, dead letters."),
    "delphi": ("penstock.cli.delphi.group", "Conversations to topics: from a Pol.is export to a map with names."),
    "demo": ("penstock.cli.demo", "See the five systems work, on an embedded database, in a minute."),
    "excel": ("penstock.cli.excel.group", "Excel reports of a project, with their progress: generate, serve and more."),
    "files": ("penstock.cli.files.group", "Files in a folder or in S3: list, get, put, verify, and more."),
    "heat": ("penstock.cli.heat", "Show the hottest keys and partitions of a run."),
    "quickstart": ("penstock.cli.quickstart", "See it work: a server, a table, real calls; nothing is left behind."),
    "security": ("penstock.cli.security.group", "Security drawings to schedules: process, list, serve, and more."),
    "records": ("penstock.cli.records.group", "Run a function on every pending record of a table, in parallel."),
    "repair": ("penstock.cli.repair", "Look for damage in a database file; save what can be read into a new one."),
    "serve": ("penstock.cli.serve", "Run a DynamoDB on a port, for every AWS SDK."),
    "jobs": ("penstock.cli.jobs.group", "See jobs, wait for them, and say what should become of them."),
    "worker": ("penstock.cli.jobs.worker", "Run the jobs of an app."),
    "tables": ("penstock.cli.tables.group", "Tables as code: plan, apply, verify, export, and more."),
    "up": ("penstock.cli.up", "See jobs run, in a browser: the dashboard, with a worker and an endpoint if asked."),
}


@click.group(cls=Group, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="penstock", message="%(prog)s %(version)s")
def cli() -> None:
    """DynamoDB on your machine: no Docker, no Java, no account.

    \b
    Examples:
      penstock quickstart                 see it work, in a second
      penstock serve                      a database in penstock.db, at http://127.0.0.1:8000
      penstock serve --memory --port 0    one that is forgotten, on any free port
      penstock serve --help               everything it can do
    """


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 failed, 2 called wrongly."""
    sys.exit(cli.main(prog_name="penstock"))
