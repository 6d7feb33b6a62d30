"""`penstock jobs workers`."""

from __future__ import annotations

from dataclasses import asdict

import click

from penstock.cli.jobs.options import names_told, opened, place_options, print_json
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import one_line
from penstock.jobs.explain import span
from penstock.jobs.worker.registry import Registry


@click.command("workers")
@place_options
@json_option
def command(url: str | None, table: str, as_json: bool) -> None:
    """List the workers that have given a sign of life in the last minute.

    \b
    Example:
      penstock jobs workers --db reports.db
    """
    with opened(url, table) as store:
        now = store.clock.now()
        found = Registry(store.db, store.layout).workers(now)
        if as_json:
            print_json([asdict(worker) for worker in found])
            return
        if not found:
            click.echo("No worker: start one with `penstock worker MODULE:APP`.")
        for worker in found:
            busy = f"{worker.running} of {worker.concurrency} busy"
            spent = f"{worker.done:,} done  {worker.read_units:,.0f} read units  up {span(now - worker.started_at)}"
            click.echo(one_line(f"{worker.name}  {busy}  {spent}"))
            click.echo(one_line(f"  {', '.join(worker.queues)}: {names_told(worker.tasks)}"))
