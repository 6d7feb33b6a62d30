"""`penstock delphi`: conversations to topics."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.delphi"

# name → (file, what `penstock delphi --help` says of it)
COMMANDS = {
    "cancel": (f"{_HERE}.cancel", "Cancel a job of the queue."),
    "enqueue": (f"{_HERE}.enqueue", "Put a conversation into the queue."),
    "jobs": (f"{_HERE}.jobs", "List the queue's jobs, the newest first."),
    "poller": (f"{_HERE}.poller", "Run the queue's jobs."),
    "retry": (f"{_HERE}.retry", "Give a failed job of the queue another attempt."),
    "run": (f"{_HERE}.run", "Find the topics of a conversation."),
    "runs": (f"{_HERE}.runs", "List complete runs."),
    "show": (f"{_HERE}.show", "Show a job of the queue, with its log."),
    "topics": (f"{_HERE}.topics", "Show the topics of a run, layer by layer."),
}


@click.group("delphi", cls=Group, lazy=COMMANDS)
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
