"""`penstock delphi`: conversations to topics."""

from __future__ import annotations

import click

from penstock.cli.lazy import LazyGroup

_HERE = "penstock.cli.delphi"

# name → (file, what `penstock delphi --help` says of it)
COMMANDS = {
    "run": (f"{_HERE}.run", "Find the topics of a conversation."),
    "runs": (f"{_HERE}.runs", "List complete runs."),
    "topics": (f"{_HERE}.topics", "Show the topics of a run, layer by layer."),
}


@click.group("delphi", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Conversations to topics: a Pol.is export becomes vectors, a map, layers of clusters and their names.

    \b
    Examples:
      penstock delphi run comments.csv --db delphi.db --out out/
      penstock delphi topics --db delphi.db
      penstock tables verify delphi --url delphi.db

    Without --db (or --url), PENSTOCK_URL names the database, else it is delphi.db. Exit codes: 1 failed, 2 called
    wrongly, 4 there is no such run or job, 130 interrupted.
    """
