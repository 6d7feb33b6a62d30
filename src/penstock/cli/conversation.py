"""What every group of commands says and asks in the same way: JSON, confirmation, and how to go on after Ctrl-C."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import orjson

from penstock.cli.lazy import INTERRUPTED

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and no progress.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do it without asking.")


def listen_options(default_port: int) -> Callable[[F], F]:
    """--host and --port of a command that serves."""

    def decorate(function: F) -> F:
        port = click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=default_port,
            show_default=True,
            help="The port to listen on; 0 picks a free one.",
        )
        host = click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
        return host(port(function))

    return decorate


class Ended(click.ClickException):
    """An error with an exit code of its own."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.code


def show_json(form: Any) -> None:
    click.echo(orjson.dumps(form, option=orjson.OPT_INDENT_2).decode())


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
