"""What every group of commands says and asks in the same way: JSON, confirmation, and how to go on after Ctrl-C."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import orjson

from penstock.cli.lazy import INTERRUPTED

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and no progress.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do it without asking.")


def show_json(form: Any) -> None:
    click.echo(orjson.dumps(form, option=orjson.OPT_INDENT_2))


@contextmanager
def continued(what: str) -> Iterator[None]:
    """Ctrl-C leaves what was done, and says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["penstock", *sys.argv[1:]])
        click.echo(f"\nInterrupted: {what} To go on, run it again:\n  {again}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def confirmed(question: str, *, yes: bool) -> None:
    """Goes on, or ends with exit code 2: nothing is changed unasked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes to do it; there is no terminal to ask on.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(2)
