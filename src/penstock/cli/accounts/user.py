"""`penstock accounts user`."""

from __future__ import annotations

from typing import Any

import click
import orjson

from penstock.cli.accounts.options import Place, placed
from penstock.cli.kit.options import json_option, parse_pairs
from penstock.cli.kit.output import plain, print_json
from penstock.systems.account_records.models.user import UserMissing


@click.command("user")
@click.argument("user_id", metavar="USER")
@click.option("--set", "texts", multiple=True, metavar="NAME=VALUE", help="Write the user with this; repeatable.")
@placed
@json_option
def command(place: Place, user_id: str, texts: tuple[str, ...], as_json: bool) -> None:
    """Show a user; with --set, add one (or change one that is there) first.

    \b
    Examples:
      penstock accounts user 123 --set name=Ada --set email=ada@example.org
      penstock accounts user 123 --json

    Exit codes: 0 done, 4 there is no such user.
    """
    changes = parse_pairs("--set", texts)
    with place.users() as users:
        found: dict[str, Any] | None
        if changes:
            try:
                found = users.update_item(user_id, changes)
            except UserMissing:
                found = users.put_item({"id": user_id, **changes})
        else:
            found = users.get_item(user_id, consistent=True)
        if found is None:
            raise UserMissing(user_id)
    if as_json:
        print_json(plain(found))
    else:
        click.echo(orjson.dumps(plain(found)).decode())
