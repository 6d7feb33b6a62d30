"""`penstock construction dlq`: webhooks that failed for good."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.construction"

COMMANDS = {
    "list": (f"{_HERE}.dlq_list", "List dead letters by their status, newest first."),
    "replay": (f"{_HERE}.dlq_replay", "Try dead letters again: one, or all of a status."),
    "show": (f"{_HERE}.dlq_show", "Show a dead letter with its payload and its history."),
}


@click.group("dlq", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Webhooks that failed for good. Their status is pending, replayed (done after all), or failed (again).

    \b
    Examples:
      penstock construction dlq list --url expenses.db
      penstock construction dlq show dlq_evt_01 --url expenses.db
      penstock construction dlq replay dlq_evt_01 --url expenses.db
    """
