"""`penstock`: the group of commands. A command's module is imported when the command is used."""

from __future__ import annotations

import sys

import click

from penstock import __version__
from penstock.cli.system_commands import RootGroup

# name → (module, what `penstock --help` says of it). Systems bring their own commands (system_commands.py).
COMMANDS = {
    "quickstart": ("penstock.cli.quickstart", "See it work: a server, a table, real calls; nothing is left behind."),
    "serve": ("penstock.cli.serve", "Run a DynamoDB on a port, for every AWS SDK."),
    "up": ("penstock.cli.up", "See jobs run, in a browser: the dashboard, with a worker and an endpoint if asked."),
    "backup": ("penstock.cli.database_file:backup", "Copy a database file, with all its tables, while it is in use."),
    "repair": ("penstock.cli.database_file:repair", "Look for damage in a database file; save what can be read."),
    "heat": ("penstock.cli.database_file:heat", "Show the hottest keys and partitions of a run."),
    "tables": ("penstock.cli.tables", "Tables as code: plan, apply, verify, and the items in them: dump, load, rekey."),
    "records": ("penstock.cli.records", "Run a function on every pending record of a table, in parallel."),
    "files": ("penstock.cli.files", "Files in a folder or in S3: list, get, put, verify, and more."),
    "worker": ("penstock.cli.worker", "Run the jobs of an app."),
    "jobs": ("penstock.cli.jobs", "See jobs, wait for them, and say what should become of them."),
    "demo": ("penstock.cli.demo", "See the installed systems work, on an embedded database, in a minute."),
}

SECTIONS = {
    "Database": ("quickstart", "serve", "up", "backup", "repair", "heat"),
    "Tables": ("tables", "records", "files"),
    "Jobs": ("worker", "jobs"),
    "Systems": ("demo",),
}


@click.group(cls=RootGroup, lazy=COMMANDS, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="penstock", message="%(prog)s %(version)s")
def cli() -> None:
    """DynamoDB on your machine: no Docker, no Java, no account.

    \b
    Examples:
      penstock quickstart                 see it work, in a second
      penstock serve                      a database in penstock.db, at http://127.0.0.1:8000
      penstock serve --memory --port 0    one that is forgotten, on any free port
      penstock serve --help               everything it can do

    Commands name their database with --db: a file, :memory:, http://…, or aws://region. PENSTOCK_DB is its default.
    """


def main() -> None:
    """The entry point."""
    sys.exit(cli.main(prog_name="penstock"))
