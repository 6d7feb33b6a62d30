"""The gate before a change of tables.

1. Nothing is changed without a question; --yes answers it.
2. What destroys something (`is_destructive`) needs --allow-destroy, or the table's name typed on a terminal. --yes
   alone is refused, on a terminal too: who writes it into a script has not seen the plan that it will meet.
3. A refusal changes nothing at all, ends with 2 (not confirmed), and gives the complete command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import click

from penstock.cli.kit.exit_codes import INTERRUPTED, USAGE, CommandFailed
from penstock.cli.kit.options import confirm, has_terminal, same_command
from penstock.cli.tables.options import ChangeOptions
from penstock.tables.plan.changes import describe_whole
from penstock.tables.plan.plan import Plan

NOT_CONFIRMED: Final = {USAGE: "called wrongly, or not confirmed: what destroys something needs --allow-destroy"}

allow_destroy_option = click.option(
    "--allow-destroy", is_flag=True,
    help="Also make changes that destroy something; --yes alone refuses them.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loss:
    """A thing that loses something, by the name that is typed for it: a table, a backup."""

    noun: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"  {self.name}: {self.text}"


def losses_of(plan: Plan) -> tuple[Loss, ...]:
    """The tables that a plan takes something from."""
    doomed = [table for table in plan.tables if table.destructive]
    return tuple(Loss("table", one.name, ", ".join(map(describe_whole, one.destructive))) for one in doomed)


def confirm_changes(plan: Plan, question: str, options: ChangeOptions) -> None:
    """Returns if the plan may be carried out (1, 2); else ends with exit code 2, and with 130 after Ctrl-C."""
    confirm_losses(losses_of(plan), question, yes=options.yes, allow_destroy=options.allow_destroy)


def confirm_losses(losses: Sequence[Loss], question: str, *, yes: bool, allow_destroy: bool) -> None:
    """The same for what is no plan."""
    if not losses or allow_destroy:
        confirm(question, yes=yes)
    elif yes or not has_terminal():
        _refuse(losses, yes=yes)
    else:
        _ask_for_names(losses, question)


def refuse_before_work(plan: Plan, options: ChangeOptions, otherwise: str) -> None:
    """For a command that does something else first: refuses at once what `confirm_changes` would refuse later."""
    losses = losses_of(plan)
    if losses and options.yes and not options.allow_destroy:
        _refuse(losses, yes=True, otherwise=otherwise)


def _refuse(losses: Sequence[Loss], *, yes: bool, otherwise: str = "") -> NoReturn:
    command = f"{same_command()} {'--allow-destroy' if yes else '--yes --allow-destroy'}"
    reason = "--yes alone does not allow that." if yes else "There is no terminal to ask on."
    lines = [f"Nothing was changed: this destroys something. {reason}", *map(str, losses), "To do it anyway:"]
    text = "\n".join([*lines, f"  {command}", *([otherwise] if otherwise else [])])
    raise CommandFailed(USAGE, text, command)


def _ask_for_names(losses: Sequence[Loss], question: str) -> None:
    click.echo("\n".join([question, "This destroys something:", *map(str, losses)]), err=True)
    for one in losses:
        prompt = f"Type the {one.noun}'s name, {one.name}, to do it"
        try:
            typed = click.prompt(prompt, default="", show_default=False, err=True).strip()
        except click.Abort:  # Ctrl-C, on the line of the question
            click.echo("\nInterrupted: nothing was changed.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        if typed != one.name:
            click.echo(f"Nothing was changed: {typed!r} is not {one.name}.", err=True)
            raise click.exceptions.Exit(USAGE)
