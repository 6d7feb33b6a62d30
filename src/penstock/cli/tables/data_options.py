"""What the commands that move data share: options, a line of progress, and how they end when interrupted."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import orjson

from penstock.client.database import Database, connect
from penstock.client.pacing import Pacer

F = TypeVar("F", bound=Callable[..., Any])

_EVERY_SECONDS = 0.2
INTERRUPTED = 130

url_option = click.option(
    "--url",
    required=True,
    envvar="PENSTOCK_URL",
    metavar="URL",
    help="The database: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and no progress.")
rate_option = click.option(
    "--rate", type=click.FloatRange(min=1), metavar="UNITS", help="At most so many capacity units a second, per table."
)
yes_option = click.option("--yes", is_flag=True, help="Do it without asking.")


def pacer_of(db: Database, rate: float | None) -> Pacer | None:
    """A fixed rate; else one learnt from throttles. The embedded engine needs none."""
    if rate is not None:
        return Pacer(rate)
    return None if db.batch_workers == 1 else Pacer()


@contextmanager
def opened(url: str) -> Iterator[Database]:
    with connect(url) as db:
        yield db


@contextmanager
def continued(what: str) -> Iterator[None]:
    """Ctrl-C leaves what was done, and says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        again = shlex.join(["penstock", *sys.argv[1:]])
        click.echo(f"\nInterrupted: {what} To go on, run it again:\n  {again}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


class Line:
    """One line on the terminal that says how far a piece of work is; nothing where there is no terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = sys.stderr.isatty() and not quiet
        self._began_at = time.monotonic()
        self._told_at = 0.0
        self._length = 0

    def items(self, done: int, total: int) -> None:
        """`120,000 of 200,000 items, 31,000 a second`."""
        now = time.monotonic()
        if self._shown and now - self._told_at >= _EVERY_SECONDS:
            self._told_at = now
            rate = done / max(now - self._began_at, 0.001)
            self._write(f"{done:,} of {total:,} items, {rate:,.0f} a second")

    def tell(self, text: str) -> None:
        if self._shown:
            self._write(text)

    def end(self) -> None:
        if self._shown and self._length:
            self._write("")
            click.echo("\r", nl=False, err=True)

    def _write(self, text: str) -> None:
        click.echo("\r" + text.ljust(self._length), nl=False, err=True)
        self._length = len(text)


def show_json(form: Any) -> None:
    click.echo(orjson.dumps(form, option=orjson.OPT_INDENT_2))


def confirmed(question: str, *, yes: bool) -> None:
    """Goes on, or ends with exit code 2: nothing is destroyed unasked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes to do it.")
    if not click.confirm(question):
        click.echo("Nothing was done.")
        raise click.exceptions.Exit(2)
