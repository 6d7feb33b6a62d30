"""`penstock records`: the records of a table through a function, in parallel."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.records"

# name → (file, what `penstock records --help` says of it)
COMMANDS = {
    "failures": (f"{_HERE}.failures", "List the records that failed, grouped by their error."),
    "process": (f"{_HERE}.process", "Run a function on every pending record."),
    "redrive": (f"{_HERE}.redrive", "Make failed records pending again."),
}


@click.group("records", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Process every pending record of a table, in parallel: none twice at once, none lost.

    \b
    Examples:
      penstock records process Records work:handle --url app.db \\
          --index Processed --value 0 --set Processed=1
      penstock records failures Records --url app.db
      penstock records redrive Records --url app.db --kind ValueError

    Exit codes: 0 all done, 1 failed, 2 called wrongly or not confirmed, 3 some records failed, 130 interrupted.
    """
