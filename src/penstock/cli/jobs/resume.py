"""`penstock jobs resume`."""

from __future__ import annotations

import click

from penstock.cli.jobs.options import opened, place_options


@click.command("resume")
@click.argument("queue", default="default")
@place_options
def command(queue: str, url: str | None, table: str) -> None:
    """Take jobs from a paused queue again.

    \b
    Example:
      penstock jobs resume default --db reports.db
    """
    with opened(url, table) as store:
        store.resume(queue)
        click.echo(f"{queue} goes on.")
