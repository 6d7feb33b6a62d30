"""Command lines of `penstock tables rekey`, complete: to be pasted as they are printed."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import click

from penstock.tables.plan.changes import ReplaceTable
from penstock.tables.plan.survey import Survey
from penstock.tables.rekey.new_table import option_words, options_for


def rekey_line(target: str, action: str, source: str, *words: str) -> str:
    """`penstock tables rekey confirm orders --db shop.db`; without an action, the one that begins or continues it."""
    return shlex.join(["penstock", "tables", "rekey", *filter(None, [action]), source, *words, "--db", target])


def destroy_lines(target: str, table: str) -> dict[str, str]:
    """How a table is deleted that no definition may name any more: its definition is read, and then destroyed."""
    folder = f"old-{table}"
    read = ["import", table, "--as", "json", "--out", folder, "--db", target]
    lines = {"read": read, "destroy": ["destroy", folder, "--db", target]}
    return {name: shlex.join(["penstock", "tables", *words]) for name, words in lines.items()}


def rekey_advice(survey: Survey) -> dict[str, str]:
    """For each table that cannot be altered: the command that carries its items over into one that is as defined."""
    target = click.get_current_context().params.get("target")
    names = {one.name for one in survey.tables}
    advice = {}
    for one in survey.tables:
        for change in one.plan.changes:
            if isinstance(change, ReplaceTable) and target:
                options = option_words(options_for(change.live, change.table))
                advice[one.name] = rekey_line(target, "", one.name, "--into", free_name(one.name, names), *options)
    return advice


def free_name(name: str, taken: Collection[str]) -> str:
    """`orders-2`, or the next number that is free."""
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
