"""Options that commands share, and the question before a change.

1. --db is the database: on the command line, else by a system's own variables, else by PENSTOCK_DB, else a default.
2. PENSTOCK_URL is the old name of PENSTOCK_DB. A command that would have read it fails.
3. Nothing is changed without a question. Without a terminal to ask on, --yes is needed.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from penstock.cli.kit.completion import complete_targets
from penstock.cli.kit.exit_codes import INTERRUPTED, USAGE

F = TypeVar("F", bound=Callable[..., Any])

DB_VARIABLE = "PENSTOCK_DB"
OLD_DB_VARIABLE = "PENSTOCK_URL"
FILES_VARIABLE = "PENSTOCK_FILES"
TARGETS = "a file, :memory:, http://127.0.0.1:8000, or aws://eu-west-2"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too, and no progress.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do it without asking.")
files_option = click.option(
    "--files", envvar=FILES_VARIABLE, metavar="PLACE",
    help=f"Where files are: a folder, or s3://bucket/prefix. Also {FILES_VARIABLE}.",
)  # fmt: skip
limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most this many."
)
token_option = click.option("--token", metavar="TOKEN", help="Where the previous page ended.")
out_file_option = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A file; else it is printed."
)


def db_option(
    *,
    required: bool = True,
    default: str | Callable[[], str] | None = None,
    seed: Callable[[Mapping[str, str]], str | None] | None = None,
    help: str = "The database",
    note: str = "",
) -> Callable[[F], F]:
    """--db TARGET, given to the command as `target` (1).

    `seed` reads a system's own variables; `default` is taken where nothing names a database. Without a default, a
    missing target is an error, or None where it is not `required`.
    """

    def resolve(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if ctx.resilient_parsing:
            return value
        target = value or (seed(os.environ) if seed is not None else None) or database_variable(os.environ)
        if target is None and default is not None:
            target = default() if callable(default) else default
        if target is None and required:
            raise no_target(ctx)
        return target if target is None else check_target(target)

    said = f"{help}: {TARGETS}. Also {DB_VARIABLE}." + (f" {note}" if note else "")
    return click.option(
        "--db", "target", metavar="TARGET", callback=resolve, help=said, shell_complete=complete_targets
    )


def no_target(ctx: click.Context) -> click.UsageError:
    """The error where a database is needed and none is named."""
    return click.UsageError(f"Which database? Give --db, or set {DB_VARIABLE}: {TARGETS}.", ctx)


def check_target(target: str) -> str:
    """The target, unless it names an endpoint without http://, which would be a new file."""
    from penstock.client.transports import endpoints

    if "://" not in target:
        endpoints.parse(target)
    return target


def refuse_host(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of another option that names a database."""
    return check_target(value) if value and not ctx.resilient_parsing else value


def check_name_part(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The callback of an option that becomes a part of tables' names: refused here, it is refused before all work."""
    from penstock.tables.definitions.problems import NAME_MEND, has_name_characters

    if value and not has_name_characters(value):
        raise click.BadParameter(f"{value!r} is to be a part of tables' names. {NAME_MEND}.", ctx, param)
    return value


unused_db_option = click.option("--db", metavar="TARGET", expose_value=False, help="Not needed: no database is asked.")


def database_variable(environment: Mapping[str, str]) -> str | None:
    """The database that PENSTOCK_DB names; raises for its old name (2)."""
    if environment.get(OLD_DB_VARIABLE) and not environment.get(DB_VARIABLE):
        raise click.UsageError(f"{OLD_DB_VARIABLE} is not read any more: set {DB_VARIABLE}.")
    return environment.get(DB_VARIABLE) or None


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


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def place_options(make: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Any]:
    """Options that say where something is, given to the command as one `place`: what `make` makes of their values."""
    names = tuple(inspect.signature(make).parameters)

    def decorate(function: Callable[..., None]) -> Any:
        @wraps(function)
        def with_place(**values: Any) -> None:
            place = make(**{name: values.pop(name) for name in names})
            function(place=place, **values)

        decorated: Any = with_place
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


class AgeType(click.ParamType[float]):
    """`90`, `15m`, `24h`, `7d`: seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        if match is None:
            self.fail(f"{value!r} is no age: write 90 (seconds), 15m, 24h or 7d", param, ctx)
        return float(int(match.group(1)) * _SECONDS[match.group(2)])


def parse_value(text: str) -> Any:
    """A value as people write it: JSON (`0`, `true`, `"0"`, `{"a": 1}`), or else the text itself."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return Decimal(text) if isinstance(value, float) else value


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """`NAME=VALUE`, several of them."""
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} is NAME=VALUE, such as {option} Processed=1; not {text!r}.")
        pairs[name] = parse_value(value)
    return pairs


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the answer is yes, else ends with exit code 2 (3); Ctrl-C ends with 130."""
    if yes:
        return
    if not has_terminal():
        raise click.UsageError(f"{question} Give --yes to do it; there is no terminal to ask on.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C, on the line of the question
        click.echo("\nInterrupted: nothing was changed.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not agreed:
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(USAGE)


def has_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def same_command() -> str:
    """The command line of this process, to be shown."""
    return shlex.join(["penstock", *sys.argv[1:]])


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Ctrl-C keeps what was done, and says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nInterrupted: {what} To continue, run it again:\n  {same_command()}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
