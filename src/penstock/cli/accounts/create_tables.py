"""`penstock accounts create-tables`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.kit.output import print_json
from penstock.cli.tables.options import layout_option
from penstock.systems.account_records.services.dynamodb import create_tables
from penstock.systems.layouts import Layout


@click.command("create-tables")
@placed
@layout_option
@dry_run_option
@json_option
def command(place: Place, layout: Layout, dry_run: bool, as_json: bool) -> None:
    """Make the tables Users and Records where they are missing, and wait for them.

    \b
    Examples:
      penstock accounts create-tables
      penstock accounts create-tables --url accounts.db --layout compat

    What is there is left as it is; `penstock tables plan account-records` says whether it differs. The safe layout has
    a sparse, sharded index of what is to be done; compat is one index of the numbers 0 and 1.

    Exit codes: 0 done, 1 failed.
    """
    names = (place.config.user_table, place.config.record_table)
    with place.database("empty" if dry_run else "made") as db:
        if dry_run:
            there = set(db.tables())
            made = tuple(name for name in names if name not in there)
        else:
            made = create_tables(db, place.config, layout)
    if as_json:
        print_json({"created": made, "skipped": [name for name in names if name not in made], "dry_run": dry_run})
        return
    for name in names:
        told = ("would be made" if dry_run else "made") if name in made else "is there already"
        click.echo(f"{name}  {told}")
