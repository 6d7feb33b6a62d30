"""`penstock accounts delete`."""

from __future__ import annotations

import click

from penstock.cli.accounts.options import Place, account_argument, line_of, placed, run_time_argument
from penstock.cli.kit.options import confirm, dry_run_option, json_option, yes_option
from penstock.cli.kit.output import plain, print_json
from penstock.systems.account_records.models.record import RecordMissing


@click.command("delete")
@account_argument
@run_time_argument
@placed
@dry_run_option
@yes_option
@json_option
def command(place: Place, account_id: str, run_time: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a record, by its exact key.

    \b
    Examples:
      penstock accounts delete ACC12345 2026-02-17T12:00:00Z --dry-run
      penstock accounts delete ACC12345 2026-02-17T12:00:00Z --yes

    Exit codes: 0 done, 2 not confirmed, 4 there is no such record.
    """
    with place.records() as records:
        found = records.get_item(account_id, run_time, consistent=True)
        if found is not None and not dry_run:
            confirm(f"Delete {line_of(found)}?", yes=yes)
            found = records.delete_item(account_id, run_time)
        if found is None:
            raise RecordMissing(account_id, run_time)
    if as_json:
        print_json({"dry_run": dry_run, "deleted": plain(found)})
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {line_of(found)}")
