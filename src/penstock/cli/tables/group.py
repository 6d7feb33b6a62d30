"""`penstock tables`: tables as code."""

from __future__ import annotations

import click

from penstock.cli.kit.groups import Group

_HERE = "penstock.cli.tables"

# name → (file, what `penstock tables --help` says of it)
COMMANDS = {
    "add-index": (f"{_HERE}.add_index", "Add one index to a table, after a look at its items; wait for it."),
    "apply": (f"{_HERE}.apply", "Make the tables as they are defined."),
    "backup": (f"{_HERE}.backup", "Make a backup of a table, and wait until it can be used."),
    "change-index": (f"{_HERE}.change_index", "Give an index another key or projection, with no gap in queries."),
    "cloudformation": (f"{_HERE}.cloudformation", "Write the tables as a CloudFormation template."),
    "destroy": (f"{_HERE}.destroy", "Delete tables, by their exact names."),
    "diff-data": (f"{_HERE}.diff_data", "Compare the items of two tables."),
    "doctor": (f"{_HERE}.doctor", "Find known mistakes in definitions and in stored items."),
    "dump": (f"{_HERE}.dump", "Write a table's definition and items to a folder."),
    "export": (f"{_HERE}.export", "Write the definitions of live tables to a folder."),
    "load": (f"{_HERE}.load", "Load a dumped folder into a table."),
    "plan": (f"{_HERE}.plan", "Show what apply would do, and what it costs."),
    "policy": (f"{_HERE}.policy", "Write the least IAM policy for commands and tables."),
    "rekey": (f"{_HERE}.rekey", "Change a table's primary key, with its data."),
    "restore": (f"{_HERE}.restore", "Restore a table with all its settings, and verify it."),
    "terraform": (f"{_HERE}.terraform", "Write the tables as Terraform resources."),
    "verify": (f"{_HERE}.verify", "Compare live tables with their definitions."),
}


@click.group("tables", cls=Group, lazy=COMMANDS)
def command() -> None:
    """Tables as code: planned, applied, verified, exported.

    DEFINITIONS is a system's name (construction-expenses), a folder of exported JSON, or module:attribute.

    \b
    Examples:
      penstock tables plan construction-expenses --url tables.db
      penstock tables apply construction-expenses --url aws://us-east-1 --env staging
      penstock tables verify infrastructure/schemas --url http://127.0.0.1:8000

    Exit codes: 0 done, 1 failed or different, 2 called wrongly or not confirmed, 7 changes (plan --exit-code),
    130 interrupted.
    """
