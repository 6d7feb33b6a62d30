"""`penstock construction company`: companies and what belongs to them."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.construction"

COMMANDS = {
    "find": (f"{_HERE}.company_find", "Find items of a table by its key or by any of its indexes."),
    "list": (f"{_HERE}.company_list", "List companies."),
    "show": (f"{_HERE}.company_show", "Show a company, and how much of everything it has."),
}


@click.group("company", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Companies and what belongs to them.

    \b
    Examples:
      penstock construction company list --url expenses.db
      penstock construction company show sample-c0001 --url expenses.db
      penstock construction company find company-expenses contractorId=sample-k0001-0 --url expenses.db
    """
