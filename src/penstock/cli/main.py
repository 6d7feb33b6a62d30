"""`penstock`: the root group, with its own commands and those of the installed systems (penstock/registry.py).

A command's module is imported when the command is used. The registry is read only to list all commands, or to find one
that is not Penstock's own: most commands start without it.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

from penstock import __version__
from penstock.cli.kit.groups import Group

if TYPE_CHECKING:
    from penstock.registry import Commands

_COLLECT_AFTER = 40_000
"""As many new objects as one collection of garbage may wait for: at Python's 700, a tenth of a command's start is spent
on looking through modules that have just been imported."""

_HERE = "penstock.cli"

# name → (module, its line in `penstock --help`)
COMMANDS = {
    "quickstart": (
        f"{_HERE}.database.quickstart",
        "Try it: a server in memory, a table and real calls, in a second.",
    ),
    "serve": (f"{_HERE}.database.serve", "Run a DynamoDB on a port, for every AWS SDK."),
    "dynamodb-local": (f"{_HERE}.database.dynamodb_local", "The same, started with DynamoDB Local's options."),
    "up": (f"{_HERE}.up", "Run the dashboard, and if asked a worker and a DynamoDB endpoint."),
    "backup": (
        f"{_HERE}.database.database_file:backup",
        "Copy a database file, with all its tables, while it is in use.",
    ),
    "repair": (
        f"{_HERE}.database.database_file:repair",
        "Look for damage in a database file, and save what can be read.",
    ),
    "heat": (f"{_HERE}.database.database_file:heat", "Show the hottest keys and partitions of a run."),
    "tables": (
        f"{_HERE}.tables",
        "Tables as code: plan, apply, verify; and their items: dump, load, rekey.",
    ),
    "items": (f"{_HERE}.items.commands", "The items of a table: get, put, query, scan, count, update, delete."),
    "sql": (f"{_HERE}.items.sql", "PartiQL statements: a shell, or -c, a file, stdin."),
    "streams": (f"{_HERE}.streams", "Follow the changes of tables; groups of consumers, their lag, reset."),
    "records": (f"{_HERE}.records", "Run a function on every pending record of a table, in parallel."),
    "files": (f"{_HERE}.files", "Files in a folder or in S3: list, get, put, verify, and more."),
    "worker": (f"{_HERE}.jobs.worker", "Run the jobs of an app."),
    "jobs": (f"{_HERE}.jobs.commands", "List jobs, watch them, explain them, cancel and retry them."),
    "schedules": (f"{_HERE}.jobs.schedules", "Tasks by the clock: list, create, change, pause, run, delete."),
    "demo": (f"{_HERE}.demo", "Run the installed systems on an embedded database, in a minute."),
}

SECTIONS = {
    "Database": ("quickstart", "serve", "dynamodb-local", "up", "backup", "repair", "heat"),
    "Tables": ("tables", "items", "sql", "streams", "records", "files"),
    "Jobs": ("worker", "jobs", "schedules"),
    "Systems": ("demo",),
}


class RootGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_system_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from penstock.registry import load_part

        system = _system_commands().get(cmd_name)
        command: click.Command | None = None if system is None else load_part(system.group)
        return command

    def section_names(self, title: str) -> list[str]:
        """Systems are listed under "Systems", after the demo of them."""
        names = super().section_names(title)
        return [*names, *sorted(_system_commands())] if title == "Systems" else names

    def summary(self, name: str) -> str:
        return super().summary(name) if name in self.lazy else _system_commands()[name].summary


def _system_commands() -> dict[str, Commands]:
    from penstock.registry import systems

    return {one.commands.name: one.commands for one in systems().values() if one.commands is not None}


@click.group(cls=RootGroup, lazy=COMMANDS, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="penstock", message="%(prog)s %(version)s")
def cli() -> None:
    """Durable jobs, tables as code, and a DynamoDB on your machine: no Docker, no Java, no account.

    \b
    Examples:
      penstock quickstart                 see it work, in a second
      penstock serve                      a database in penstock.db, at http://127.0.0.1:8000
      penstock worker reports:app         run the jobs of `app` in reports.py
      penstock up --worker reports:app    the same, with a dashboard at http://127.0.0.1:8321
      penstock serve --help               all options of a command

    Commands name their database with --db: a file, :memory:, http://…, or aws://region. The default is PENSTOCK_DB.
    """


def main() -> None:
    """The entry point."""
    gc.set_threshold(_COLLECT_AFTER, 50, 50)
    try:
        sys.exit(cli.main(prog_name="penstock"))
    finally:
        gc.freeze()  # or Python would look through all objects twice more when it ends: a twelfth of a help page's time
