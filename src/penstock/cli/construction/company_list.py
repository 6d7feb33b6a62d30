"""`penstock construction company list`."""

from __future__ import annotations

import click

from penstock.cli.construction.options import limit_option, opened, place_options, show_page, token_option
from penstock.cli.kit.options import json_option
from penstock.client.tables.values import Item


@click.command("list")
@place_options
@limit_option
@token_option
@json_option
def command(url: str, env: str | None, prefix: str | None, limit: int, token: str | None, as_json: bool) -> None:
    """List companies, in no order.

    \b
    Examples:
      penstock construction company list --url expenses.db
      penstock construction company list --url aws://us-east-1 --env staging --json --limit 1000
    """
    with opened(url, env, prefix) as books:
        found = books.companies.all(limit=limit, token=token)
        show_page(found, _line, as_json)


def _line(company: Item) -> str:
    return f"{company['companyId']:20}  {company.get('name', '')}".rstrip()
