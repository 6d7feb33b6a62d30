"""`penstock delphi runs`."""

from __future__ import annotations

import click

from penstock.cli.delphi.options import looking, url_option
from penstock.cli.kit.options import json_option
from penstock.cli.kit.output import print_json


@click.command("runs")
@click.argument("conversation", required=False)
@url_option
@json_option
def command(conversation: str | None, url: str, as_json: bool) -> None:
    """List complete runs, the newest first: of a CONVERSATION, or of all.

    \b
    Example:
      penstock delphi runs --db delphi.db
    """
    with looking(url) as (_, results):
        found = [
            {
                "job_id": run["job_id"],
                "conversation_id": run["conversation_id"],
                "processed_date": run["processed_date"],
                "comments": int(run["num_comments"]),
                "layers": [int(layer["num_clusters"]) for layer in run["cluster_layers"]],
            }
            for run in results.runs(conversation)
        ]
    if as_json:
        print_json(found)
        return
    for run in found:
        about = f"{run['comments']:,} comments  {' → '.join(map(str, run['layers']))} clusters"
        click.echo(f"{run['processed_date']}  {run['job_id']}  {run['conversation_id']}  {about}")
    if not found:
        click.echo("There is no complete run.", err=True)
