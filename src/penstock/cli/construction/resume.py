"""`penstock construction resume`."""

from __future__ import annotations

import click

from penstock.cli.construction.options import handler_option, intake_of, opened, place_options, show_receipts
from penstock.cli.kit.options import json_option, resumable


@click.command("resume")
@place_options
@handler_option
@json_option
def command(url: str, env: str | None, prefix: str | None, handler: str | None, as_json: bool) -> None:
    """Go on with webhooks that are recorded, due and in nobody's hands: their processes have ended.

    \b
    Examples:
      penstock construction resume --url expenses.db
      penstock construction resume --url aws://us-east-1 --env staging --json

    Exit codes: 0 all done, 3 one is in the dead-letter table now, 1 failed.
    """
    with opened(url, env, prefix) as books, resumable("What is done is done."):
        show_receipts(intake_of(books, handler).resume(), as_json)
