"""`penstock construction webhook`."""

from __future__ import annotations

from typing import BinaryIO

import click

from penstock.cli.construction.options import handler_option, intake_of, opened, place_options, show_receipts
from penstock.cli.kit.options import json_option, resumable
from penstock.errors import PenstockError
from penstock.systems.construction_expenses.webhook import BadWebhook, read_webhooks


@click.command("webhook")
@click.argument("file", type=click.File("rb"), default="-")
@place_options
@handler_option
@click.option("--no-wait", is_flag=True, help="One attempt only; `penstock construction resume` makes the others.")
@json_option
def command(
    file: BinaryIO, url: str, env: str | None, prefix: str | None, handler: str | None, no_wait: bool, as_json: bool
) -> None:
    """Receive webhooks from FILE, or from stdin: a JSON object, an array of them, or one on each line.

    \b
    Examples:
      penstock construction webhook event.json --url expenses.db
      curl -s https://example.org/events | penstock construction webhook --url aws://us-east-1 --json

    Each is handled once, by its id. A transient error is tried again after 1, 2, 4, 8 and 16 seconds; what fails for
    good goes to the dead-letter table (`penstock construction dlq`).

    Exit codes: 0 all done, 3 one is in the dead-letter table, 1 failed.
    """
    try:
        webhooks = read_webhooks(file.read())
    except BadWebhook as error:
        raise PenstockError(f"{getattr(file, 'name', 'stdin')}: {error}") from error
    settings = {"wait": None} if no_wait else {}
    with opened(url, env, prefix) as books, resumable("What was received is recorded."):
        intake = intake_of(books, handler, **settings)
        show_receipts((intake.receive(webhook) for webhook in webhooks), as_json)
