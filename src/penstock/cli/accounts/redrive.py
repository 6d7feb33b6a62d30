"""`penstock accounts redrive`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.kit.output import print_json
from penstock.systems.account_records.services.record_processor import RecordProcessor


@click.command("redrive")
@placed
@click.option("--kind", metavar="NAME", help="Only those with this kind of error, such as TimeoutError.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@dry_run_option
@json_option
def command(place: Place, kind: str | None, limit: int | None, dry_run: bool, as_json: bool) -> None:
    """Make records that failed for good unprocessed again, with all their attempts before them.

    \b
    Examples:
      penstock accounts redrive --kind TimeoutError --dry-run
      penstock accounts redrive --limit 100

    `penstock accounts process` then runs them.
    """
    with place.records() as records:
        processor = RecordProcessor(records)
        if dry_run:
            found = sum(group.count for group in processor.failures() if kind in (None, group.kind))
            number = found if limit is None else min(found, limit)
        else:
            number = processor.redrive(kind=kind, limit=limit)
    if as_json:
        print_json({"dry_run": dry_run, "redriven": number})
    else:
        verb = "Would redrive" if dry_run else "Redrove"
        click.echo(f"{verb} {number:,} record{'' if number == 1 else 's'}.")
