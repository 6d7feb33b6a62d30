"""`penstock`: the group of commands. A command's file is imported when the command is used."""

from __future__ import annotations

import sys

import click

from penstock import __version__
from penstock.cli.system_commands import RootGroup

# name → (file, what `penstock --help` says of it). Systems bring their own commands (system_commands.py).
COMMANDS = {
    "backup": ("penstock.cli.backup", "Copy a database file while it is in use."),
    "demo": ("penstock.cli.demo", "See the installed systems work, on an embedded database, in a minute."),
    "files": ("penstock.cli.files.group", "Files in a folder or in S3: list, get, put, verify, and more."),
    "heat": ("penstock.cli.heat", "Show the hottest keys and partitions of a run."),
    "quickstart": ("penstock.cli.quickstart", "See it work: a server, a table, real calls; nothing is left behind."),
    "records": ("penstock.cli.records.group", "Run a function on every pending record of a table, in parallel."),
    "repair": ("penstock.cli.repair", "Look for damage in a database file; save what can be read into a new one."),
    "serve": ("penstock.cli.serve", "Run a DynamoDB on a port, for every AWS SDK."),
    "jobs": ("penstock.cli.jobs.group", "See jobs, wait for them, and say what should become of them."),
    "worker": ("penstock.cli.jobs.worker", "Run the jobs of an app."),
    "tables": ("penstock.cli.tables.group", "Tables as code: plan, apply, verify, export, and more."),
    "up": ("penstock.cli.up", "See jobs run, in a browser: the dashboard, with a worker and an endpoint if asked."),
}


@click.group(cls=RootGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
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
