"""`penstock construction dlq list`."""

from __future__ import annotations

import click

from penstock.cli.construction.options import limit_option, opened, place_options, show_page, token_option
from penstock.cli.kit.options import json_option
from penstock.client.tables.values import Item
from penstock.systems.construction_expenses.dead_letter import STATUSES


@click.command("list")
@place_options
@click.option("--status", type=click.Choice(STATUSES), default="pending", show_default=True, help="Those with it.")
@limit_option
@token_option
@json_option
def command(
    url: str, env: str | None, prefix: str | None, status: str, limit: int, token: str | None, as_json: bool
) -> None:
    """List dead letters by their status (statusIndex), the one that failed last first.

    \b
    Examples:
      penstock construction dlq list --url expenses.db
      penstock construction dlq list --url expenses.db --status failed --json
    """
    with opened(url, env, prefix) as books:
        found = books.dead_letters.by_status(status, newest_first=True, limit=limit, token=token)
        show_page(found, _line, as_json)


def _line(entry: Item) -> str:
    return f"{entry['lastFailedAt']}  {entry['dlqEntryId']}  {entry['eventType']}  {entry['failureReason']}"
