"""`penstock tables`: tables as code, and the items in them.

options.py   DEFINITIONS, --env, --prefix and others, and the tables that they name
orphans.py   orphans
gate.py      the question before a change, and --allow-destroy
saved_plans.py  plan --out FILE, and what apply FILE asks first
schema.py    plan, apply, verify, destroy, doctor; how plans and progress are shown
browse.py    list, show, backups, delete-backup
indexes.py   add-index, change-index
data.py      dump, load, diff-data, backup, restore
dumps.py     where dump writes to, and load reads from
rekey.py     rekey
rekey_command.py  its command lines, as plan and rekey itself print them
migrate.py   migrate: new, plan, up, down, status, verify
formats.py   import, export, cloudformation, terraform, policy

`tables_group` makes the group. A system mounts the same commands with defaults of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from penstock.cli.kit.exit_codes import DIFFERENT
from penstock.cli.kit.groups import Group, sigterm_interrupts

_HERE = "penstock.cli.tables"

# name → (module:attribute, what `penstock tables --help` says of it)
COMMANDS = {
    "list": (f"{_HERE}.browse:list_tables", "List tables: status, items, size, billing and indexes."),
    "show": (f"{_HERE}.browse:show", "Show one table with all its settings."),
    "plan": (f"{_HERE}.schema:plan", "Show what apply would do, and what it costs."),
    "apply": (f"{_HERE}.schema:apply", "Make the tables as they are defined."),
    "verify": (f"{_HERE}.schema:verify", "Compare live tables with their definitions."),
    "doctor": (f"{_HERE}.schema:doctor", "Find known mistakes in definitions and in stored items."),
    "orphans": (f"{_HERE}.orphans:orphans", "List tables that Penstock made and no definition names."),
    "destroy": (f"{_HERE}.schema:destroy", "Delete tables, by their exact names."),
    "add-index": (f"{_HERE}.indexes:add_index", "Check a table's items, add one index, and wait for it."),
    "change-index": (
        f"{_HERE}.indexes:change_index",
        "Give an index another key or projection, with no gap in queries.",
    ),
    "rekey": (f"{_HERE}.rekey", "Change a table's primary key, with its data."),
    "migrate": (f"{_HERE}.migrate", "Bring items into a new shape, while the table is in use."),
    "dump": (f"{_HERE}.data:dump", "Write tables to a folder, a file, S3 or stdout."),
    "load": (f"{_HERE}.data:load", "Load what dump has written."),
    "diff-data": (f"{_HERE}.data:diff_data", "Compare the items of two tables."),
    "backup": (f"{_HERE}.data:backup", "Make a DynamoDB backup of one table, and wait until it can be used."),
    "backups": (f"{_HERE}.browse:backups", "List backups."),
    "delete-backup": (f"{_HERE}.browse:delete_backup", "Delete one backup."),
    "restore": (f"{_HERE}.data:restore", "Restore a table with all its settings, and verify it."),
    "import": (f"{_HERE}.formats:import_tables", "Read live tables into definitions, to adopt them."),
    "export": (f"{_HERE}.formats:export", "Write the definitions of live tables to a folder."),
    "cloudformation": (f"{_HERE}.formats:cloudformation", "Write the tables as a CloudFormation template."),
    "terraform": (f"{_HERE}.formats:terraform", "Write the tables as Terraform resources."),
    "policy": (f"{_HERE}.formats:policy", "Write the least IAM policy for commands and tables."),
}
SECTIONS = {
    "Live tables": ("list", "show"),
    "Definitions": ("plan", "apply", "verify", "doctor", "orphans", "destroy", "add-index", "change-index", "rekey"),
    "Items": ("migrate", "dump", "load", "diff-data"),
    "Backups": ("backup", "backups", "restore", "delete-backup"),
    "Formats": ("import", "export", "cloudformation", "terraform", "policy"),
}
SYNONYMS = {
    "describe": ("show",),
    "ls": ("list",),
    "diff": ("plan", "verify", "diff-data"),
    "drift": ("plan", "verify"),
}

_HELP = """Tables as code: plan, apply, verify and export them.

DEFINITIONS is module:attribute, a folder of exported JSON, a CloudFormation template, the output of
`terraform show -json` or `aws dynamodb describe-table`, or a system's name (construction-expenses).

\b
Examples:
  penstock tables plan mytables:all --db tables.db
  penstock tables apply mytables:all --db aws://us-east-1 --env staging
  penstock tables verify infrastructure/schemas --db http://127.0.0.1:8000

A table has the name of its definition; --prefix and --env put a prefix before it.
"""

Defaults = Callable[[Mapping[str, str]], Mapping[str, Mapping[str, Any]]]
"""Of the environment's variables: command → parameter → value, for parameters that the command line leaves out."""


class TablesGroup(Group):
    """The commands, with defaults that are read when one of them is used. SIGTERM ends them as Ctrl-C does."""

    def __init__(self, *args: Any, defaults: Defaults | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.defaults = defaults

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        ctx = super().make_context(*args, **options)
        if self.defaults is not None:
            ctx.default_map = {name: dict(values) for name, values in self.defaults(os.environ).items()}
        return ctx

    def invoke(self, ctx: click.Context) -> object:
        with sigterm_interrupts():
            return super().invoke(ctx)


def tables_group(defaults: Defaults | None = None, *, help: str = _HELP) -> Group:
    """The group `tables`. A system gives `defaults`, and a help that says what they are."""
    return TablesGroup(
        "tables",
        defaults=defaults,
        help=help,
        lazy=COMMANDS,
        sections=SECTIONS,
        synonyms=SYNONYMS,
        exit_codes={DIFFERENT: "different (verify, diff-data; plan and doctor with --exit-code)"},
    )


command = tables_group()
