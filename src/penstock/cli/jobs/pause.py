"""`penstock jobs pause`."""

from __future__ import annotations

import click

from penstock.cli.jobs.options import opened, place_options


@click.command("pause")
@click.argument("queue", default="default")
@place_options
@click.option("--reason", default="", metavar="TEXT", help="Told to those who ask why.")
def command(queue: str, url: str | None, table: str, reason: str) -> None:
    """Take nothing more from a queue; what runs goes on.

    \b
    Example:
      penstock jobs pause default --db reports.db --reason "the bank is closed"
    """
    with opened(url, table) as store:
        store.pause(queue, reason)
        click.echo(f"{queue} is paused. `penstock jobs resume {queue}` goes on.")
