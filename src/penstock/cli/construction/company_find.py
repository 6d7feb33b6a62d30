"""`penstock construction company find`."""

from __future__ import annotations

import click
import orjson

from penstock.cli.construction.options import limit_option, opened, place_options, show_page, token_option
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import plain
from penstock.client.tables.values import Item
from penstock.systems.construction_expenses.tables import tables


@click.command("find")
@click.argument("suffix", metavar="TABLE")
@click.argument("attributes", metavar="ATTRIBUTE=VALUE...", nargs=-1, required=True)
@place_options
@limit_option
@token_option
@json_option
def command(
    suffix: str,
    attributes: tuple[str, ...],
    url: str,
    env: str | None,
    prefix: str | None,
    limit: int,
    token: str | None,
    as_json: bool,
) -> None:
    """Find items of TABLE by its key, or by any of its indexes: whichever begins with these attributes.

    \b
    Examples:
      penstock construction company find company-users email=ada@example.org --url expenses.db
      penstock construction company find company-expenses companyId=c1 invoiceNum=2025-00007 --url expenses.db

    TABLE is a suffix such as company-users. An index that has keys only gives keys. Never a Scan.
    """
    if suffix not in (known := [table.name for table in tables()]):
        raise click.BadParameter(f"there is no table {suffix}; there are {', '.join(known)}", param_hint="TABLE")
    wanted = dict(_pair(one) for one in attributes)
    with opened(url, env, prefix) as books:
        found = books.collections[suffix].find_by(wanted, limit=limit, token=token)
        show_page(found, _line, as_json)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise click.BadParameter(f"{text!r} is not ATTRIBUTE=VALUE, such as email=ada@example.org")
    return name, value


def _line(item: Item) -> str:
    return orjson.dumps(plain(item)).decode()
