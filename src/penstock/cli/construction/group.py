"""`penstock construction`: the construction-expenses application."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.construction"

# name → (file, what `penstock construction --help` says of it)
COMMANDS = {
    "company": (f"{_HERE}.company", "Read companies and what belongs to them, by every index."),
    "dlq": (f"{_HERE}.dlq", "Webhooks that failed for good: list, show and replay them."),
    "load-sample": (f"{_HERE}.load_sample", "Make the tables where they are missing, and fill them with samples."),
    "resume": (f"{_HERE}.resume", "Go on with webhooks that a process left undone."),
    "webhook": (f"{_HERE}.webhook", "Receive webhooks from a file or from stdin."),
}


@click.group("construction", cls=Group, lazy=COMMANDS)
def command() -> None:
    """The construction-expenses application: 13 tables of companies, payments and webhooks.

    \b
    Examples:
      penstock construction load-sample --url expenses.db --yes
      penstock construction company show sample-c0001 --url expenses.db
      penstock construction webhook event.json --url expenses.db
      penstock construction dlq list --url expenses.db
      penstock construction dlq replay --status pending --url expenses.db --yes

    The tables are those of ENVIRONMENT and TABLE_PREFIX (--env, --prefix); `penstock tables … construction-expenses`
    makes, changes and exports them. Exit codes: 0 done, 1 failed, 2 called wrongly or not confirmed, 3 a webhook is in
    the dead-letter table, 4 not found, 130 interrupted.
    """
