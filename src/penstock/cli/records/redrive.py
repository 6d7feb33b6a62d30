"""`penstock records redrive`."""

from __future__ import annotations

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import print_json
from penstock.cli.records.options import bookkeeping_option, table_argument, url_option
from penstock.records.processor import RecordProcessor


@click.command("redrive")
@table_argument
@url_option
@click.option("--kind", metavar="KIND", help="Only those with this kind of error, such as ValueError.")
@click.option("--message", metavar="TEXT", help="Only those with this message, as `failures` shows it.")
@click.option("--limit", type=click.IntRange(1), help="So many of them, at most.")
@bookkeeping_option
@dry_run_option
@yes_option
@json_option
def command(
    table: str,
    url: str,
    kind: str | None,
    message: str | None,
    limit: int | None,
    bookkeeping: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make parked records of TABLE pending again: the next `penstock records process` runs them, with all attempts.

    \b
    Examples:
      penstock records redrive Records --url app.db --kind ValueError
      penstock records redrive Records --url app.db --limit 10 --yes
    """
    with open_database(url) as db:
        processor = RecordProcessor(db.table(table), bookkeeping=bookkeeping)
        count = processor.count_failures(kind=kind, message=message)
        wanted = count if limit is None else min(count, limit)
        if wanted and not dry_run:
            confirm(f"Make {wanted:,} of {table} pending again?", yes=yes)
            with resumable("what was redriven is pending, the rest is parked as it was."):
                wanted = processor.redrive(kind=kind, message=message, limit=limit)
    if as_json:
        print_json({"redriven": 0 if dry_run else wanted, "parked": count, "dry_run": dry_run})
    elif dry_run:
        click.echo(f"{wanted:,} would be pending again. Nothing was changed.")
    elif wanted:
        again = "is pending again: `penstock records process` runs it" if wanted == 1 else _AGAIN
        click.echo(f"{wanted:,} {again}.")
    elif kind is not None or message is not None:
        click.echo(f"None is parked with such an error: `penstock records failures {table}` shows those that are.")
    else:
        click.echo("None is parked.")


_AGAIN = "are pending again: `penstock records process` runs them"
