"""`penstock construction company show`."""

from __future__ import annotations

import click

from penstock.cli.construction.options import opened, place_options
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain, print_json


@click.command("show")
@click.argument("company_id", metavar="COMPANY")
@place_options
@json_option
def command(company_id: str, url: str, env: str | None, prefix: str | None, as_json: bool) -> None:
    """Show a company, its subscription, and how much of everything it has.

    \b
    Examples:
      penstock construction company show sample-c0001 --url expenses.db
      penstock construction company show sample-c0001 --url expenses.db --json

    Exit codes: 0 done, 4 there is no such company.
    """
    with opened(url, env, prefix) as books:
        company = books.companies.required(company_id)
        subscription = books.subscriptions.get(company_id)
        counts = books.summary(company_id)
    if as_json:
        print_json({"company": plain(company), "subscription": plain(subscription), "counts": counts})
        return
    click.echo(f"{company['companyId']}  {company.get('name', '')}".rstrip())
    told = "none" if subscription is None else f"{subscription['subscriptionId']} {subscription.get('status', '')}"
    click.echo(f"subscription  {told.rstrip()}")
    for kind, count in counts.items():
        click.echo(f"{kind:13} {count:,}")
