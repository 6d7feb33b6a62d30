"""`penstock construction dlq show`."""

from __future__ import annotations

import click
import orjson

from penstock.cli.construction.options import opened, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain, print_json


@click.command("show")
@click.argument("entry_id", metavar="ENTRY")
@place_options
@json_option
def command(entry_id: str, url: str, env: str | None, prefix: str | None, as_json: bool) -> None:
    """Show a dead letter with its payload and its history.

    \b
    Examples:
      penstock construction dlq show dlq_evt_01 --url expenses.db
      penstock construction dlq show dlq_evt_01 --url expenses.db --json

    Exit codes: 0 done, 4 there is no such entry.
    """
    with opened(url, env, prefix) as books:
        entry = books.dead_letters.required(entry_id)
    if as_json:
        print_json(plain(entry))
        return
    for name in ("dlqEntryId", "webhookId", "eventType", "status", "failureReason", "firstFailedAt", "lastFailedAt"):
        click.echo(f"{name:14} {entry[name]}")
    click.echo(f"{'retries':14} {entry['retryCount']} of {entry['maxRetries']}")
    for one in entry["processingHistory"]:
        told = f"{one['kind']}: {one['message']}" if "kind" in one else ""
        click.echo(f"{one['attempt']:>4}  {one['at']}  {one['outcome']:9}  {told}".rstrip())
    click.echo(orjson.dumps(plain(entry["payload"]), option=orjson.OPT_INDENT_2).decode())
