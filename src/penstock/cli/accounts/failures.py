"""`penstock accounts failures`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line, print_json
from penstock.clock import utc_text
from penstock.systems.account_records.services.record_processor import RecordProcessor


@click.command("failures")
@placed
@json_option
def command(place: Place, as_json: bool) -> None:
    """List records that failed for good, grouped by the kind of their error and its message.

    \b
    Examples:
      penstock accounts failures
      penstock accounts failures --url accounts.db --json

    They are not processed again before `penstock accounts redrive`.
    """
    with place.records() as records:
        groups = RecordProcessor(records).failures()
    if as_json:
        print_json([group.form() for group in groups])
        return
    for group in groups:
        click.echo(one_line(f"{group.count:>7,}  {group.kind}: {group.message}  (last at {utc_text(group.last_at)})"))
        for key, message in group.examples:
            click.echo(one_line(f"         {key['AccountId']}  {key['RunTime']}  {message}"))
    total = sum(group.count for group in groups)
    click.echo(f"{total:,} record{'' if total == 1 else 's'} failed." if total else "No record has failed.", err=True)
